/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program whose ranks work and meet, as a conjugate gradient does: a product with a matrix
 * of bands, an all-gather, two sums.
 *
 *     watch_loop SECONDS UNKNOWNS [RANK PERCENT]     that rank does so much more work
 *     watch_loop SECONDS UNKNOWNS RANK hang|other    after a third of the time it does not come
 *                                                    to a sum, or calls a broadcast instead
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double work(double *x, int n, int times)
{
    double sum = 0;

    for (int t = 0; t < times; t++)
        for (int i = 0; i < n; i++)
            sum += x[i] = 0.5 * x[i] + 0.25 * x[(i + 7) % n] + 1e-3 * t;
    return sum;
}

int main(int argc, char **argv)
{
    int rank, ranks, n = argc > 2 ? atoi(argv[2]) : 1000, who = argc > 3 ? atoi(argv[3]) : -1,
                     go = 1;
    double seconds = argc > 1 ? atof(argv[1]) : 1, sum = 0, all;
    const char *what = argc > 4 ? argv[4] : "0";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double *x = calloc((size_t)n, sizeof *x), *whole = calloc((size_t)ranks * 64, sizeof *x);
    double begin = MPI_Wtime();
    int more = rank == who ? atoi(what) : 0, steps = 0;
    for (; go; steps++) {
        int late = rank == who && MPI_Wtime() - begin > seconds / 3;
        sum += work(x, n, 100 + more);
        if (late && strcmp(what, "hang") == 0)
            sleep(600);
        MPI_Allgather(x, 64, MPI_DOUBLE, whole, 64, MPI_DOUBLE, MPI_COMM_WORLD);
        if (late && strcmp(what, "other") == 0)
            MPI_Bcast(&sum, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        sum += work(x, n, 10 + more / 10);
        go = MPI_Wtime() - begin < seconds;
        MPI_Allreduce(MPI_IN_PLACE, &go, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    if (rank == 0 && getenv("STEPS"))
        printf("%.0f steps/s\n", steps / (MPI_Wtime() - begin));
    MPI_Finalize();
    return rank == 0 && !(all > 0);
}
