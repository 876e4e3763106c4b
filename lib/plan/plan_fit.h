/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_FIT_H
#define PLAN_PLAN_FIT_H

#include "plan/plan.h"

/* The smallest fabric of such groups on which a strategy fits. */
struct plan_fit {
    int fits;
    int groups, ranks;             /* level 0 of that fabric, or of the largest one tried */
    struct plan_strategy strategy; /* the one that fits, or the one that needs least there */
    struct plan_memory memory;     /* its memory */
};

/* Settings that would need less memory and were not requested. */
struct plan_relief {
    int recompute, batch, keep; /* recompute layers; one sequence per micro-batch; keep no
                                   gathered units */
    int layered;                /* one micro-batch per micro-step */
};

struct plan_advice {
    struct plan_fit as_requested;
    struct plan_relief relief; /* considered if nothing fits with the requested settings */
    struct plan_fit relieved;
};

/*
 * Takes a search in which nothing fits.  With each `auto` at its least, finds the smallest
 * number of groups with which something fits, by doubling and bisection, up to GROUPS_RANKS_MAX
 * ranks or until more groups are seen not to help.
 */
void plan_fit(const struct plan_search *s, struct plan_advice *out);
/* Sets err to one line: the limit, where it would fit, and what would help; returns -1. */
int plan_fit_refuse(const struct plan_search *s, const struct plan_advice *a, struct err *err);

struct jout;
/* Prints "fits_on" and "fits_on_relieved", null if nothing fits on any size. */
void plan_put_advice(struct jout *j, const struct plan_advice *a);

#endif
