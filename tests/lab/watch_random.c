/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of random collectives, the same on all ranks: a step is work, one of any kind and
 * size among all ranks or, of an even number, between rank 2 k and rank 2 k + 1, and a sum.
 *
 *     watch_random SECONDS SEED WORK
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1 << 17 };

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 16;
}

static double work(int times)
{
    volatile double x = 1;

    for (int i = 0; i < times; i++)
        x = 0.5 * x + 1;
    return x;
}

static void call(int kind, int n, double *a, double *b, MPI_Comm comm)
{
    int ranks;

    MPI_Comm_size(comm, &ranks);
    switch (kind) {
    case 0:
        MPI_Allgather(a, n / ranks, MPI_DOUBLE, b, n / ranks, MPI_DOUBLE, comm);
        break;
    case 1:
        MPI_Reduce_scatter_block(a, b, n / ranks, MPI_DOUBLE, MPI_SUM, comm);
        break;
    case 2:
        MPI_Alltoall(a, n / ranks, MPI_DOUBLE, b, n / ranks, MPI_DOUBLE, comm);
        break;
    case 3:
        MPI_Bcast(a, n, MPI_DOUBLE, 0, comm);
        break;
    case 4:
        MPI_Reduce(a, b, n, MPI_DOUBLE, MPI_SUM, 0, comm);
        break;
    default:
        MPI_Barrier(comm);
    }
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 5, sum = 0, all = 0, begin;
    unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    int times = argc > 3 ? atoi(argv[3]) : 1000000, rank, ranks, go = 1;
    MPI_Comm pair;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
    double *a = calloc(LARGEST, sizeof *a), *b = calloc(LARGEST, sizeof *b);
    begin = MPI_Wtime();
    while (go) {
        unsigned kind = next(&seed) % 6, size = next(&seed) % 2, of_all = next(&seed) % 2;
        sum += work(times);
        call((int)kind, LARGEST >> 10 * size, a, b,
             of_all || ranks % 2 || ranks < 3 ? MPI_COMM_WORLD : pair);
        double x = rank == 0 && MPI_Wtime() - begin > seconds; /* rank 0 ends it for all */
        MPI_Allreduce(&x, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        go = all < 1;
    }
    MPI_Finalize();
    return sum < 0;
}
