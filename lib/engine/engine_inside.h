/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_ENGINE_INSIDE_H
#define ENGINE_ENGINE_INSIDE_H

/*
 * Inside engine/: the parts of an engine, the data that a rank holds, and the functions that
 * the files of the folder call in each other.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/fixed.h"
#include "base/mem.h"
#include "kern/kern.h"
#include "engine/engine_move.h"
#include "engine/engine_proof.h"
#include "engine/engine_shard.h"
#include "step/step_place.h"

struct engine_size { /* prepared once for all vectors of a size */
    int64_t elems;
    int frozen; /* only gathered */
    struct coll_handle handle[STEP_COMPUTE];
};

/* With periods: the outer state, and the group's share under I of what the groups sum. */
enum {
    ENGINE_PARAMS,
    ENGINE_GRADS,
    ENGINE_OPTIM,
    ENGINE_FROZEN,
    ENGINE_OUTER,
    ENGINE_GROUP,
    ENGINE_SHARES
};

/*
 * A unit's parameters are two vectors, each sharded by itself: the trained and, after it, the
 * frozen one.  Either may be empty.  All other states belong to the trained one.
 *
 *     unit    | trained              | frozen               |
 *     params  | shard of the trained | shard of the frozen |
 */
struct engine_unit {
    int64_t elems, trained; /* elements of both vectors; of the trained one */
    struct engine_share share[ENGINE_SHARES];
    struct engine_size *size, *frozen_size; /* borrowed; NULL if the vector is empty */
    void *params;                           /* param_type, in shared memory */
    void *grads; /* grad_type; the gradient in layout g, at the boundary in layout o */
    float *master;
    void *m, *v;              /* stored as plan.moments says */
    float *anchor, *momentum; /* the outer state */
    struct engine_move convert, sync, outer_reduce, outer_gather;
    /* Owned; recorded on the compute queue when its gradient is accumulated, its states
       updated. */
    struct device_event *added, *updated;
    float *residual[STEP_COMPUTE]; /* rounding errors of coded gradients so far */
};

enum { ENGINE_PARTS = 2 }; /* the trained and the frozen vector of a unit */

struct engine_slot { /* a slot of gathered parameters */
    struct engine_move move[ENGINE_PARTS];
    struct device_event *used; /* owned: recorded after the last reader */
};

struct engine_bucket { /* a unit's gradient that is being reduced */
    struct engine_move move;
    struct device_event *packed; /* owned */
};

enum { ENGINE_PIECE = PLAN_PIECE };

/* The devices that compute, with their queues, kernels and memory. */
struct engine_device {
    struct device *at;  /* borrowed */
    struct device *own; /* owned: the processor */
    int gpu;
    /* For the compute thread; for the communication thread; for threads that load and save, one
       at a time. */
    struct device_queue *compute, *move, *host;
    struct kern kern, mover;
    struct kern host_kern;                    /* the CPU's kernels, with a GPU too */
    struct device_event *moved[STEP_COMPUTE]; /* one for each stream */
    struct device_event *drained;
    void *memory[2]; /* GPU: own, shared */
    void *host_memory;
    char *io;              /* host memory for one piece being copied; protected by lock */
    pthread_mutex_t *lock; /* owned */
    int64_t host_bytes;
};

/* A rank's contribution to the agreement at the end of a step. */
struct engine_word {
    double loss, sumsq;
    struct fixed fixed_loss, fixed_sumsq; /* if exact */
    int64_t counted;                      /* number of targets that are not negative */
    int64_t flags;                        /* engine_optim.flags */
    int64_t over;                         /* an element left the range of exact sums */
    int64_t failed;                       /* this rank's device has failed */
    struct coll_traffic sent;             /* by this rank in this step */
};

/* The rows of a kind of run, generated when first needed. */
struct engine_list {
    struct step step;
    int micros;
    int early, ends; /* units are updated before the norm; the step ends a period */
    int64_t *ticket; /* [rows], owned: ticket of each transfer when it was last issued */
};
enum engine_lists {
    ENGINE_STEPS,
    ENGINE_EARLY, /* steps whose updates do not wait for the norm */
    ENGINE_ENDS,  /* the same two, at the end of a period */
    ENGINE_ENDS_EARLY,
    ENGINE_EVALUATIONS,
    ENGINE_LISTS
};

/* The state of one call. */
struct engine_run {
    engine_batch batch;
    void *arg;
    const struct engine_optim *optim;
    struct engine_report *report;
    float scale;   /* scale of losses, applied before the backward */
    double update; /* scale of the gradient, applied before the update */
    int first;     /* micro-batch of the list's first micro-step */
    int begun; /* the micro-step has micro-batches, the last of which is still to be counted */
    int ends;  /* the run ends with the agreement: nothing is updated */
    int skips; /* this group does not update: it takes part in the outer step alone */
    double loss;    /* sum so far */
    struct err why; /* why this rank's device failed */
};

struct engine_record {      /* the record of a trace */
    struct step_time *time; /* [2 * rows], owned; NULL: no trace */
    int on, steps;          /* steps: steps since it was switched on */
    struct step_time *last; /* newest row of the compute lane, or NULL */
    double start_s, end_s;  /* the last step */
    double mark_s;          /* end of the compute lane's last row */
};

struct engine {
    struct world *world;             /* borrowed */
    const struct plan *plan;         /* borrowed */
    const struct pick_table *tuning; /* borrowed, or NULL */
    const struct model *model;
    struct engine_device device;
    int exact, apart, masked, magnitudes;
    int layered, micros; /* micro-batches: of a micro-step at most; of this rank in a step */
    int periods;         /* the groups train apart (plan_apart) */
    atomic_int beyond;   /* an element left the range of exact sums between groups */
    struct kern_outer outer;
    struct world_peers group; /* the ranks of this one's group, with periods */
    enum coll_transport transport;
    struct meter *meter; /* borrowed, or NULL */
    uint64_t meter_run;
    /* From the plan, or f64 where sums are exact.  seen_type: the narrower of the types of
       stored and of sent parameters, to which every strategy rounds them. */
    enum dtype grad_type, reduce_type, outer_type, seen_type;
    struct layout layout; /* needed before the collectives exist */
    struct coll coll;
    struct net net;
    struct plan_step step; /* shape.trains and space.unit owned */
    struct engine_list list[ENGINE_LISTS];
    struct engine_list *running; /* the list that ran last, or NULL */
    int sizes;
    struct engine_unit *unit;
    struct engine_size *size;
    struct engine_slot *slot;
    struct engine_bucket *bucket;
    struct step_buffers buffers;  /* slot, bucket owned */
    float *piece;                 /* f32, host memory: a piece of the caller's data */
    struct engine_word *words;    /* [2 * ranks], the second half is scratch */
    struct coll_traffic *traffic; /* [ranks] scratch */
    /* [2][ranks] traffic of one parameter sync of all units; at the end of a period. */
    struct coll_traffic *sync_traffic;
    struct range *ranges;                      /* [layout_ranges_max] the ranges of a G shard */
    int32_t *tokens, *targets;                 /* host memory */
    float *losses;                             /* borrowed, or NULL */
    struct stream *stream[STEP_COMPUTE];       /* one for each lane */
    struct arena shared, own, residuals, host; /* host: host memory, with a GPU */
    int64_t state_bytes;
    /* Times of the current step, and its mean. */
    double wait_s[STEP_COMPUTE], update_s, idle_s;
    double mean; /* tokens over counted targets: a factor still to be applied to the gradient */
    struct engine_word word;
    struct engine_record record;
};

/*
 * engine_device.c: the CPU or a GPU, which executes work issued through tables of kernels
 * (kern.h), one for each thread.  On a GPU a call returns before its work is done.
 */
int engine_device_open(struct engine *e, const struct engine_options *o, struct err *err);
/* Allocates the measured memory: on the device, and on the host if the device is a GPU. */
int engine_device_memory(struct engine *e, int64_t own, int64_t shared, struct err *err);
double engine_planned(const struct engine *e); /* bytes predicted for this device */
int engine_device_events(struct engine *e, struct err *err);
void engine_device_events_close(struct engine *e);
void engine_device_drain(struct engine *e); /* waits for all issued work */
void engine_device_close(struct engine *e);
/* Orders the compute thread's earlier work before the next engine_get and _put. */
void engine_wait_compute(struct engine *e);
/* engine_place.c: memory and prepared collectives. */
/* Zeroes the residuals: for a new run, and after a skipped step. */
void engine_residuals_clear(struct engine *e);
/* The shard of a unit's frozen vector, after that of the trained one. */
void *engine_frozen(const struct engine *e, const struct engine_unit *u);

/*
 * engine_load.c: a whole unit on every rank: params (from the master; then the frozen ones),
 * moments, and with states > ENGINE_STATES the last step's gradient; after the trained elements
 * all but the params are 0.  Gathering and loading are collective; loading ignores the
 * gradient.
 */
enum { ENGINE_STATES = 3 };
struct engine_whole {
    int states;
    float *state[ENGINE_STATES + 1], *pieces; /* [elems], [ranks][ENGINE_PIECE] */
    void *memory;                             /* owned (mem_free): backs all of these */
};
int engine_whole_open(const struct engine *e, int states, int64_t elems, struct engine_whole *w,
                      struct err *err);
int engine_whole_gather(struct engine *e, int unit, struct engine_whole *w, struct err *err);
int engine_whole_load(struct engine *e, int unit, struct engine_whole *w, struct err *err);

/* engine_run.c: the rows of a step, or of another kind of run with `micros` micro-batches. */
struct engine_list *engine_list(struct engine *e, enum engine_lists which, int micros);
void engine_lists_release(struct engine *e);
int engine_run(struct engine *e, struct engine_list *l, struct engine_run *run,
               struct err *err);
int engine_drain(struct engine *e, struct err *err); /* waits for all transfers */

/* Rows of the compute lane: engine_step.c, engine_update.c. */
typedef int engine_kernel(struct engine *e, struct engine_run *run, const struct step_row *r,
                          struct err *err);
engine_kernel engine_begin, engine_forward, engine_backward, engine_accumulate;
engine_kernel engine_norm, engine_agree, engine_update, engine_adopt;
/* Adds the loss and operations of the last issued micro-batch; waits for its forward. */
void engine_end_micro(struct engine *e, struct engine_run *run);

/* engine_update.c */
/* Returns the factor that reduces the gradient's norm to at most optim->clip. */
double engine_clip(const struct engine_optim *optim, double grad_norm);
/* Derives a unit's new parameters from its master, which holds their elements on this rank. */
void engine_slice(struct engine *e, int unit);
/* Sets a unit's anchor to its master, with which all groups begin. */
void engine_set_anchor(struct engine *e, int unit);
/* -1 if the device has failed, which it remembers. */
int engine_device_state(const struct engine *e, struct err *err);

/* engine_trace.c; without a trace these do nothing, and rows have no times. */
void engine_trace_begin(struct engine *e); /* begins a step */
void engine_trace_end(struct engine *e);
struct step_time *engine_trace_row(const struct engine *e, int row);
/* Ends a row of the compute lane. */
void engine_trace_ended(struct engine *e, struct step_time *t);

#endif
