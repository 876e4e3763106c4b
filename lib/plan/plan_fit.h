/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_FIT_H
#define PLAN_PLAN_FIT_H

#include "plan/plan.h"

/* The smallest fabric of the same groups on which a strategy fits. */
struct plan_fit {
    int fits;
    int groups, ranks;             /* of level 0, of that fabric; or of the largest looked at */
    struct plan_strategy strategy; /* that fits; or that needs least there */
    struct plan_memory memory;     /* of it */
};

/* Settings that would need less memory and were not given. */
struct plan_relief {
    int recompute, batch, keep; /* run layers again; one sequence; none kept */
    int layered;                /* one micro-batch at a time */
};

struct plan_advice {
    struct plan_fit as_asked;
    struct plan_relief relief; /* looked at where nothing fits as it was asked */
    struct plan_fit relieved;
};

/*
 * Takes a search that found nothing that fits: finds, with each `auto` at its least, the least
 * number of groups at which something fits, by doubling and then halving; up to
 * GROUPS_RANKS_MAX ranks, or to where more groups are seen to be of no use.
 */
void plan_fit(const struct plan_search *s, struct plan_advice *out);
/* Sets err to one line that says what binds, where it would fit, what would help; returns -1.
 */
int plan_fit_refuse(const struct plan_search *s, const struct plan_advice *a, struct err *err);

struct jout;
/* "fits_on" and "fits_on_relieved", null where nothing fits on any. */
void plan_put_advice(struct jout *j, const struct plan_advice *a);

#endif
