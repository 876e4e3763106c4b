/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the time of computing: matrix products by the rate of products, everything else by
 * the bytes that pass through memory (net/, engine/engine_step.c, engine/engine_update.c).
 */
#include "plan/plan_cost.h"

#include <math.h>

#include "kern/kern_kind.h"

enum {
    /* AdamW on one element: the moments 3 + 4, their corrections 2, root, eps, quotient 3,
       decay and step 4. */
    ADAM_FLOPS = 16,
    F32_BYTES = 4
};

static double flops_s(const struct plan_cost *b, double flops)
{
    double known = topo_flops_in(b->at->topo, b->at->compute_type);

    /* A type that was not measured gets the other one's rate, and rates_of names that. */
    known = known > 0 ? known : b->at->topo->flops;
    return known > 0 ? flops / known : 0;
}

enum use { EMBEDDING, LAYER, LAST_LAYER, HEAD };

static enum use use_of(const struct model *m, int visit)
{
    return visit == 0               ? EMBEDDING
           : visit == m->visits - 1 ? HEAD
           : visit == m->visits - 2 ? LAST_LAYER
                                    : LAYER;
}

/*
 * Floating-point operations of a use; `again`: those that a backward computes once more.  Not
 * the head's, nor the last layer's, whose forward has just run; nor the last product of the
 * other layers, (ffn, hidden), whose result is kept as the next layer's input.  Attention
 * counts as the whole square: kernels skip the masked half, and reach about half of the rate of
 * products (tests/gpu/FIGURES.md), which comes to the same.
 */
static double use_flops(const struct plan_cost *b, enum use use, int again)
{
    const struct model *m = b->at->model;
    double rows = (double)b->at->micro_batch * b->at->seq, width = (double)m->hidden;
    double head = 2 * rows * width * (double)m->vocab, layers = m->layers ? m->layers : 1;
    double scores = 4 * rows * b->at->seq * (double)(m->heads * m->head_dim);
    double layer = (b->traffic->product_flops * rows - head) / layers + scores;

    if (use == EMBEDDING || (again && use != LAYER))
        return 0;
    if (use == HEAD)
        return head;
    return again ? layer - 2 * rows * width * (double)m->ffn : layer;
}

/*
 * Numbers that pass through memory outside of products, per token.  Forward of a layer: two
 * norms (read, write), two residual sums (two read, one written), rotation of queries and keys,
 * SwiGLU (two read, one written).  Backward: norms and sums once more with the values they
 * keep, rotation, SwiGLU (three read, two written).  Head: the softmax reads the logits three
 * times, its gradient twice.  Embedding: a row read, a row written or added to.
 */
static double use_numbers(const struct model *m, enum use use, int back)
{
    double c = (double)m->hidden, f = (double)m->ffn, v = (double)m->vocab;
    double qk = (double)((m->heads + m->kv_heads) * m->head_dim);

    if (use == EMBEDDING)
        return back ? 3 * c : 2 * c;
    if (use == HEAD)
        return back ? 2 * v + 3 * c : 3 * v + 2 * c;
    return back ? 12 * c + 2 * qk + 5 * f : 10 * c + 2 * qk + 3 * f;
}

static double update_s(const struct plan_cost *b, int span)
{
    const struct plan_case *c = b->at;
    struct plan_strategy s = b->strategy;
    double elems = (double)b->traffic->span[span].elems[PLAN_TRAINED];
    double optim = plan_shard_of(b->traffic, s.optimizer, elems), g = dtype_bytes(c->grad_type);
    double grads = plan_shard_of(b->traffic, s.grads, elems), bytes;
    double state = (double)plan_optimizer_bytes(&c->settings, MOMENTS_BLOCK) / MOMENTS_BLOCK;

    if (!(c->topo->flops > 0) || plan_is_free(b, PLAN_UPDATE))
        return 0;
    /* Read for the norm and for the update; and cleared. */
    bytes = optim * (2 * g + 2 * state) + grads * g;
    if (!b->step.shape.has[STEP_SYNC]) /* parameters are slices of the master */
        bytes += plan_shard_of(b->traffic, s.params, elems) *
                 (F32_BYTES + dtype_bytes(c->param_type));
    return c->slowest * (flops_s(b, ADAM_FLOPS * optim) + plan_memory_s(b, bytes));
}

/* The ranks that wait for each other in each micro-step. */
static enum plan_pace pace_of(const struct plan_cost *b)
{
    const unsigned across = SCHEDULE_REDUCE_ACROSS | SCHEDULE_GATHER_ACROSS;
    unsigned phases = b->step.lane[STEP_GATHER].trimmed | b->step.lane[STEP_REDUCE].trimmed;

    return !phases ? PLAN_ALONE : phases & across ? PLAN_WITH_ALL : PLAN_IN_GROUP;
}

static void plan_work_of(const struct plan_cost *b, int visit, int span, struct plan_work *out)
{
    const struct plan_case *c = b->at;
    const struct plan_span *at = &b->traffic->span[span];
    double rows = (double)c->micro_batch * c->seq, elems = (double)at->elems[PLAN_ALL];
    double trained = (double)at->elems[PLAN_TRAINED], w = dtype_bytes(c->wire_type);
    const struct step_space *s = &b->step.space;
    /* Convert a parameter whose type differs from the one that the network reads. */
    enum dtype type = s->has[STEP_GATHER] ? s->wire : s->param;
    double g = dtype_bytes(c->grad_type);
    double read = type == s->read ? 0 : elems * (dtype_bytes(type) + dtype_bytes(s->read));
    /* A micro-step of ranks that wait for each other; what is done once in it counts less. */
    double micros = c->pace[pace_of(b)], once = fmin(micros, c->slowest);
    double act = dtype_bytes(kern_kind_act(c->device, c->compute_type));

    *out = (struct plan_work){.update_s = update_s(b, span)};
    if (!(c->topo->flops > 0) || plan_is_free(b, PLAN_COMPUTE))
        return;
    enum use use = use_of(c->model, visit);
    int layers = c->model->unit != NULL; /* 0: each parameter is multiplied by each token */
    double flops = layers ? use_flops(b, use, 0) : 2 * rows * elems;
    double there = layers ? use_numbers(c->model, use, 0) : 0;
    double back = layers ? use_numbers(c->model, use, 1) : 0;
    /* In a sparse model everything except masks trains. */
    double part = c->model->sparse.share > 0 ? 1 : elems > 0 ? trained / elems : 0;
    rows *= micros;
    flops *= micros;
    out->forward_s = flops_s(b, flops) + plan_memory_s(b, once * read + act * rows * there);
    /* Gradients of activations, and of the trained weights. */
    out->backward_s = flops_s(b, flops * (1 + part));
    out->backward_s += plan_memory_s(b, once * read + act * rows * back);
    if (c->recompute)
        out->backward_s += micros * flops_s(b, use_flops(b, use, 1));
    /* A separate gradient is read, written elsewhere or added, and cleared. */
    if (b->step.shape.has[STEP_REDUCE])
        out->add_s = once * plan_memory_s(b, trained * (2 * F32_BYTES + w));
    else if (c->grad_type != DTYPE_F32)
        out->add_s = once * plan_memory_s(b, trained * (2 * F32_BYTES + 2 * g));
}

/*
 * Seconds that computing loses to the gather that a use needs.  A gather across is in flight as
 * long as the ports need, and is priced by the loss measured there; its leg inside is included.
 */
static double gather_lost_s(const struct plan_cost *b)
{
    const struct topo *t = b->at->topo;
    unsigned phases = b->step.lane[STEP_GATHER].trimmed;
    int across = (phases & SCHEDULE_GATHER_ACROSS) != 0;
    double lost = 0;

    if (!phases || !(t->flops > 0) || plan_is_free(b, PLAN_COMPUTE))
        return 0;
    if (plan_is_free(b, across ? PLAN_SLOW : PLAN_FAST))
        return 0;
    for (int l = across ? 1 : 0; l < (across ? t->levels : 1); l++)
        lost = fmax(lost, t->level[l].use_lost_s);
    return lost;
}

void plan_works_of(const struct plan_cost *b, struct plan_work *out)
{
    const struct plan_traffic *t = b->traffic;
    double lost = gather_lost_s(b);

    for (int v = 0; v < t->visits; v++) {
        int alike = v > 0 && t->span_of[v] == t->span_of[v - 1] &&
                    use_of(b->at->model, v) == use_of(b->at->model, v - 1);
        if (alike)
            out[v] = out[v - 1];
        else
            plan_work_of(b, v, t->span_of[v], &out[v]);
    }
    for (int v = 0; v < t->visits; v++) {
        int kept = v >= t->visits - b->at->keep; /* its backward finds the unit still
                                                    gathered */
        out[v].forward_s += lost;
        out[v].backward_s += kept ? 0 : lost;
    }
}
