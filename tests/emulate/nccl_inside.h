/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMULATE_NCCL_INSIDE_H
#define EMULATE_NCCL_INSIDE_H

/* Inside nccl*.c: operations (nccl.c) and communicators (nccl_comm.c). */
#include <mpi.h>

#include "late.h"
#include "nccl.h"

#pragma GCC visibility push(hidden)

enum emulated_kind { SEND, RECV, GATHER, SCATTER, REDUCE_ALL, BROADCAST, REDUCE_ONE };

struct emulated_op {
    enum emulated_kind kind;
    const char *in;
    char *out;
    size_t count;
    ncclDataType_t type;
    int op, peer; /* peer: or root */
    ncclComm_t comm;
    cudaStream_t stream;
    char *arrived; /* [ranks][count] of a reduction */
};

enum { REGISTERED_MOST = 8 };

struct ncclComm {
    ncclComm_t next; /* of this process */
    uint64_t name;   /* the same on all ranks */
    int tag, rank, ranks, *world, splits, blocking;
    ncclResult_t failed;
    int device, stalled, aborting, finalized;
    int inside;               /* threads that wait in a call for it */
    int closing;              /* looks until a finalize that does not block is through */
    struct emulated_job *job; /* it is being made, or a child of it is */
    void *registered[REGISTERED_MOST];
    MPI_Request *request; /* of the group in flight */
    int requests;
    struct emulated_op *op;
    int ops;
    double scalar[8]; /* of operations made by ncclRedOpCreatePreMulSum */
    int scalars;
};

/* MPI is one thread's at a time, whatever level the program has asked for. */
void emulated_nccl_enter(void);
void emulated_nccl_leave(void);
void *emulated_nccl_need(size_t bytes);

/* nccl.c: 1: no operation of c is in flight.  Entered. */
int emulated_nccl_progress(ncclComm_t c);
/* nccl_comm.c: what it is busy with, or has failed by; what NCCL refuses a call for. */
ncclResult_t emulated_nccl_state(ncclComm_t c);
ncclResult_t emulated_nccl_ready(ncclComm_t c);

#pragma GCC visibility pop

#endif
