/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_REQUEST_H
#define PLAN_PLAN_REQUEST_H

#include <math.h>

#include "plan/plan_emit.h"
#include "plan/plan.h"

enum plan_request_what {
    PLAN_REQUEST_PLAN,
    PLAN_REQUEST_LIST,
    PLAN_REQUEST_WHY,
    PLAN_REQUEST_WHAT_IF,
    PLAN_REQUEST_CHECK,
    PLAN_REQUEST_COMPARE,
    PLAN_REQUEST_EMIT,
    PLAN_REQUEST_TIMELINE,
    PLAN_REQUEST_STEPS,
    PLAN_REQUEST_SCALE
};

/* The question paro-plan puts, as typed: files by name, defaults not yet filled in. */
struct plan_request {
    enum plan_request_what what;
    int json, svg;
    const char *model, *topo; /* borrowed: what model_read and topo_read take */
    int scale[2];             /* of PLAN_REQUEST_SCALE: from, to ranks */
    const char *log;          /* borrowed: what plan_check takes */
    char *plan[2];           /* borrowed: that of the log, or those compared; NULL: not given */
    enum plan_target target; /* of PLAN_REQUEST_EMIT */
    int fixed;               /* strategy was given */
    struct plan_strategy strategy;
    enum schedule_algo algo;
    int64_t memory_bytes; /* 0: the fabric's but for headroom */
    double headroom;      /* fraction of it to leave free; NAN: PLAN_REQUEST_HEADROOM */
    /*
     * As in plans, or as ints: of micro_batch and accum 0, auto, or PLAN_REQUEST_OPEN, 1 or by
     * the global batch; of seq 0, PLAN_SEQ or the model's maximum if that is less; of keep,
     * layered, recompute and compute_type PLAN_REQUEST_AUTO; of that and of the device
     * PLAN_REQUEST_FABRIC; of param_type and wire_type PLAN_REQUEST_AUTO, of what is frozen one
     * that keeps the model's values, else bf16.  trainable above 0: priced, not to be run.
     */
    union {
        struct plan_settings settings;
        struct {
            PLAN_SETTINGS
        };
    };
    int global_tokens;   /* global_batch is in tokens; 0: in sequences */
    const char *trains;  /* the trained part, as model_train takes it; borrowed; or, NULL: */
    double trained_part; /* fraction of the parameters, above 0; or */
    int group_level;     /* a boundary (topo_boundary.h), or PLAN_REQUEST_AUTO */
    double storage_Bps;  /* 0: unknown */
    int storage_all;     /* storage_Bps is that of all hosts together */
    double mtbf_h;       /* 0: failures are not priced */
    double restart_s, local_Bps;
    int copies; /* PLAN_REQUEST_AUTO */
};

#define PLAN_REQUEST_INIT                                                                      \
    {                                                                                          \
        .topo = "-", .algo = SCHEDULE_AUTO, .headroom = NAN, .micro_batch = PLAN_REQUEST_OPEN, \
        .accum = PLAN_REQUEST_OPEN, .trained_part = 1,                                         \
        .param_type = (enum dtype)PLAN_REQUEST_AUTO,                                           \
        .wire_type = (enum dtype)PLAN_REQUEST_AUTO, .grad_type = DTYPE_F32,                    \
        .prefetch = PLAN_PREFETCH, .buckets = PLAN_BUCKETS, .layered = 1,                      \
        .compute_type = (enum dtype)PLAN_REQUEST_FABRIC,                                       \
        .device = (enum device_kind)PLAN_REQUEST_FABRIC, .chunk_bytes = PLAN_CHUNK_BYTES,      \
        .group_level = PLAN_REQUEST_AUTO, .restart_s = PLAN_RESTART_S,                         \
        .local_Bps = PLAN_LOCAL_BPS, .copies = PLAN_REQUEST_AUTO                               \
    }

#define PLAN_REQUEST_MEMORY_MIN INT64_C(1000000) /* less is a number without its unit */
#define PLAN_REQUEST_MEMORY_MAX INT64_C(1000000000000000000) /* bytes */

#define PLAN_REQUEST_HEADROOM                                                                  \
    0.1 /* for what is not counted: the runtime, libraries, fragmentation */

enum {
    PLAN_REQUEST_AUTO = PLAN_BOUNDARY_AUTO,
    PLAN_REQUEST_FABRIC = -2, /* as it was measured */
    PLAN_REQUEST_OPEN = -1
};

/* Words of options: 512 (sequences) or 4Mtokens. */
int plan_request_global(const char *text, struct plan_request *request, struct err *err);
/* 10 or 10%: a fraction. */
int plan_request_headroom(const char *text, double *out, struct err *err);
/* A text for model_train, a fraction, or "params=COUNT". */
int plan_request_trainable(const char *text, struct plan_request *request, struct err *err);
/* 2GB/s for each host, 100GB/s/all for all of them together. */
int plan_request_storage(const char *text, struct plan_request *request, struct err *err);
/* A text for plan_keep_parse, or auto. */
int plan_request_keep(const char *text, int *out, struct err *err);

enum { PLAN_NOTE = 1000 };

/*
 * Reads, searches, prints what is asked for.  note: lines on what the answer rests on, or "".
 * *found 0: the answer is no, and err says why:
 * nothing feasible (tables of all strategies are printed all the same, a plan is not), or a
 * run's bytes are not those of its plan.
 */
int plan_request_answer(const struct plan_request *request, FILE *out, char note[PLAN_NOTE],
                        int *found, struct err *err);

#endif
