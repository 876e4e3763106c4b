/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CUDA_FP16_H
#define CUDA_FP16_H

#include "base/dtype.h"
#include "cuda_runtime.h"

struct __half {
    unsigned short __x;
};

static inline float __half2float(__half h)
{
    return dtype_f32_of_f16(h.__x);
}
/* To nearest, ties to even; the GPU knows one NaN. */
static inline __half __float2half(float f)
{
    return {(unsigned short)(f == f ? dtype_f16_of_f32(f) : 0x7fff)};
}

#endif
