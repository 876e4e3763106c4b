/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PaRO step (paro.md section 4).  Per micro-step the units are visited forward and
 * backward;
 *
 *     gathers   [u0][u1][u2] ...        `prefetch` units ahead of the use
 *     compute        [u0][u1][u2] ... [u2][u1][u0]
 *     reduces                             [u2][u1][u0]        behind the backward
 *
 * and in the last micro-step each unit's accumulated gradient goes on to the optimizer's layout
 * at once, while the backward of the units before it still runs.  Which of these move anything
 * is told by e->there: no strategy has code of its own.
 */
#include "engine/engine_inside.h"

#include <string.h>

#include "base/tick.h"
#include "kern/kern_cpu.h"

int engine_wait(struct engine *e, struct stream *s, int64_t ticket, struct err *err)
{
    if (stream_done(s, ticket))
        return 0;
    double start = tick_now_s();
    int rc = stream_wait(s, ticket, err);
    e->exposed_s += tick_now_s() - start;
    return rc;
}

static int visit_of_use(const struct engine *e, int64_t use)
{
    int at = (int)(use % (2 * e->model->visits));

    return at < e->model->visits ? at : 2 * e->model->visits - 1 - at;
}

static struct engine_unit *unit_of_use(struct engine *e, int64_t use)
{
    return &e->unit[model_unit_of_visit(e->model, visit_of_use(e, use))];
}

static void push_gather(struct engine *e, int64_t use)
{
    struct engine_slot *slot = &e->slot[use % e->slots];
    struct engine_unit *u = unit_of_use(e, use);
    int convert = e->plan->param_type != e->plan->wire_type;

    slot->move = (struct engine_move){
        .call = {&u->size->handle[ENGINE_GATHER], convert ? e->gather_send : u->params,
                 slot->recv},
        .wire = e->plan->wire_type,
        .src = u->params,
        .src_type = e->plan->param_type,
        .src_elems = convert ? u->params_elems : 0,
    };
    slot->ticket = engine_move_push(e->gathers, &slot->move);
}

static void begin_uses(struct engine *e)
{
    e->use = 0;
    for (int64_t i = 0; e->there[ENGINE_GATHER] && i < e->slots; i++)
        push_gather(e, i);
}

/* The whole unit in f32, for the visit at hand. */
static const float *acquire(struct engine *e, struct err *err)
{
    struct engine_slot *slot = &e->slot[e->use % e->slots];
    struct engine_unit *u = unit_of_use(e, e->use);

    if (e->there[ENGINE_GATHER]) {
        if (engine_wait(e, e->gathers, slot->ticket, err))
            return NULL;
        if (slot->full != slot->recv)
            dtype_convert(slot->full, DTYPE_F32, slot->recv, e->plan->wire_type, u->elems);
        return slot->full;
    }
    if (engine_wait(e, e->gathers, u->synced, err))
        return NULL;
    if (e->plan->param_type == DTYPE_F32)
        return u->params;
    dtype_convert(slot->full, DTYPE_F32, u->params, e->plan->param_type, u->elems);
    return slot->full;
}

static void release(struct engine *e)
{
    int64_t next = e->use++ + e->slots;

    if (e->there[ENGINE_GATHER] && next < e->uses)
        push_gather(e, next);
}

/* Where the backward of a unit adds its gradient. */
static float *gradient_of(struct engine *e, struct engine_unit *u)
{
    if (!engine_apart(e))
        return u->grads;
    return e->model->tied && u == e->unit ? e->tied_gradient : e->gradient;
}

/* A micro-step's gradient of the unit leaves for the accumulator. */
static int accumulate(struct engine *e, struct engine_unit *u, struct err *err)
{
    float *gradient = gradient_of(e, u);

    if (!engine_apart(e))
        return 0;
    if (!e->there[ENGINE_MICRO]) {
        engine_accumulate(u->grads, e->plan->grad_type, gradient, DTYPE_F32, u->elems);
    } else {
        struct engine_bucket *b = &e->bucket[e->next_bucket];
        e->next_bucket = (e->next_bucket + 1) % ENGINE_BUCKETS;
        if (engine_wait(e, e->reduces, b->ticket, err))
            return -1;
        dtype_convert(b->send, e->plan->wire_type, gradient, DTYPE_F32, u->elems);
        b->move = (struct engine_move){
            .call = {&u->size->handle[ENGINE_MICRO], b->send, e->reduce_recv},
            .wire = e->plan->wire_type,
            .dst = u->grads,
            .dst_type = e->plan->grad_type,
            .dst_elems = u->grads_elems,
            .add = 1,
        };
        b->ticket = engine_move_push(e->reduces, &b->move);
    }
    memset(gradient, 0, (size_t)u->elems * sizeof *gradient);
    return 0;
}

/* The accumulated gradient goes from its layout to the optimizer's, in place. */
static void push_boundary(struct engine *e, struct engine_unit *u)
{
    if (!e->there[ENGINE_BOUNDARY])
        return;
    u->boundary = (struct engine_move){
        .call = {&u->size->handle[ENGINE_BOUNDARY], e->reduce_send, e->reduce_recv},
        .wire = e->plan->wire_type,
        .src = u->grads,
        .src_type = e->plan->grad_type,
        .src_elems = u->grads_elems,
        .dst = u->grads,
        .dst_type = e->plan->grad_type,
        .dst_elems = u->optim_elems,
    };
    engine_move_push(e->reduces, &u->boundary);
}

static int backward(struct engine *e, int last, struct err *err)
{
    for (int v = e->model->visits - 1; v >= 0; v--) {
        int unit = model_unit_of_visit(e->model, v);
        struct engine_unit *u = &e->unit[unit];
        const float *params = acquire(e, err);
        if (!params)
            return -1;
        net_backward(&e->net, v, params, gradient_of(e, u));
        release(e);
        if (e->model->tied && unit == 0 && v > 0)
            continue; /* its second use in the backward is still to come */
        if (accumulate(e, u, err))
            return -1;
        if (last)
            push_boundary(e, u);
    }
    return 0;
}

static int micro_step(struct engine *e, int micro, double *loss_sum, struct err *err)
{
    const struct plan *p = e->plan;
    /* The one place where the gradient is averaged: by all tokens of the global step. */
    double tokens = (double)p->groups.ranks * p->accum * p->micro_batch * p->seq;

    net_begin(&e->net, e->tokens, e->targets, (float)(1 / tokens));
    for (int v = 0; v < e->model->visits; v++) {
        const float *params = acquire(e, err);
        if (!params)
            return -1;
        net_forward(&e->net, v, params);
        release(e);
    }
    *loss_sum += net_loss(&e->net);
    return backward(e, micro == p->accum - 1, err);
}

int engine_step(struct engine *e, engine_batch batch, void *arg,
                const struct engine_optim *optim, struct engine_report *report, struct err *err)
{
    double start = tick_now_s(), loss_sum = 0;
    int g = dtype_bytes(e->plan->grad_type), rc = 0;

    *report = (struct engine_report){0};
    e->exposed_s = 0;
    for (int i = 0; i < e->model->units; i++)
        memset(e->unit[i].grads, 0, (size_t)(e->unit[i].grads_elems * g));
    begin_uses(e);
    for (int i = 0; rc == 0 && i < e->plan->accum; i++) {
        batch(arg, i, e->tokens, e->targets);
        rc = micro_step(e, i, &loss_sum, err);
        report->flops += net_flops(&e->net);
    }
    if (rc == 0) {
        double wait = tick_now_s();
        rc = stream_wait_all(e->reduces, err);
        e->exposed_s += tick_now_s() - wait;
    }
    if (rc == 0)
        rc = engine_update(e, optim, loss_sum, report, err);
    report->step_s = tick_now_s() - start;
    report->exposed_s = e->exposed_s;
    report->compute_s = report->step_s - e->exposed_s;
    return rc;
}
