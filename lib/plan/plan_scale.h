/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_SCALE_H
#define PLAN_PLAN_SCALE_H

#include "plan/plan.h"

enum {
    PLAN_SCALE_MAX = 1 << 16,
    PLAN_SCALE_POINTS = 17
}; /* ranks; 1, 2, 4, ... of them, and the last */

/*
 * The strategies as the fabric grows: its groups repeated in their order and with their ports,
 * blocks of groups too; the last group has the ranks that remain.  A rank's batch stays as it
 * is, or with a global batch the step's does.  All predicted.
 */
struct plan_scale {
    int from, to; /* ranks: from, twice as many, ..., to */
    int points;
    struct plan_scale_point {
        int ranks, groups;
        int level;                 /* where the groups end, as plan_search_level */
        struct plan_search search; /* done; without its fabric, which is gone */
    } point[PLAN_SCALE_POINTS];
    unsigned survives; /* 1 << strategy: fits and is not dominated, at one point at least */
};

/* "16..4096": from, to. */
int plan_scale_parse(const char *text, int ranks[2], struct err *err);
/* Searches at each point as `asked` is to; fills points and survives. */
int plan_scale_run(struct plan_scale *s, const struct plan_search *asked, struct err *err);
/* Whether anything fits at any point. */
int plan_scale_found(const struct plan_scale *s);
void plan_scale_print(const struct plan_scale *s, FILE *out);
void plan_scale_print_json(const struct plan_scale *s, FILE *out); /* paro.plan.scale/1 */
void plan_scale_draw(const struct plan_scale *s, FILE *out);       /* SVG */

#endif
