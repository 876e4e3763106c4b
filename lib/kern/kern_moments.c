/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes and decodes moments on the CPU; kern_cuda_moments.cu does so on a GPU. */
#include "kern/kern_moments.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "base/dtype.h"
#include "base/rng.h"

void kern_moments_fill(struct kern_moments_map *map, int second)
{
    static const double decade[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    int zero = second ? 0 : MOMENTS_BLOCK / 2 - 1, at = zero;

    map->value[zero] = 0;
    for (int i = 0; i < 7; i++)
        for (int n = 1 << (i + second), j = 0; j < n; j++)
            map->value[++at] = (float)(decade[i] * (0.1 + 0.9 * (j + 0.5) / n));
    map->value[++at] = 1;
    for (int c = 1; c < zero; c++)
        map->value[c] = -map->value[2 * zero - c];
    map->value[0] = second ? 0 : -1;
    map->from[0] = -INFINITY;
    for (int c = 1; c < MOMENTS_BLOCK; c++)
        map->from[c] = (map->value[c - 1] + map->value[c]) / 2;
    if (second)
        map->from[1] = FLT_MIN;
}

struct kern_dither kern_dither_of(int64_t step, int unit, int64_t first, int second)
{
    uint64_t key = rng_u64((uint64_t)step, rng_stream("moments"), (uint64_t)unit);

    return (struct kern_dither){{(uint32_t)key, (uint32_t)(key >> 32)}, first, second ? 16 : 0};
}

KERN_CLONES
static void put_bf16(uint16_t *to, const float *x, int64_t n, struct kern_dither d)
{
#pragma GCC ivdep
    for (uint32_t i = 0; i < (uint32_t)n; i++)
        to[i] = kern_moments_bf16(x[i], kern_dither_bits(d, i));
}

/* As integers, magnitudes compare in any order alike, and a NaN is above infinity. */
KERN_CLONES
static uint32_t largest_bits(const float *x, int64_t n)
{
    const int32_t *bits = (const void *)x;
    int32_t most = 0;

    for (int64_t i = 0; i < n; i++) {
        int32_t u = bits[i] & 0x7fffffff;
        most = u > most ? u : most;
    }
    return (uint32_t)most;
}

KERN_CLONES
static void put_codes(uint8_t *code, const float *x, int64_t n, float scale, const float *from)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        code[i] = (uint8_t)kern_moments_code(from, x[i] / scale);
}

KERN_CLONES
static void get_codes(float *x, const uint8_t *code, int64_t n, float scale, const float *value)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        x[i] = kern_moments_value(value[code[i]], scale);
}

void kern_moment_get(float *x, const struct kern_moment *m, int64_t at, int64_t n)
{
    const uint8_t *code = kern_moment_codes(m->data, m->elems);
    const float *scale = m->data;
    struct kern_moments_map map;

    assert(m->type != MOMENTS_F32);
    if (m->type == MOMENTS_BF16) {
        dtype_convert(x, DTYPE_F32, (const uint16_t *)m->data + at, DTYPE_BF16, n);
        return;
    }
    kern_moments_fill(&map, m->second);
    for (int64_t end = at + n, to; at < end; at = to) {
        to = (at / MOMENTS_BLOCK + 1) * MOMENTS_BLOCK;
        to = to < end ? to : end;
        get_codes(x, code + at, to - at, scale[at / MOMENTS_BLOCK], map.value);
        x += to - at;
    }
}

void kern_moment_put(const struct kern_moment *m, int64_t at, const float *x, int64_t n,
                     const struct kern_dither *dither)
{
    uint8_t *code = kern_moment_codes(m->data, m->elems);
    float *scale = m->data;
    struct kern_moments_map map;

    assert(m->type != MOMENTS_F32 && n < INT64_C(1) << 32);
    if (m->type == MOMENTS_BF16) {
        if (dither)
            put_bf16((uint16_t *)m->data + at, x, n, *dither);
        else
            dtype_convert((uint16_t *)m->data + at, DTYPE_BF16, x, DTYPE_F32, n);
        return;
    }
    assert(at % MOMENTS_BLOCK == 0 && (n % MOMENTS_BLOCK == 0 || at + n == m->elems));
    kern_moments_fill(&map, m->second);
    for (int64_t i = 0; i < n; i += MOMENTS_BLOCK) {
        int64_t part = n - i < MOMENTS_BLOCK ? n - i : MOMENTS_BLOCK;
        uint32_t bits = largest_bits(x + i, part);
        float s;
        memcpy(&s, &bits, 4);
        s = s < KERN_MOMENTS_LEAST ? 0 : s;
        scale[(at + i) / MOMENTS_BLOCK] = s;
        if (s != 0)
            put_codes(code + at + i, x + i, part, s, map.from);
        else
            memset(code + at + i, 0, (size_t)part);
    }
}
