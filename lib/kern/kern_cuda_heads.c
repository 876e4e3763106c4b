/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the table's attention on a GPU: kernels of our own (kern_cuda_attention.h), flash for
 * shapes that it supports, plain for others; or cuDNN's if the caller asks for them and it has
 * engines for the shape.  All have the same inputs and outputs, lse too: a pass of the one may
 * follow one of the other.
 */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <string.h>

#include "kern/kern_cuda_attention.h"
#include "kern/kern_cuda_inside.h"
#include "kern/kern_kind.h"

enum { CUDNN_ALIGN = 256 }; /* alignment of its scratch; arenas have less */

static void *aligned(void *scratch)
{
    return (char *)scratch + (-(uintptr_t)scratch & (CUDNN_ALIGN - 1));
}

static struct kern_cuda_heads *cuda_heads_known(const struct kern *k,
                                                const struct kern_heads *s)
{
    struct kern_cuda *own = kern_cuda_of(k);

    for (int i = 0; i < own->heads_known; i++)
        if (!memcmp(&own->heads[i].shape, s, sizeof *s))
            return &own->heads[i];
    return NULL;
}

/* Once for each shape: preparing engines takes up to seconds. */
static void cuda_heads_choose(const struct kern *k, const struct kern_heads *s)
{
    struct kern_cuda *own = kern_cuda_of(k);
    static const enum kern_cudnn_what what[] = {[KERN_ATTENTION_USUAL] = KERN_CUDNN_FORWARD,
                                                [KERN_ATTENTION_CUDNN_ATOMIC] =
                                                    KERN_CUDNN_BACKWARD_ATOMIC};
    struct err err;

    if (k->attention == KERN_ATTENTION_OWN || k->act != DTYPE_BF16 || cuda_heads_known(k, s) ||
        own->heads_known == KERN_CUDA_HEADS)
        return;
    struct kern_cuda_heads *h = &own->heads[own->heads_known++];
    *h = (struct kern_cuda_heads){.shape = *s};
    device_stream(k->queue);
    if (!kern_cudnn_new(&h->cudnn, s, what[k->attention], &err))
        return;
    h->cudnn = NULL; /* cuDNN is missing, or has no engine for this shape: use our kernels */
    if (err.code == ERR_DEVICE)
        device_fail(k->device, "attention of cuDNN", err.text);
}

/* The cuDNN plan of that pass; NULL: use a kernel of our own. */
static struct kern_cudnn *cudnn_of(const struct kern *k, const struct kern_heads *s,
                                   int backward)
{
    const struct kern_cuda_heads *h = cuda_heads_known(k, s);

    return h && !(backward && k->attention == KERN_ATTENTION_USUAL) ? h->cudnn : NULL;
}

/* cuDNN supports no larger heads either, so our own kernels decide. */
int kern_cuda_heads_can(const struct kern *k, const struct kern_heads *s, struct err *err)
{
    if (s->from)
        return err_set(err, ERR_ABSENT,
                       "device cuda:%d: incremental generation, expected the device 'cpu'",
                       device_index(k->device));
    if (s->head_dim <= KERN_CUDA_HEAD_MOST)
        return 0;
    return err_set(err, ERR_ABSENT,
                   "device cuda:%d: heads of %" PRId64 " elements, expected %d at most",
                   device_index(k->device), s->head_dim, KERN_CUDA_HEAD_MOST);
}

const char *kern_cuda_heads_by(const struct kern *k, const struct kern_heads *s)
{
    return cudnn_of(k, s, 1)   ? "cuDNN"
           : cudnn_of(k, s, 0) ? "cuDNN, backward by our own"
                               : "kernels of our own";
}

int64_t kern_cuda_heads_bytes(const struct kern *k, const struct kern_heads *s, int backward)
{
    cuda_heads_choose(k, s);
    struct kern_cudnn *cudnn = cudnn_of(k, s, backward);
    return cudnn ? kern_cudnn_bytes(cudnn) + CUDNN_ALIGN
                 : kern_kind_attention_bytes(k, s, backward);
}

int kern_cuda_hopper_can(enum dtype act, const struct kern_heads *s)
{
    int device = 0, major = 0;

    return kern_kind_flash(act, s) && cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           major == 9;
}

void kern_cuda_heads(struct kern *k, const struct kern_heads *s, void *out, float *lse,
                     const void *qkv, void *scratch)
{
    struct kern_cudnn *cudnn = cudnn_of(k, s, 0);
    void *stream = device_stream(k->queue);
    struct err err;

    if (!cudnn && kern_kind_flash(k->act, s))
        kern_cuda_flash_forward(stream, s, out, lse, qkv);
    else if (!cudnn)
        kern_cuda_plain_forward(stream, k->act, s, out, lse, qkv);
    else if (kern_cudnn_forward(cudnn, stream, out, lse, qkv, aligned(scratch), &err))
        device_fail(k->device, "attention of cuDNN", err.text);
    kern_cuda_check(k, "attention");
}

void kern_cuda_heads_backward(struct kern *k, const struct kern_heads *s, void *dqkv,
                              const void *dout, const void *out, const float *lse,
                              const void *qkv, void *scratch)
{
    struct kern_cudnn *cudnn = cudnn_of(k, s, 1);
    void *stream = device_stream(k->queue);
    struct err err;

    if (!cudnn && kern_cuda_hopper_can(k->act, s))
        kern_cuda_hopper_backward(stream, s, dqkv, dout, out, lse, qkv, scratch);
    else if (!cudnn && kern_kind_flash(k->act, s))
        kern_cuda_flash_backward(stream, s, dqkv, dout, out, lse, qkv, scratch);
    else if (!cudnn)
        kern_cuda_plain_backward(stream, k->act, s, dqkv, dout, out, lse, qkv, scratch);
    else if (kern_cudnn_backward(cudnn, stream, dqkv, dout, out, lse, qkv, aligned(scratch),
                                 &err))
        device_fail(k->device, "attention of cuDNN, backward", err.text);
    kern_cuda_check(k, "attention_backward");
}

void kern_cuda_heads_release(struct kern *k)
{
    struct kern_cuda *own = kern_cuda_of(k);

    for (int i = 0; i < own->heads_known; i++)
        if (own->heads[i].cudnn)
            kern_cudnn_free(own->heads[i].cudnn);
}
