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
 * One global step of training under any of the 27 strategies (paro-method(7), STEP).  The
 * strategy is three letters; every conversion between them is a prepared collective, and none
 * has code of its own.  Parameters are gathered ahead of their use and gradients leave behind
 * it, on streams.
 *
 * It runs on the processor or on a GPU (engine_options.device): what is kept, gathered and
 * computed is memory of the device then, and messages between ranks go through the host
 * (coll.h).  A GPU that fails on one rank ends the step on all of them, with that rank's error
 * (ERR_DEVICE), where the ranks agree on the norm.
 */
struct engine_optim {
    double lr, beta1, beta2, eps, decay, clip; /* clip 0: none; decay is for matrices alone */
    int take_all; /* update by a gradient that is not finite too; with clip 0 as well, no unit
                     waits for the norm of the others */
    int64_t step; /* 1, 2, ... */
    /* This rank's flags for the others: read when the ranks agree on the norm, the one exchange
       of a step, made while no other transfer runs.  Borrowed; NULL: 0. */
    const int64_t *flags;
};

struct engine_report {
    double loss;      /* mean per target that counts, before the update, over all ranks; NAN:
                         none counts, and the step is skipped as if it were not finite */
    double grad_norm; /* of the whole gradient, before clipping */
    int skipped;      /* the gradient was not finite: no rank updated */
    int64_t flags;    /* of all ranks, ored */
    int64_t tokens;   /* of all ranks */
    int64_t counted;  /* of them, those whose target counts */
    /* step_s = compute_s + exposed_s + idle_s.  exposed: this rank waited for what it had
       asked the streams for; idle: for the other ranks to come to the agreement on the norm.
       Of the host's clock: a GPU only is asked in that time, so that step_s is right, from
       agreement to agreement, and what exposed_s says is how long the thread that asks had to
       wait for a stream, which may be for the GPU's own work before it. */
    double step_s, compute_s, exposed_s, idle_s;
    double wait_s[STEP_COMPUTE]; /* of exposed_s, for each lane's transfers */
    double update_s;             /* of compute_s: the gradient's norm, and the optimizer */
    double flops;                /* of this rank, matrix products */
    /* Counted as conversions are started (parameter sync: as it will be): through the busiest
       port in its busier direction, and inside its group by the rank that sends most. */
    int64_t slow_bytes, fast_bytes;
};

/*
 * exact: every micro-batch's gradient is rounded to multiples of 2^-44 before it meets another
 * (ENGINE_FIXED_BITS), travels and is summed as f64, where such sums are exact; loss and norm
 * are summed in fixed point (base/fixed.h).  So the same micro-batches give the same bits under
 * every strategy, algorithm and number of ranks.  An element beyond 2^7 / (n s) in one
 * micro-batch counts as not finite.
 * Not for a plan that sends int8 blocks between groups: they round; nor on a GPU (ERR_INPUT).
 * apart: a micro-step's gradient never shares a buffer with the accumulator (one buffer more
 * where it would); exact implies it.
 */
struct engine_options {
    const struct pick_table *tuning; /* NULL: none; the same on every rank; borrowed */
    int exact, apart;
    struct device *device;         /* NULL: the processor; of one kind on all ranks; borrowed */
    enum kern_attention attention; /* of a GPU: whose, as struct kern has it */
    int graphs;                    /* of a GPU: layers are asked for as graphs */
    int masked;                    /* targets may be below 0 in a step: they count nothing */
    const int32_t *begins;         /* net_options.begins, filled by the batch; borrowed */
    float *losses; /* on a processor: the loss of each token of a micro-step is put here, its
                      micro-batches one after the other, and stays until the next one's, -1
                      where the target counts nothing; NULL: nowhere; borrowed */
    enum coll_transport transport; /* coded data goes over MPI with either */
    struct meter *meter;           /* as in coll_options, and */
    uint64_t meter_run;
};

enum { ENGINE_FIXED_BITS = 44 };

struct engine;

/* ERR_MISMATCH, ERR_INPUT: a plan for another number of ranks, or that cannot be trained. */
int engine_check(const struct plan *plan, int ranks, struct err *err);
/*
 * Collective; the same error on every rank.  Collectives are the plan's algo in its chunks, or,
 * with a tuning table, what that says for each size.  plan is borrowed until engine_close.
 */
int engine_open(struct engine **out, struct world *world, const struct plan *plan,
                const struct engine_options *options, struct err *err);
void engine_close(struct engine *e);
const struct layout *engine_layout(const struct engine *e);
/* Whether a collective of this rank is under way.  Any thread. */
int engine_is_sending(const struct engine *e);

/* Bytes this rank keeps of parameters, gradients and optimizer state, and of all else. */
int64_t engine_state_bytes(const struct engine *e);
int64_t engine_buffer_bytes(const struct engine *e);
/* Bytes of memory: taken, of the device and beside it, and what the plan said, of a rank. */
struct engine_memory {
    int64_t device_bytes, host_bytes; /* on the processor all is device_bytes */
    int unpinned;                     /* the driver refused to pin the message buffers */
    double planned_bytes;
};
void engine_memory(const struct engine *e, struct engine_memory *m);
const char *engine_attention_by(const struct engine *e); /* whose kernels do it, in words */
struct net_graphs_report engine_graphs(const struct engine *e);

/*
 * Where states come from.  read: the values of a unit's range as f32; state 0 parameters, 1
 * exp_avg, 2 exp_avg_sq.  end: reading is worth being shared: where what is read
 * at once with element `at` ends (a block of a file); the same answers on every rank.  NULL: a
 * rank that wants values asks for them.
 */
struct engine_source {
    int (*read)(void *arg, int unit, int state, struct range at, float *out, struct err *err);
    int64_t (*end)(void *arg, int unit, int state, int64_t at);
    void *arg; /* borrowed */
};
/*
 * Collective, the same error on every rank: fills the shards; moments too when `moments`, else
 * they are zero.  The residuals of coded gradients become zero.  With end, ranks that keep the
 * very same elements (all of them under N; under I those with the same place in groups of one
 * size) take turns: each element is read by one of them, which sends it to the others.
 */
int engine_load(struct engine *e, const struct engine_source *source, int moments,
                struct err *err);
/*
 * Collective, between two steps; the same error on every rank.  Each unit with sparse matrices
 * is handed to `change`, whole, on every rank: params (from the master; then the masks),
 * exp_avg and exp_avg_sq, and, where its importance counts (lambda), the last step's gradient,
 * else NULL; all [elems], after what trains 0 but for the masks.  The result of `change`, the
 * same on every rank, becomes the unit's.
 */
typedef void (*engine_change_fn)(void *arg, int unit, float *params, float *exp_avg,
                                 float *exp_avg_sq, const float *gradient);
int engine_change(struct engine *e, engine_change_fn change, void *arg, struct err *err);
/*
 * Elements at of a unit's state, in type, for checkpoints: at lies in this rank's G shard.
 * state: 0 parameters (from the master), 1 exp_avg, 2 exp_avg_sq.  Any thread, while nobody
 * changes them.
 */
int engine_values(const struct engine *e, int unit, int state, struct range at, enum dtype type,
                  void *out, struct err *err);

/*
 * Collective: runs one global step.  batch fills tokens and targets (batch, seq) of this rank's
 * micro-batch i of the step.  optim NULL: gradient, loss and norm alone, nothing is updated
 * (but the residuals of coded gradients).
 */
typedef void (*engine_batch)(void *arg, int micro, int32_t *tokens, int32_t *targets);
int engine_step(struct engine *e, engine_batch batch, void *arg,
                const struct engine_optim *optim, struct engine_report *report,
                struct err *err);
/*
 * Collective: the loss of `micros` micro-batches of this rank, forward alone; batch may set
 * targets below 0, which count nothing.  *loss: the sum over their tokens, of this rank.
 */
int engine_evaluate(struct engine *e, engine_batch batch, void *arg, int micros, double *loss,
                    struct err *err);
/* The reduced gradient of the last step, of the mean over the targets that count, of this
   rank's G shard, before clipping: f32. */
int engine_gradient(const struct engine *e, int unit, struct range at, float *out,
                    struct err *err);

/*
 * engine_trace.c: when the rows of a step ran, for one rank.  Rows of a lane follow each other
 * and do not overlap.  Each row of the compute lane is issued the moment that the one before it
 * ended: all its idle time is waiting.
 */

/* Makes room for the times of two steps.  Before the first one, once; not collective. */
int engine_trace_open(struct engine *e, struct err *err);
/* On: times are kept from the next step on; there is room for two steps, then off and on again.
   Off: what was kept stays until then. */
void engine_trace(struct engine *e, int on);
/* Returns the times of the last step and the one before it, [2 * rows] as step_path.h counts
   them; ran is 0 where that one was not traced.  Borrowed until the next step.  Waits for what
   is under way. */
int engine_trace_times(struct engine *e, const struct step **step,
                       const struct step_time **time, struct err *err);
/* When the last step began and ended, as tick_now_s. */
void engine_trace_window(const struct engine *e, double *start_s, double *end_s);

#endif
