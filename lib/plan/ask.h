/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_ASK_H
#define PLAN_ASK_H

#include "plan/emit.h"
#include "plan/plan.h"

enum plan_ask_what {
    PLAN_ASK_PLAN,
    PLAN_ASK_LIST,
    PLAN_ASK_WHY,
    PLAN_ASK_WHAT_IF,
    PLAN_ASK_CHECK,
    PLAN_ASK_EMIT,
    PLAN_ASK_TIMELINE,
    PLAN_ASK_SCALE
};

/* The question paro-plan puts, as typed: files by name, defaults not yet filled in. */
struct plan_ask {
    enum plan_ask_what what;
    int json, svg;
    const char *model, *topo; /* borrowed: what model_read and topo_read take */
    int from, to;             /* ranks, of PLAN_ASK_SCALE */
    const char *log, *plan;   /* borrowed: what plan_check takes */
    enum plan_target target;  /* of PLAN_ASK_EMIT */
    int fixed;                /* strategy was given */
    struct plan_strategy strategy;
    enum schedule_algo algo;
    int64_t memory_bytes;       /* 0: the fabric's */
    int64_t micro_batch, accum; /* 0: auto */
    int64_t seq;                /* 0: PLAN_SEQ, or the model's maximum if that is less */
    const char *trains;         /* what trains, as model_train takes it; borrowed; or, NULL: */
    double trained_part;        /* fraction of the parameters, above 0; or */
    int64_t trained;            /* their number, above 0: priced, not to be run */
    enum dtype param_type, wire_type, grad_type;
    enum plan_slow slow_params, slow_grads;
    int64_t prefetch, buckets;
    int compute_type, device; /* enum dtype, enum device_kind; PLAN_ASK_FABRIC */
    int keep, recompute;      /* as in struct plan; PLAN_ASK_AUTO */
    int group_level;          /* a boundary (topo_boundary.h), or PLAN_ASK_AUTO */
    double storage_Bps;       /* 0: not told */
};

#define PLAN_ASK_INIT                                                                          \
    {                                                                                          \
        .topo = "-", .algo = SCHEDULE_AUTO, .micro_batch = 1, .accum = 1, .trained_part = 1,   \
        .param_type = DTYPE_BF16, .wire_type = DTYPE_BF16, .grad_type = DTYPE_F32,             \
        .prefetch = PLAN_PREFETCH, .buckets = PLAN_BUCKETS, .group_level = PLAN_ASK_AUTO,      \
        .compute_type = PLAN_ASK_FABRIC, .device = PLAN_ASK_FABRIC                             \
    }

#define PLAN_ASK_MEMORY_MAX INT64_C(1000000000000000000) /* bytes */

enum { PLAN_ASK_AUTO = PLAN_BOUNDARY_AUTO, PLAN_ASK_FABRIC = -1 /* as it was measured */ };

/* Words of options.  A count or "auto" (0); what model_train takes, a fraction,
   "params=COUNT". */
int plan_ask_batch(const char *text, int64_t *out, struct err *err);
int plan_ask_trainable(const char *text, struct plan_ask *ask, struct err *err);
/* What plan_keep_parse takes, or auto; yes (or NULL), no, auto. */
int plan_ask_keep(const char *text, int *out, struct err *err);
int plan_ask_recompute(const char *text, int *out, struct err *err);
/* A boundary from 0, or auto; a rate as 2GB/s. */
int plan_ask_level(const char *text, int *out, struct err *err);
int plan_ask_storage(const char *text, double *out_Bps, struct err *err);

enum { PLAN_NOTE = 200 };

/*
 * Reads, searches, prints what is asked for.  note: a line on what the answer rests on, or "".
 * *found 0: the answer is no, and err says why:
 * nothing feasible (tables of all strategies are printed all the same, a plan is not), or a
 * run's bytes are not those of its plan.
 */
int plan_ask_answer(const struct plan_ask *ask, FILE *out, char note[PLAN_NOTE], int *found,
                    struct err *err);

#endif
