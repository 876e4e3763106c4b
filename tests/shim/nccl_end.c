/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_end WHAT: a program that knows NCCL and nothing of paro, under mpirun, in which
 * something goes wrong or is unusual: what tests preload libparo-nccl.so into.
 *
 *     abort    rank 1 does not come to an all-reduce; every rank has a thread that aborts the
 *              communicator after a while, as trainers' watchdogs do
 *     revoke   the same, by ncclCommRevoke, and then it is destroyed
 *     simulate a group is ended by ncclGroupSimulateEnd; the call behind it is as ever
 *     capture  another stream is captured while the first call is made
 *     twice    a failed call is made once more; then all abort
 *     grouped  odd ranks make communicators, and end them, in groups
 *     calm     nothing blocks, as NCCL_COMM_BLOCKING=0 has it
 *
 * Each rank says "rank R: all-reduce C" with what NCCL called the outcome, and "rank R: over";
 * rank 0 of those that end well "ok".
 */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nccl_fixture.h"

enum { N = 16000 };

struct user {
    int rank, ranks;
    int revokes;
    ncclComm_t comm;
    cudaStream_t stream;
    float *in, *out; /* of the GPU */
    float host[N];
};

static void nap_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static ncclResult_t reduce(struct user *u)
{
    return ncclAllReduce(u->in, u->out, N, ncclFloat32, ncclSum, u->comm, u->stream);
}

static void say(const struct user *u, const char *what, int rc)
{
    printf("rank %d: %s %d\n", u->rank, what, rc);
    fflush(stdout);
}

static int is_wrong(struct user *u)
{
    int wrong = 0;

    must(cudaStreamSynchronize(u->stream), "sync");
    must(cudaMemcpy(u->host, u->out, sizeof u->host, cudaMemcpyDefault), "copy");
    for (int i = 0; i < N; i++)
        wrong += u->host[i] != (float)(u->ranks * (u->ranks + 1) / 2);
    return wrong;
}

static void *watchdog(void *arg)
{
    struct user *u = arg;

    nap_ms(1000);
    if (u->revokes)
        must(ncclCommRevoke(u->comm, 0), "revoke");
    must(u->revokes ? ncclCommDestroy(u->comm) : ncclCommAbort(u->comm), "abort");
    return NULL;
}

static void aborted(struct user *u)
{
    pthread_t dog;

    must(ncclCommInitRank(&u->comm, u->ranks, nccl_new_id(u->rank), u->rank), "init");
    must(reduce(u), "all-reduce"); /* now all is made */
    must(pthread_create(&dog, NULL, watchdog, u), "thread");
    if (u->rank != 1)
        say(u, "all-reduce", reduce(u));
    pthread_join(dog, NULL);
}

static void simulated(struct user *u)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;

    must(ncclCommInitRank(&u->comm, u->ranks, nccl_new_id(u->rank), u->rank), "init");
    must(ncclGroupStart(), "group");
    must(reduce(u), "all-reduce");
    must(ncclGroupSimulateEnd(&info), "group");
    must(reduce(u), "all-reduce");
    must(is_wrong(u), "wrong");
    must(ncclCommDestroy(u->comm), "destroy");
    if (u->rank == 0)
        puts("ok");
}

static void captured(struct user *u)
{
    cudaStream_t other = NULL;
    cudaGraph_t graph = NULL;

    must(ncclCommInitRank(&u->comm, u->ranks, nccl_new_id(u->rank), u->rank), "init");
    must(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "stream");
    must(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal), "capture");
    must(reduce(u), "all-reduce");
    must(cudaStreamEndCapture(other, &graph), "captured");
    must(cudaGraphDestroy(graph), "graph");
    must(is_wrong(u), "wrong");
    must(ncclCommDestroy(u->comm), "destroy");
    must(cudaStreamDestroy(other), "stream");
    if (u->rank == 0)
        puts("ok");
}

static void twice(struct user *u)
{
    must(ncclCommInitRank(&u->comm, u->ranks, nccl_new_id(u->rank), u->rank), "init");
    for (int i = 0; i < 2; i++)
        say(u, "all-reduce", reduce(u));
    must(ncclCommAbort(u->comm), "abort");
}

static void grouped(struct user *u)
{
    int odd = u->rank % 2, wrong = 0;
    ncclUniqueId id[2] = {nccl_new_id(u->rank), nccl_new_id(u->rank)};
    ncclComm_t comm[2];

    for (int i = 0; i < 2; i++) {
        if (odd)
            must(ncclGroupStart(), "group");
        must(ncclCommInitRank(&comm[i], u->ranks, id[i], u->rank), "init");
        if (odd)
            must(ncclGroupEnd(), "group");
    }
    for (int i = 0; i < 2; i++) {
        u->comm = comm[i];
        must(reduce(u), "all-reduce");
        wrong += is_wrong(u);
    }
    if (odd)
        must(ncclGroupStart(), "group");
    for (int i = 0; i < 2; i++)
        must(ncclCommDestroy(comm[i]), "destroy");
    if (odd)
        must(ncclGroupEnd(), "group");
    must(wrong, "wrong");
    if (u->rank == 0)
        puts("ok");
}

static void calm(struct user *u)
{
    ncclUniqueId id = nccl_new_id(u->rank);
    ncclResult_t rc;

    rc = ncclCommInitRankConfig(&u->comm, u->ranks, id, u->rank, NULL);
    settle(u->comm, rc);
    settle(u->comm, reduce(u));
    must(is_wrong(u), "wrong");
    settle(u->comm, ncclCommFinalize(u->comm));
    must(ncclCommDestroy(u->comm), "destroy");
    if (u->rank == 0)
        puts("ok");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    static struct user u;
    int level = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &u.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &u.ranks);
    must(cudaSetDevice(0), "device");
    must(cudaStreamCreateWithFlags(&u.stream, cudaStreamNonBlocking), "stream");
    must(cudaMalloc((void **)&u.in, sizeof u.host), "memory");
    must(cudaMalloc((void **)&u.out, sizeof u.host), "memory");
    for (int i = 0; i < N; i++)
        u.host[i] = (float)(u.rank + 1);
    must(cudaMemcpy(u.in, u.host, sizeof u.host, cudaMemcpyDefault), "copy");
    u.revokes = strcmp(what, "revoke") == 0;
    if (strcmp(what, "abort") == 0 || u.revokes)
        aborted(&u);
    else if (strcmp(what, "simulate") == 0)
        simulated(&u);
    else if (strcmp(what, "capture") == 0)
        captured(&u);
    else if (strcmp(what, "twice") == 0)
        twice(&u);
    else if (strcmp(what, "grouped") == 0)
        grouped(&u);
    else if (strcmp(what, "calm") == 0)
        calm(&u);
    say(&u, "over", 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
