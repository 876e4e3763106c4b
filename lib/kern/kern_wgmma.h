/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_WGMMA_H
#define KERN_KERN_WGMMA_H

#include <cuda_runtime.h>
#include <stdint.h>

/*
 * Multiplies matrices of bf16 in shared memory by four warps together, sm_90a only: PTX ISA,
 * "Asynchronous warpgroup level matrix multiply-accumulate instructions".  All 128 threads must
 * take part.  tests/emulate/kern/kern_wgmma.h has the twins.
 *
 * A panel is rows of 64 elements, 128 bytes, whose sixteen-byte pieces are swizzled: piece p of
 * row r lies at p ^ r % 8; it begins at a multiple of 1024 bytes (kern_wgmma_align).
 * Accumulators c[n / 8][4] and the operand a in registers are those of kern_mma.h; warp w has
 * rows 16 w .. 16 w + 15 of the 64.
 *
 * Products are asynchronous: fence before the first that uses values written to registers,
 * commit after the last, and do not touch c or a before a wait.
 */
__device__ static __forceinline__ unsigned kern_wgmma_at(const void *shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}

/* Bytes up to the next address where a panel may begin. */
__device__ static __forceinline__ unsigned kern_wgmma_align(const void *shared)
{
    return -kern_wgmma_at(shared) & 1023u;
}

/* Descriptor of a panel with a row for each row of a, or for each column of b: 16 columns from
   `at` on. */
__device__ static __forceinline__ uint64_t kern_wgmma_rows(const void *at)
{
    return (kern_wgmma_at(at) & 0x3ffffu) >> 4 | (uint64_t)1 << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* Descriptor of panels that hold b itself, 16 rows from `at` on, 64 columns in each, `apart`
   bytes apart. */
__device__ static __forceinline__ uint64_t kern_wgmma_columns(const void *at, int apart)
{
    return (kern_wgmma_at(at) & 0x3ffffu) >> 4 | (uint64_t)(apart >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

__device__ static __forceinline__ void kern_wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ static __forceinline__ void kern_wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int GROUPS> __device__ static __forceinline__ void kern_wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}

/* Makes values that threads have put into shared memory visible to products after the next
   barrier. */
__device__ static __forceinline__ void kern_wgmma_publish(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Keeps the compiler from moving accesses to these registers across this point. */
template <int NT> __device__ static __forceinline__ void kern_wgmma_hold(float (&c)[NT][4])
{
#pragma unroll
    for (int n = 0; n < NT; n++)
        asm volatile("" : "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])::"memory");
}

template <int KT> __device__ static __forceinline__ void kern_wgmma_hold(uint32_t (&a)[KT][4])
{
#pragma unroll
    for (int k = 0; k < KT; k++)
        asm volatile("" : "+r"(a[k][0]), "+r"(a[k][1]), "+r"(a[k][2]), "+r"(a[k][3])::"memory");
}

#define KERN_WGMMA_1(c, n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define KERN_WGMMA_4(c, n)                                                                     \
    KERN_WGMMA_1(c, n), KERN_WGMMA_1(c, n + 1), KERN_WGMMA_1(c, n + 2), KERN_WGMMA_1(c, n + 3)
#define KERN_WGMMA_8(c, n) KERN_WGMMA_4(c, n), KERN_WGMMA_4(c, n + 4)

/* c (64, 64) = a b^T, + c where `add`; both are kern_wgmma_rows. */
__device__ static __forceinline__ void kern_wgmma_scores(float (&c)[8][4], uint64_t a,
                                                         uint64_t b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
                 "%30, %31}, "
                 "%32, %33, p, 1, 1, 0, 0;\n}"
                 : KERN_WGMMA_8(c, 0)
                 : "l"(a), "l"(b), "r"(add));
}

/* c (64, 64) += a b: a (64, 16) in registers, b kern_wgmma_columns. */
__device__ static __forceinline__ void kern_wgmma_gather(float (&c)[8][4], const uint32_t a[4],
                                                         uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
                 "%30, %31}, "
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : KERN_WGMMA_8(c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* c (64, 128) = a b^T, + c where `add`; both are kern_wgmma_rows. */
__device__ static __forceinline__ void kern_wgmma_scores(float (&c)[16][4], uint64_t a,
                                                         uint64_t b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
                 "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
                 "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "
                 "%58, %59, %60, %61, %62, %63}, "
                 "%64, %65, p, 1, 1, 0, 0;\n}"
                 : KERN_WGMMA_8(c, 0), KERN_WGMMA_8(c, 8)
                 : "l"(a), "l"(b), "r"(add));
}

/* c (64, 128) += a b: a (64, 16) in registers, b kern_wgmma_columns. */
__device__ static __forceinline__ void kern_wgmma_gather(float (&c)[16][4], const uint32_t a[4],
                                                         uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
                 "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
                 "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "
                 "%58, %59, %60, %61, %62, %63}, "
                 "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : KERN_WGMMA_8(c, 0), KERN_WGMMA_8(c, 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#endif
