/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_NET_REF_FIXTURE_H
#define TESTS_UNIT_NET_REF_FIXTURE_H

/*
 * The decoder's forward pass in double precision as a paper would write it: one tensor after the
 * other, found by name; a bias or an adapter exists if a tensor of that name does.  Central
 * differences of its loss are what gradients are compared with.
 */

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/model.h"
#include "kern_ref_fixture.h"

struct ref {
    const struct model *model;
    double *const *params;
    int64_t batch, seq, rows;
};

static inline const double *ref_values(const struct ref *r, const struct model_tensor *t)
{
    return t ? r->params[t->unit] + t->offset : NULL;
}

/* "(prefix)LAYER.part.end", or "part.end" where layer is negative; NULL where there is none. */
static inline const struct model_tensor *ref_find(const struct ref *r, int64_t layer,
                                                  const char *part, const char *end)
{
    const char *prefix =
        strcmp(r->model->family, "gpt2") == 0 ? "transformer.h" : "model.layers";
    char name[128];

    if (layer < 0)
        snprintf(name, sizeof name, "%s.%s", part, end);
    else
        snprintf(name, sizeof name, "%s.%" PRId64 ".%s.%s", prefix, layer, part, end);
    return model_find(r->model, name);
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
    kern_ref_gemm('N', 'T', r->rows, out, rank, low, b, wide);
    for (int64_t i = 0; i < r->rows * out; i++)
        y[i] += r->model->lora.alpha / (double)rank * wide[i];
    mem_free(low);
    mem_free(wide);
}

/* The linear layer `part` of x (rows,in) into columns first.. of y, rows ld apart. */
static inline void ref_project(const struct ref *r, int64_t layer, const char *part,
                               const double *x, int64_t in, double *y, int64_t out, int64_t ld,
                               int64_t first)
{
    const struct model_tensor *t = ref_find(r, layer, part, "weight");
    const double *bias = ref_values(r, ref_find(r, layer, part, "bias"));
    double *wide = ref_rows_new(r, out);

    assert(t);
    kern_ref_gemm('N', t->transposed ? 'N' : 'T', r->rows, out, in, x, ref_values(r, t), wide);
    if (bias)
        kern_ref_bias(wide, bias, r->rows, out);
    ref_adapt(r, t, x, in, out, wide);
    for (int64_t i = 0; i < r->rows; i++)
        memcpy(y + i * ld + first, wide + i * out, (size_t)out * sizeof(double));
    mem_free(wide);
}

static inline void ref_norm(const struct ref *r, int64_t layer, const char *part,
                            const double *x, double *y)
{
    const double *w = ref_values(r, ref_find(r, layer, part, "weight"));
    const struct model *m = r->model;

    if (m->norm == MODEL_NORM_RMS)
        kern_ref_rmsnorm(y, x, w, r->rows, m->hidden, m->norm_eps);
    else
        kern_ref_layernorm(y, x, w, ref_values(r, ref_find(r, layer, part, "bias")), r->rows,
                           m->hidden, m->norm_eps);
}

static inline void ref_turn(const struct ref *r, double *qkv, int64_t ld)
{
    const struct model *m = r->model;
    double *freq = mem_new((size_t)m->head_dim, sizeof *freq), scale;

    model_rope_frequencies(m, r->seq, freq, &scale);
    kern_ref_rope(qkv, ld, r->batch, r->seq, m->heads + m->kv_heads, m->head_dim, freq, scale);
    mem_free(freq);
}

static inline void ref_attention(const struct ref *r, int64_t layer, double *x)
{
    const struct model *m = r->model;
    int64_t C = m->hidden, D = m->head_dim, q = m->heads * D, kv = m->kv_heads * D;
    int64_t ld = q + 2 * kv;
    double *h = ref_rows_new(r, C), *qkv = ref_rows_new(r, ld), *out = ref_rows_new(r, q);

    if (ref_find(r, layer, "attn.c_attn", "weight")) {
        ref_norm(r, layer, "ln_1", x, h);
        ref_project(r, layer, "attn.c_attn", h, C, qkv, ld, ld, 0);
    } else {
        ref_norm(r, layer, "input_layernorm", x, h);
        ref_project(r, layer, "self_attn.q_proj", h, C, qkv, q, ld, 0);
        ref_project(r, layer, "self_attn.k_proj", h, C, qkv, kv, ld, q);
        ref_project(r, layer, "self_attn.v_proj", h, C, qkv, kv, ld, q + kv);
    }
    if (!m->positions)
        ref_turn(r, qkv, ld);
    kern_ref_attention(out, qkv, r->batch, r->seq, m->heads, m->kv_heads, D);
    ref_project(r, layer,
                ref_find(r, layer, "attn.c_proj", "weight") ? "attn.c_proj"
                                                            : "self_attn.o_proj",
                out, q, h, C, C, 0);
    ref_add(x, h, r->rows * C);
    mem_free(h);
    mem_free(qkv);
    mem_free(out);
}

static inline void ref_feed_forward(const struct ref *r, int64_t layer, double *x)
{
    const struct model *m = r->model;
    int64_t C = m->hidden, F = m->ffn;
    double *h = ref_rows_new(r, C), *gate = ref_rows_new(r, F), *up = ref_rows_new(r, F);

    if (m->ffn_type == MODEL_FFN_SWIGLU) {
        ref_norm(r, layer, "post_attention_layernorm", x, h);
        ref_project(r, layer, "mlp.gate_proj", h, C, gate, F, F, 0);
        ref_project(r, layer, "mlp.up_proj", h, C, up, F, F, 0);
        kern_ref_swiglu(gate, gate, up, r->rows * F);
        ref_project(r, layer, "mlp.down_proj", gate, F, h, C, C, 0);
    } else {
        ref_norm(r, layer, "ln_2", x, h);
        ref_project(r, layer, "mlp.c_fc", h, C, up, F, F, 0);
        if (m->ffn_type == MODEL_FFN_GELU_TANH)
            kern_ref_gelu_tanh(gate, up, r->rows * F);
        else
            kern_ref_gelu(gate, up, r->rows * F);
        ref_project(r, layer, "mlp.c_proj", gate, F, h, C, C, 0);
    }
    ref_add(x, h, r->rows * C);
    mem_free(h);
    mem_free(gate);
    mem_free(up);
}

/*
 * params[u] (model->unit[u].elems) by unit; tokens, targets (batch, seq).  Returns the loss as
 * net_loss does; logits (batch * seq, vocab) may be NULL.
 */
static inline double net_ref_loss(const struct model *model, double *const *params,
                                  const int32_t *tokens, const int32_t *targets, int64_t batch,
                                  int64_t seq, double *logits)
{
    struct ref r = {model, params, batch, seq, batch * seq};
    int64_t C = model->hidden, V = model->vocab;
    int gpt2 = strcmp(model->family, "gpt2") == 0;
    const double *table = ref_values(
        &r, ref_find(&r, -1, gpt2 ? "transformer.wte" : "model.embed_tokens", "weight"));
    double *x = ref_rows_new(&r, C), *h = ref_rows_new(&r, C), *y = ref_rows_new(&r, V), loss;

    for (int64_t i = 0; i < r.rows; i++)
        memcpy(x + i * C, table + tokens[i] * C, (size_t)C * sizeof(double));
    if (model->positions)
        kern_ref_positions(x, ref_values(&r, ref_find(&r, -1, "transformer.wpe", "weight")),
                           batch, seq, C);
    for (int64_t layer = 0; layer < model->layers; layer++) {
        ref_attention(&r, layer, x);
        ref_feed_forward(&r, layer, x);
    }
    ref_norm(&r, -1, gpt2 ? "transformer.ln_f" : "model.norm", x, h);
    kern_ref_gemm('N', 'T', r.rows, V, C, h,
                  model->tied ? table : ref_values(&r, ref_find(&r, -1, "lm_head", "weight")),
                  y);
    loss = kern_ref_cross_entropy(y, targets, r.rows, V);
    if (logits)
        memcpy(logits, y, (size_t)(r.rows * V) * sizeof(double));
    mem_free(x);
    mem_free(h);
    mem_free(y);
    return loss;
}

#endif
