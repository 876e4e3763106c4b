/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_MOMENTS_H
#define KERN_KERN_MOMENTS_H

#include <stdint.h>
#include <string.h>

#include "base/clones.h"
#include "base/moments.h"

/*
 * Codes of AdamW's moments (base/moments.h), the same bits on every device.
 *
 * bf16: an element x between the neighbours a < b becomes b with probability (x - a) / (b - a),
 * so that its mean is x: at beta2 = 0.999 a step changes exp_avg_sq by less than half of bf16's
 * spacing, and rounding to nearest would lose the change.  The random bits are a hash of step,
 * unit, element and moment, whatever the layout.
 *
 * int8: blockwise dynamic quantisation (Dettmers et al. 2021, arXiv 2110.02861; blocks of 256
 * as in torchao).  s is the largest magnitude of a block, q(c) the map of the 256 codes:
 *
 *     x ~ s q(c), c the nearest to x / s     q = +-10^(i-6) (0.1 + 0.9 (j + 1/2) / n), 0, 1
 *
 * for i = 0 .. 6 and j = 0 .. n - 1; exp_avg has signs and n = 2^i, exp_avg_sq no signs and n =
 * 2 2^i.  Three differences make a decoded block encode to itself, so that f32 values in a
 * checkpoint carry it, and keep steps bounded:
 *   - exp_avg's lowest value is -1, not -0.993: s is exact whatever its sign;
 *   - a block with s < 2^-104 becomes 0, since its products may be subnormal;
 *   - an exp_avg_sq above 0 never becomes 0, because the step divides by its root.
 * An element that is not finite makes all elements of its block not finite.
 */
#ifndef KERN_MOMENTS_INLINE /* .cu files have one for their device */
#define KERN_MOMENTS_INLINE KERN_INLINE
#endif

struct kern_moments_map {
    float value[MOMENTS_BLOCK], from[MOMENTS_BLOCK]; /* q(c); least x / s with code c */
};
void kern_moments_fill(struct kern_moments_map *map, int second);

#define KERN_MOMENTS_LEAST 0x1p-104F

struct kern_moment { /* one moment of a packed shard; of a type other than f32 */
    enum moments type;
    int second; /* 0: exp_avg, 1: exp_avg_sq */
    void *data; /* moments_bytes(type, elems) */
    int64_t elems;
};

struct kern_dither { /* random bits of consecutive elements, at most 2^32 */
    uint32_t key[2];
    int64_t first; /* element of the unit where they begin */
    int shift;     /* exp_avg gets the lower half of an element's hash */
};
struct kern_dither kern_dither_of(int64_t step, int unit, int64_t first, int second);

/* Copies elements [at, at + n) of a moment to x, as f32. */
void kern_moment_get(float *x, const struct kern_moment *m, int64_t at, int64_t n);
/*
 * Stores x as elements [at, at + n).  int8: at is a multiple of MOMENTS_BLOCK, and n too unless
 * the moment ends there.  dither: for bf16; NULL rounds to nearest.
 */
void kern_moment_put(const struct kern_moment *m, int64_t at, const float *x, int64_t n,
                     const struct kern_dither *dither);

/* The scales are at data, the codes after them. */
KERN_MOMENTS_INLINE uint8_t *kern_moment_codes(void *data, int64_t elems)
{
    return (uint8_t *)data + (elems + MOMENTS_BLOCK - 1) / MOMENTS_BLOCK * 4;
}

/* lowbias32 (Wellons, hash-prospector, 2018). */
KERN_MOMENTS_INLINE uint32_t kern_moments_mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352dU;
    x = (x ^ x >> 15) * 0x846ca68bU;
    return x ^ x >> 16;
}

/* Returns 16 random bits for element first + i. */
KERN_MOMENTS_INLINE uint32_t kern_dither_bits(struct kern_dither d, uint32_t i)
{
    uint32_t lo = (uint32_t)d.first + i;
    uint32_t hi = (uint32_t)(d.first >> 32) + (lo < i);

    return kern_moments_mix(kern_moments_mix(lo + d.key[0]) ^ d.key[1] ^ hi) >> d.shift &
           0xffff;
}

/* Adds the random bits below the last bit of bf16, and truncates.  NaN stays NaN. */
KERN_MOMENTS_INLINE uint16_t kern_moments_bf16(float x, uint32_t bits)
{
    uint32_t u;

    memcpy(&u, &x, 4);
    uint32_t whole = u >> 16 | (uint32_t)((u & 0xffff) != 0) << 6;
    return (uint16_t)((u & 0x7f800000U) == 0x7f800000U ? whole : (u + bits) >> 16);
}

/* Returns the code of x / s: a binary search. */
KERN_MOMENTS_INLINE int kern_moments_code(const float *from, float x)
{
    int c = x >= from[128] ? 128 : 0;

    c += x >= from[c + 64] ? 64 : 0;
    c += x >= from[c + 32] ? 32 : 0;
    c += x >= from[c + 16] ? 16 : 0;
    c += x >= from[c + 8] ? 8 : 0;
    c += x >= from[c + 4] ? 4 : 0;
    c += x >= from[c + 2] ? 2 : 0;
    return c + (x >= from[c + 1] ? 1 : 0);
}

/* A zero has no sign: zeroed memory, and a block of zeros, decode to the same bits. */
KERN_MOMENTS_INLINE float kern_moments_value(float q, float scale)
{
    return q * scale + 0.0F;
}

#endif
