/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_ATTENTION_H
#define KERN_KERN_CUDA_ATTENTION_H

#include <stdint.h>

#include "base/dtype.h"
#include "kern/kern_cpu.h"

/*
 * Computes attention on a GPU as in kern.h: act is f32 or bf16, pointers are device memory,
 * aligned to 16 bytes, scratch has kern_kind_attention_bytes (0: it may be NULL), stream is a
 * cudaStream_t.  Calls only queue work; the stream reports errors.
 *
 *     plain   any even head_dim to 256, f32 and bf16      kern_cuda_attention_plain.cu
 *     flash   bf16, head_dim 64 or 128                    kern_cuda_flash_*.cu, tensor cores
 *     hopper  the backward pass of flash on sm_90, with its scratch
 *                                                         kern_cuda_hopper_backward.cu
 */
/* largest head_dim that the registers of a thread of plain hold */
enum { KERN_CUDA_HEAD_MOST = 256 };

void kern_cuda_plain_forward(void *stream, enum dtype act, const struct kern_heads *s,
                             void *out, float *lse, const void *qkv);
void kern_cuda_plain_backward(void *stream, enum dtype act, const struct kern_heads *s,
                              void *dqkv, const void *dout, const void *out, const float *lse,
                              const void *qkv, void *scratch);

void kern_cuda_flash_forward(void *stream, const struct kern_heads *s, void *out, float *lse,
                             const void *qkv);
void kern_cuda_flash_backward(void *stream, const struct kern_heads *s, void *dqkv,
                              const void *dout, const void *out, const float *lse,
                              const void *qkv, void *scratch);

/* kern_cuda_heads.c */
int kern_cuda_hopper_can(enum dtype act, const struct kern_heads *s);
void kern_cuda_hopper_backward(void *stream, const struct kern_heads *s, void *dqkv,
                               const void *dout, const void *out, const float *lse,
                               const void *qkv, void *scratch);

#endif
