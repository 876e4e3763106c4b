/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks exact sums: exact_check SHAPE CONFIG PARAM WIRE SAMPLES STEPS
 * [SHIFT [MOMENTS [H [COUNTS]]]], run under mpirun with the shape's ranks.  With them, STEPS
 * steps of SAMPLES micro-batches each, dealt to the ranks: all 27 strategies give the same hash
 * of their states, the same loss and the same norm, bit by bit.  Rank 0 prints them, one line a
 * step: launches of other shapes are compared by the caller.
 *
 * Sums in f64 would give the same f32 but once in 2^29 elements, were it not for numbers that
 * cancel.  So the output matrix is LOUD times what it is at first, which leaves most tokens
 * improbable and their gradients tiny, and to each of its elements A is added in the step's
 * first micro-batch and taken away again in the second.  In f32, A + g is A where g is below
 * A 2^-25: what remains there is the sum of g, and in f64 it would be off by A 2^-53 for each
 * partial sum in which A is, which f32 shows where the sum of g is below A 2^-29.
 *
 * Algorithm, prefetch, kept units, recomputed layers, micro-batches in a layer, buckets, chunks
 * go round over the strategies, each in a cycle of its own, so that no letter always meets the
 * same; SHIFT turns them.  With H the groups train apart for periods of H steps, with the outer
 * state under I and G in turn; then hashes are compared at the end of periods, with H/F
 * (fragments) after the last step.
 * COUNTS, "3,0,5", deals so many micro-batches of a step to each rank.
 */
#include "engine_fixture.h"
#include "engine_spoil.h"

enum { STEPS_MAX = 8, LOUD = 40, LOUD_TIED = 20 };

static const float far = 0.75F; /* A; the range is 2^7 / SAMPLES */

struct told { /* of a step; compared as bytes */
    uint64_t hash;
    double loss, norm;
};

static void choose(struct plan *p, int i, int shift)
{
    static const enum schedule_algo algo[] = {SCHEDULE_HO_RING, SCHEDULE_TWO_LEVEL,
                                              SCHEDULE_RING};
    static const int keep[] = {0, 1, PLAN_KEEP_ALL};
    int params = i / 9, grads = i / 3 % 3, optimizer = i % 3;

    p->strategy = plan_strategy_at(i);
    p->algo = algo[(params + grads + optimizer + shift) % 3];
    p->keep = keep[(params + 2 * grads + optimizer + shift) % 3];
    p->buckets = 1 + (2 * params + grads + optimizer + shift) % 3;
    p->prefetch = (i + shift) % 4;
    p->recompute = (i + shift) / 2 % 2;
    p->layered = 1 + (params + 2 * grads + (i + shift) / 4) % 4;
    p->outer = i % 2 ? LETTER_I : LETTER_G;
    p->chunk_bytes = (i + shift) % 2 ? 1024 : PLAN_CHUNK_BYTES; /* several, or one */
}

static int loud_values(void *arg, int unit, int state, struct range r, float *out,
                       struct err *why)
{
    const struct model *m = &((const struct check *)arg)->plan.model;
    int t = m->unit[unit].first;

    values(arg, unit, state, r, out, why);
    for (int64_t x = r.lo; x < r.hi; x++, out++) {
        while (x >= m->tensor[t].offset + m->tensor[t].elems)
            t++;
        if (unit == (m->tied ? 0 : m->units - 1) && m->tensor[t].dims == 2)
            *out *= m->tied ? LOUD_TIED : LOUD;
    }
    return 0;
}

struct far {
    struct check *c;
    struct engine *e;
};

static void far_batch(void *arg, int micro, int32_t *tokens, int32_t *targets)
{
    const struct far *f = arg;
    int64_t index =
        plan_micro_number(&f->c->plan.settings, f->c->world->ranks, f->c->world->rank, micro);
    int64_t n = f->e->unit[spoilt_unit(f->e)].elems;

    for (int64_t x = 0; index < 2 && x < n; x++)
        spoilt_gradient(f->e, micro)[x] = index ? -far : far;
    batch(f->c, micro, tokens, targets);
}

static void run(struct check *c, struct told *told)
{
    struct engine *e = NULL;
    struct engine_report report;

    if (engine_open(&e, c->world, &c->plan, &(struct engine_options){.exact = 1}, &err) ||
        world_agree(c->world,
                    engine_load(e, &(struct engine_source){loud_values, NULL, c}, 0, &err),
                    &err) ||
        engine_audit(e, &err))
        die(c, &err);
    struct far f = {c, e};
    for (c->step = 0; c->step < c->steps; c->step++) {
        /* Clipped, so that the norm enters; far enough for every step to change bf16. */
        struct engine_optim o =
            LIST(.lr = 3e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1,
                 .clip = 0.5, .step = c->step + 1, .outer_lr = 0.7, .outer_momentum = 0.9);
        struct told *t = &told[c->step];
        t->hash = 0;
        o.ends = c->plan.fragments ? o.step == c->steps
                                   : c->plan.sync_every && o.step % c->plan.sync_every == 0;
        if (engine_step(e, far_batch, &f, &o, &report, &err) ||
            (report.agreed && engine_hash(e, &t->hash, &err)))
            die(c, &err);
        t->loss = report.loss;
        t->norm = report.grad_norm;
        if (report.skipped || !(t->norm > o.clip)) {
            err_set(&err, ERR_MISMATCH, "step %" PRId64 ": norm %g, expected one to be clipped",
                    c->step + 1, t->norm);
            die(c, &err);
        }
    }
    engine_close(e);
}

/* Deals the step's micro-batches as COUNTS says. */
static int deal(struct plan *p, const char *text, int samples)
{
    int sum = 0, *counts = p->own_counts = mem_new((size_t)p->groups.ranks, sizeof *counts);

    p->accum = 0;
    for (int r = 0; r < p->groups.ranks; r++) {
        char *end;
        counts[r] = (int)strtol(text, &end, 10);
        sum += counts[r];
        p->accum = counts[r] > p->accum ? counts[r] : p->accum;
        text = *end ? end + 1 : end;
    }
    p->counts = counts;
    p->global_batch = samples;
    return sum == samples;
}

int main(int argc, char **argv)
{
    struct check c = {0};
    struct told first[STEPS_MAX] = {{0}}, told[STEPS_MAX];
    char name[4];

    if (argc < 7 || world_open(&c.world, &err))
        return 2;
    set_up(&c, argv[1], argv[2], argv[4], atoi(argv[5]) / c.world->ranks);
    c.steps = atoi(argv[6]);
    if (c.plan.accum * c.world->ranks != atoi(argv[5]) || c.steps > STEPS_MAX)
        return 2;
    if (dtype_parse(argv[3], &c.plan.param_type, &err))
        die(&c, &err);
    if (argc > 8 && moments_parse(argv[8], &c.plan.moments, &err))
        die(&c, &err);
    c.plan.micro_batch = 1;
    if (argc > 9)
        sscanf(argv[9], "%d/%d", &c.plan.sync_every, &c.plan.fragments);
    if (argc > 10 && !deal(&c.plan, argv[10], atoi(argv[5])))
        return 2;
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        choose(&c.plan, i, argc > 7 ? atoi(argv[7]) : 0);
        run(&c, i ? told : first);
        strcpy(name, plan_strategy_name(c.plan.strategy));
        for (int s = 0; i && c.world->rank == 0 && s < c.steps; s++)
            if (memcmp(&told[s], &first[s], sizeof *told) && !c.failures++)
                printf("not ok %s: step %d: %016" PRIx64 " %a %a, NNN: %016" PRIx64 " %a %a\n",
                       name, s + 1, told[s].hash, told[s].loss, told[s].norm, first[s].hash,
                       first[s].loss, first[s].norm);
    }
    for (int s = 0; c.world->rank == 0 && s < c.steps; s++)
        printf("%d %016" PRIx64 " %a %a\n", s + 1, first[s].hash, first[s].loss, first[s].norm);
    int status = c.failures != 0;
    tear_down(&c);
    return status;
}
