/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CUDA_RUNTIME_H
#define CUDA_RUNTIME_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cuda_runtime_api.h"
#include "fibers.h"

/*
 * The language of kernels, as much of it as ours speak: CUDA C++ Programming Guide, "C++
 * Language Extensions".  Blocks follow each other, so that memory shared by a block is static.
 */
#define __global__
#define __device__
#define __host__
#define __shared__      static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

template <class T> struct alignas(2 * sizeof(T)) emulate_2 {
    T x, y;
};
template <class T> struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) emulate_4 {
    T x, y, z, w;
};
typedef emulate_2<float> float2;
typedef emulate_4<float> float4;
typedef emulate_4<unsigned> uint4;

static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

#define EMULATE_MIN_MAX(T)                                                                     \
    static inline T min(T a, T b)                                                              \
    {                                                                                          \
        return a < b ? a : b;                                                                  \
    }                                                                                          \
    static inline T max(T a, T b)                                                              \
    {                                                                                          \
        return a > b ? a : b;                                                                  \
    }
EMULATE_MIN_MAX(int)
EMULATE_MIN_MAX(long)

#include "cuda_device_functions.h"

#endif
