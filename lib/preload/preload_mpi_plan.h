/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PRELOAD_PRELOAD_MPI_PLAN_H
#define PRELOAD_PRELOAD_MPI_PLAN_H

/* Inside libparo-mpi.so: declares the preparation of a call that a schedule may run. */
#include "coll/coll_vector.h"
#include "paro/paro_combine.h"
#include "paro/paro_fabric.h"
#include "preload/preload_mpi.h"

/* The shape of a call, in terms that are the same on all ranks. */
struct preload_mpi_shape {
    unsigned phases;
    int root;            /* of a broadcast, else 0 */
    int kind;            /* of a reduction (paro_combine.h), else 0 */
    int elem_bytes;      /* 1 where nothing is added */
    int64_t elems;       /* of the vector; of a block where all blocks are equal */
    const int64_t *each; /* [ranks] elements of the blocks, where they are not */
    int64_t bytes;       /* of the vector */
    uint64_t hash, mark; /* mark: of all but the root */
};

/* preload_mpi_stage.c: what a call moves */
/* For a call of so many bytes (preload_mpi_size); each[ranks] is space for shape's. */
enum preload_mpi_why preload_mpi_shape(const struct preload_mpi_call *c, int ranks,
                                       int64_t bytes, int64_t *each,
                                       struct preload_mpi_shape *out);
/*
 * This rank's part to `in` before a run, and from `out` behind it; an MPI error code.  `packs`:
 * MPI copies, who knows of devices' memory and of gaps.
 */
struct preload_mpi_ends {
    int rank, ranks, packs;
    MPI_Comm comm; /* for MPI_Pack */
    void *in, *out;
};
int preload_mpi_stage_in(const struct preload_mpi_call *c, const struct preload_mpi_ends *e);
int preload_mpi_stage_out(const struct preload_mpi_call *c, const struct preload_mpi_ends *e);
/*
 * Where nobody else looks at this rank's buffers: puts `in` and `out` where the program's data
 * are, if they lie in a row there.  An all-reduce and a broadcast may have one buffer for both.
 */
void preload_mpi_stage_place(const struct preload_mpi_call *c, struct preload_mpi_ends *e);

/* preload_mpi_plan.c: a call that is prepared */
struct preload_mpi_class;
struct preload_mpi_plan {
    struct preload_mpi_shape shape; /* each: owned */
    struct preload_mpi_class *class;
    struct paro_combine combine;
    struct coll_vector vector;
    int64_t bytes, used; /* its memory, as all ranks say; when it last ran */
};
/* Collective, the same error on all ranks. */
int preload_mpi_plan_new(struct preload_mpi_plan **out, const struct preload_mpi_call *c,
                         const struct preload_mpi_shape *s, struct world *world,
                         const struct paro_fabric *fabric, struct err *err);
void preload_mpi_plan_free(struct preload_mpi_plan *p);
int preload_mpi_plan_is(const struct preload_mpi_plan *p, const struct preload_mpi_shape *s);
/* Bytes of the buffers of the rank that has most. */
int64_t preload_mpi_plan_bytes(const struct preload_mpi_shape *s, int ranks);
/* An MPI error code, told to the communicator's error handler. */
int preload_mpi_plan_run(struct preload_mpi_plan *p, const struct preload_mpi_call *c,
                         int packs);

/*
 * preload_mpi_measure.c: whose is faster, for calls of one operation and about one size (a
 * power of two) on a communicator.  One call that comes again and again is on trial: it is done
 * by the library and by us in turn, and other calls of the class are done as the verdict before
 * has it, if there is one.  Calls that differ in their root are one here.  A verdict stands for
 * so many calls that trials take a hundredth of them and of their time, at most: then there is
 * another trial, for fabrics change, and three times may err.
 */
enum {
    PRELOAD_TRIALS = 3,
    PRELOAD_THEIRS = 0,
    PRELOAD_OURS_SIDE = 1,
    PRELOAD_PREPARED = 2 * PRELOAD_TRIALS,
    PRELOAD_TIMES
};
enum preload_mpi_verdict {
    PRELOAD_UNKNOWN,
    PRELOAD_IS_OURS,
    PRELOAD_IS_THEIRS,
    PRELOAD_IS_BROKEN
};

struct preload_mpi_class {
    enum preload_mpi_verdict verdict;
    int64_t left; /* calls until the next trial; 0: it is on */
    int chosen;
    uint64_t trial; /* once chosen: the mark of the call on trial */
    int waited;     /* other calls since the last of the trial */
    int runs;
    double
        time_s[PRELOAD_TIMES]; /* the library's, ours, the library's, ..., to prepare for it */
    double median_s[2];
};

/* Once for every call of the class, before anything else: whether the verdict stands. */
int preload_mpi_class_holds(struct preload_mpi_class *c);
/*
 * Decides on a call that came before: PRELOAD_OURS, PRELOAD_TRIAL, or where another one
 * is on trial what the verdict before says: PRELOAD_OURS, PRELOAD_SLOWER, PRELOAD_OTHER.
 */
enum preload_mpi_why preload_mpi_class_next(struct preload_mpi_class *c, uint64_t mark);
/* Whether it is the one on trial, whose times are noted. */
int preload_mpi_class_tries(const struct preload_mpi_class *c, uint64_t mark);
/* 1: all are there, to be settled by times that are of all ranks. */
int preload_mpi_class_note(struct preload_mpi_class *c, double seconds);
void preload_mpi_class_decide(struct preload_mpi_class *c);

#endif
