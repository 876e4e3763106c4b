/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_PRICE_H
#define PLAN_PLAN_PRICE_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "base/moments.h"
#include "dev/dev.h"
#include "exec/exec_code.h"
#include "layout/layout.h"
#include "model/model.h"
#include "plan/plan_budget.h"
#include "plan/plan_goodput.h"
#include "schedule/schedule.h"
#include "topo/topo.h"

/* ---- values of the settings, and of the options of the same names ---- */

/* A PaRO strategy: the layout of each state, N, I or G (layout/layout.h). */
struct plan_strategy {
    enum letter params, grads, optimizer;
};

/* Parses "IIG" or an alias (ddp zero1 zero2 zero3 fsdp hsdp mics hfsdp), in either case. */
int plan_strategy_parse(const char *text, struct plan_strategy *out, struct err *err);
const char *plan_strategy_name(struct plan_strategy s); /* a static string, "IIG" */
struct plan_strategy plan_strategy_at(int index);       /* number 0 .. 26 in the order NNN, NNI,
                                                           NNG, NIN, ... GGG */
int plan_strategy_index(struct plan_strategy s);
/* 1: one of the 14 strategies that the paper keeps, whose optimizer letter is at least as fine
   as the other two. */
int plan_strategy_kept(struct plan_strategy s);
/* Parses the outer state's letter, I or G. */
int plan_outer_parse(const char *text, enum letter *out, struct err *err);
/* Parses a number of visits (keep in PLAN_SETTINGS), or "all": PLAN_KEEP_ALL. */
int plan_keep_parse(const char *text, int *out, struct err *err);
/* Parses "cpu" or "cuda". */
int plan_device_parse(const char *text, enum device_kind *out, struct err *err);
const char *plan_device_name(enum device_kind device);
/* Parses an algorithm that plans are priced for: ring, two-level, ho-ring; or auto. */
int plan_algo_parse(const char *text, enum schedule_algo *out, struct err *err);

/* ---- the cost of a strategy on a fabric ---- */

/*
 * Memory in bytes of the one rank that needs most; total is the sum of the other members.
 *
 * States at rest, each under its own letter of the strategy: params in param_type, gradient
 * accumulators in grad_type, and optimizer, for each trainable element an f32 master copy and
 * two Adam moments, 12 bytes with moments in f32; with periods 8 for each of the outer state.
 *
 * buffers: gathered units (prefetch + 1, and those kept), gradients in flight (buckets),
 * partial sums, parameters and f32 gradient of the unit being computed, and
 * survival.copy_memory.  activations: net_bytes.  Both are 0 if the model is a bare number of
 * parameters.
 *
 * On a GPU only GPU memory counts; buffers then include the workspace of its kernels.
 */
struct plan_memory {
    double params, grads, optimizer, activations, buffers, total;
};

struct plan_price { /* one strategy's price */
    struct plan_strategy strategy;
    enum schedule_algo algo; /* for global collectives; the fastest if left open */
    struct plan_memory memory;
    double slow_bytes;      /* per global step through the busiest port, in its busier
                               direction */
    double slow_rank_bytes; /* per step between groups, by the rank that sends most: the paper's
                               table */
    double fast_bytes;      /* per step inside its group, by the rank that sends most */
    /* Predicted per step: computing alone (0 if the compute rate is unknown), all transfers
       alone (gather, reduce, convert, sync); step_s has both, overlapped as the engine does. */
    double compute_s, comm_s, step_s;
    double bound_s;      /* a step of this strategy takes no less (plan_timeline.h) */
    double guideline_s;  /* the paper's T, with the flat ring */
    double tokens_per_s; /* NAN: unknown, because the compute rate is */
    double slow_s;       /* part of step_s in which the busiest port is in use */
    struct plan_survival survival;
    struct plan_budget budget;
    int feasible;
    /* Index of a strategy, itself not dominated, that is better in memory, slow bytes, fast
       bytes or time (divided by the goodput if failures are priced) and worse in none; -1:
       none.  Infeasible ones take part. */
    int dominated_by;
};

enum {
    PLAN_STRATEGIES = 27, /* plan_strategy_at: NNN, NNI, NNG, NIN, ... GGG */
    PLAN_SEQ = 256,       /* defaults, up to PLAN_CHUNK_BYTES */
    PLAN_PREFETCH = 1,
    PLAN_BUCKETS = 2,
    PLAN_PIECE = 1 << 16,        /* elements that the update converts to f32 at a time */
    PLAN_GPU_PIECE = 1 << 22,    /* moments that it decodes at a time on a GPU */
    PLAN_CHUNK_BYTES = 60 << 10, /* below the eager limit of Open MPI's TCP */
    PLAN_BATCH_MAX = 1 << 20,    /* limits on input, up to PLAN_BUCKETS_MAX */
    PLAN_SEQ_MAX = 1 << 24,
    PLAN_CHUNK_MAX = 1 << 30,
    PLAN_PREFETCH_MAX = 1024,
    PLAN_BUCKETS_MAX = 1024,
    PLAN_SYNC_EVERY_MAX = 1 << 20,
    PLAN_KEEP_ALL = 1 << 20 /* above the visits of any model */
};

/* Terms of a step's time. */
enum plan_term {
    PLAN_SLOW,    /* ports of the groups */
    PLAN_FAST,    /* links inside the groups */
    PLAN_COMPUTE, /* forwards and backwards */
    PLAN_UPDATE,
    PLAN_TERMS
};

enum { PLAN_RATES_OF = 16 }; /* size of a text like "cuda bf16" */

/*
 * The settings of a run: members shared by struct plan and struct plan_case, which are copied
 * together as struct plan_settings.
 *
 * micro_batch   sequences that a rank computes at a time
 * accum         micro-batches of a rank in a step, at most
 * counts        [ranks] micro-batches of each rank, the largest of which is accum; NULL: as
 *               equal as can be, the first ranks have more
 * layered       micro-batches of a micro-step, which pass each layer together; 0 means 1
 * seq           tokens of a sequence
 * global_batch  sequences in a step of all ranks, at most ranks * accum * micro_batch;
 *               0: just as many.  The last micro-batch may have fewer than micro_batch
 * trainable     Psi', 1 .. Psi parameters.  A number other than the model's own is distributed
 *               over the units in the model's ratio, in whole elements; the engine then rejects
 *               the plan
 * param_type    type of parameters at rest: bf16 or f32, as are the next two
 * wire_type     type of gradients on the network; parameters use it or param_type, whichever
 *               is narrower
 * grad_type     type of gradient accumulators
 * moments       how the optimizer's two moments are stored (base/moments.h)
 * compute_type  operand type of products with weights: f32 or bf16
 * device        its memory is counted; a plan runs on any device
 * rates_of      device and type that the fabric was measured with, "cpu f32", if they are not
 *               the plan's; otherwise ""
 * slow_params, slow_grads   code of data between groups
 * prefetch      units gathered ahead of the one in use
 * buckets       gradient buckets in flight, 1 or more
 * keep          last visits of the forward whose gathered units stay for the backward; or
 *               PLAN_KEEP_ALL
 * recompute     1: layers keep only their inputs; the backward computes the rest again
 * sync_every    H: the groups train apart for H steps, a period; then an outer step with the
 *               mean of their parameters follows, which all adopt.  0: every step is of all
 *               ranks, as it is with one group
 * fragments     F, H at most: units take their outer steps in F turns of a period, each during
 *               the micro-steps of a step, whose update begins with its result; 0: at its end
 * outer         layout of the outer state (the anchor, and its momentum), I or G; N: as G, or
 *               with slow_grads as I, since differences to the anchor are sent then
 * chunk_bytes   maximal size of a sub-chunk on the network
 */
#define PLAN_SETTINGS                                                                          \
    int64_t trainable, global_batch, chunk_bytes;                                              \
    int micro_batch, accum, layered, seq;                                                      \
    const int *counts;                                                                         \
    int prefetch, buckets, keep, recompute, sync_every, fragments;                             \
    enum letter outer;                                                                         \
    enum dtype param_type, wire_type, grad_type, compute_type;                                 \
    enum moments moments;                                                                      \
    enum exec_code slow_params, slow_grads;                                                    \
    enum device_kind device;                                                                   \
    char rates_of[PLAN_RATES_OF];

struct plan_settings {
    PLAN_SETTINGS
};

/* Returns the letters inside a period, in which G means I; without periods, `s` itself. */
struct plan_strategy plan_inner(const struct plan_settings *settings, struct plan_strategy s);
enum letter plan_outer(const struct plan_settings *s); /* the outer state's letter, I or G */
/* The fragment whose turn it is in a step 1, 2, ..., -1: none; and whether it is a unit's. */
int plan_fragment_of(const struct plan_settings *s, int64_t step);
int plan_turn(const struct plan_settings *s, int unit, int64_t step);
/* Whether the groups train apart. */
int plan_apart(const struct plan_settings *s, const struct groups *groups);
/* Returns the type of parameters on the network; every strategy rounds them to it. */
enum dtype plan_params_wire(const struct plan_settings *s);
/* Return the micro-batches of a micro-step, 1 or more, and the micro-steps of a step, some of
   which may have fewer micro-batches (plan/plan_deal.h). */
int plan_layered(const struct plan_settings *s);
int plan_micro_steps(const struct plan_settings *s);
/* Returns the bytes of the optimizer state of so many trained elements. */
int64_t plan_optimizer_bytes(const struct plan_settings *s, int64_t elems);
/* Returns the sequences of a step. */
int64_t plan_sequences(const struct plan_settings *s, int ranks);

/* Ranks that wait for each other in each micro-step: those that its transfers join. */
enum plan_pace { PLAN_ALONE, PLAN_IN_GROUP, PLAN_WITH_ALL, PLAN_PACES };

/* Input: a model, on a fabric, under settings. */
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
    double memory_bytes;     /* memory of a rank; 0: unknown, everything is feasible */
    double slow_rate;        /* factor on the rates of the slow tier; 1: as measured */
    unsigned free;           /* bits 1 << term: price the term as if it took no time */
    struct plan_failures failures;
    struct plan_budget budget; /* as requested, with hosts */
    /* From plan_case_pace: time of a micro-step's computing, on average, in that of one
       micro-batch at topo->flops; time of the slowest rank for one. */
    double pace[PLAN_PACES], slowest;
};

/* Sets defaults: all parameters trained, one micro-batch of one sequence of min(PLAN_SEQ, the
   model's maximum) tokens, SCHEDULE_AUTO, bf16 bf16 f32, the memory that topo states.  Borrows
   topo and model. */
void plan_case_init(struct plan_case *c, const struct topo *topo, const struct model *model);

/* Prices all 27 strategies, in the order of plan_strategy_at, and sets feasible (total <=
   memory_bytes) and dominated_by. */
void plan_price_all(const struct plan_case *c, struct plan_price out[PLAN_STRATEGIES]);

#endif
