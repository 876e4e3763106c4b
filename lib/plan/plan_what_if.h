/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_WHAT_IF_H
#define PLAN_PLAN_WHAT_IF_H

#include "plan/plan.h"

/* Figures that may turn out different. */
enum plan_dial {
    PLAN_DIAL_SLOW,    /* rate of the slow tier, by its slowest port, bytes per s */
    PLAN_DIAL_ACCUM,   /* micro-steps of a global step */
    PLAN_DIAL_MEMORY,  /* memory of a rank, bytes */
    PLAN_DIAL_MOMENTS, /* how moments are stored: 3 f32, 2 bf16, 1 int8 */
    PLAN_DIALS
};

/* The dial turned in one direction, and the first change of the winner. */
struct plan_change {
    int searched; /* 0: not searched, because a global batch fixes it */
    double bound; /* last value tried */
    int found;
    double at;  /* nearest value at which another wins */
    int winner; /* index into the list of 27, or -1: nothing fits */
    int level;  /* boundary of its groups (plan_search_level) */
    /* If yet another strategy wins at the end of the step in which the change was found: the
       value from which it wins, or NAN; strategies may be so close to each other. */
    double then_at;
    int then_winner, then_level;
};

struct plan_changes {
    double now[PLAN_DIALS];               /* infinite: no memory limit is known */
    struct plan_change of[PLAN_DIALS][2]; /* less, more */
};

enum {
    PLAN_WHAT_IF_TIMES = 1024, /* largest factor tried, either way, for rates and memory */
    PLAN_WHAT_IF_ACCUM = 4096  /* most micro-steps tried */
};

/*
 * Takes a finished search over all strategies and its other choices; the same strategy with
 * other groups counts as another winner.  The slow tier is all levels above the chosen groups,
 * in the whole fabric, whichever groups then win.  A range in which another wins is missed if
 * it is narrower than a step of 9 % (accum: of one).
 */
void plan_what_if(const struct plan_search *s, struct plan_changes *out);
void plan_what_if_print(const struct plan_search *s, const struct plan_changes *w, FILE *out);
void plan_what_if_print_json(const struct plan_search *s, const struct plan_changes *w,
                             FILE *out);

#endif
