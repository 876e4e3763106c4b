/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs share that know NCCL and nothing of paro. */
#ifndef TESTS_SHIM_NCCL_FIXTURE_H
#define TESTS_SHIM_NCCL_FIXTURE_H

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

struct user {
    int rank, ranks;
    ncclComm_t comm; /* NULL at first */
    cudaStream_t stream;
    float *in, *out, *host; /* of the GPU; of the host */
};

/* All ranks end where a call of one fails: 0 is success in CUDA, NCCL and pthreads alike. */
static inline void must(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "nccl: %s: %d\n", what, rc);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

/* What a communicator that does not block goes on with. */
static inline void settle(ncclComm_t comm, ncclResult_t rc)
{
    ncclResult_t state = ncclInProgress;

    must(rc != ncclSuccess && rc != ncclInProgress, "a call that does not block");
    while (state == ncclInProgress)
        must(ncclCommGetAsyncError(comm, &state), "state");
    must(state, "state");
}

/* Once MPI is there: all but the communicator, with room for n floats each. */
static inline void user_open(struct user *u, size_t n)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &u->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &u->ranks);
    u->host = calloc(n, sizeof *u->host);
    must(!u->host, "room");
    must(cudaSetDevice(0), "device");
    must(cudaStreamCreateWithFlags(&u->stream, cudaStreamNonBlocking), "stream");
    must(cudaMalloc((void **)&u->in, n * sizeof *u->in), "memory");
    must(cudaMalloc((void **)&u->out, n * sizeof *u->out), "memory");
}

static inline void user_close(struct user *u)
{
    cudaFree(u->in);
    cudaFree(u->out);
    cudaStreamDestroy(u->stream);
    free(u->host);
}

/* Collective: rank 0's, of all. */
static inline ncclUniqueId new_id(const struct user *u)
{
    ncclUniqueId id = {0};

    if (u->rank == 0)
        must(ncclGetUniqueId(&id), "id");
    MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    return id;
}

static inline void init(struct user *u)
{
    must(ncclCommInitRank(&u->comm, u->ranks, new_id(u), u->rank), "init");
}

#endif
