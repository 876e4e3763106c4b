/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduces two vectors of one type to one, and divides a sum to an average.  Every loop is one
 * expression without a branch, which the compiler vectorizes; the processor affects only the
 * speed.
 */
#include "base/dtype.h"

#include <assert.h>

#include "base/clones.h"
#include "base/dtype_f16.h"

/* ivdep: with to == a, iterations of the loop are still independent. */
#define REDUCE(name, elem, expression)                                                         \
    KERN_CLONES static void name(void *to_, const void *a_, const void *b_, int64_t n)         \
    {                                                                                          \
        elem *to = to_;                                                                        \
        const elem *a = a_, *b = b_;                                                           \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                   \
        {                                                                                      \
            elem x = a[i], y = b[i];                                                           \
            to[i] = (elem)(expression);                                                        \
        }                                                                                      \
    }

/* `by`: the number that an element is divided by, or multiplied with. */
#define SCALE(name, elem, number, value, expression)                                           \
    KERN_CLONES static void name(void *p_, int ranks, int64_t n)                               \
    {                                                                                          \
        const number by = (number)(value);                                                     \
        elem *p = p_;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                      \
            elem x = p[i];                                                                     \
            p[i] = (elem)(expression);                                                         \
        }                                                                                      \
    }

/* Sums are unsigned: overflow is then defined and wraps, as in MPI. */
REDUCE(sum_f32, float, x + y)
REDUCE(sum_f64, double, x + y)
REDUCE(dtype_reduce_sum_bf16, uint16_t,
       dtype_bf16_of_f32(dtype_f32_of_bf16(x) + dtype_f32_of_bf16(y)))
REDUCE(dtype_reduce_sum_f16, uint16_t,
       dtype_f16_of_f32(dtype_f32_of_f16(x) + dtype_f32_of_f16(y)))
REDUCE(sum_u32, uint32_t, x + y)
REDUCE(sum_u8, uint8_t, x + y)

/*
 * Floating-point numbers are compared by their bits.  As signed integers, patterns of positive
 * numbers are in order; those of negative numbers are in order with all bits but the sign
 * inverted:
 *
 *   -inf ... -1 ... -0 | +0 ... 1 ... +inf    and -NaN below, +NaN above
 *
 * For a maximum every NaN counts as the highest key, for a minimum as the lowest.
 */
KERN_INLINE int16_t key16(uint16_t h, uint16_t infinity, int16_t nan)
{
    int16_t s = (int16_t)h;
    int16_t key = (int16_t)(s ^ ((s < 0 ? -1 : 0) & INT16_MAX));

    return (h & INT16_MAX) > infinity ? nan : key;
}

KERN_INLINE int32_t key32(uint32_t u, int32_t nan)
{
    int32_t s = (int32_t)u;

    return (s & INT32_MAX) > 0x7f800000 ? nan : s ^ ((s < 0 ? -1 : 0) & INT32_MAX);
}

KERN_INLINE int64_t key64(uint64_t u, int64_t nan)
{
    int64_t s = (int64_t)u;

    return (s & INT64_MAX) > 0x7ff0000000000000 ? nan : s ^ ((s < 0 ? -1 : 0) & INT64_MAX);
}

enum { BF16_INFINITY = 0x7f80, F16_INFINITY = 0x7c00 };

#define MAX_OF(key, ...) (key(x, __VA_ARGS__) >= key(y, __VA_ARGS__) ? x : y)
#define MIN_OF(key, ...) (key(x, __VA_ARGS__) <= key(y, __VA_ARGS__) ? x : y)

REDUCE(max_f32, uint32_t, MAX_OF(key32, INT32_MAX))
REDUCE(max_f64, uint64_t, MAX_OF(key64, INT64_MAX))
REDUCE(dtype_reduce_max_bf16, uint16_t, MAX_OF(key16, BF16_INFINITY, INT16_MAX))
REDUCE(dtype_reduce_max_f16, uint16_t, MAX_OF(key16, F16_INFINITY, INT16_MAX))
REDUCE(max_i32, int32_t, x > y ? x : y)
REDUCE(max_u8, uint8_t, x > y ? x : y)
REDUCE(min_f32, uint32_t, MIN_OF(key32, INT32_MIN))
REDUCE(min_f64, uint64_t, MIN_OF(key64, INT64_MIN))
REDUCE(dtype_reduce_min_bf16, uint16_t, MIN_OF(key16, BF16_INFINITY, INT16_MIN))
REDUCE(dtype_reduce_min_f16, uint16_t, MIN_OF(key16, F16_INFINITY, INT16_MIN))
REDUCE(min_i32, int32_t, x < y ? x : y)
REDUCE(min_u8, uint8_t, x < y ? x : y)

static void sum_halves(void *to, const void *a, const void *b, int64_t n)
{
    int64_t done = dtype_f16_sum(to, a, b, n);

    dtype_reduce_sum_f16((uint16_t *)to + done, (const uint16_t *)a + done,
                         (const uint16_t *)b + done, n - done);
}

typedef void (*reduce)(void *to, const void *a, const void *b, int64_t n);
#define SUMS                                                                                   \
    {                                                                                          \
        sum_f32, dtype_reduce_sum_bf16, sum_halves, sum_f64, sum_u32, sum_u8                   \
    }
static const reduce table[DTYPE_OPS][DTYPE_COUNT] = {
    [DTYPE_SUM] = SUMS,
    [DTYPE_AVG] = SUMS,
    [DTYPE_MAX] = {max_f32, dtype_reduce_max_bf16, dtype_reduce_max_f16, max_f64, max_i32,
                   max_u8},
    [DTYPE_MIN] = {min_f32, dtype_reduce_min_bf16, dtype_reduce_min_f16, min_f64, min_i32,
                   min_u8},
};

void dtype_reduce(void *to, const void *a, const void *b, enum dtype type, enum dtype_op op,
                  int64_t n)
{
    assert(op < DTYPE_OPS && type < DTYPE_COUNT);
    table[op][type](to, a, b, n);
}

/*
 * Processors have no vector division of integers.  (|x| + 1/2) / ranks differs from every
 * integer by at least 1 / (2 ranks) and has the same whole part as |x| / ranks; two roundings
 * change it by less ((|x| + 1/2) / ranks * 2^-52 in f64 for |x| <= 2^31, * 2^-23 in f32 for x
 * <= 255), so that its whole part is the truncated quotient.
 */
SCALE(scale_f32, float, float, ranks, x / by)
SCALE(scale_f64, double, double, ranks, x / by)
SCALE(scale_bf16, uint16_t, float, ranks, dtype_bf16_of_f32(dtype_f32_of_bf16(x) / by))
SCALE(scale_f16, uint16_t, float, ranks, dtype_f16_of_f32(dtype_f32_of_f16(x) / by))
SCALE(scale_i32, int32_t, double, 1.0 / ranks, ((double)x + (x < 0 ? -0.5 : 0.5)) * by)
SCALE(scale_u8, uint8_t, float, 1.0f / (float)ranks, (int)(((float)x + 0.5f) * by))

static void scale_halves(void *p, int ranks, int64_t n)
{
    int64_t done = dtype_f16_scale(p, (float)ranks, n);

    scale_f16((uint16_t *)p + done, ranks, n - done);
}

void dtype_scale(void *p, enum dtype type, int ranks, int64_t n)
{
    static void (*const scale[DTYPE_COUNT])(void *, int, int64_t) = {
        scale_f32, scale_bf16, scale_halves, scale_f64, scale_i32, scale_u8};

    assert(ranks >= 1 && ranks <= 1 << 24 && type < DTYPE_COUNT);
    scale[type](p, ranks, n);
}
