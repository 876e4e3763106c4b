/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_ENGINE_INSIDE_H
#define ENGINE_ENGINE_INSIDE_H

/* Inside engine/: what a rank holds, and the conversions it has prepared. */
#include "base/mem.h"
#include "engine/engine.h"

/*
 * A conversion on its way: pack (types differ, or src is not in shared memory), collective,
 * store.  Three operations of one stream; the struct stays until the last is done.
 *
 *     src --pack--> send ==collective==> recv --store--> dst      send may be src, recv may be
 * dst
 */
struct engine_move {
    struct coll_call call;
    const void *src;
    enum dtype src_type;
    int64_t src_elems; /* 0: send is filled already */
    void *dst;
    enum dtype dst_type, wire;
    int64_t dst_elems; /* 0: recv is dst */
    int add;           /* dst += recv */
};

/* The conversions of a strategy; the same ones for every unit. */
enum engine_kind {
    ENGINE_GATHER,   /* parameters, for a use: p to N */
    ENGINE_MICRO,    /* a micro-step's gradient: whole on each rank, to g */
    ENGINE_BOUNDARY, /* the accumulated gradient: g to o */
    ENGINE_SYNC,     /* updated parameters: o to p */
    ENGINE_KINDS
};

struct engine_size { /* prepared once for all units of a size */
    int64_t elems;
    struct coll_handle handle[ENGINE_KINDS];
};

struct engine_unit {
    int64_t elems, params_elems, grads_elems, optim_elems;
    struct engine_size *size; /* borrowed */
    void *params;             /* param_type, in shared memory */
    void *grads; /* grad_type; holds the gradient under g, at the boundary under o */
    float *master, *m, *v;
    struct range *optim_range, *params_range; /* owned: what the shards are */
    int optim_ranges, params_ranges;
    struct engine_move boundary, sync;
    int64_t synced; /* ticket of its last parameter sync */
};

struct engine_slot { /* of gathered parameters */
    struct engine_move move;
    void *recv;  /* wire_type, shared */
    float *full; /* what the network reads: recv itself where that is f32 */
    int64_t ticket;
};

struct engine_bucket { /* a unit's gradient on its way out */
    struct engine_move move;
    void *send; /* wire_type, shared */
    int64_t ticket;
};

enum { ENGINE_BUCKETS = 2, ENGINE_PIECE = PLAN_PIECE };

struct engine {
    struct world *world;             /* borrowed */
    const struct plan *plan;         /* borrowed */
    const struct pick_table *tuning; /* borrowed, or NULL */
    const struct model *model;
    struct layout layout; /* needed before the collectives are there */
    struct coll coll;
    struct net net;
    int there[ENGINE_KINDS]; /* whether a kind moves anything on this shape */
    int sizes, slots;
    struct engine_unit *unit;
    struct engine_size *size;
    struct engine_slot *slot;
    struct engine_bucket bucket[ENGINE_BUCKETS];
    int next_bucket;
    float *gradient;      /* of the unit in the backward; zero between two of them */
    float *tied_gradient; /* of the unit that is visited twice, until its second visit */
    /* One of each suffices, for the operations of a stream are in order: wire_type, shared. */
    void *gather_send, *sync_send, *sync_recv; /* of the stream `gathers` */
    void *reduce_send, *reduce_recv;           /* of the stream `reduces` */
    float *piece;                              /* a piece of a gradient in f32 */
    double (*sums)[2];    /* [ranks] loss and squared norm, as the ranks tell them */
    struct range *ranges; /* [layout_ranges_max] of a G shard */
    int32_t *tokens, *targets;
    struct stream *gathers, *reduces;
    struct arena shared, own;
    int64_t state_bytes, slow_bytes, fast_bytes;
    double exposed_s;  /* of the step that runs */
    int64_t use, uses; /* of parameters, in the step that runs */
};

/* engine_place.c: memory and prepared collectives. */
void engine_place(struct engine *e);
int engine_prepare(struct engine *e, struct err *err);
/* Whether the backward writes a buffer of its own rather than the accumulator. */
int engine_apart(const struct engine *e);

/* engine_move.c */
int64_t engine_move_push(struct stream *s, struct engine_move *m);
/* acc += x, in f32. */
void engine_accumulate(void *acc, enum dtype acc_type, const void *x, enum dtype type,
                       int64_t n);
/* Elements [at.lo, at.hi) of `type` from a packed shard to out of `to_type`. */
void engine_copy(void *out, enum dtype to_type, const void *shard, enum dtype type,
                 const struct range *ranges, int n, struct range at);

/* engine_update.c: the norm, the decision, AdamW, parameter sync. */
int engine_update(struct engine *e, const struct engine_optim *optim, double loss_sum,
                  struct engine_report *report, struct err *err);
/* Waits on a stream and counts the time as exposed. */
int engine_wait(struct engine *e, struct stream *s, int64_t ticket, struct err *err);

#endif
