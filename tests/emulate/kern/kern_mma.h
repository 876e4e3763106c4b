/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_MMA_H
#define KERN_KERN_MMA_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

/* The twins of lib/kern/kern_mma.h: matrices gathered from the lanes and given back to them. */
static inline float emulate_half_word(const uint32_t *word, int i)
{
    return dtype_f32_of_bf16((uint16_t)(word[i / 2] >> 16 * (i % 2)));
}

struct emulate_mma_in {
    const uint32_t *a, *b;
};

static inline void emulate_mma(unsigned, const void *const in[32], void *const out[32])
{
    float a[16][16], b[16][8];

    for (int l = 0; l < 32; l++) {
        const emulate_mma_in *from = (const emulate_mma_in *)in[l];
        int g = l / 4, t = l % 4;

        for (int i = 0; i < 8; i++)
            a[g + 8 * (i / 2 % 2)][2 * t + 8 * (i / 4) + i % 2] = emulate_half_word(from->a, i);
        for (int i = 0; i < 4; i++)
            b[2 * t + 8 * (i / 2) + i % 2][g] = emulate_half_word(from->b, i);
    }
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++) {
            int row = l / 4 + 8 * (i / 2), column = 2 * (l % 4) + i % 2;
            float sum = 0;

            for (int k = 0; k < 16; k++)
                sum += a[row][k] * b[k][column];
            ((float *)out[l])[i] += sum;
        }
}

static inline void kern_mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    emulate_mma_in in = {a, b};

    emulate_warp(0xffffffffu, emulate_mma, &in, c);
}

template <int TRANS>
static void emulate_ldmatrix(unsigned, const void *const in[32], void *const out[32])
{
    for (int i = 0; i < 4; i++) {
        uint16_t m[8][8];

        for (int r = 0; r < 8; r++) {
            if ((uintptr_t)in[8 * i + r] % 16)
                emulate_fail("ldmatrix: row %d of matrix %d is not aligned", r, i);
            memcpy(m[r], in[8 * i + r], 16);
        }
        for (int l = 0; l < 32; l++) {
            int g = l / 4, t = l % 4;
            uint32_t low = TRANS ? m[2 * t][g] : m[g][2 * t];
            uint32_t high = TRANS ? m[2 * t + 1][g] : m[g][2 * t + 1];

            ((uint32_t *)out[l])[i] = high << 16 | low;
        }
    }
}

static inline void kern_ldmatrix(uint32_t r[4], const void *row)
{
    emulate_warp(0xffffffffu, emulate_ldmatrix<0>, row, r);
}

static inline void kern_ldmatrix_trans(uint32_t r[4], const void *row)
{
    emulate_warp(0xffffffffu, emulate_ldmatrix<1>, row, r);
}

static inline void kern_async_16(void *shared, const void *global, int given = 16)
{
    emulate_async(shared, global, 16, (size_t)given);
}

static inline void kern_async_commit(void)
{
    emulate_async_commit();
}

template <int GROUPS> static inline void kern_async_wait(void)
{
    emulate_async_wait(GROUPS);
}

#endif
