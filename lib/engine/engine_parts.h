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

/*
 * A conversion on its way: wait for what another stream brings and for what the compute queue
 * does to what is read or overwritten, pack (types differ, or src is not in shared memory),
 * collective, store.  Up to three operations of one stream; the struct stays until the last is
 * done.
 *
 *     behind, after --> src --pack--> send ==collective==> recv --store--> dst
 *
 * send may be src, recv may be dst.
 */
enum { ENGINE_AFTER = 2 };

struct engine_move {
    struct engine *engine;                          /* borrowed */
    const struct device_event *after[ENGINE_AFTER]; /* borrowed; NULL: nothing */
    struct device_event *moved; /* borrowed: of its stream, recorded behind what is asked */
    int asked;                  /* the operation at hand is */
    struct stream *behind;      /* NULL: nothing is waited for */
    int64_t behind_ticket;
    int behind_event; /* its event, or -1 */
    struct coll_call call;
    const void *src;
    enum dtype src_type;
    int64_t src_elems; /* 0: send is filled already */
    void *dst;
    enum dtype dst_type, wire;
    int64_t dst_elems;          /* 0: recv is dst */
    int add;                    /* dst += recv */
    struct engine_event *event; /* to be stamped, or NULL */
};

/* The conversions of a strategy; the same ones for every unit. */
enum engine_kind {
    ENGINE_GATHER,   /* parameters, for a use: p to N */
    ENGINE_MICRO,    /* a micro-step's gradient: whole on each rank, to g */
    ENGINE_BOUNDARY, /* the accumulated gradient: g to o */
    ENGINE_SYNC,     /* updated parameters: o to p */
    ENGINE_KINDS
};

struct engine_size { /* prepared once for all vectors of a size */
    int64_t elems;
    int frozen; /* gathered, and nothing else */
    struct coll_handle handle[ENGINE_KINDS];
};

/*
 * A unit's parameters are two vectors, each sharded by itself: what trains and, behind it, what
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
    struct engine_move boundary, sync;
    /* On the compute queue: its gradient is added up, its states are updated. */
    struct device_event *added, *updated;
    float *residual[ENGINE_KINDS];   /* of coded gradients: what was lost so far */
    struct stream *last;             /* that of its last reduction: reduces or boundaries */
    int64_t synced, reduced;         /* tickets of its last parameter sync, last reduction */
    int synced_event, reduced_event; /* and their events, -1: none */
};

enum { ENGINE_PARTS = 2 }; /* the trained and the frozen vector of a unit */

struct engine_slot { /* of gathered parameters */
    struct engine_move move[ENGINE_PARTS];
    void *recv; /* wire_type, shared */
    int64_t ticket;
    int busy;  /* from the push of a gather to the last use of what it brought */
    int event; /* of the gather that ends last, -1: none */
    struct device_event *used; /* owned: that use has ended */
};

struct engine_bucket { /* a unit's gradient on its way out */
    struct engine_move move;
    void *send; /* reduce_type, shared */
    int64_t ticket;
    int event;
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
    struct device_event *moved[ENGINE_KINDS]; /* of each stream */
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

struct engine_record {          /* of a trace */
    struct engine_event *event; /* [room], owned; NULL: nothing was asked for */
    int room, count, on;
    int first;             /* how many there were when the step began */
    int last;              /* the compute lane's newest event, -1: none */
    double start_s, end_s; /* of the last step */
    double mark_s;         /* the compute thread's events reach to here */
};

#endif
