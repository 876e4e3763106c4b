/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_REF_H
#define KERN_KERN_REF_H

#include <stdint.h>

/*
 * The forward kernels of kern_cpu.h in double precision, straight from their formulas, element
 * by element: the oracle of every faster twin.  Gradients are checked by central differences of
 * these.  Shapes and meanings as there; slow, and shares no code with what it judges.
 */

/* c (m,n) = op(a) op(b), op 'N' or 'T', rows as wide as the matrices. */
void kern_ref_gemm(char ta, char tb, int64_t m, int64_t n, int64_t k, const double *a,
                   const double *b, double *c);
void kern_ref_rmsnorm(double *y, const double *x, const double *w, int64_t n, int64_t c,
                      double eps);
void kern_ref_layernorm(double *y, const double *x, const double *w, const double *b, int64_t n,
                        int64_t c, double eps);
void kern_ref_bias(double *y, const double *b, int64_t n, int64_t c);
void kern_ref_positions(double *y, const double *table, int64_t batch, int64_t seq, int64_t c);
/* inv_freq (head_dim / 2) */
void kern_ref_rope(double *x, int64_t ld, int64_t batch, int64_t seq, int64_t heads,
                   int64_t head_dim, const double *inv_freq, double scale);
void kern_ref_attention(double *out, const double *qkv, int64_t batch, int64_t seq,
                        int64_t heads, int64_t kv_heads, int64_t head_dim);
void kern_ref_swiglu(double *y, const double *gate, const double *up, int64_t n);
void kern_ref_gelu(double *y, const double *x, int64_t n);
void kern_ref_gelu_tanh(double *y, const double *x, int64_t n);
double kern_ref_cross_entropy(const double *logits, const int32_t *targets, int64_t n,
                              int64_t v);
void kern_ref_adamw(double *w, double *m, double *v, const double *g, int64_t n, double lr,
                    double beta1, double beta2, double eps, double decay, int64_t step);

#endif
