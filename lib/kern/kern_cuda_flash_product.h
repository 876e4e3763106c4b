/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_FLASH_PRODUCT_H
#define KERN_KERN_CUDA_FLASH_PRODUCT_H

#include "kern/kern_cuda_flash.h"

/*
 * Computes the two products of attention, in one warp: scores, and the sums along them.  A warp
 * keeps its own scores: an accumulator (rows g and g + 8 of lane 4 g + t, columns 2t and 2t + 1
 * of two tiles) has exactly the layout of operand a of the next product.
 */

/* Loads operand a: 16 rows of a tile from `rows` on, columns 16 k .. 16 k + 16. */
template <int D>
static __device__ __forceinline__ void flash_a(uint32_t a[4], const bf16 *rows, int k)
{
    int l = flash_lane();

    kern_ldmatrix(a, rows + l % 16 * (D + FLASH_PAD) + l / 16 * 8 + k * 16);
}

/*
 * acc += a b^T, summed over D: a has 16 MT rows, in registers (`held`) or in shared memory, b
 * has 8 NT rows in shared memory.
 */
template <int MT, int NT, int D, bool HELD>
static __device__ __forceinline__ void flash_scores(float (&acc)[MT][NT][4],
                                                    const uint32_t (*held)[MT][4],
                                                    const bf16 *a, const bf16 *b)
{
    constexpr int LD = D + FLASH_PAD;
    int l = flash_lane();

    b += (l / 16 * 8 + l % 8) * LD + l / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t at[MT][4];

#pragma unroll
        for (int m = 0; m < MT; m++)
            if (HELD)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    at[m][i] = held[k][m][i];
            else
                flash_a<D>(at[m], a + m * 16 * LD, k);
#pragma unroll
        for (int n = 0; n < NT; n += 2) {
            uint32_t bt[4];

            kern_ldmatrix(bt, b + n * 8 * LD + k * 16);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                kern_mma_bf16(acc[m][n], at[m], bt);
                kern_mma_bf16(acc[m][n + 1], at[m], bt + 2);
            }
        }
    }
}

/* acc += p b: p (16 MT, 16 KT) is rounded to bf16; b has 16 KT rows in shared memory. */
template <int MT, int KT, int D>
static __device__ __forceinline__ void
flash_gather(float (&acc)[MT][D / 8][4], const float (&p)[MT][2 * KT][4], const bf16 *b)
{
    constexpr int LD = D + FLASH_PAD;
    int l = flash_lane();

    b += l % 16 * LD + l / 16 * 8;
#pragma unroll
    for (int k = 0; k < KT; k++) {
        uint32_t a[MT][4];

#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[m][i] = flash_pack(p[m][2 * k + i / 2][i % 2 * 2],
                                     p[m][2 * k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
            uint32_t bt[4];

            kern_ldmatrix_trans(bt, b + k * 16 * LD + n * 8);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                kern_mma_bf16(acc[m][n], a[m], bt);
                kern_mma_bf16(acc[m][n + 1], a[m], bt + 2);
            }
        }
    }
}

#endif
