/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests reductions of every type against definitions in double: an element is decoded, combined
 * and rounded by arithmetic that shares nothing with the loops.
 */
#include "unit.h"

#include "base/dtype.h"
#include "base/rng.h"

/* Bits of the significand, exponent of the smallest normal, largest finite exponent. */
struct format {
    int bits, low, high;
};
static const struct format formats[DTYPE_COUNT] = {[DTYPE_F32] = {24, -126, 127},
                                                   [DTYPE_BF16] = {8, -126, 127},
                                                   [DTYPE_F16] = {11, -14, 15},
                                                   [DTYPE_F64] = {53, -1022, 1023}};

/* The value that the bits of element i mean. */
static double decode(const void *p, enum dtype type, int i)
{
    const unsigned char *at = (const unsigned char *)p + i * dtype_bytes(type);
    const struct format *f = &formats[type];
    uint64_t u = 0;

    for (int b = dtype_bytes(type) - 1; b >= 0; b--)
        u = u << 8 | at[b];
    if (type == DTYPE_U8)
        return (double)u;
    if (type == DTYPE_I32)
        return u >> 31 ? (double)u - 0x1p32 : (double)u;
    uint64_t m = u & (((uint64_t)1 << (f->bits - 1)) - 1);
    uint64_t e = u >> (f->bits - 1) & (uint64_t)(2 * f->high + 1);
    double v = e == 0 ? ldexp((double)m, f->low - f->bits + 1)
               : e == (uint64_t)(2 * f->high + 1)
                   ? (m ? NAN : INFINITY)
                   : ldexp(1 + ldexp((double)m, 1 - f->bits), (int)e - f->high);
    return u >> (8 * dtype_bytes(type) - 1) ? -v : v;
}

/* v to the nearest number of the type, ties to even; whole numbers wrap. */
static double rounded(double v, enum dtype type)
{
    const struct format *f = &formats[type];
    int e;

    if (type == DTYPE_U8)
        return v - 256 * floor(v / 256);
    if (type == DTYPE_I32)
        return v - 0x1p32 * floor((v + 0x1p31) / 0x1p32);
    if (type == DTYPE_F64 || v == 0 || !isfinite(v))
        return v;
    frexp(v, &e); /* |v| in [2^(e-1), 2^e) */
    double ulp = ldexp(1, (e - 1 < f->low ? f->low : e - 1) - f->bits + 1);
    double r = nearbyint(v / ulp) * ulp;
    return fabs(r) >= ldexp(1, f->high + 1) ? copysign(INFINITY, v) : r;
}

static double combined(double a, double b, enum dtype type, enum dtype_op op)
{
    if (op == DTYPE_SUM || op == DTYPE_AVG)
        return rounded(a + b, type);
    if (isnan(a) || isnan(b))
        return NAN;
    if (a == b) /* zeros differ in sign alone */
        return signbit(a) == (op == DTYPE_MAX) ? b : a;
    return (a > b) == (op == DTYPE_MAX) ? a : b;
}

static int same(double got, double expected)
{
    if (isnan(expected))
        return isnan(got);
    return got == expected && !signbit(got) == !signbit(expected);
}

static void assert_reduced(const void *to, const void *a, const void *b, enum dtype type,
                           enum dtype_op op, int n)
{
    for (int i = 0; i < n; i++) {
        double x = decode(a, type, i), y = decode(b, type, i), got = decode(to, type, i);
        if (!same(got, combined(x, y, type, op)))
            fail_msg("%s %s of %a and %a: %a, expected %a", dtype_name(type), dtype_op_name(op),
                     x, y, got, combined(x, y, type, op));
    }
}

enum { LEN = 71, OFF = 8, SPACE = (LEN + 2 * OFF) * 8 };

/* Any bits: numbers of every size and kind.  Or, close together, floats with one high byte, so
 * that sums carry, cancel and are rounded. */
static void fill(void *p, enum dtype type, int close, uint64_t stream)
{
    unsigned char *at = p;
    int bytes = dtype_bytes(type);

    for (int i = 0; i < SPACE; i++) {
        at[i] = (unsigned char)(rng_u64(9, stream, (uint64_t)i) >> 11);
        if (close && i % bytes == bytes - 1)
            at[i] = (unsigned char)((at[i] & 0x80) | 0x3f);
    }
}

struct fields {
    unsigned char a[SPACE], b[SPACE], to[SPACE], was[SPACE];
};

/* Into a third place, onto a, onto b; bytes before and behind stay. */
static void try_length(struct fields *f, enum dtype type, enum dtype_op op, int off, int n)
{
    int bytes = dtype_bytes(type), at = off * bytes, end = at + n * bytes;

    fill(f->a, type, off % 2, (uint64_t)n);
    fill(f->b, type, off % 2, (uint64_t)n | 1 << 20);
    fill(f->to, type, 0, 1 << 21);
    memcpy(f->was, f->to, SPACE);
    dtype_reduce(f->to + at, f->a + at, f->b + bytes, type, op, n);
    assert_reduced(f->to + at, f->a + at, f->b + bytes, type, op, n);
    assert_memory_equal(f->to, f->was, at);
    assert_memory_equal(f->to + end, f->was + end, SPACE - end);
    memcpy(f->was, f->a, SPACE);
    dtype_reduce(f->a + at, f->a + at, f->b + bytes, type, op, n);
    assert_reduced(f->a + at, f->was + at, f->b + bytes, type, op, n);
    assert_memory_equal(f->a + end, f->was + end, SPACE - end);
    memcpy(f->a, f->was, SPACE);
    memcpy(f->was, f->b, SPACE);
    dtype_reduce(f->b + bytes, f->a + at, f->b + bytes, type, op, n);
    assert_reduced(f->b + bytes, f->a + at, f->was + bytes, type, op, n);
}

TEST(every_length_type_and_operation)
{
    static struct fields f __attribute__((aligned(64)));

    for (int type = 0; type < DTYPE_COUNT; type++)
        for (int op = 0; op < DTYPE_OPS; op++)
            for (int n = 0; n < LEN; n++)
                for (int off = 0; off < OFF; off += 1 + off % 3)
                    try_length(&f, (enum dtype)type, (enum dtype_op)op, off, n);
}

/* Zeros, smallest, largest, their neighbours, infinities and NaN, by the format's numbers. */
static int specials_of(enum dtype type, void *out)
{
    const struct format *f = &formats[type];
    uint64_t one = (uint64_t)1 << (f->bits - 1), top = (uint64_t)(2 * f->high + 1) * one;
    uint64_t half = (uint64_t)f->high * one, sign = (uint64_t)1 << (8 * dtype_bytes(type) - 1);
    uint64_t list[] = {0,
                       1,
                       2,
                       one - 1,
                       one,
                       one + 1,
                       half - 1,
                       half,
                       half + 1,
                       top - 1,
                       top - 2,
                       top,
                       top + 1,
                       top + one / 2,
                       2 * one,
                       half + one,
                       top - f->bits * one};
    int n = 0;

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (int negative = 0; negative < 2; negative++, n++) {
            uint64_t u = list[i] | (negative ? sign : 0);
            memcpy((char *)out + n * dtype_bytes(type), &u, (size_t)dtype_bytes(type));
        }
    return n;
}

TEST(special_values_of_floating_types)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64};
    char list[64 * 8], a[64 * 8], to[64 * 8];

    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        int n = specials_of(types[t], list), bytes = dtype_bytes(types[t]);
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < n; k++)
                memcpy(a + k * bytes, list + i * bytes, (size_t)bytes);
            for (int op = 0; op < DTYPE_OPS; op++) {
                dtype_reduce(to, a, list, types[t], (enum dtype_op)op, n);
                assert_reduced(to, a, list, types[t], (enum dtype_op)op, n);
            }
        }
    }
}

/* Every 16-bit pattern beside partners of every kind.  Where one operand at most is NaN the
 * bits are those of the element functions, in vectors as in the rest of the loop. */
TEST(every_pattern_of_halves)
{
    static uint16_t a[65536], b[65536], to[65536];

    for (int type = DTYPE_BF16; type <= DTYPE_F16; type++) {
        for (int partner = 0; partner < 6; partner++) {
            for (uint32_t h = 0; h < 65536; h++) {
                uint32_t with[] = {0, 0x8000, h, h ^ 0x8000, h + 1, h * 40503u >> 3};
                a[h] = (uint16_t)h;
                b[h] = (uint16_t)with[partner];
            }
            for (int op = 0; op < DTYPE_OPS; op++) {
                dtype_reduce(to, a, b, (enum dtype)type, (enum dtype_op)op, 65536);
                assert_reduced(to, a, b, (enum dtype)type, (enum dtype_op)op, 65536);
            }
            dtype_reduce(to, a, b, (enum dtype)type, DTYPE_SUM, 65536);
            for (int h = 0; type == DTYPE_F16 && h < 65536; h++) {
                float x = dtype_f32_of_f16(a[h]), y = dtype_f32_of_f16(b[h]);
                if (!isnan(x) || !isnan(y))
                    assert_int_equal(to[h], dtype_f16_of_f32(x + y));
            }
        }
    }
}

TEST(whole_numbers_at_their_ends)
{
    int32_t a[] = {INT32_MAX, INT32_MIN, -5, INT32_MIN, 0},
            b[] = {1, -1, 3, INT32_MIN, INT32_MAX}, c[5];
    uint8_t d[] = {250, 255, 0}, e[] = {10, 255, 127}, f[3];

    dtype_reduce(c, a, b, DTYPE_I32, DTYPE_SUM, 5);
    assert_true(c[0] == INT32_MIN && c[1] == INT32_MAX && c[2] == -2 && c[3] == 0);
    dtype_reduce(f, d, e, DTYPE_U8, DTYPE_AVG, 3);
    assert_true(f[0] == 4 && f[1] == 254 && f[2] == 127);
    for (int op = 0; op < DTYPE_OPS; op++) {
        dtype_reduce(c, a, b, DTYPE_I32, (enum dtype_op)op, 5);
        assert_reduced(c, a, b, DTYPE_I32, (enum dtype_op)op, 5);
        dtype_reduce(f, d, e, DTYPE_U8, (enum dtype_op)op, 3);
        assert_reduced(f, d, e, DTYPE_U8, (enum dtype_op)op, 3);
    }
}

static double quotient(double v, enum dtype type, int ranks)
{
    return type == DTYPE_I32 || type == DTYPE_U8 ? trunc(v / ranks) + 0.0
                                                 : rounded(v / ranks, type);
}

static void assert_divided(const void *p, const void *was, enum dtype type, int ranks, int n)
{
    for (int i = 0; i < n; i++) {
        double v = decode(was, type, i), got = decode(p, type, i);
        if (!same(got, quotient(v, type, ranks)))
            fail_msg("%s %a / %d: %a, expected %a", dtype_name(type), v, ranks, got,
                     quotient(v, type, ranks));
    }
}

/* The quotient of a half of p bits and a rank count lies 2^-(p+1) / ranks off a tie or is one:
 * to 2^11 ranks f32, whose error is 2^-24, decides no tie wrongly, and double is an oracle. */
TEST(averages_divide_once)
{
    static const int ranks[] = {1, 2, 3, 7, 10, 64, 127, 255, 1000, 2047};
    static uint16_t p[65537], was[65537];

    for (uint32_t h = 0; h < 65537; h++) /* for wide types any bits */
        was[h] = (uint16_t)h;
    for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++) {
        for (int type = 0; type < DTYPE_COUNT; type++) {
            int n = 65536 * 2 / dtype_bytes((enum dtype)type) - 1;
            memcpy(p, was, sizeof p);
            dtype_scale(p, (enum dtype)type, ranks[k], n);
            assert_divided(p, was, (enum dtype)type, ranks[k], n);
            size_t end = (size_t)(n * dtype_bytes((enum dtype)type));
            assert_memory_equal((char *)p + end, (char *)was + end, sizeof p - end);
        }
    }
}

/* Around every multiple that a product with 1 / ranks could miss, at the ends of the range. */
TEST(whole_averages_are_truncated)
{
    static const int ranks[] = {1, 2, 3, 7, 49, 103, 641, 65537, 16777213, 16777216};
    int32_t p[6], was[6];

    for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++) {
        int64_t q = INT32_MAX / ranks[k];
        for (int turn = 0; turn < 4000; turn++) {
            int64_t m = turn < 2000 ? q - turn : turn - 2000;
            int32_t v = m > 0 && m <= q ? (int32_t)(m * ranks[k]) : INT32_MAX;
            int32_t list[] = {v, v - 1, -v, 1 - v, -v - 1, v < INT32_MAX ? v + 1 : v};
            memcpy(p, list, sizeof p);
            memcpy(was, list, sizeof was);
            dtype_scale(p, DTYPE_I32, ranks[k], 6);
            for (int i = 0; i < 6; i++)
                assert_int_equal(p[i], was[i] / ranks[k]);
        }
    }
    for (int n = 1; n < 600; n++) {
        uint8_t u[256];
        for (int i = 0; i < 256; i++)
            u[i] = (uint8_t)i;
        dtype_scale(u, DTYPE_U8, n, 256);
        for (int i = 0; i < 256; i++)
            assert_int_equal(u[i], i / n);
    }
}

TEST(operations_have_names)
{
    for (int o = 0; o < DTYPE_OPS; o++) {
        enum dtype_op op = DTYPE_OPS;
        assert_ok(dtype_op_parse(dtype_op_name((enum dtype_op)o), &op, &err));
        assert_int_equal(op, o);
    }
    enum dtype_op op = DTYPE_MIN;
    assert_int_equal(dtype_op_parse("prod", &op, &err), -1);
    assert_int_equal(op, DTYPE_MIN);
    assert_string_equal(err.text, "reduction 'prod', expected sum, max, min or avg");
}
