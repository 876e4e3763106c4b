/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_VEC_H
#define KERN_KERN_VEC_H

#include <stdint.h>
#include <string.h>

/* Inlined into every clone of a KERN_CLONES function. */
#define KERN_INLINE static inline __attribute__((always_inline))

/* 16 floats at any address: sums use these lanes, on every CPU alike. */
typedef float kern_lanes __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t kern_masks __attribute__((vector_size(64), aligned(4), may_alias));

KERN_INLINE float kern_sum(const float *x, int64_t n)
{
    kern_lanes s = {0};
    float sum = 0;
    int64_t i = 0;

    for (; i + 16 <= n; i += 16)
        s += *(const kern_lanes *)(x + i);
    for (; i < n; i++)
        sum += x[i];
    for (int l = 0; l < 16; l++)
        sum += s[l];
    return sum;
}

KERN_INLINE float kern_dot(const float *x, const float *y, int64_t n)
{
    kern_lanes s = {0};
    float sum = 0;
    int64_t i = 0;

    for (; i + 16 <= n; i += 16)
        s += *(const kern_lanes *)(x + i) * *(const kern_lanes *)(y + i);
    for (; i < n; i++)
        sum += x[i] * y[i];
    for (int l = 0; l < 16; l++)
        sum += s[l];
    return sum;
}

/*
 * May ignore a NaN: later computation with that element shows it.  No comparison of lanes,
 * which AVX2 would make of their numbers one by one.
 */
KERN_INLINE float kern_max(const float *x, int64_t n)
{
    float max = x[0];

#pragma omp simd reduction(max : max)
    for (int64_t i = 1; i < n; i++)
        max = max > x[i] ? max : x[i];
    return max;
}

/*
 * exp(x) without a branch or a call, so that loops around it become vector code.
 *
 * x = k ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, the first of 9 significant bits (k
 * times it is exact); exp(r) by its Taylor polynomial of degree 7; the remainder r^8 / 8! is
 * below 5.2e-9 of the value (0.09 eps, eps = 2^-24).  Rounding: r carries at most 2^-25
 * absolute from its second part (half an eps), and the polynomial's last two steps
 * 1 + r (1 + ...) one eps each (scaled by at most |r| 1.42 for the inner ones).  Bound promised
 * and tested: 4 eps, relative.  Below -87.3 the value stays at exp(-87.3) = 1.2e-38 (normal, no
 * slow subnormals); above 88.37 at 2.4e38.  NaN stays NaN.
 */
KERN_INLINE float kern_exp(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float k, p, r, two_k;
    int32_t bits;

    x = x < -87.3f ? -87.3f : x;
    x = x > 88.37f ? 88.37f : x;
    k = x * 1.44269504f + magic;
    memcpy(&bits, &k, 4);
    k -= magic;
    r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    /* The integer k stands in the low bits of magic + k; shifting leaves (k + 127) << 23. */
    bits = (int32_t)(((uint32_t)bits + 127) << 23);
    memcpy(&two_k, &bits, 4);
    return p * two_k;
}

#endif
