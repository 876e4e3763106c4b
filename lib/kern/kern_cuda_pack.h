/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_PACK_H
#define KERN_KERN_CUDA_PACK_H

/* For .cu files: elements moved 16 bytes at a time, and how they become floats and back. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

extern "C" {
#include "base/dtype.h"
}
#include "kern/kern_launch.h"

/* N elements, loaded and stored in pieces of 16 bytes, or at once where they are fewer. */
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) kern_pack {
    T at[N];
};

/* As many elements of T as 16 bytes hold. */
template <class T> struct kern_full {
    static const int n = 16 / (int)sizeof(T);
};

template <int N, class T>
__device__ static __forceinline__ kern_pack<T, N> kern_load(const T *p)
{
    return *(const kern_pack<T, N> *)p;
}

/* To global memory; by name, since of elements that it has apart nvcc often makes a store each,
   for it does not see that other stores about go elsewhere. */
template <int N, class T>
__device__ static __forceinline__ void kern_store(T *p, const kern_pack<T, N> &pack)
{
    if constexpr (sizeof pack % 16 == 0) {
#pragma unroll
        for (int i = 0; i < (int)sizeof pack / 16; i++) {
            uint4 w;

            memcpy(&w, (const char *)&pack + 16 * i, 16);
            kern_store_16((uint4 *)p + i, w);
        }
    } else {
        *(kern_pack<T, N> *)p = pack;
    }
}

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

/* x rounded to T, once, to the nearest, ties to even. */
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

template <class T, int N>
__device__ static __forceinline__ kern_pack<T, N> kern_round_pack(const float (&x)[N])
{
    kern_pack<T, N> p;

#pragma unroll
    for (int i = 0; i < N; i++)
        p.at[i] = kern_to<T>::of(x[i]);
    return p;
}

/*
 * exp and quotients: exact to a rounding or two where the result is an f32; where it will be a
 * bf16 the processor's own, off by 2 + 1.2 |x| in 2^-23 (CUDA C++ Programming Guide, "Intrinsic
 * Functions"), below a hundredth of bf16's last place wherever the result is not lost.
 */
template <class T> __device__ static __forceinline__ float kern_exp(float x)
{
    return sizeof(T) == 4 ? expf(x) : __expf(x);
}
template <class T> __device__ static __forceinline__ float kern_over(float x, float y)
{
    return sizeof(T) == 4 ? x / y : __fdividef(x, y);
}

/* NAME is the C++ type of `type` within the statement. */
#define KERN_BY_TYPE(type, NAME, ...)                                                          \
    do {                                                                                       \
        if ((type) == DTYPE_BF16) {                                                            \
            using NAME = __nv_bfloat16;                                                        \
            __VA_ARGS__;                                                                       \
        } else {                                                                               \
            using NAME = float;                                                                \
            __VA_ARGS__;                                                                       \
        }                                                                                      \
    } while (0)

/* The same for f16 too. */
#define KERN_BY_FLOAT(type, NAME, ...)                                                         \
    do {                                                                                       \
        if ((type) == DTYPE_F16) {                                                             \
            using NAME = __half;                                                               \
            __VA_ARGS__;                                                                       \
        } else {                                                                               \
            KERN_BY_TYPE(type, NAME, __VA_ARGS__);                                             \
        }                                                                                      \
    } while (0)

/* Whether a pack of n elements of T may be loaded there. */
template <class T> static inline int kern_fits(const T *p, int n)
{
    return (uintptr_t)p % (n * sizeof(T) < 16 ? n * sizeof(T) : 16) == 0;
}

static inline int64_t kern_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t kern_ceil(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

#endif
