/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the kernels that only some families of models have (LayerNorm, biases, learned
 * positions, GELU) against the double reference and its central differences.
 */
#include "unit.h"

#include "kern_fixture.h"
#include "kern_ref_fixture.h"

struct layernorm_at {
    double *x, *w, *b, *dy, *y;
    int64_t n, c;
    double eps;
};

static double layernorm_loss(const void *p)
{
    const struct layernorm_at *at = p;
    double loss = 0;

    kern_ref_layernorm(at->y, at->x, at->w, at->b, at->n, at->c, at->eps);
    for (int64_t i = 0; i < at->n * at->c; i++)
        loss += at->y[i] * at->dy[i];
    return loss;
}

/* The terms of both bounds: of one row, mean |x|, the largest |x - mean|, 1 / deviation. */
struct row {
    double size, spread, rstd, g, gx;
};

static struct row row_of(const struct layernorm_at *at, int64_t i)
{
    const double *x = at->x + i * at->c, c = (double)at->c;
    struct row r = {0};
    double mean = 0, variance = 0;

    for (int64_t j = 0; j < at->c; j++) {
        mean += x[j] / c;
        r.size += fabs(x[j]) / c;
    }
    for (int64_t j = 0; j < at->c; j++) {
        variance += (x[j] - mean) * (x[j] - mean) / c;
        r.spread = fmax(r.spread, fabs(x[j] - mean));
    }
    r.rstd = 1 / sqrt(variance + at->eps);
    for (int64_t j = 0; j < at->c; j++) {
        double g = fabs(at->dy[i * at->c + j] * at->w[j]) / c;

        r.g += g;
        r.gx += g * fabs(x[j] - mean) * r.rstd;
    }
    return r;
}

/* The mean is off by m = (c + 1) EPS of mean |x|, so x - mean by m + EPS of itself, and xhat =
 * (x - mean) rstd, at most X = spread rstd, by h = m rstd + (c + 6) EPS X: the sum of squares
 * (c EPS and twice what a difference is off; that error is the same in all of them, so that it
 * cancels to first order), division, root and inverse.  y = xhat w + b: two operations more.
 * dx = rstd (g - mean(g) - xhat mean(g xhat)): the means are off by (c + 2) EPS of their terms'
 * magnitudes, the second by h for each xhat too; rstd by (c + 5) EPS.
 * dw: n terms, each off by h and two roundings; db: n terms. */
static void assert_rows(struct layernorm_at *at, const float *y, const float *dx)
{
    double c = (double)at->c;

    for (int64_t i = 0; i < at->n; i++) {
        struct row r = row_of(at, i);
        double m = (c + 1) * EPS * r.size, X = r.spread * r.rstd;
        double h = m * r.rstd + (c + 6) * EPS * X;

        layernorm_loss(at);
        for (int64_t j = 0; j < at->c; j++)
            assert_near((double)y[i * at->c + j], at->y[i * at->c + j],
                        (h + 2 * EPS * X) * fabs(at->w[j]) + EPS * fabs(at->b[j]));
        for (int64_t j = 0; j < at->c; j++) {
            double g = fabs(at->dy[i * at->c + j] * at->w[j]);
            double terms = g + r.g + X * r.gx;
            double off = (c + 2) * EPS * (r.g + X * r.gx) + h * r.gx + X * h * r.g +
                         (c + 5 + 6) * EPS * terms;

            assert_near((double)dx[i * at->c + j],
                        slope(layernorm_loss, at, &at->x[i * at->c + j]), off * r.rstd);
        }
    }
}

static void assert_weights(struct layernorm_at *at, const float *dw, const float *db)
{
    for (int64_t j = 0; j < at->c; j++) {
        double weight = 0, bias = 0, c = (double)at->c, n = (double)at->n;

        for (int64_t i = 0; i < at->n; i++) {
            struct row r = row_of(at, i);
            double d = fabs(at->dy[i * at->c + j]), X = r.spread * r.rstd;

            weight += d * ((c + 1) * r.size * r.rstd + (c + 6 + 2 + n) * X) * EPS;
            bias += d * n * EPS;
        }
        assert_near((double)dw[j], slope(layernorm_loss, at, &at->w[j]), weight);
        assert_near((double)db[j], slope(layernorm_loss, at, &at->b[j]), bias);
    }
}

static void layernorm_case(int64_t n, int64_t c, double shift)
{
    float *x = normal(1, n * c, 2), *w = normal(2, c, 1), *b = normal(3, c, 1);
    float *dy = normal(4, n * c, 1), *y = normal(5, n * c, 0), *again = normal(5, n * c, 0);
    float *mean = normal(5, n, 0), *rstd = normal(5, n, 0), *dx = normal(5, n * c, 0);
    float *dw = normal(5, c, 0), *db = normal(5, c, 0);

    for (int64_t i = 0; i < n * c; i++)
        x[i] += (float)shift;
    struct layernorm_at at = {wide(x, n * c), wide(w, c), wide(b, c), wide(dy, n * c),
                              wide(y, n * c), n,          c,          1e-5};
    kern_layernorm(y, mean, rstd, x, w, b, n, c, 1e-5f);
    kern_layernorm_apply(again, mean, rstd, x, w, b, n, c);
    assert_memory_equal(y, again, (size_t)(n * c) * sizeof *y);
    kern_layernorm_backward(dx, dw, db, dy, mean, rstd, x, w, n, c);
    assert_rows(&at, y, dx);
    assert_weights(&at, dw, db);
    /* A gradient that is not wanted changes nothing else; all is added to what is there. */
    memset(again, 0, (size_t)(n * c) * sizeof *again);
    kern_layernorm_backward(again, NULL, NULL, dy, mean, rstd, x, w, n, c);
    assert_memory_equal(dx, again, (size_t)(n * c) * sizeof *dx);
    for (int64_t j = 0; j < c; j++)
        dw[j] = 0, db[j] = 0;
    for (int k = 0; k < 2; k++) {
        kern_layernorm_backward(again, dw, NULL, dy, mean, rstd, x, w, n, c);
        kern_layernorm_backward(again, NULL, db, dy, mean, rstd, x, w, n, c);
    }
    for (int64_t j = 0; j < c && n == 1; j++) { /* of one row the double is exact */
        assert_true(db[j] == 2 * dy[j]);
        assert_true(dw[j] == 2 * (dy[j] * ((x[j] - mean[0]) * rstd[0])));
    }
    free(x), free(w), free(b), free(dy), free(y), free(again), free(mean), free(rstd), free(dx);
    free(dw), free(db), free(at.x), free(at.w), free(at.b), free(at.dy), free(at.y);
}

TEST(test_layernorm)
{
    layernorm_case(3, 37, 0);
    layernorm_case(2, 64, 1);
    layernorm_case(1, 5, -3);
    layernorm_case(1, 48, 30); /* far from 0: x^2 less mean^2 would be off by 200 EPS */
}

/* Whole numbers: every sum is exact. */
TEST(test_bias_and_positions)
{
    enum { N = 7, C = 21, LD = C + 4 };
    float y[N * LD], b[C], db[C], table[2 * C], rows[6 * C], dtable[2 * C];

    for (int i = 0; i < N * LD; i++)
        y[i] = (float)i;
    for (int j = 0; j < C; j++) {
        b[j] = (float)(j * j);
        db[j] = 1;
    }
    kern_bias(y, LD, b, N, C);
    for (int i = 0; i < N * LD; i++) /* what lies between the rows stays */
        assert_true(y[i] == (float)(i + (i % LD < C ? (i % LD) * (i % LD) : 0)));
    kern_bias_backward(db, y, LD, N, C);
    for (int j = 0; j < C; j++)
        assert_true(db[j] == (float)(1 + N * j * j + N * j + N * (N - 1) / 2 * LD));
    for (int i = 0; i < 2 * C; i++) {
        table[i] = (float)(100 * i);
        dtable[i] = 5;
    }
    for (int i = 0; i < 6 * C; i++)
        rows[i] = (float)i;
    kern_positions(rows, table, 3, 2, C);
    for (int i = 0; i < 6 * C; i++)
        assert_true(rows[i] == (float)(i + 100 * (i % (2 * C))));
    kern_positions_backward(dtable, rows, 3, 2, C);
    for (int i = 0; i < 2 * C; i++)
        assert_true(dtable[i] == (float)(5 + 303 * i + 6 * C));
}

typedef void gelu_ref(double *y, const double *x, int64_t n);
struct gelu_at {
    gelu_ref *f;
    double x;
};

static double gelu_loss(const void *p)
{
    const struct gelu_at *at = p;
    double y;

    at->f(&y, &at->x, 1);
    return y;
}

enum { GELU_N = 2001 }; /* -10 .. 10, an odd number: not a multiple of 16 */

/* With tanh: v = x (A + B x^2) has 5 roundings (constants in) and no cancellation: off by 5 |v|
 * EPS, which exp multiplies; exp 4 EPS, two operations, one product: y by (5 |v| + 8) EPS of
 * itself; the reference's 1 + tanh is no better than 10 times 2^-53: 1e-15 more.  y' = sigma (1
 * + x (1 - sigma) v'): 1 - sigma is off by (5 |v| (1 - sigma) + 8) EPS sigma and its own
 * rounding, v' by 4 EPS.
 *
 * Exact: Phi is off by 1.5e-7 / 2 = 1.3 EPS of its formula, and by rounding: the polynomial's
 * ten operations times the sum of its terms' magnitudes, at most 4.5, its slope (3.5) times t's
 * 3 EPS, exp and the rest 10 EPS; half of all that, 34 EPS.  The exponent x^2 / 2 costs x^2 / 2
 * EPS of e^(-x^2 / 2), below 0.4 in sum.  x Phi: |x| 35 EPS and its own rounding.  The
 * density: x^2 / 2 + 8 EPS of itself; x density is at most 0.25, with x^2 / 2 0.3.
 */
TEST(test_gelu)
{
    float x[GELU_N], y[GELU_N], dy[GELU_N], dx[GELU_N];
    double most = 0;

    for (int tanh_kind = 0; tanh_kind < 2; tanh_kind++) {
        for (int i = 0; i < GELU_N; i++) {
            x[i] = dx[i] = (float)(i - GELU_N / 2) / 100;
            dy[i] = 2;
        }
        (tanh_kind ? kern_gelu_tanh : kern_gelu)(y, x, GELU_N);
        (tanh_kind ? kern_gelu_tanh_backward : kern_gelu_backward)(dy, dx, GELU_N);
        assert_memory_equal(y, dy, sizeof y);
        for (int i = 0; i < GELU_N; i++) {
            struct gelu_at at = {tanh_kind ? kern_ref_gelu_tanh : kern_ref_gelu, (double)x[i]};
            double want = gelu_loss(&at), X = fabs(at.x), V = 1.6 * X * (1 + 0.0448 * X * X);
            double grad = 2 * slope(gelu_loss, &at, &at.x);

            if (tanh_kind) {
                double sigma = X > 0 ? want / at.x : 0.5, dv = 1.6 * (1 + 0.1342 * X * X);
                double rest = X * (1 - sigma) * dv, s = 5 * V * (1 - sigma) + 6;

                assert_near((double)y[i], want, (s + 2) * EPS * fabs(want) + 1e-15);
                assert_near(
                    (double)dx[i], grad,
                    2 * sigma * EPS *
                            ((s + 4) * (1 + rest) + X * dv * (s + 2) * sigma + 8 * rest) +
                        1e-11);
            } else {
                assert_near((double)y[i], want, 36 * EPS * X);
                assert_near((double)dx[i], grad, 2 * (36 + 3) * EPS);
                most = fmax(most, fabs((double)y[i] - want));
            }
        }
    }
    assert_true(most > 0);
}
