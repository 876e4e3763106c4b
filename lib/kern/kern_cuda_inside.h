/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_INSIDE_H
#define KERN_KERN_CUDA_INSIDE_H

#include <cublasLt.h>
#include <stdint.h>

#include "dev/dev_inside.h"
#include "kern/kern_cuda.h"
#include "kern/kern_cudnn.h"

/* The state of a GPU's table, shared by kern_cuda.c and kern_cuda_{product,tokens,heads}.c. */
enum {
    KERN_CUDA_STAGES = 2, /* batches whose tokens may be in transfer at once */
    KERN_CUDA_HEADS = 8   /* shapes of attention that may use cuDNN; others use our kernels */
};

struct kern_cuda_stage { /* pinned host memory from which tokens are copied to the device */
    int32_t *ints;
    int64_t bytes;
    struct device_event *read;
};

struct kern_cuda {
    /* One buffer, reused by each launch: partial sums, workspace of cuBLASLt. */
    void *work;
    int64_t work_bytes;
    int64_t product_bytes; /* part of it for cuBLASLt, from the first product on */
    cublasLtHandle_t lt;

    /* In device memory, and pinned on the host: the loss and the sum of squares. */
    double *sums, *host_sums;
    struct device_event *loss_ready, *sumsq_ready;

    struct kern_cuda_stage stage[KERN_CUDA_STAGES];
    int next_stage;
    int64_t *first; /* [vocab + 1] first position of each token when sorted */
    int64_t vocab;

    struct kern_cuda_heads {
        struct kern_heads shape;
        struct kern_cudnn *cudnn; /* NULL: cuDNN has no engine for the shape */
    } heads[KERN_CUDA_HEADS];
    int heads_known;
};

static inline struct kern_cuda *kern_cuda_of(const struct kern *k)
{
    return k->own;
}

/* Makes the work buffer at least `bytes` large, in device memory. */
int kern_cuda_reserve(struct kern *k, int64_t bytes, struct err *err);

/* Entries of the table: kern_cuda_tokens.c, kern_cuda_heads.c, kern_cuda_product.c. */
void kern_cuda_tokens(struct kern *k, struct kern_tokens *out, void *space,
                      const int32_t *tokens, const int32_t *targets, int64_t n, int64_t vocab);
void kern_cuda_tokens_release(struct kern *k);

const char *kern_cuda_heads_by(const struct kern *k, const struct kern_heads *s);
int kern_cuda_heads_can(const struct kern *k, const struct kern_heads *s, struct err *err);
int64_t kern_cuda_heads_bytes(const struct kern *k, const struct kern_heads *s, int backward);
void kern_cuda_heads(struct kern *k, const struct kern_heads *s, void *out, float *lse,
                     const void *qkv, void *scratch);
void kern_cuda_heads_backward(struct kern *k, const struct kern_heads *s, void *dqkv,
                              const void *dout, const void *out, const float *lse,
                              const void *qkv, void *scratch);
void kern_cuda_heads_release(struct kern *k);

int kern_cuda_product_new(struct kern *k, struct kern_product **out,
                          const struct kern_product_shape *shape, struct err *err);
void kern_cuda_product(struct kern *k, const struct kern_product *p, const void *a,
                       const void *b, const void *from, const void *bias, void *c);
void kern_cuda_product_free(struct kern *k, struct kern_product *p);

#endif
