/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CUDA_RUNTIME_H
#define CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
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
#define __constant__
#define __shared__      static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

static const int warpSize = 32;

template <class T> struct alignas(2 * sizeof(T)) emulate_2 {
    T x, y;
};
template <class T> struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) emulate_4 {
    T x, y, z, w;
};
typedef emulate_2<float> float2;
typedef emulate_4<float> float4;
typedef emulate_2<double> double2;
typedef emulate_2<int> int2;
typedef emulate_4<int> int4;
typedef emulate_2<unsigned> uint2;
typedef emulate_4<unsigned> uint4;

static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline int2 make_int2(int x, int y)
{
    return {x, y};
}
static inline int4 make_int4(int x, int y, int z, int w)
{
    return {x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
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
EMULATE_MIN_MAX(unsigned)
EMULATE_MIN_MAX(long)
EMULATE_MIN_MAX(unsigned long)
EMULATE_MIN_MAX(long long)
EMULATE_MIN_MAX(unsigned long long)
EMULATE_MIN_MAX(float)
EMULATE_MIN_MAX(double)

#include "cuda_device_functions.h"
#include "cuda_warp_functions.h"

#endif
