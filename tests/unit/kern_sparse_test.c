/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests products with sparse matrices against the dense ones in double, of sizes that are no
 * multiple of a tile, a vector or a block.  A sum of n terms in f32 is off by at most n 2^-24
 * times the sum of their magnitudes.
 */
#include "unit.h"

#include "base/rng.h"
#include "kern/kern_sparse.h"

enum { MOST = 70 * 70 };

struct setting {
    int64_t rows, in, out;
    int block;
    double share; /* of active places */
};

struct arrays {
    struct kern_sparse w;
    int32_t start[MOST], column[MOST];
    float value[4 * MOST], dvalue[4 * MOST];
    float whole[MOST], x[MOST], y[2 * MOST], from[2 * MOST], bias[MOST], dx[MOST];
    float *space;
};

static void draw(float *x, int64_t n, uint64_t stream)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rng_normal(1, stream, (uint64_t)i);
}

/* Rows of y are ld = 2 out apart. */
static struct arrays *make(const struct setting *s)
{
    struct arrays *a = mem_new(1, sizeof *a);
    int32_t n = 0, o = 0;

    for (; o * s->block < s->out; o++) {
        a->start[o] = n;
        for (int32_t i = 0; i < s->in; i++) {
            if (rng_uniform(1, 9, (uint64_t)(o * s->in + i)) >= s->share)
                continue;
            for (int b = 0; b < s->block && o * s->block + b < s->out; b++) {
                float v = (float)rng_normal(1, 8, (uint64_t)(n * 4 + b));
                a->value[n * s->block + b] = v;
                a->whole[(o * s->block + b) * s->in + i] = v;
            }
            a->column[n++] = i;
        }
    }
    a->start[o] = n;
    a->w = (struct kern_sparse){s->out, s->in, s->block, a->start, a->column, a->value};
    draw(a->x, s->rows * s->in, 1);
    draw(a->y, s->rows * 2 * s->out, 2);
    draw(a->from, s->rows * 2 * s->out, 3);
    draw(a->bias, s->out, 4);
    draw(a->dx, s->rows * s->in, 5);
    draw(a->dvalue, (int64_t)n * s->block, 6);
    a->space = mem_new((size_t)kern_sparse_space(s->rows, s->in, s->out), sizeof *a->space);
    return a;
}

static void drop(struct arrays *a)
{
    mem_free(a->space);
    mem_free(a);
}

/* Expects the sum of `terms` products, x[i * step_x] y[i * step_y], and `more` beside. */
static void expect(float found, const float *x, int64_t step_x, const float *y, int64_t step_y,
                   int64_t terms, double more)
{
    double sum = more, size = fabs(more);

    for (int64_t i = 0; i < terms; i++) {
        double t = (double)x[i * step_x] * (double)y[i * step_y];
        sum += t;
        size += fabs(t);
    }
    assert_true(fabs((double)found - sum) <= (double)(terms + 3) * 0x1p-24 * size);
}

static void check(const struct setting *s)
{
    struct arrays *a = make(s);
    int64_t ld = 2 * s->out;

    for (int way = 0; way < 2; way++) {
        float *from = way ? a->from : NULL, *bias = way ? NULL : a->bias;
        kern_sparse_y(&a->w, a->x, s->in, s->rows, from, bias, a->y, ld, a->space);
        for (int64_t r = 0; r < s->rows; r++)
            for (int64_t o = 0; o < s->out; o++)
                expect(a->y[r * ld + o], a->x + r * s->in, 1, a->whole + o * s->in, 1, s->in,
                       way ? (double)from[r * ld + o] : (double)bias[o]);
    }
    float *was = mem_new((size_t)(s->rows * s->in), sizeof *was);
    for (int add = 0; add < 2; add++) {
        memcpy(was, a->dx, (size_t)(s->rows * s->in) * sizeof *was);
        kern_sparse_dx(&a->w, a->from, ld, s->rows, add, a->dx, s->in, a->space);
        for (int64_t r = 0; r < s->rows; r++)
            for (int64_t i = 0; i < s->in; i++)
                expect(a->dx[r * s->in + i], a->from + r * ld, 1, a->whole + i, s->in, s->out,
                       add ? (double)was[r * s->in + i] : 0);
    }
    mem_free(was);
    int64_t n = a->start[(s->out + s->block - 1) / s->block];
    was = mem_new((size_t)(n * s->block + 1), sizeof *was);
    memcpy(was, a->dvalue, (size_t)(n * s->block) * sizeof *was);
    kern_sparse_dw(&a->w, a->from, ld, a->x, s->in, s->rows, a->dvalue, a->space);
    for (int64_t o = 0; o < s->out; o++)
        for (int32_t p = a->start[o / s->block]; p < a->start[o / s->block + 1]; p++) {
            int64_t at = p * s->block + o % s->block;
            expect(a->dvalue[at], a->from + o, ld, a->x + a->column[p], s->in, s->rows,
                   (double)was[at]);
        }
    mem_free(was);
    drop(a);
}

TEST(products_are_those_of_the_dense_matrix)
{
    static const struct {
        int64_t rows, in, out;
    } shape[] = {{1, 1, 1}, {31, 16, 5}, {32, 17, 32}, {33, 64, 66}, {70, 70, 35}};
    static const double share[] = {0, 0.1, 1};

    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int d = 0; d < 3; d++)
            for (int block = 1; block <= 4; block += 3)
                check(&(struct setting){shape[i].rows, shape[i].in, shape[i].out, block,
                                        share[d]});
}

TEST(a_place_outside_the_matrix_stays_0)
{
    struct arrays *a = make(&(struct setting){33, 20, 6, 4, 1});

    memset(a->dvalue, 0, sizeof a->dvalue);
    kern_sparse_dw(&a->w, a->from, 12, a->x, 20, 33, a->dvalue, a->space);
    for (int32_t p = a->start[1]; p < a->start[2]; p++)
        for (int b = 2; b < 4; b++)
            assert_true(a->dvalue[p * 4 + b] == 0);
    drop(a);
}
