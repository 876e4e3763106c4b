/* SPDX-License-Identifier: BSD-3-Clause */
/* The decoder as a paper would write it: one tensor after the other, found by name. */
#include "net/net_ref.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "kern/kern_ref.h"

struct ref {
    const struct model *model;
    double *const *params;
    int64_t batch, seq, rows;
};

/* The tensor "model.layers.LAYER.part.weight", or "part.weight" where layer is negative. */
static const double *weight(const struct ref *r, int64_t layer, const char *part)
{
    const struct model_tensor *t;
    char name[128];

    if (layer < 0)
        snprintf(name, sizeof name, "%s.weight", part);
    else
        snprintf(name, sizeof name, "model.layers.%" PRId64 ".%s.weight", layer, part);
    t = model_find(r->model, name);
    assert(t);
    return r->params[t->unit] + t->offset;
}

static double *rows_new(const struct ref *r, int64_t columns)
{
    return mem_new((size_t)(r->rows * columns), sizeof(double));
}

static void add(double *y, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

/* The projection `part` of x (rows,in) into columns first.. of y, rows ld apart. */
static void project(const struct ref *r, const double *x, int64_t in, const double *w,
                    int64_t out, double *y, int64_t ld, int64_t first)
{
    double *wide = rows_new(r, out);

    kern_ref_gemm('N', 'T', r->rows, out, in, x, w, wide);
    for (int64_t i = 0; i < r->rows; i++)
        memcpy(y + i * ld + first, wide + i * out, (size_t)out * sizeof(double));
    mem_free(wide);
}

static void attention(const struct ref *r, int64_t layer, double *x)
{
    const struct model *m = r->model;
    int64_t C = m->hidden, D = m->head_dim, q = m->heads * D, kv = m->kv_heads * D;
    int64_t ld = q + 2 * kv;
    double *h = rows_new(r, C), *qkv = rows_new(r, ld), *out = rows_new(r, q);

    kern_ref_rmsnorm(h, x, weight(r, layer, "input_layernorm"), r->rows, C, m->norm_eps);
    project(r, h, C, weight(r, layer, "self_attn.q_proj"), q, qkv, ld, 0);
    project(r, h, C, weight(r, layer, "self_attn.k_proj"), kv, qkv, ld, q);
    project(r, h, C, weight(r, layer, "self_attn.v_proj"), kv, qkv, ld, q + kv);
    kern_ref_rope(qkv, ld, r->batch, r->seq, m->heads, D, m->rope.theta);
    kern_ref_rope(qkv + q, ld, r->batch, r->seq, m->kv_heads, D, m->rope.theta);
    kern_ref_attention(out, qkv, r->batch, r->seq, m->heads, m->kv_heads, D);
    project(r, out, q, weight(r, layer, "self_attn.o_proj"), C, h, C, 0);
    add(x, h, r->rows * C);
    mem_free(h);
    mem_free(qkv);
    mem_free(out);
}

static void feed_forward(const struct ref *r, int64_t layer, double *x)
{
    int64_t C = r->model->hidden, F = r->model->ffn;
    double *h = rows_new(r, C), *gate = rows_new(r, F), *up = rows_new(r, F);

    kern_ref_rmsnorm(h, x, weight(r, layer, "post_attention_layernorm"), r->rows, C,
                     r->model->norm_eps);
    project(r, h, C, weight(r, layer, "mlp.gate_proj"), F, gate, F, 0);
    project(r, h, C, weight(r, layer, "mlp.up_proj"), F, up, F, 0);
    kern_ref_swiglu(gate, gate, up, r->rows * F);
    project(r, gate, F, weight(r, layer, "mlp.down_proj"), C, h, C, 0);
    add(x, h, r->rows * C);
    mem_free(h);
    mem_free(gate);
    mem_free(up);
}

double net_ref_loss(const struct model *model, double *const *params, const int32_t *tokens,
                    const int32_t *targets, int64_t batch, int64_t seq, double *logits)
{
    struct ref r = {model, params, batch, seq, batch * seq};
    int64_t C = model->hidden, V = model->vocab;
    const double *table = weight(&r, -1, "model.embed_tokens");
    double *x = rows_new(&r, C), *h = rows_new(&r, C), *y = rows_new(&r, V), loss;

    for (int64_t i = 0; i < r.rows; i++)
        memcpy(x + i * C, table + tokens[i] * C, (size_t)C * sizeof(double));
    for (int64_t layer = 0; layer < model->layers; layer++) {
        attention(&r, layer, x);
        feed_forward(&r, layer, x);
    }
    kern_ref_rmsnorm(h, x, weight(&r, -1, "model.norm"), r.rows, C, model->norm_eps);
    kern_ref_gemm('N', 'T', r.rows, V, C, h, model->tied ? table : weight(&r, -1, "lm_head"),
                  y);
    loss = kern_ref_cross_entropy(y, targets, r.rows, V);
    if (logits)
        memcpy(logits, y, (size_t)(r.rows * V) * sizeof(double));
    mem_free(x);
    mem_free(h);
    mem_free(y);
    return loss;
}
