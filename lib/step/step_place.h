/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEP_STEP_PLACE_H
#define STEP_STEP_PLACE_H

#include "base/dtype.h"
#include "base/mem.h"
#include "step/step.h"

/*
 * Memory of a step on one rank: the states of each unit, and the buffers that its rows read and
 * write, each as large as the largest unit needs (paro-method(7), MEMORY).  The same code
 * measures for a plan and places for a run.  Elements, of one unit:
 */
struct step_unit {
    int64_t elems, trained; /* of the whole unit; trained ones are followed by frozen ones */
    /* This rank's shards: of the trained part under each letter, of the frozen part under that
       of the parameters. */
    int64_t params, grads, optim, frozen;
    int count; /* of such units */
};

/* A strategy and its types, as far as memory depends on them. */
struct step_space {
    const struct step_unit *unit; /* [units] */
    int units;
    int64_t tied;           /* trained elements of the unit that is visited twice; 0: none is */
    enum dtype param, wire; /* parameters at rest, and on the network */
    enum dtype grad, reduce; /* gradients as accumulated, and on the network */
    enum dtype read;         /* parameters as the network of layers reads them */
    int has[STEP_COMPUTE];   /* whether a lane transfers anything */
    int coded;               /* gathers are coded: they leave from a buffer of their own */
    int slots, buckets;
    int apart; /* buffers that the backward fills, and that are then accumulated or sent */
};

struct step_states { /* of a unit */
    void *params;    /* param, shared: the trained shard, then the frozen one */
    void *grads;     /* grad; from the conversion on in the optimizer's layout */
    float *master, *m, *v;
};

/* NULL where a strategy has no use for it.  One of each suffices, for a lane's rows are in
   order. */
struct step_buffers {
    void **slot;                                     /* [slots] wire, shared */
    void **bucket;                                   /* [buckets] reduce, shared */
    void *read;                                      /* a unit in the type that is read */
    float *gradient, *tied_gradient;                 /* [apart] of the unit in the backward */
    void *gather_send, *sync_send, *sync_recv;       /* wire, shared */
    void *reduce_recv, *convert_send, *convert_recv; /* reduce, shared */
};

/*
 * Takes all memory of a step from two arenas: `shared` of what the ranks of a host read from
 * each other.  states [units], out->slot and out->bucket have room; or states and out are NULL,
 * and the arenas have no memory: then all is measured.
 */
void step_place(const struct step_space *s, struct arena *shared, struct arena *own,
                struct step_states *states, struct step_buffers *out);
/* Bytes of the states alone, without alignment. */
int64_t step_state_bytes(const struct step_space *s);
/* The largest of each, over the units. */
struct step_unit step_largest(const struct step_space *s);

#endif
