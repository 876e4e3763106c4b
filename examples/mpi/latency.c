/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measure four collectives of the MPI library: for each message size, the minimum, mean and
 * maximum over the ranks of each rank's mean time.  The size is that of the whole vector: the
 * result of an all-gather, the input of a reduce-scatter, the vector of the other two.
 *
 *     mpicc -O2 -o latency examples/mpi/latency.c
 *     mpirun -np 8 ./latency [-o allgather,reduce_scatter,allreduce,bcast] [-b 1024]
 *                            [-e 4194304] [-n ITERATIONS] [-w WARMUP] [-c]
 *
 * -c checks the received data after the timed iterations; the exit status is then 1 if any
 * value is wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum op { ALLGATHER, REDUCE_SCATTER, ALLREDUCE, BCAST, OPS };

static const char *const names[OPS] = {"allgather", "reduce_scatter", "allreduce", "bcast"};

struct bench {
    const char *ops;
    long from, to;
    int iterations, warmup, check, rank, ranks;
    float *in, *out;
};

static int options_read(struct bench *b, int argc, char **argv)
{
    int k;

    while ((k = getopt(argc, argv, "o:b:e:n:w:c")) != -1)
        switch (k) {
        case 'o':
            b->ops = optarg;
            break;
        case 'b':
            b->from = atol(optarg);
            break;
        case 'e':
            b->to = atol(optarg);
            break;
        case 'n':
            b->iterations = atoi(optarg);
            break;
        case 'w':
            b->warmup = atoi(optarg);
            break;
        case 'c':
            b->check = 1;
            break;
        default:
            return -1;
        }
    return optind < argc || b->from < 4 || b->to < b->from || b->iterations < 1 ? -1 : 0;
}

/* Is `op` in the comma-separated list? */
static int listed(const char *list, const char *op)
{
    size_t n = strlen(op);

    for (const char *p = list; (p = strstr(p, op)) != NULL; p += n)
        if ((p == list || p[-1] == ',') && (p[n] == ',' || p[n] == '\0'))
            return 1;
    return 0;
}

/* Whole numbers below 2^24 / ranks: their sums are exact in any order. */
static float value(int rank, int i)
{
    return (float)(i % 1021 + 3 * rank);
}

static float sum(const struct bench *b, int i)
{
    float all = 0;

    for (int r = 0; r < b->ranks; r++)
        all += value(r, i);
    return all;
}

/* Floats in the whole vector; a multiple of the ranks where blocks must be equal. */
static int numbers(const struct bench *b, enum op op, long bytes)
{
    int n = (int)(bytes / (long)sizeof(float));

    if (op == ALLGATHER || op == REDUCE_SCATTER)
        n = (n + b->ranks - 1) / b->ranks * b->ranks;
    return n;
}

static void call(struct bench *b, enum op op, int n)
{
    int block = n / b->ranks;

    if (op == ALLGATHER)
        MPI_Allgather(b->in, block, MPI_FLOAT, b->out, block, MPI_FLOAT, MPI_COMM_WORLD);
    else if (op == REDUCE_SCATTER)
        MPI_Reduce_scatter_block(b->in, b->out, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (op == ALLREDUCE)
        MPI_Allreduce(b->in, b->out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Bcast(b->out, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

/* Make one more call and check every value; return how many are wrong on this rank. */
static long wrong(struct bench *b, enum op op, int n)
{
    int block = n / b->ranks, got = op == REDUCE_SCATTER ? block : n;
    long bad = 0;

    for (int i = 0; i < n; i++) {
        b->in[i] = value(b->rank, i);
        b->out[i] = op == BCAST && b->rank == 0 ? value(0, i) : -1;
    }
    call(b, op, n);
    for (int i = 0; i < got; i++) {
        float want = op == ALLGATHER        ? value(i / block, i % block)
                     : op == REDUCE_SCATTER ? sum(b, b->rank * block + i)
                     : op == ALLREDUCE      ? sum(b, i)
                                            : value(0, i);
        bad += b->out[i] != want;
    }
    return bad;
}

static long row(struct bench *b, enum op op, long bytes)
{
    int n = numbers(b, op, bytes);
    double us = 0, t, least, all, most;
    long bad = 0, bads = 0;

    for (int k = -b->warmup; k < b->iterations; k++) {
        MPI_Barrier(MPI_COMM_WORLD);
        t = MPI_Wtime();
        call(b, op, n);
        if (k >= 0)
            us += (MPI_Wtime() - t) * 1e6 / b->iterations;
    }
    MPI_Reduce(&us, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&us, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&us, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (b->check)
        bad = wrong(b, op, n);
    MPI_Reduce(&bad, &bads, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (b->rank == 0)
        printf("%-16s %12ld %12.1f %12.1f %12.1f %8s\n", names[op], (long)sizeof(float) * n,
               least, all / b->ranks, most,
               !b->check ? "-"
               : bads    ? "WRONG"
                         : "ok");
    return bads;
}

int main(int argc, char **argv)
{
    struct bench b = {.ops = "allgather,reduce_scatter,allreduce,bcast",
                      .from = 1024,
                      .to = 4 << 20,
                      .iterations = 10,
                      .warmup = 3};
    long bad = 0;
    size_t space;

    if (options_read(&b, argc, argv)) {
        fprintf(stderr,
                "Usage: latency [-o OPS] [-b MIN] [-e MAX] [-n ITERATIONS] [-w WARMUP] [-c]\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
    space = (size_t)b.to + sizeof(float) * (size_t)b.ranks;
    b.in = calloc(1, space);
    b.out = calloc(1, space);
    if (b.in == NULL || b.out == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (b.rank == 0)
        printf("%-16s %12s %12s %12s %12s %8s\n", "operation", "bytes", "min us", "mean us",
               "max us", "checked");
    for (int op = 0; op < OPS; op++)
        for (long bytes = b.from; listed(b.ops, names[op]) && bytes <= b.to; bytes *= 2)
            bad += row(&b, op, bytes);
    free(b.in);
    free(b.out);
    MPI_Finalize();
    return b.rank == 0 && bad;
}
