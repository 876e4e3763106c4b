/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_HOPPER_H
#define KERN_KERN_CUDA_HOPPER_H

#include "kern/kern_cuda_flash.h"
#include "kern/kern_wgmma.h"

/*
 * Tiles of rows as panels of kern_wgmma.h, D / 64 of them one after the other, and the two
 * products of attention by a group of four warps, which holds 64 rows of scores.
 */
enum {
    HOPPER_GROUPS = 2,
    HOPPER_THREADS = 128 * HOPPER_GROUPS,
    HOPPER_ROWS = 64 * HOPPER_GROUPS
};

/* Uniform in a warp, so that addresses of tiles are computed once for it. */
static __device__ __forceinline__ int hopper_group(void)
{
    return __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
}

/* Offset of column c of row r of a tile of ROWS rows. */
template <int ROWS> static __device__ __forceinline__ int hopper_at(int r, int c)
{
    return c / 64 * (ROWS * 64) + r * 64 + (c % 64 / 8 ^ r % 8) * 8 + c % 8;
}

/* Issues loads of ROWS rows of a matrix (n, D) from `first` on; zeros beyond n. */
template <int ROWS, int D>
static __device__ __forceinline__ void hopper_load(bf16 *to, const bf16 *from, int64_t ld,
                                                   int first, int n)
{
    constexpr int CHUNKS = D / 8, ALL = ROWS * CHUNKS, THREADS = HOPPER_THREADS;

#pragma unroll
    for (int i = 0; i < (ALL + THREADS - 1) / THREADS; i++) {
        int at = (int)threadIdx.x + i * THREADS, r = at / CHUNKS, c = at % CHUNKS * 8;
        bool in = first + r < n;

        if (ALL % THREADS == 0 || at < ALL)
            kern_async_16(to + hopper_at<ROWS>(r, c), from + (in ? first + r : 0) * ld + c,
                          in ? 16 : 0);
    }
}

/* Waits for all but the last LEFT commits, and makes the data visible to products of all
   threads. */
template <int LEFT> static __device__ __forceinline__ void hopper_arrive(void)
{
    kern_async_wait<LEFT>();
    kern_wgmma_publish();
    __syncthreads();
}

/* c = a b^T over D: the group's 64 rows of a, from a tile of A_ROWS; b a tile of 8 NT rows. */
template <int NT, int D, int A_ROWS>
static __device__ __forceinline__ void hopper_scores(float (&c)[NT][4], const bf16 *a,
                                                     const bf16 *b)
{
    kern_wgmma_hold(c);
#pragma unroll
    for (int k = 0; k < D / 16; k++)
        kern_wgmma_scores(c, kern_wgmma_rows(a + k / 4 * A_ROWS * 64 + k % 4 * 16),
                          kern_wgmma_rows(b + k / 4 * NT * 8 * 64 + k % 4 * 16), k > 0);
    kern_wgmma_commit();
    kern_wgmma_hold(c);
}

/* c += a b: a in registers, b a tile of 16 KT rows. */
template <int KT, int D>
static __device__ __forceinline__ void hopper_gather(float (&c)[D / 8][4],
                                                     const uint32_t (&a)[KT][4], const bf16 *b)
{
    kern_wgmma_hold(c);
#pragma unroll
    for (int k = 0; k < KT; k++)
        kern_wgmma_gather(c, a[k], kern_wgmma_columns(b + k * 16 * 64, KT * 16 * 128));
    kern_wgmma_commit();
    kern_wgmma_hold(c);
}

/* Rounds scores to operand a of the next product. */
template <int NT>
static __device__ __forceinline__ void hopper_pack(uint32_t (&a)[NT / 2][4],
                                                   const float (&p)[NT][4])
{
#pragma unroll
    for (int k = 0; k < NT / 2; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[k][i] = flash_pack(p[2 * k + i / 2][i % 2 * 2], p[2 * k + i / 2][i % 2 * 2 + 1]);
}

/*
 * Stores the warp's 16 rows of c times `by`, through rows at .. at + 16 of a tile of ROWS that
 * is otherwise unused now; `rows` of them exist.
 */
template <int D, int ROWS>
static __device__ __forceinline__ void hopper_store(bf16 *to, int64_t ld, int rows, bf16 *tile,
                                                    int at, const float (&c)[D / 8][4],
                                                    float by)
{
    constexpr int CHUNKS = D / 8;
    int l = flash_lane();

#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            *(uint32_t *)(tile + hopper_at<ROWS>(at + h * 8 + l / 4, n * 8 + l % 4 * 2)) =
                flash_pack(c[n][2 * h] * by, c[n][2 * h + 1] * by);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16 * CHUNKS / 32; i++) {
        int r = (l + 32 * i) / CHUNKS, column = (l + 32 * i) % CHUNKS * 8;

        if (r < rows)
            *(uint4 *)(to + r * ld + column) =
                *(const uint4 *)(tile + hopper_at<ROWS>(at + r, column));
    }
    __syncwarp();
}

#endif
