/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COLL_COLL_VECTOR_H
#define COLL_COLL_VECTOR_H

#include <stdint.h>

#include "dev/dev_stream.h"
#include "exec/exec.h"
#include "schedule/schedule.h"
#include "world/world.h"

/*
 * Collectives as MPI and NCCL have them: a vector of blocks in rank order, where layouts
 * (coll/coll.h) have shards.  A chunk (segment e, part of group k) of a schedule belongs to the
 * rank that holds e in k, and is found in that rank's block.  [2,1], three segments:
 *
 *     segments of rank j of a group of m lie in [j/m, (j+1)/m) of the layout's unit line; the
 *     same stretch, from 0 to count[r], is block r
 *
 *     all-gather        in: own block      out: all blocks, one behind the other
 *     reduce-scatter    in: all blocks     out: own block
 *     all-reduce        in, out: elems
 *     broadcast         in: elems, of the root alone      out: elems
 */
struct coll_vector_spec {
    unsigned phases;      /* SCHEDULE_ALL_GATHER, _REDUCE_SCATTER, _ALL_REDUCE, _BROADCAST */
    const int64_t *count; /* [ranks] of the blocks, borrowed; not of the last two */
    int64_t elems;        /* of all-reduce and broadcast */
    int root;
    enum dtype type; /* and its reduction, unless combine is set (exec.h) */
    enum dtype_op redop;
    int elem_bytes; /* 0: the type's */
    exec_combine combine;
    void *combine_arg;       /* borrowed as long as the rows are */
    enum schedule_algo algo; /* not auto */
    int64_t chunk_bytes;     /* 0: PICK_CHUNK_USUAL */
    int levels;              /* of the fabric, and the blocks above groups, as schedule_spec */
    const int *block;        /* borrowed */
    int turns_most;          /* of a rank (exec_turns.h); 0: any */
};

/* One rank's rows, for any executor.  Not collective. */
int coll_vector_rows(const struct coll_vector_spec *spec, const struct groups *groups, int rank,
                     struct exec_rows *out, struct err *err);
/* Elements of the whole vector; of this rank's `in` and `out`. */
int64_t coll_vector_elems(const struct coll_vector_spec *spec, int ranks);
void coll_vector_mine(const struct coll_vector_spec *spec, int rank, int ranks, int64_t *in,
                      int64_t *out);

/*
 * Prepared over MPI, with buffers of its own in memory that the ranks of a host share: for
 * callers whose data lie anywhere.  They are written before a run and read behind it.  Runs of
 * several handles may go on at the same time; of one handle, one.
 */
struct coll_vector {
    struct world *world; /* borrowed */
    struct exec_mpi *exec;
    struct exec_mpi_handle *handle;
    void *in, *out; /* this rank's; NULL where nothing is */
    int64_t in_bytes, out_bytes;
    int64_t slow_bytes, fast_bytes; /* this rank sends, one run */
    int64_t memory_bytes;           /* of this rank, all told */
};

/* Collective, the same error on all ranks; spec is not kept but for combine_arg. */
int coll_vector_open(struct coll_vector *v, struct world *world, const struct groups *groups,
                     const struct coll_vector_spec *spec, struct err *err);
/* Not collective.  While a run goes on it is left behind, for messages may still arrive. */
void coll_vector_close(struct coll_vector *v);
/* One run, for a stream or for stream_drive. */
struct stream_op coll_vector_op(struct coll_vector *v);

#endif
