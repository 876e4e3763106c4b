/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_OPS_H
#define KERN_KERN_OPS_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "kern/kern_cpu.h"
#include "kern/kern_moments.h"
#include "kern/kern_product.h"

/* The table of struct kern; kern.h defines its terms. */
struct kern;

/* The tokens of a micro-batch in the kernels' form, in a buffer of tokens_bytes. */
struct kern_tokens {
    const int32_t *id, *target; /* (n) */
    /* GPU: rows ordered by token, equal tokens in row order; run[i] is where the i-th different
       token begins in `row`, run[runs] is n. */
    const int32_t *row, *run;
    int64_t n, runs;
};

struct kern_outer {
    double share, lr, momentum;
};

struct kern_optim { /* AdamW, as kern_adamw; g is multiplied by scale first */
    double scale, lr, beta1, beta2, eps, decay;
    int64_t step;
};

struct kern_ops {
    void (*close)(struct kern *k);
    /* Makes the work buffer of the kernels at least `bytes` large, now rather than when a
       kernel needs it (kern_kind_work_bytes). */
    int (*reserve)(struct kern *k, int64_t bytes, struct err *err);

    /* Buffer size of a batch's tokens, and a copy of them there; host: tokens, targets, NULL
       without a loss.  On a CPU they are not copied: borrowed. */
    int64_t (*tokens_bytes)(const struct kern *k, int64_t n);
    void (*tokens)(struct kern *k, struct kern_tokens *out, void *space, const int32_t *tokens,
                   const int32_t *targets, int64_t n, int64_t vocab);

    /* y a (n,c), table w (vocab,c). */
    void (*embed)(struct kern *k, void *y, const void *table, const struct kern_tokens *t,
                  int64_t vocab, int64_t c);
    void (*embed_backward)(struct kern *k, float *dtable, const void *dy,
                           const struct kern_tokens *t, int64_t c);
    void (*positions)(struct kern *k, void *y, const void *table, int64_t batch, int64_t seq,
                      int64_t c);
    void (*positions_backward)(struct kern *k, float *dtable, const void *dy, int64_t batch,
                               int64_t seq, int64_t c);

    /*
     * Norms of rows: mean NULL is RMS, else layer normalisation with b.  x, y, dx, dy a (n,c);
     * w, b w (c); dw, db f32 (c) or NULL.  again: mean and rstd are known already.  plus: added
     * to w; 0 for layer normalisation.
     */
    void (*norm)(struct kern *k, void *y, float *mean, float *rstd, const void *x,
                 const void *w, const void *b, float plus, int64_t n, int64_t c, float eps,
                 int again);
    void (*norm_backward)(struct kern *k, void *dx, float *dw, float *db, const void *dy,
                          const float *mean, const float *rstd, const void *x, const void *w,
                          float plus, int64_t n, int64_t c);

    /* y a (n rows, ld apart, c columns) += b w (c); db += the sum of dy's rows. */
    void (*bias)(struct kern *k, void *y, int64_t ld, const void *b, int64_t n, int64_t c);
    void (*bias_backward)(struct kern *k, float *db, const void *dy, int64_t ld, int64_t n,
                          int64_t c);
    /* x a, in place: the first `rotary` elements of each head; table f32 (seq, rotary),
       computed on the host by kern_rope_table. */
    void (*rope)(struct kern *k, void *x, int64_t ld, const float *table, int64_t batch,
                 int64_t seq, int64_t heads, int64_t head_dim, int64_t rotary, int back);

    /* ERR_ABSENT if no kernel supports heads of that shape: do not call the functions below. */
    int (*attention_can)(const struct kern *k, const struct kern_heads *s, struct err *err);
    /* Names the kernels that compute it; known after attention_bytes. */
    const char *(*attention_by)(const struct kern *k, const struct kern_heads *s);
    /* qkv, dqkv, out, dout a; lse f32 (batch, heads, seq); scratch of attention_bytes. */
    int64_t (*attention_bytes)(const struct kern *k, const struct kern_heads *s, int backward);
    void (*attention)(struct kern *k, const struct kern_heads *s, void *out, float *lse,
                      const void *qkv, void *scratch);
    void (*attention_backward)(struct kern *k, const struct kern_heads *s, void *dqkv,
                               const void *dout, const void *out, const float *lse,
                               const void *qkv, void *scratch);

    /*
     * y a (n,c), contiguous; gate, up a, n rows of c columns, ld apart.  Backward in place:
     * gate and up become their gradients, dy becomes y.  gelu: gate by gelu_tanh; else silu.
     */
    void (*gated)(struct kern *k, void *y, const void *gate, const void *up, int64_t n,
                  int64_t c, int64_t ld, int gelu);
    void (*gated_backward)(struct kern *k, void *dy, void *gate, void *up, int64_t n, int64_t c,
                           int64_t ld, int gelu);
    void (*gelu)(struct kern *k, void *y, const void *x, int64_t n, int tanh);
    void (*gelu_backward)(struct kern *k, void *dy, void *x, int64_t n, int tanh);

    /*
     * Loss of logits a (n rows of v, ld apart), summed over rows whose target is not negative;
     * fetched by `loss`.  scale not 0: logits become scale * d loss / d logits at once, to
     * minimise passes over them (columns v .. ld are not touched).
     */
    void (*cross_entropy)(struct kern *k, void *logits, int64_t ld, const struct kern_tokens *t,
                          int64_t v, float scale);
    /* Waits for the last cross_entropy, not for later work. */
    int (*loss)(struct kern *k, double *loss, struct err *err);

    void (*add)(struct kern *k, void *y, const void *x, int64_t n); /* a: y += x */
    void (*scale_act)(struct kern *k, void *x, float by, int64_t n);

    /*
     * Products: kern_product.h defines the shape.  c = a b, or from + a b (shape.add; from may
     * be c, ld as c's), + bias w (n) in each row if not NULL.
     */
    int (*product_new)(struct kern *k, struct kern_product **out,
                       const struct kern_product_shape *shape, struct err *err);
    void (*product)(struct kern *k, const struct kern_product *p, const void *a, const void *b,
                    const void *from, const void *bias, void *c);
    void (*product_free)(struct kern *k, struct kern_product *p); /* NULL is fine */

    /* Entries for the engine: vectors of n elements. */
    void (*convert)(struct kern *k, void *to, enum dtype to_type, const void *from,
                    enum dtype from_type, int64_t n);
    /* Converts x to `type`, rounded to the narrower `seen` first. */
    void (*round)(struct kern *k, void *to, enum dtype type, const float *x, enum dtype seen,
                  int64_t n);
    /* acc += x; each f32, bf16 or f16; summed in f32 and rounded once. */
    void (*accumulate)(struct kern *k, void *acc, enum dtype acc_type, const void *x,
                       enum dtype type, int64_t n);
    void (*abs)(struct kern *k, float *x, int64_t n);
    /* Adds the sum of squares, in double, to a sum that `sumsq_take` waits for and clears. */
    void (*sumsq)(struct kern *k, const void *x, enum dtype type, int64_t n);
    int (*sumsq_take)(struct kern *k, double *sum, struct err *err);
    void (*adamw)(struct kern *k, float *w, float *m, float *v, const void *g, enum dtype type,
                  int64_t n, const struct kern_optim *o);
    /* An outer step, as torch.optim.SGD with Nesterov's momentum (momentum b, gradient d):
       d = w - share sum;  b = momentum b + d;  w -= lr (d + momentum b).  sum: f32 or f64. */
    void (*outer)(struct kern *k, float *w, float *b, const void *sum, enum dtype type,
                  int64_t n, const struct kern_outer *o);
    /* kern_moment_get and _put, in the queue's order; `at` begins a block, and there is a
       dither. */
    void (*moment_get)(struct kern *k, float *x, const struct kern_moment *m, int64_t at,
                       int64_t n);
    void (*moment_put)(struct kern *k, const struct kern_moment *m, int64_t at, const float *x,
                       int64_t n, const struct kern_dither *dither);
};

#endif
