/* SPDX-License-Identifier: BSD-3-Clause */
/* What the compute lane does in a micro-step, and the step and the evaluation that run it. */
#include "engine/engine_inside.h"

#include "kern/kern_cpu.h"

/* Where the backward of a unit adds its gradient. */
static float *gradient_of(const struct engine *e, const struct engine_unit *u)
{
    if (!e->space.apart)
        return u->grads;
    return e->model->tied && u == e->unit ? e->buffers.tied_gradient : e->buffers.gradient;
}

/* A micro-step's gradient as it travels, or is added: the one place where it is rounded. */
static void put_gradient(struct engine *e, void *to, enum dtype type, const float *gradient,
                         int64_t n)
{
    struct kern *k = &e->device.kern;
    const struct plan *p = e->plan;
    int64_t b = p->micro_batch,
            micros = (plan_sequences(&p->settings, p->groups.ranks) + b - 1) / b;

    if (!e->exact)
        k->op->convert(k, to, type, gradient, DTYPE_F32, n);
    else if (kern_on_grid(to, gradient, n, ENGINE_FIXED_BITS, 0x1p7 / (double)micros))
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

/* The gradient is added where it is accumulated, or fills a bucket. */
int engine_accumulate(struct engine *e, struct engine_run *run, const struct step_row *r,
                      struct err *err)
{
    struct engine_unit *u = &e->unit[r->unit];
    float *gradient = gradient_of(e, u);
    struct kern *k = &e->device.kern;

    (void)run;
    (void)err;
    if (!e->space.apart)
        return 0;
    if (e->magnitudes)
        k->op->abs(k, gradient, u->trained);
    if (r->buffer < 0)
        add_here(e, u, gradient);
    else
        put_gradient(e, e->buffers.bucket[r->buffer], e->reduce_type, gradient, u->trained);
    device_zero(e->device.compute, gradient, u->trained * (int64_t)sizeof *gradient);
    return 0;
}

/* The whole unit as the network reads it. */
static const void *params_of(struct engine *e, const struct step_row *r)
{
    const struct engine_unit *u = &e->unit[r->unit];
    int gathered = r->buffer >= 0;
    const void *from = gathered ? e->buffers.slot[r->buffer] : u->params;
    enum dtype type = gathered ? e->plan->wire_type : e->plan->param_type;
    struct kern *k = &e->device.kern;

    if (type == e->space.read)
        return from;
    k->op->convert(k, e->buffers.read, e->space.read, from, type, u->elems);
    return e->buffers.read;
}

int engine_forward(struct engine *e, struct engine_run *run, const struct step_row *r,
                   struct err *err)
{
    (void)run;
    (void)err;
    net_forward(&e->net, r->visit, params_of(e, r));
    return 0;
}

int engine_backward(struct engine *e, struct engine_run *run, const struct step_row *r,
                    struct err *err)
{
    (void)run;
    (void)err;
    net_backward(&e->net, r->visit, params_of(e, r), gradient_of(e, &e->unit[r->unit]));
    return 0;
}

void engine_end_micro(struct engine *e, struct engine_run *run)
{
    struct err kept; /* by the device */
    double loss = 0;

    (void)net_loss(&e->net, &loss, &kept);
    run->loss += loss;
    fixed_add(&e->word.fixed_loss, loss);
    if (run->report)
        run->report->flops += net_flops(&e->net);
}

/* A micro-batch of the caller's, in the place of the last one. */
int engine_begin(struct engine *e, struct engine_run *run, const struct step_row *r,
                 struct err *err)
{
    (void)err;
    if (r->micro > 0)
        engine_end_micro(e, run);
    for (int i = 0; r->micro == 0 && run->report && i < e->model->units; i++)
        device_zero(e->device.compute, e->unit[i].grads,
                    e->unit[i].share[ENGINE_GRADS].elems * dtype_bytes(e->grad_type));
    run->batch(run->arg, run->first + r->micro, e->tokens, e->targets);
    for (int64_t i = 0; i < (int64_t)e->plan->micro_batch * e->plan->seq; i++)
        e->word.counted += e->targets[i] >= 0;
    net_begin(&e->net, e->tokens, e->targets, run->scale);
    return 0;
}

int engine_evaluate(struct engine *e, engine_batch batch, void *arg, int micros, double *loss,
                    struct err *err)
{
    enum { TOGETHER = 64 }; /* micro-batches whose gathers run ahead of each other */
    int rc = 0, traced = e->record.on;
    struct engine_run run = {.batch = batch, .arg = arg};

    e->record.on = 0; /* not of any step */
    for (int part; rc == 0 && run.first < micros; run.first += part) {
        part = micros - run.first < TOGETHER ? micros - run.first : TOGETHER;
        rc = engine_run(e, engine_list(e, ENGINE_EVALUATIONS, part), &run, err);
        if (rc == 0)
            engine_end_micro(e, &run);
    }
    *loss = run.loss;
    e->record.on = traced;
    engine_settle(e);
    return rc ? rc : engine_device_state(e, err);
}

int engine_step(struct engine *e, engine_batch batch, void *arg,
                const struct engine_optim *optim, struct engine_report *report, struct err *err)
{
    const struct plan *p = e->plan;
    /* The gradient is averaged by all tokens of the global step; how many targets count is
       known at its end (mean). */
    double tokens = (double)plan_sequences(&p->settings, p->groups.ranks) * p->seq;
    int early = optim && optim->clip <= 0 && optim->take_all && !e->masked;
    struct engine_run run = {.batch = batch,
                             .arg = arg,
                             .optim = optim,
                             .report = report,
                             .scale = (float)(1 / tokens),
                             .update = 1};

    *report = (struct engine_report){0};
    memset(e->wait_s, 0, sizeof e->wait_s);
    e->update_s = e->idle_s = 0;
    e->mean = 1;
    e->word = (struct engine_word){0};
    engine_trace_begin(e);
    int rc =
        engine_run(e, engine_list(e, early ? ENGINE_EARLY : ENGINE_STEPS, p->accum), &run, err);
    engine_settle(e);
    engine_trace_end(e);
    report->step_s = e->record.end_s - e->record.start_s;
    for (int lane = 0; lane < STEP_COMPUTE; lane++)
        report->exposed_s += report->wait_s[lane] = e->wait_s[lane];
    report->update_s = e->update_s;
    report->idle_s = e->idle_s;
    report->compute_s = report->step_s - report->exposed_s - e->idle_s;
    return rc;
}
