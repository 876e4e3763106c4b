/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs share that know NCCL and nothing of paro. */
#ifndef TESTS_SHIM_NCCL_FIXTURE_H
#define TESTS_SHIM_NCCL_FIXTURE_H

#include <mpi.h>
#include <nccl.h>
#include <stdio.h>

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

/* Collective: rank 0's, of all. */
static inline ncclUniqueId nccl_new_id(int rank)
{
    ncclUniqueId id = {0};

    if (rank == 0)
        must(ncclGetUniqueId(&id), "id");
    MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    return id;
}

#endif
