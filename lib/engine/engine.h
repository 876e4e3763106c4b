/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdint.h>

#include "coll/coll.h"
#include "dev/dev.h"
#include "kern/kern.h"
#include "net/net.h"
#include "plan/plan.h"
#include "step/step_path.h"
#include "world/world.h"

/*
 * Runs global steps of training under any of the 27 strategies (paro-method(7), STEP).  A
 * strategy is three letters, the layouts (layout.h) of parameters, gradients and optimizer
 * state; every conversion between them is a prepared collective, and no strategy has code of
 * its own.  Parameters are gathered ahead of their use and gradients are reduced after the
 * backward of their unit, on streams, while the network computes.
 *
 * Computation runs on the CPU or on a GPU (engine_options.device).  With a GPU, states,
 * gathered parameters and activations are device memory; messages go through the host or over
 * NCCL (coll.h).  If a GPU fails on one rank, the step fails on all ranks, with that rank's
 * error (ERR_DEVICE), at the agreement on the norm; over NCCL with ERR_PEER.
 */
/* One update by AdamW, as torch.optim.AdamW, after clipping the gradient's norm. */
struct engine_optim {
    double lr, beta1, beta2, eps, decay, clip; /* clip 0: none; decay: matrices only */
    /* Updates even if the gradient is not finite.  If clip is 0 too, each unit is updated
       without waiting for the norm. */
    int take_all;
    int64_t step; /* 1, 2, ...: for the bias correction */
    /* This rank's flags for the others: read when the ranks agree on the norm, which is the one
       exchange of a step that runs while no other transfer does.  Borrowed; NULL: 0. */
    const int64_t *flags;
    /* With periods (plan_apart): ends: after this step the groups are equal, by an outer step
       by Nesterov's momentum, as torch.optim.SGD, on the distance from the anchor to the
       groups' mean.  Other steps take it for the units whose turn it is (plan_turn).  agrees:
       all ranks exchange loss and flags, as in a step that ends. */
    int ends;
    double outer_lr, outer_momentum;
    int agrees;
};

struct engine_report {
    /* 0: the groups did not exchange words.  Loss, counted and traffic are then of this rank's
       group, flags 0. */
    int agreed;
    /* Mean loss per counted target, before the update, over all ranks; NAN: no target counts,
       and the step is skipped as if its gradient were not finite. */
    double loss;
    double grad_norm; /* norm of the whole gradient, before clipping */
    int skipped;      /* gradient not finite, or no target counted: no rank updated */
    int64_t flags;    /* bitwise or of all ranks' flags */
    int64_t tokens;   /* tokens of all ranks */
    int64_t counted;  /* targets of all ranks that count */
    /* step_s = compute_s + exposed_s + idle_s, by the host's clock.  exposed: this rank waited
       for its own transfers; idle: it waited for the other ranks at the agreement on the norm.
       On a GPU calls only issue work: step_s, from agreement to agreement, is still right, but
       exposed_s is the time that the issuing thread waited for a stream, including earlier work
       of the GPU itself. */
    double step_s, compute_s, exposed_s, idle_s;
    double wait_s[STEP_COMPUTE]; /* part of exposed_s, for each lane's transfers */
    double update_s;             /* part of compute_s: the gradient's norm, and the optimizer */
    double flops;                /* matrix products of this rank */
    /* Counted when transfers are started (parameter sync: in advance): through the busiest port
       in its busier direction; inside a group, by the rank that sends most. */
    int64_t slow_bytes, fast_bytes;
};

/*
 * exact: sums are exact, so the same micro-batches give the same bits under every strategy,
 * algorithm and number of ranks.  Every micro-batch's gradient is rounded to multiples of 2^-44
 * (ENGINE_FIXED_BITS) before it is added to another, and sent and summed as f64, where such
 * sums are exact; loss and norm are summed in fixed point (base/fixed.h).  An element beyond
 * 2^7 / (n s) in one micro-batch counts as not finite, n s being the micro-batches of the
 * global step.  ERR_INPUT where data between groups are rounded, and on a GPU.
 * apart: a micro-step's gradient never shares a buffer with the accumulator (one more buffer
 * where it would); exact implies it.
 */
struct engine_options {
    /* NULL: the plan's algorithm; the same on every rank; borrowed */
    const struct pick_table *tuning;
    int exact, apart;
    struct device *device;         /* NULL: the CPU; the same kind on all ranks; borrowed */
    enum kern_attention attention; /* GPU: kernels of attention, as in struct kern */
    int graphs;                    /* GPU: layers are issued as graphs */
    int masked;                    /* targets may be negative: they do not count */
    const int32_t *begins;         /* net_options.begins, filled by `batch`; borrowed */
    /* CPU only: receives the loss of each token of a micro-step, micro-batch after micro-batch,
       until the next one; -1 for targets that do not count.  NULL: none; borrowed. */
    float *losses;
    enum coll_transport transport; /* with either, coded data goes over MPI */
    struct meter *meter;           /* as in coll_options, like meter_run */
    uint64_t meter_run;
};

enum { ENGINE_FIXED_BITS = 44 };

struct engine;

/* Checks a plan: ERR_MISMATCH if it is for another number of ranks, ERR_INPUT if it cannot be
   trained. */
int engine_check(const struct plan *plan, int ranks, struct err *err);
/*
 * Collective; the same error on every rank.  Collectives use the plan's algo and chunks, or,
 * with a tuning table, its entry for each size.  world and plan are borrowed until
 * engine_close.  Load states (engine_load) before the first step.
 */
int engine_open(struct engine **out, struct world *world, const struct plan *plan,
                const struct engine_options *options, struct err *err);
void engine_close(struct engine *e);
const struct layout *engine_layout(const struct engine *e);
/* Whether a collective of this rank is in progress.  Any thread. */
int engine_is_sending(const struct engine *e);

/* Bytes of this rank's parameters, gradients and optimizer state; and of all other memory. */
int64_t engine_state_bytes(const struct engine *e);
int64_t engine_buffer_bytes(const struct engine *e);
/* Bytes of memory taken, on the device and on the host, and bytes per rank that the plan
   predicted. */
struct engine_memory {
    int64_t device_bytes, host_bytes; /* on a CPU all memory counts as device_bytes */
    int unpinned;                     /* the driver refused to pin the message buffers */
    double planned_bytes;
};
void engine_memory(const struct engine *e, struct engine_memory *m);
int engine_coded(const struct engine *e); /* 1: data between groups are rounded */
const char *engine_attention_by(const struct engine *e); /* names the kernels of attention */
struct net_graphs_report engine_graphs(const struct engine *e);

/*
 * Source of the states that engine_load reads.  read: writes elements `at` of a unit's state as
 * f32; state 0 parameters, 1 exp_avg, 2 exp_avg_sq (with periods those of this rank's group),
 * 3 momentum of the outer state, with periods alone; -1 and err on failure.  end: if not NULL,
 * ranks share the reads: returns the end of the elements that are best read together with
 * element `at` (a block of a file), the same on every rank.  NULL: every rank reads all its
 * elements.
 */
struct engine_source {
    int (*read)(void *arg, int unit, int state, struct range at, float *out, struct err *err);
    int64_t (*end)(void *arg, int unit, int state, int64_t at);
    void *arg; /* borrowed */
};
/*
 * Collective, the same error on every rank: fills the shards from source; the moments too if
 * `moments` is set, otherwise they become zero.  The residuals of coded gradients become zero.
 * If source has `end`, ranks that hold the same elements (all of them under N; under I those
 * with the same position in groups of equal size) share the reads: one of them reads an element
 * and sends it to the others.
 */
int engine_load(struct engine *e, const struct engine_source *source, int moments,
                struct err *err);
/*
 * Collective, between two steps; the same error on every rank.  Calls `change` for each unit
 * with sparse matrices, on every rank, with the whole unit: params (from the master; then the
 * masks), exp_avg, exp_avg_sq, and, where importance counts (lambda), the last step's gradient,
 * otherwise NULL.  All have [elems]; the part after the trained elements is 0, except for the
 * masks in params.  `change` modifies them, with the same result on every rank, and they are
 * stored in the unit.
 */
typedef void (*engine_change_fn)(void *arg, int unit, float *params, float *exp_avg,
                                 float *exp_avg_sq, const float *gradient);
int engine_change(struct engine *e, engine_change_fn change, void *arg, struct err *err);
/*
 * Writes elements `at` of a unit's state, as `type`, for checkpoints; `at` lies in this rank's
 * G shard; with periods in its I shard for states 1 and 2.  state: as engine_source; parameters
 * are those of the master.  Any thread, while no other thread changes them.
 */
int engine_values(const struct engine *e, int unit, int state, struct range at, enum dtype type,
                  void *out, struct err *err);

/*
 * Collective: runs one global step; the same error on every rank.  batch fills tokens and
 * targets, each (batch, seq), of this rank's micro-batch `micro` of the step.  optim NULL:
 * computes gradient, loss and norm, and updates nothing (except the residuals of coded
 * gradients).
 */
typedef void (*engine_batch)(void *arg, int micro, int32_t *tokens, int32_t *targets);
int engine_step(struct engine *e, engine_batch batch, void *arg,
                const struct engine_optim *optim, struct engine_report *report,
                struct err *err);
/*
 * Collective: the loss of `micros` micro-batches of this rank, forward only; batch may set
 * negative targets, which do not count.  *loss: the sum over this rank's targets.
 */
int engine_evaluate(struct engine *e, engine_batch batch, void *arg, int micros, double *loss,
                    struct err *err);
/* Writes elements `at`, in this rank's G shard, of the last step's reduced gradient, before
   clipping, as f32.  It is the gradient of the mean loss per counted target. */
int engine_gradient(const struct engine *e, int unit, struct range at, float *out,
                    struct err *err);

/*
 * engine_trace.c: times at which this rank's rows of a step ran.  Rows of a lane follow each
 * other and do not overlap.  Each row of the compute lane is issued the moment the previous one
 * ended, so all its idle time is waiting.
 */

/* Allocates memory for the times of two steps.  Once, before the first step; not collective. */
int engine_trace_open(struct engine *e, struct err *err);
/* on: times are recorded from the next step on, for at most two steps; then switch off and on
   again.  off: the recorded times stay until then. */
void engine_trace(struct engine *e, int on);
/* Returns the times of the last step and the one before it, [2 * rows] as step_path.h counts
   them; ran is 0 where a step was not traced.  Borrowed until the next step.  Waits for
   transfers in progress. */
int engine_trace_times(struct engine *e, const struct step **step,
                       const struct step_time **time, struct err *err);
/* Start and end of the last step, in the time of tick_now_s. */
void engine_trace_window(const struct engine *e, double *start_s, double *end_s);

#endif
