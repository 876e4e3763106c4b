/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_NET_REF_FIXTURE_H
#define TESTS_UNIT_NET_REF_FIXTURE_H

/*
 * Computes the decoder's forward pass in double precision as a paper would write it: one tensor
 * after the other, found by name; a bias or an adapter exists if a tensor of that name does.
 * Gradients are compared with central differences of its loss.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "model/model.h"
#include "kern_ref_fixture.h"

/* Noise multiplies every parameter and every operand of an operation by 1 + NOISE or 1 - NOISE.
 * Rounding does the same with fewer and other digits: what a product of inner length n in f32
 * returns is exact for operands that are off by n EPS at most, relative (Higham, section 3.1),
 * and operands are multiplied with adjoints in the backward, too.  So the change of a result by
 * noise has the size of what cancels in it, however small the result is. */
static const double REF_NOISE = 0x1p-10;

struct ref_noise {
    uint64_t seed, drawn, bits;
};

struct ref {
    const struct model *model;
    double *const *params;
    int64_t batch, seq, rows;
    struct ref_noise *noise; /* or NULL */
};

static inline void ref_vary(const struct ref *r, double *x, int64_t n)
{
    struct ref_noise *e = r->noise;

    for (int64_t i = 0; e && i < n; i++, e->drawn++) {
        if (e->drawn % 64 == 0)
            e->bits = rng_u64(e->seed, 0, e->drawn / 64);
        x[i] *= e->bits >> e->drawn % 64 & 1 ? 1 + REF_NOISE : 1 - REF_NOISE;
    }
}

static inline const double *ref_values(const struct ref *r, const struct model_tensor *t)
{
    return t ? r->params[t->unit] + t->offset : NULL;
}

static inline double *ref_rows_new(const struct ref *r, int64_t columns)
{
    return mem_new((size_t)(r->rows * columns), sizeof(double));
}

static inline void ref_add(double *y, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

/* y += alpha / rank (x A^T) B^T */
static inline void ref_adapt(const struct ref *r, const struct model_tensor *t, const double *x,
                             int64_t in, int64_t out, double *y)
{
    const double *a = ref_values(r, model_adapter(r->model, t, MODEL_LORA_A));
    const double *b = ref_values(r, model_adapter(r->model, t, MODEL_LORA_B));
    int64_t rank = r->model->lora.rank;

    if (!a)
        return;
    double *low = ref_rows_new(r, rank), *wide = ref_rows_new(r, out);
    kern_ref_gemm('N', 'T', r->rows, rank, in, x, a, low);
    ref_vary(r, low, r->rows * rank);
    kern_ref_gemm('N', 'T', r->rows, out, rank, low, b, wide);
    for (int64_t i = 0; i < r->rows * out; i++)
        y[i] += r->model->lora.alpha / (double)rank * wide[i];
    mem_free(low);
    mem_free(wide);
}

/* All modules of that role of x (rows,in), one beside the other in rows of y. */
static inline void ref_project(const struct ref *r, int64_t layer, enum model_role role,
                               const double *x, double *y)
{
    const struct model_module *modules = r->model->family->modules;
    int64_t ld = model_width(r->model, role), first = 0;

    for (int i = 0; modules[i].name; i++) {
        if (modules[i].role != role)
            continue;
        const struct model_tensor *t = model_find_module(r->model, layer, i, 0);
        const double *bias = ref_values(r, model_find_module(r->model, layer, i, 1));
        int64_t out = t->shape[t->transposed ? 1 : 0], in = t->shape[t->transposed ? 0 : 1];
        double *wide = ref_rows_new(r, out);

        kern_ref_gemm('N', t->transposed ? 'N' : 'T', r->rows, out, in, x, ref_values(r, t),
                      wide);
        if (bias)
            kern_ref_bias(wide, bias, r->rows, out);
        ref_adapt(r, t, x, in, out, wide);
        for (int64_t row = 0; row < r->rows; row++)
            memcpy(y + row * ld + first, wide + row * out, (size_t)out * sizeof(double));
        first += out;
        mem_free(wide);
    }
    ref_vary(r, y, r->rows * ld);
}

static inline void ref_norm(const struct ref *r, int64_t layer, enum model_role role,
                            const double *x, double *y)
{
    const struct model *m = r->model;
    int module = model_module(m, role);
    const double *w = ref_values(r, model_find_module(m, layer, module, 0));

    if (!w) /* none, and y is x */
        return;
    if (m->norm == MODEL_NORM_RMS)
        kern_ref_rmsnorm(y, x, w, m->family->norm_plus, r->rows, m->hidden, m->norm_eps);
    else
        kern_ref_layernorm(y, x, w, ref_values(r, model_find_module(m, layer, module, 1)),
                           r->rows, m->hidden, m->norm_eps);
    ref_vary(r, y, r->rows * m->hidden);
}

static inline void ref_turn(const struct ref *r, int rope, double *qkv, int64_t ld)
{
    const struct model *m = r->model;
    double *freq = mem_new((size_t)m->head_dim, sizeof *freq), scale;

    model_rope_frequencies(m, rope, r->seq, freq, &scale);
    kern_ref_rope(qkv, ld, r->batch, r->seq, m->heads + m->kv_heads, m->head_dim, m->rotary,
                  freq, scale);
    mem_free(freq);
}

/* Each head of rows by itself, where the family has that norm. */
static inline void ref_norm_heads(const struct ref *r, int64_t layer, enum model_role role,
                                  double *x, int64_t ld, int64_t heads)
{
    const struct model *m = r->model;
    const double *w = ref_values(r, model_find_module(m, layer, model_module(m, role), 0));

    for (int64_t i = 0; w && i < r->rows * heads; i++) {
        double *head = x + i / heads * ld + i % heads * m->head_dim;

        kern_ref_rmsnorm(head, head, w, m->family->norm_plus, 1, m->head_dim, m->norm_eps);
    }
}

/* Each query has keys and values with noise of its own. */
static inline void ref_attend(const struct ref *r, double *out, const double *qkv, int64_t ld)
{
    const struct model *m = r->model;
    int64_t D = m->head_dim;
    double *seen = mem_new((size_t)(r->seq * ld), sizeof *seen);

    for (int64_t i = 0; i < r->rows * m->heads; i++) {
        int64_t row = i / m->heads, head = i % m->heads, from = row / r->seq * r->seq;
        int64_t kv = m->heads + head * m->kv_heads / m->heads;

        memcpy(seen, qkv + from * ld, (size_t)((row - from + 1) * ld) * sizeof *seen);
        for (int64_t j = 0; j <= row - from; j++) {
            ref_vary(r, seen + j * ld + kv * D, D);
            ref_vary(r, seen + j * ld + (kv + m->kv_heads) * D, D);
        }
        kern_ref_attend(out + i * D, qkv + row * ld + head * D, seen + kv * D,
                        seen + (kv + m->kv_heads) * D, row - from, D, ld);
    }
    mem_free(seen);
}

static inline void ref_attention(const struct ref *r, int64_t layer, double *x)
{
    const struct model *m = r->model;
    int64_t C = m->hidden, D = m->head_dim, ld = (m->heads + 2 * m->kv_heads) * D;
    double *h = ref_rows_new(r, C), *qkv = ref_rows_new(r, ld),
           *out = ref_rows_new(r, m->heads * D);

    ref_norm(r, layer, MODEL_NORM_ATTENTION, x, h);
    ref_project(r, layer, MODEL_QKV, h, qkv);
    ref_norm_heads(r, layer, MODEL_NORM_Q, qkv, ld, m->heads);
    ref_norm_heads(r, layer, MODEL_NORM_K, qkv + m->heads * D, ld, m->kv_heads);
    if (model_layer_rope(m, layer) >= 0)
        ref_turn(r, model_layer_rope(m, layer), qkv, ld);
    ref_vary(r, qkv, r->rows * ld);
    ref_attend(r, out, qkv, ld);
    ref_vary(r, out, r->rows * m->heads * D);
    ref_project(r, layer, MODEL_OUT, out, h);
    ref_norm(r, layer, MODEL_NORM_OUT, h, h);
    ref_add(x, h, r->rows * C);
    ref_vary(r, x, r->rows * C);
    mem_free(h);
    mem_free(qkv);
    mem_free(out);
}

static inline void ref_feed_forward(const struct ref *r, int64_t layer, double *x)
{
    const struct model *m = r->model;
    int64_t C = m->hidden, F = m->ffn, ld = model_width(m, MODEL_FFN);
    double *h = ref_rows_new(r, C), *wide = ref_rows_new(r, ld), *y = ref_rows_new(r, F);

    ref_norm(r, layer, MODEL_NORM_FFN, x, h);
    ref_project(r, layer, MODEL_FFN, h, wide);
    for (int64_t i = 0; i < r->rows; i++) {
        const double *row = wide + i * ld;

        if (m->ffn_type == MODEL_FFN_SWIGLU || m->ffn_type == MODEL_FFN_GEGLU)
            kern_ref_gated(y + i * F, row, row + F, F, m->ffn_type == MODEL_FFN_GEGLU);
        else if (m->ffn_type == MODEL_FFN_GELU_TANH)
            kern_ref_gelu_tanh(y + i * F, row, F);
        else
            kern_ref_gelu(y + i * F, row, F);
    }
    ref_vary(r, y, r->rows * F);
    ref_project(r, layer, MODEL_DOWN, y, h);
    ref_norm(r, layer, MODEL_NORM_DOWN, h, h);
    ref_add(x, h, r->rows * C);
    ref_vary(r, x, r->rows * C);
    mem_free(h);
    mem_free(wide);
    mem_free(y);
}

/* The weight of a module that is there once. */
static inline const double *ref_weight(const struct ref *r, enum model_role role)
{
    return ref_values(r, model_find_module(r->model, -1, model_module(r->model, role), 0));
}

static inline double ref_forward(const struct ref *r, const int32_t *tokens,
                                 const int32_t *targets, double *logits)
{
    const struct model *m = r->model;
    int64_t C = m->hidden, V = m->vocab;
    const double *table = ref_weight(r, MODEL_EMBED);
    double *x = ref_rows_new(r, C), *h = ref_rows_new(r, C), *y = ref_rows_new(r, V), loss;

    for (int64_t i = 0; i < r->rows; i++)
        for (int64_t j = 0; j < C; j++)
            x[i * C + j] =
                table[tokens[i] * C + j] * (m->family->embed_scaled ? sqrt((double)C) : 1);
    if (m->positions)
        kern_ref_positions(x, ref_weight(r, MODEL_POSITIONS), r->batch, r->seq, C);
    ref_vary(r, x, r->rows * C);
    for (int64_t layer = 0; layer < m->layers; layer++) {
        ref_attention(r, layer, x);
        ref_feed_forward(r, layer, x);
    }
    ref_norm(r, -1, MODEL_NORM_LAST, x, h);
    kern_ref_gemm('N', 'T', r->rows, V, C, h, ref_weight(r, MODEL_HEAD), y);
    if (logits)
        memcpy(logits, y, (size_t)(r->rows * V) * sizeof(double));
    ref_vary(r, y, r->rows * V);
    loss = kern_ref_cross_entropy(y, targets, r->rows, V);
    ref_vary(r, &loss, 1);
    mem_free(x);
    mem_free(h);
    mem_free(y);
    return loss;
}

/* params[u] (model->unit[u].elems) by unit; tokens, targets (batch, seq).  Returns the loss as
 * net_loss does; logits (batch * seq, vocab) may be NULL.  A seed above 0 is that of noise. */
static inline double net_ref_loss(const struct model *model, double *const *params,
                                  const int32_t *tokens, const int32_t *targets, int64_t batch,
                                  int64_t seq, double *logits, uint64_t seed)
{
    struct ref_noise noise = {.seed = seed};
    struct ref r = {model, params, batch, seq, batch * seq, seed ? &noise : NULL};
    double **copy = mem_new((size_t)model->units, sizeof *copy), loss;

    for (int u = 0; seed && u < model->units; u++) {
        size_t n = (size_t)model->unit[u].elems;

        copy[u] = mem_new(n, sizeof **copy);
        memcpy(copy[u], params[u], n * sizeof **copy);
        ref_vary(&r, copy[u], (int64_t)n);
        r.params = copy;
    }
    loss = ref_forward(&r, tokens, targets, logits);
    for (int u = 0; u < model->units; u++)
        mem_free(copy[u]);
    mem_free(copy);
    return loss;
}

#endif
