/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PARO_H
#define PARO_H

/*
 * libparo runs collectives of MPI programs by HO-Ring and its kin, which go inside the hosts
 * and between them at the same time: paro(3), with examples.
 *
 * MPI is initialised, with any thread level; what belongs to one paro_comm is called by one
 * thread at a time.  No thread is made: runs go on in paro_test, paro_wait and paro_run, in
 * each of them all that are started on the paro_comm.
 *
 * Errors: 0, or -1 with a sentence in *err, which may be NULL; outputs are written on success
 * alone.  COLLECTIVE functions are called by all ranks, in the same order, and give the same
 * error on all of them, but for PARO_ERROR_PEER.  Nothing is printed, no environment read.
 *
 * Structs that a program fills begin with their size, `bytes`; what it leaves 0 is the default.
 */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#define PARO_API __attribute__((visibility("default")))

struct paro_comm; /* ranks, and what is known of the fabric between them */
struct paro_coll; /* one operation on them, prepared */
enum paro_code {
    PARO_OK,
    PARO_ERROR_INPUT,    /* an argument is wrong */
    PARO_ERROR_SYSTEM,   /* the system refused: memory, a file */
    PARO_ERROR_MISMATCH, /* two things that must agree do not: ranks, groups, files */
    PARO_ERROR_ABSENT,   /* something asked for is not there */
    PARO_ERROR_PEER      /* another rank did not answer: the paro_comm is to be closed */
};

struct paro_error {
    int code;        /* enum paro_code */
    char text[1020]; /* one sentence */
};

/* ---- communicators ---- */

struct paro_options { /* those of rank 0 count, but for deadline_s: each rank has its own */
    size_t bytes;     /* sizeof(struct paro_options) */
    /* The fabric, to choose algorithms by: a file of paro-topology(5), "synth:2x8"; NULL:
       nothing is known, "auto" is ho-ring. */
    const char *topology;
    /* Which ranks are near each other: "hosts", a shape "4x8" or "[8,8,7]" of consecutive
       ranks, or each rank's group "0,1,0,1".  NULL: the topology's, without one the hosts. */
    const char *groups;
    const char *tuning; /* a file of paro-tuning(5) to choose by instead, or NULL */
    double deadline_s;  /* of a wait for other ranks; 0: 600; HUGE_VAL: none */
};

/* COLLECTIVE over an intra-communicator, which may be freed afterwards.  o: NULL: defaults. */
PARO_API int paro_comm_open(struct paro_comm **out, MPI_Comm comm, const struct paro_options *o,
                            struct paro_error *err);
/* COLLECTIVE, before MPI_Finalize; handles may be freed afterwards.  NULL is fine. */
PARO_API void paro_comm_close(struct paro_comm *comm);

/* ---- operations ---- */

/* n ranks; counts are elements. */
enum paro_op {
    PARO_ALL_GATHER = 1, /* in: this rank's block        out: all blocks in rank order */
    PARO_REDUCE_SCATTER, /* in: all blocks               out: own block of the sum */
    PARO_ALL_REDUCE,     /* in: count                    out: count of the sum */
    PARO_BROADCAST       /* in: count, of the root alone out: count, on the root too */
};

enum paro_type {
    PARO_F32 = 1, /* IEEE 754 */
    PARO_F64,
    PARO_F16,  /* sums are taken in f32 and rounded once for each addition, to nearest even */
    PARO_BF16, /* the same; the upper half of an f32 */
    PARO_I32,  /* sums wrap */
    PARO_U8,
    PARO_MPI /* mpi_type below, and mpi_op where there are sums */
};

/* For reduce-scatter and all-reduce; one handle always adds in the same order. */
enum paro_reduction {
    PARO_SUM, /* the default */
    PARO_MAX, /* max and min: a NaN in any operand is a NaN in the result; -0 is below +0 */
    PARO_MIN,
    PARO_AVG /* the sum, divided by n once; integers toward zero */
};

struct paro_spec { /* the same on all ranks */
    size_t bytes;  /* sizeof(struct paro_spec) */
    enum paro_op op;
    enum paro_type type;
    enum paro_reduction reduction;
    int root;              /* of a broadcast */
    int64_t count;         /* of each block, or of the vector; 0 or more */
    const int64_t *counts; /* [n] of the blocks, if they differ; count is then not looked at */
    const char *algo;    /* "ring", "ho-ring", ...: paro-sched ls; NULL: "auto", the fabric's */
    int64_t chunk_bytes; /* bytes sent at a time; 0: the algorithm's own */
    MPI_Datatype mpi_type; /* PARO_MPI: copies: any without gaps; sums: a predefined one */
    MPI_Op mpi_op;         /* PARO_MPI: a predefined one that MPI allows on it */
};

/*
 * COLLECTIVE: what an operation needs, for any number of runs: messages, and buffers that the
 * ranks of a host share, as large as in and out.
 */
PARO_API int paro_prepare(struct paro_comm *comm, const struct paro_spec *s,
                          struct paro_coll **out, struct paro_error *err);
/* Not collective.  A run that goes on is left behind, with its memory; NULL is fine. */
PARO_API void paro_free(struct paro_coll *c);

/* The handle's own buffers, the caller's between runs; NULL where this rank has no data. */
PARO_API void paro_buffers(struct paro_coll *c, void **in, void **out);

/*
 * Begins a run, which all ranks begin.  Not collective: several handles may run at once, begun
 * and waited for in any order; one that runs is refused with PARO_ERROR_INPUT.  in is copied
 * here, out is written when the run is seen to be done: they may overlap, or be the same.  The
 * handle's own buffers are not copied.  NULL where this rank has no data.
 */
PARO_API int paro_start(struct paro_coll *c, const void *in, void *out, struct paro_error *err);
/* Makes progress in all runs of the paro_comm.  *done: 1 when this handle has no run under way.
 */
PARO_API int paro_test(struct paro_coll *c, int *done, struct paro_error *err);
PARO_API int paro_wait(struct paro_coll *c, struct paro_error *err); /* until it is done */
/* paro_start, paro_wait. */
PARO_API int paro_run(struct paro_coll *c, const void *in, void *out, struct paro_error *err);

/* The choices made for a handle, and its buffers, traffic and memory: this rank's. */
struct paro_description {
    size_t bytes;                   /* sizeof(struct paro_description), set by the caller */
    const char *algo;               /* never "auto" */
    const char *groups;             /* "2x4", "[3,2]"; both texts live as long as the handle */
    int64_t chunk_bytes;            /* INT64_MAX: blocks are not cut */
    int64_t in_bytes, out_bytes;    /* of the buffers */
    int64_t slow_bytes, fast_bytes; /* a run sends to other groups, and inside the group */
    int64_t memory_bytes;           /* buffers, and room for sums on their way */
};
/* PARO_ERROR_INPUT where d->bytes is none that this library knows. */
PARO_API int paro_describe(const struct paro_coll *c, struct paro_description *d,
                           struct paro_error *err);

PARO_API const char *paro_version(void); /* of the library that is loaded, "0.2.0" */

#ifdef __cplusplus
}
#endif

#endif
