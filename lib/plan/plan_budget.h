/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_BUDGET_H
#define PLAN_PLAN_BUDGET_H

#include <stdio.h>

#include "base/err.h"

/*
 * The time and the money that a run takes: hours = tokens / (tokens/s of steps that are not
 * lost) / 3600, cost = hours * hosts (or ranks) * price.
 */
enum { PLAN_CURRENCY = 16, PLAN_BUDGET_TEXT = 160 };

struct plan_budget {              /* hosts 0: neither tokens nor a price was given */
    double tokens;                /* of the whole run; 0: not given */
    double price;                 /* of an hour of each host, or rank; 0: not given */
    int per_rank;                 /* 1: price is a rank's */
    char currency[PLAN_CURRENCY]; /* "": not given */
    int hosts;
    double hours, cost, million_cost; /* million_cost: of 1e6 tokens; 0 or NAN: unknown */
};

struct plan_case;
struct plan_price;
struct units;
/* Parses "32.77/h", "32.77 USD/host/h" or "2.10EUR/rank/h"; sets the other members to 0. */
int plan_budget_parse(const char *text, struct plan_budget *b, struct err *err);
/* Fills p->budget of a price whose times and failures are known. */
void plan_budget_set(const struct plan_case *c, struct plan_price *p);
/* A number of hours or of money, or "?". */
const char *plan_budget_number(struct units *u, double v);
/* "20.0 G tokens in 41.66 h for 21843 USD, ..."; "" if neither tokens nor a price was given. */
const char *plan_budget_print(const struct plan_price *p, char text[PLAN_BUDGET_TEXT]);
/* Prints the requested columns, with a blank before each: their heads or a row. */
void plan_budget_put(const struct plan_budget *b, int heads, FILE *out);

#endif
