/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_PRICE_H
#define PLAN_PLAN_PRICE_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "dev/dev.h"
#include "layout/layout.h"
#include "model/model.h"
#include "plan/plan_goodput.h"
#include "schedule/schedule.h"
#include "topo/topo.h"

/* ---- the words of plans, and of the options of the same names ---- */

/* A PaRO strategy: how each state is partitioned. */
struct plan_strategy {
    enum letter params, grads, optimizer;
};

/* Wire type between groups: as inside them, or int8 blocks (exec_block8.h). */
enum plan_slow { PLAN_SLOW_SAME, PLAN_SLOW_INT8 };

/* "IIG" and aliases (ddp zero1 zero2 zero3 fsdp hsdp mics hfsdp), either case. */
int plan_strategy_parse(const char *text, struct plan_strategy *out, struct err *err);
const char *plan_strategy_name(struct plan_strategy s); /* a constant */
struct plan_strategy plan_strategy_at(int index);       /* 0 .. 26, the order of the list */
/* Kept by the paper, one of 14: the optimizer's letter is at least as fine as the others. */
int plan_strategy_kept(struct plan_strategy s);
/* A number of uses (struct plan), or "all". */
int plan_keep_parse(const char *text, int *out, struct err *err);
/* "same", "int8". */
int plan_slow_parse(const char *text, enum plan_slow *out, struct err *err);
const char *plan_slow_name(enum plan_slow slow);
/* "cpu", "cuda". */
int plan_device_parse(const char *text, enum device_kind *out, struct err *err);
const char *plan_device_name(enum device_kind device);
/* The algorithms that plans are priced for: ring, two-level, ho-ring; and auto. */
int plan_algo_parse(const char *text, enum schedule_algo *out, struct err *err);

/* ---- what a strategy costs on a fabric ---- */

/*
 * Bytes of the rank that needs most.  At rest, by the layout: parameters in param_type under
 * the strategy's first letter; gradient accumulators in grad_type under the second; 12 bytes of
 * Adam state per trainable element (f32 master, both moments) under the third.  Beside them,
 * buffers: what the engine needs to transfer units while others are computed: gathered
 * units (prefetch + 1, and those kept), gradients on their way out (buckets), partial sums, and
 * parameters and gradient of the unit at hand, in f32; and activations (net_bytes).
 * On a GPU it is the GPU's memory alone: what is of the host there is left out, and what the
 * kernels' tables have for themselves is among the buffers.
 * A model given as a bare number of parameters has neither.
 */
struct plan_memory {
    double params, grads, optimizer, activations, buffers, total;
};

struct plan_price { /* of one strategy */
    struct plan_strategy strategy;
    enum schedule_algo algo; /* of global collectives; the fastest where it is left open */
    struct plan_memory memory;
    double slow_bytes;      /* through the busiest port, busier direction, one global step */
    double slow_rank_bytes; /* across groups, of the rank that sends most: the paper's table */
    double fast_bytes;      /* inside its group, sent by the rank that sends most */
    double compute_s, comm_s, step_s; /* predicted; step_s as the engine really overlaps */
    double guideline_s;               /* the paper's T, in which the flat ring serves */
    double tokens_per_s;              /* NAN: the compute rate is unknown */
    double slow_s;                    /* of step_s, in which the busiest port is used */
    struct plan_survival survival;
    int feasible;
    int dominated_by; /* index into the list of 27, or -1 */
};

enum {
    PLAN_STRATEGIES = 27, /* in the order NNN, NNI, NNG, NIN, ... GGG */
    PLAN_SEQ = 256,       /* defaults */
    PLAN_PREFETCH = 1,
    PLAN_BUCKETS = 2,
    PLAN_PIECE = 1 << 16,        /* elements that the update takes at a time, in f32 */
    PLAN_CHUNK_BYTES = 60 << 10, /* under the eager limit of Open MPI's TCP, as coll has it */
    PLAN_BATCH_MAX = 1 << 20,    /* bounds on what is read */
    PLAN_SEQ_MAX = 1 << 24,
    PLAN_CHUNK_MAX = 1 << 30,
    PLAN_PREFETCH_MAX = 1024,
    PLAN_BUCKETS_MAX = 1024,
    PLAN_KEEP_ALL = 1 << 20 /* more than any model has uses of units */
};

/* The parts of a step's time. */
enum plan_term {
    PLAN_SLOW,    /* the ports of the groups */
    PLAN_FAST,    /* inside the groups */
    PLAN_COMPUTE, /* forwards and backwards */
    PLAN_UPDATE,
    PLAN_TERMS
};

enum { PLAN_RATES_OF = 16 }; /* "cuda bf16" */

/*
 * How a step is run: members of a plan and of what is priced, that are copied as a whole
 * (settings).
 *
 * layered       micro-batches of a micro-step, which pass each layer together; 0 is 1
 * global_batch  sequences of a step of all ranks; ranks * accum * micro_batch or less; 0: that
 * trainable     Psi', 1 .. Psi: what of the model trains, or another number, spread over the
 *               units in their ratio (rounded to whole elements); the engine trains what the
 *               model says, or rejects the plan
 * param_type    of parameters at rest: bf16 or f32, as the next two
 * wire_type     of gradients on the network; parameters are sent in the narrower of the two
 * grad_type     of gradient accumulation
 * compute_type  of the operands of products with weights: f32 or bf16
 * device        whose memory is counted; a plan runs on any
 * rates_of      what the fabric was measured with, "cpu f32", where it is another; or ""
 * slow_...      types between groups
 * prefetch      units gathered ahead of the one in use
 * buckets       gradient buckets in flight, 1 or more
 * keep          last uses of the forward whose gathered units stay for the backward; or ALL
 * recompute     layers run again in the backward: only their inputs are kept
 * chunk_bytes   of a sub-chunk on the wire
 */
#define PLAN_SETTINGS                                                                          \
    int64_t trainable, global_batch, chunk_bytes;                                              \
    int micro_batch, accum, layered, seq;                                                      \
    int prefetch, buckets, keep, recompute;                                                    \
    enum dtype param_type, wire_type, grad_type, compute_type;                                 \
    enum plan_slow slow_params, slow_grads;                                                    \
    enum device_kind device;                                                                   \
    char rates_of[PLAN_RATES_OF];

struct plan_settings {
    PLAN_SETTINGS
};

/* Type of parameters on the network, to which every strategy rounds them. */
enum dtype plan_params_wire(const struct plan_settings *s);
/* Micro-batches of a micro-step, and micro-steps of a step: the last may have fewer. */
int plan_layered(const struct plan_settings *s);
int plan_micro_steps(const struct plan_settings *s);
/* Sequences of a step: of the last micro-steps some ranks may have none. */
int64_t plan_sequences(const struct plan_settings *s, int ranks);

/* The case that is priced: a model on a fabric. */
struct plan_case {
    const struct topo *topo;   /* borrowed */
    const struct model *model; /* borrowed */
    union {
        struct plan_settings settings;
        struct {
            PLAN_SETTINGS
        };
    };
    enum schedule_algo algo; /* SCHEDULE_AUTO: the fastest for each strategy */
    double memory_bytes;     /* limit of a rank; 0: unknown */
    double slow_rate;        /* times the rates of the slow tier, as if the fabric had others */
    unsigned free;           /* 1 << term: as if that took no time */
    struct plan_failures failures;
};

/* Defaults: all trained, 1 x 1 x min(PLAN_SEQ, max), auto, bf16 bf16 f32, topo's memory. */
void plan_case_init(struct plan_case *c, const struct topo *topo, const struct model *model);

/* Prices all, and says which are feasible and which dominated. */
void plan_price_all(const struct plan_case *c, struct plan_price out[PLAN_STRATEGIES]);

#endif
