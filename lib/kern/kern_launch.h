/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_LAUNCH_H
#define KERN_KERN_LAUNCH_H

#include <cuda_runtime.h>

/*
 * Launches a kernel and declares its shared memory, which needs syntax of CUDA that is not C++;
 * and instructions without a name in CUDA.  tests/emulate/kern/kern_launch.h has their twins.
 *
 * kernel: a function, a template-id without commas, or a pointer to one.
 */
#define KERN_LAUNCH(kernel, grid, block, shared, stream, ...)                                  \
    kernel<<<grid, block, shared, (cudaStream_t)(stream)>>>(__VA_ARGS__)

/* Declares `type *name`, the dynamic shared memory, 128-byte aligned; once in a kernel. */
#define KERN_SHARED(type, name)                                                                \
    extern __shared__ __align__(128) unsigned char kern_shared_bytes[];                        \
    type *const name = (type *)kern_shared_bytes

/* Before a launch with more than 48 KiB of shared memory: allows that size. */
#define KERN_SHARED_MOST(kernel, bytes)                                                        \
    ((void)cudaFuncSetAttribute((const void *)(kernel),                                        \
                                cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes)))

/* Stores 16 bytes to global memory, aligned, at once. */
__device__ static __forceinline__ void kern_store_16(uint4 *p, uint4 x)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(
                     __cvta_generic_to_global(p)),
                 "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
                 : "memory");
}

/*
 * 2^x to 2 ulp and 1 / x to 1 ulp in one instruction; results below 2^-126 are 0.  exp2f and
 * __fdividef without -ftz spend three and more instructions on those (PTX ISA, "ex2", "rcp").
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
