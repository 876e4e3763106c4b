/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a strategy keeps in memory: states by the layout (paro.md section 2), activations
 * by the decoder, buffers by the engine.  It is the engine's placement (engine/engine_place.c)
 * in numbers, and a test holds the two against each other.
 */
#include "plan/plan.h"

#include "plan/tally.h"

enum {
    ADAM_BYTES = 12, /* f32 master and two moments */
    F32_BYTES = 4,
    PAD = 32 /* elements behind a row of a rounded operand (net/net_linear.c) */
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* The largest weight, rounded: of the lines, then of their adapters. */
static double largest_weight(const struct model *m)
{
    double most = (double)m->vocab * ((double)m->hidden + PAD);

    for (int i = 0; i < m->tensors; i++) {
        const struct model_tensor *t = &m->tensor[i];
        double rows = (double)t->shape[0], cols = (double)t->shape[1];
        if (t->kind == MODEL_MATRIX || model_is_adapter(t))
            most = larger(most, rows * (cols + PAD));
    }
    return most;
}

/* Elements of products' operands, rounded: rows of the widest x, rows of the widest gradient of
   y, the largest weight, and what is between an adapter's two, forward and backward. */
static double operand_elems(const struct model *m, double rows, double att, double qkv,
                            double wide)
{
    double c = (double)m->hidden, f = (double)m->ffn, v = (double)m->vocab;
    double x = larger(larger(c, att), f), dy = larger(larger(qkv, v), larger(c, wide));
    double low = m->lora.rank ? 2 * ((double)m->lora.rank + PAD) : 0;

    return rows * (x + PAD + dy + PAD + low) + largest_weight(m);
}

double plan_activation_bytes(const struct model *m, int batch, int seq, int recompute,
                             enum dtype compute)
{
    double c = (double)m->hidden, f = (double)m->ffn, heads = (double)m->heads;
    double att = heads * (double)m->head_dim,
           qkv = att + 2 * (double)(m->kv_heads * m->head_dim);

    if (!m->unit)
        return 0;
    /* Of a token in a layer: what enters it; and what enters the second norm, both norms'
       scales (and means); queries, keys, values; the heads' outputs and logarithms of sums;
       gate and up, or the one: of one layer at a time where the forward is run again.  Layers
       before the first that trains keep nothing: they share one input and a later one's places.
       The rest is always. */
    double norm = m->norm == MODEL_NORM_LAYER ? 2 : 1;
    double wide = m->ffn_type == MODEL_FFN_SWIGLU ? 2 * f : f;
    double inside = c + 2 * norm + qkv + att + heads + wide, layers = (double)m->layers;
    double frozen = larger((double)m->first_trained - 1, 0), reached = layers - frozen;
    double enters = reached + (frozen > 0);
    double kept = enters * c + (recompute ? 1 : larger(reached, 1)) * inside;
    /* Once: the last norm's input, logits, and the backward's own of one layer; an adapter's
       product with A, and its gradient. */
    double once = c + norm + (double)m->vocab + 3 * c + f + qkv + att;
    once += 2 * (double)m->lora.rank;
    double rope = m->positions ? 0 : (double)seq * (double)m->head_dim;
    double rows = (double)batch * seq;
    double rounded = compute == DTYPE_F32 ? 0 : operand_elems(m, rows, att, qkv, wide);
    return F32_BYTES * (rows * (kept + once) + rope) + dtype_bytes(compute) * rounded;
}

struct shards { /* of one unit, elements, of the rank that has most */
    double whole, params, grads, optimizer;
};

double plan_shard_of(const struct plan_tally *t, enum letter letter, double elems)
{
    return letter == LETTER_N   ? elems
           : letter == LETTER_I ? elems / t->least_group
                                : elems / t->layout.groups.ranks;
}

static struct shards shards_of(const struct plan_tally *t, struct plan_strategy s, double elems)
{
    return (struct shards){elems, plan_shard_of(t, s.params, elems),
                           plan_shard_of(t, s.grads, elems),
                           plan_shard_of(t, s.optimizer, elems)};
}

/* Whether a conversion moves anything on this shape: layout_moves_trim, of groups once seen. */
static int there(const struct plan_tally *t, struct layout_moves m)
{
    return ((m.reduce_across || m.gather_across) && t->layout.groups.count > 1) ||
           ((m.reduce_inside || m.gather_inside) && t->largest_group > 1);
}

/* Partial sums that have no place in the result, of one reduction over one unit. */
static double scratch(const struct plan_tally *t, enum schedule_algo algo, double elems,
                      enum letter to, struct layout_moves m)
{
    double group = plan_shard_of(t, LETTER_I, elems),
           global = plan_shard_of(t, LETTER_G, elems);
    int flat = algo == SCHEDULE_RING && m.reduce_inside && m.reduce_across;

    m.reduce_across &= t->layout.groups.count > 1;
    m.reduce_inside &= t->largest_group > 1;
    if (!(m.reduce_inside || m.reduce_across))
        return 0;
    if (to == LETTER_G)
        return (flat ? elems : m.reduce_across ? group : global) - global;
    return to == LETTER_I && flat ? elems - group : 0;
}

/*
 * Places for gathered units, each as large as the largest: those that gathers go round, and one
 * for each use that is kept.
 */
static double slots(const struct plan_case *c)
{
    double visits = c->model->visits, back = visits - c->model->first_trained;
    double uses = c->accum * (visits + back);
    double ring = c->prefetch + 1.0 < uses ? c->prefetch + 1.0 : uses;

    return ring + (c->keep < back ? c->keep : back);
}

/* What one reduction of all units may have lost, kept by the rank that keeps most. */
static double residual_elems(const struct plan_tally *t, enum schedule_algo algo,
                             struct layout_moves m)
{
    double times[PLAN_SETS][PLAN_LEGS] = {{0}}, all = t->elems[PLAN_TRAINED];
    int even = m.reduce_across && m.gather_across;
    int flat = algo == SCHEDULE_RING && m.reduce_inside == m.reduce_across &&
               m.gather_inside == m.gather_across;

    if (!layout_moves_trim(&t->layout, &m))
        return 0;
    if (m.reduce_across) /* parts of sums, where they leave their group */
        times[PLAN_TRAINED][flat   ? PLAN_RING_REDUCE
                            : even ? PLAN_EVEN_REDUCE
                                   : PLAN_ACROSS_REDUCE] = 1;
    double sent = plan_tally_largest(t, PLAN_RANK_SLOW, times);
    /* Complete sums, where they are given to the other groups. */
    double owned = even ? plan_shard_of(t, LETTER_I, all) / t->layout.groups.count
                        : plan_shard_of(t, LETTER_G, all);
    return sent + (m.gather_across ? owned : 0);
}

/* Elements of the first unit that train. */
static double first_trained(const struct plan_tally *t)
{
    return (double)t->span[t->span_of[0]].elems[PLAN_TRAINED];
}

static double buffer_bytes(const struct plan_case *c, const struct plan_tally *t,
                           enum schedule_algo algo, struct plan_strategy s)
{
    struct shards l = shards_of(t, s, (double)t->largest[PLAN_ALL]);
    struct shards g = shards_of(t, s, (double)t->largest[PLAN_TRAINED]); /* of gradients */
    double w = dtype_bytes(c->wire_type), bytes = 0;
    enum dtype read_type = c->param_type; /* of what a use finds */
    int convert = c->param_type != c->wire_type;
    struct layout_moves micro = layout_moves_micro(s.grads);
    struct layout_moves boundary = layout_moves_sum(s.grads, s.optimizer);
    struct layout_moves sync = layout_moves_copy(s.optimizer, s.params);

    if (!c->model->unit)
        return 0;
    bytes = F32_BYTES * (PLAN_PIECE + 2.0 * c->micro_batch * c->seq); /* tokens and targets */
    if (there(t, layout_moves_copy(s.params, LETTER_N))) {
        struct layout_moves gather = layout_moves_copy(s.params, LETTER_N);
        layout_moves_trim(&t->layout, &gather);
        int apart = convert || (c->slow_params && gather.gather_across);
        bytes += slots(c) * l.whole * w + (apart ? l.params * w : 0);
        read_type = c->wire_type;
    }
    if (read_type != DTYPE_F32) /* the network reads f32: made when a use comes */
        bytes += l.whole * F32_BYTES;
    if (there(t, micro))
        bytes += c->buckets * g.whole * w;
    if (there(t, micro) || c->grad_type != DTYPE_F32)
        bytes += F32_BYTES * (g.whole + (c->model->tied ? first_trained(t) : 0));
    if (there(t, micro))
        bytes += g.grads * w;
    if (there(t, boundary))
        bytes += (g.grads + g.optimizer) * w;
    if (there(t, sync))
        bytes += g.optimizer * w + (convert ? g.params * w : 0);
    for (int i = 0; i < t->spans; i++) {
        double elems = (double)t->span[i].elems[PLAN_TRAINED];
        bytes += w * (scratch(t, algo, elems, s.grads, micro) +
                      scratch(t, algo, elems, s.optimizer, boundary));
    }
    if (c->slow_grads)
        bytes +=
            F32_BYTES * (residual_elems(t, algo, micro) + residual_elems(t, algo, boundary));
    /* At the boundary the gradient takes the optimizer's layout where it lies. */
    double more = plan_shard_of(t, s.optimizer, t->elems[PLAN_TRAINED]) -
                  plan_shard_of(t, s.grads, t->elems[PLAN_TRAINED]);
    return bytes + (more > 0 ? more * dtype_bytes(c->grad_type) : 0);
}

void plan_footprint(const struct plan_case *c, const struct plan_tally *t, struct plan_price *p)
{
    struct plan_strategy s = p->strategy;
    struct plan_memory top = {0};

    for (int r = 0; r < t->kinds; r++) {
        struct plan_memory m = {
            .params = dtype_bytes(c->param_type) * plan_tally_shard(t, PLAN_ALL, s.params, r),
            .grads = dtype_bytes(c->grad_type) * plan_tally_shard(t, PLAN_TRAINED, s.grads, r),
            .optimizer = ADAM_BYTES * plan_tally_shard(t, PLAN_TRAINED, s.optimizer, r),
        };
        m.total = m.params + m.grads + m.optimizer;
        if (m.total > top.total)
            top = m;
    }
    top.activations =
        plan_activation_bytes(c->model, c->micro_batch, c->seq, c->recompute, c->compute_type);
    top.buffers = buffer_bytes(c, t, p->algo, s);
    top.total += top.activations + top.buffers;
    p->memory = top;
    p->feasible = c->memory_bytes <= 0 || top.total <= c->memory_bytes;
}
