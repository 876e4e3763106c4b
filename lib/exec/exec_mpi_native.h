/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_MPI_NATIVE_H
#define EXEC_EXEC_MPI_NATIVE_H

#include <stdint.h>

#include "base/dtype.h"
#include "world/world.h"

/*
 * The MPI library's own collectives, for comparison with ours: the calls that a program makes
 * without paro.  The vector of `elems` is cut into one block per rank, in rank order: rank r
 * owns elements [elems r / n, elems (r+1) / n).  Where the blocks are equal the plain call is
 * used (MPI_Allgather, MPI_Reduce_scatter_block), else the form with counts.
 */
enum exec_native_op {
    EXEC_NATIVE_ALL_GATHER,
    EXEC_NATIVE_REDUCE_SCATTER,
    EXEC_NATIVE_ALL_REDUCE,
    EXEC_NATIVE_BROADCAST
};

struct exec_native_spec {
    enum exec_native_op op;
    int64_t elems; /* length of the whole vector */
    enum dtype type;
    enum dtype_op redop; /* reductions only */
    int root;            /* broadcast only */
};

struct exec_native;

/*
 * ERR_INPUT if elems is more than MPI counts (2^31 - 1).  bf16 and f16 are reduced by MPI
 * operations defined here, with dtype_reduce.  MPI has no average: exec_native_run uses
 * MPI_SUM, then dtype_scale on this rank's result.
 */
int exec_native_open(struct exec_native **out, struct world *world,
                     const struct exec_native_spec *spec, struct err *err);
void exec_native_close(struct exec_native *n);
/*
 * Runs the collective and blocks until it is done, holding MPI: no other thread of this process
 * may use the network meanwhile.  in and out: elements of spec.type; the whole vector, or this
 * rank's block (exec_native_block) on the scattered side.  A broadcast has one buffer: the root
 * sends from `in` and leaves `out` alone, the others receive in `out` and leave `in` alone.
 */
int exec_native_run(struct exec_native *n, const void *in, void *out, struct err *err);
/* Writes the MPI library's name and version, such as "Open MPI v4.1.4": MPI_Get_library_version
 * up to a comma or line end; printable, at most bytes - 1 characters. */
void exec_native_library(char *text, int bytes);
/* The block of a rank: elements [*lo, *hi). */
void exec_native_block(int64_t elems, int rank, int ranks, int64_t *lo, int64_t *hi);

/* A barrier from which all ranks leave as close together as MPI_Barrier can: starts a
   measurement. */
int exec_native_barrier(struct world *world, struct err *err);

#endif
