/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PARO_PARO_COMBINE_H
#define PARO_PARO_COMBINE_H

#include <mpi.h>
#include <stdint.h>

/*
 * Reduces as MPI does, for schedules: a predefined type with a predefined operation that MPI
 * allows on it, added up by MPI itself, so that a result differs from the library's own by the
 * order of additions alone.
 */
struct paro_combine {
    MPI_Datatype type;
    MPI_Op op;
    int elem_bytes;
    int kind; /* equal where type and operation are the same to MPI: MPI_INT, MPI_INT32_T */
};

/*
 * 0, or -1: not one of these.  Types of the user's, operations of the user's, types with gaps
 * (MPI_DOUBLE_INT has 12 bytes in 16), and types that this MPI was built without are none.
 */
int paro_combine_init(struct paro_combine *c, MPI_Datatype type, MPI_Op op);
/* to[i] = to[i] op arrived[i]: an exec_combine (exec/exec.h); arg: a struct paro_combine. */
void paro_combine(void *to, const void *arrived, int64_t n, void *arg);

#endif
