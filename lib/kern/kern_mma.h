/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_MMA_H
#define KERN_KERN_MMA_H

#include <cuda_runtime.h>
#include <stdint.h>

/*
 * Multiplies matrices of bf16 in a warp, sm_80 and later; all 32 lanes must take part.  PTX
 * ISA, "Matrix multiply-accumulate operation using mma instruction", "ldmatrix", "cp.async".
 * tests/emulate/kern/kern_mma.h has the twins.
 *
 * Lane l = 4 g + t holds, two elements to a word, the lower one first:
 *
 *     a (16,16)  a[0]: row g, columns 2t, 2t+1   a[1]: row g+8   a[2], a[3]: columns 2t+8, 2t+9
 *     b (16,8)   b[0]: rows 2t, 2t+1, column g   b[1]: rows 2t+8, 2t+9
 *     c (16,8)   c[0], c[1]: row g, columns 2t, 2t+1   c[2], c[3]: row g+8
 */

/* c += a b */
__device__ static __forceinline__ void kern_mma_bf16(float c[4], const uint32_t a[4],
                                                     const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/*
 * Loads four matrices of 8 x 8 from shared memory: lane l passes the address of row l % 8 of
 * matrix l / 8, 16 bytes, aligned, and receives in r[i] row g, columns 2t, 2t+1 of matrix i;
 * trans: rows 2t, 2t+1, column g.
 */
__device__ static __forceinline__ void kern_ldmatrix(uint32_t r[4], const void *row)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(row);

    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

__device__ static __forceinline__ void kern_ldmatrix_trans(uint32_t r[4], const void *row)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(row);

    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/*
 * Copies 16 bytes from global to shared memory, both aligned, without registers; reads only the
 * first `given` (0 .. 16), and writes zeros for the rest.  The data is visible to the issuing
 * thread after a wait that leaves at most GROUPS of the later commits pending; to other threads
 * after a further barrier.
 */
__device__ static __forceinline__ void kern_async_16(void *shared, const void *global,
                                                     int given = 16)
{
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);

    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(__cvta_generic_to_global(global)), "r"(given)
                 : "memory");
}

__device__ static __forceinline__ void kern_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int GROUPS> __device__ static __forceinline__ void kern_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

#endif
