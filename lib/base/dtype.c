/* SPDX-License-Identifier: BSD-3-Clause */
/* Defines the element types: size, name and rounding.  Leaves adding to dtype_reduce.c. */
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

static const char *const op_names[DTYPE_OPS] = {"sum", "max", "min", "avg"};

int dtype_bytes(enum dtype type)
{
    return table[type].bytes;
}

const char *dtype_name(enum dtype type)
{
    return table[type].name;
}

/* DTYPE_COUNT: unknown name. */
static enum dtype dtype_find(const char *text)
{
    enum dtype t = 0;

    while (t < DTYPE_COUNT && strcmp(text, table[t].name) != 0)
        t++;
    return t;
}

int dtype_parse(const char *text, enum dtype *out, struct err *err)
{
    enum dtype type = dtype_find(text);

    if (type == DTYPE_COUNT)
        return err_set(err, ERR_INPUT, "type '%s', expected f32, bf16, f16, f64, i32 or u8",
                       text);
    *out = type;
    return 0;
}

int dtype_parse_compute(const char *text, enum dtype *out, struct err *err)
{
    enum dtype type = dtype_find(text);

    if (type != DTYPE_F32 && type != DTYPE_BF16)
        return err_set(err, ERR_INPUT, "'%s', expected f32 or bf16", text);
    *out = type;
    return 0;
}

const char *dtype_op_name(enum dtype_op op)
{
    return op_names[op];
}

int dtype_op_parse(const char *text, enum dtype_op *out, struct err *err)
{
    for (int o = 0; o < DTYPE_OPS; o++) {
        if (strcmp(text, op_names[o]) == 0) {
            *out = (enum dtype_op)o;
            return 0;
        }
    }
    return err_set(err, ERR_INPUT, "reduction '%s', expected sum, max, min or avg", text);
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

KERN_CLONES
static void f32_to_f16(uint16_t *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = dtype_f16_of_f32(from[i]);
}

KERN_CLONES
static void f16_to_f32(float *to, const uint16_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = dtype_f32_of_f16(from[i]);
}

/*
 * Conversion of a double to 16 bits goes through f32 rounded to odd: an inexact result has an
 * odd last bit, so no false tie arises and only the second rounding decides.
 */
static float f64_to_f32_odd(double v)
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
    case DTYPE_F32:
        return ((const float *)p)[i];
    case DTYPE_F64:
        return ((const double *)p)[i];
    case DTYPE_BF16:
        return dtype_f32_of_bf16(((const uint16_t *)p)[i]);
    case DTYPE_F16:
        return dtype_f32_of_f16(((const uint16_t *)p)[i]);
    default:
        assert(!"a floating type");
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
    } else if (to_type == DTYPE_F16 && from_type == DTYPE_F32) {
        f32_to_f16(to, from, n);
    } else if (to_type == DTYPE_F32 && from_type == DTYPE_F16) {
        f16_to_f32(to, from, n);
    } else {
        for (int64_t i = 0; i < n; i++) {
            double v = load_f64(from, from_type, i);
            switch (to_type) {
            case DTYPE_F32:
                ((float *)to)[i] = (float)v;
                break;
            case DTYPE_F64:
                ((double *)to)[i] = v;
                break;
            case DTYPE_BF16:
                ((uint16_t *)to)[i] = dtype_bf16_of_f32(f64_to_f32_odd(v));
                break;
            case DTYPE_F16:
                ((uint16_t *)to)[i] = dtype_f16_of_f32(f64_to_f32_odd(v));
                break;
            default:
                assert(!"a floating type");
            }
        }
    }
}
