/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_EXP2_H
#define KERN_KERN_EXP2_H

/*
 * 2^x to 2 ulp and 1 / x to 1 ulp in one instruction, results below 2^-126 are 0: exp2f and
 * __fdividef without -ftz spend three and more on those (PTX ISA, "ex2", "rcp").
 * tests/emulate/kern/kern_exp2.h has the twins.
 */
__device__ static __forceinline__ float kern_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ static __forceinline__ float kern_inverse(float x)
{
    float y;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
