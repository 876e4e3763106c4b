/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the CPU kernels against the double reference, their gradients against its central
 * differences; the parts that only some families have are in kern_family_test.c.
 */
#include "unit.h"

#include <oneapi/dnnl/dnnl.h>

#include "kern/kern_product.h"
#include "kern/kern_vec.h"
#include "kern_fixture.h"
#include "kern_ref_fixture.h"

/* op(a) op(b), and the sums of the products' magnitudes: a and b become those. */
static void sums(char ta, char tb, int64_t m, int64_t n, int64_t k, double *a, double *b,
                 double *sum, double *mag)
{
    kern_ref_gemm(ta, tb, m, n, k, a, b, sum);
    for (int64_t i = 0; i < m * k; i++)
        a[i] = fabs(a[i]);
    for (int64_t i = 0; i < k * n; i++)
        b[i] = fabs(b[i]);
    kern_ref_gemm(ta, tb, m, n, k, a, b, mag);
}

static void gemm_case(char ta, char tb, int64_t m, int64_t n, int64_t k)
{
    float *a = normal(1, m * k, 1), *b = normal(2, k * n, 1), *c = normal(3, m * n, 1);
    double *da = wide(a, m * k), *db = wide(b, k * n), *dc = wide(c, m * n);
    double *sum = wide(c, m * n), *mag = wide(c, m * n);

    kern_gemm(ta, tb, m, n, k, 0.5f, a, ta == 'T' ? m : k, b, tb == 'T' ? k : n, 1, c, n);
    sums(ta, tb, m, n, k, da, db, sum, mag);
    for (int64_t i = 0; i < m * n; i++) /* k products, alpha, and c: k + 2 roundings */
        assert_near((double)c[i], 0.5 * sum[i] + dc[i],
                    (double)(k + 2) * EPS * (0.5 * mag[i] + fabs(dc[i])));
    free(a), free(b), free(c), free(da), free(db), free(dc), free(sum), free(mag);
}

TEST(test_gemm)
{
    gemm_case('N', 'N', 7, 5, 33);
    gemm_case('N', 'T', 17, 31, 64);
    gemm_case('T', 'N', 13, 1, 129);
    gemm_case('T', 'T', 3, 40, 1);
}

/* x (rows, columns) in the type, with rows ld apart and NaN between them; x is rounded too. */
static void *operand(enum dtype type, float *x, int64_t rows, int64_t columns, int64_t ld)
{
    float *gaps = mem_new((size_t)(rows * ld), sizeof *gaps);
    void *to = mem_new((size_t)(rows * ld), sizeof *gaps);

    for (int64_t i = 0; i < rows * ld; i++)
        gaps[i] = i % ld < columns ? x[i / ld * columns + i % ld] : NAN;
    dtype_convert(to, type, gaps, DTYPE_F32, rows * ld);
    dtype_convert(gaps, DTYPE_F32, to, type, rows * ld);
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] = gaps[i / columns * ld + i % columns];
    free(gaps);
    return to;
}

/* k products, each rounded with its sum, and c: k + 1 roundings, as many again where a pair of
   bf16 is multiplied at once.  Rows of a are 3 wider than they need be, of b 5, of c 2. */
static void product_case(char ta, char tb, int64_t m, int64_t n, int64_t k, int add,
                         enum dtype type)
{
    int64_t wa = ta == 'T' ? m : k, wb = tb == 'T' ? k : n, ldc = n + 2;
    float *a = normal(1, m * k, 1), *b = normal(2, k * n, 1), *c = normal(3, m * ldc, 1);
    float *first = normal(3, m * ldc, 1);
    void *pa = operand(type, a, m * k / wa, wa, wa + 3);
    void *pb = operand(type, b, k * n / wb, wb, wb + 5);
    double *da = wide(a, m * k), *db = wide(b, k * n);
    double *sum = wide(c, m * n), *mag = wide(c, m * n);
    struct kern_product_shape shape = {ta,     tb,  m,   n,    k,        wa + 3,
                                       wb + 5, ldc, add, type, DTYPE_F32};
    struct kern_product *p;

    assert_ok(kern_product_new(&p, &shape, &err));
    kern_product_run(p, pa, pb, c, NULL, c);
    sums(ta, tb, m, n, k, da, db, sum, mag);
    for (int64_t i = 0; i < m * ldc; i++) {
        int64_t at = i / ldc * n + i % ldc;
        double before = add ? (double)first[i] : 0;

        if (i % ldc < n)
            assert_near((double)c[i], before + sum[at],
                        (double)(2 * k + 2) * EPS * (mag[at] + fabs(before)));
        else
            assert_true(c[i] == first[i]); /* between the rows nothing is written */
    }
    kern_product_free(p);
    free(a), free(b), free(c), free(first), free(pa), free(pb), free(da), free(db), free(sum);
    free(mag);
}

TEST(test_product)
{
    struct kern_product_shape shape = {'N', 'N', 2, 2, 2, 2, 2, 2, 0, DTYPE_BF16, DTYPE_F32};
    struct kern_product *p = NULL;
    int types = 2;

    if (kern_product_new(&p, &shape, &err)) {
        assert_int_equal(err.code, ERR_ABSENT);
        assert_non_null(strstr(err.text, "(2,2) and (2,2) of bf16"));
#ifdef __x86_64__
        int there = dnnl_get_effective_cpu_isa(), bf16 = dnnl_cpu_isa_avx512_core_bf16;
        assert_int_not_equal(there & bf16, bf16); /* nor where ONEDNN_MAX_CPU_ISA is less */
#endif
        print_message("# skipped: no bf16 products on this processor\n");
        types = 1;
    }
    kern_product_free(p);
    for (int t = 0; t < types; t++)
        for (int add = 0; add < 2; add++) {
            enum dtype type = t ? DTYPE_BF16 : DTYPE_F32;

            product_case('N', 'N', 7, 5, 33, add, type);
            product_case('N', 'T', 17, 31, 64, add, type);
            product_case('T', 'N', 13, 1, 129, add, type);
            product_case('N', 'T', 130, 70, 150, add, type);
            product_case('T', 'N', 66, 96, 70, add, type);
            for (int i = 0; i < 16; i++) /* vectors: rows and columns of one */
                product_case(i & 1 ? 'T' : 'N', i & 2 ? 'T' : 'N', i & 4 ? 1 : 13,
                             i & 8 ? 1 : 5, 129, add, type);
        }
}

/* The promise of kern_vec.h: 4 EPS, relative, from -87.3 to 88.37. */
TEST(test_exp)
{
    for (int64_t i = 0; i <= 1 << 20; i++) {
        float x = (float)(-87.3 + 175.6 * (double)i / (1 << 20));

        assert_near((double)kern_exp(x) / exp((double)x), 1, 4 * EPS);
    }
    assert_true(kern_exp(0.0f) == 1.0f);
    assert_true(kern_exp(-1e30f) > 0 && kern_exp(-1e30f) < 1.3e-38f);
    assert_true(isfinite(kern_exp(1e30f)) && isnan(kern_exp(NAN)));
}

struct rmsnorm_at {
    double *x, *w, *dy, *y;
    int64_t n, c;
    double eps, plus;
};

static double rmsnorm_loss(const void *p)
{
    const struct rmsnorm_at *at = p;
    double loss = 0;

    kern_ref_rmsnorm(at->y, at->x, at->w, at->plus, at->n, at->c, at->eps);
    for (int64_t i = 0; i < at->n * at->c; i++)
        loss += at->y[i] * at->dy[i];
    return loss;
}

/* rstd: a sum of c positive terms (c EPS), division, eps, root and inverse: (c + 4) EPS at
 * most.  y: two products more.  dx = rstd (g - xhat mean): the mean is off by (2 c + 8) EPS of
 * its terms' magnitudes (its own sum and rstd twice), which xhat and rstd multiply; 4
 * operations on top.  dw: n terms, each with rstd and two products. */
static void rmsnorm_case(int64_t n, int64_t c, float plus)
{
    float *x = normal(1, n * c, 2), *w = normal(2, c, 1), *dy = normal(3, n * c, 1);
    float *y = normal(4, n * c, 0), *again = normal(4, n * c, 0), *rstd = normal(4, n, 0);
    float *dx = normal(4, n * c, 0), *dw = normal(4, c, 0);
    struct rmsnorm_at at = {wide(x, n * c), wide(w, c),  wide(dy, n * c), wide(y, n * c), n, c,
                            1e-5,           (double)plus};

    kern_rmsnorm(y, rstd, x, w, plus, n, c, 1e-5f);
    kern_rmsnorm_apply(again, rstd, x, w, plus, n, c);
    assert_memory_equal(y, again, (size_t)(n * c) * sizeof *y);
    kern_rmsnorm_backward(dx, dw, dy, rstd, x, w, plus, n, c);
    memset(again, 0, (size_t)(n * c) * sizeof *again);
    kern_rmsnorm_backward(again, NULL, dy, rstd, x, w, plus, n, c);
    assert_memory_equal(dx, again, (size_t)(n * c) * sizeof *dx);
    rmsnorm_loss(&at);
    for (int64_t i = 0; i < n * c; i++)
        assert_near((double)y[i], at.y[i], (double)(c + 6) * EPS * fabs(at.y[i]));
    for (int64_t i = 0; i < n; i++) {
        double r = (double)rstd[i], mean = 0;

        for (int64_t j = 0; j < c; j++)
            mean += fabs((double)dy[i * c + j] * (at.plus + at.w[j]) * at.x[i * c + j]) * r /
                    (double)c;
        for (int64_t j = 0; j < c; j++) {
            double g = fabs((double)dy[i * c + j] * (at.plus + at.w[j])),
                   xhat = fabs(at.x[i * c + j]) * r;

            assert_near((double)dx[i * c + j], slope(rmsnorm_loss, &at, &at.x[i * c + j]),
                        (double)(3 * c + 20) * EPS * r * (g + xhat * mean));
        }
    }
    for (int64_t j = 0; j < c; j++) {
        double mag = 0;

        for (int64_t i = 0; i < n; i++)
            mag += fabs((double)dy[i * c + j] * at.x[i * c + j]) * (double)rstd[i];
        assert_near((double)dw[j], slope(rmsnorm_loss, &at, &at.w[j]),
                    (double)(n + c + 6) * EPS * mag);
    }
    free(x), free(w), free(dy), free(y), free(again), free(rstd), free(dx), free(dw);
    free(at.x), free(at.w), free(at.dy), free(at.y);
}

TEST(test_rmsnorm)
{
    rmsnorm_case(3, 37, 0);
    rmsnorm_case(2, 64, 0);
    rmsnorm_case(2, 64, 1);
    rmsnorm_case(1, 5, 1);
}

/* All elements of each head turn, or the first. */
static void rope_case(int64_t R)
{
    enum { BATCH = 2, SEQ = 9, HEADS = 3, D = 10, LD = HEADS * D + 4, N = BATCH * SEQ * LD };
    float *x = normal(1, N, 1), *first = normal(1, N, 1), table[SEQ * D];
    double freq[D / 2], scale = 1.25; /* any: by what rule they are made is the model's */
    double *want = wide(x, N);

    for (int i = 0; i < R / 2; i++)
        freq[i] = pow(500, -2.0 * i / (double)R) * (1 + i % 2);
    kern_rope_table(table, SEQ, R, freq, scale);
    kern_rope(x, LD, table, BATCH, SEQ, HEADS, D, R, 0);
    kern_ref_rope(want, LD, BATCH, SEQ, HEADS, D, R, freq, scale);
    /* A turned element is two products (table's rounding, product) and a sum; both factors of
       the pair are at most scale times the largest x: 2 (2 + 1) EPS of it, the sum's own in. */
    for (int64_t i = 0; i < N; i++)
        assert_near((double)x[i], want[i], 6 * EPS * scale * largest(first, N));
    for (int64_t i = 0; i < N; i++) /* all other elements stay */
        assert_true((i % LD < HEADS * D && i % LD % D < R) || x[i] == first[i]);
    /* A rotation's transpose is its inverse: turning back gives the first values, and the
       transpose of a scaled one scales once more. */
    kern_rope(x, LD, table, BATCH, SEQ, HEADS, D, R, 1);
    for (int64_t i = 0; i < N; i++) {
        double twice = i % LD < HEADS * D && i % LD % D < R ? scale * scale : 1;

        assert_near((double)x[i], twice * (double)first[i],
                    16 * EPS * twice * largest(first, N));
    }
    free(x), free(first), free(want);
}

TEST(test_rope)
{
    rope_case(10);
    rope_case(6);
    rope_case(2);
}

struct attention_at {
    struct kern_heads s;
    double *qkv, *dout, *out;
    int64_t outs;
};

static double attention_loss(const void *p)
{
    const struct attention_at *at = p;
    const struct kern_heads *s = &at->s;
    double loss = 0;

    kern_ref_attention(at->out, at->qkv, s->batch, s->seq, s->heads, s->kv_heads, s->head_dim);
    for (int64_t i = 0; i < at->outs; i++)
        loss += at->out[i] * at->dout[i];
    return loss;
}

/* The same of the last rows alone, wherever they begin; what lies behind them is not touched. A
 * lse is off by its scores' error and a sum's, each within e below, and so is the other. */
static void last_rows(const struct attention_at *at, const float *qkv, const float *lse,
                      double bound, double bound_lse)
{
    struct kern_heads s = at->s;
    int64_t T = s.seq, H = s.heads, D = s.head_dim, stride = T > 20 ? 23 : 1;
    float *out = normal(4, at->outs + 1, 1), *some = normal(5, s.batch * H * T + 1, 1);
    float *scratch = normal(3, kern_attention_scratch(&s), 1);

    for (s.from = 0; s.from < T; s.from += stride) {
        int64_t rows = T - s.from, n = s.batch * rows * H;
        float behind = out[n * D] = 7, behind_lse = some[n] = 8;

        kern_attention(&s, out, some, qkv, scratch);
        for (int64_t i = 0; i < n * D; i++) {
            int64_t b = i / (rows * H * D), row = i % (rows * H * D);
            assert_near((double)out[i], at->out[(b * T + s.from) * H * D + row], bound);
        }
        for (int64_t i = 0; i < n; i++)
            assert_near((double)some[i], (double)lse[i / rows * T + s.from + i % rows],
                        bound_lse);
        assert_true(out[n * D] == behind && some[n] == behind_lse);
    }
    free(out), free(some), free(scratch);
}

/*
 * With x the largest |element| and scale = D^-1/2, a score is at most A = scale D x^2 and off
 * by (D + 2) EPS A; the argument of exp, at most 2 A, costs 2 A EPS more, twice where lse is
 * rounded too; exp 4 EPS; the sum over T keys T EPS.  So a probability is off by
 *     e = (2 (D + 2) A + 4 A + log T + T + 8) EPS, relative;
 * out by 2 e x (weights and their sum) + T EPS x.  Backward, with d the largest |dout|:
 * |dP| and dot are at most M = D x d and off by (D + 2 e / EPS + T) EPS M; hence dS by
 * P (4 e + 2 (D + T) EPS) M.  dQ sums them with weights that add up to 1 times scale x; dK over
 * the N = T heads / kv_heads queries of a key's group, as does dV with d.
 */
static void attention_case(struct kern_heads s)
{
    int64_t D = s.head_dim, T = s.seq, ld = (s.heads + 2 * s.kv_heads) * D, rows = s.batch * T;
    int64_t outs = rows * s.heads * D;
    float *qkv = normal(1, rows * ld, 0.7), *dout = normal(2, outs, 1);
    float *out = normal(3, outs, 0), *lse = normal(3, rows * s.heads, 0);
    float *dqkv = normal(3, rows * ld, 1), *scratch = normal(3, kern_attention_scratch(&s), 1);
    struct attention_at at = {s, wide(qkv, rows * ld), wide(dout, outs), wide(out, outs), outs};
    double x = largest(qkv, rows * ld), d = largest(dout, outs), scale = 1 / sqrt((double)D);
    double A = scale * (double)D * x * x, M = (double)D * x * d;
    double N = (double)(T * s.heads / s.kv_heads);
    double e = (2 * (double)(D + 2) * A + 4 * A + log((double)T) + (double)T + 8) * EPS;
    double ds = (4 * e + 2 * (double)(D + T) * EPS) * M;

    kern_attention(&s, out, lse, qkv, scratch);
    kern_attention_backward(&s, dqkv, dout, out, lse, qkv, scratch);
    attention_loss(&at);
    for (int64_t i = 0; i < outs; i++)
        assert_near((double)out[i], at.out[i], (2 * e + (double)T * EPS) * x);
    last_rows(&at, qkv, lse, (2 * e + (double)T * EPS) * x, 2 * e);
    /* A prime stride samples every head, both ends of blocks, queries, keys and values. */
    int64_t stride = rows * ld > 1000 ? 41 : 1;
    for (int64_t i = 0; i < rows * ld; i += stride) {
        int64_t part = i % ld / D;
        double bound = part < s.heads                ? scale * x * ds
                       : part < s.heads + s.kv_heads ? N * scale * x * ds
                                                     : N * (e + N * EPS) * d;
        assert_near((double)dqkv[i], slope(attention_loss, &at, &at.qkv[i]), bound);
    }
    free(qkv), free(dout), free(out), free(lse), free(dqkv), free(scratch);
    free(at.qkv), free(at.dout), free(at.out);
}

TEST(test_attention)
{
    attention_case((struct kern_heads){2, 5, 4, 2, 6, 0});   /* grouped */
    attention_case((struct kern_heads){1, 7, 3, 3, 4, 0});   /* as many as heads */
    attention_case((struct kern_heads){1, 1, 2, 1, 2, 0});   /* one token */
    attention_case((struct kern_heads){1, 70, 2, 1, 8, 0});  /* a second block, ragged */
    attention_case((struct kern_heads){1, 128, 1, 1, 4, 0}); /* two whole blocks */
}

struct gated_at {
    double gate, up;
    int gelu;
};

static double gated_loss(const void *p)
{
    const struct gated_at *at = p;
    double y;

    kern_ref_gated(&y, &at->gate, &at->up, 1, at->gelu);
    return y;
}

/* sigma = 1 / (1 + exp): 4 EPS of exp, two operations more: 6 EPS, and so is 1 - sigma,
 * absolute.  y: two products more.  The gate's gradient d u sigma (1 + x (1 - sigma)): sigma,
 * the bracket off by (6 |x| + 2 + 2 |x|) EPS, four products: within 18 EPS |d u| (1 + |x|).
 * gelu: the exponent v = x (A + B x^2) is off by 4 EPS |v|, which sigma takes on, and so does
 * the bracket times v' = A + 3 B x^2: 4 |v| more, and |x| is |x v'|. */
static void gated_case(int gelu)
{
    enum { N = 77 };
    float *gate = normal(1, N, 4), *up = normal(2, N, 1), *dy = normal(3, N, 1);
    float y[N], again[N], dgate[N], dup[N];

    (gelu ? kern_geglu : kern_swiglu)(y, gate, up, N);
    memcpy(again, dy, sizeof again);
    memcpy(dgate, gate, sizeof dgate);
    memcpy(dup, up, sizeof dup);
    (gelu ? kern_geglu_backward : kern_swiglu_backward)(again, dgate, dup, N);
    for (int i = 0; i < N; i++) {
        struct gated_at at = {(double)gate[i], (double)up[i], gelu};
        double d = (double)dy[i], want = gated_loss(&at), x = fabs(at.gate);
        double v = gelu ? x * (1.596 + 0.0714 * x * x) : 0;
        double xs = gelu ? x * (1.596 + 3 * 0.0714 * x * x) : x, by = (9 + 4 * v) * EPS;

        /* The reference's 1 + tanh loses digits of double where y is nearly 0. */
        assert_near((double)y[i], want, by * fabs(want) + 1e-14 * fabs(at.up));
        assert_near((double)again[i], want, by * fabs(want) + 1e-14 * fabs(at.up));
        assert_near((double)dgate[i], d * slope(gated_loss, &at, &at.gate),
                    (18 + 8 * v) * EPS * fabs(d * at.up) * (1 + xs));
        assert_near((double)dup[i], d * want / at.up, by * fabs(d * want / at.up) + 1e-14);
    }
    free(gate), free(up), free(dy);
}

TEST(test_gated)
{
    gated_case(0);
    gated_case(1);
}

struct loss_at {
    double *logits;
    const int32_t *targets;
    int64_t n, v;
};

static double ref_loss(const void *p)
{
    const struct loss_at *at = p;

    return kern_ref_cross_entropy(at->logits, at->targets, at->n, at->v);
}

/* Arguments of exp are at most R (the range of a row) and cost R EPS, exp 4 EPS, a span of 512
 * in 16 lanes 512 / 16 + 16 = 48 EPS: the sum, and so the logarithm, is off by (R + 52) EPS;
 * the rest is double.  A probability: the same, and lse rounded and subtracted (2 |lse| + R)
 * EPS. */
static void loss_case(int64_t n, int64_t v, double spread)
{
    float *logits = normal(1, n * v, spread), *grad = normal(1, n * v, spread);
    float *lse = normal(1, n, 0);
    int32_t *targets = mem_new((size_t)n, sizeof *targets);
    struct loss_at at = {wide(logits, n * v), targets, n, v};
    double R = 2 * largest(logits, n * v), off = (R + 52) * EPS, loss;

    for (int64_t i = 0; i < n; i++)
        targets[i] = i == 1 ? -100 : (int32_t)(i * 7919 % v);
    loss = kern_cross_entropy(lse, logits, targets, n, v);
    assert_near(loss, ref_loss(&at), (double)n * off);
    kern_cross_entropy_backward(grad, lse, targets, n, v, 0.25f);
    int64_t stride = v > 600 ? 13 : 1;
    for (int64_t i = 0; i < n * v; i += stride) {
        double want = slope(ref_loss, &at, &at.logits[i]), l = fabs((double)lse[i / v]);
        double p = want + (targets[i / v] == i % v);

        assert_near((double)grad[i], 0.25 * want,
                    0.25 * ((off + (2 * l + R) * EPS) * p + 2 * EPS + 1e-12));
    }
    free(logits), free(grad), free(lse), free(targets), free(at.logits);
}

TEST(test_cross_entropy)
{
    float row[3] = {NAN, 1, 2}, huge[3] = {1e4f, 0, -1e4f}, lse;
    int32_t last = 2, none = -1;

    loss_case(3, 11, 3);
    loss_case(2, 1100, 1);
    loss_case(1, 1, 1);
    assert_true(isnan(kern_cross_entropy(&lse, row, &last, 1, 3)));
    assert_near(kern_cross_entropy(&lse, huge, &last, 1, 3), 2e4, 0);
    assert_true(kern_cross_entropy(&lse, row, &none, 1, 3) == 0);
    kern_cross_entropy_backward(row, &lse, &none, 1, 3, 1);
    assert_true(row[0] == 0 && row[1] == 0 && row[2] == 0);
}

/* Whole numbers: every sum is exact, so the results are too. */
TEST(test_elementwise)
{
    enum { N = 100 };
    float x[N], y[N], table[4 * 3], rows[5 * 3];
    uint16_t half[N];
    const int32_t tokens[5] = {3, 0, 3, 1, 3};

    for (int i = 0; i < N; i++) {
        x[i] = (float)(i - 50);
        y[i] = 7;
        half[i] = dtype_bf16_of_f32(x[i]);
    }
    kern_add(y, x, N);
    kern_scale(y, 0.5f, N);
    kern_accumulate(y, x, DTYPE_F32, N);
    kern_accumulate(y, half, DTYPE_BF16, N);
    for (int i = 0; i < N; i++)
        half[i] = dtype_f16_of_f32(x[i]);
    kern_accumulate(y, half, DTYPE_F16, N);
    for (int i = 0; i < N; i++)
        assert_true((double)y[i] == 3.5 + 3.5 * (i - 50));
    assert_true(kern_sumsq(x, N) == 50.0 * 51 * 101 / 6 + 49.0 * 50 * 99 / 6);
    for (int i = 0; i < 12; i++)
        table[i] = (float)i;
    kern_embed(rows, table, tokens, 5, 4, 3);
    for (int i = 0; i < 15; i++)
        assert_true(rows[i] == (float)(tokens[i / 3] * 3 + i % 3));
    kern_embed_backward(table, rows, tokens, 5, 3);
    for (int i = 0; i < 12; i++)
        assert_true(table[i] == (float)(i * (int[]){2, 2, 1, 4}[i / 3]));
}

/* After K steps with 0.5 <= |g| <= 1: m, a weighted mean of g, is off by 4 K EPS, v by 4 K EPS
 * relative, the corrections by K EPS each (beta is rounded); their ratio, at most 2, by
 * 2 (4 + 2 + 2) K EPS and 8 operations.  Each step rounds w three times. */
TEST(test_adamw)
{
    enum { N = 45, K = 20 };
    const double lr = 1e-2;
    float *w = normal(1, N, 1), *part = normal(1, N, 1), g[N];
    float m[N] = {0}, v[N] = {0}, m2[N] = {0}, v2[N] = {0};
    double *dw = wide(w, N), dm[N] = {0}, dv[N] = {0}, dg[N];

    for (int k = 1; k <= K; k++) {
        for (int i = 0; i < N; i++) {
            double u = rng_uniform(1, 9, (uint64_t)(k * N + i)) - 0.5;

            g[i] = (float)(u < 0 ? u - 0.5 : u + 0.5);
            dg[i] = (double)g[i];
        }
        kern_adamw(w, m, v, g, N, lr, 0.9, 0.999, 0.1, 0.1, k);
        kern_adamw(part, m2, v2, g, 19, lr, 0.9, 0.999, 0.1, 0.1, k);
        kern_adamw(part + 19, m2 + 19, v2 + 19, g + 19, N - 19, lr, 0.9, 0.999, 0.1, 0.1, k);
        kern_ref_adamw(dw, dm, dv, dg, N, lr, 0.9, 0.999, 0.1, 0.1, k);
    }
    for (int i = 0; i < N; i++)
        assert_near((double)w[i], dw[i],
                    K * EPS * (3 * fabs(dw[i]) + 3 * K * lr + lr * (16 * K + 8)));
    assert_memory_equal(w, part, N * sizeof *w); /* a shard gives what the whole gives */
    assert_memory_equal(v, v2, sizeof v);
    free(w), free(part), free(dw);
}

BEFORE_TESTS
{
    kern_thread_init();
}
