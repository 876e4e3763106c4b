/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selects one of paro's own attention kernels: flash where it supports the shape, plain
 * elsewhere.  The backward pass of flash uses the products of sm_90a on a GPU that has them.
 */
#include <cuda_runtime_api.h>

#include "kern/kern_cuda_attention.h"
#include "kern/kern_kind.h"

int kern_cuda_hopper_can(enum dtype act, const struct kern_heads *s)
{
    int device = 0, major = 0;

    return kern_kind_flash(act, s) && cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           major == 9;
}

void kern_cuda_attention(void *stream, enum dtype act, const struct kern_heads *s, void *out,
                         float *lse, const void *qkv)
{
    if (kern_kind_flash(act, s))
        kern_cuda_flash_forward(stream, s, out, lse, qkv);
    else
        kern_cuda_plain_forward(stream, act, s, out, lse, qkv);
}

void kern_cuda_attention_backward(void *stream, enum dtype act, const struct kern_heads *s,
                                  void *dqkv, const void *dout, const void *out,
                                  const float *lse, const void *qkv, void *scratch)
{
    if (kern_cuda_hopper_can(act, s))
        kern_cuda_hopper_backward(stream, s, dqkv, dout, out, lse, qkv, scratch);
    else if (kern_kind_flash(act, s))
        kern_cuda_flash_backward(stream, s, dqkv, dout, out, lse, qkv, scratch);
    else
        kern_cuda_plain_backward(stream, act, s, dqkv, dout, out, lse, qkv, scratch);
}
