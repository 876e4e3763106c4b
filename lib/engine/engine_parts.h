/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_ENGINE_PARTS_H
#define ENGINE_ENGINE_PARTS_H

/* Inside engine/: what an engine is made of. */
#include <pthread.h>

#include "base/fixed.h"
#include "base/mem.h"
#include "kern/kern.h"
#include "engine/engine_proof.h"
#include "engine/engine_trace.h"
#include "step/step_path.h"
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

/*
 * A unit's parameters are two vectors, each sharded by itself: what trains and, after it, what
 * is frozen.  Either may be empty.  Everything else is the trained one's alone.
 *
 *     unit    | trained              | frozen               |
 *     params  | shard of the trained | shard of the frozen |
 */
struct engine_unit {
    int64_t elems; /* of both; and of the trained one, with its shards: */
    int64_t trained, params_elems, grads_elems, optim_elems;
    int64_t frozen_elems;                   /* shard of the frozen one, under p */
    struct engine_size *size, *frozen_size; /* borrowed; NULL: of an empty one */
    void *params;                           /* param_type, in shared memory */
    void *grads; /* grad_type; holds the gradient under g, at the boundary under o */
    float *master, *m, *v;
    /* Owned: what the shards are.  Of the frozen one counted from the unit's start. */
    struct range *params_range, *grads_range, *optim_range, *frozen_range;
    int params_ranges, grads_ranges, optim_ranges, frozen_ranges;
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

/* Who computes, and where. */
struct engine_device {
    struct device *at;  /* borrowed */
    struct device *own; /* owned: the processor */
    int gpu;
    /* Of the compute thread; of the communication thread; of who reads and writes from the
       host, one at a time. */
    struct device_queue *compute, *move, *host;
    struct kern kern, mover;
    struct kern near;                         /* the processor's, with a GPU too */
    struct device_event *moved[STEP_COMPUTE]; /* of each stream */
    struct device_event *settled;
    void *memory[2]; /* of a GPU: own, shared */
    void *host_memory;
    char *io;              /* of the host: a piece on its way, under the lock */
    pthread_mutex_t *lock; /* owned */
    int64_t host_bytes;
};

/* What a rank tells the others at the end of a step. */
struct engine_word {
    double loss, sumsq;
    struct fixed fixed_loss, fixed_sumsq; /* with exact */
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

#endif
