/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that no triple of letters runs another one's code, and that no buffer is made for
 * other letters than it is used under (paro-method(7), MEMORY): placed_check SHAPE CONFIG
 * ACCUM, run under mpirun with the shape's ranks.  For each of the 27, with numbers that are
 * worked out here and not by lib/plan:
 *
 *  - each state of each rank is 2 Psi / d(p), 2 Psi' / d(g), 12 Psi' / d(o) bytes, but for 1 %
 *    of padding;
 *  - where groups are equal, bytes through the slow port and sent inside a group in a step are
 *    those of paro-method(7), TRAFFIC, within 1 %, with two-level collectives and HO-Ring, with
 *    and without kept units, in the first step and in the second; and what a step counts is
 *    the sum over its transfers on any shape;
 *  - the audit finds every element where its letter says;
 *  - every buffer is as large as what its letters put into it, and lies apart from all others.
 */
#include <assert.h>

#include "engine/engine_inside.h"
#include "engine_fixture.h"

enum { PLACES_MAX = 512 };

struct place {
    const char *what;
    uintptr_t at;
    int64_t bytes;
};

struct places { /* of one arena, in any order */
    struct place place[PLACES_MAX];
    int count;
};

static void near(struct check *c, const char *what, double found, double expected)
{
    if (!(fabs(found - expected) <= 0.01 * expected))
        complain(c, what, found, expected);
}

static void check_rest(struct check *c, const struct engine *e)
{
    const struct groups *g = &c->plan.groups;
    double psi = (double)c->plan.model.params;
    double d[] = {1, g->members[g->group_of[c->world->rank]], g->ranks};
    double params = 2 * psi / d[c->plan.strategy.params];
    double grads = 2 * psi / d[c->plan.strategy.grads];
    double optim = 12 * psi / d[c->plan.strategy.optimizer];
    int64_t sum[3] = {0};

    for (int i = 0; i < c->plan.model.units; i++) {
        sum[0] += 2 * e->unit[i].share[ENGINE_PARAMS].elems;
        sum[1] += 2 * e->unit[i].share[ENGINE_GRADS].elems;
        sum[2] += 12 * e->unit[i].share[ENGINE_OPTIM].elems;
    }
    near(c, "bytes of parameters", (double)sum[0], params);
    near(c, "bytes of gradients", (double)sum[1], grads);
    near(c, "bytes of the optimizer", (double)sum[2], optim);
    near(c, "bytes at rest", (double)engine_state_bytes(e), params + grads + optim);
}

/* The tables of paro-method(7), TRAFFIC, in letters' order N I G: how many a Psi inside, or b
 * Psi across, of two bytes an element. */
static void check_traffic(struct check *c, const struct engine_report *report)
{
    static const int param_in[] = {0, 1, 1}, param_out[] = {0, 0, 1};
    static const int syncg_in[3][3] = {{2, 1, 1}, {1, 0, 0}, {1, 0, 0}};
    static const int syncg_out[3][3] = {{2, 2, 1}, {2, 2, 1}, {1, 1, 0}};
    static const int syncp_in[3][3] = {{0, 0, 0}, {1, 0, 0}, {1, 0, 0}};
    static const int syncp_out[3][3] = {{0, 0, 0}, {0, 0, 0}, {1, 1, 0}};
    const struct plan *plan = &c->plan;
    int p = plan->strategy.params, g = plan->strategy.grads, o = plan->strategy.optimizer;
    double n = plan->groups.ranks, m = plan->groups.members[0];
    double groups = n / m, psi = (double)plan->model.params;
    double a = (m - 1) / m, b = (groups - 1) / (groups * m);
    /* Forward and backward, or once where what was gathered is kept; and the gradient. */
    double gathers = plan->accum * (plan->keep ? 1 : 2), reductions = plan->accum;
    double in =
        gathers * param_in[p] + reductions * param_in[g] + syncg_in[g][o] + syncp_in[o][p];
    double out =
        gathers * param_out[p] + reductions * param_out[g] + syncg_out[g][o] + syncp_out[o][p];

    near(c, "bytes sent inside", (double)report->fast_bytes, 2 * in * a * psi);
    /* The port is that of m members. */
    near(c, "bytes through the port", (double)report->slow_bytes, 2 * out * b * psi * m);
}

static void place(struct places *p, const char *what, const void *at, int64_t bytes)
{
    if (bytes == 0)
        return;
    assert(p->count < PLACES_MAX);
    p->place[p->count++] = (struct place){what, (uintptr_t)at, bytes};
}

static int by_address(const void *a, const void *b)
{
    const struct place *p = a, *q = b;

    return p->at < q->at ? -1 : p->at > q->at;
}

static void check_apart(struct check *c, struct places *p, const struct arena *arena)
{
    uintptr_t begin = (uintptr_t)arena->base, end = begin + (uintptr_t)arena->bytes;

    qsort(p->place, (size_t)p->count, sizeof p->place[0], by_address);
    if (p->place[0].at < begin)
        complain(c, p->place[0].what, (double)p->place[0].at, (double)begin);
    for (int i = 0; i < p->count; i++) {
        uintptr_t next = i + 1 < p->count ? p->place[i + 1].at : end;
        if (p->place[i].at + (uintptr_t)p->place[i].bytes > next)
            complain(c, p->place[i].what, (double)(next - p->place[i].at),
                     (double)p->place[i].bytes);
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Elements of a unit that this rank has under a letter; unit -1: of the largest. */
static int64_t elems_of(const struct engine *e, enum letter letter, int unit)
{
    int64_t most = 0;

    for (int i = 0; i < e->model->units; i++)
        if (unit < 0 || i == unit)
            most = larger(most, layout_elems(&e->layout, letter, e->world->rank,
                                             e->model->unit[i].elems));
    return most;
}

/* Checks what ranks see of each other: parameters, and the buffers of transfers. */
static void check_shared(struct check *c, const struct engine *e)
{
    struct plan_strategy s = c->plan.strategy;
    int w = dtype_bytes(c->plan.wire_type), several = c->plan.groups.ranks > 1;
    int gathers = several && s.params != LETTER_N, micro = several && s.grads != LETTER_N;
    int64_t whole = elems_of(e, LETTER_N, -1), params = elems_of(e, s.params, -1);
    int64_t grads = elems_of(e, s.grads, -1), optim = elems_of(e, s.optimizer, -1);
    struct places p = {.count = 0};

    for (int i = 0; i < e->model->units; i++)
        place(&p, "parameters", e->unit[i].params,
              elems_of(e, s.params, i) * dtype_bytes(c->plan.param_type));
    for (int i = 0; gathers && i < e->step.space.slots; i++)
        place(&p, "a gathered unit", e->buffers.slot[i], whole * w);
    for (int i = 0; micro && i < e->step.shape.buckets; i++)
        place(&p, "a gradient on its way", e->buffers.bucket[i], whole * w);
    if (e->buffers.gather_send)
        place(&p, "parameters on their way", e->buffers.gather_send, params * w);
    if (micro)
        place(&p, "reduced gradients", e->buffers.reduce_recv, grads * w);
    if (e->step.shape.has[STEP_CONVERT]) {
        place(&p, "accumulated gradients", e->buffers.convert_send, grads * w);
        place(&p, "converted gradients", e->buffers.convert_recv, optim * w);
    }
    if (e->step.shape.has[STEP_SYNC]) {
        place(&p, "updated parameters", e->buffers.sync_send, optim * w);
        if (e->buffers.sync_recv)
            place(&p, "new parameters", e->buffers.sync_recv, params * w);
    }
    check_apart(c, &p, &e->shared);
}

static void check_own(struct check *c, const struct engine *e)
{
    struct plan_strategy s = c->plan.strategy;
    int64_t whole = elems_of(e, LETTER_N, -1);
    struct places p = {.count = 0};

    for (int i = 0; i < e->model->units; i++) {
        const struct engine_unit *u = &e->unit[i];
        int64_t optim = elems_of(e, s.optimizer, i);
        place(&p, "gradients", u->grads,
              larger(elems_of(e, s.grads, i), optim) * dtype_bytes(c->plan.grad_type));
        place(&p, "the master", u->master, optim * 4);
        place(&p, "first moments", u->m, optim * 4);
        place(&p, "second moments", u->v, optim * 4);
    }
    if (e->buffers.read)
        place(&p, "a unit in f32", e->buffers.read, whole * 4);
    if (e->buffers.gradient)
        place(&p, "the backward's gradient", e->buffers.gradient, whole * 4);
    if (e->buffers.tied_gradient)
        place(&p, "the embedding's gradient", e->buffers.tied_gradient,
              elems_of(e, LETTER_N, 0) * 4);
    place(&p, "a piece", e->piece, ENGINE_PIECE * 4);
    check_apart(c, &p, &e->own);
}

/* From and to which letters each conversion was prepared. */
static void check_letters(struct check *c, const struct engine *e)
{
    struct plan_strategy s = c->plan.strategy;
    const enum letter from[] = {s.params, LETTER_N, s.grads, s.optimizer};
    const enum letter to[] = {LETTER_N, s.grads, s.optimizer, s.params};

    for (int i = 0; i < e->sizes; i++)
        for (int kind = 0; kind < STEP_COMPUTE; kind++) {
            const struct coll_spec *spec = &e->size[i].handle[kind].spec;
            if (!e->step.shape.has[kind])
                continue;
            if (spec->from != from[kind] || spec->to != to[kind])
                complain(c, "letters of a conversion", 10 * spec->from + spec->to,
                         10 * from[kind] + to[kind]);
        }
}

static int is_equal(const struct groups *g)
{
    int equal = 1;

    for (int k = 1; k < g->count; k++)
        equal &= g->members[k] == g->members[0];
    return equal;
}

/* Checks that a step's counts are the sum over its transfers, of the busiest port and rank. */
static void check_counted(struct check *c, struct engine *e, const struct engine_report *report)
{
    const struct step *s = &e->list[ENGINE_STEPS].step;
    struct coll_traffic sum = {0};
    int64_t slow = 0, fast = 0;

    for (int i = 0; i < s->rows; i++) {
        const struct step_row *r = &s->row[i];
        for (int part = 0; r->lane != STEP_COMPUTE && part < ENGINE_PARTS; part++) {
            const struct engine_unit *u = &e->unit[r->unit];
            const struct engine_size *size = part ? u->frozen_size : u->size;
            if (size)
                coll_traffic_add(&sum, &size->handle[r->lane].mine, 1);
        }
    }
    if (coll_traffic_most(&e->coll, &sum, &slow, &fast, &err))
        die(c, &err);
    if (report->slow_bytes != slow)
        complain(c, "bytes counted through the port", (double)report->slow_bytes, (double)slow);
    if (report->fast_bytes != fast)
        complain(c, "bytes counted inside", (double)report->fast_bytes, (double)fast);
}

static void one(struct check *c)
{
    struct engine *e = opened(c, (struct engine_options){0});
    struct engine_report report;

    check_shared(c, e);
    check_own(c, e);
    check_letters(c, e);
    check_rest(c, e);
    if (world_agree(c->world, engine_audit(e, &err), &err))
        die(c, &err);
    for (c->step = 0; c->step < 2; c->step++) {
        struct engine_optim o = optim_at(c->step + 1, 1);
        if (engine_step(e, batch, c, &o, &report, &err))
            die(c, &err);
        check_counted(c, e, &report);
        if (is_equal(&c->plan.groups))
            check_traffic(c, &report);
    }
    engine_close(e);
}

int main(int argc, char **argv)
{
    struct check c = {0};

    if (argc != 4 || world_open(&c.world, &err))
        return 2;
    kern_thread_init();
    set_up(&c, argv[1], argv[2], "bf16", atoi(argv[3]));
    if (c.plan.model.tied) /* whose embedding is gathered twice: not in the tables */
        return 2;
    c.plan.grad_type = DTYPE_BF16; /* two bytes each, as the tables have it */
    /* Two algorithms, with and without kept units; some of it where no traffic is compared. */
    for (int i = 0; i < 4 * PLAN_STRATEGIES; i += is_equal(&c.plan.groups) ? 1 : 3) {
        c.plan.strategy = plan_strategy_at(i / 4);
        c.plan.algo = i % 2 ? SCHEDULE_TWO_LEVEL : SCHEDULE_HO_RING;
        c.plan.keep = i % 4 / 2 ? PLAN_KEEP_ALL : 0;
        c.plan.buckets = 1 + i % 3;
        one(&c);
    }
    return finish(&c);
}
