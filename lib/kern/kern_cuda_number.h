/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_NUMBER_H
#define KERN_KERN_CUDA_NUMBER_H

/*
 * Converts, in .cu files, elements to floats and back, and computes the functions of floats
 * that cost more than a sum.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kern/kern_launch.h"

__device__ static __forceinline__ float kern_float(float x)
{
    return x;
}
__device__ static __forceinline__ float kern_float(__nv_bfloat16 x)
{
    return __uint_as_float((unsigned)__bfloat16_as_ushort(x) << 16);
}
__device__ static __forceinline__ float kern_float(__half x)
{
    return __half2float(x);
}

/* Rounds x to T, once, to nearest, ties to even. */
template <class T> struct kern_to;
template <> struct kern_to<float> {
    __device__ static __forceinline__ float of(float x)
    {
        return x;
    }
};
template <> struct kern_to<__nv_bfloat16> {
    __device__ static __forceinline__ __nv_bfloat16 of(float x)
    {
        return __float2bfloat16(x);
    }
};
template <> struct kern_to<__half> {
    __device__ static __forceinline__ __half of(float x)
    {
        return __float2half(x);
    }
};

/*
 * exp and quotients: exact up to one or two roundings if the result is f32.  For a bf16 result
 * they use the GPU's instructions, off by 2 + 1.2 |x| in 2^-23 (CUDA C++ Programming Guide,
 * "Intrinsic Functions"), less than a hundredth of bf16's last place unless the result is lost.
 * These are kern_launch.h's, 2 instructions each where __expf and __fdividef have 5: kernels
 * with one exponential an element are bound by instructions, 30 of a lane for 4 bytes.
 */
template <class T> __device__ static __forceinline__ float kern_exp(float x)
{
    return sizeof(T) == 4 ? expf(x) : kern_exp2(x * 1.44269504f);
}
template <class T> __device__ static __forceinline__ float kern_over(float x, float y)
{
    return sizeof(T) == 4 ? x / y : x * kern_inverse(y);
}

#endif
