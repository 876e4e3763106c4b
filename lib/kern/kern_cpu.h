/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CPU_H
#define KERN_KERN_CPU_H

#include <stdint.h>

#include "base/dtype.h"

/*
 * Declares the kernels of the decoder and of its optimizer, f32 on one core.  Matrices are
 * row-major, "ld" is the distance between rows in elements.  Backward kernels ADD to arguments
 * named dw, db, dx or dtable and WRITE all other outputs; a norm's dw and db may be NULL if not
 * needed.  Nothing here allocates, except oneDNN's sgemm for packing.  Sums have a fixed order:
 * equal inputs give equal bits.  Oracle: tests/unit/kern_ref_fixture.h in double precision;
 * backward by its central differences.
 */

/* Limits the calling thread's matrix products to one thread (libgomp keeps the number per
   thread). */
void kern_thread_init(void);

/* c (m,n) = alpha op(a) op(b) + beta c;  op is 'N' or 'T';  op(a) is (m,k), op(b) is (k,n). */
void kern_gemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
               int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/* y (n,c) = the tokens' rows of table (vocab,c).  A token outside 0..vocab-1 is a bug. */
void kern_embed(float *y, const float *table, const int32_t *tokens, int64_t n, int64_t vocab,
                int64_t c);
void kern_embed_backward(float *dtable, const float *dy, const int32_t *tokens, int64_t n,
                         int64_t c);

/*
 * Root mean square normalisation (Zhang, Sennrich 2019), row by row:
 * y = x * rstd * (plus + w), rstd = 1 / sqrt(mean(x^2) + eps).  x, y, dx, dy (n,c); w, dw (c);
 * rstd (n).
 */
void kern_rmsnorm(float *y, float *rstd, const float *x, const float *w, float plus, int64_t n,
                  int64_t c, float eps);
void kern_rmsnorm_apply(float *y, const float *rstd, const float *x, const float *w, float plus,
                        int64_t n, int64_t c); /* computes y again from a known rstd */
void kern_rmsnorm_backward(float *dx, float *dw, const float *dy, const float *rstd,
                           const float *x, const float *w, float plus, int64_t n, int64_t c);

/*
 * Layer normalisation (Ba, Kiros, Hinton 2016), row by row: y = (x - mean) * rstd * w + b,
 * rstd = 1 / sqrt(mean((x - mean)^2) + eps).  b, db (c); mean (n); the rest as above.
 */
void kern_layernorm(float *y, float *mean, float *rstd, const float *x, const float *w,
                    const float *b, int64_t n, int64_t c, float eps);
void kern_layernorm_apply(float *y, const float *mean, const float *rstd, const float *x,
                          const float *w, const float *b, int64_t n, int64_t c);
void kern_layernorm_backward(float *dx, float *dw, float *db, const float *dy,
                             const float *mean, const float *rstd, const float *x,
                             const float *w, int64_t n, int64_t c);

/* y += b in each of n rows ld apart, b (c); db += the sum of the rows of dy. */
void kern_bias(float *y, int64_t ld, const float *b, int64_t n, int64_t c);
void kern_bias_backward(float *db, const float *dy, int64_t ld, int64_t n, int64_t c);

/* Learned positions: y (batch, seq, c) += table (seq, c) in every sequence. */
void kern_positions(float *y, const float *table, int64_t batch, int64_t seq, int64_t c);
void kern_positions_backward(float *dtable, const float *dy, int64_t batch, int64_t seq,
                             int64_t c);

/*
 * Rotary positions (Su et al. 2021) in Hugging Face's layout: elements i and i + rotary / 2 of
 * a head are rotated by the angle t * inv_freq[i] (by default theta^(-2i / rotary)) at position
 * t. table (seq, rotary): the cosines of i < rotary / 2, then the sines, all times scale.  x:
 * batch * seq rows ld apart, of which the first `rotary` elements of each head are rotated, in
 * place; back != 0 rotates in the opposite direction, for the backward.  rotary is even.
 */
void kern_rope_table(float *table, int64_t seq, int64_t rotary, const double *inv_freq,
                     double scale);
void kern_rope(float *x, int64_t ld, const float *table, int64_t batch, int64_t seq,
               int64_t heads, int64_t head_dim, int64_t rotary, int back);

/*
 * Causal grouped-query attention: head h reads the keys and values of head h / (heads /
 * kv_heads).  A row of qkv is the heads' queries, then the keys, then the values: qkv, dqkv
 * (batch, seq, (heads + 2 kv_heads) * head_dim); out, dout (batch, seq, heads * head_dim); lse
 * (batch, heads, seq): log of the sum of exponentials, from which the backward recomputes the
 * scores.  scratch: kern_attention_scratch elements.
 *
 * from: forward only, for a growing text: an earlier call computed the rows before it, and only
 * their keys and values are read; out and lse have the last seq - from rows only, packed.  0 in
 * the backward.
 */
struct kern_heads {
    int64_t batch, seq, heads, kv_heads, head_dim, from;
};
int64_t kern_attention_scratch(const struct kern_heads *s);
void kern_attention(const struct kern_heads *s, float *out, float *lse, const float *qkv,
                    float *scratch);
void kern_attention_backward(const struct kern_heads *s, float *dqkv, const float *dout,
                             const float *out, const float *lse, const float *qkv,
                             float *scratch);

/* y = silu(gate) * up, silu(x) = x / (1 + exp(-x)). */
void kern_swiglu(float *y, const float *gate, const float *up, int64_t n);
/* In place: gate and up become their gradients, dy becomes y, which the next product needs. */
void kern_swiglu_backward(float *dy, float *gate, float *up, int64_t n);

/*
 * y = x Phi(x), Phi the normal distribution (Hendrycks, Gimpel 2016); _tanh: y = x (1 + tanh u)
 * / 2, u = sqrt(2 / pi) (x + 0.044715 x^3), with which GPT-2 was trained.  Backward in place: x
 * becomes its gradient, dy becomes y.
 */
void kern_gelu(float *y, const float *x, int64_t n);
void kern_gelu_backward(float *dy, float *x, int64_t n);
void kern_gelu_tanh(float *y, const float *x, int64_t n);
void kern_gelu_tanh_backward(float *dy, float *x, int64_t n);
/* y = gelu_tanh(gate) * up; backward as kern_swiglu_backward. */
void kern_geglu(float *y, const float *gate, const float *up, int64_t n);
void kern_geglu_backward(float *dy, float *gate, float *up, int64_t n);

/*
 * Cross-entropy of softmax(logits (n,v)) in nats, summed over the rows whose target is not
 * negative.  lse (n).  The backward turns logits into scale * d loss / d logits, in place,
 * 0 in the other rows.
 */
double kern_cross_entropy(float *lse, const float *logits, const int32_t *targets, int64_t n,
                          int64_t v);
void kern_cross_entropy_backward(float *logits, const float *lse, const int32_t *targets,
                                 int64_t n, int64_t v, float scale);

void kern_add(float *y, const float *x, int64_t n); /* y += x */
void kern_scale(float *x, float a, int64_t n);      /* x *= a */
void kern_abs(float *x, int64_t n);                 /* x = |x| */
/*
 * y = x rounded to the nearest multiple of 2^-bits: such doubles have exact sums, in any order,
 * while the sums stay below 2^(53 - bits).  Returns whether an element is NaN or |x| >= limit
 * (at most 2^(51 - bits)); its y is 0.
 */
int kern_on_grid(double *y, const float *x, int64_t n, int bits, double limit);
double kern_sumsq(const float *x, int64_t n); /* sum of x^2, in double */
/* acc += x, x of type f32, bf16 or f16. */
void kern_accumulate(float *acc, const void *x, enum dtype type, int64_t n);

/*
 * One step of AdamW as torch.optim.AdamW defines it (Loshchilov, Hutter 2019):
 *
 *     w -= lr * decay * w;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
 *     w -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
 *
 * step is 1, 2, ...  Element by element, so shards can be updated separately.
 */
/* As kern_ops.outer. */
void kern_outer(float *w, float *b, const double *sum, int64_t n, double share, double lr,
                double momentum);
void kern_adamw(float *w, float *m, float *v, const float *g, int64_t n, double lr,
                double beta1, double beta2, double eps, double decay, int64_t step);

#endif
