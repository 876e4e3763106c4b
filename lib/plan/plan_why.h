/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_WHY_H
#define PLAN_PLAN_WHY_H

#include "plan/plan.h"

/* Why a strategy is not the one that was chosen, at the batch that was. */
enum plan_binding {
    PLAN_BINDS_SLOW = PLAN_SLOW, /* slower, and this term is what matters most */
    PLAN_BINDS_FAST = PLAN_FAST,
    PLAN_BINDS_COMPUTE = PLAN_COMPUTE,
    PLAN_BINDS_UPDATE = PLAN_UPDATE,
    PLAN_BINDS_MEMORY,   /* does not fit */
    PLAN_BINDS_TOGETHER, /* slower, and no term taken away alone brings it nearer */
    PLAN_BINDS_TIE,      /* as fast, but needs more memory, or sends more, or comes later */
    PLAN_BINDS_CHOICE,   /* better, but another one was asked for */
    PLAN_BINDS_NOTHING,  /* is the chosen one */
    PLAN_BINDINGS
};

struct plan_reason {
    enum plan_binding binding;
    double over_bytes;                   /* beyond the memory of a rank; 0: fits */
    double behind_s;                     /* its step less the chosen one's */
    double behind_without_s[PLAN_TERMS]; /* the same if a term took neither any time */
};

struct plan_why {
    struct plan_reason of[PLAN_STRATEGIES]; /* behind...: 0 where nothing is chosen */
    int second;                             /* the best feasible one but the chosen, or -1 */
};

/* Takes a search that is done. */
void plan_why(const struct plan_search *s, struct plan_why *out);
void plan_why_print(const struct plan_search *s, const struct plan_why *w, FILE *out);
void plan_why_print_json(const struct plan_search *s, const struct plan_why *w, FILE *out);

#endif
