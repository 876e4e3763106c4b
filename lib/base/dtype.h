/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stdint.h>
#include <string.h>

#include "base/err.h"

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64, DTYPE_I32, DTYPE_U8, DTYPE_COUNT };

int dtype_bytes(enum dtype type);
/* The command line's word: "f32", "bf16", "f16", "f64", "i32", "u8". */
const char *dtype_name(enum dtype type);
int dtype_parse(const char *text, enum dtype *out, struct err *err);

static inline float dtype_f32_of_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/* Round to nearest, ties to even; NaN stays NaN. */
static inline uint16_t dtype_bf16_of_f32(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float dtype_f32_of_f16(uint16_t h);
uint16_t dtype_f16_of_f32(float f);

/* Converts n elements between any two of the floating types, each rounded once; no overlap. */
void dtype_convert(void *to, enum dtype to_type, const void *from, enum dtype from_type,
                   int64_t n);
enum dtype_op { DTYPE_SUM, DTYPE_MAX, DTYPE_MIN, DTYPE_AVG, DTYPE_OPS };

/* to[i] = a[i] + b[i], in the type itself (bf16 and f16 through f32, rounded once). to may be
 * a. */
void dtype_add(void *to, const void *a, const void *b, enum dtype type, int64_t n);

#endif
