/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_user: a program that knows NCCL and nothing of paro, under mpirun: what tests preload
 * libparo-nccl.so into.  Each collective in each type and operation, in place and not, inside
 * and outside groups, one behind the other in one stream; then what is unusual: a captured
 * stream, an operation of its own, communicators of parts of the ranks, that do not block, that
 * are made in a group.  Results are compared with sums of whole numbers made here.  Prints "ok
 * N" from rank 0. */
#include <stdint.h>

#include "nccl_fixture.h"

enum { COUNT_MAX = 300000, RANKS_MAX = 16 };

static int runs, wrong;

/* Whole numbers: sums are exact in any order. */
static float value(int rank, int64_t x)
{
    return (float)(x % 61 + 3 * rank);
}

static float expected(const struct user *u, ncclRedOp_t op, int64_t x)
{
    float v = value(0, x);

    for (int r = 1; r < u->ranks; r++) {
        float one = value(r, x);
        v = op == ncclMax ? (one > v ? one : v) : op == ncclMin ? (one < v ? one : v) : v + one;
    }
    return op == ncclAvg ? v / (float)u->ranks : v;
}

static void put(struct user *u, float *to, int64_t n, int64_t first)
{
    for (int64_t i = 0; i < n; i++)
        u->host[i] = value(u->rank, first + i);
    must(cudaMemcpyAsync(to, u->host, (size_t)n * 4, cudaMemcpyDefault, u->stream), "copy");
    must(cudaStreamSynchronize(u->stream), "sync"); /* the host's numbers are used again */
}

static void take(struct user *u, const float *from, int64_t n)
{
    must(cudaMemcpyAsync(u->host, from, (size_t)n * 4, cudaMemcpyDefault, u->stream), "copy");
    must(cudaStreamSynchronize(u->stream), "sync");
}

static void gather(struct user *u, int64_t n, int in_place)
{
    float *in = in_place ? u->out + u->rank * n : u->in;

    put(u, in, n, 0);
    must(ncclAllGather(in, u->out, (size_t)n, ncclFloat32, u->comm, u->stream), "all-gather");
    take(u, u->out, n * u->ranks);
    for (int64_t i = 0; i < n * u->ranks; i++)
        wrong += u->host[i] != value((int)(i / n), i % n);
    runs++;
}

static void scatter(struct user *u, int64_t n, ncclRedOp_t op, int in_place)
{
    float *out = in_place ? u->in + u->rank * n : u->out;

    put(u, u->in, n * u->ranks, 0);
    must(ncclReduceScatter(u->in, out, (size_t)n, ncclFloat32, op, u->comm, u->stream),
         "reduce-scatter");
    take(u, out, n);
    for (int64_t i = 0; i < n; i++)
        wrong += u->host[i] != expected(u, op, u->rank * n + i);
    runs++;
}

static void reduce(struct user *u, int64_t n, ncclRedOp_t op, int in_place)
{
    float *out = in_place ? u->in : u->out;

    put(u, u->in, n, 5);
    must(ncclAllReduce(u->in, out, (size_t)n, ncclFloat32, op, u->comm, u->stream),
         "all-reduce");
    take(u, out, n);
    for (int64_t i = 0; i < n; i++)
        wrong += u->host[i] != expected(u, op, 5 + i);
    runs++;
}

/* Two in one group, and work of the program's before and behind in the same stream. */
static void grouped(struct user *u, int64_t n)
{
    put(u, u->in, n, 0);
    must(ncclGroupStart(), "group");
    must(ncclGroupStart(), "group");
    must(ncclAllReduce(u->in, u->out, (size_t)n, ncclFloat32, ncclSum, u->comm, u->stream),
         "all-reduce");
    must(ncclGroupEnd(), "group");
    must(ncclAllGather(u->in, u->out + n, (size_t)n / 16, ncclFloat32, u->comm, u->stream),
         "all-gather");
    must(ncclGroupEnd(), "group");
    take(u, u->out, n + n / 16 * u->ranks);
    for (int64_t i = 0; i < n; i++)
        wrong += u->host[i] != expected(u, ncclSum, i);
    for (int64_t i = 0; i < n / 16 * u->ranks; i++)
        wrong += u->host[n + i] != value((int)(i / (n / 16)), i % (n / 16));
    runs += 2;
}

/* Each of the next eats what the one before made, without a word to the host. */
static void in_a_row(struct user *u, int64_t n)
{
    put(u, u->in, n, 0);
    for (int i = 0; i < 3; i++)
        must(ncclAllReduce(i ? u->out : u->in, u->out, (size_t)n, ncclFloat32,
                           i ? ncclAvg : ncclSum, u->comm, u->stream),
             "all-reduce");
    take(u, u->out, n);
    for (int64_t i = 0; i < n; i++)
        wrong += u->host[i] != expected(u, ncclSum, i);
    runs += 3;
}

/* While the thread is at another GPU than the communicator's, where it stays. */
static void elsewhere(struct user *u, int64_t n)
{
    int gpus = 0, now = -1;

    must(cudaGetDeviceCount(&gpus), "count");
    if (gpus < 2)
        return;
    put(u, u->in, n, 0);
    must(cudaSetDevice(1), "device");
    must(ncclAllReduce(u->in, u->out, (size_t)n, ncclFloat32, ncclSum, u->comm, u->stream),
         "all-reduce");
    must(cudaGetDevice(&now), "device");
    wrong += now != 1;
    must(cudaSetDevice(0), "device");
    take(u, u->out, n);
    for (int64_t i = 0; i < n; i++)
        wrong += u->host[i] != expected(u, ncclSum, i);
    runs++;
}

static void unusual(struct user *u, int64_t n)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t part = NULL, calm = NULL;
    cudaGraph_t graph = NULL;
    float scalar = 2;
    ncclRedOp_t twice;

    put(u, u->in, n, 0);
    must(cudaStreamBeginCapture(u->stream, cudaStreamCaptureModeGlobal), "capture");
    must(ncclAllReduce(u->in, u->out, (size_t)n, ncclFloat32, ncclSum, u->comm, u->stream),
         "all-reduce");
    must(cudaStreamEndCapture(u->stream, &graph), "capture");
    if (graph)
        must(cudaGraphDestroy(graph), "graph");
    must(ncclRedOpCreatePreMulSum(&twice, &scalar, ncclFloat32, ncclScalarHostImmediate,
                                  u->comm),
         "operation");
    must(ncclAllReduce(u->in, u->out, (size_t)n, ncclFloat32, twice, u->comm, u->stream),
         "all-reduce");
    take(u, u->out, n);
    for (int64_t i = 0; i < n; i++)
        wrong += u->host[i] != 2 * expected(u, ncclSum, i);
    must(ncclRedOpDestroy(twice, u->comm), "operation");
    /* All but the last: another shape than the table's. */
    int last = u->rank == u->ranks - 1;
    must(ncclCommSplit(u->comm, last ? NCCL_SPLIT_NOCOLOR : 0, u->rank, &part, NULL), "split");
    if (part) {
        struct user few = *u;
        few.comm = part;
        few.ranks--;
        reduce(&few, n, ncclSum, 0);
        runs--; /* the last rank was not in it */
        must(ncclCommDestroy(part), "destroy");
    }
    config.blocking = 0;
    settle(u->comm, ncclCommSplit(u->comm, 0, u->rank, &calm, &config));
    settle(calm, ncclSuccess);
    settle(calm,
           ncclAllReduce(u->in, u->out, (size_t)n, ncclFloat32, ncclSum, calm, u->stream));
    must(cudaStreamSynchronize(u->stream), "sync");
    /* An abort drops what NCCL has not sent yet, which another rank may wait for. */
    MPI_Barrier(MPI_COMM_WORLD);
    must(ncclCommAbort(calm), "abort");
    runs += 4;
}

static void run(struct user *u)
{
    static const int64_t counts[] = {1, 1000, 16000};
    static const ncclRedOp_t ops[] = {ncclSum, ncclMax, ncclMin, ncclAvg};

    for (int i = 0; i < 3; i++)
        for (int in_place = 0; in_place < 2; in_place++) {
            gather(u, counts[i], in_place);
            for (int op = 0; op < 4; op++) {
                scatter(u, counts[i], ops[op], in_place);
                reduce(u, counts[i], ops[op], in_place);
            }
        }
    gather(u, 16000, 0); /* again, by what was prepared */
    grouped(u, 16000);
    in_a_row(u, 16000);
    elsewhere(u, 16000);
    unusual(u, 16000);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    struct user u = {0};

    MPI_Init(&argc, &argv);
    user_open(&u, COUNT_MAX);
    must(u.ranks > RANKS_MAX, "room");
    init(&u);
    run(&u);
    must(ncclCommDestroy(u.comm), "destroy");
    user_close(&u);
    if (u.rank == 0)
        printf("%s %d\n", wrong ? "wrong" : "ok", wrong ? wrong : runs);
    MPI_Finalize();
    return wrong != 0;
}
