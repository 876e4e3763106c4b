/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_NCCL_NATIVE_H
#define EXEC_EXEC_NCCL_NATIVE_H

#include "exec/exec_mpi_native.h"
#include "exec/exec_nccl.h"

/*
 * NCCL's own collectives, for comparison with ours: the calls that a program makes without
 * paro, on a communicator with NCCL's default settings.  Operations and blocks are those of
 * exec_mpi_native.h; where blocks are not equal, a group of ncclBroadcast or ncclReduce calls,
 * one for each block.  Buffers are GPU memory.
 */
struct exec_nccl_native;

/*
 * Collective.  groups: NULL; or, for an all-reduce, the groups of its two-level form over
 * communicators from ncclCommSplit: a reduction to the members of each group, an all-reduce
 * across groups between the holders of each segment (layout.h), a broadcast inside.  ERR_INPUT:
 * groups with another operation, or with an average.
 */
int exec_nccl_native_open(struct exec_nccl_native **out, struct exec_nccl *x,
                          const struct exec_native_spec *spec, const struct groups *groups,
                          struct err *err);
void exec_nccl_native_close(struct exec_nccl_native *n); /* collective; NULL is fine */
/* Runs it and waits until it is done.  In a broadcast the root has `in` and `out`, which may be
   the same buffer. */
int exec_nccl_native_run(struct exec_nccl_native *n, const void *in, void *out,
                         struct err *err);

#endif
