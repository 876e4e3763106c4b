/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_EXP2_H
#define KERN_KERN_EXP2_H

#include <math.h>

/* The twins of lib/kern/kern_exp2.h. */
static inline float kern_exp2(float x)
{
    float y = exp2f(x);

    return y < 0x1p-126f ? 0.0f : y;
}

static inline float kern_inverse(float x)
{
    float y = 1.0f / x;

    return fabsf(y) < 0x1p-126f ? copysignf(0.0f, y) : y;
}

#endif
