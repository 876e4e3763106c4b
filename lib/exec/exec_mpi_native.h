/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_MPI_NATIVE_H
#define EXEC_EXEC_MPI_NATIVE_H

#include <stdint.h>

#include "base/dtype.h"
#include "world/world.h"

/*
 * The MPI library's own collectives, for comparison with ours: the calls of a program without
 * paro.  The vector of `elems` is cut into one block per rank, in rank order: rank r owns
 * elements [elems r / n, elems (r+1) / n).  Where the blocks are equal the plain call is used
 * (MPI_Allgather, MPI_Reduce_scatter_block), else the form with counts.
 */
enum exec_native_op {
    EXEC_NATIVE_ALL_GATHER,
    EXEC_NATIVE_REDUCE_SCATTER,
    EXEC_NATIVE_ALL_REDUCE,
    EXEC_NATIVE_BROADCAST
};

struct exec_native_spec {
    enum exec_native_op op;
    int64_t elems; /* of the whole vector */
    enum dtype type;
    enum dtype_op redop; /* of the reductions */
    int root;            /* of the broadcast */
};

struct exec_native;

/*
 * ERR_INPUT when elems is more than MPI counts (2^31 - 1).  bf16 and f16 are reduced by MPI
 * operations made here, with dtype_reduce.  MPI has no average: MPI_SUM, then dtype_scale of
 * what this rank got, within exec_native_run.
 */
int exec_native_open(struct exec_native **out, struct world *world,
                     const struct exec_native_spec *spec, struct err *err);
void exec_native_close(struct exec_native *n);
/*
 * Blocks, with MPI held: nothing else of this process may need the network meanwhile.  A
 * broadcast has one buffer: the root sends from `in` and leaves `out` alone, the others get
 * `out` and leave `in` alone.
 */
int exec_native_run(struct exec_native *n, const void *in, void *out, struct err *err);
/* The MPI library and its version, "Open MPI v4.1.4": what it says of itself, as far as a comma
 * or the end of a line; printable, at most room - 1 characters. */
void exec_native_library(char *text, int slot);
/* The block of a rank. */
void exec_native_block(int64_t elems, int rank, int ranks, int64_t *lo, int64_t *hi);

/* All ranks leave together, as near as MPI_Barrier can: the start of a measurement. */
int exec_native_barrier(struct world *world, struct err *err);

#endif
