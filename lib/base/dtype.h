/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stdint.h>
#include <string.h>

#include "base/clones.h"
#include "base/err.h"

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64, DTYPE_I32, DTYPE_U8, DTYPE_COUNT };

int dtype_bytes(enum dtype type);
/* Name on the command line: "f32", "bf16", "f16", "f64", "i32", "u8". */
const char *dtype_name(enum dtype type);
int dtype_parse(const char *text, enum dtype *out, struct err *err);
/* As dtype_parse, restricted to the types that a network computes in: f32 and bf16. */
int dtype_parse_compute(const char *text, enum dtype *out, struct err *err);

KERN_INLINE float dtype_f32_of_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
KERN_INLINE uint16_t dtype_bf16_of_f32(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Conversions from and to f16 have no branches, so loops over them are vectorized. */
KERN_INLINE float dtype_f32_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, m = (uint32_t)(h & 0x7fff) << 13;
    /* Exponent bias changes from 15 to 127 */
    uint32_t e = m & 0x0f800000u, u = m + 0x38000000u;
    float f, below;

    /* A subnormal is 2^-14 (1 + m) - 2^-14, exactly; infinity and NaN add the difference of
       biases again. */
    uint32_t lifted = m + 0x38800000u;
    memcpy(&below, &lifted, 4);
    below -= 0x1p-14f;
    memcpy(&lifted, &below, 4);
    u = e == 0x0f800000u ? u + 0x38000000u : u;
    u = (e == 0 ? lifted : u) | sign;
    memcpy(&f, &u, 4);
    return f;
}

KERN_INLINE uint16_t dtype_f16_of_f32(float f)
{
    uint32_t u, sign, tiny;
    float a;

    memcpy(&u, &f, 4);
    sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    /* Below 2^-14: adding 0.5 aligns the ulp with 2^-24. */
    memcpy(&a, &u, 4);
    a += 0.5f;
    memcpy(&tiny, &a, 4);
    uint32_t r = (u + 0xfff + (u >> 13 & 1) - 0x38000000u) >> 13;
    r = u < 0x38800000u ? tiny - 0x3f000000u : r;
    r = u >= 0x477ff000u ? 0x7c00 : r; /* 65520 and above round to infinity */
    r = u > 0x7f800000u ? 0x7e00 | (u >> 13 & 0x3ff) : r;
    return (uint16_t)(sign | r);
}

/* Converts n elements between any two floating types, each rounded once; buffers must not
   overlap. */
void dtype_convert(void *to, enum dtype to_type, const void *from, enum dtype from_type,
                   int64_t n);

/* DTYPE_AVG: added as a sum, divided once after the last addition. */
enum dtype_op { DTYPE_SUM, DTYPE_MAX, DTYPE_MIN, DTYPE_AVG, DTYPE_OPS };

/* Name on the command line: "sum", "max", "min", "avg". */
const char *dtype_op_name(enum dtype_op op);
int dtype_op_parse(const char *text, enum dtype_op *out, struct err *err);

/*
 * to[i] = a[i] op b[i], in the type itself; `to` may equal a or b but not overlap them
 * otherwise.  Sums of bf16 and f16 are computed in f32 and rounded once, to nearest even, which
 * equals rounding the exact sum (24 bits suffice, 2 p + 2 for p = 8 and p = 11: Figueroa, When
 * is double rounding innocuous, 1995).  Sums of i32 and u8 wrap.  DTYPE_AVG adds; see
 * dtype_scale.
 *
 * max and min propagate NaN, the maximum and minimum of IEEE 754-2019: a NaN in any operand is
 * a NaN in the result, and -0 is below +0.  So results do not depend on the order of operands,
 * which algorithms choose freely, and a NaN on one rank remains visible.  (NCCL and most
 * implementations of MPI_MAX drop it, or keep it depending on its position.) Which of two NaNs
 * results is unspecified.
 */
void dtype_reduce(void *to, const void *a, const void *b, enum dtype type, enum dtype_op op,
                  int64_t n);

/*
 * Completes DTYPE_AVG: p[i] = p[i] / ranks, 1 <= ranks <= 2^24 (exact in f32). f32 and f64 are
 * divided, rounded once; bf16 and f16 in f32, then rounded to nearest even; i32 and u8 are
 * truncated toward zero, like ncclAvg.
 */
void dtype_scale(void *p, enum dtype type, int ranks, int64_t n);

#endif
