/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_ROWS_H
#define PLAN_ROWS_H

#include "plan/plan.h"
#include "plan/traffic.h"

/* The rows of a step (step/step.h), and what they were made of. */
struct plan_rows {
    struct step step;
    struct step_shape shape;
    int *unit_of; /* owned, the shape's */
    char *trains; /* owned, the shape's */
};

/* Of one strategy, with so many micro-steps. */
void plan_rows_init(struct plan_rows *r, const struct plan_bill *b, int micros);
void plan_rows_release(struct plan_rows *r);
/* Of the best of a search, which there is, verified: as a table, or as paro.plan.steps/1. */
int plan_rows_print(const struct plan_search *s, int json, FILE *out, struct err *err);

#endif
