/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests element types: all 65536 patterns of both 16-bit types, their ties, conversions and
 * sums. base_reduce_test.c has the rest.
 */
#include "unit.h"

#include "base/dtype.h"
#include "base/rng.h"

static uint32_t bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

static float float_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}

TEST(names_parse_back)
{
    for (int t = 0; t < DTYPE_COUNT; t++) {
        enum dtype type = DTYPE_COUNT;
        assert_ok(dtype_parse(dtype_name((enum dtype)t), &type, &err));
        assert_int_equal(type, t);
    }
    enum dtype type = DTYPE_F64;
    assert_int_equal(dtype_parse("float", &type, &err), -1);
    assert_int_equal(type, DTYPE_F64);
    assert_int_equal(dtype_bytes(DTYPE_F32) + dtype_bytes(DTYPE_BF16) + dtype_bytes(DTYPE_F16),
                     8);
    assert_int_equal(dtype_bytes(DTYPE_F64) + dtype_bytes(DTYPE_I32) + dtype_bytes(DTYPE_U8),
                     13);
}

TEST(every_pattern_returns)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float b = dtype_f32_of_bf16((uint16_t)h), f = dtype_f32_of_f16((uint16_t)h);
        if (isnan(b))
            assert_true(isnan(dtype_f32_of_bf16(dtype_bf16_of_f32(b))));
        else
            assert_int_equal(dtype_bf16_of_f32(b), h);
        if (isnan(f))
            assert_true(isnan(dtype_f32_of_f16(dtype_f16_of_f32(f))));
        else
            assert_int_equal(dtype_f16_of_f32(f), h);
    }
}

/* The value of a half by its definition, in arithmetic that shares nothing with the code. */
static double half_by_definition(uint32_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);

    return h & 0x8000 ? -v : v;
}

TEST(halves_are_what_they_say)
{
    for (uint32_t h = 0; h < 65536; h++) {
        double v = half_by_definition(h);
        float f = dtype_f32_of_f16((uint16_t)h);
        assert_true(isnan(v) ? isnan(f) : (double)f == v && !signbit(f) == !(h & 0x8000));
    }
}

/* Between two neighbours a < b of a 16-bit type: just below the middle is a, just above is b,
 * the middle itself the one whose pattern is even. */
TEST(ties_go_to_even)
{
    for (uint32_t h = 0; h < 0x7f7f; h++) { /* bf16 up to its largest but one */
        uint32_t middle = h << 16 | 0x8000;
        assert_int_equal(dtype_bf16_of_f32(float_of(middle)), h + (h & 1));
        assert_int_equal(dtype_bf16_of_f32(float_of(middle - 1)), h);
        assert_int_equal(dtype_bf16_of_f32(float_of(middle + 1)), h + 1);
    }
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float middle = (float)(0.5 * (half_by_definition(h) + half_by_definition(h + 1)));
        assert_int_equal(dtype_f16_of_f32(middle), h + (h & 1));
        assert_int_equal(dtype_f16_of_f32(nextafterf(middle, 0)), h);
        assert_int_equal(dtype_f16_of_f32(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(dtype_f16_of_f32(-middle), 0x8000 | (h + (h & 1)));
    }
}

TEST(edges)
{
    assert_int_equal(dtype_f16_of_f32(65504), 0x7bff);
    assert_int_equal(dtype_f16_of_f32(nextafterf(65520, 0)), 0x7bff);
    assert_int_equal(dtype_f16_of_f32(65520), 0x7c00);
    assert_int_equal(dtype_f16_of_f32(-INFINITY), 0xfc00);
    assert_int_equal(dtype_f16_of_f32(float_of(1)), 0);
    assert_int_equal(dtype_f16_of_f32(-0.0f), 0x8000);
    assert_int_equal(dtype_bf16_of_f32(float_of(0x7f7fffff)), 0x7f80); /* FLT_MAX: above */
    assert_int_equal(dtype_bf16_of_f32(INFINITY), 0x7f80);
    /* A NaN whose payload lies in the lower half must not become infinity. */
    assert_true(isnan(dtype_f32_of_bf16(dtype_bf16_of_f32(float_of(0x7f800001)))));
    assert_true(isnan(dtype_f32_of_bf16(dtype_bf16_of_f32(float_of(0xffffffff)))));
    assert_true(isnan(dtype_f32_of_f16(dtype_f16_of_f32(float_of(0x7f800001)))));
}

/* The vector loops, at every length, agree with the element and touch nothing beyond. */
TEST(convert_agrees_with_elements)
{
    float from[67], back[68];
    uint16_t to[68];

    for (int i = 0; i < 67; i++)
        from[i] = (float)rng_normal(1, 1, (uint64_t)i);
    for (int n = 0; n <= 67; n++) {
        to[n] = 0x1234;
        dtype_convert(to, DTYPE_BF16, from, DTYPE_F32, n);
        for (int i = 0; i < n; i++)
            assert_int_equal(to[i], dtype_bf16_of_f32(from[i]));
        assert_int_equal(to[n], 0x1234);
        back[n] = 7;
        dtype_convert(back, DTYPE_F32, to, DTYPE_BF16, n);
        for (int i = 0; i < n; i++)
            assert_true(back[i] == dtype_f32_of_bf16(to[i]));
        assert_true(back[n] == 7);
    }
}

TEST(convert_any_floating_pair)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64};
    static const double values[] = {0, 1, -2.5, 0.15625, 1024, -0.0078125}; /* exact in all */

    for (int a = 0; a < 4; a++) {
        for (int b = 0; b < 4; b++) {
            double x[6], y[6], z[6];
            dtype_convert(x, types[a], values, DTYPE_F64, 6);
            dtype_convert(y, types[b], x, types[a], 6);
            dtype_convert(z, DTYPE_F64, y, types[b], 6);
            assert_memory_equal(z, values, sizeof z);
        }
    }
}

/* 1 + 2^-8 is a tie of bf16; a hair more, too fine for f32, must not be taken for the tie. */
TEST(doubles_are_rounded_once)
{
    const double above[] = {1 + 0x1p-8 + 0x1p-40, -1 - 0x1p-8 - 0x1p-40, 1 + 0x1p-11 + 0x1p-40};
    const double below[] = {1 + 0x3p-8 - 0x1p-40, 1 + 0x3p-11 - 0x1p-40};
    uint16_t h[3];

    dtype_convert(h, DTYPE_BF16, above, DTYPE_F64, 2);
    assert_int_equal(h[0], 0x3f81);
    assert_int_equal(h[1], 0xbf81);
    dtype_convert(h, DTYPE_BF16, below, DTYPE_F64, 1);
    assert_int_equal(h[0], 0x3f81);
    dtype_convert(h, DTYPE_F16, above + 2, DTYPE_F64, 1);
    assert_int_equal(h[0], 0x3c01);
    dtype_convert(h, DTYPE_F16, below + 1, DTYPE_F64, 1);
    assert_int_equal(h[0], 0x3c01);
}

TEST(sums_in_the_type_itself)
{
    enum { N = 41 };
    float a[N], b[N], c[N];
    uint16_t ha[N], hb[N], hc[N];

    for (int i = 0; i < N; i++) {
        a[i] = (float)rng_normal(1, 2, (uint64_t)i);
        b[i] = (float)rng_normal(1, 3, (uint64_t)i);
    }
    dtype_reduce(c, a, b, DTYPE_F32, DTYPE_SUM, N);
    for (int i = 0; i < N; i++)
        assert_int_equal(bits_of(c[i]), bits_of(a[i] + b[i]));
    dtype_convert(ha, DTYPE_BF16, a, DTYPE_F32, N);
    dtype_convert(hb, DTYPE_BF16, b, DTYPE_F32, N);
    dtype_reduce(hc, ha, hb, DTYPE_BF16, DTYPE_SUM, N);
    for (int i = 0; i < N; i++)
        assert_int_equal(
            hc[i], dtype_bf16_of_f32(dtype_f32_of_bf16(ha[i]) + dtype_f32_of_bf16(hb[i])));
    dtype_reduce(ha, ha, hb, DTYPE_BF16, DTYPE_SUM, N); /* onto itself */
    assert_memory_equal(ha, hc, sizeof hc);
    dtype_convert(ha, DTYPE_F16, a, DTYPE_F32, N);
    dtype_convert(hb, DTYPE_F16, b, DTYPE_F32, N);
    dtype_reduce(hc, ha, hb, DTYPE_F16, DTYPE_SUM, N);
    for (int i = 0; i < N; i++)
        assert_int_equal(hc[i],
                         dtype_f16_of_f32(dtype_f32_of_f16(ha[i]) + dtype_f32_of_f16(hb[i])));
}

TEST(whole_numbers_wrap)
{
    int32_t a[2] = {INT32_MAX, -5}, b[2] = {1, 3};
    uint8_t c[2] = {250, 1}, d[2] = {10, 2};
    double e[1] = {0.1}, f[1] = {0.2};

    dtype_reduce(a, a, b, DTYPE_I32, DTYPE_SUM, 2);
    assert_true(a[0] == INT32_MIN && a[1] == -2);
    dtype_reduce(c, c, d, DTYPE_U8, DTYPE_SUM, 2);
    assert_true(c[0] == 4 && c[1] == 3);
    dtype_reduce(e, e, f, DTYPE_F64, DTYPE_SUM, 1);
    assert_true(e[0] == 0.1 + 0.2);
}
