/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_WHY_H
#define PLAN_PLAN_WHY_H

#include "plan/plan.h"

/* Why a strategy was not chosen, at the chosen batch. */
enum plan_binding {
    PLAN_BINDS_SLOW = PLAN_SLOW, /* slower; this term matters most */
    PLAN_BINDS_FAST = PLAN_FAST,
    PLAN_BINDS_COMPUTE = PLAN_COMPUTE,
    PLAN_BINDS_UPDATE = PLAN_UPDATE,
    PLAN_BINDS_MEMORY,   /* does not fit */
    PLAN_BINDS_TOGETHER, /* slower; removing no single term brings it closer */
    PLAN_BINDS_TIE,      /* as fast, but needs more memory, sends more, or comes later */
    PLAN_BINDS_CHOICE,   /* better, but another one was requested */
    PLAN_BINDS_NOTHING,  /* it is the chosen one */
    PLAN_BINDINGS
};

struct plan_reason {
    enum plan_binding binding;
    double over_bytes;                   /* memory beyond a rank's; 0: fits */
    double behind_s;                     /* its step less the chosen one's */
    double behind_without_s[PLAN_TERMS]; /* that difference if a term took no time in either */
};

struct plan_why {
    struct plan_reason of[PLAN_STRATEGIES]; /* behind...: 0 if nothing is chosen */
    int second;                             /* the best feasible one apart from the chosen one,
                                               or -1 */
};

/* Takes a finished search. */
void plan_why(const struct plan_search *s, struct plan_why *out);
void plan_why_print(const struct plan_search *s, const struct plan_why *w, FILE *out);
void plan_why_print_json(const struct plan_search *s, const struct plan_why *w, FILE *out);

#endif
