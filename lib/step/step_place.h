/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEP_STEP_PLACE_H
#define STEP_STEP_PLACE_H

#include "base/dtype.h"
#include "base/mem.h"
#include "base/moments.h"
#include "step/step.h"

/*
 * Memory of a step on one rank: the states of each unit, and the buffers that its rows read and
 * write, each as large as the largest unit needs (paro-method(7), MEMORY).  The same code
 * measures for a plan and allocates for a run.
 *
 * A unit's sizes, in elements:
 */
struct step_unit {
    int64_t elems, trained; /* whole unit; trained elements come first, frozen ones after */
    /* This rank's shards: parameters, gradients and optimizer state of the trained part, each
       under its own letter; frozen part under the parameters' letter. */
    int64_t params, grads, optim, frozen;
    int count; /* identical units */
    /* With periods: its share under I, and of the outer state; else 0. */
    int64_t group, outer;
};

/* The part of strategy and settings that memory depends on. */
struct step_space {
    const struct step_unit *unit; /* [units] */
    int units;
    int64_t tied;            /* trained elements of the unit visited twice; 0: none is */
    enum dtype param, wire;  /* parameters at rest, and on the network */
    enum dtype grad, reduce; /* accumulated gradients, and gradients on the network */
    enum dtype outer;        /* parameters that the groups sum */
    enum dtype read;         /* parameters as the model's kernels read them */
    enum moments moments;    /* how the optimizer's moments are stored */
    int64_t piece;           /* elements of a moment that the update decodes at a time */
    int has[STEP_COMPUTE];   /* 1: this lane has transfers */
    int coded;               /* gathers are coded: they send from a buffer of their own */
    int slots, buckets;
    int apart; /* gradient buffers that the backward fills, apart from accumulators and
                  buckets */
};

struct step_states { /* states of one unit */
    void *params;    /* type param, shared: the trained shard, then the frozen one */
    void *grads;     /* type grad; the optimizer's layout from the conversion on */
    float *master;
    void *m, *v;              /* moments_bytes each */
    float *anchor, *momentum; /* the outer state */
};

/* Members are NULL where the strategy does not need them.  One of each suffices, because a lane
   runs its rows in order. */
struct step_buffers {
    void **slot;                                     /* [slots] type wire, shared */
    void **bucket;                                   /* [buckets] type reduce, shared */
    void *read;                                      /* one unit in the type `read` */
    float *gradient, *tied_gradient;                 /* [apart] gradients of the unit in the
                                                        backward */
    float *moment[2];                                /* [piece] decoded moments */
    void *gather_send, *sync_send, *sync_recv;       /* type wire, shared */
    void *reduce_recv, *convert_send, *convert_recv; /* type reduce, shared */
    void *outer_send, *outer_recv;                   /* type outer, shared */
    float *adopt_send, *adopt_recv;                  /* of the outer gather, shared */
};

/*
 * Takes all memory of a step from two arenas: `shared` for arrays that other ranks of the host
 * read, `own` for the rest.  The caller allocates states [units], out->slot [slots] and
 * out->bucket [buckets].  To measure only, pass arenas without memory and NULL for states and
 * out.
 */
void step_place(const struct step_space *s, struct arena *shared, struct arena *own,
                struct step_states *states, struct step_buffers *out);
/* Returns the bytes of the states alone, without alignment. */
int64_t step_state_bytes(const struct step_space *s);
/* Returns the maximum of each size over the units. */
struct step_unit step_largest(const struct step_space *s);

#endif
