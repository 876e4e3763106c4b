/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_SCALE_H
#define PLAN_PLAN_SCALE_H

#include "plan/plan.h"

enum {
    PLAN_SCALE_MAX = 1 << 16,
    PLAN_SCALE_POINTS = 17
}; /* rank counts: 1, 2, 4, ... times the first, and the last */

/*
 * The strategies as the fabric grows: its groups, and blocks of groups, are repeated in order
 * with their ports; the last group has the remaining ranks.  The batch of a rank stays
 * constant, or, with a global batch, the step's.  All figures are predictions.
 */
struct plan_scale {
    int from, to; /* rank counts from, 2 * from, ..., to */
    int points;
    struct plan_scale_point {
        int ranks, groups;
        int level;                 /* boundary of the groups, as plan_search_level */
        struct plan_search search; /* the finished search; its fabric is released */
    } point[PLAN_SCALE_POINTS];
    unsigned survives; /* bits 1 << strategy: fits and is not dominated, at one point at
                          least */
};

/* Parses "16..4096": from, to. */
int plan_scale_parse(const char *text, int ranks[2], struct err *err);
/* Runs the search `requested` at each point; fills points and survives. */
int plan_scale_run(struct plan_scale *s, const struct plan_search *requested, struct err *err);
/* Returns whether anything fits at any point. */
int plan_scale_found(const struct plan_scale *s);
void plan_scale_print(const struct plan_scale *s, FILE *out);
void plan_scale_print_json(const struct plan_scale *s, FILE *out); /* paro.plan.scale/1 */
void plan_scale_draw(const struct plan_scale *s, FILE *out);       /* SVG */

#endif
