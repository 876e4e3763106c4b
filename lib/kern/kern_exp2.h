/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_EXP2_H
#define KERN_KERN_EXP2_H

/*
 * 2^x to 2 ulp in one instruction, results below 2^-126 are 0: exp2f without -ftz spends three
 * more on those (PTX ISA, "ex2").  tests/emulate/kern/kern_exp2.h has the twin.
 */
__device__ static __forceinline__ float kern_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
