/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_manners: a program that knows NCCL and nothing of paro, under mpirun, whose own affairs
 * are in a state when it asks for an all-reduce: what tests preload libparo-nccl.so into.
 *
 *     a call of its own has failed, which it has not asked cudaGetLastError about
 *     a stream that waits for the default one is captured, of this thread alone and for all
 *
 * Rank 0 says "ok" where sums and graphs are as they would be without the library.
 */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>
#include <stdio.h>

enum { N = 16000, WAYS = 3 };

struct user {
    int rank, ranks;
    ncclComm_t comm;
    cudaStream_t stream, other;
    float *in, *out; /* of the GPU */
    float host[N];
};

static void must(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "nccl_manners: %s: %d\n", what, rc);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static int is_wrong(struct user *u)
{
    int wrong = 0;

    must(cudaMemcpyAsync(u->host, u->out, sizeof u->host, cudaMemcpyDefault, u->stream),
         "copy");
    must(cudaStreamSynchronize(u->stream), "sync");
    for (int i = 0; i < N; i++)
        wrong += u->host[i] != (float)(u->ranks * (u->ranks + 1) / 2);
    return wrong;
}

/* The first call on a communicator, which makes all that is made once. */
static int first_call(struct user *u, int way)
{
    cudaGraph_t graph = NULL;
    ncclUniqueId id;
    void *p = NULL;

    if (u->rank == 0)
        must(ncclGetUniqueId(&id), "id");
    MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    must(ncclCommInitRank(&u->comm, u->ranks, id, u->rank), "init");
    must(cudaMemsetAsync(u->out, 0, sizeof u->host, u->stream), "zero");
    if (way == 0)
        must(cudaMalloc(&p, (size_t)1 << 50) == cudaSuccess, "a petabyte");
    else
        must(cudaStreamBeginCapture(u->other, way == 1 ? cudaStreamCaptureModeThreadLocal
                                                       : cudaStreamCaptureModeGlobal),
             "capture");
    must(ncclAllReduce(u->in, u->out, N, ncclFloat32, ncclSum, u->comm, u->stream),
         "all-reduce");
    if (way) {
        must(cudaStreamEndCapture(u->other, &graph), "captured");
        must(cudaGraphDestroy(graph), "graph");
    }
    (void)cudaGetLastError();
    int wrong = is_wrong(u);
    must(ncclCommDestroy(u->comm), "destroy");
    return wrong;
}

int main(int argc, char **argv)
{
    static struct user u;
    int wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &u.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &u.ranks);
    must(cudaSetDevice(0), "device");
    must(cudaStreamCreateWithFlags(&u.stream, cudaStreamNonBlocking), "stream");
    must(cudaStreamCreateWithFlags(&u.other, 0), "stream");
    must(cudaMalloc((void **)&u.in, sizeof u.host), "memory");
    must(cudaMalloc((void **)&u.out, sizeof u.host), "memory");
    for (int i = 0; i < N; i++)
        u.host[i] = (float)(u.rank + 1);
    must(cudaMemcpyAsync(u.in, u.host, sizeof u.host, cudaMemcpyDefault, u.stream), "copy");
    must(cudaStreamSynchronize(u.stream), "sync");
    for (int way = 0; way < WAYS; way++)
        wrong += first_call(&u, way);
    must(wrong, "wrong");
    if (u.rank == 0)
        puts("ok");
    printf("rank %d: over 0\n", u.rank);
    cudaFree(u.in);
    cudaFree(u.out);
    cudaStreamDestroy(u.other);
    cudaStreamDestroy(u.stream);
    MPI_Finalize();
    return 0;
}
