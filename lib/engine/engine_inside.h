/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_ENGINE_INSIDE_H
#define ENGINE_ENGINE_INSIDE_H

/*
 * Inside engine/: what an engine is made of, what a rank holds, and what the files of the
 * folder do for each other.
 */
#include <pthread.h>

#include "base/fixed.h"
#include "base/mem.h"
#include "kern/kern.h"
#include "engine/engine_proof.h"
#include "step/step_place.h"

/*
 * A transfer on its way: wait for what another stream brings and for what the compute queue
 * was asked for before, pack (types differ, or src is not in shared memory), collective, store.
 * Up to three operations of one stream; the struct stays until the last is done.
 *
 *     after, asked --> src --pack--> send ==collective==> recv --store--> dst
 *
 * send may be src, recv may be dst.
 */
struct engine_move {
    struct engine *engine;      /* borrowed */
    struct device_event *asked; /* borrowed: recorded on the compute queue when it is pushed */
    struct device_event *moved; /* borrowed: of its stream, recorded after what it asks for */
    int asks;                   /* the operation at hand has asked */
    struct stream *after;       /* NULL: nothing is waited for */
    int64_t after_ticket;
    struct coll_call call;
    const void *src;
    enum dtype src_type;
    int64_t src_elems; /* 0: send is filled already */
    void *dst;
    enum dtype dst_type, wire;
    int64_t dst_elems;       /* 0: recv is dst */
    int add;                 /* dst += recv */
    double *start_s, *end_s; /* to be stamped, or NULL */
};

struct engine_size { /* prepared once for all vectors of a size */
    int64_t elems;
    int frozen; /* gathered, and nothing else */
    struct coll_handle handle[STEP_COMPUTE];
};

enum { ENGINE_PARAMS, ENGINE_GRADS, ENGINE_OPTIM, ENGINE_FROZEN, ENGINE_SHARES };

/* This rank's share of a unit's state: ranges of the unit, packed one after the other. */
struct engine_share {
    int64_t elems;
    struct range *range; /* [ranges], owned */
    int ranges;
};

/*
 * A unit's parameters are two vectors, each sharded by itself: what trains and, after it, what
 * is frozen.  Either may be empty.  Everything else is the trained one's alone.
 *
 *     unit    | trained              | frozen               |
 *     params  | shard of the trained | shard of the frozen |
 */
struct engine_unit {
    int64_t elems, trained; /* of both; of the trained one */
    struct engine_share share[ENGINE_SHARES];
    struct engine_size *size, *frozen_size; /* borrowed; NULL: of an empty one */
    void *params;                           /* param_type, in shared memory */
    void *grads; /* grad_type; holds the gradient under g, at the boundary under o */
    float *master, *m, *v;
    struct engine_move convert, sync;
    /* Owned; on the compute queue: its gradient is added up, its states are updated. */
    struct device_event *added, *updated;
    float *residual[STEP_COMPUTE]; /* of coded gradients: what was lost so far */
};

enum { ENGINE_PARTS = 2 }; /* the trained and the frozen vector of a unit */

struct engine_slot { /* of gathered parameters */
    struct engine_move move[ENGINE_PARTS];
    struct device_event *used; /* owned: what read it before has ended */
};

struct engine_bucket { /* a unit's gradient on its way out */
    struct engine_move move;
    struct device_event *packed; /* owned */
};

enum { ENGINE_PIECE = PLAN_PIECE };

/* The devices that compute, with their queues, kernels and memory. */
struct engine_device {
    struct device *at;  /* borrowed */
    struct device *own; /* owned: the processor */
    int gpu;
    /* For the compute thread; for the communication thread; for threads that read and write
       from the host, one at a time. */
    struct device_queue *compute, *move, *host;
    struct kern kern, mover;
    struct kern host_kern;                    /* the processor's, with a GPU too */
    struct device_event *moved[STEP_COMPUTE]; /* of each stream */
    struct device_event *settled;
    void *memory[2]; /* of a GPU: own, shared */
    void *host_memory;
    char *io;              /* of the host: a piece on its way, under the lock */
    pthread_mutex_t *lock; /* owned */
    int64_t host_bytes;
};

/* The word that a rank sends to the others at the end of a step. */
struct engine_word {
    double loss, sumsq;
    struct fixed fixed_loss, fixed_sumsq; /* with exact */
    int64_t counted;                      /* targets that are not below 0 */
    int64_t flags;                        /* engine_optim.flags */
    int64_t over;                         /* an element left the range of exact sums */
    int64_t failed;                       /* the device of this rank */
    struct coll_traffic sent;             /* in this step */
};

/* The rows of a kind of run, generated when it is first asked for. */
struct engine_list {
    struct step step;
    int micros;
    int64_t *ticket; /* [rows], owned: of a transfer's stream, as it was issued last */
};
enum engine_lists {
    ENGINE_STEPS,
    ENGINE_EARLY, /* steps whose updates wait for no norm */
    ENGINE_EVALUATIONS,
    ENGINE_LISTS
};

/* One call's. */
struct engine_run {
    engine_batch batch;
    void *arg;
    const struct engine_optim *optim;
    struct engine_report *report;
    float scale;    /* of losses, in front of the backward */
    double update;  /* of the gradient, in front of the update */
    int first;      /* micro-batch of the list's first micro-step */
    int ends;       /* with the agreement: nothing is updated */
    double loss;    /* sum so far */
    struct err why; /* this rank's device has failed */
};

struct engine_record {      /* of a trace */
    struct step_time *time; /* [2 * rows], owned; NULL: nothing was asked for */
    int on, steps;          /* steps: since it is on */
    struct step_time *last; /* of the compute lane's newest row, or NULL */
    double start_s, end_s;  /* of the last step */
    double mark_s;          /* the compute lane's rows reach to here */
};

struct engine {
    struct world *world;             /* borrowed */
    const struct plan *plan;         /* borrowed */
    const struct pick_table *tuning; /* borrowed, or NULL */
    const struct model *model;
    struct engine_device device;
    int exact, apart, masked, magnitudes;
    int layered; /* micro-batches of a micro-step */
    enum coll_transport transport;
    struct meter *meter; /* borrowed, or NULL */
    uint64_t meter_run;
    /* As the plan says, or f64 where sums are exact; seen: the narrower of the types of
       parameters at rest and on the wire, to which every strategy rounds them. */
    enum dtype grad_type, reduce_type, seen_type;
    struct layout layout; /* needed before the collectives are there */
    struct coll coll;
    struct net net;
    struct plan_step step; /* shape.trains and space.unit owned */
    struct engine_list list[ENGINE_LISTS];
    struct engine_list *running; /* that ran last, or NULL */
    int sizes;
    struct engine_unit *unit;
    struct engine_size *size;
    struct engine_slot *slot;
    struct engine_bucket *bucket;
    struct step_buffers buffers;               /* slot, bucket owned */
    float *piece;                              /* f32, of the host: the caller's */
    struct engine_word *words;                 /* [ranks] */
    struct coll_traffic *traffic;              /* [ranks] scratch */
    struct coll_traffic *sync_traffic;         /* [ranks] of one parameter sync of all units */
    struct range *ranges;                      /* [layout_ranges_max] of a G shard */
    int32_t *tokens, *targets;                 /* of the host */
    float *losses;                             /* borrowed, or NULL */
    struct stream *stream[STEP_COMPUTE];       /* of each lane */
    struct arena shared, own, residuals, host; /* host: beside a GPU */
    int64_t state_bytes;
    /* Times of the current step, and its mean. */
    double wait_s[STEP_COMPUTE], update_s, idle_s;
    double
        mean; /* its tokens over its targets that count: the gradient is yet to be times it */
    struct engine_word word;
    struct engine_record record;
};

/*
 * engine_device.c: the processor, or a GPU; asked for work by tables of kernels (kern.h), one
 * for each thread.  On a GPU nothing is done yet when a call returns.
 */
int engine_device_open(struct engine *e, const struct engine_options *o, struct err *err);
/* Memory for what was measured: of the device, and of the host where that is another. */
int engine_device_memory(struct engine *e, int64_t own, int64_t shared, struct err *err);
double engine_planned(const struct engine *e); /* bytes of the plan, on that device */
int engine_device_events(struct engine *e, struct err *err);
void engine_device_events_close(struct engine *e);
void engine_device_drain(struct engine *e); /* waits for all that was asked for */
void engine_device_close(struct engine *e);
/* All that the compute thread has asked for comes before what engine_get and _put do next. */
void engine_wait_compute(struct engine *e);
/* n elements to the host, as another type; any thread.  Waits for them. */
int engine_get(const struct engine *e, void *to, enum dtype to_type, const void *from,
               enum dtype type, int64_t n, struct err *err);
/* Parameters from f32 of the host, rounded as everywhere; n at most ENGINE_PIECE. */
int engine_put_params(const struct engine *e, void *to, enum dtype type, const float *x,
                      enum dtype seen, int64_t n, struct err *err);

/* engine_place.c: memory and prepared collectives. */
/* Nothing is lost so far: of a new run, and of a step that was skipped. */
void engine_residuals_clear(struct engine *e);
/* The shard of what is frozen of a unit, after that of what trains. */
void *engine_frozen(const struct engine *e, const struct engine_unit *u);

/*
 * engine_load.c: a unit whole, on every rank: params (from the master; then what is frozen),
 * moments, and the last step's gradient where states is more; after what trains all but the
 * params are 0.  Gathering and loading are collective; loading takes no gradient.
 */
enum { ENGINE_STATES = 3 };
struct engine_whole {
    int states;
    float *state[ENGINE_STATES + 1], *pieces; /* [elems], [ranks][ENGINE_PIECE] */
    void *memory;                             /* owned (mem_free): all of these */
};
int engine_whole_open(const struct engine *e, int states, int64_t elems, struct engine_whole *w,
                      struct err *err);
int engine_whole_gather(struct engine *e, int unit, struct engine_whole *w, struct err *err);
int engine_whole_load(struct engine *e, int unit, struct engine_whole *w, struct err *err);

/* engine_run.c: the rows of a step. */
/* Those of so many micro-steps. */
struct engine_list *engine_list(struct engine *e, enum engine_lists which, int micros);
void engine_lists_release(struct engine *e);
int engine_run(struct engine *e, struct engine_list *l, struct engine_run *run,
               struct err *err);
int engine_drain(struct engine *e, struct err *err); /* waits for all that travels */

/* Rows of the compute lane: engine_step.c, engine_update.c. */
typedef int engine_kernel(struct engine *e, struct engine_run *run, const struct step_row *r,
                          struct err *err);
engine_kernel engine_begin, engine_forward, engine_backward, engine_accumulate;
engine_kernel engine_norm, engine_agree, engine_update;
/* Loss and operations of the micro-batch asked for last; waits for its forward. */
void engine_end_micro(struct engine *e, struct engine_run *run);

/* engine_move.c: rows of the other lanes. */
/* The other lane's transfer that it follows, in addition to earlier computation, and where its
   times go; either may be NULL. */
struct engine_issue {
    struct stream *after;
    int64_t ticket;
    struct step_time *time;
};
/* Its ticket.  unit, slot or bucket as in struct step_row. */
int64_t engine_move(struct engine *e, enum step_lane lane, int unit, int buffer,
                    const struct engine_issue *issue);

/* A packed shard on the device. */
struct engine_shard {
    const void *at;
    enum dtype type;
    const struct engine_share *share; /* borrowed */
};
/* Elements [at.lo, at.hi) of it to `out` of the host. */
int engine_copy(const struct engine *e, void *out, enum dtype to_type, struct engine_shard from,
                struct range at, struct err *err);

/* engine_update.c */
/* Returns the factor that brings the gradient's norm to optim->clip at most. */
double engine_clip(const struct engine_optim *optim, double grad_norm);
/* New parameters of the unit from its master, where they lie here. */
void engine_slice(struct engine *e, int unit);
/* -1 where the device has failed: it keeps that. */
int engine_device_state(const struct engine *e, struct err *err);

/* engine_trace.c; while no trace is kept they do nothing, and rows have no times. */
void engine_trace_begin(struct engine *e); /* of a step */
void engine_trace_end(struct engine *e);
struct step_time *engine_trace_row(const struct engine *e, int row);
/* Ends a row of the compute lane. */
void engine_trace_ended(struct engine *e, struct step_time *t);

#endif
