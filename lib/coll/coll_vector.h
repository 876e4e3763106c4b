/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COLL_COLL_VECTOR_H
#define COLL_COLL_VECTOR_H

#include <stdint.h>

#include "dev/dev_stream.h"
#include "exec/exec.h"
#include "schedule/schedule.h"
#include "world/world.h"

/*
 * Collectives as MPI and NCCL define them: on a vector of blocks in rank order, where
 * coll/coll.h has the shards of a layout.  A chunk (segment e, part of group k) of a schedule
 * belongs to the rank of group k that holds e, and lies in that rank's block.  [2,1], three
 * segments:
 *
 *     segments of rank j of a group of m lie in [j/m, (j+1)/m) of the layout's unit line; the
 *     same stretch, from 0 to count[r], is block r
 *
 *     all-gather        in: own block      out: all blocks, one after the other
 *     reduce-scatter    in: all blocks     out: own block
 *     all-reduce        in, out: elems
 *     broadcast         in: elems, at the root alone      out: elems
 */
struct coll_vector_spec {
    unsigned phases;      /* SCHEDULE_ALL_GATHER, _REDUCE_SCATTER, _ALL_REDUCE, _BROADCAST */
    const int64_t *count; /* [ranks] elements of each block, borrowed; not for the last two */
    int64_t elems;        /* all-reduce and broadcast: length of the vector */
    int root;
    enum dtype type; /* type and reduction, unless combine is set (exec.h) */
    enum dtype_op redop;
    int elem_bytes; /* 0: the type's */
    exec_combine combine;
    void *combine_arg;       /* borrowed as long as the rows exist */
    enum schedule_algo algo; /* not auto */
    int64_t chunk_bytes;     /* 0: PICK_CHUNK_USUAL */
    int levels;       /* levels of the fabric and blocks above groups, as in schedule_spec */
    const int *block; /* borrowed */
    int turns_most;   /* limit of a rank's turns (exec_turns.h); 0: none */
};

/* Generates one rank's rows, for any executor.  Not collective. */
int coll_vector_rows(const struct coll_vector_spec *spec, const struct groups *groups, int rank,
                     struct exec_rows *out, struct err *err);
/* Elements of the whole vector; of this rank's `in` and `out`. */
int64_t coll_vector_elems(const struct coll_vector_spec *spec, int ranks);
void coll_vector_mine(const struct coll_vector_spec *spec, int rank, int ranks, int64_t *in,
                      int64_t *out);

/*
 * A collective prepared over MPI, with buffers of its own in memory that the ranks of a host
 * share: for callers whose data may lie anywhere.  The caller writes `in` before a run and
 * reads `out` afterwards.  Runs of several handles may overlap; a handle has one run at a time.
 */
struct coll_vector {
    struct world *world; /* borrowed */
    struct exec_mpi *exec;
    struct exec_mpi_handle *handle;
    void *in, *out; /* this rank's; NULL where it has none */
    int64_t in_bytes, out_bytes;
    int64_t slow_bytes, fast_bytes; /* sent by this rank in one run */
    int64_t memory_bytes;           /* this rank's total */
};

/* Collective, the same error on all ranks; of spec only combine_arg is kept. */
int coll_vector_open(struct coll_vector *v, struct world *world, const struct groups *groups,
                     const struct coll_vector_spec *spec, struct err *err);
/* Not collective.  If a run is in progress its memory is kept, for messages may still
   arrive. */
void coll_vector_close(struct coll_vector *v);
/* Makes the operation of one run, for a stream or for stream_drive. */
struct stream_op coll_vector_op(struct coll_vector *v);

#endif
