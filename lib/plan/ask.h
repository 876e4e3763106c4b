/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_ASK_H
#define PLAN_ASK_H

#include "plan/plan.h"

/* The question paro-plan puts, as typed: files by name, defaults not yet filled in. */
struct plan_ask {
    const char *model, *topo; /* borrowed: what model_read and topo_read take */
    int fixed;                /* strategy was given */
    struct plan_strategy strategy;
    enum schedule_algo algo;
    int64_t memory_bytes;       /* 0: the fabric's */
    int64_t micro_batch, accum; /* 0: auto */
    int64_t seq;                /* 0: PLAN_SEQ, or the model's maximum if that is less */
    double trained_part;        /* fraction of the parameters, above 0; or */
    int64_t trained;            /* their number, above 0 */
    enum dtype param_type, wire_type, grad_type, compute_type;
    enum plan_slow slow_params, slow_grads;
    int64_t prefetch, buckets;
    int keep, recompute; /* as in struct plan */
};

#define PLAN_ASK_INIT                                                                          \
    {                                                                                          \
        .topo = "-", .algo = SCHEDULE_AUTO, .micro_batch = 1, .accum = 1, .trained_part = 1,   \
        .param_type = DTYPE_BF16, .wire_type = DTYPE_BF16, .grad_type = DTYPE_F32,             \
        .prefetch = PLAN_PREFETCH, .buckets = PLAN_BUCKETS                                     \
    }

#define PLAN_ASK_MEMORY_MAX INT64_C(1000000000000000000) /* bytes */

/* Words of options.  A count or "auto" (0); "all", a fraction, "params=COUNT"; bf16 or f32. */
int plan_ask_batch(const char *text, int64_t *out, struct err *err);
int plan_ask_trainable(const char *text, struct plan_ask *ask, struct err *err);
int plan_ask_type(const char *text, enum dtype *out, struct err *err);

enum plan_ask_form { PLAN_ASK_YAML = 0, PLAN_ASK_LIST = 1, PLAN_ASK_JSON = 2 }; /* bits */

/*
 * Reads, searches, prints the plan or the list.  *found 0: nothing feasible, err says why (a
 * list is printed all the same, a plan is not).
 */
int plan_ask_answer(const struct plan_ask *ask, int form, FILE *out, int *found,
                    struct err *err);

#endif
