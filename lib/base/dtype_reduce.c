/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how two vectors of one type become one, and how a sum becomes an average.  Every loop
 * is one expression without a branch, which the compiler makes vector code of; nothing here
 * depends on the processor but the speed.
 */
#include "base/dtype.h"

#include <assert.h>

#include "base/clones.h"
#include "base/dtype_f16.h"

/* to == a is no dependence between two turns of the loop: ivdep says so. */
#define REDUCE(name, elem, expression)                                                         \
    KERN_CLONES static void name(elem *to, const elem *a, const elem *b, int64_t n)            \
    {                                                                                          \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                   \
        {                                                                                      \
            elem x = a[i], y = b[i];                                                           \
            to[i] = (elem)(expression);                                                        \
        }                                                                                      \
    }

#define SCALE(name, elem, number, expression)                                                  \
    KERN_CLONES static void name(elem *p, number ranks, int64_t n)                             \
    {                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                      \
            elem x = p[i];                                                                     \
            p[i] = (elem)(expression);                                                         \
        }                                                                                      \
    }

/* Unsigned sums: a wrap is defined, as in MPI. */
REDUCE(sum_f32, float, x + y)
REDUCE(sum_f64, double, x + y)
REDUCE(sum_bf16, uint16_t, dtype_bf16_of_f32(dtype_f32_of_bf16(x) + dtype_f32_of_bf16(y)))
REDUCE(sum_f16, uint16_t, dtype_f16_of_f32(dtype_f32_of_f16(x) + dtype_f32_of_f16(y)))
REDUCE(sum_u32, uint32_t, x + y)
REDUCE(sum_u8, uint8_t, x + y)

/*
 * Floating numbers are compared by their bits.  As a signed integer the pattern of a positive
 * number already stands in order; a negative one does with all bits but the sign turned over:
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
REDUCE(max_bf16, uint16_t, MAX_OF(key16, BF16_INFINITY, INT16_MAX))
REDUCE(max_f16, uint16_t, MAX_OF(key16, F16_INFINITY, INT16_MAX))
REDUCE(max_i32, int32_t, x > y ? x : y)
REDUCE(max_u8, uint8_t, x > y ? x : y)
REDUCE(min_f32, uint32_t, MIN_OF(key32, INT32_MIN))
REDUCE(min_f64, uint64_t, MIN_OF(key64, INT64_MIN))
REDUCE(min_bf16, uint16_t, MIN_OF(key16, BF16_INFINITY, INT16_MIN))
REDUCE(min_f16, uint16_t, MIN_OF(key16, F16_INFINITY, INT16_MIN))
REDUCE(min_i32, int32_t, x < y ? x : y)
REDUCE(min_u8, uint8_t, x < y ? x : y)

static void reduce_max(void *to, const void *a, const void *b, enum dtype type, int64_t n)
{
    switch (type) {
    case DTYPE_F32:
        max_f32(to, a, b, n);
        break;
    case DTYPE_F64:
        max_f64(to, a, b, n);
        break;
    case DTYPE_BF16:
        max_bf16(to, a, b, n);
        break;
    case DTYPE_F16:
        max_f16(to, a, b, n);
        break;
    case DTYPE_I32:
        max_i32(to, a, b, n);
        break;
    case DTYPE_U8:
        max_u8(to, a, b, n);
        break;
    case DTYPE_COUNT:
        assert(!"a type");
    }
}

static void reduce_min(void *to, const void *a, const void *b, enum dtype type, int64_t n)
{
    switch (type) {
    case DTYPE_F32:
        min_f32(to, a, b, n);
        break;
    case DTYPE_F64:
        min_f64(to, a, b, n);
        break;
    case DTYPE_BF16:
        min_bf16(to, a, b, n);
        break;
    case DTYPE_F16:
        min_f16(to, a, b, n);
        break;
    case DTYPE_I32:
        min_i32(to, a, b, n);
        break;
    case DTYPE_U8:
        min_u8(to, a, b, n);
        break;
    case DTYPE_COUNT:
        assert(!"a type");
    }
}

static void sum_halves(uint16_t *to, const uint16_t *a, const uint16_t *b, int64_t n)
{
    int64_t done = dtype_f16_sum(to, a, b, n);

    sum_f16(to + done, a + done, b + done, n - done);
}

static void reduce_sum(void *to, const void *a, const void *b, enum dtype type, int64_t n)
{
    switch (type) {
    case DTYPE_F32:
        sum_f32(to, a, b, n);
        break;
    case DTYPE_F64:
        sum_f64(to, a, b, n);
        break;
    case DTYPE_BF16:
        sum_bf16(to, a, b, n);
        break;
    case DTYPE_F16:
        sum_halves(to, a, b, n);
        break;
    case DTYPE_I32:
        sum_u32(to, a, b, n);
        break;
    case DTYPE_U8:
        sum_u8(to, a, b, n);
        break;
    case DTYPE_COUNT:
        assert(!"a type");
    }
}

void dtype_reduce(void *to, const void *a, const void *b, enum dtype type, enum dtype_op op,
                  int64_t n)
{
    switch (op) {
    case DTYPE_SUM:
    case DTYPE_AVG:
        reduce_sum(to, a, b, type, n);
        break;
    case DTYPE_MAX:
        reduce_max(to, a, b, type, n);
        break;
    case DTYPE_MIN:
        reduce_min(to, a, b, type, n);
        break;
    case DTYPE_OPS:
        assert(!"an operation");
    }
}

/*
 * No processor divides vectors of integers.  |x| + 1/2 over ranks lies at least 1 / (2 ranks)
 * off every integer and has the same whole part as |x| over ranks; two roundings move it by
 * less ((|x| + 1/2) / ranks * 2^-52 in f64 for |x| <= 2^31, * 2^-23 in f32 for x <= 255), so
 * that its whole part is the truncated quotient.
 */
SCALE(scale_f32, float, float, x / ranks)
SCALE(scale_f64, double, double, x / ranks)
SCALE(scale_bf16, uint16_t, float, dtype_bf16_of_f32(dtype_f32_of_bf16(x) / ranks))
SCALE(scale_f16, uint16_t, float, dtype_f16_of_f32(dtype_f32_of_f16(x) / ranks))
SCALE(scale_i32, int32_t, double, ((double)x + (x < 0 ? -0.5 : 0.5)) * ranks)
SCALE(scale_u8, uint8_t, float, (int)(((float)x + 0.5f) * ranks))

static void scale_halves(uint16_t *p, float ranks, int64_t n)
{
    int64_t done = dtype_f16_scale(p, ranks, n);

    scale_f16(p + done, ranks, n - done);
}

void dtype_scale(void *p, enum dtype type, int ranks, int64_t n)
{
    assert(ranks >= 1 && ranks <= 1 << 24);
    switch (type) {
    case DTYPE_F32:
        scale_f32(p, (float)ranks, n);
        break;
    case DTYPE_F64:
        scale_f64(p, ranks, n);
        break;
    case DTYPE_BF16:
        scale_bf16(p, (float)ranks, n);
        break;
    case DTYPE_F16:
        scale_halves(p, (float)ranks, n);
        break;
    case DTYPE_I32:
        scale_i32(p, 1.0 / ranks, n);
        break;
    case DTYPE_U8:
        scale_u8(p, 1.0f / (float)ranks, n);
        break;
    case DTYPE_COUNT:
        assert(!"a type");
    }
}
