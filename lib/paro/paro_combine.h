/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PARO_PARO_COMBINE_H
#define PARO_PARO_COMBINE_H

#include <mpi.h>
#include <stdint.h>

/*
 * Reduces like MPI, for schedules: a predefined type with a predefined operation that MPI
 * allows on it.  MPI itself adds, so a result differs from that of MPI's collective only by the
 * order of additions.
 */
struct paro_combine {
    MPI_Datatype type;
    MPI_Op op;
    int elem_bytes;
    int kind; /* equal if MPI treats type and operation as equal: MPI_INT and MPI_INT32_T */
};

/*
 * Returns 0, or -1 if type or operation are unsupported: user-defined types and operations,
 * types with gaps (MPI_DOUBLE_INT has 12 bytes in 16), and types that this MPI was built
 * without.
 */
int paro_combine_init(struct paro_combine *c, MPI_Datatype type, MPI_Op op);
/* to[i] = to[i] op arrived[i]: an exec_combine (exec/exec.h); arg: a struct paro_combine. */
void paro_combine(void *to, const void *arrived, int64_t n, void *arg);

#endif
