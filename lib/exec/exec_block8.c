/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes and decodes the blocks of exec_block8.h.  Every loop runs over a whole block without
 * a branch, so that the compiler makes vector code of it; the elements after the last whole
 * block go through one that is padded with zeros.
 */
#include "exec/exec_block8.h"

#include <assert.h>
#include <string.h>

#include "base/clones.h"

enum { ELEMS = BLOCK8_ELEMS, BYTES = ELEMS + 1, LEAST = -126, NOT_FINITE = -128 };

int64_t block8_bytes(int64_t n)
{
    return n + (n + ELEMS - 1) / ELEMS;
}

KERN_INLINE int32_t block8_bits_of(float f)
{
    int32_t bits;

    memcpy(&bits, &f, 4);
    return bits;
}

KERN_INLINE float float_of(int32_t bits)
{
    float f;

    memcpy(&f, &bits, 4);
    return f;
}

/* 2^e, or NaN. */
KERN_INLINE float block8_scale_of(int e)
{
    return float_of(e == NOT_FINITE ? 0x7fc00000 : (e + 127) << 23);
}

/* As bit patterns, magnitudes are ordered like numbers, with infinity and NaN above the
   others. */
KERN_INLINE int exponent_of(const float *v)
{
    int32_t most = 0;

    for (int i = 0; i < ELEMS; i++) {
        int32_t bits = block8_bits_of(v[i]) & INT32_MAX;
        most = bits > most ? bits : most;
    }
    int e = (most >> 23) - 127 - 6;
    return most >= 0x7f800000 ? NOT_FINITE : e < LEAST ? LEAST : e;
}

/*
 * Adding 1.5 2^23 aligns the ulp with 1: the sum is rounded to a whole number, to nearest even,
 * by which its bit pattern differs from that of 1.5 2^23.
 */
KERN_INLINE int block_encode(int8_t *code, const float *v)
{
    int e = exponent_of(v), keep = e == NOT_FINITE ? 0 : -1;
    float up = keep ? block8_scale_of(-e) : 0;

    code[0] = (int8_t)e;
    for (int i = 0; i < ELEMS; i++) {
        int32_t q = block8_bits_of(v[i] * up + 0x1.8p23f) - block8_bits_of(0x1.8p23f);
        q = q > 127 ? 127 : q < -127 ? -127 : q;
        code[1 + i] = (int8_t)(q & keep);
    }
    return e;
}

KERN_INLINE void block_residual(float *residual, const float *v, const int8_t *code, int e)
{
    float scale = e == NOT_FINITE ? 0 : block8_scale_of(e);

    for (int i = 0; i < ELEMS; i++) {
        float lost = v[i] - (float)code[1 + i] * scale;
        residual[i] = e == NOT_FINITE ? 0 : lost;
    }
}

/* elem: the type in memory; LOAD, SAVE: to and from f32. */
#define LOAD_F32(x)  (x)
#define SAVE_F32(x)  (x)
#define LOAD_BF16(x) dtype_f32_of_bf16(x)
#define SAVE_BF16(x) dtype_bf16_of_f32(x)

#define BLOCKS(name, elem, LOAD, SAVE)                                                         \
    KERN_CLONES static void encode_##name(int8_t *code, const elem *x, int64_t blocks)         \
    {                                                                                          \
        float v[ELEMS];                                                                        \
        for (int64_t b = 0; b < blocks; b++, code += BYTES, x += ELEMS) {                      \
            for (int i = 0; i < ELEMS; i++)                                                    \
                v[i] = LOAD(x[i]);                                                             \
            block_encode(code, v);                                                             \
        }                                                                                      \
    }                                                                                          \
    KERN_CLONES static void feed_##name(int8_t *code, const elem *x, float *residual,          \
                                        int64_t blocks)                                        \
    {                                                                                          \
        float v[ELEMS];                                                                        \
        for (int64_t b = 0; b < blocks; b++, code += BYTES, x += ELEMS, residual += ELEMS) {   \
            for (int i = 0; i < ELEMS; i++)                                                    \
                v[i] = LOAD(x[i]) + residual[i];                                               \
            block_residual(residual, v, code, block_encode(code, v));                          \
        }                                                                                      \
    }                                                                                          \
    KERN_CLONES static void decode_##name(elem *restrict to, const int8_t *restrict code,      \
                                          int64_t blocks)                                      \
    {                                                                                          \
        for (int64_t b = 0; b < blocks; b++, code += BYTES, to += ELEMS) {                     \
            float scale = block8_scale_of(code[0]);                                            \
            for (int i = 0; i < ELEMS; i++)                                                    \
                to[i] = SAVE((float)code[1 + i] * scale);                                      \
        }                                                                                      \
    }                                                                                          \
    KERN_CLONES static void add_##name(elem *to, const elem *a, const int8_t *restrict code,   \
                                       int64_t blocks)                                         \
    {                                                                                          \
        for (int64_t b = 0; b < blocks; b++, code += BYTES, a += ELEMS, to += ELEMS) {         \
            float scale = block8_scale_of(code[0]);                                            \
            _Pragma("GCC ivdep") for (int i = 0; i < ELEMS; i++)                               \
            {                                                                                  \
                to[i] = SAVE(LOAD(a[i]) + (float)code[1 + i] * scale);                         \
            }                                                                                  \
        }                                                                                      \
    }

BLOCKS(f32, float, LOAD_F32, SAVE_F32)
BLOCKS(bf16, uint16_t, LOAD_BF16, SAVE_BF16)

static void exec_block8_encode(int8_t *code, const void *x, enum dtype type, float *residual,
                               int64_t blocks)
{
    if (type == DTYPE_F32 && residual)
        feed_f32(code, x, residual, blocks);
    else if (type == DTYPE_F32)
        encode_f32(code, x, blocks);
    else if (residual)
        feed_bf16(code, x, residual, blocks);
    else
        encode_bf16(code, x, blocks);
}

/* If a is NULL nothing is added. */
static void decode(void *to, const void *a, enum dtype type, const int8_t *code, int64_t blocks)
{
    if (type == DTYPE_F32 && a)
        add_f32(to, a, code, blocks);
    else if (type == DTYPE_F32)
        decode_f32(to, code, blocks);
    else if (a)
        add_bf16(to, a, code, blocks);
    else
        decode_bf16(to, code, blocks);
}

void block8_encode(void *code, const void *x, enum dtype type, float *residual, int64_t n)
{
    int64_t blocks = n / ELEMS, whole = blocks * ELEMS;
    size_t left = (size_t)(n - whole), size = (size_t)dtype_bytes(type);
    float v[ELEMS] = {0}, r[ELEMS] = {0};
    int8_t last[BYTES];

    assert(type == DTYPE_F32 || type == DTYPE_BF16);
    exec_block8_encode(code, x, type, residual, blocks);
    if (left == 0)
        return;
    memcpy(v, (const char *)x + (size_t)whole * size, left * size);
    if (residual)
        memcpy(r, residual + whole, left * sizeof *r);
    exec_block8_encode(last, v, type, residual ? r : NULL, 1);
    memcpy((int8_t *)code + blocks * BYTES, last, left + 1);
    if (residual)
        memcpy(residual + whole, r, left * sizeof *r);
}

void block8_add(void *to, const void *a, enum dtype type, const void *code, int64_t n)
{
    int64_t blocks = n / ELEMS, whole = blocks * ELEMS;
    size_t left = (size_t)(n - whole), size = (size_t)dtype_bytes(type);
    float v[ELEMS] = {0};
    int8_t last[BYTES] = {0};

    assert(type == DTYPE_F32 || type == DTYPE_BF16);
    decode(to, a, type, code, blocks);
    if (left == 0)
        return;
    if (a)
        memcpy(v, (const char *)a + (size_t)whole * size, left * size);
    memcpy(last, (const int8_t *)code + blocks * BYTES, left + 1);
    decode(v, a ? v : NULL, type, last, 1);
    memcpy((char *)to + (size_t)whole * size, v, left * size);
}
