/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_FIXTURE_H
#define ENGINE_FIXTURE_H

/* Supports programs that hold the engine against training without shards. */
#include "base/rng.h"
#include "engine/engine_proof.h"
#include "groups_fixture.h"
#include "kern/kern.h"
#include "plan/plan_deal.h"

struct check {
    struct world *world;
    struct plan plan;
    struct net net;     /* of the plain run: every rank has all of it */
    struct model whole; /* its: the plan's, without what trains where that is sparse */
    struct device *cpu; /* on the processor */
    struct device_queue *queue;
    struct kern kern;
    struct arena arena;
    int64_t *first;            /* [units] where a unit begins in the whole */
    int32_t *tokens, *targets; /* in one */
    int64_t step;
    int steps, failures;
    const char *trains; /* model_train's; NULL: all */
};

static inline void die(const struct check *c, const struct err *why)
{
    fprintf(stderr, "rank %d: %s\n", c->world->rank, why->text);
    world_abort(c->world, 2);
}

/* Makes a batch of the run: random tokens, and targets that are a fixed function of each. */
static inline void make_batch(const struct check *c, int64_t index, int32_t *tokens,
                              int32_t *targets)
{
    const struct plan *p = &c->plan;

    for (int i = 0; i < p->micro_batch * p->seq; i++) {
        uint64_t any = rng_u64(7, (uint64_t)index, (uint64_t)i);
        tokens[i] = (int32_t)(any % (uint64_t)p->model.vocab);
        targets[i] = (int32_t)((tokens[i] * 5 + 3) % p->model.vocab);
    }
}

static inline void batch(void *arg, int micro, int32_t *tokens, int32_t *targets)
{
    const struct check *c = arg;
    const struct plan_settings *s = &c->plan.settings;
    int n = c->world->ranks;
    int64_t at = plan_micro_number(s, n, c->world->rank, micro);

    make_batch(c, c->step * plan_micro_batches(s, n) + at, tokens, targets);
}

/* Eight places of a fresh mask: `active` of them all, as far apart as can be. */
static inline float fresh_mask(int64_t eighth, int64_t active, int64_t places)
{
    int bits = 0;

    for (int64_t p = eighth * 8; p < eighth * 8 + 8 && p < places; p++)
        bits |= ((p + 1) * active / places > p * active / places) << p % 8;
    return (float)bits;
}

/* Fresh weights; the moments are zero. */
static inline int values(void *arg, int unit, int state, struct range r, float *out,
                         struct err *why)
{
    const struct model *m = &((const struct check *)arg)->plan.model;
    int t = m->unit[unit].first;

    (void)state, (void)why;
    for (int64_t x = r.lo; x < r.hi; x++) {
        while (x >= m->tensor[t].offset + m->tensor[t].elems)
            t++;
        const struct model_tensor *of = &m->tensor[t], *matrix = model_mask_of(m, of);
        if (of->kind == MODEL_MASK)
            *out++ =
                fresh_mask(x - of->offset, matrix->elems / matrix->block, model_places(matrix));
        else
            model_init_values(of, 3, x - of->offset, 1, out++);
    }
    return 0;
}

/* A unit with whole matrices of its vector, or (back) the gradient of the one ADDED to that of
 * the other. */
static inline void read_unit(const struct check *c, int unit, const float *vector, float *read,
                             float *back)
{
    const struct model *m = &c->plan.model;
    const struct model_unit *u = &m->unit[unit];

    for (int i = u->first; i < u->first + u->count; i++) {
        const struct model_tensor *t = &m->tensor[i];
        if (t->kind == MODEL_MASK)
            continue;
        int64_t first = model_find(&c->whole, t->name)->offset;
        int64_t outs = t->shape[t->transposed], ins = t->shape[!t->transposed], at = t->offset;
        for (int64_t e = 0; !t->block && e < t->elems; e++) {
            if (back)
                back[at + e] += read[first + e];
            else
                read[first + e] = vector[at + e];
        }
        if (!t->block)
            continue;
        const float *mask = vector + model_mask_of(m, t)->offset;
        for (int64_t e = 0; !back && e < outs * ins; e++)
            read[first + e] = 0;
        for (int64_t p = 0; p < model_places(t); p++) {
            if (!((int)mask[p / 8] >> p % 8 & 1))
                continue;
            for (int b = 0; b < t->block; b++, at++) {
                int64_t out = p / ins * t->block + b, in = p % ins;
                int64_t e = first + (t->transposed ? in * outs + out : out * ins + in);
                if (out < outs && back)
                    back[at] += read[e];
                else if (out < outs)
                    read[e] = vector[at];
            }
        }
    }
}

/* One micro-batch's gradient, from whole parameters, ADDED to into[params]; the loss sum. */
static inline double plain_micro(struct check *c, const float *used, int64_t index, float *into)
{
    const struct plan *plan = &c->plan;
    double tokens = (double)plan->groups.ranks * plan->accum * plan->micro_batch * plan->seq;

    make_batch(c, index, c->tokens, c->targets);
    net_begin(&c->net, c->tokens, c->targets, (float)(1 / tokens));
    const struct model *m = &plan->model;
    int sparse = m->sparse.share > 0;
    int64_t most = model_largest_unit(&c->whole);
    float *read = mem_new(2 * (size_t)most, sizeof *read), *gradient = read + most;
    for (int v = 0; v < m->visits; v++) {
        int unit = model_unit_of_visit(m, v);
        if (sparse)
            read_unit(c, unit, used + c->first[unit], read, NULL);
        net_forward(&c->net, v, sparse ? read : used + c->first[unit]);
    }
    for (int v = m->visits - 1; v >= m->first_trained; v--) {
        int unit = model_unit_of_visit(m, v);
        int64_t at = c->first[unit];
        if (sparse) {
            memset(gradient, 0, (size_t)most * sizeof *gradient);
            read_unit(c, unit, used + at, read, NULL);
        }
        net_backward(&c->net, v, sparse ? read : used + at, sparse ? gradient : into + at);
        if (sparse)
            read_unit(c, unit, used + at, gradient, into + at);
    }
    mem_free(read);
    double loss = 0;
    if (net_loss(&c->net, &loss, &err))
        die(c, &err);
    return loss;
}

/* The plan but for its strategy, and room for a plain run. */
static inline void set_up(struct check *c, const char *shape, const char *config,
                          const char *wire, int accum)
{
    struct plan *p = &c->plan;

    if (model_read(&p->model, config, &err) || model_read(&c->whole, config, &err) ||
        dtype_parse(wire, &p->wire_type, &err) || read_groups(c->world, shape, &p->groups))
        die(c, &err);
    if (c->trains &&
        (model_train(&p->model, c->trains, &err) ||
         (!(p->model.sparse.share > 0) && model_train(&c->whole, c->trains, &err))))
        die(c, &err);
    p->param_type = p->wire_type;
    p->grad_type = DTYPE_F32;
    p->trainable = p->model.trained;
    p->micro_batch = p->buckets = 2;
    p->prefetch = 1;
    p->accum = accum;
    p->seq = 8;
    p->algo = SCHEDULE_HO_RING;
    c->first = mem_new((size_t)p->model.units, sizeof *c->first);
    for (int64_t u = 0, at = 0; u < p->model.units; at += p->model.unit[u++].elems)
        c->first[u] = at;
    if (device_open(&c->cpu, "cpu", 0, &err) || device_queue_open(c->cpu, &c->queue, &err) ||
        kern_open(&c->kern, c->cpu, c->queue, DTYPE_F32, DTYPE_F32, &err))
        die(c, &err);
    const struct net_options options = {
        .kern = &c->kern, .batch = p->micro_batch, .seq = p->seq};
    if (net_init(&c->net, &c->whole, &options, &err))
        die(c, &err);
    net_place(&c->net, &c->arena);
    if (arena_init(&c->arena, c->arena.used, "check", &err))
        die(c, &err);
    net_place(&c->net, &c->arena);
    c->tokens = mem_new(2 * (size_t)(p->micro_batch * p->seq), sizeof(int32_t));
    c->targets = c->tokens + p->micro_batch * p->seq;
}

/* An engine of the plan with fresh weights, on all ranks. */
static inline struct engine *opened(const struct check *c, struct engine_options options)
{
    struct engine *e = NULL;

    if (engine_open(&e, c->world, &c->plan, &options, &err) ||
        world_agree(c->world,
                    engine_load(e, &(struct engine_source){values, NULL, (void *)c}, 0, &err),
                    &err))
        die(c, &err);
    return e;
}

static inline struct engine_optim optim_at(int64_t step, double clip)
{
    return (struct engine_optim)LIST(.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                                     .decay = 0.1, .clip = clip, .step = step);
}

static inline void complain(struct check *c, const char *what, double found, double expected)
{
    char name[4];

    strcpy(name, plan_strategy_name(c->plan.strategy));
    if (c->failures++ < 3)
        fprintf(stderr, "%s: rank %d, step %d: %s: %.9g, expected %.9g\n", name, c->world->rank,
                (int)c->step + 1, what, found, expected);
}

static inline void tear_down(struct check *c)
{
    net_release(&c->net);
    kern_close(&c->kern);
    device_queue_close(c->queue);
    device_close(c->cpu);
    arena_release(&c->arena);
    groups_release(&c->plan.groups);
    model_release(&c->plan.model);
    model_release(&c->whole);
    mem_free(c->first);
    mem_free(c->tokens);
    world_close(c->world);
}

/* The end of a program: rank 0 prints "ok", or how many failures there were; the status. */
static inline int finish(struct check *c)
{
    err = (struct err){0};
    int rc = c->failures ? err_set(&err, ERR_MISMATCH, "%d failures", c->failures) : 0;

    rc = world_agree(c->world, rc, &err);
    if (c->world->rank == 0)
        printf(rc ? "not ok %s\n" : "ok\n", err.text);
    int status = rc && c->world->rank == 0 ? 1 : 0;
    tear_down(c);
    return status;
}

#endif
