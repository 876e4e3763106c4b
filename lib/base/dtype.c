/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the element types: their size, name, rounding and sum. */
#include "base/dtype.h"

#include <assert.h>
#include <math.h>

#include "base/clones.h"

static const struct {
    const char *name;
    int bytes;
} table[DTYPE_COUNT] = {
    [DTYPE_F32] = {"f32", 4}, [DTYPE_BF16] = {"bf16", 2}, [DTYPE_F16] = {"f16", 2},
    [DTYPE_F64] = {"f64", 8}, [DTYPE_I32] = {"i32", 4},   [DTYPE_U8] = {"u8", 1},
};

int dtype_bytes(enum dtype type)
{
    return table[type].bytes;
}

const char *dtype_name(enum dtype type)
{
    return table[type].name;
}

int dtype_parse(const char *text, enum dtype *out, struct err *err)
{
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (strcmp(text, table[t].name) == 0) {
            *out = (enum dtype)t;
            return 0;
        }
    }
    return err_set(err, ERR_INPUT, "type '%s', expected f32, bf16, f16, f64, i32 or u8", text);
}

float dtype_f32_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023, u;
    float f;

    if (e == 31) {
        u = sign | 0x7f800000u | m << 13;
    } else if (e) {
        u = sign | (e + 112) << 23 | m << 13;
    } else { /* subnormal: m * 2^-24, exact in f32 */
        f = (float)m * 0x1p-24f;
        memcpy(&u, &f, 4);
        u |= sign;
    }
    memcpy(&f, &u, 4);
    return f;
}

uint16_t dtype_f16_of_f32(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    u &= 0x7fffffff;
    if (u > 0x7f800000u)
        return sign | 0x7e00;
    if (u >= 0x477ff000u) /* 65520 and above round to infinity */
        return sign | 0x7c00;
    if (u < 0x38800000u) { /* below 2^-14: adding 0.5 lines the ulp up with 2^-24 */
        float a, magic = 0.5f;
        memcpy(&a, &u, 4);
        a += magic;
        memcpy(&u, &a, 4);
        return sign | (uint16_t)(u - 0x3f000000u);
    }
    u += 0xfff + (u >> 13 & 1);
    return sign | (uint16_t)((u - 0x38000000u) >> 13);
}

KERN_CLONES
static void f32_to_bf16(uint16_t *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = dtype_bf16_of_f32(from[i]);
}

KERN_CLONES
static void bf16_to_f32(float *to, const uint16_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = dtype_f32_of_bf16(from[i]);
}

/*
 * A double on its way to 16 bits goes through f32 rounded to odd: an inexact result keeps an
 * odd last bit, so that no tie appears which was none, and the second rounding alone decides.
 */
static float f32_to_odd(double v)
{
    float f = (float)v;
    uint32_t u;

    if ((double)f == v || !isfinite(f))
        return f;
    memcpy(&u, &f, 4);
    if (!(u & 1))
        u = fabs((double)f) < fabs(v) ? u + 1 : u - 1;
    memcpy(&f, &u, 4);
    return f;
}

static double load_f64(const void *p, enum dtype type, int64_t i)
{
    switch (type) {
    case DTYPE_F32: return ((const float *)p)[i];
    case DTYPE_F64: return ((const double *)p)[i];
    case DTYPE_BF16: return dtype_f32_of_bf16(((const uint16_t *)p)[i]);
    case DTYPE_F16: return dtype_f32_of_f16(((const uint16_t *)p)[i]);
    default: assert(!"a floating type");
    }
    return 0;
}

void dtype_convert(void *to, enum dtype to_type, const void *from, enum dtype from_type,
                   int64_t n)
{
    if (to_type == from_type) {
        memcpy(to, from, (size_t)(n * dtype_bytes(to_type)));
    } else if (to_type == DTYPE_BF16 && from_type == DTYPE_F32) {
        f32_to_bf16(to, from, n);
    } else if (to_type == DTYPE_F32 && from_type == DTYPE_BF16) {
        bf16_to_f32(to, from, n);
    } else {
        for (int64_t i = 0; i < n; i++) {
            double v = load_f64(from, from_type, i);
            switch (to_type) {
            case DTYPE_F32: ((float *)to)[i] = (float)v; break;
            case DTYPE_F64: ((double *)to)[i] = v; break;
            case DTYPE_BF16: ((uint16_t *)to)[i] = dtype_bf16_of_f32(f32_to_odd(v)); break;
            case DTYPE_F16: ((uint16_t *)to)[i] = dtype_f16_of_f32(f32_to_odd(v)); break;
            default: assert(!"a floating type");
            }
        }
    }
}

KERN_CLONES
static void add_f32(float *to, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = a[i] + b[i];
}

KERN_CLONES
static void add_f64(double *to, const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = a[i] + b[i];
}

KERN_CLONES
static void add_bf16(uint16_t *to, const uint16_t *a, const uint16_t *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = dtype_bf16_of_f32(dtype_f32_of_bf16(a[i]) + dtype_f32_of_bf16(b[i]));
}

static void add_f16(uint16_t *to, const uint16_t *a, const uint16_t *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = dtype_f16_of_f32(dtype_f32_of_f16(a[i]) + dtype_f32_of_f16(b[i]));
}

/* Unsigned sums: a wrap is defined, as in MPI. */
KERN_CLONES
static void add_u32(uint32_t *to, const uint32_t *a, const uint32_t *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = a[i] + b[i];
}

KERN_CLONES
static void add_u8(uint8_t *to, const uint8_t *a, const uint8_t *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (uint8_t)(a[i] + b[i]);
}

void dtype_add(void *to, const void *a, const void *b, enum dtype type, int64_t n)
{
    switch (type) {
    case DTYPE_F32: add_f32(to, a, b, n); break;
    case DTYPE_F64: add_f64(to, a, b, n); break;
    case DTYPE_BF16: add_bf16(to, a, b, n); break;
    case DTYPE_F16: add_f16(to, a, b, n); break;
    case DTYPE_I32: add_u32(to, a, b, n); break;
    case DTYPE_U8: add_u8(to, a, b, n); break;
    case DTYPE_COUNT: assert(!"a type");
    }
}
