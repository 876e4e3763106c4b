/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_PACK_H
#define KERN_KERN_CUDA_PACK_H

/* Loads and stores, in .cu files, elements 16 bytes at a time. */
#include <stdint.h>
#include <string.h>

extern "C" {
#include "base/dtype.h"
}
#include "kern/kern_cuda_number.h"
#include "kern/kern_launch.h"

/* N elements, loaded and stored in pieces of 16 bytes, or as a whole if smaller. */
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) kern_pack {
    T at[N];
};

/* Number of elements of T in 16 bytes. */
template <class T> struct kern_full {
    static const int n = 16 / (int)sizeof(T);
};

template <int N, class T>
__device__ static __forceinline__ kern_pack<T, N> kern_load(const T *p)
{
    return *(const kern_pack<T, N> *)p;
}

/* Stores to global memory explicitly: for elements computed separately nvcc often makes one
   store each, as it cannot prove that other stores go elsewhere. */
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

/*
 * Element i of a pack; i is known at compile time.  The upper of two bf16 in a word is
 * extracted by a mask: as a 16-bit element nvcc would extract it and shift it back, two or
 * three instructions.
 */
template <class T, int N>
__device__ static __forceinline__ float kern_at(const kern_pack<T, N> &pack, int i)
{
    return kern_float(pack.at[i]);
}
template <int N>
__device__ static __forceinline__ float kern_at(const kern_pack<__nv_bfloat16, N> &pack, int i)
{
    unsigned w;

    if constexpr (N % 2) {
        return kern_float(pack.at[i]);
    } else {
        memcpy(&w, &pack.at[i & ~1], 4);
        return __uint_as_float(i & 1 ? w & 0xffff0000u : w << 16);
    }
}

template <class T, int N>
__device__ static __forceinline__ kern_pack<T, N> kern_round_pack(const float (&x)[N])
{
    kern_pack<T, N> p;

#pragma unroll
    for (int i = 0; i < N; i++)
        p.at[i] = kern_to<T>::of(x[i]);
    return p;
}

/* Runs the statement with NAME as the C++ type of `type`. */
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

/* As KERN_BY_TYPE, for f16 too. */
#define KERN_BY_FLOAT(type, NAME, ...)                                                         \
    do {                                                                                       \
        if ((type) == DTYPE_F16) {                                                             \
            using NAME = __half;                                                               \
            __VA_ARGS__;                                                                       \
        } else {                                                                               \
            KERN_BY_TYPE(type, NAME, __VA_ARGS__);                                             \
        }                                                                                      \
    } while (0)

/* Whether p is aligned for a pack of n elements. */
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
