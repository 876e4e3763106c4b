/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks two decisions that have to be one for all groups (paro-method(7), PITFALLS), under all
 * 27 strategies: mistakes_check skip|norm SHAPE CONFIG ACCUM, run under mpirun with the shape's
 * ranks.
 *
 *  skip  one element of one rank's gradient, in one micro-batch, is NaN, infinite or, with
 *        exact sums, beyond their range: every rank of every group skips that step, no bit of
 *        any state changes, and the next step goes on.
 *  norm  K elements of the gradient are +A on one rank of one group and -A on one of another:
 *        partial gradients are far larger than what they add up to.  The norm is that of the
 *        sum on every rank, and every rank scales by it: the first moment after the first step
 *        is (1 - beta1) c g.
 *
 * Elements are put into the buffer to which the backward adds (engine_spoil.h).
 */
#include "engine_fixture.h"
#include "engine_spoil.h"

enum { SPOILT = 256 }; /* K */

/* An element of a micro-batch's gradient has to stay below this, where sums are exact. */
static float range_of(const struct check *c)
{
    return 0x1p7f / (float)(c->world->ranks * c->plan.accum);
}

/* A */
static float apart_by(const struct check *c)
{
    return range_of(c) / 2;
}

struct spoil {
    struct check *c;
    struct engine *e;
    int count;   /* elements, from the first of the last unit on; 0: none */
    float value; /* on this rank */
};

static void spoilt_batch(void *arg, int micro, int32_t *tokens, int32_t *targets)
{
    struct spoil *s = arg;
    float *at = spoilt_gradient(s->e, 0);

    for (int x = 0; micro == 0 && x < s->count; x++)
        at[x] = s->value;
    batch(s->c, micro, tokens, targets);
}

/* One step with `value` on rank `victim`; whether it has to be skipped. */
static void step_with(struct check *c, struct engine *e, int victim, float value, int skipped)
{
    struct spoil s = {c, e, c->world->rank == victim, value};
    struct engine_optim o = optim_at(c->step + 1, 1);
    struct engine_report report, *all;
    uint64_t before, after;

    all = mem_new((size_t)c->world->ranks, sizeof *all);
    if (engine_hash(e, &before, &err) || engine_step(e, spoilt_batch, &s, &o, &report, &err) ||
        world_allgather(c->world, &report, sizeof report, all, &err))
        die(c, &err);
    for (int r = 0; r < c->world->ranks; r++)
        if (all[r].skipped != skipped)
            complain(c, "skipped", all[r].skipped, skipped);
    if (skipped == isfinite(report.grad_norm) || !isfinite(report.loss))
        complain(c, "whether the norm is finite", isfinite(report.grad_norm), !skipped);
    /* Ranks that came to different decisions wait for each other here, until the deadline. */
    if (engine_hash(e, &after, &err))
        die(c, &err);
    if ((before == after) != skipped)
        complain(c, "whether states are as before", before == after, skipped);
    mem_free(all);
    c->step++;
}

/* exact: 1; coded: what goes between groups are int8 blocks, in which NaN must be seen. */
static void skip(struct check *c, int i, int exact, int coded)
{
    int ranks = c->world->ranks;
    float range = range_of(c), g = range / 4; /* more than the rest of an element ever is */

    c->plan.slow_params = c->plan.slow_grads = coded ? EXEC_CODE_INT8 : EXEC_CODE_SAME;
    struct engine *e = opened(c, (struct engine_options){.exact = exact});
    c->step = 0;
    step_with(c, e, 0, range - g, 0);
    step_with(c, e, i % ranks, NAN, 1);
    step_with(c, e, (i + 1) % ranks, g - range, 0);
    step_with(c, e, (i + 2) % ranks, -INFINITY, 1);
    step_with(c, e, (i + 3) % ranks, range + g, exact);
    step_with(c, e, -1, 0, 0);
    engine_close(e);
}

struct sums { /* of the first step's gradient, and of absolute values: [params] */
    float *used, *one;
    double *g, *abs, norm, abs_norm;
};

/* The last unit: its gradient is the first that a backward makes. */
static float injected(const struct check *c, int rank)
{
    const struct groups *g = &c->plan.groups;

    return rank == groups_rank(g, 0, 0)              ? apart_by(c)
           : rank == groups_rank(g, g->count - 1, 0) ? -apart_by(c)
                                                     : 0;
}

static void plain_sums(struct check *c, struct sums *s)
{
    const struct model *m = &c->plan.model;
    int n = c->world->ranks, all = (int)m->params, accum = c->plan.accum;

    s->used = mem_new((size_t)all, sizeof(float));
    s->one = mem_new((size_t)all, sizeof(float));
    s->g = mem_new((size_t)all, sizeof(double));
    s->abs = mem_new((size_t)all, sizeof(double));
    for (int u = 0; u < m->units; u++)
        values(c, u, 0, (struct range){0, m->unit[u].elems}, s->used + c->first[u], &err);
    for (int i = 0; i < n * accum; i++) {
        memset(s->one, 0, (size_t)all * sizeof(float));
        for (int x = 0; i < n && x < SPOILT; x++)
            s->one[c->first[m->units - 1] + x] = injected(c, i);
        plain_micro(c, s->used, i, s->one);
        for (int x = 0; x < all; x++) {
            s->g[x] += (double)s->one[x];
            s->abs[x] += fabs((double)s->one[x]);
        }
    }
    for (int x = 0; x < all; x++) {
        s->norm += s->g[x] * s->g[x];
        s->abs_norm += s->abs[x] * s->abs[x];
    }
    s->norm = sqrt(s->norm);
    s->abs_norm = sqrt(s->abs_norm);
}

/* Elements of this rank's G shards: m against (1 - beta1) c g.  c may be off by what the norm
 * may be; then c, the product, (1 - beta1) and the last product are rounded once each, and a
 * number below 2^-126 loses more. */
static void compare_moments(struct check *c, struct engine *e, double norm, double by)
{
    const struct layout *l = engine_layout(e);
    struct engine_optim o = optim_at(1, 0.25);
    double scale = (1 - o.beta1) * o.clip / (norm + 1e-6), share = by / norm + 8 * 0x1p-24;
    struct range *r = mem_new((size_t)layout_ranges_max(l), sizeof *r);

    for (int unit = 0; unit < c->plan.model.units; unit++) {
        int n = layout_ranges(l, LETTER_G, c->world->rank, e->unit[unit].elems, r);
        for (int i = 0; i < n; i++)
            for (int64_t x = r[i].lo; x < r[i].hi; x++) {
                struct range at = {x, x + 1};
                float g, m;
                if (engine_gradient(e, unit, at, &g, &err) ||
                    engine_values(e, unit, 1, at, DTYPE_F32, &m, &err))
                    die(c, &err);
                double expected = scale * (double)g;
                if (!(fabs((double)m - expected) <= share * fabs(expected) + 0x1p-120))
                    complain(c, "a first moment", (double)m, expected);
            }
    }
    mem_free(r);
}

/* The norms of this strategy; exact: bit by bit those of the first. */
static void norm(struct check *c, const struct sums *plain, int exact, double *first)
{
    /* engine_check.c derives it, element by element: hence in norm. */
    double by =
        1.1 * (c->world->ranks + c->plan.accum + 2) * 2 * 0x1p-24 * plain->abs_norm + 1e-12;
    struct engine *e = opened(c, (struct engine_options){.exact = exact});
    struct spoil s = {c, e, SPOILT, injected(c, c->world->rank)};
    struct engine_optim o = optim_at(1, 0.25);
    struct engine_report report;
    double *all = mem_new((size_t)c->world->ranks, sizeof *all);

    if (injected(c, c->world->rank) == 0)
        s.count = 0;
    c->step = 0;
    if (engine_step(e, spoilt_batch, &s, &o, &report, &err) ||
        world_allgather(c->world, &report.grad_norm, sizeof *all, all, &err))
        die(c, &err);
    for (int r = 0; r < c->world->ranks; r++)
        if (memcmp(&all[r], &report.grad_norm, sizeof *all))
            complain(c, "the norm on another rank", all[r], report.grad_norm);
    if (!(fabs(report.grad_norm - plain->norm) <= by))
        complain(c, "the norm", report.grad_norm, plain->norm);
    if (exact && *first != 0 && memcmp(first, &report.grad_norm, sizeof *first))
        complain(c, "the exact norm", report.grad_norm, *first);
    *first = exact ? report.grad_norm : *first;
    compare_moments(c, e, plain->norm, by);
    engine_close(e);
    mem_free(all);
}

int main(int argc, char **argv)
{
    struct check c = {0};
    struct sums plain = {0};
    double exact_norm = 0;

    if (argc != 5 || world_open(&c.world, &err))
        return 2;
    kern_thread_init();
    int skips = strcmp(argv[1], "skip") == 0;
    set_up(&c, argv[2], argv[3], "f32", atoi(argv[4]));
    c.world->deadline_s = 20;
    /* A group's norm could not be taken for the whole one's. */
    plain_sums(&c, &plain);
    if (plain.norm > 0.1 * (double)apart_by(&c) * sqrt(SPOILT) || c.plan.model.tied)
        return 2;
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        c.plan.strategy = plan_strategy_at(i);
        c.plan.algo = i % 2 ? SCHEDULE_TWO_LEVEL : SCHEDULE_HO_RING;
        for (int how = 0; skips && how < 3; how++)
            skip(&c, i, how == 1, how == 2);
        for (int exact = 0; !skips && exact < 2; exact++)
            norm(&c, &plain, exact, &exact_norm);
    }
    mem_free(plain.used);
    mem_free(plain.one);
    mem_free(plain.g);
    mem_free(plain.abs);
    return finish(&c);
}
