/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_H
#define KERN_KERN_CUDA_H

#include <stdint.h>

#include "base/dtype.h"

/*
 * The kernels of kern.h's table on a GPU, each a launch on `stream` (a cudaStream_t) that
 * returns at once; meanings, shapes and what is added to are kern.h's.  act and weight are f32
 * or bf16 each.  All pointers are memory of the device, aligned to their elements; fast where
 * they are aligned to 16 bytes and rows are multiples of 16 bytes apart.  Sizes of 0 launch
 * nothing.  What goes wrong is for cudaGetLastError.  C++ includes this within extern "C".
 *
 * work: room for the partial sums of a launch, free for the next on the same stream, of so many
 * bytes as the function says whose name ends in _bytes, aligned to 16; NULL where that is 0.
 *
 * lib/kern/kern_cuda_{embed,norm,bias,rope,gate,loss,vector,optim}.cu
 */

/* token (n), all of them below vocab: another one stops the device. */
void kern_cuda_embed(void *stream, enum dtype act, enum dtype weight, void *y,
                     const void *table, const int32_t *token, int64_t n, int64_t vocab,
                     int64_t c);
/* row (n), run (runs + 1) as in struct kern_tokens, of which `token` is id. */
void kern_cuda_embed_backward(void *stream, enum dtype act, float *dtable, const void *dy,
                              const int32_t *token, const int32_t *row, const int32_t *run,
                              int64_t runs, int64_t c);
void kern_cuda_positions(void *stream, enum dtype act, enum dtype weight, void *y,
                         const void *table, int64_t batch, int64_t seq, int64_t c);
void kern_cuda_positions_backward(void *stream, enum dtype act, float *dtable, const void *dy,
                                  int64_t batch, int64_t seq, int64_t c);

/* mean NULL: RMS, and b is not read. */
void kern_cuda_norm(void *stream, enum dtype act, enum dtype weight, void *y, float *mean,
                    float *rstd, const void *x, const void *w, const void *b, int64_t n,
                    int64_t c, float eps, int again);
int64_t kern_cuda_norm_backward_bytes(enum dtype act, int64_t n, int64_t c);
void kern_cuda_norm_backward(void *stream, enum dtype act, enum dtype weight, void *dx,
                             float *dw, float *db, const void *dy, const float *mean,
                             const float *rstd, const void *x, const void *w, int64_t n,
                             int64_t c, void *work);

void kern_cuda_bias(void *stream, enum dtype act, enum dtype weight, void *y, int64_t ld,
                    const void *b, int64_t n, int64_t c);
int64_t kern_cuda_bias_backward_bytes(int64_t n, int64_t c);
void kern_cuda_bias_backward(void *stream, enum dtype act, float *db, const void *dy,
                             int64_t ld, int64_t n, int64_t c, void *work);

void kern_cuda_rope(void *stream, enum dtype act, void *x, int64_t ld, const float *table,
                    int64_t batch, int64_t seq, int64_t heads, int64_t head_dim, int back);

void kern_cuda_swiglu(void *stream, enum dtype act, void *y, const void *gate, const void *up,
                      int64_t n, int64_t c, int64_t ld);
void kern_cuda_swiglu_backward(void *stream, enum dtype act, void *dy, void *gate, void *up,
                               int64_t n, int64_t c, int64_t ld);
void kern_cuda_gelu(void *stream, enum dtype act, void *y, const void *x, int64_t n,
                    int by_tanh);
void kern_cuda_gelu_backward(void *stream, enum dtype act, void *dy, void *x, int64_t n,
                             int by_tanh);

/* *loss, of the device, becomes the sum over the rows (0 where there are none). */
int64_t kern_cuda_cross_entropy_bytes(int64_t n);
void kern_cuda_cross_entropy(void *stream, enum dtype act, void *logits, int64_t ld,
                             const int32_t *target, int64_t n, int64_t v, float scale,
                             double *loss, void *work);

void kern_cuda_add(void *stream, enum dtype act, void *y, const void *x, int64_t n);
void kern_cuda_scale(void *stream, enum dtype act, void *x, float by, int64_t n);

/* Types: f32, bf16, f16, f64. */
void kern_cuda_convert(void *stream, void *to, enum dtype to_type, const void *from,
                       enum dtype from_type, int64_t n);
/* to: f32, bf16, f16; seen: the same or narrower. */
void kern_cuda_round(void *stream, void *to, enum dtype type, const float *x, enum dtype seen,
                     int64_t n);
/* acc and x: f32, bf16, f16. */
void kern_cuda_accumulate(void *stream, void *acc, enum dtype acc_type, const void *x,
                          enum dtype type, int64_t n);
void kern_cuda_abs(void *stream, float *x, int64_t n);
/* *sum, of the device, += the squares; x: f32, bf16, f16. */
int64_t kern_cuda_sumsq_bytes(int64_t n);
void kern_cuda_sumsq(void *stream, double *sum, const void *x, enum dtype type, int64_t n,
                     void *work);
/* g: f32, bf16, f16, multiplied by scale first; the rest as kern_adamw. */
void kern_cuda_adamw(void *stream, float *w, float *m, float *v, const void *g, enum dtype type,
                     int64_t n, double scale, double lr, double beta1, double beta2, double eps,
                     double decay, int64_t step);

#endif
