/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conjugate gradient in plain MPI.  Each rank owns some rows of a banded symmetric positive
 * definite matrix whose bands span all columns, so every iteration gathers the whole search
 * direction (MPI_Allgatherv) and sums two dot products (MPI_Allreduce of 8 bytes):
 *
 *     mpicc -O2 -o cg examples/mpi/cg.c -lm
 *     mpirun -np 8 ./cg [UNKNOWNS [ITERATIONS [BANDS [SOLUTIONS]]]]
 *
 * Row i is 4 x[i] - sum over bands b of w (x[i - d] + x[i + d]), d = n / (b + 2) cyclically,
 * with 2 w BANDS = 3: diagonally dominant, so positive definite, its eigenvalues within [1, 7].
 * The error in the matrix's own norm then falls by (sqrt 7 - 1) / (sqrt 7 + 1) = 0.4514 each
 * iteration; after 40 of them 2 * 0.4514^40 = 3e-14 remains, plus rounding.  The solution is
 * known.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

struct cg {
    int n, bands, rank, ranks, first, mine; /* this rank's rows start at first */
    int *counts, *displs;
    double *x, *r, *p, *q, *all; /* this rank's shares; all is the whole direction */
    double gather_s, sum_s;
};

static double *reals(int n)
{
    double *p = calloc((size_t)n + 1, sizeof(*p));

    if (p == NULL) {
        fprintf(stderr, "cg: no memory for %d numbers\n", n);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return p;
}

/* Split the rows into blocks whose sizes differ by one row at most. */
static void cg_init(struct cg *c, int n, int bands)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &c->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c->ranks);
    c->n = n;
    c->bands = bands;
    c->counts = calloc((size_t)c->ranks, sizeof(int));
    c->displs = calloc((size_t)c->ranks, sizeof(int));
    if (c->counts == NULL || c->displs == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0, at = 0; i < c->ranks; at += c->counts[i++]) {
        c->displs[i] = at;
        c->counts[i] = n / c->ranks + (i < n % c->ranks);
    }
    c->first = c->displs[c->rank];
    c->mine = c->counts[c->rank];
    c->x = reals(c->mine);
    c->r = reals(c->mine);
    c->p = reals(c->mine);
    c->q = reals(c->mine);
    c->all = reals(n);
}

static void cg_release(struct cg *c)
{
    free(c->counts);
    free(c->displs);
    free(c->x);
    free(c->r);
    free(c->p);
    free(c->q);
    free(c->all);
}

/* Multiply this rank's rows of the matrix by the vector in c->all. */
static void rows_times(const struct cg *c, double *to)
{
    double w = 1.5 / c->bands;

    for (int i = 0; i < c->mine; i++)
        to[i] = 4 * c->all[c->first + i];
    for (int b = 0; b < c->bands; b++) {
        int d = c->n / (b + 2), up = (c->first + d) % c->n, down = (c->first + c->n - d) % c->n;
        for (int i = 0; i < c->mine; i++) {
            to[i] -= w * (c->all[up] + c->all[down]);
            up = up + 1 == c->n ? 0 : up + 1;
            down = down + 1 == c->n ? 0 : down + 1;
        }
    }
}

static void times(struct cg *c, const double *mine, double *to)
{
    double t = MPI_Wtime();

    MPI_Allgatherv(mine, c->mine, MPI_DOUBLE, c->all, c->counts, c->displs, MPI_DOUBLE,
                   MPI_COMM_WORLD);
    c->gather_s += MPI_Wtime() - t;
    rows_times(c, to);
}

static double dot(struct cg *c, const double *a, const double *b)
{
    double mine = 0, all, t;

    for (int i = 0; i < c->mine; i++)
        mine += a[i] * b[i];
    t = MPI_Wtime();
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    c->sum_s += MPI_Wtime() - t;
    return all;
}

static double solution(int i)
{
    return 1 + (i % 17) / 16.0;
}

static void solve(struct cg *c, int iterations)
{
    double rr, before, alpha;

    for (int i = 0; i < c->n; i++)
        c->all[i] = solution(i);
    rows_times(c, c->r); /* the right-hand side; x is 0 */
    for (int i = 0; i < c->mine; i++) {
        c->x[i] = 0;
        c->p[i] = c->r[i];
    }
    rr = dot(c, c->r, c->r);
    for (int k = 0; k < iterations && rr > 0; k++) {
        times(c, c->p, c->q);
        alpha = rr / dot(c, c->p, c->q);
        for (int i = 0; i < c->mine; i++) {
            c->x[i] += alpha * c->p[i];
            c->r[i] -= alpha * c->q[i];
        }
        before = rr;
        rr = dot(c, c->r, c->r);
        for (int i = 0; i < c->mine; i++)
            c->p[i] = c->r[i] + rr / before * c->p[i];
    }
}

/* The largest error of any unknown on any rank. */
static double error_max(const struct cg *c)
{
    double mine = 0, all;

    for (int i = 0; i < c->mine; i++) {
        double e = fabs(c->x[i] - solution(c->first + i));
        mine = e <= mine ? mine : e; /* a NaN stays */
    }
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    struct cg c = {0};
    int n = argc > 1 ? atoi(argv[1]) : 1 << 19, iterations = argc > 2 ? atoi(argv[2]) : 40;
    int bands = argc > 3 ? atoi(argv[3]) : 4, times = argc > 4 ? atoi(argv[4]) : 1, good;
    double t, e;

    MPI_Init(&argc, &argv);
    cg_init(&c, n > 0 ? n : 1, bands > 0 ? bands : 1);
    MPI_Barrier(MPI_COMM_WORLD);
    t = MPI_Wtime();
    for (int i = 0; i < times; i++)
        solve(&c, iterations);
    t = MPI_Wtime() - t;
    e = error_max(&c);
    /*
     * In norms: error <= error in the matrix's norm (its eigenvalues are 1 at least) <= 2 *
     * 0.45^k times that of x = 0, sqrt(7) |solution|, |solution| <= 2 sqrt(n).  Rounding adds
     * eps for each term of a row and each iteration, times 7, the condition number.
     */
    good = e <= 2 * sqrt(c.n) *
                    (2 * sqrt(7) * pow(0.45142, iterations) +
                     7 * 2.3e-16 * (2 * c.bands + 4) * (iterations + 1));
    if (c.rank == 0)
        printf("%d unknowns on %d ranks: %d iterations in %.4f s, of them %.4f s in "
               "MPI_Allgatherv, %.4f s in MPI_Allreduce; largest error %.2e%s\n",
               c.n, c.ranks, iterations, t, c.gather_s, c.sum_s, e, good ? "" : ": WRONG");
    cg_release(&c);
    MPI_Finalize();
    return c.rank == 0 && !good;
}
