/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes micro-steps (the compute lane), in a step and in an evaluation. */
#include "engine/engine_inside.h"

#include "kern/kern_cpu.h"
#include "plan/plan_deal.h"

/* Where the backward of a unit adds its gradient: one buffer per micro-batch, or one for the
   whole micro-step. */
static float *gradient_of(const struct engine *e, const struct engine_unit *u, int micro)
{
    float *first =
        e->model->tied && u == e->unit ? e->buffers.tied_gradient : e->buffers.gradient;

    if (!e->step.space.apart)
        return u->grads;
    return first + (micro < e->step.space.apart ? micro * u->trained : 0);
}

/* This rank's micro-batches before a micro-step. */
static int micros_before(const struct engine *e, int micro)
{
    return e->running == &e->list[ENGINE_EVALUATIONS]
               ? micro
               : plan_count_before(&e->plan->settings, e->micros, micro);
}

/* This rank's micro-batches in a micro-step: none, if the other ranks have more than it. */
static int micros_in(const struct engine *e, const struct step_row *r)
{
    return micros_before(e, r->micro + 1) - micros_before(e, r->micro);
}

/* Converts a micro-step's gradient to its wire or accumulator type: the only place where it is
   rounded. */
static void put_gradient(struct engine *e, void *to, enum dtype type, const float *gradient,
                         int64_t n)
{
    struct kern *k = &e->device.kern;
    const struct plan *p = e->plan;
    int64_t micros = plan_micro_batches(&p->settings, p->groups.ranks);

    if (!e->exact)
        k->op->convert(k, to, type, gradient, DTYPE_F32, n);
    else if (kern_on_grid(to, gradient, n, ENGINE_FIXED_BITS, 0x1p7 / (double)micros))
        e->word.over = 1;
}

static void add_gradient(struct engine *e, void *to, enum dtype type, const float *gradient,
                         int64_t n)
{
    struct kern *k = &e->device.kern;
    double on_grid[512];

    if (!e->exact) {
        k->op->accumulate(k, to, type, gradient, DTYPE_F32, n);
        return;
    }
    for (int64_t i = 0; i < n; i += 512) {
        int64_t part = n - i < 512 ? n - i : 512;
        put_gradient(e, on_grid, DTYPE_F64, gradient + i, part);
        k->op->accumulate(k, (double *)to + i, type, on_grid, DTYPE_F64, part);
    }
}

/* Adds the gradient to the accumulator, or fills a bucket. */
int engine_accumulate(struct engine *e, struct engine_run *run, const struct step_row *r,
                      struct err *err)
{
    struct engine_unit *u = &e->unit[r->unit];
    int micros = micros_in(e, r),
        buffers = micros < e->step.space.apart ? micros : e->step.space.apart;
    struct kern *k = &e->device.kern;

    (void)run;
    (void)err;
    if (buffers == 0 && r->buffer >= 0)
        device_zero(e->device.compute, e->buffers.bucket[r->buffer],
                    u->trained * dtype_bytes(e->reduce_type));
    for (int i = 0; i < buffers; i++) {
        float *gradient = gradient_of(e, u, i);
        if (e->magnitudes)
            k->op->abs(k, gradient, u->trained);
        if (r->buffer < 0)
            add_gradient(e, u->grads, e->grad_type, gradient, u->trained);
        else
            (i ? add_gradient : put_gradient)(e, e->buffers.bucket[r->buffer], e->reduce_type,
                                              gradient, u->trained);
        device_zero(e->device.compute, gradient, u->trained * (int64_t)sizeof *gradient);
    }
    return 0;
}

/* Returns the whole unit in the type that the network reads. */
static const void *params_of(struct engine *e, const struct step_row *r)
{
    const struct engine_unit *u = &e->unit[r->unit];
    int gathered = r->buffer >= 0;
    const void *from = gathered ? e->buffers.slot[r->buffer] : u->params;
    enum dtype type = gathered ? e->seen_type : e->plan->param_type;
    struct kern *k = &e->device.kern;

    if (type == e->step.space.read)
        return from;
    k->op->convert(k, e->buffers.read, e->step.space.read, from, type, u->elems);
    return e->buffers.read;
}

static void use_micro(struct engine *e, int micro)
{
    net_use(&e->net, micro);
    if (e->losses)
        e->device.kern.losses =
            e->losses + (int64_t)micro * e->plan->micro_batch * e->plan->seq;
}

/* Holds the logits of one micro-batch at a time: with several, the head's forward runs in its
   backward. */
int engine_forward(struct engine *e, struct engine_run *run, const struct step_row *r,
                   struct err *err)
{
    int micros = micros_in(e, r), head = r->visit == e->model->visits - 1;
    const void *params = micros == 0 || (head && micros > 1) ? NULL : params_of(e, r);

    (void)run;
    (void)err;
    for (int i = 0; params && i < micros; i++) {
        use_micro(e, i);
        net_forward(&e->net, r->visit, params);
    }
    return 0;
}

int engine_backward(struct engine *e, struct engine_run *run, const struct step_row *r,
                    struct err *err)
{
    int micros = micros_in(e, r), head = r->visit == e->model->visits - 1;
    const void *params = micros > 0 ? params_of(e, r) : NULL;

    (void)err;
    for (int i = 0; i < micros; i++) {
        use_micro(e, i);
        if (head && i > 0)
            engine_end_micro(e, run);
        if (head && micros > 1)
            net_forward(&e->net, r->visit, params);
        net_backward(&e->net, r->visit, params, gradient_of(e, &e->unit[r->unit], i));
    }
    return 0;
}

void engine_end_micro(struct engine *e, struct engine_run *run)
{
    struct err kept; /* the device keeps the error */
    double loss = 0;

    if (!run->begun)
        return;
    (void)net_loss(&e->net, &loss, &kept);
    run->loss += loss;
    fixed_add(&e->word.fixed_loss, loss);
    if (run->report)
        run->report->flops += net_flops(&e->net);
}

/* Gets the micro-step's micro-batches from the caller, replacing the last ones. */
int engine_begin(struct engine *e, struct engine_run *run, const struct step_row *r,
                 struct err *err)
{
    (void)err;
    if (r->micro > 0)
        engine_end_micro(e, run);
    for (int i = 0; r->micro == 0 && run->report && i < e->model->units; i++)
        device_zero(e->device.compute, e->unit[i].grads,
                    e->unit[i].share[ENGINE_GRADS].elems * dtype_bytes(e->grad_type));
    int64_t elems = (int64_t)e->plan->micro_batch * e->plan->seq;
    int micros = micros_in(e, r), first = run->first + micros_before(e, r->micro);
    run->begun = micros > 0;
    for (int i = 0; i < micros; i++) {
        int32_t *tokens = e->tokens + i * elems, *targets = e->targets + i * elems;
        run->batch(run->arg, first + i, tokens, targets);
        for (int64_t k = 0; k < elems; k++)
            e->word.counted += targets[k] >= 0;
        use_micro(e, i);
        net_begin(&e->net, tokens, targets, run->scale);
    }
    return 0;
}

int engine_evaluate(struct engine *e, engine_batch batch, void *arg, int micros, double *loss,
                    struct err *err)
{
    /* micro-batches in one list, whose gathers run ahead of each other */
    enum { TOGETHER = 64 };
    int rc = 0, traced = e->record.on;
    struct engine_run run = {.batch = batch, .arg = arg};

    e->record.on = 0; /* an evaluation is not traced */
    for (int part; rc == 0 && run.first < micros; run.first += part) {
        part = micros - run.first < TOGETHER ? micros - run.first : TOGETHER;
        rc = engine_run(e, engine_list(e, ENGINE_EVALUATIONS, part), &run, err);
        if (rc == 0)
            engine_end_micro(e, &run);
    }
    *loss = run.loss;
    e->record.on = traced;
    engine_wait_compute(e);
    return rc ? rc : engine_device_state(e, err);
}

int engine_step(struct engine *e, engine_batch batch, void *arg,
                const struct engine_optim *optim, struct engine_report *report, struct err *err)
{
    const struct plan *p = e->plan;
    /* The gradient is averaged over all tokens of the global step; the number of counted
       targets is known only at its end (mean). */
    double tokens = (double)plan_sequences(&p->settings, p->groups.ranks) * p->seq;
    int early = optim && optim->clip <= 0 && optim->take_all && !e->masked;
    int ends = e->periods && optim && optim->ends;
    enum engine_lists which = ends    ? (early ? ENGINE_ENDS_EARLY : ENGINE_ENDS)
                              : early ? ENGINE_EARLY
                                      : ENGINE_STEPS;
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
    if (e->periods && optim)
        e->outer = (struct kern_outer){.share = 1.0 / p->groups.count,
                                       .lr = optim->outer_lr,
                                       .momentum = optim->outer_momentum};
    int rc = engine_run(e, engine_list(e, which, e->step.shape.micros), &run, err);
    engine_wait_compute(e);
    engine_trace_end(e);
    report->step_s = e->record.end_s - e->record.start_s;
    for (int lane = 0; lane < STEP_COMPUTE; lane++)
        report->exposed_s += report->wait_s[lane] = e->wait_s[lane];
    report->update_s = e->update_s;
    report->idle_s = e->idle_s;
    report->compute_s = report->step_s - report->exposed_s - e->idle_s;
    return rc;
}
