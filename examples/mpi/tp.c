/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensor parallelism in plain MPI: the forward pass of transformer layers, cut as by Shoeybi et
 * al. (Megatron-LM, arXiv 1909.08053).  Each rank has some attention heads and some hidden
 * units, so that a layer needs two sums of the whole activations (MPI_Allreduce):
 *
 *     mpicc -O3 -o tp examples/mpi/tp.c -lm
 *     mpirun -np 8 ./tp [LAYERS [TOKENS [WIDTH [SEQUENCES]]]]
 *
 *     x += sum over ranks of  attention(norm(x) Wq, norm(x) Wk, norm(x) Wv) Wo
 *     x += sum over ranks of  relu(norm(x) Wup) Wdown
 *
 * What a rank adds to a sum is rounded to 2^-12: sums below 2^11 are exact in any order, and
 * the checksum is the same whatever algorithm adds.  Two sequences come before those timed:
 * by then libparo-mpi.so has decided who serves the sums.
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEAD = 16, WARM = 2 };
enum { Q, K, V, OUT, UP, DOWN, MATRICES };

static float *floats(int rows, int columns)
{
    float *p = calloc((size_t)rows * (size_t)columns + 1, sizeof(*p));

    if (p == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    return p;
}

/* Part of a matrix of `inputs` rows in all, of mean 0 and variance 1/inputs: each entry depends
 * on its place in the whole matrix alone, so that all numbers of ranks have the same model. */
static float *weights(int rows, int columns, int row, int column, uint64_t seed, int inputs)
{
    float *m = floats(rows, columns), *to = m;

    for (int i = row; i < row + rows; i++)
        for (int j = column; j < column + columns; j++) {
            uint64_t z = (seed << 48 | (uint64_t)i << 24 | (uint64_t)j) * 0x9e3779b97f4a7c15;
            z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
            z = (z ^ z >> 27) * 0x94d049bb133111eb;
            *to++ = ((float)(z >> 40) * 0x1p-23F - 1) * sqrtf(3.0F / (float)inputs);
        }
    return m;
}

/* c (rows,n) = a (rows,k) b (k,n) */
static void multiply(const float *a, const float *b, float *c, int rows, int k, int n)
{
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < n; j++)
            c[i * n + j] = 0;
        for (int l = 0; l < k; l++)
            for (int j = 0; j < n; j++)
                c[i * n + j] += a[i * k + l] * b[l * n + j];
    }
}

static void norm(const float *x, float *to, int tokens, int width)
{
    for (int i = 0; i < tokens * width; i += width) {
        float squares = 0;
        for (int j = i; j < i + width; j++)
            squares += x[j] * x[j];
        for (int j = i; j < i + width; j++)
            to[j] = x[j] / sqrtf(squares / (float)width + 1e-6F);
    }
}

/* Causal attention of this rank's heads, n columns; the output replaces q. */
static void attend(float *q, const float *k, const float *v, float *score, int tokens, int n)
{
    for (int h = 0; h < n; h += HEAD)
        for (int t = tokens - 1; t >= 0; t--) {
            float out[HEAD] = {0}, sum = 0;
            for (int s = 0; s <= t; s++) {
                score[s] = 0;
                for (int j = h; j < h + HEAD; j++)
                    score[s] += q[t * n + j] * k[s * n + j];
                score[s] = expf(score[s] / sqrtf(HEAD)); /* of unit-size numbers: no overflow */
                sum += score[s];
            }
            for (int s = 0; s <= t; s++)
                for (int j = 0; j < HEAD; j++)
                    out[j] += score[s] / sum * v[s * n + h + j];
            for (int j = 0; j < HEAD; j++)
                q[t * n + h + j] = out[j];
        }
}

/* x += sum over ranks of y */
static double add_all(float *x, float *y, int count)
{
    double t = MPI_Wtime();

    for (int i = 0; i < count; i++)
        y[i] = rintf(y[i] * 4096) / 4096;
    MPI_Allreduce(MPI_IN_PLACE, y, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        x[i] += y[i];
    return MPI_Wtime() - t;
}

struct tp {
    int tokens, width, mine;   /* columns of this rank's heads */
    float **w, *x, *y, *score; /* [layers * MATRICES], (tokens,width) twice, (tokens) */
    float *part[3], *hidden;   /* (tokens,mine) each, (tokens,4 mine) */
    double sum_s;              /* time in sums */
};

static void layer(struct tp *t, float **w)
{
    int n = t->mine;

    norm(t->x, t->y, t->tokens, t->width);
    for (int i = Q; i <= V; i++)
        multiply(t->y, w[i], t->part[i], t->tokens, t->width, n);
    attend(t->part[Q], t->part[K], t->part[V], t->score, t->tokens, n);
    multiply(t->part[Q], w[OUT], t->y, t->tokens, n, t->width);
    t->sum_s += add_all(t->x, t->y, t->tokens * t->width);
    norm(t->x, t->y, t->tokens, t->width);
    multiply(t->y, w[UP], t->hidden, t->tokens, t->width, 4 * n);
    for (int i = 0; i < t->tokens * 4 * n; i++)
        t->hidden[i] = fmaxf(t->hidden[i], 0);
    multiply(t->hidden, w[DOWN], t->y, t->tokens, 4 * n, t->width);
    t->sum_s += add_all(t->x, t->y, t->tokens * t->width);
}

/* A rank's heads differ in number by one at most; each of their columns has 4 hidden units. */
static void tp_init(struct tp *t, int layers, int rank, int ranks)
{
    int heads = t->width / HEAD, first = heads * rank / ranks * HEAD;

    t->mine = heads * (rank + 1) / ranks * HEAD - first;
    t->w = calloc((size_t)layers * MATRICES, sizeof(*t->w));
    if (t->w == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < layers * MATRICES; i++) {
        int m = i % MATRICES, by = m < UP ? 1 : 4, n = by * t->mine;
        t->w[i] = m == OUT || m == DOWN
                      ? weights(n, t->width, by * first, 0, (uint64_t)i, by * t->width)
                      : weights(t->width, n, 0, by * first, (uint64_t)i, t->width);
    }
    for (int i = Q; i <= V; i++)
        t->part[i] = floats(t->tokens, t->mine);
    t->y = floats(t->tokens, t->width);
    t->score = floats(t->tokens, 1);
    t->hidden = floats(t->tokens, 4 * t->mine);
}

int main(int argc, char **argv)
{
    int layers = argc > 1 ? atoi(argv[1]) : 4, tokens = argc > 2 ? atoi(argv[2]) : 256;
    int width = argc > 3 ? atoi(argv[3]) : 128, sequences = argc > 4 ? atoi(argv[4]) : 8;
    struct tp t = {.tokens = tokens, .width = width};
    int rank, ranks,
        wrong = layers < 1 || tokens < 1 || width < HEAD || width % HEAD || sequences < 1;
    double start = 0, checksum = 0, least = 0, most = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!wrong)
        tp_init(&t, layers, rank, ranks);
    for (int s = -WARM; s < sequences && !wrong; s++) {
        t.x = weights(tokens, width, 0, 0, (uint64_t)(layers * MATRICES + s + WARM), 1);
        MPI_Barrier(MPI_COMM_WORLD);
        if (s == 0) {
            start = MPI_Wtime();
            t.sum_s = 0;
        }
        for (int i = 0; i < layers; i++)
            layer(&t, t.w + i * MATRICES);
        for (int i = 0; i < tokens * width; i++)
            checksum += t.x[i] * (1 + i % 7) / (tokens * width);
        free(t.x);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime() - start;
    MPI_Reduce(&checksum, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&checksum, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0 && wrong)
        fprintf(stderr, "tp: expected numbers from 1, WIDTH a multiple of %d\n", HEAD);
    else if (rank == 0)
        printf(
            "%d layers of width %d on %d ranks: %.2f sequences/s of %d tokens, %.0f %% of the "
            "time in sums; checksum %.9f%s\n",
            layers, width, ranks, sequences / start, tokens, 100 * t.sum_s / start, checksum,
            least == most ? "" : ": WRONG, ranks differ");
    MPI_Finalize();
    return rank ? 0 : wrong ? 2 : least != most;
}
