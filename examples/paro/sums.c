/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A blocking all-reduce, and an all-gather that runs while the program computes:
 *
 *     mpicc -o sums sums.c $(pkg-config --cflags --libs paro)
 *     mpirun -np 4 ./sums
 */
#include <paro.h>
#include <stdio.h>

enum { N = 1 << 20, M = 1 << 16 };
static float grad[N];

static void must(int rc, const struct paro_error *err)
{
    if (rc == 0)
        return;
    fprintf(stderr, "sums: %s\n", err->text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    struct paro_spec sum = {.bytes = sizeof sum, .op = PARO_ALL_REDUCE, .type = PARO_F32};
    struct paro_spec gather = {.bytes = sizeof gather, .op = PARO_ALL_GATHER, .type = PARO_F32};
    struct paro_description d = {.bytes = sizeof d};
    struct paro_coll *sums, *gathers;
    struct paro_comm *comm;
    struct paro_error err;
    int rank, ranks, done = 0;
    void *block, *blocks;
    long polls = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    sum.count = N;
    gather.count = M; /* from each rank */
    must(paro_comm_open(&comm, MPI_COMM_WORLD, NULL, &err), &err);
    must(paro_prepare(comm, &sum, &sums, &err), &err);
    must(paro_prepare(comm, &gather, &gathers, &err), &err);

    for (int i = 0; i < N; i++)
        grad[i] = (float)(i % 7 + rank);
    must(paro_run(sums, grad, grad, &err), &err);

    paro_buffers(gathers, &block, &blocks); /* the handle's own buffers: no copy */
    for (int i = 0; i < M; i++)
        ((float *)block)[i] = (float)(rank + 1);
    must(paro_start(gathers, block, blocks, &err), &err);
    for (; !done; polls++) /* do a piece of other work here */
        must(paro_test(gathers, &done, &err), &err);

    must(paro_describe(sums, &d, &err), &err);
    if (rank == 0)
        printf("%d ranks as %s, by %s: element 8 is %g, last rank %g; polled %ld times\n",
               ranks, d.groups, d.algo, grad[8], ((float *)blocks)[ranks * (long)M - 1], polls);
    paro_free(sums);
    paro_free(gathers);
    paro_comm_close(comm);
    MPI_Finalize();
    return 0;
}
