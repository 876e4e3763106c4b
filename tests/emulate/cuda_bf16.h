/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CUDA_BF16_H
#define CUDA_BF16_H

#include "base/dtype.h"
#include "cuda_runtime.h"

struct __nv_bfloat16 {
    unsigned short __x;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h)
{
    return h.__x;
}
static inline float __bfloat162float(__nv_bfloat16 h)
{
    return dtype_f32_of_bf16(h.__x);
}
/* To nearest, ties to even; the GPU knows one NaN. */
static inline __nv_bfloat16 __float2bfloat16(float f)
{
    return {(unsigned short)(f == f ? dtype_bf16_of_f32(f) : 0x7fff)};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return {__float2bfloat16(x), __float2bfloat16(y)};
}
static inline float2 __bfloat1622float2(__nv_bfloat162 h)
{
    return {__bfloat162float(h.x), __bfloat162float(h.y)};
}

#endif
