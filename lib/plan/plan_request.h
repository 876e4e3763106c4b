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
    PLAN_REQUEST_SCALE,
    PLAN_REQUEST_REVIEW
};

/* A request to paro-plan, as typed: files by name, defaults not yet filled in. */
struct plan_request {
    enum plan_request_what what;
    int json, svg;
    const char *model, *topo; /* borrowed: operands of model_read and topo_read */
    int scale[2];             /* PLAN_REQUEST_SCALE: from, to ranks */
    const char *log;          /* borrowed: operand of plan_check */
    char *plan[2];            /* borrowed: the log's plan, or the plans to compare; NULL: not
                                 given */
    enum plan_target target;  /* PLAN_REQUEST_EMIT: the target */
    const char *review;       /* borrowed: operand of plan_review_read */
    const struct plan_review *reviewed; /* set while that is answered */
    int fixed;                          /* 1: strategy was given */
    struct plan_strategy strategy;
    enum schedule_algo algo;
    int64_t memory_bytes; /* 0: the fabric's, less headroom */
    double headroom;      /* fraction of the memory to leave free; NAN: PLAN_REQUEST_HEADROOM */
    /*
     * Values as in plans, or as ints:
     *   micro_batch, accum   0: auto; PLAN_REQUEST_OPEN: 1, or derived from the global batch
     *   seq                  0: PLAN_SEQ, or the model's maximum if that is less
     *   keep, layered, recompute, compute_type   also PLAN_REQUEST_AUTO
     *   compute_type, device                     also PLAN_REQUEST_FABRIC
     *   param_type, wire_type   PLAN_REQUEST_AUTO: of frozen parameters a type that keeps the
     *                           model's values, otherwise bf16
     *   trainable            above 0: for pricing only, the plan cannot be run
     */
    union {
        struct plan_settings settings;
        struct {
            PLAN_SETTINGS
        };
    };
    int global_tokens;   /* 1: global_batch is in tokens; 0: in sequences */
    const char *trains;  /* trained part, operand of model_train; borrowed; NULL: see the
                            next */
    double trained_part; /* fraction of the parameters, above 0; 0: see settings */
    int group_level;     /* boundary (topo_boundary.h), or PLAN_REQUEST_AUTO */
    double storage_Bps;  /* 0: unknown */
    int storage_all;     /* 1: storage_Bps is the rate of all hosts together */
    double mtbf_h;       /* 0: failures are not priced */
    double restart_s, local_Bps;
    int copies;                /* or PLAN_REQUEST_AUTO */
    int64_t tokens;            /* of the whole run; 0: not given */
    struct plan_budget budget; /* the price alone */
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

#define PLAN_REQUEST_MEMORY_MIN INT64_C(1000000) /* a smaller number lacks its unit */
#define PLAN_REQUEST_MEMORY_MAX INT64_C(1000000000000000000) /* bytes */

#define PLAN_REQUEST_HEADROOM                                                                  \
    0.1 /* memory that is not counted: runtime, libraries, fragmentation */

enum {
    PLAN_REQUEST_AUTO = PLAN_BOUNDARY_AUTO,
    PLAN_REQUEST_FABRIC = -2, /* as measured */
    PLAN_REQUEST_OPEN = -1
};

/* Parses "512" (sequences) or "4Mtokens". */
int plan_request_global(const char *text, struct plan_request *request, struct err *err);
/* Parses "10" or "10%" to a fraction. */
int plan_request_headroom(const char *text, double *out, struct err *err);
/* Parses an operand of model_train, a fraction, or "params=COUNT". */
int plan_request_trainable(const char *text, struct plan_request *request, struct err *err);
/* Parses "2GB/s" for each host, "100GB/s/all" for all of them together. */
int plan_request_storage(const char *text, struct plan_request *request, struct err *err);
/* Parses an operand of plan_keep_parse, or "auto". */
int plan_request_keep(const char *text, int *out, struct err *err);

enum { PLAN_NOTE = 1000 };

/*
 * Reads, searches and prints the answer.  note: lines on the assumptions of the answer, or "".
 * Sets *found to 0, and err to the reason, if nothing is feasible (tables of all strategies are
 * still printed, a plan is not) or a run's bytes are not those of its plan.
 */
int plan_request_answer(const struct plan_request *request, FILE *out, char note[PLAN_NOTE],
                        int *found, struct err *err);

#endif
