/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the engine's operations on vectors: types, sums, the optimizer.  Rounding is exact: to
 * the bit.
 */
#include "base/rng.h"
#include "../unit/kern_ref_fixture.h"
#include "kern_check.h"

static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
enum { TYPES = 3 };

/* Whether `out` holds those bits, a NaN any, after either run, and nothing was written beside
   it. */
static int same_bits(const struct mat *out, const void *want)
{
    int64_t size = dtype_bytes(out->type);

    if (out->differs || mat_strayed(out))
        return 0;
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
static struct mat *numbers(struct check *c, enum dtype type, int64_t n, int64_t off)
{
    static const double odd[] = {0.0,         -0.0,     1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1p-11,
                                 1 + 0x3p-11, 65504,    65519,      65520,      -7e4,
                                 0x1p-24,     0x1p-25,  0x1.8p-25,  0x1p-14,    -0x1.ffcp-15,
                                 0x1p-130,    0x1p-149, 3.3895e38,  3.4e38,     INFINITY,
                                 -INFINITY,   NAN};
    int64_t odds = (int64_t)(sizeof odd / sizeof *odd);
    double *x = doubles(c, n);
    uint64_t stream = c->seed++;

    for (int64_t i = 0; i < n; i++)
        x[i] = i < odds && i < n - 1 ? odd[i] : 3 * rng_normal(11, stream, (uint64_t)i);
    return mat_of(c, type, 1, n, n, off, x);
}

static void convert_case(struct check *c, enum dtype to, enum dtype from, int64_t n,
                         int64_t off)
{
    struct mat *x = numbers(c, from, n, off);
    struct mat *y = written(mat_new(c, to, 1, n, n, 2 * off, 0));
    void *want = kept(c, 4 * n);

    dtype_convert(want, to, x->init + x->first, from, n);
    for (int run = 0; next_run(c, &run);)
        c->op->convert(c->k, y->p, to, x->p, from, n);
    ok(c, same_bits(y, want), "convert %d from %s to %s", (int)n, dtype_name(from),
       dtype_name(to));
    end_case(c);
}

/* in: there where it is. */
static void round_case(struct check *c, enum dtype type, enum dtype seen, int64_t n, int in)
{
    int64_t off = n % 2; /* single elements, or whole packs */
    struct mat *x = numbers(c, DTYPE_F32, n, off);
    struct mat *y = written(in ? x : mat_new(c, type, 1, n, n, 0, 0));
    void *want = kept(c, 4 * n), *half = kept(c, 4 * n);

    dtype_convert(half, seen, x->init + x->first, DTYPE_F32, n);
    dtype_convert(want, type, half, seen, n);
    for (int run = 0; next_run(c, &run);)
        c->op->round(c->k, y->p, type, x->p, seen, n);
    ok(c, same_bits(y, want), "round %d to %s seen as %s%s", (int)n, dtype_name(type),
       dtype_name(seen), in ? " in place" : "");
    end_case(c);
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
    struct mat *y = written(mat_new(c, acc, 1, n, n, off, 1));
    struct mat *x = mat_new(c, type, 1, n, n, 2 * off, 1);
    char *want = kept(c, 4 * n);

    for (int64_t i = 0; i < n; i++) {
        float sum = (float)y->x[i] + (float)x->x[i];

        dtype_convert(want + i * dtype_bytes(acc), acc, &sum, DTYPE_F32, 1);
    }
    for (int run = 0; next_run(c, &run);)
        c->op->accumulate(c->k, y->p, acc, x->p, type, n);
    ok(c, same_bits(y, want), "accumulate %d of %s in %s", (int)n, dtype_name(type),
       dtype_name(acc));
    end_case(c);
}

static void abs_case(struct check *c, int64_t n)
{
    struct mat *x = written(numbers(c, DTYPE_F32, n, n % 2));
    float *want = kept(c, 4 * n);

    for (int64_t i = 0; i < n; i++)
        want[i] = fabsf((float)x->x[i]);
    for (int run = 0; next_run(c, &run);)
        c->op->abs(c->k, x->p, n);
    ok(c, same_bits(x, want), "abs %d", (int)n);
    end_case(c);
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
            struct mat *x = mat_new(c, types[t], 1, n, n, i < 3, 1);
            double want = 0, got[3] = {0};

            for (int64_t j = 0; j < n; j++)
                want += x->x[j] * x->x[j];
            for (int run = 0; run < 3; run++) { /* once, once more, in two parts */
                int64_t part = run < 2 ? n : n / 3;
                char *rest = (char *)x->p + part * dtype_bytes(types[t]);

                c->op->sumsq(c->k, x->p, types[t], part);
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
            end_case(c);
        }
}

static void adamw_case(struct check *c, enum dtype type, int64_t n, int64_t off, double scale)
{
    struct kern_optim o = LIST(.scale = scale, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.95,
                               .eps = 1e-8, .decay = 0.1, .step = 3);
    struct mat *m = written(mat_new(c, DTYPE_F32, 1, n, n, off, 0.1));
    struct mat *g = mat_new(c, type, 1, n, n, off, 0.5);
    double *square = doubles(c, n), *gs = doubles(c, n), *weight = doubles(c, n);

    for (int64_t i = 0; i < n; i++) {
        square[i] = 0.01 + m->x[i] * m->x[i];
        gs[i] = scale * g->x[i];
        weight[i] = 3 + m->x[i]; /* further from 0 than a step goes: nothing cancels */
    }
    struct mat *w = written(mat_of(c, DTYPE_F32, 1, n, n, off, weight));
    struct mat *v = written(mat_of(c, DTYPE_F32, 1, n, n, off, square));
    for (int run = 0; next_run(c, &run);)
        c->op->adamw(c->k, w->p, m->p, v->p, g->p, type, n, &o);
    kern_ref_adamw(w->x, m->x, v->x, gs, n, o.lr, o.beta1, o.beta2, o.eps, o.decay, o.step);
    mat_near(c, w, w->x, tolerance(DTYPE_F32), "AdamW w, %d %s at %d, scale %g", (int)n,
             dtype_name(type), (int)off, scale);
    mat_near(c, m, m->x, tolerance(DTYPE_F32), "AdamW m, %d %s", (int)n, dtype_name(type));
    mat_near(c, v, v->x, tolerance(DTYPE_F32), "AdamW v, %d %s", (int)n, dtype_name(type));
    end_case(c);
}

/* The reference is kern_ops.outer's formula in double. */
static void outer_case(struct check *c, int64_t n, int64_t off)
{
    struct kern_outer o = {.share = 1.0 / 3, .lr = 0.7, .momentum = 0.9};
    struct mat *sum = mat_new(c, DTYPE_F32, 1, n, n, off, 0.5);
    struct mat *b = written(mat_new(c, DTYPE_F32, 1, n, n, off, 0.1));
    double *anchor = doubles(c, n);

    for (int64_t i = 0; i < n; i++)
        anchor[i] = 9 + sum->x[i]; /* further from 0 than a step goes: nothing cancels */
    struct mat *w = written(mat_of(c, DTYPE_F32, 1, n, n, off, anchor));
    for (int run = 0; next_run(c, &run);)
        c->op->outer(c->k, w->p, b->p, sum->p, DTYPE_F32, n, &o);
    for (int64_t i = 0; i < n; i++) {
        double d = w->x[i] - o.share * sum->x[i];
        b->x[i] = o.momentum * b->x[i] + d;
        w->x[i] -= o.lr * (d + o.momentum * b->x[i]);
    }
    mat_near(c, w, w->x, tolerance(DTYPE_F32), "outer step w, %d at %d", (int)n, (int)off);
    mat_near(c, b, b->x, tolerance(DTYPE_F32), "outer step b, %d", (int)n);
    end_case(c);
}

void check_outer(struct check *c)
{
    static const int64_t size[] = {1, 7, 1003, 70001};

    for (int i = 0; i < 4; i++)
        outer_case(c, size[i], i);
}

void check_adamw(struct check *c)
{
    static const int64_t size[] = {1, 7, 1003, 70001};

    for (int i = 0; i < 4; i++)
        for (int t = 0; t < TYPES; t++)
            adamw_case(c, types[t], size[i], i, t == 1 ? 1 : 0.7071);
}

/* The processor's bits, which kern_moments_test checks; encoded in two parts. */
static void moments_case(struct check *c, enum moments type, int second, int64_t n)
{
    int64_t bytes = moments_bytes(type, n), cut = n / 2 / MOMENTS_BLOCK * MOMENTS_BLOCK;
    struct mat *x = mat_new(c, DTYPE_F32, 1, n, n, 0, 0.1);
    struct mat *y = written(mat_of(c, DTYPE_F32, 1, n, n, 0, doubles(c, n)));
    struct kern_moment there = {type, second, slot(c, bytes), n}, here = there;
    char *got = kept(c, bytes), *want = kept(c, bytes);
    float *of = kept(c, n * 4);

    for (int64_t i = 0; i < n; i++)
        of[i] = (float)x->x[i];
    here.data = want;
    for (int run = 0; next_run(c, &run);)
        for (int64_t at = 0, part = cut; at < n; at += part, part = n - at) {
            struct kern_dither d = kern_dither_of(3, 5, (INT64_C(1) << 32) - 9 + at, second);
            kern_moment_put(&here, at, of + at, part, &d);
            c->op->moment_put(c->k, &there, at, (float *)x->p + at, part, &d);
            c->op->moment_get(c->k, (float *)y->p + at, &there, at, part);
        }
    kern_moment_get(of, &here, 0, n);
    for (int64_t i = 0; i < n; i++)
        y->x[i] = (double)of[i];
    fetch(c, got, there.data, bytes);
    ok(c, memcmp(got, want, (size_t)bytes) == 0, "moment %d of %d in %s: the processor's bits",
       second, (int)n, moments_name(type));
    mat_near(c, y, y->x, 0, "moment %d of %d in %s", second, (int)n, moments_name(type));
    end_case(c);
}

void check_moments(struct check *c)
{
    static const int64_t size[] = {1, 255, 256, 1003, 70001};

    for (int i = 0; i < 5 * 4; i++)
        moments_case(c, i % 2 ? MOMENTS_INT8 : MOMENTS_BF16, i / 2 % 2, size[i / 4]);
}
