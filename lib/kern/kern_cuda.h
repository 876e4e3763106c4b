/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_H
#define KERN_KERN_CUDA_H

#include "kern/kern.h"

/*
 * Declares entries of a GPU's table (kern_ops.h), each a launch in the order of the queue that
 * returns at once; errors are the device's.  act and weight are f32 or bf16 each; a type
 * argument f32, bf16 or f16, for kern_cuda_convert also f64.  All pointers are device memory,
 * aligned to their elements; fast if they are aligned to 16 bytes and rows are multiples of 16
 * bytes apart.  Sizes of 0 launch nothing.  C++ includes this as extern "C".
 *
 * lib/kern/kern_cuda_{embed,norm,bias,rope,gate,loss,vector,optim,moments}.cu
 */

/* A token >= vocab stops the device. */
void kern_cuda_embed(struct kern *k, void *y, const void *table, const struct kern_tokens *t,
                     int64_t vocab, int64_t c);
void kern_cuda_embed_backward(struct kern *k, float *dtable, const void *dy,
                              const struct kern_tokens *t, int64_t c);
void kern_cuda_positions(struct kern *k, void *y, const void *table, int64_t batch, int64_t seq,
                         int64_t c);
void kern_cuda_positions_backward(struct kern *k, float *dtable, const void *dy, int64_t batch,
                                  int64_t seq, int64_t c);

void kern_cuda_norm(struct kern *k, void *y, float *mean, float *rstd, const void *x,
                    const void *w, const void *b, float plus, int64_t n, int64_t c, float eps,
                    int again);
void kern_cuda_norm_backward(struct kern *k, void *dx, float *dw, float *db, const void *dy,
                             const float *mean, const float *rstd, const void *x, const void *w,
                             float plus, int64_t n, int64_t c);

void kern_cuda_bias(struct kern *k, void *y, int64_t ld, const void *b, int64_t n, int64_t c);
void kern_cuda_bias_backward(struct kern *k, float *db, const void *dy, int64_t ld, int64_t n,
                             int64_t c);

void kern_cuda_rope(struct kern *k, void *x, int64_t ld, const float *table, int64_t batch,
                    int64_t seq, int64_t heads, int64_t head_dim, int64_t rotary, int back);

void kern_cuda_gated(struct kern *k, void *y, const void *gate, const void *up, int64_t n,
                     int64_t c, int64_t ld, int gelu);
void kern_cuda_gated_backward(struct kern *k, void *dy, void *gate, void *up, int64_t n,
                              int64_t c, int64_t ld, int gelu);
void kern_cuda_gelu(struct kern *k, void *y, const void *x, int64_t n, int by_tanh);
void kern_cuda_gelu_backward(struct kern *k, void *dy, void *x, int64_t n, int by_tanh);

/* *loss, in device memory, becomes the sum over the rows (0 if there are none). */
void kern_cuda_cross_entropy(struct kern *k, void *logits, int64_t ld,
                             const struct kern_tokens *t, int64_t v, float scale, double *loss);

void kern_cuda_accumulate(struct kern *k, void *acc, enum dtype acc_type, const void *x,
                          enum dtype type, int64_t n);
void kern_cuda_add(struct kern *k, void *y, const void *x, int64_t n);
void kern_cuda_scale(struct kern *k, void *x, float by, int64_t n);
void kern_cuda_abs(struct kern *k, float *x, int64_t n);
void kern_cuda_convert(struct kern *k, void *to, enum dtype to_type, const void *from,
                       enum dtype from_type, int64_t n);
void kern_cuda_round(struct kern *k, void *to, enum dtype type, const float *x, enum dtype seen,
                     int64_t n);

void kern_cuda_adamw(struct kern *k, float *w, float *m, float *v, const void *g,
                     enum dtype type, int64_t n, const struct kern_optim *o);
void kern_cuda_outer(struct kern *k, float *w, float *b, const void *sum, enum dtype type,
                     int64_t n, const struct kern_outer *o);
void kern_cuda_moment_get(struct kern *k, float *x, const struct kern_moment *m, int64_t at,
                          int64_t n);
void kern_cuda_moment_put(struct kern *k, const struct kern_moment *m, int64_t at,
                          const float *x, int64_t n, const struct kern_dither *dither);
/* Adds the sum of squares to *sum, in device memory. */
void kern_cuda_sumsq(struct kern *k, double *sum, const void *x, enum dtype type, int64_t n);

/*
 * For these entries.  kern_cuda_stream: the queue's stream.  kern_cuda_work: a buffer for the
 * partial sums of a launch, which the next launch on the queue may reuse; NULL: the device has
 * failed.  kern_cuda_check: call after a launch; fails the device if the launch failed.
 */
void *kern_cuda_stream(const struct kern *k);
void *kern_cuda_work(struct kern *k, int64_t bytes);
void kern_cuda_check(struct kern *k, const char *what);

#endif
