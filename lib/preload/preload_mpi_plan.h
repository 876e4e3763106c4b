/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PRELOAD_PRELOAD_MPI_PLAN_H
#define PRELOAD_PRELOAD_MPI_PLAN_H

/* Internal to libparo-mpi.so: declares the preparation of a call for a schedule. */
#include "coll/coll_vector.h"
#include "paro/paro_combine.h"
#include "paro/paro_fabric.h"
#include "preload/preload_mpi.h"

/* The shape of a call, in values that are equal on all ranks. */
struct preload_mpi_shape {
    unsigned phases;
    int root;            /* root of a broadcast, else 0 */
    int kind;            /* kind of a reduction (paro_combine.h), else 0 */
    int elem_bytes;      /* 1 for operations without reduction */
    int64_t elems;       /* elements of the vector; of a block if all blocks are equal */
    const int64_t *each; /* [ranks] elements of the blocks, if they differ; else NULL */
    int64_t bytes;       /* bytes of the vector */
    uint64_t hash, mark; /* hash of the shape; mark: hash without the root */
};

/* preload_mpi_stage.c: the data of a call */
/* Sets the shape of a call of preload_mpi_size bytes; each[ranks] is space for out->each. */
enum preload_mpi_why preload_mpi_shape(const struct preload_mpi_call *c, int ranks,
                                       int64_t bytes, int64_t *each,
                                       struct preload_mpi_shape *out);
/*
 * Copies this rank's data to `in` before a run, and from `out` after it; returns an MPI error
 * code.  `packs`: MPI copies, since it handles device memory and types with gaps.
 */
struct preload_mpi_ends {
    int rank, ranks, packs;
    MPI_Comm comm; /* for MPI_Pack */
    void *in, *out;
};
int preload_mpi_stage_in(const struct preload_mpi_call *c, const struct preload_mpi_ends *e);
int preload_mpi_stage_out(const struct preload_mpi_call *c, const struct preload_mpi_ends *e);
/*
 * If no other rank accesses this rank's buffers: points `in` and `out` to the program's data
 * where these are contiguous.  An all-reduce and a broadcast may use one buffer for both.
 */
void preload_mpi_stage_place(const struct preload_mpi_call *c, struct preload_mpi_ends *e);

/* preload_mpi_plan.c: a prepared call */
struct preload_mpi_class;
struct preload_mpi_plan {
    struct preload_mpi_shape shape; /* each: owned */
    struct preload_mpi_class *class;
    struct paro_combine combine;
    struct coll_vector vector;
    int64_t bytes, used; /* memory, equal on all ranks; time of the last run */
    double bound_s;      /* least time by the fabric's rates; 0: unknown */
};
/* Collective; the same error on all ranks. */
int preload_mpi_plan_new(struct preload_mpi_plan **out, const struct preload_mpi_call *c,
                         const struct preload_mpi_shape *s, struct world *world,
                         const struct paro_fabric *fabric, struct err *err);
void preload_mpi_plan_free(struct preload_mpi_plan *p);
int preload_mpi_plan_is(const struct preload_mpi_plan *p, const struct preload_mpi_shape *s);
/* Bytes of the buffers of the rank with the largest ones. */
int64_t preload_mpi_plan_bytes(const struct preload_mpi_shape *s, int ranks);
/* Runs a prepared call.  Returns an MPI error code, already passed to the communicator's error
   handler. */
int preload_mpi_plan_run(struct preload_mpi_plan *p, const struct preload_mpi_call *c,
                         int packs);

/*
 * preload_mpi_measure.c: compares MPI's times with ours, for a CLASS of calls: of one operation
 * and similar size (a power of two) on a communicator.  A repeated call is put on trial: MPI
 * and we run it alternately, while other calls of the class follow the previous verdict, if
 * there is one.  Calls that differ only in the root count as one.  A verdict holds for so many
 * calls that trials take at most a hundredth of the calls and of their time; then there is a
 * new trial, since fabrics change and three times may mislead.
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
    int64_t left; /* calls until the next trial; 0: a trial is active */
    int chosen;
    uint64_t trial; /* if chosen: the mark of the call on trial */
    int waited;     /* other calls since the last one on trial */
    int runs;
    double time_s[PRELOAD_TIMES]; /* MPI's, ours, MPI's, ...; last: time of preparation */
    double median_s[2];
};

/* Call first for every call of the class: returns whether the verdict holds. */
int preload_mpi_class_holds(struct preload_mpi_class *c);
/*
 * Decides on a repeated call: PRELOAD_OURS or PRELOAD_TRIAL if it is on trial; otherwise by the
 * previous verdict PRELOAD_OURS, PRELOAD_SLOWER, PRELOAD_FAILED or PRELOAD_OTHER.
 */
enum preload_mpi_why preload_mpi_class_next(struct preload_mpi_class *c, uint64_t mark);
/* Whether this call is on trial, so that its time is recorded. */
int preload_mpi_class_tries(const struct preload_mpi_class *c, uint64_t mark);
/* Records a time.  1: the trial is complete; call preload_mpi_class_decide after the ranks have
   exchanged their times. */
int preload_mpi_class_note(struct preload_mpi_class *c, double seconds);
void preload_mpi_class_decide(struct preload_mpi_class *c);

#endif
