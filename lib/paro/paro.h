/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PARO_H
#define PARO_H

/*
 * libparo runs collective operations of MPI programs with HO-Ring and related algorithms, which
 * use the links inside the hosts and between them at the same time.  Manual with examples:
 * paro(3).
 *
 *  1. paro_comm_open() attaches to an MPI communicator.
 *  2. paro_prepare() prepares one operation on it: a handle.
 *  3. paro_run(), or paro_start() and paro_wait(), run the handle any number of times.
 *  4. paro_free(), paro_comm_close() release them.
 *
 * Threads: MPI must be initialised, with any thread level.  All calls for one paro_comm must be
 * made by one thread at a time.  The library creates no threads: runs make progress only inside
 * paro_start, paro_test, paro_wait, paro_wait_any and paro_run, each of which advances all runs
 * of its paro_comm.
 *
 * Errors: functions return 0, or -1 and a sentence in *err (which may be NULL).  Outputs are
 * written only on success.  COLLECTIVE functions must be called by all ranks, in the same
 * order, and return the same error on all of them, except PARO_ERROR_PEER.  The library prints
 * nothing and reads no environment variables.
 *
 * Versions: a struct that the program fills in begins with its size, `bytes`.  Set all other
 * members to 0 first: 0 means the default.
 */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#define PARO_API __attribute__((visibility("default")))

struct paro_comm; /* the ranks of a communicator, and the known fabric between them */
struct paro_coll; /* a handle: one operation on these ranks, prepared */
enum paro_code {
    PARO_OK,
    PARO_ERROR_INPUT,    /* invalid argument */
    PARO_ERROR_SYSTEM,   /* the system failed: memory, a file */
    PARO_ERROR_MISMATCH, /* inputs that must agree do not: ranks, groups, files */
    PARO_ERROR_ABSENT,   /* a requested item does not exist */
    PARO_ERROR_PEER      /* another rank did not respond: close the paro_comm */
};

struct paro_error {
    int code;        /* enum paro_code */
    char text[1020]; /* one sentence */
};

/* ---- communicators ---- */

struct paro_options { /* rank 0's count, but deadline_s and the meters are each rank's own */
    size_t bytes;     /* sizeof(struct paro_options) */
    /* Fabric from which algorithms are chosen: a file of paro-topology(5), or a text such as
       "synth:2x8". NULL: unknown; "auto" then means ho-ring. */
    const char *topology;
    /* Ranks that are close to each other form a group: "hosts", a shape "4x8" or "[8,8,7]" of
       consecutive ranks, or the group of each rank, "0,1,0,1". NULL: the topology's groups, or
       without a topology the hosts. */
    const char *groups;
    const char *tuning; /* choose by a file of paro-tuning(5) instead; or NULL */
    /* Longest wait for other ranks, in seconds; 0: 600; HUGE_VAL: no limit */
    double deadline_s;
    /* Folder for a file with records of all runs, paro-meter(5), which horing-watch reads;
       NULL: none.  A process can write one such file: further paro_comms name the first. */
    const char *meter;
    struct paro_comm *meter_of; /* record in the file of this paro_comm, if it has one */
};

/* COLLECTIVE.  Opens an intra-communicator, which the program may free afterwards.  o NULL:
   defaults.  Close *out with paro_comm_close. */
PARO_API int paro_comm_open(struct paro_comm **out, MPI_Comm comm, const struct paro_options *o,
                            struct paro_error *err);
/* COLLECTIVE, but after a failed run or PARO_ERROR_PEER it waits for no rank; call before
   MPI_Finalize.  Runs in progress end with PARO_ERROR_INPUT.  Handles may be freed afterwards.
   NULL is allowed. */
PARO_API void paro_comm_close(struct paro_comm *comm);

/* ---- operations ---- */

/* Sizes of the buffers `in` and `out` for n ranks; counts are in elements. */
enum paro_op {
    PARO_ALL_GATHER = 1, /* in: this rank's block          out: all blocks, in rank order */
    PARO_REDUCE_SCATTER, /* in: all blocks                 out: this rank's block of the sum */
    PARO_ALL_REDUCE,     /* in: count                      out: count elements of the sum */
    PARO_BROADCAST       /* in: count, on the root alone   out: count, on the root too */
};

enum paro_type {
    PARO_F32 = 1, /* IEEE 754 */
    PARO_F64,
    PARO_F16,  /* sums: each addition in f32, then rounded to nearest even */
    PARO_BF16, /* upper half of an f32; sums as for f16 */
    PARO_I32,  /* sums wrap around */
    PARO_U8,
    PARO_MPI /* see mpi_type, and for sums mpi_op */
};

/* For reduce-scatter and all-reduce.  A handle adds in the same order in every run. */
enum paro_reduction {
    PARO_SUM, /* the default */
    PARO_MAX, /* PARO_MAX and PARO_MIN: NaN if any operand is NaN; -0 is below +0 */
    PARO_MIN,
    PARO_AVG /* the sum divided by n, once; integers round toward zero */
};

struct paro_spec { /* must be equal on all ranks */
    size_t bytes;  /* sizeof(struct paro_spec) */
    enum paro_op op;
    enum paro_type type;
    enum paro_reduction reduction;
    int root;      /* root rank of a broadcast */
    int64_t count; /* elements of each block, or of the vector; >= 0 */
    /* [n] elements of each block, if they differ; `count` is then ignored */
    const int64_t *counts;
    const char *algo;      /* "ring", "ho-ring", ... (`paro-sched ls`); NULL: "auto" */
    int64_t chunk_bytes;   /* bytes sent at a time; 0: chosen by the algorithm */
    MPI_Datatype mpi_type; /* PARO_MPI: any type without gaps; for sums a predefined one */
    MPI_Op mpi_op;         /* PARO_MPI: a predefined operation that MPI allows on mpi_type */
};

/*
 * COLLECTIVE.  Prepares an operation for any number of runs: its messages, and two buffers as
 * large as in and out, in memory shared by the ranks of a host.  s->counts is copied.  Free
 * *out with paro_free.
 */
PARO_API int paro_prepare(struct paro_comm *comm, const struct paro_spec *s,
                          struct paro_coll **out, struct paro_error *err);
/* Not collective.  A run in progress is abandoned together with its memory.  NULL is
   allowed. */
PARO_API void paro_free(struct paro_coll *c);

/* The handle's own buffers.  The program may use them between runs; passing them to paro_start
   avoids copies.  NULL if this rank has no data there. */
PARO_API void paro_buffers(struct paro_coll *c, void **in, void **out);

/*
 * Begins a run; every rank must begin it.  Not collective: several handles may run at the same
 * time, started and waited for in any order.  PARO_ERROR_INPUT if this handle is already
 * running.  `in` is copied by this call, unless it is the handle's own buffer.  `out` is
 * written at some time before paro_test or paro_wait reports the end of the run, so leave it
 * alone until then.  The two may overlap or be equal; either is NULL if this rank has no data
 * there.
 */
PARO_API int paro_start(struct paro_coll *c, const void *in, void *out, struct paro_error *err);
/* Advances all runs of the paro_comm.  Sets *done to 1 if this handle has no run in progress,
   else to 0, on failure too. If the last run failed, this and paro_wait return its error, and
   only paro_free and paro_comm_close remain useful. */
PARO_API int paro_test(struct paro_coll *c, int *done, struct paro_error *err);
/* Advances all runs of the paro_comms of n handles until one of the handles has no run in
   progress, at most for `seconds`, and ends early once another thread has set *stop (or NULL)
   to 1; paro_test reports which handle ended.  Sleeps more and more between two looks.  Not
   collective. */
PARO_API void paro_wait_any(struct paro_coll *const *c, int n, double seconds, const int *stop);
PARO_API int paro_wait(struct paro_coll *c, struct paro_error *err); /* waits for the end */
/* paro_start, then paro_wait. */
PARO_API int paro_run(struct paro_coll *c, const void *in, void *out, struct paro_error *err);

/* The choices made for a handle, and this rank's buffers, traffic and memory. */
struct paro_description {
    size_t bytes;                /* sizeof(struct paro_description), set by the caller */
    const char *algo;            /* never "auto" */
    const char *groups;          /* "2x4", "[3,2]"; both strings are valid until paro_free */
    int64_t chunk_bytes;         /* INT64_MAX: blocks are not split */
    int64_t in_bytes, out_bytes; /* sizes of the buffers */
    /* Sent by this rank in each run: to other groups, inside the group */
    int64_t slow_bytes, fast_bytes;
    int64_t memory_bytes; /* buffers, and scratch for partial sums */
    /* Least seconds of a run by the topology's rates: for the ports between groups, and for the
       bytes that this rank sends inside.  0: none, or unknown: rank 0 alone has a topology */
    double slow_s, fast_s;
};
/* Writes the members that fit in d->bytes. PARO_ERROR_INPUT if that is below sizeof(size_t) or
   above 4096. */
PARO_API int paro_describe(const struct paro_coll *c, struct paro_description *d,
                           struct paro_error *err);

PARO_API const char *paro_version(void); /* the loaded library's version, "0.2.0" */

#ifdef __cplusplus
}
#endif

#endif
