/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_FLASH_H
#define KERN_KERN_CUDA_FLASH_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

extern "C" {
#include "kern/kern_cpu.h"
}
#include "kern/kern_launch.h"
#include "kern/kern_mma.h"

/*
 * Shared by the forward and backward of kern_cuda_flash_*.cu: tiles of rows of bf16 in shared
 * memory, D wide and D + 8 apart: eight rows then begin in eight different sets of four banks
 * (D is a multiple of 16, so that (D + 8) / 8 is odd), and no ldmatrix has a bank conflict.
 * Accumulators are [row tile of 16][column tile of 8][4], as in kern_mma.h.
 */
typedef __nv_bfloat16 bf16;

enum { FLASH_WARPS = 4, FLASH_THREADS = 32 * FLASH_WARPS, FLASH_PAD = 8 };
constexpr float FLASH_LOG2E = 1.44269504088896341f;

/* Rows of the backward's statistics: seq rounded up to tiles of 128. */
static __host__ __device__ inline int64_t flash_padded(int64_t seq)
{
    return (seq + 127) / 128 * 128;
}

/* Computes lse log2(e) and delta of each query, as pairs (kern_cuda_flash_backward.cu). */
void kern_cuda_flash_stats(void *stream, const struct kern_heads *s, float2 *stats,
                           const void *dout, const void *out, const float *lse);

static __device__ __forceinline__ int flash_lane(void)
{
    return threadIdx.x % 32;
}

static __device__ __forceinline__ int flash_warp(void)
{
    return threadIdx.x / 32;
}

static __device__ __forceinline__ uint32_t flash_pack(float low, float high)
{
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    uint32_t word;

    memcpy(&word, &both, 4);
    return word;
}

/* Issues loads of ROWS rows of a matrix (n, D) from `first` on; zeros beyond n. */
template <int ROWS, int D>
static __device__ __forceinline__ void flash_load(bf16 *to, const bf16 *from, int64_t ld,
                                                  int first, int n)
{
    constexpr int CHUNKS = D / 8;

#pragma unroll
    for (int i = 0; i < ROWS * CHUNKS / FLASH_THREADS; i++) {
        int at = (int)threadIdx.x + i * FLASH_THREADS, r = at / CHUNKS, c = at % CHUNKS * 8;
        bool in = first + r < n;

        kern_async_16(to + r * (D + FLASH_PAD) + c, from + (in ? first + r : 0) * ld + c,
                      in ? 16 : 0);
    }
}

/*
 * Stores the warp's rows of acc times `by`, 16 bytes at a time, through its own rows of a tile
 * in shared memory; `rows` of them exist.
 */
template <int MT, int D>
static __device__ __forceinline__ void flash_store(bf16 *to, int64_t ld, int rows, bf16 *tile,
                                                   const float (&acc)[MT][D / 8][4], float by)
{
    constexpr int LD = D + FLASH_PAD, CHUNKS = D / 8;
    int l = flash_lane();

    __syncwarp();
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *(uint32_t *)(tile + (m * 16 + h * 8 + l / 4) * LD + n * 8 + l % 4 * 2) =
                    flash_pack(acc[m][n][2 * h] * by, acc[m][n][2 * h + 1] * by);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < MT * 16 * CHUNKS / 32; i++) {
        int at = l + 32 * i, r = at / CHUNKS, c = at % CHUNKS * 8;

        if (r < rows)
            *(uint4 *)(to + r * ld + c) = *(const uint4 *)(tile + r * LD + c);
    }
}

#endif
