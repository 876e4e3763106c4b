/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDNN_H
#define KERN_KERN_CUDNN_H

#include <stdint.h>

#include "base/err.h"
#include "kern/kern_cpu.h"

/*
 * Runs causal attention of one shape by cuDNN's fused engines, for bf16: the meaning, the
 * layouts and the packed qkv of kern_attention (kern_cpu.h), prepared once and run many times,
 * by one thread at a time.  The GPU is the calling thread's current one.
 *
 * kern_cudnn.c; kern_cudnn_none.c in a build without CUDA.
 */
enum kern_cudnn_what {
    KERN_CUDNN_FORWARD,
    /* Also a backward that sums dq by atomic additions: its last bits differ from run to
       run. */
    KERN_CUDNN_BACKWARD_ATOMIC
};

struct kern_cudnn;

/*
 * ERR_ABSENT with cuDNN's message if it is missing or has no engine for this shape, type or
 * GPU; ERR_DEVICE for other failures.  Takes up to seconds: engines may be compiled.
 */
int kern_cudnn_new(struct kern_cudnn **out, const struct kern_heads *s,
                   enum kern_cudnn_what what, struct err *err);
void kern_cudnn_free(struct kern_cudnn *p); /* NULL is fine */

/* Size of the workspace: device memory, 256-byte aligned, that either pass may overwrite. */
int64_t kern_cudnn_bytes(const struct kern_cudnn *p);
/* One line: cuDNN's version, and for each pass its engine, its notes, its workspace. */
const char *kern_cudnn_text(const struct kern_cudnn *p);

/* stream is a cudaStream_t.  ERR_DEVICE: cuDNN rejected the call; does not wait for the
   work. */
int kern_cudnn_forward(struct kern_cudnn *p, void *stream, void *out, float *lse,
                       const void *qkv, void *workspace, struct err *err);
/* Writes all of dqkv. */
int kern_cudnn_backward(struct kern_cudnn *p, void *stream, void *dqkv, const void *dout,
                        const void *out, const float *lse, const void *qkv, void *workspace,
                        struct err *err);

#endif
