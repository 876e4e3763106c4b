/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_end WHAT [MS]: a program that knows NCCL and nothing of paro, under mpirun, in which
 * something goes wrong or is unusual: what tests preload libparo-nccl.so into.
 *
 *     abort    rank 1 does not come to an all-reduce; every rank has a thread that aborts the
 *              communicator after MS (1000), as trainers' watchdogs do
 *     revoke   the same, by ncclCommRevoke, and then it is destroyed
 *     simulate a group is ended by ncclGroupSimulateEnd; the call behind it is as ever
 *     capture  another stream is captured while the first call is made
 *     manners  a call of the program's own has failed, which it has not asked cudaGetLastError
 *              about; a stream that waits for the default one is captured, of this thread alone
 *              and for all
 *     twice    a failed call is made once more; then all abort
 *     grouped  odd ranks make communicators, and end them, in groups
 *     calm     nothing blocks, as NCCL_COMM_BLOCKING=0 has it
 *     late     rank 1 works for 20 ms before each call, the others for 1; rank 0 says the mean
 *              time of a call to NCCL in nanoseconds
 *
 * Each rank says "rank R: all-reduce C" with what NCCL called the outcome, and "rank R: over";
 * rank 0 of those whose sums and graphs are as they would be without the library "ok".
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "nccl_fixture.h"

enum { N = 16000, FAILED = -1 };

static long watchdog_ms = 1000;

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
    must(cudaMemcpy(u->host, u->out, N * sizeof *u->host, cudaMemcpyDefault), "copy");
    for (int i = 0; i < N; i++)
        wrong += u->host[i] != (float)(u->ranks * (u->ranks + 1) / 2);
    return wrong;
}

static void *aborts(void *arg)
{
    nap_ms(watchdog_ms);
    must(ncclCommAbort(((struct user *)arg)->comm), "abort");
    return NULL;
}

static void *revokes(void *arg)
{
    nap_ms(watchdog_ms);
    must(ncclCommRevoke(((struct user *)arg)->comm, 0), "revoke");
    must(ncclCommDestroy(((struct user *)arg)->comm), "abort");
    return NULL;
}

static int watched(struct user *u, void *(*watchdog)(void *))
{
    pthread_t dog;

    init(u);
    must(reduce(u), "all-reduce"); /* now all is made */
    must(pthread_create(&dog, NULL, watchdog, u), "thread");
    if (u->rank != 1)
        say(u, "all-reduce", reduce(u));
    pthread_join(dog, NULL);
    return 0;
}

static int aborted(struct user *u)
{
    return watched(u, aborts);
}

static int revoked(struct user *u)
{
    return watched(u, revokes);
}

static int simulated(struct user *u)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;

    init(u);
    must(ncclGroupStart(), "group");
    must(reduce(u), "all-reduce");
    must(ncclGroupSimulateEnd(&info), "group");
    must(reduce(u), "all-reduce");
    must(is_wrong(u), "wrong");
    must(ncclCommDestroy(u->comm), "destroy");
    return 1;
}

/* On a new communicator, which makes all that is made once, while another stream of these flags
   is captured in the mode; FAILED: behind a call that has failed. */
static void first_call(struct user *u, unsigned flags, int mode)
{
    cudaStream_t other = NULL;
    cudaGraph_t graph = NULL;
    void *p = NULL;

    init(u);
    must(cudaMemsetAsync(u->out, 0, N * sizeof *u->out, u->stream), "zero");
    must(cudaStreamCreateWithFlags(&other, flags), "stream");
    if (mode == FAILED)
        must(cudaMalloc(&p, (size_t)1 << 50) == cudaSuccess, "a petabyte");
    else
        must(cudaStreamBeginCapture(other, (enum cudaStreamCaptureMode)mode), "capture");
    must(reduce(u), "all-reduce");
    if (mode != FAILED) {
        must(cudaStreamEndCapture(other, &graph), "captured");
        must(cudaGraphDestroy(graph), "graph");
    }
    (void)cudaGetLastError();
    must(is_wrong(u), "wrong");
    must(ncclCommDestroy(u->comm), "destroy");
    must(cudaStreamDestroy(other), "stream");
}

static int captured(struct user *u)
{
    first_call(u, cudaStreamNonBlocking, cudaStreamCaptureModeGlobal);
    return 1;
}

static int manners(struct user *u)
{
    first_call(u, 0, FAILED);
    first_call(u, 0, cudaStreamCaptureModeThreadLocal);
    first_call(u, 0, cudaStreamCaptureModeGlobal);
    return 1;
}

static int twice(struct user *u)
{
    init(u);
    for (int i = 0; i < 2; i++)
        say(u, "all-reduce", reduce(u));
    must(ncclCommAbort(u->comm), "abort");
    return 0;
}

static int grouped(struct user *u)
{
    int odd = u->rank % 2, wrong = 0;
    ncclUniqueId id[2] = {new_id(u), new_id(u)};
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
    return 1;
}

static int calm(struct user *u)
{
    ncclUniqueId id = new_id(u);
    ncclResult_t rc = ncclCommInitRankConfig(&u->comm, u->ranks, id, u->rank, NULL);

    settle(u->comm, rc);
    settle(u->comm, reduce(u));
    must(is_wrong(u), "wrong");
    settle(u->comm, ncclCommFinalize(u->comm));
    must(ncclCommDestroy(u->comm), "destroy");
    return 1;
}

static int late(struct user *u)
{
    enum { CALLS = 120 };
    double calls_s = 0;

    init(u);
    for (int i = 0; i <= CALLS; i++) {
        nap_ms(u->rank == 1 ? 20 : 1);
        double from = MPI_Wtime();
        must(reduce(u), "all-reduce");
        calls_s += i ? MPI_Wtime() - from : 0; /* the first makes all */
        must(is_wrong(u), "wrong");
    }
    if (u->rank == 0)
        say(u, "ns of a call", (int)(1e9 * calls_s / CALLS));
    must(ncclCommDestroy(u->comm), "destroy");
    return 1;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*does)(struct user *u); /* 1: and all is well */
    } whats[] = {{"abort", aborted},    {"revoke", revoked},  {"simulate", simulated},
                 {"capture", captured}, {"manners", manners}, {"twice", twice},
                 {"grouped", grouped},  {"calm", calm},       {"late", late}};
    struct user u = {0};
    int level = 0, well = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    user_open(&u, N);
    if (argc > 2)
        watchdog_ms = atol(argv[2]);
    for (int i = 0; i < N; i++)
        u.host[i] = (float)(u.rank + 1);
    must(cudaMemcpy(u.in, u.host, N * sizeof *u.host, cudaMemcpyDefault), "copy");
    for (size_t i = 0; i < sizeof whats / sizeof *whats; i++)
        if (argc > 1 && strcmp(argv[1], whats[i].name) == 0)
            well = whats[i].does(&u);
    if (well && u.rank == 0)
        puts("ok");
    say(&u, "over", 0);
    MPI_Barrier(MPI_COMM_WORLD);
    user_close(&u);
    MPI_Finalize();
    return 0;
}
