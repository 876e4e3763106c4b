/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHIM_PARO_INSIDE_H
#define SHIM_PARO_INSIDE_H

/* Inside lib/shim/paro*.c: what is behind paro.h's names. */
#include "coll/coll_vector.h"
#include "shim/paro.h"
#include "shim/shim_combine.h"
#include "shim/shim_fabric.h"
#include "world/world_mpi.h"

struct paro_comm {
    struct world *world; /* owned */
    struct shim_fabric fabric;
    char groups[64];
    struct paro_coll *first; /* all that were prepared on it and are not freed */
    double looked_s;         /* when the runs were last carried on */
    struct err lost;         /* ERR_PEER: what was said when a peer did not answer */
};

struct paro_coll {
    struct paro_comm *comm; /* NULL: closed before */
    struct paro_coll *next;
    struct coll_vector vector;
    struct shim_combine combine; /* what vector adds with, where it is MPI's */
    enum schedule_algo algo;
    int64_t chunk_bytes;
    char groups[64];
    int running;
    void *out;       /* of the run that goes on: where the program wants it, */
    struct err fail; /* and how it ended, if not well: code is not ERR_NONE */
};

/*
 * A program's struct, which begins with its size and may be an older or a newer one: members
 * that it lacks are 0, those that it has beyond `room` must be.  name: for errors.
 */
int paro_take(void *to, size_t room, const void *from, const char *name, struct err *err);
/* Takes the spec, local: what can be said without the other ranks.  Counts are copied. */
struct paro_asked {
    struct paro_spec spec;
    int64_t *counts; /* [ranks], owned; NULL of broadcast and all-reduce */
    struct shim_combine combine;
    struct coll_vector_spec vector; /* borrows counts, combine, and the fabric's blocks */
};
int paro_ask(const struct paro_comm *c, const struct paro_spec *spec, struct paro_asked *out,
             struct err *err);
/* COLLECTIVE: whether all ranks ask the same. */
int paro_asked_alike(const struct paro_comm *c, const struct paro_asked *a, struct err *err);
/* COLLECTIVE: what auto is, and the chunk that goes with it where none was asked for. */
int paro_choose(const struct paro_comm *c, struct paro_asked *a, struct err *err);

#endif
