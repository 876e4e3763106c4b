/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PaRO step (paro-method(7), STEP).  Per micro-step the units are visited forward and
 * backward;
 *
 *     gathers   [u0][u1][u2] ...        `prefetch` units ahead of the use
 *     compute        [u0][u1][u2] ... [u2][u1][u0]
 *     reduces                             [u2][u1][u0]        behind the backward
 *     boundaries                              [u2][u1][u0]    of the last micro-step
 *     syncs     [u1][u2] ...                                  of the update before
 *
 * In the last micro-step each unit's accumulated gradient goes on to the optimizer's layout at
 * once, while the backward of the units before it still runs.  Which of these move anything
 * is told by e->there: no strategy has code of its own.
 */
#include "engine/engine_inside.h"

#include "base/tick.h"
#include "kern/kern_cpu.h"

int engine_wait(struct engine *e, struct stream *s, int64_t ticket, int event, struct err *err)
{
    engine_trace_wait(e, event);
    if (stream_done(s, ticket))
        return 0;
    double start = tick_now_s();
    int rc = stream_wait(s, ticket, err);
    e->exposed_s += tick_now_s() - start;
    engine_trace_more(e);
    return rc;
}

/* Where the backward of a unit adds its gradient. */
static float *gradient_of(const struct engine *e, const struct engine_unit *u)
{
    if (!engine_apart(e))
        return u->grads;
    return e->model->tied && u == e->unit ? e->tied_gradient : e->gradient;
}

/* A micro-step's gradient as it travels, or is added: the one place where it is rounded. */
static void put_gradient(struct engine *e, void *to, enum dtype type, const float *gradient,
                         int64_t n)
{
    struct kern *k = &e->device.kern;
    double tokens = (double)e->plan->groups.ranks * e->plan->accum;

    if (!e->exact)
        k->op->convert(k, to, type, gradient, DTYPE_F32, n);
    else if (kern_on_grid(to, gradient, n, ENGINE_FIXED_BITS, 0x1p7 / tokens))
        e->word.over = 1;
}

static void add_here(struct engine *e, struct engine_unit *u, const float *gradient)
{
    enum dtype type = e->exact ? DTYPE_F64 : DTYPE_F32;
    struct kern *k = &e->device.kern;
    double on_grid[512];

    if (!e->exact) {
        k->op->accumulate(k, u->grads, e->grad_type, gradient, type, u->trained);
        return;
    }
    for (int64_t i = 0; i < u->trained; i += 512) {
        int64_t part = u->trained - i < 512 ? u->trained - i : 512;
        put_gradient(e, on_grid, type, gradient + i, part);
        k->op->accumulate(k, (double *)u->grads + i, e->grad_type, on_grid, type, part);
    }
}

/* A micro-step's gradient of the unit leaves for the accumulator. */
static int accumulate(struct engine *e, struct engine_unit *u, int micro, struct err *err)
{
    float *gradient = gradient_of(e, u);
    struct kern *k = &e->device.kern;

    if (!engine_apart(e))
        return 0;
    if (e->magnitudes)
        k->op->abs(k, gradient, u->trained);
    if (!e->there[ENGINE_MICRO]) {
        add_here(e, u, gradient);
        engine_trace_compute(e, ENGINE_ADDED, (int)(u - e->unit), micro);
    } else {
        struct engine_bucket *b = &e->bucket[e->next_bucket];
        e->next_bucket = (e->next_bucket + 1) % e->buckets;
        if (engine_wait(e, e->reduces, b->ticket, b->event, err))
            return -1;
        put_gradient(e, b->send, e->reduce_type, gradient, u->trained);
        device_record(e->device.compute, b->packed);
        engine_trace_compute(e, ENGINE_ADDED, (int)(u - e->unit), micro);
        b->move = (struct engine_move){
            .after = {b->packed},
            .call = {.handle = &u->size->handle[ENGINE_MICRO],
                     .in = b->send,
                     .out = e->reduce_recv,
                     .residual = u->residual[ENGINE_MICRO]},
            .wire = e->reduce_type,
            .dst = u->grads,
            .dst_type = e->grad_type,
            .dst_elems = u->grads_elems,
            .add = 1,
        };
        b->event = engine_trace_move(e, &b->move, ENGINE_REDUCED, ENGINE_LANE_REDUCES,
                                     (int)(u - e->unit), micro);
        b->ticket = engine_move_push(e, ENGINE_MICRO, &b->move);
        u->last = e->reduces;
        u->reduced = b->ticket;
        u->reduced_event = b->event;
    }
    device_zero(e->device.compute, gradient, u->trained * (int64_t)sizeof *gradient);
    engine_trace_more(e);
    return 0;
}

/* The accumulated gradient goes from its layout to the optimizer's, in place. */
static void push_boundary(struct engine *e, struct engine_unit *u)
{
    if (!e->there[ENGINE_BOUNDARY])
        return;
    device_record(e->device.compute, u->added);
    u->boundary = (struct engine_move){
        .after = {u->added},
        .call = {.handle = &u->size->handle[ENGINE_BOUNDARY],
                 .in = e->boundary_send,
                 .out = e->boundary_recv,
                 .residual = u->residual[ENGINE_BOUNDARY],
                 .round = e->coded[ENGINE_BOUNDARY]},
        .wire = e->reduce_type,
        .src = u->grads,
        .src_type = e->grad_type,
        .src_elems = u->grads_elems,
        .dst = u->grads,
        .dst_type = e->grad_type,
        .dst_elems = u->optim_elems,
        .behind = e->there[ENGINE_MICRO] ? e->reduces : NULL,
        .behind_ticket = u->reduced,
        .behind_event = u->reduced_event,
    };
    u->last = e->boundaries;
    u->reduced_event = engine_trace_move(e, &u->boundary, ENGINE_CONVERTED,
                                         ENGINE_LANE_BOUNDARIES, (int)(u - e->unit), -1);
    u->reduced = engine_move_push(e, ENGINE_BOUNDARY, &u->boundary);
}

static int backward(struct engine *e, int micro, struct err *err)
{
    for (int v = e->model->visits - 1; v >= e->model->first_trained; v--) {
        int unit = model_unit_of_visit(e->model, v);
        struct engine_unit *u = &e->unit[unit];
        const void *params = engine_uses_take(e, err);
        if (!params)
            return -1;
        net_backward(&e->net, v, params, gradient_of(e, u));
        engine_trace_compute(e, ENGINE_BACKWARD, unit, micro);
        engine_uses_give(e);
        if (!u->trained || (e->model->tied && unit == 0 && v > 0))
            continue; /* a tied unit's second use in the backward is still to come */
        if (accumulate(e, u, micro, err))
            return -1;
        if (micro == e->plan->accum - 1)
            push_boundary(e, u);
    }
    return 0;
}

static int forward(struct engine *e, int micro, struct err *err)
{
    for (int v = 0; v < e->model->visits; v++) {
        const void *params = engine_uses_take(e, err);
        if (!params)
            return -1;
        net_forward(&e->net, v, params);
        engine_trace_compute(e, ENGINE_FORWARD, model_unit_of_visit(e->model, v), micro);
        engine_uses_give(e);
    }
    return 0;
}

/* A micro-batch of the caller's, in the place of the last one, whose loss has been told. */
static void begin_micro(struct engine *e, engine_batch batch, void *arg, int micro, float scale)
{
    batch(arg, micro, e->tokens, e->targets);
    net_begin(&e->net, e->tokens, e->targets, scale);
}

/* Of the forward asked for last; waits for it. */
static double loss_of(struct engine *e)
{
    struct err kept; /* by the device */
    double loss = 0;

    (void)net_loss(&e->net, &loss, &kept);
    return loss;
}

static int micro_step(struct engine *e, engine_batch batch, void *arg, int micro,
                      struct err *err)
{
    const struct plan *p = e->plan;
    /* The one place where the gradient is averaged: by all tokens of the global step. */
    double tokens = (double)p->groups.ranks * p->accum * p->micro_batch * p->seq;

    begin_micro(e, batch, arg, micro, (float)(1 / tokens));
    engine_trace_compute(e, ENGINE_BEGAN, -1, micro);
    if (forward(e, micro, err) || backward(e, micro, err))
        return -1;
    double loss = loss_of(e);
    e->word.loss += loss;
    fixed_add(&e->word.fixed_loss, loss);
    return 0;
}

int engine_evaluate(struct engine *e, engine_batch batch, void *arg, int micros, double *loss,
                    struct err *err)
{
    int rc = 0, traced = e->record.on;

    *loss = 0;
    e->record.on = 0; /* not of any step */
    engine_uses_begin(e, micros, 0);
    for (int i = 0; rc == 0 && i < micros; i++) {
        begin_micro(e, batch, arg, i, 0);
        rc = forward(e, i, err);
        if (rc == 0)
            *loss += loss_of(e);
    }
    e->record.on = traced;
    engine_settle(e);
    return rc ? rc : engine_device_state(e, err);
}

static void begin_gradients(struct engine *e)
{
    int g = dtype_bytes(e->grad_type);

    for (int i = 0; i < e->model->units; i++) {
        struct engine_unit *u = &e->unit[i];
        u->last = e->reduces;
        u->reduced = 0;
        u->reduced_event = -1;
        device_zero(e->device.compute, u->grads, u->grads_elems * g);
    }
}

int engine_step(struct engine *e, engine_batch batch, void *arg,
                const struct engine_optim *optim, struct engine_report *report, struct err *err)
{
    int rc = 0;

    *report = (struct engine_report){0};
    e->exposed_s = e->idle_s = 0;
    e->word = (struct engine_word){0};
    engine_trace_begin(e);
    begin_gradients(e);
    engine_trace_compute(e, ENGINE_BEGAN, -1, -1);
    engine_uses_begin(e, e->plan->accum, 1);
    for (int i = 0; rc == 0 && i < e->plan->accum; i++) {
        rc = micro_step(e, batch, arg, i, err);
        report->flops += net_flops(&e->net);
    }
    if (rc == 0)
        rc = engine_update(e, optim, report, err);
    engine_settle(e);
    engine_trace_end(e);
    report->step_s = e->record.end_s - e->record.start_s;
    report->exposed_s = e->exposed_s;
    report->idle_s = e->idle_s;
    report->compute_s = report->step_s - e->exposed_s - e->idle_s;
    return rc;
}
