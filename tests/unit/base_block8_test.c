/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the code of blocks beside its definition in double, byte for byte; and its promises:
 * the bound of the error, that codes are stable, that nothing is lost between the decoded
 * values and the residual, that values that are not finite are seen.
 */
#include "unit.h"

#include <float.h>

#include "exec/exec_block8.h"
#include "exec/exec_code.h"
#include "base/rng.h"

enum { MOST = 700, GUARD = 16, GUARDED = 0x5a };
enum kind { ANY_BITS, NORMAL, SPREAD, TINY, HUGE_ONES, ZEROS, KINDS };

static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16};

struct fields {
    _Alignas(4) unsigned char x[MOST * 4], to[MOST * 4 + GUARD], sum[MOST * 4];
    float residual[MOST], was[MOST];
    int8_t code[MOST + MOST / 128 + 1 + GUARD], again[MOST + MOST / 128 + 1];
};

static double value_of(const void *p, enum dtype type, int i)
{
    uint16_t half[2] = {0};
    float f;

    if (type == DTYPE_F32)
        memcpy(&f, (const char *)p + 4 * i, 4);
    else {
        memcpy(&half[1], (const char *)p + 2 * i, 2); /* the upper half of an f32 */
        memcpy(&f, half, 4);
    }
    return (double)f;
}

static float made(enum kind kind, uint64_t stream, int i)
{
    uint64_t u = rng_u64(5, stream, (uint64_t)i);
    double n = rng_normal(6, stream, (uint64_t)i);
    uint32_t bits = (uint32_t)(u >> 7);
    float f;

    switch (kind) {
    case ANY_BITS:
        memcpy(&f, &bits, 4);
        return f;
    case NORMAL:
        return (float)n;
    case SPREAD:
        return (float)ldexp(n, (int)(u % 60) - 50);
    case TINY:
        return (float)ldexp(n, -120 - (int)(u % 30));
    case HUGE_ONES:
        return u % 7 ? (float)ldexp(n, 120) : n < 0 ? -FLT_MAX : FLT_MAX;
    default:
        return 0;
    }
}

static void fill(struct fields *f, enum dtype type, enum kind kind, uint64_t stream, int n)
{
    float x[MOST];

    for (int i = 0; i < n; i++)
        x[i] = made(kind, stream, i);
    dtype_convert(f->x, type, x, DTYPE_F32, n);
    for (int i = 0; i < n; i++) {
        f->residual[i] = kind == ANY_BITS ? 0 : made(kind, stream + 100, i) / 128;
        f->was[i] = f->residual[i];
    }
    memset(f->to, GUARDED, sizeof f->to);
    memset(f->code, GUARDED, sizeof f->code);
}

/* The code by exec_block8.h, one block, n <= 128: v are the values to be coded. */
static void code_block(int8_t *code, const double *v, int n)
{
    double most = 0;
    int e = -126, bad = 0;

    for (int i = 0; i < n; i++) {
        bad |= !isfinite(v[i]);
        most = fabs(v[i]) > most ? fabs(v[i]) : most;
    }
    if (most > 0 && !bad && ilogb(most) - 6 > e)
        e = ilogb(most) - 6;
    code[0] = (int8_t)(bad ? -128 : e);
    for (int i = 0; i < n; i++) {
        double q = bad ? 0 : nearbyint(ldexp(v[i], -e)); /* ties to even */
        code[1 + i] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
}

static double decoded(const int8_t *code, int i)
{
    const int8_t *block = code + i / 128 * 129;

    return block[0] == -128 ? NAN : ldexp(block[1 + i % 128], block[0]);
}

static int same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* with: the residual takes part. */
static void check_code(struct fields *f, enum dtype type, int with, int n)
{
    int64_t bytes = block8_bytes(n);
    int8_t expected[129];

    assert_int_equal(bytes, n + (n + 127) / 128);
    block8_encode(f->code, f->x, type, with ? f->residual : NULL, n);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(f->code[bytes + i], GUARDED);
    for (int b = 0; b < n; b += 128) {
        double v[128], most = 0;
        int m = n - b < 128 ? n - b : 128;
        for (int i = 0; i < m; i++) {
            float one = (float)value_of(f->x, type, b + i) + (with ? f->was[b + i] : 0);
            v[i] = (double)one;
            most = fabs(v[i]) > most ? fabs(v[i]) : most;
        }
        code_block(expected, v, m);
        assert_memory_equal(f->code + b / 128 * 129, expected, (size_t)m + 1);
        for (int i = 0; i < m; i++) {
            double d = decoded(f->code, b + i), lost = v[i] - d;
            assert_true(isnan(d) || fabs(lost) <= most / 128 || fabs(lost) <= 0x1p-127);
            assert_true(isfinite(d) || expected[0] == -128);
            if (with) /* exactly what is missing, or nothing where all is lost */
                assert_true((double)f->residual[b + i] == (isnan(d) ? 0 : lost));
            else
                assert_true(same((double)f->residual[b + i], (double)f->was[b + i]));
        }
    }
}

static void check_decode(struct fields *f, enum dtype type, int n)
{
    size_t used = (size_t)(n * dtype_bytes(type));

    block8_add(f->to, NULL, type, f->code, n);
    for (int i = 0; i < n; i++)
        assert_true(same(value_of(f->to, type, i), decoded(f->code, i)));
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(f->to[used + (size_t)i], GUARDED);
    block8_encode(f->again, f->to, type, NULL, n);
    assert_memory_equal(f->again, f->code, (size_t)block8_bytes(n));
    /* A sum is the sum of what was decoded, onto itself too. */
    dtype_reduce(f->sum, f->x, f->to, type, DTYPE_SUM, n);
    block8_add(f->to, f->x, type, f->code, n);
    for (int i = 0; i < n; i++)
        assert_true(same(value_of(f->to, type, i), value_of(f->sum, type, i)));
    block8_add(f->x, f->x, type, f->code, n);
    for (int i = 0; i < n; i++)
        assert_true(same(value_of(f->x, type, i), value_of(f->sum, type, i)));
}

TEST(codes_are_as_defined)
{
    struct fields f;

    for (int t = 0; t < 2; t++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int n = 0; n < MOST; n += n < 300 ? 1 : 61)
                for (int with = 0; with < 2; with++) {
                    fill(&f, types[t], (enum kind)kind, (uint64_t)n, n);
                    check_code(&f, types[t], with, n);
                    check_decode(&f, types[t], n);
                }
}

/* The numbers next to where the exponent, the largest q, the least exponent begin. */
TEST(edges)
{
    static const struct {
        float x;
        int e, q;
    } edge[] = {{0, -126, 0},
                {1, -6, 64},
                {0x1.fep0f, -6, 127}, /* 127.5: a tie that would be 128 */
                {0x1.fffffep0f, -6, 127},
                {0x1.fcp0f, -6, 127},
                {2, -5, 64},
                {FLT_MAX, 121, 127},
                {-FLT_MAX, 121, -127},
                {0x1p-120f, -126, 64},
                {0x1p-126f, -126, 1},
                {0x1p-127f, -126, 0}, /* a tie to even */
                {0x1.8p-127f, -126, 1},
                {FLT_TRUE_MIN, -126, 0},
                {INFINITY, -128, 0},
                {-INFINITY, -128, 0},
                {NAN, -128, 0}};

    for (size_t i = 0; i < sizeof edge / sizeof *edge; i++) {
        int8_t code[2] = {1, 1};
        block8_encode(code, &edge[i].x, DTYPE_F32, NULL, 1);
        assert_int_equal(code[0], edge[i].e);
        assert_int_equal(code[1], edge[i].q);
    }
}

/* One element that is not finite is seen in all of its block, in no other, and is forgotten. */
TEST(what_is_not_finite_is_seen)
{
    float x[300], residual[300];

    for (int i = 0; i < 300; i++) {
        x[i] = (float)i / 7;
        residual[i] = 1;
    }
    x[150] = INFINITY;
    exec_code_round(EXEC_CODE_INT8, x, DTYPE_F32, residual, 300);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(!isfinite(x[i]), i / 128 == 1);
        assert_true(isfinite(residual[i]));
        assert_true(i / 128 != 1 || residual[i] == 0);
    }
}

/* In pieces of its own, any number of them. */
TEST(rounding_is_coding)
{
    enum { N = 128 * 70 + 5 };
    static float x[N], y[N], r[N], s[N];
    static int8_t code[N + N / 128 + 1];

    for (int i = 0; i < N; i++) {
        x[i] = y[i] = made(SPREAD, 9, i);
        r[i] = s[i] = made(SPREAD, 10, i);
    }
    block8_encode(code, x, DTYPE_F32, r, N);
    block8_add(x, NULL, DTYPE_F32, code, N);
    exec_code_round(EXEC_CODE_INT8, y, DTYPE_F32, s, N);
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(r, s, sizeof r);
    exec_code_round(EXEC_CODE_INT8, y, DTYPE_F32, NULL, N);
    assert_memory_equal(x, y, sizeof x);
}

/* bf16 has 8 bits, and no more exponents than f32; by nearbyint, with ties to even. */
TEST(bf16_is_the_nearest)
{
    static float x[MOST], to[MOST], sum[MOST], residual[MOST], was[MOST];
    static uint16_t code[MOST];

    for (int kind = NORMAL; kind <= ZEROS; kind++)
        for (int with = 0; with < 2; with++) {
            for (int i = 0; i < MOST; i++) {
                x[i] = made((enum kind)kind, 3, i);
                residual[i] = was[i] = made((enum kind)kind, 4, i) / 256;
            }
            exec_code_encode(EXEC_CODE_BF16, code, x, DTYPE_F32, with ? residual : NULL, MOST);
            exec_code_add(EXEC_CODE_BF16, to, NULL, DTYPE_F32, code, MOST);
            exec_code_add(EXEC_CODE_BF16, sum, x, DTYPE_F32, code, MOST);
            for (int i = 0; i < MOST; i++) {
                float v = x[i] + (with ? was[i] : 0);
                int ulp = (v == 0 || ilogbf(v) < -126 ? -126 : ilogbf(v)) - 7;
                float near = (float)ldexp(nearbyint(ldexp((double)v, -ulp)), ulp);
                assert_true(same((double)to[i], (double)near));
                assert_true(same((double)sum[i], (double)(x[i] + near)));
                float lost = with ? isinf(near) ? 0 : v - near : was[i];
                assert_true(residual[i] == lost);
            }
            memcpy(residual, was, sizeof was);
            exec_code_round(EXEC_CODE_BF16, x, DTYPE_F32, with ? residual : NULL, MOST);
            assert_memory_equal(x, to, sizeof x);
        }
}

/* Values that a block lost come later: over many turns sums of decoded values stay as near to
   sums of the values as one residual, which is at most M / 128 (1 + 1/128 + ...) = M / 127.
   Without it an element below half of 2^e never arrives. */
TEST(what_is_lost_comes_later)
{
    float x[128], residual[128] = {0};
    int8_t code[129];
    double sum[128] = {0};

    for (int i = 0; i < 128; i++)
        x[i] = i ? 0x1p-10f * (float)i / 128 : 1;
    for (int turn = 1; turn <= 1000; turn++) {
        block8_encode(code, x, DTYPE_F32, residual, 128);
        for (int i = 0; i < 128; i++) {
            sum[i] += decoded(code, i);
            /* x + residual is rounded: by 2^-24 of at most 1 + 1/127, a turn. */
            assert_true(fabs(sum[i] - turn * (double)x[i]) <= 1 / 127.0 + turn * 0x1.1p-24);
        }
    }
    assert_true(sum[127] > 0.9);
}
