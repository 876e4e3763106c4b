/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_WHAT_IF_H
#define PLAN_PLAN_WHAT_IF_H

#include "plan/plan.h"

/* The figures that may turn out otherwise. */
enum plan_dial {
    PLAN_DIAL_SLOW,   /* rate of the slow tier, by its slowest port, bytes per s */
    PLAN_DIAL_ACCUM,  /* micro-steps of a global step */
    PLAN_DIAL_MEMORY, /* of a rank, bytes */
    PLAN_DIALS
};

/* The dial turned one way from where it stands, and the first change of the winner there. */
struct plan_change {
    int searched; /* 0: a global batch fixes it */
    double bound; /* looked at so far */
    int found;
    double at;  /* the nearest value from which on another wins */
    int winner; /* index into the list of 27, or -1: nothing fits */
    int level;  /* where its groups end (plan_search_level) */
    /* Where another wins at the end of the step in which that was found: from where on, or NAN;
       strategies may be that near to each other. */
    double then_at;
    int then_winner, then_level;
};

struct plan_changes {
    double now[PLAN_DIALS];               /* infinite: no limit of memory is known */
    struct plan_change of[PLAN_DIALS][2]; /* less, more */
};

enum {
    PLAN_WHAT_IF_TIMES = 1024, /* rates and memory: so many times less and more; */
    PLAN_WHAT_IF_ACCUM = 4096  /* micro-steps: up to so many */
};

/*
 * Takes a search that is done, over all strategies and everything else that it searched; the
 * same strategy with its groups elsewhere is another winner.  The slow tier is all levels above
 * the groups chosen, in the whole fabric, whatever becomes of the groups.  A range in which
 * another wins is missed where it is narrower than a step of 9 % (accum: of one).
 */
void plan_what_if(const struct plan_search *s, struct plan_changes *out);
void plan_what_if_print(const struct plan_search *s, const struct plan_changes *w, FILE *out);
void plan_what_if_print_json(const struct plan_search *s, const struct plan_changes *w,
                             FILE *out);

#endif
