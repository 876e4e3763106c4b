/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what the network takes of memory, array by array as net/net.c and net/net_linear.c
 * place them; what depends on the device, kern/kern_kind.h says.  It is the second opinion of
 * net_place: tests hold the two against each other, to the byte.
 */
#include "plan/activations.h"

#include <math.h>

#include "base/mem.h"

enum {
    F32_BYTES = 4,
    PAD = 32 /* elements behind a row of a rounded operand (net/net_linear.c) */
};

struct sizes { /* of a micro-step; elements.  Doubles: no option makes a product overflow. */
    double rows, c, heads, att, qkv, wide, ffn, logits;
    enum dtype act, weight;
};

static struct sizes sizes_of(const struct model *m, const struct plan_micro *at)
{
    double f = (double)m->ffn;
    int row = kern_kind_row_elems(at->device);

    return (struct sizes){
        .rows = (double)at->batch * at->seq,
        .c = (double)m->hidden,
        .heads = (double)m->heads,
        .att = (double)(m->heads * m->head_dim),
        .qkv = (double)((m->heads + 2 * m->kv_heads) * m->head_dim),
        .wide = m->ffn_type == MODEL_FFN_SWIGLU ? 2 * f : f,
        .ffn = f,
        .logits = (double)((m->vocab + row - 1) / row * row),
        .act = kern_kind_act(at->device, at->compute),
        .weight = kern_kind_weight(at->device, at->compute, at->there),
    };
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* An array of an arena. */
static double array(double bytes)
{
    return ceil(bytes / MEM_ALIGN) * MEM_ALIGN;
}

/* (rows, columns), of activations, and of what is f32 everywhere. */
static double act(const struct sizes *s, double columns)
{
    return array(s->rows * columns * dtype_bytes(s->act));
}

static double f32(const struct sizes *s, double columns)
{
    return array(s->rows * columns * F32_BYTES);
}

/* A scale of each row; and a mean. */
static double norm(const struct model *m, const struct sizes *s)
{
    return (m->norm == MODEL_NORM_LAYER ? 2 : 1) * f32(s, 1);
}

/*
 * What enters a layer, and what its backward finds beside it: what enters the second norm; both
 * norms; queries, keys, values; the heads' outputs and logarithms of sums; gate and up, or the
 * one: of one layer at a time where the forward is run again.  Layers before the first that
 * trains keep nothing: they share one input and a later one's places.
 */
static double kept(const struct model *m, const struct plan_micro *at, const struct sizes *s)
{
    double inside = act(s, s->c) + 2 * norm(m, s) + act(s, s->qkv) + act(s, s->att) +
                    f32(s, s->heads) + act(s, s->wide);
    double frozen = larger((double)m->first_trained - 1, 0);
    double reached = (double)m->layers - frozen, enters = reached + (frozen > 0);

    return enters * act(s, s->c) + (at->recompute ? 1 : larger(reached, 1)) * inside;
}

/* The last norm's input and the head's logits; and what one layer's backward has, attention's
   scratch with it. */
static double once(const struct model *m, const struct plan_micro *at, const struct sizes *s)
{
    struct kern_heads heads = {at->batch, at->seq, m->heads, m->kv_heads, m->head_dim, 0};
    double forward = (double)kern_kind_attention_bytes(at->device, s->act, &heads, 0);
    double backward = (double)kern_kind_attention_bytes(at->device, s->act, &heads, 1);
    double rope = m->positions ? 0 : (double)at->seq * (double)m->head_dim * F32_BYTES;
    double tokens = (double)kern_kind_tokens_bytes(at->device, (int64_t)at->batch * at->seq);

    return array(rope) + array(tokens) + act(s, s->c) + norm(m, s) + act(s, s->logits) +
           3 * act(s, s->c) + act(s, s->ffn) + act(s, s->qkv) + act(s, s->att) +
           array(larger(forward, backward)) + 2 * act(s, (double)m->lora.rank);
}

/* The largest weight, rounded: of the lines, then of their adapters. */
static double largest_weight(const struct model *m, double pad)
{
    double most = (double)m->vocab * ((double)m->hidden + pad);

    for (int i = 0; i < m->tensors; i++) {
        const struct model_tensor *t = &m->tensor[i];
        double rows = (double)t->shape[0], cols = (double)t->shape[1];
        if (t->kind == MODEL_MATRIX || model_is_adapter(t))
            most = larger(most, rows * (cols + pad));
    }
    return most;
}

/* Operands of products, where those take another type: rows of the widest x, rows of the widest
   gradient of y, what is between an adapter's two, forward and backward; the largest weight. */
static double rounded(const struct model *m, const struct plan_micro *at, const struct sizes *s)
{
    double x = larger(larger(s->c, s->att), s->ffn), rank = (double)m->lora.rank;
    double dy = larger(larger(s->qkv, s->logits), larger(s->c, s->wide));
    double size = dtype_bytes(at->compute), bytes = 0;

    if (s->act != at->compute) {
        bytes += array(size * s->rows * (x + PAD)) + array(size * s->rows * (dy + PAD));
        bytes += m->lora.rank ? 2 * array(size * s->rows * (rank + PAD)) : 0;
    }
    if (s->weight != at->compute)
        bytes += array(size * largest_weight(m, at->device == DEVICE_CPU ? PAD : 0));
    return bytes;
}

double plan_activation_bytes(const struct model *m, const struct plan_micro *at)
{
    struct sizes s = sizes_of(m, at);

    return m->unit ? kept(m, at, &s) + once(m, at, &s) + rounded(m, at, &s) : 0;
}

int64_t plan_work_bytes(const struct model *m, const struct plan_micro *at)
{
    struct sizes s = sizes_of(m, at);
    double widest = larger(larger(s.c, s.qkv), s.wide);

    return kern_kind_work_bytes(at->device, (int64_t)at->batch * at->seq, m->hidden,
                                (int64_t)widest);
}

double plan_kern_bytes(const struct model *m, const struct plan_micro *at)
{
    double own = (double)kern_kind_own_bytes(at->device);

    if (!m->unit || at->device == DEVICE_CPU)
        return 0;
    return larger((double)plan_work_bytes(m, at), KERN_KIND_PRODUCT_BYTES) + 2 * own;
}
