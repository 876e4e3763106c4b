/* SPDX-License-Identifier: BSD-3-Clause */
/* What the engine does to vectors: types, sums, the optimizer.  Rounding is exact: to the bit.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "../unit/kern_ref_fixture.h"
#include "kern_check.h"

static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
enum { TYPES = 3 };

/* Whether `out` holds those bits; a NaN may be any. */
static int same_bits(const struct mat *out, const void *want)
{
    int64_t size = dtype_bytes(out->type);

    for (int64_t i = 0; i < out->cols; i++) {
        const char *w = (const char *)want + i * size, *g = out->got + out->first + i * size;
        double v;

        dtype_convert(&v, DTYPE_F64, w, out->type, 1);
        if (isnan(v) ? !isnan(mat_at(out, 0, i)) : memcmp(w, g, (size_t)size) != 0)
            return 0;
    }
    return 1;
}

/* Ties, both zeros, subnormals of each type, what overflows, infinities, NaN; then any. */
static struct mat numbers(struct check *c, enum dtype type, int64_t n, int64_t off)
{
    static const double odd[] = {0.0,         -0.0,     1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1p-11,
                                 1 + 0x3p-11, 65504,    65519,      65520,      -7e4,
                                 0x1p-24,     0x1p-25,  0x1.8p-25,  0x1p-14,    -0x1.ffcp-15,
                                 0x1p-130,    0x1p-149, 3.3895e38,  3.4e38,     INFINITY,
                                 -INFINITY,   NAN};
    struct mat x = mat_new(c, DTYPE_F32, 1, n, n, 0, 3);
    int64_t odds = (int64_t)(sizeof odd / sizeof *odd);

    for (int64_t i = 0; i < odds && i < n - 1; i++)
        x.x[i] = odd[i];
    struct mat m = mat_of(c, type, 1, n, n, off, x.x);
    mat_free(c, &x);
    return m;
}

static int clean(const struct mat *m) /* two runs alike, nothing beside it */
{
    return !m->differs && memcmp(m->got, m->init, (size_t)m->first) == 0 &&
           memcmp(m->got + m->first + m->cols * dtype_bytes(m->type),
                  m->init + m->first + m->cols * dtype_bytes(m->type),
                  (size_t)(m->bytes - m->first - m->cols * dtype_bytes(m->type))) == 0;
}

static void convert_case(struct check *c, enum dtype to, enum dtype from, int64_t n,
                         int64_t off)
{
    struct mat x = numbers(c, from, n, off), y = mat_new(c, to, 1, n, n, 2 * off, 0);
    void *want = mem_new((size_t)n, 4);

    dtype_convert(want, to, x.init + x.first, from, n);
    for (int again = 0; again < 2; again++) {
        mat_reset(c, &y);
        c->op->convert(c->k, y.p, to, x.p, from, n);
        mat_take(c, &y);
    }
    ok(c, same_bits(&y, want) && clean(&y), "convert %d from %s to %s", (int)n,
       dtype_name(from), dtype_name(to));
    mat_free(c, &x), mat_free(c, &y);
    mem_free(want);
}

/* in: there where it is. */
static void round_case(struct check *c, enum dtype type, enum dtype seen, int64_t n, int in)
{
    int64_t off = n % 2; /* single elements, or whole packs */
    struct mat x = numbers(c, DTYPE_F32, n, off);
    struct mat y = in ? numbers(c, DTYPE_F32, n, off) : mat_new(c, type, 1, n, n, 0, 0);
    const void *from = in ? y.init + y.first : x.init + x.first;
    void *want = mem_new((size_t)n, 4), *half = mem_new((size_t)n, 4);

    dtype_convert(half, seen, from, DTYPE_F32, n);
    dtype_convert(want, type, half, seen, n);
    for (int again = 0; again < 2; again++) {
        mat_reset(c, &y);
        c->op->round(c->k, y.p, type, in ? y.p : x.p, seen, n);
        mat_take(c, &y);
    }
    ok(c, same_bits(&y, want) && clean(&y), "round %d to %s seen as %s%s", (int)n,
       dtype_name(type), dtype_name(seen), in ? " in place" : "");
    mat_free(c, &x), mat_free(c, &y);
    mem_free(want), mem_free(half);
}

void check_convert(struct check *c)
{
    static const int64_t size[] = {1, 7, 1003, 70002};

    for (int i = 0; i < 4; i++)
        for (int t = 0; t < TYPES * TYPES; t++)
            for (int64_t off = 0; off < 2; off++) /* whole packs, single elements */
                convert_case(c, types[t / TYPES], types[t % TYPES], size[i], off);
    for (int i = 0; i < 4; i++) {
        for (int t = 0; t < TYPES; t++) {
            round_case(c, types[t], types[t], size[i], 0);
            round_case(c, DTYPE_F32, types[t], size[i], 0);
        }
        round_case(c, DTYPE_F32, DTYPE_BF16, size[i], 1);
    }
}

static void accumulate_case(struct check *c, enum dtype acc, enum dtype type, int64_t n,
                            int64_t off)
{
    struct mat y = mat_new(c, acc, 1, n, n, off, 1), x = mat_new(c, type, 1, n, n, 2 * off, 1);
    void *want = mem_new((size_t)n, 4);

    for (int64_t i = 0; i < n; i++) {
        float sum = (float)y.x[i] + (float)x.x[i];

        dtype_convert((char *)want + i * dtype_bytes(acc), acc, &sum, DTYPE_F32, 1);
    }
    for (int again = 0; again < 2; again++) {
        mat_reset(c, &y);
        c->op->accumulate(c->k, y.p, acc, x.p, type, n);
        mat_take(c, &y);
    }
    ok(c, same_bits(&y, want) && clean(&y), "accumulate %d of %s in %s", (int)n,
       dtype_name(type), dtype_name(acc));
    mat_free(c, &y), mat_free(c, &x);
    mem_free(want);
}

static void abs_case(struct check *c, int64_t n)
{
    struct mat x = numbers(c, DTYPE_F32, n, n % 2);
    float *want = mem_new((size_t)n, sizeof *want);

    for (int64_t i = 0; i < n; i++)
        want[i] = fabsf((float)x.x[i]);
    for (int again = 0; again < 2; again++) {
        mat_reset(c, &x);
        c->op->abs(c->k, x.p, n);
        mat_take(c, &x);
    }
    ok(c, same_bits(&x, want) && clean(&x), "abs %d", (int)n);
    mat_free(c, &x);
    mem_free(want);
}

void check_accumulate(struct check *c)
{
    static const int64_t size[] = {1, 7, 1003, 70002};

    for (int i = 0; i < 4; i++) {
        for (int t = 0; t < TYPES * TYPES; t++)
            for (int64_t off = 0; off < 2; off++)
                accumulate_case(c, types[t / TYPES], types[t % TYPES], size[i], off);
        abs_case(c, size[i]);
    }
}

/* Squares are exact in double: n roundings of sums, 2^-53 each, all terms above 0. */
void check_sumsq(struct check *c)
{
    static const int64_t size[] = {1, 7, 1003, 300002, 1100003};

    for (int i = 0; i < 5; i++)
        for (int t = 0; t < TYPES; t++) {
            int64_t n = size[i];
            struct mat x = mat_new(c, types[t], 1, n, n, i < 3, 1);
            double want = 0, got[3] = {0};
            struct err err;

            for (int64_t j = 0; j < n; j++)
                want += x.x[j] * x.x[j];
            for (int run = 0; run < 3; run++) { /* once, once more, in two parts */
                int64_t part = run < 2 ? n : n / 3;
                char *rest = (char *)x.p + part * dtype_bytes(types[t]);

                c->op->sumsq(c->k, x.p, types[t], part);
                if (part < n)
                    c->op->sumsq(c->k, rest, types[t], n - part);
                if (c->op->sumsq_take(c->k, &got[run], &err))
                    bail("%s", err.text);
            }
            ok(c,
               got[0] == got[1] && fabs(got[0] - want) <= (double)n * 0x1p-52 * want &&
                   fabs(got[2] - want) <= (double)n * 0x1p-52 * want,
               "sum of squares of %d %s: %.17g, %.17g expected", (int)n, dtype_name(types[t]),
               got[0], want);
            mat_free(c, &x);
        }
}

static void adamw_case(struct check *c, enum dtype type, int64_t n, int64_t off, double scale)
{
    struct kern_optim o = {.scale = scale,
                           .lr = 0.1,
                           .beta1 = 0.9,
                           .beta2 = 0.95,
                           .eps = 1e-8,
                           .decay = 0.1,
                           .step = 3};
    struct mat m = mat_new(c, DTYPE_F32, 1, n, n, off, 0.1);
    struct mat g = mat_new(c, type, 1, n, n, off, 0.5);
    double *square = doubles(n), *gs = doubles(n), *weight = doubles(n);

    for (int64_t i = 0; i < n; i++) {
        square[i] = 0.01 + m.x[i] * m.x[i];
        gs[i] = scale * g.x[i];
        weight[i] = 3 + m.x[i]; /* further from 0 than a step goes: nothing cancels */
    }
    struct mat w = mat_of(c, DTYPE_F32, 1, n, n, off, weight);
    struct mat v = mat_of(c, DTYPE_F32, 1, n, n, off, square);
    for (int again = 0; again < 2; again++) {
        mat_reset(c, &w), mat_reset(c, &m), mat_reset(c, &v);
        c->op->adamw(c->k, w.p, m.p, v.p, g.p, type, n, &o);
        mat_take(c, &w), mat_take(c, &m), mat_take(c, &v);
    }
    kern_ref_adamw(w.x, m.x, v.x, gs, n, o.lr, o.beta1, o.beta2, o.eps, o.decay, o.step);
    mat_near(c, &w, w.x, tolerance(DTYPE_F32), "AdamW w, %d %s at %d, scale %g", (int)n,
             dtype_name(type), (int)off, scale);
    mat_near(c, &m, m.x, tolerance(DTYPE_F32), "AdamW m, %d %s", (int)n, dtype_name(type));
    mat_near(c, &v, v.x, tolerance(DTYPE_F32), "AdamW v, %d %s", (int)n, dtype_name(type));
    mat_free(c, &w), mat_free(c, &m), mat_free(c, &v), mat_free(c, &g);
    mem_free(square), mem_free(gs), mem_free(weight);
}

void check_adamw(struct check *c)
{
    static const int64_t size[] = {1, 7, 1003, 70001};

    for (int i = 0; i < 4; i++)
        for (int t = 0; t < TYPES; t++)
            adamw_case(c, types[t], size[i], i, t == 1 ? 1 : 0.7071);
}
