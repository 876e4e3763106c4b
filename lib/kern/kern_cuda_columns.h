/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_COLUMNS_H
#define KERN_KERN_CUDA_COLUMNS_H

/*
 * Second half of sums over the rows of a matrix, for .cu files.  The first half leaves `rows`
 * rows of f32 partial sums, `stride` apart; a block adds 32 columns of them to `to`: the rows
 * are distributed over its 32 warps, then the warps' sums are added in order.
 */
#include "kern/kern_cuda_pack.h"
#include "kern/kern_launch.h"

/* blockIdx.y 0: to[0] += the sums of part; 1: to[1] += those c columns further. */
__global__ static __launch_bounds__(1024) void kern_columns_kernel(float *first, float *second,
                                                                   const float *part, int rows,
                                                                   int64_t stride, int64_t c)
{
    __shared__ float space[32][33];
    const int lane = (int)threadIdx.x, warp = (int)threadIdx.y;
    int64_t column = (int64_t)blockIdx.x * 32 + lane;
    float *to = blockIdx.y ? second : first;
    float sum = 0, before = 0;

    if (!to)
        return;
    if (warp == 0 && column < c)
        before = to[column];
    part += blockIdx.y * c + column;
    /* Loads as many rows at once as most matrices have: takes a single memory latency. */
    if (column < c)
        for (int r = warp; r < rows; r += 32 * 12) {
            float h[12];

#pragma unroll
            for (int k = 0; k < 12; k++)
                h[k] = r + k * 32 < rows ? part[(r + k * 32) * stride] : 0;
#pragma unroll
            for (int k = 0; k < 12; k++)
                sum += h[k];
        }
    space[warp][lane] = sum;
    __syncthreads();
    if (warp || column >= c)
        return;
    for (int w = 1; w < 32; w++)
        sum += space[w][lane];
    to[column] = before + sum;
}

/* first (c), second (c): NULL if not needed. */
static inline void kern_columns(void *stream, float *first, float *second, const float *part,
                                int64_t rows, int64_t stride, int64_t c)
{
    dim3 grid((unsigned)kern_ceil(c, 32), second ? 2 : 1), block(32, 32);

    KERN_LAUNCH(kern_columns_kernel, grid, block, 0, stream, first, second, part, (int)rows,
                stride, c);
}

#endif
