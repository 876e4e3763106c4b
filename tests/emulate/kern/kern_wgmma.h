/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_WGMMA_H
#define KERN_KERN_WGMMA_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

/*
 * The twins of lib/kern/kern_wgmma.h, each warp by itself, at once.  Descriptors are read as
 * the PTX ISA has them ("Matrix-Descriptor Format", "Shared Memory Matrix Layout"): start,
 * leading and stride byte offsets in units of 16, and in bits 62, 63 the swizzle, 1: of 128
 * bytes, by which address bits 4..6 are those of the piece XOR bits 7..9.
 */
static inline unsigned kern_wgmma_at(const void *shared)
{
    return (unsigned)((const char *)shared - (const char *)emulate_shared());
}

static inline unsigned kern_wgmma_align(const void *shared)
{
    return -kern_wgmma_at(shared) & 1023u;
}

static inline uint64_t kern_wgmma_rows(const void *at)
{
    return (kern_wgmma_at(at) & 0x3ffffu) >> 4 | (uint64_t)1 << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

static inline uint64_t kern_wgmma_columns(const void *at, int apart)
{
    return (kern_wgmma_at(at) & 0x3ffffu) >> 4 | (uint64_t)(apart >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

static inline void kern_wgmma_fence(void)
{
}
static inline void kern_wgmma_commit(void)
{
}
template <int GROUPS> static inline void kern_wgmma_wait(void)
{
}
static inline void kern_wgmma_publish(void)
{
}
template <class T, int N> static inline void kern_wgmma_hold(T (&)[N][4])
{
}

/* Element k of row `row` (by rows: k runs along 128 bytes; else along the rows of a panel). */
static inline float emulate_wgmma_element(uint64_t descriptor, int by_rows, int row, int k)
{
    unsigned start = (unsigned)(descriptor & 0x3fff) << 4;
    unsigned leading = (unsigned)(descriptor >> 16 & 0x3fff) << 4;
    unsigned stride = (unsigned)(descriptor >> 32 & 0x3fff) << 4, at;
    uint16_t half;

    if (descriptor >> 62 != 1 || start % 1024 >= 128 || (!by_rows && start % 1024))
        emulate_fail("wgmma: descriptor 0x%llx", (unsigned long long)descriptor);
    at = by_rows ? start + row / 8 * stride + row % 8 * 128 + k * 2
                 : start + row / 64 * leading + row % 64 * 2 + k / 8 * stride + k % 8 * 128;
    at ^= at >> 3 & 0x70;
    memcpy(&half, (const char *)emulate_shared() + at, 2);
    return dtype_f32_of_bf16(half);
}

struct emulate_wgmma_in {
    const uint32_t *held; /* a of this lane, or NULL */
    uint64_t a, b;
    int warp, add;
};

template <int NT>
static void emulate_wgmma(unsigned, const void *const in[32], void *const out[32])
{
    float a[16][16], b[NT * 8][16];
    const emulate_wgmma_in *first = (const emulate_wgmma_in *)in[0];
    int rows = first->held == NULL;

    for (int l = 0; l < 32 && !rows; l++)
        for (int i = 0; i < 8; i++) {
            const uint32_t *word = ((const emulate_wgmma_in *)in[l])->held;

            a[l / 4 + 8 * (i / 2 % 2)][2 * (l % 4) + 8 * (i / 4) + i % 2] =
                dtype_f32_of_bf16((uint16_t)(word[i / 2] >> 16 * (i % 2)));
        }
    for (int r = 0; r < 16 && rows; r++)
        for (int k = 0; k < 16; k++)
            a[r][k] = emulate_wgmma_element(first->a, 1, first->warp * 16 + r, k);
    for (int n = 0; n < NT * 8; n++)
        for (int k = 0; k < 16; k++)
            b[n][k] = emulate_wgmma_element(first->b, rows, n, k);
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < NT * 4; i++) {
            int row = l / 4 + 8 * (i % 4 / 2), column = i / 4 * 8 + 2 * (l % 4) + i % 2;
            float *c = (float *)out[l] + i, sum = 0;

            for (int k = 0; k < 16; k++)
                sum += a[row][k] * b[column][k];
            *c = first->add ? *c + sum : sum;
        }
}

template <int NT>
static inline void kern_wgmma_scores(float (&c)[NT][4], uint64_t a, uint64_t b, int add)
{
    emulate_wgmma_in in = {NULL, a, b, (int)(threadIdx.x / 32 % 4), add};

    emulate_warp(0xffffffffu, emulate_wgmma<NT>, &in, c);
}

template <int NT>
static inline void kern_wgmma_gather(float (&c)[NT][4], const uint32_t a[4], uint64_t b)
{
    emulate_wgmma_in in = {a, 0, b, (int)(threadIdx.x / 32 % 4), 1};

    emulate_warp(0xffffffffu, emulate_wgmma<NT>, &in, c);
}

#endif
