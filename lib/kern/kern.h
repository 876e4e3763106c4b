/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_H
#define KERN_KERN_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "dev/device.h"
#include "kern/kern_cpu.h"
#include "kern/kern_product.h"

/*
 * The kernels of a device, by which network and engine compute: the same meaning everywhere
 * (kern_cpu.h says what each does), in the order of one queue.
 *
 *     device   act          weight       table
 *     CPU      f32          f32          kern_cpu_ops.c, over kern_cpu*.c
 *     GPU      f32 or bf16  f32 or bf16  kern_cuda.c, over kern_cuda*.cu and cuBLASLt
 *
 * act is the type of activations and of their gradients, what the comments of the table call
 * a; w is that of parameters as the network reads them.  Gradients of parameters, statistics
 * of rows (mean, rstd, lse), the rope table, states of the optimizer are f32 everywhere, and so
 * is all arithmetic inside a kernel.  Backward kernels ADD to what is named dw, db, dx, dtable
 * and WRITE everything else.  Pointers are memory of the device unless marked host.  Matrices
 * are row-major, ld in elements; a pointer into a matrix may be at any column.  Nothing here
 * allocates or waits but what says so.  Equal inputs give equal bits on one kind of device.
 */
struct kern;

/* The tokens of a micro-batch as kernels want them, in room of kern_tokens_bytes. */
struct kern_tokens {
    const int32_t *id, *target; /* (n) */
    /* GPU: rows in the order of their tokens, equal ones in row order; run[i] is where the
       i-th different token begins in `row`, run[runs] is n. */
    const int32_t *row, *run;
    int64_t n, runs;
};

struct kern_optim { /* AdamW, as kern_adamw has it; g is multiplied by scale first */
    double scale, lr, beta1, beta2, eps, decay;
    int64_t step;
};

struct kern_ops {
    void (*close)(struct kern *k);

    /* What of a batch's tokens needs room, and a copy of it there; host: tokens, targets,
       NULL without a loss.  On a CPU they stay where they are: borrowed. */
    int64_t (*tokens_bytes)(const struct kern *k, int64_t n);
    void (*tokens)(struct kern *k, struct kern_tokens *out, void *room, const int32_t *tokens,
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
     * w, b w (c); dw, db f32 (c) or NULL.  again: mean and rstd are known already.
     */
    void (*norm)(struct kern *k, void *y, float *mean, float *rstd, const void *x,
                 const void *w, const void *b, int64_t n, int64_t c, float eps, int again);
    void (*norm_backward)(struct kern *k, void *dx, float *dw, float *db, const void *dy,
                          const float *mean, const float *rstd, const void *x, const void *w,
                          int64_t n, int64_t c);

    /* y a (n rows, ld apart, c columns) += b w (c); db += the sum of dy's rows. */
    void (*bias)(struct kern *k, void *y, int64_t ld, const void *b, int64_t n, int64_t c);
    void (*bias_backward)(struct kern *k, float *db, const void *dy, int64_t ld, int64_t n,
                          int64_t c);
    /* x a, in place; table f32 (seq, head_dim), made on the host by kern_rope_table. */
    void (*rope)(struct kern *k, void *x, int64_t ld, const float *table, int64_t batch,
                 int64_t seq, int64_t heads, int64_t head_dim, int back);

    /* qkv, dqkv, out, dout a; lse f32 (batch, heads, seq); scratch of so many bytes. */
    int64_t (*attention_bytes)(const struct kern *k, const struct kern_heads *s, int backward);
    void (*attention)(struct kern *k, const struct kern_heads *s, void *out, float *lse,
                      const void *qkv, void *scratch);
    void (*attention_backward)(struct kern *k, const struct kern_heads *s, void *dqkv,
                               const void *dout, const void *out, const float *lse,
                               const void *qkv, void *scratch);

    /*
     * y a (n,c), contiguous; gate, up a, n rows of c columns, ld apart.  Backward in place:
     * gate and up become their gradients, dy becomes y.
     */
    void (*swiglu)(struct kern *k, void *y, const void *gate, const void *up, int64_t n,
                   int64_t c, int64_t ld);
    void (*swiglu_backward)(struct kern *k, void *dy, void *gate, void *up, int64_t n,
                            int64_t c, int64_t ld);
    void (*gelu)(struct kern *k, void *y, const void *x, int64_t n, int tanh);
    void (*gelu_backward)(struct kern *k, void *dy, void *x, int64_t n, int tanh);

    /*
     * Loss of logits a (n rows of v, ld apart), summed over rows whose target is not negative;
     * fetched by `loss`.  scale not 0: logits become scale * d loss / d logits at once, so that
     * they are passed over as few times as can be (columns v .. ld are not touched).
     */
    void (*cross_entropy)(struct kern *k, void *logits, int64_t ld, const struct kern_tokens *t,
                          int64_t v, float scale);
    /* Waits for the last cross_entropy, not for what was asked for after it. */
    int (*loss)(struct kern *k, double *loss, struct err *err);

    void (*add)(struct kern *k, void *y, const void *x, int64_t n); /* a: y += x */
    void (*scale_act)(struct kern *k, void *x, float by, int64_t n);

    /*
     * Products: kern_product.h says the shape.  c = a b, or from + a b (shape.add; from may be
     * c, ld as c's), + bias w (n) in each row where not NULL.
     */
    int (*product_new)(struct kern *k, struct kern_product **out,
                       const struct kern_product_shape *shape, struct err *err);
    void (*product)(struct kern *k, const struct kern_product *p, const void *a, const void *b,
                    const void *from, const void *bias, void *c);
    void (*product_free)(struct kern *k, struct kern_product *p); /* NULL is fine */

    /* What follows is the engine's: vectors of n elements. */
    void (*convert)(struct kern *k, void *to, enum dtype to_type, const void *from,
                    enum dtype from_type, int64_t n);
    /* x to `type`, rounded to the narrower `seen` on the way. */
    void (*round)(struct kern *k, void *to, enum dtype type, const float *x, enum dtype seen,
                  int64_t n);
    /* acc += x; each f32, bf16 or f16; summed in f32 and rounded once. */
    void (*accumulate)(struct kern *k, void *acc, enum dtype acc_type, const void *x,
                       enum dtype type, int64_t n);
    void (*abs)(struct kern *k, float *x, int64_t n);
    /* Adds the sum of squares, in double, to one that `sumsq_take` waits for and clears. */
    void (*sumsq)(struct kern *k, const void *x, enum dtype type, int64_t n);
    int (*sumsq_take)(struct kern *k, double *sum, struct err *err);
    void (*adamw)(struct kern *k, float *w, float *m, float *v, const void *g, enum dtype type,
                  int64_t n, const struct kern_optim *o);
};

/*
 * Whose kernels, in bf16, where cuDNN has some for the shape.  USUAL: its forward and a
 * backward of our own, which is faster than the one of cuDNN's that gives equal bits.  CUDNN:
 * both its, ATOMIC: with a backward whose bits differ from run to run.
 */
enum kern_attention {
    KERN_ATTENTION_USUAL,
    KERN_ATTENTION_OWN,
    KERN_ATTENTION_CUDNN,
    KERN_ATTENTION_CUDNN_ATOMIC
};

struct kern {
    const struct kern_ops *op;
    struct device *device;      /* borrowed */
    struct device_queue *queue; /* borrowed: what a caller with a thread of its own opened */
    enum dtype act, weight;
    int row_elems; /* fast where rows lie a multiple of so many elements apart: 1, of a GPU 8 */
    int64_t bytes; /* of device memory that it holds for itself */
    /* Set before product_new: on a GPU the fastest of several algorithms is taken, by a trial
       at a product's first run, and bits may differ from run to run. */
    int tune;
    enum kern_attention attention; /* set before attention_bytes; on a CPU it is nothing */
    void *own;                     /* the table's */
};

/*
 * compute: f32 or bf16, the type of products.  On a CPU act and weight are f32 whatever it is;
 * on a GPU act is it, and weight is as said (f32, bf16).  ERR_ABSENT: the device lacks it.
 */
int kern_open(struct kern *out, struct device *device, struct device_queue *queue,
              enum dtype compute, enum dtype weight, struct err *err);
void kern_close(struct kern *k);

/* The tables: kern_cpu_ops.c; kern_cuda.c, or kern_cuda_none.c.  They fill op, own, bytes; the
   rest is there. */
int kern_open_cpu(struct kern *out, struct err *err);
int kern_open_cuda(struct kern *out, struct err *err);

#endif
