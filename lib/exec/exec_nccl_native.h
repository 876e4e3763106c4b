/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_NCCL_NATIVE_H
#define EXEC_EXEC_NCCL_NATIVE_H

#include "exec/exec_mpi_native.h"
#include "exec/exec_nccl.h"

/*
 * NCCL's own collectives, for comparison with ours: what a program would call that knows
 * nothing of paro, on a communicator with NCCL's usual settings.  Operations and blocks are
 * those of exec_mpi_native.h; where blocks are not equal, a group of ncclBroadcast or
 * ncclReduce, one for each block.  Buffers are memory of the GPU.
 */
struct exec_nccl_native;

/*
 * Collective.  groups: NULL, or for an all-reduce its form in two levels over communicators of
 * ncclCommSplit: reduced to the members of each group, all-reduced across by the holders of
 * each segment (layout.h), broadcast inside.  ERR_INPUT: groups with another operation, or with
 * an average.
 */
int exec_nccl_native_open(struct exec_nccl_native **out, struct exec_nccl *x,
                          const struct exec_native_spec *spec, const struct groups *groups,
                          struct err *err);
void exec_nccl_native_close(struct exec_nccl_native *n); /* collective; NULL is fine */
/* Waits until it is done.  In a broadcast the root has `in` and `out`, which may be one. */
int exec_nccl_native_run(struct exec_nccl_native *n, const void *in, void *out,
                         struct err *err);

#endif
