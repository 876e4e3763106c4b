/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements the CPU's table: everything is f32 and done before the call returns.  Adds
 * operations that the kernels themselves (kern_cpu*.c) lack: other types of gradients, matrices
 * whose rows lie apart, sums that are fetched later.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kern/kern.h"
#include "kern/kern_kind.h"

/* Entries have arguments that only a GPU needs. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum {
    PIECE = 1 << 16, /* elements of a piece of squares, and of an update */
    SHORT = 256      /* elements of a piece on the stack, for use by any thread */
};

struct own {
    double loss, sumsq;
    float *piece;
};

static struct own *own_of(const struct kern *k)
{
    return k->own;
}

static void close_cpu(struct kern *k)
{
    mem_free(own_of(k)->piece);
    mem_free(k->own);
}

static int reserve(struct kern *k, int64_t bytes, struct err *err)
{
    return 0;
}

/* ---- tokens: the caller's own, not copied ---- */

static void tokens(struct kern *k, struct kern_tokens *out, void *space, const int32_t *tokens,
                   const int32_t *targets, int64_t n, int64_t vocab)
{
    *out = (struct kern_tokens){.id = tokens, .target = targets, .n = n};
}

static void cpu_ops_embed(struct kern *k, void *y, const void *table,
                          const struct kern_tokens *t, int64_t vocab, int64_t c)
{
    kern_embed(y, table, t->id, t->n, vocab, c);
}

static void cpu_ops_embed_backward(struct kern *k, float *dtable, const void *dy,
                                   const struct kern_tokens *t, int64_t c)
{
    kern_embed_backward(dtable, dy, t->id, t->n, c);
}

static void positions(struct kern *k, void *y, const void *table, int64_t batch, int64_t seq,
                      int64_t c)
{
    kern_positions(y, table, batch, seq, c);
}

static void positions_backward(struct kern *k, float *dtable, const void *dy, int64_t batch,
                               int64_t seq, int64_t c)
{
    kern_positions_backward(dtable, dy, batch, seq, c);
}

/* ---- rows and elements ---- */

static void norm(struct kern *k, void *y, float *mean, float *rstd, const void *x,
                 const void *w, const void *b, float plus, int64_t n, int64_t c, float eps,
                 int again)
{
    if (mean && again)
        kern_layernorm_apply(y, mean, rstd, x, w, b, n, c);
    else if (mean)
        kern_layernorm(y, mean, rstd, x, w, b, n, c, eps);
    else if (again)
        kern_rmsnorm_apply(y, rstd, x, w, plus, n, c);
    else
        kern_rmsnorm(y, rstd, x, w, plus, n, c, eps);
}

static void norm_backward(struct kern *k, void *dx, float *dw, float *db, const void *dy,
                          const float *mean, const float *rstd, const void *x, const void *w,
                          float plus, int64_t n, int64_t c)
{
    if (mean)
        kern_layernorm_backward(dx, dw, db, dy, mean, rstd, x, w, n, c);
    else
        kern_rmsnorm_backward(dx, dw, dy, rstd, x, w, plus, n, c);
}

static void bias(struct kern *k, void *y, int64_t ld, const void *b, int64_t n, int64_t c)
{
    kern_bias(y, ld, b, n, c);
}

static void bias_backward(struct kern *k, float *db, const void *dy, int64_t ld, int64_t n,
                          int64_t c)
{
    kern_bias_backward(db, dy, ld, n, c);
}

static void rope(struct kern *k, void *x, int64_t ld, const float *table, int64_t batch,
                 int64_t seq, int64_t heads, int64_t head_dim, int64_t rotary, int back)
{
    kern_rope(x, ld, table, batch, seq, heads, head_dim, rotary, back);
}

static int attention_can(const struct kern *k, const struct kern_heads *s, struct err *err)
{
    return 0;
}

static const char *attention_by(const struct kern *k, const struct kern_heads *s)
{
    return "kernels of our own";
}

static void cpu_ops_attention(struct kern *k, const struct kern_heads *s, void *out, float *lse,
                              const void *qkv, void *scratch)
{
    kern_attention(s, out, lse, qkv, scratch);
}

static void attention_backward(struct kern *k, const struct kern_heads *s, void *dqkv,
                               const void *dout, const void *out, const float *lse,
                               const void *qkv, void *scratch)
{
    kern_attention_backward(s, dqkv, dout, out, lse, qkv, scratch);
}

static void cpu_ops_gated(struct kern *k, void *y, const void *gate, const void *up, int64_t n,
                          int64_t c, int64_t ld, int gelu)
{
    for (int64_t i = 0; i < n; i++)
        (gelu ? kern_geglu : kern_swiglu)((float *)y + i * c, (const float *)gate + i * ld,
                                          (const float *)up + i * ld, c);
}

static void cpu_ops_gated_backward(struct kern *k, void *dy, void *gate, void *up, int64_t n,
                                   int64_t c, int64_t ld, int gelu)
{
    for (int64_t i = 0; i < n; i++)
        (gelu ? kern_geglu_backward : kern_swiglu_backward)(
            (float *)dy + i * c, (float *)gate + i * ld, (float *)up + i * ld, c);
}

static void cpu_ops_gelu(struct kern *k, void *y, const void *x, int64_t n, int tanh)
{
    if (tanh)
        kern_gelu_tanh(y, x, n);
    else
        kern_gelu(y, x, n);
}

static void cpu_ops_gelu_backward(struct kern *k, void *dy, void *x, int64_t n, int tanh)
{
    if (tanh)
        kern_gelu_tanh_backward(dy, x, n);
    else
        kern_gelu_backward(dy, x, n);
}

/* Row by row, so that the second pass finds the row in the cache. */
static void cpu_ops_cross_entropy(struct kern *k, void *logits, int64_t ld,
                                  const struct kern_tokens *t, int64_t v, float scale)
{
    double loss = 0;
    float lse = 0;

    for (int64_t i = 0; i < t->n; i++) {
        float *row = (float *)logits + i * ld;
        double of_row = kern_cross_entropy(&lse, row, t->target + i, 1, v);

        loss += of_row;
        if (k->losses)
            k->losses[i] = t->target[i] < 0 ? -1 : (float)of_row;
        if (scale != 0)
            kern_cross_entropy_backward(row, &lse, t->target + i, 1, v, scale);
    }
    own_of(k)->loss = loss;
}

static int cpu_ops_loss(struct kern *k, double *out, struct err *err)
{
    *out = own_of(k)->loss;
    return 0;
}

static void cpu_ops_add(struct kern *k, void *y, const void *x, int64_t n)
{
    kern_add(y, x, n);
}

static void scale_act(struct kern *k, void *x, float by, int64_t n)
{
    kern_scale(x, by, n);
}

/* ---- products ---- */

static int product_new(struct kern *k, struct kern_product **out,
                       const struct kern_product_shape *shape, struct err *err)
{
    return kern_product_new(out, shape, err);
}

static void cpu_ops_product(struct kern *k, const struct kern_product *p, const void *a,
                            const void *b, const void *from, const void *bias_row, void *c)
{
    kern_product_run(p, a, b, from, bias_row, c);
}

static void product_free(struct kern *k, struct kern_product *p)
{
    kern_product_free(p);
}

/* ---- entries for the engine ---- */

static void convert(struct kern *k, void *to, enum dtype to_type, const void *from,
                    enum dtype from_type, int64_t n)
{
    dtype_convert(to, to_type, from, from_type, n);
}

static void round_cpu(struct kern *k, void *to, enum dtype type, const float *x,
                      enum dtype seen, int64_t n)
{
    float rounded[SHORT];
    uint16_t half[SHORT];

    if (seen == DTYPE_F32 || seen == type) {
        dtype_convert(to, type, x, DTYPE_F32, n);
        return;
    }
    assert(type == DTYPE_F32 && dtype_bytes(seen) == 2);
    for (int64_t i = 0; i < n; i += SHORT) {
        int64_t part = n - i < SHORT ? n - i : SHORT;

        dtype_convert(half, seen, x + i, DTYPE_F32, part);
        dtype_convert(rounded, DTYPE_F32, half, seen, part);
        memcpy((float *)to + i, rounded, (size_t)part * sizeof(float)); /* to may be x */
    }
}

static void cpu_ops_accumulate(struct kern *k, void *acc, enum dtype acc_type, const void *x,
                               enum dtype type, int64_t n)
{
    float a[SHORT];

    if (acc_type == DTYPE_F32) {
        kern_accumulate(acc, x, type, n);
        return;
    }
    if (acc_type == DTYPE_F64) {
        assert(type == DTYPE_F64);
        dtype_reduce(acc, acc, x, DTYPE_F64, DTYPE_SUM, n);
        return;
    }
    for (int64_t i = 0; i < n; i += SHORT) {
        int64_t part = n - i < SHORT ? n - i : SHORT;
        char *at = (char *)acc + i * dtype_bytes(acc_type);

        dtype_convert(a, DTYPE_F32, at, acc_type, part);
        kern_accumulate(a, (const char *)x + i * dtype_bytes(type), type, part);
        dtype_convert(at, acc_type, a, DTYPE_F32, part);
    }
}

static void abs_cpu(struct kern *k, float *x, int64_t n)
{
    kern_abs(x, n);
}

/* Elements [at, at + n) of a vector of any type: in place, or converted to f32 in the piece. */
static const float *piece_of(const struct kern *k, const void *x, enum dtype type, int64_t at,
                             int64_t n)
{
    const char *from = (const char *)x + at * dtype_bytes(type);
    float *piece = own_of(k)->piece;

    if (type == DTYPE_F32)
        return (const float *)(const void *)from;
    dtype_convert(piece, DTYPE_F32, from, type, n);
    return piece;
}

static void cpu_ops_sumsq(struct kern *k, const void *x, enum dtype type, int64_t n)
{
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t part = n - at < PIECE ? n - at : PIECE;

        own_of(k)->sumsq += kern_sumsq(piece_of(k, x, type, at, part), part);
    }
}

static int cpu_ops_sumsq_take(struct kern *k, double *sum, struct err *err)
{
    *sum = own_of(k)->sumsq;
    own_of(k)->sumsq = 0;
    return 0;
}

static void cpu_ops_adamw(struct kern *k, float *w, float *m, float *v, const void *g,
                          enum dtype type, int64_t n, const struct kern_optim *o)
{
    float *piece = own_of(k)->piece;

    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t part = n - at < PIECE ? n - at : PIECE;
        const float *from = piece_of(k, g, type, at, part);

        if (o->scale != 1) {
            if (from != piece)
                memcpy(piece, from, (size_t)part * sizeof(float));
            kern_scale(piece, (float)o->scale, part);
            from = piece;
        }
        kern_adamw(w + at, m + at, v + at, from, part, o->lr, o->beta1, o->beta2, o->eps,
                   o->decay, o->step);
    }
}

static void cpu_ops_outer(struct kern *k, float *w, float *b, const void *sum, enum dtype type,
                          int64_t n, const struct kern_outer *o)
{
    enum { PART = 512 };
    double wide[PART];

    (void)k;
    for (int64_t at = 0; at < n; at += PART) {
        int64_t part = n - at < PART ? n - at : PART;
        dtype_convert(wide, DTYPE_F64, (const char *)sum + at * dtype_bytes(type), type, part);
        kern_outer(w + at, b + at, wide, part, o->share, o->lr, o->momentum);
    }
}

static void cpu_ops_moment_get(struct kern *k, float *x, const struct kern_moment *m,
                               int64_t at, int64_t n)
{
    kern_moment_get(x, m, at, n);
}

static void cpu_ops_moment_put(struct kern *k, const struct kern_moment *m, int64_t at,
                               const float *x, int64_t n, const struct kern_dither *dither)
{
    kern_moment_put(m, at, x, n, dither);
}

static const struct kern_ops cpu_ops = {
    .close = close_cpu,
    .reserve = reserve,
    .tokens_bytes = kern_kind_tokens_bytes,
    .tokens = tokens,
    .embed = cpu_ops_embed,
    .embed_backward = cpu_ops_embed_backward,
    .positions = positions,
    .positions_backward = positions_backward,
    .norm = norm,
    .norm_backward = norm_backward,
    .bias = bias,
    .bias_backward = bias_backward,
    .rope = rope,
    .attention_can = attention_can,
    .attention_by = attention_by,
    .attention_bytes = kern_kind_attention_bytes,
    .attention = cpu_ops_attention,
    .attention_backward = attention_backward,
    .gated = cpu_ops_gated,
    .gated_backward = cpu_ops_gated_backward,
    .gelu = cpu_ops_gelu,
    .gelu_backward = cpu_ops_gelu_backward,
    .cross_entropy = cpu_ops_cross_entropy,
    .loss = cpu_ops_loss,
    .add = cpu_ops_add,
    .scale_act = scale_act,
    .product_new = product_new,
    .product = cpu_ops_product,
    .product_free = product_free,
    .convert = convert,
    .round = round_cpu,
    .accumulate = cpu_ops_accumulate,
    .abs = abs_cpu,
    .sumsq = cpu_ops_sumsq,
    .sumsq_take = cpu_ops_sumsq_take,
    .adamw = cpu_ops_adamw,
    .outer = cpu_ops_outer,
    .moment_get = cpu_ops_moment_get,
    .moment_put = cpu_ops_moment_put,
};

int kern_open_cpu(struct kern *out, struct err *err)
{
    struct own *own;
    void *piece;

    if (mem_data(PIECE * (int64_t)sizeof(float), "a piece of a gradient", &piece, err))
        return -1;
    own = mem_new(1, sizeof *own);
    own->piece = piece;
    out->op = &cpu_ops;
    out->own = own;
    out->bytes = PIECE * (int64_t)sizeof(float);
    return 0;
}
