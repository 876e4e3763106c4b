/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_SUM_H
#define KERN_KERN_CUDA_SUM_H

/* Sums, in .cu files, over the threads of a warp and of a block, in a fixed order. */
#include <cuda_runtime.h>

#define KERN_WARP 0xffffffffu

template <class T> __device__ static __forceinline__ T kern_warp_sum(T x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(KERN_WARP, x, d);
    return x;
}

__device__ static __forceinline__ float kern_warp_max(float x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x = fmaxf(x, __shfl_xor_sync(KERN_WARP, x, d));
    return x;
}

/*
 * Sum over a block of whole warps, returned to all threads; space: 32 elements of shared
 * memory. Another call with the same space needs a barrier in between.
 */
template <class T> __device__ static __forceinline__ T kern_block_sum(T x, T *space)
{
    int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;

    x = kern_warp_sum(x);
    if (warps == 1)
        return x;
    if (lane == 0)
        space[threadIdx.x / 32] = x;
    __syncthreads();
    return kern_warp_sum(lane < warps ? space[lane] : (T)0);
}

#endif
