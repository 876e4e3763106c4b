/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks groups that train apart: periods_check SHAPE CONFIG, run under mpirun with the shape's
 * ranks.  The engine is held against itself without the part that is in question, with exact
 * sums:
 *
 * - a second run of the same steps does not take the last outer step, which leaves the groups'
 *   own parameters: from them that step is computed here, of two periods, with momentum;
 * - with fragments a second run has no turn in its last step: the update of units that had one
 *   begins at the outer step's result instead, and other units have the same bits;
 * - differences in int8 give the same step to within their rounding;
 * - with outer rate 1 and no momentum the outer step is the groups' mean;
 * - groups with the same data, so that their mean is what each of them has, train as all ranks
 *   do together that synchronise each step (for 2^n groups of equal size).
 */
#include "engine_fixture.h"

#include <math.h>

enum { H = 2, PERIODS = 2, ACCUM = 2, NEVER = 1000 };

struct trained {
    float *group; /* [groups * elems]: the parameters of each */
};

struct way {                /* a run */
    int every, steps, last; /* last: takes the outer step after the last step, too */
    double lr, momentum;
    int alike; /* all groups have the same data */
    enum letter outer;
    const char *strategy;
    int fragments, without; /* without: no unit has a turn in the last step */
    enum exec_code slow;
};

static int64_t elems_of(const struct check *c)
{
    int64_t n = 0;

    for (int u = 0; u < c->plan.model.units; u++)
        n += c->plan.model.unit[u].trained;
    return n;
}

static int alike;

static void dealt(void *arg, int micro, int32_t *tokens, int32_t *targets)
{
    const struct check *c = arg;
    const struct groups *g = &c->plan.groups;
    int rank = c->world->rank, place = alike ? g->local_of[rank] : rank;

    make_batch(c, (c->step * ACCUM + micro) * c->world->ranks + place, tokens, targets);
}

/* Gathers what the groups have, from the rank of each that holds it in its I shard. */
static void gather(struct check *c, struct engine *e, struct trained *out)
{
    const struct groups *g = &c->plan.groups;
    const struct layout *l = engine_layout(e);
    int64_t elems = elems_of(c), before = 0;
    int ranks = c->world->ranks;
    float *mine = mem_new((size_t)elems, sizeof *mine);
    float *all = mem_new((size_t)(elems * ranks), sizeof *all);
    struct range *r = mem_new((size_t)layout_ranges_max(l), sizeof *r);

    for (int u = 0; u < c->plan.model.units; u++) {
        int n = layout_ranges(l, LETTER_I, c->world->rank, c->plan.model.unit[u].trained, r);
        for (int i = 0; i < n; i++)
            if (engine_values(e, u, 0, r[i], DTYPE_F32, mine + before + r[i].lo, &err))
                die(c, &err);
        before += c->plan.model.unit[u].trained;
    }
    if (world_allgather(c->world, mine, elems * (int64_t)sizeof *mine, all, &err))
        die(c, &err);
    out->group = mem_new((size_t)(elems * g->count), sizeof(float));
    for (int q = 0; q < ranks; q++) {
        before = 0;
        for (int u = 0; u < c->plan.model.units; u++) {
            int n = layout_ranges(l, LETTER_I, q, c->plan.model.unit[u].trained, r);
            for (int i = 0; i < n; i++)
                memcpy(out->group + g->group_of[q] * elems + before + r[i].lo,
                       all + q * elems + before + r[i].lo,
                       (size_t)(r[i].hi - r[i].lo) * sizeof(float));
            before += c->plan.model.unit[u].trained;
        }
    }
    mem_free(mine);
    mem_free(all);
    mem_free(r);
}

static struct trained run(struct check *c, struct way w)
{
    struct engine *e = NULL;
    struct engine_report report = {0};
    struct trained out;

    c->plan.sync_every = w.every;
    c->plan.fragments = w.fragments;
    c->plan.slow_grads = w.slow;
    c->plan.outer = w.outer;
    alike = w.alike;
    if (plan_strategy_parse(w.strategy, &c->plan.strategy, &err) ||
        engine_open(&e, c->world, &c->plan, &(struct engine_options){.exact = !w.slow}, &err) ||
        world_agree(c->world, engine_load(e, &(struct engine_source){values, NULL, c}, 0, &err),
                    &err) ||
        engine_audit(e, &err))
        die(c, &err);
    for (c->step = 0; c->step < w.steps; c->step++) {
        struct engine_optim o = LIST(.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                                     .decay = 0.1, .clip = 0.5, .step = c->step + 1,
                                     .outer_lr = w.lr, .outer_momentum = w.momentum);
        o.ends =
            w.every && (w.fragments ? w.last && o.step == w.steps
                                    : o.step % w.every == 0 && (o.step < w.steps || w.last));
        if (w.fragments) {
            o.decay = 0;
            c->plan.sync_every = w.without && o.step == w.steps ? NEVER : w.every;
        }
        if (engine_step(e, dealt, c, &o, &report, &err))
            die(c, &err);
        if (report.skipped || report.agreed != (!w.every || o.ends) ||
            (!report.agreed && !w.fragments && report.slow_bytes))
            c->failures++;
    }
    if (world_barrier(c->world, &err)) /* no transfer is in progress on any rank */
        die(c, &err);
    uint64_t hash;
    if (report.agreed && engine_hash(e, &hash, &err))
        die(c, &err);
    gather(c, e, &out);
    engine_close(e);
    return out;
}

/* One rounding to f32 of what is computed in double in both. */
static int is_near(float a, double b)
{
    return fabs((double)a - b) <= 0x1p-24 * fabs(b) + 0x1p-60;
}

static void expect(struct check *c, int ok, const char *what, const char *strategy)
{
    if (!ok && !c->failures++ && c->world->rank == 0)
        printf("not ok %s: %s\n", strategy, what);
}

struct state { /* of one element */
    double anchor;
    float m;
};

/* The states that training begins with. */
static struct state *first_states(struct check *c)
{
    struct state *state = mem_new((size_t)elems_of(c), sizeof *state), *next = state;

    for (int u = 0; u < c->plan.model.units; u++)
        for (int64_t x = 0; x < c->plan.model.unit[u].trained; x++) {
            float first;
            values(c, u, 0, (struct range){x, x + 1}, &first, &err);
            *next++ = (struct state){(double)first, 0};
        }
    return state;
}

/* What the groups have at `at`, on average. */
static double mean_of(const struct check *c, const struct trained *t, int64_t at)
{
    int groups = c->plan.groups.count;
    int64_t elems = elems_of(c);
    double sum = 0;

    for (int k = 0; k < groups; k++)
        sum += (double)t->group[k * elems + at];
    return sum / groups;
}

/* The outer step with that mean. */
static double outer_step(double mean, const struct way *w, struct state *s)
{
    double d = s->anchor - mean, now = w->momentum * (double)s->m + d;
    double x = s->anchor - w->lr * (d + w->momentum * now);

    s->m = (float)now;
    s->anchor = (double)(float)x;
    return x;
}

/* Two periods, from what the groups have at the end of each. */
static void check_steps(struct check *c, const char *strategy, enum letter outer, double lr,
                        double momentum)
{
    int groups = c->plan.groups.count, ok = 1;
    int64_t elems = elems_of(c);
    struct trained before, after;
    struct state *state = first_states(c);
    struct way w = {H, 0, 0, lr, momentum, 0, outer, strategy, 0, 0, EXEC_CODE_SAME};
    double moved = 0, apart = 0;

    for (w.steps = H; w.steps <= PERIODS * H; w.steps += H) {
        w.last = 0;
        before = run(c, w);
        w.last = 1;
        after = run(c, w);
        for (int64_t at = 0; at < elems; at++) {
            double mean = mean_of(c, &before, at);
            moved += fabs(state[at].anchor - mean);
            double expected = outer_step(mean, &w, &state[at]);
            for (int k = 0; k < groups; k++)
                ok &= is_near(after.group[k * elems + at], expected);
            if (lr == 1 && momentum == 0)
                ok &= after.group[at] == (float)mean;
            apart += fabs((double)before.group[at] - (double)before.group[elems + at]);
            state[at].anchor = (double)after.group[at];
        }
        mem_free(before.group);
        mem_free(after.group);
    }
    expect(c, ok, "the outer step", strategy);
    expect(c, moved > 0 && apart > 0, "groups that do not differ", strategy);
    mem_free(state);
}

/*
 * Step by step, and the last outer step, of all units.  x, both runs and the anchor are rounded
 * to f32: three times 2^-24 of a value, and 2^-23 of the anchor, which an outer step makes less
 * than (1 + lr (1 + momentum)) < 2.5 as much.
 */
static void check_turns(struct check *c, const char *strategy, enum letter outer, double lr,
                        double momentum)
{
    enum { STEPS = 4 };
    struct way w = {H, 0, 0, lr, momentum, 0, outer, strategy, H, 0, EXEC_CODE_SAME};
    int groups = c->plan.groups.count, ok = 1, turns = 0;
    int64_t elems = elems_of(c);
    struct state *state = first_states(c);
    struct trained before = run(c, w), after, without, last;
    double moved = 0;

    for (w.steps = 1; w.steps <= STEPS; w.steps++) {
        int64_t at = 0;
        w.without = 1;
        without = run(c, w);
        w.last = 1;
        last = run(c, w);
        w.last = w.without = 0;
        after = run(c, w);
        for (int u = 0; u < c->plan.model.units; u++) {
            int turn = plan_turn(&c->plan.settings, u, w.steps);
            turns += turn;
            for (int64_t n = c->plan.model.unit[u].trained; n > 0; n--, at++) {
                struct state end = state[at];
                double ends = outer_step(mean_of(c, &without, at), &w, &end), x = 0;
                if (turn)
                    x = outer_step(mean_of(c, &before, at), &w, &state[at]);
                for (int k = 0; k < groups; k++) {
                    int64_t i = k * elems + at;
                    double a = (double)after.group[i], b = (double)before.group[i],
                           one = (double)without.group[i], most = fabs(a) + fabs(one) + fabs(x);
                    ok &= turn ? fabs(a - (x + one - b)) <= 8 * 0x1p-24 * most : a == one;
                    ok &= fabs((double)last.group[i] - ends) <=
                          8 * 0x1p-24 * fabs(ends) + 0x1p-60;
                    moved += turn && w.steps > 1 ? fabs(a - one) : 0;
                }
            }
        }
        mem_free(without.group);
        mem_free(last.group);
        mem_free(before.group);
        before = after;
    }
    mem_free(before.group);
    mem_free(state);
    expect(c, ok, "outer steps in turn", strategy);
    expect(c, moved > 0 && turns == STEPS / H * c->plan.model.units, "units without a turn",
           strategy);
}

/*
 * One outer step with differences in int8 or bf16.  An element is rounded by 1/128 of its
 * block's largest at most (exec_block8.h), or by 1/256 of itself, in each of the g - 1 sends of
 * a partial sum and once for the sum.  The sum of j differences is j M at most, M the largest
 * of all: the mean is off by (g + 1) M / 256, or / 512.
 */
static void check_coded(struct check *c, const char *strategy, enum exec_code code, double lr,
                        double momentum)
{
    struct way w = {H, H, 0, lr, momentum, 0, LETTER_I, strategy, 0, 0, code};
    int groups = c->plan.groups.count, ok = 1;
    int64_t elems = elems_of(c), at;
    struct state *state = first_states(c);
    struct trained before = run(c, w), after;
    double most = 0, moved = 0;

    w.last = 1;
    after = run(c, w);
    for (at = 0; at < groups * elems; at++)
        most = fmax(most, fabs((double)before.group[at] - state[at % elems].anchor));
    double off =
        lr * (1 + momentum) * most * (groups + 1) / (code == EXEC_CODE_INT8 ? 256 : 512);
    for (at = 0; at < elems; at++) {
        double was = state[at].anchor;
        double expected = outer_step(mean_of(c, &before, at), &w, &state[at]);
        moved += fabs(expected - was) / (double)elems;
        for (int k = 0; k < groups; k++) {
            ok &= fabs((double)after.group[k * elems + at] - expected) <= off + 0x1p-22;
            ok &= after.group[k * elems + at] == after.group[at];
        }
    }
    expect(c, ok, exec_code_name(code), strategy);
    expect(c, moved > 4 * off, "a step that is larger than its rounding", strategy);
    mem_free(state);
    mem_free(before.group);
    mem_free(after.group);
}

/* Groups with the same data: a rate of 1 takes over what each of them has.  The gradient is
   then 2^n times that of a group, so that both are rounded alike. */
static void check_alike(struct check *c, const char *strategy, enum letter outer)
{
    int64_t elems = elems_of(c);
    struct way w = {H, PERIODS * H, 1, 1, 0, 1, outer, strategy, 0, 0, EXEC_CODE_SAME};
    struct trained one = run(c, w), each = run(c, (struct way){0, w.steps, 0, 0, 0, 1, outer,
                                                               "NNN", 0, 0, EXEC_CODE_SAME});

    expect(c, memcmp(one.group, each.group, (size_t)elems * sizeof(float)) == 0,
           "groups with the same data", strategy);
    mem_free(one.group);
    mem_free(each.group);
}

int main(int argc, char **argv)
{
    static const char *const strategy[] = {"NNN", "IIG", "GNI", "NGG"};
    struct check c = {0};

    if (argc != 3 || world_open(&c.world, &err))
        return 2;
    set_up(&c, argv[1], argv[2], "f32", ACCUM);
    c.plan.param_type = DTYPE_F32;
    c.plan.micro_batch = 1;
    int groups = c.plan.groups.count, equal = (groups & (groups - 1)) == 0;
    for (int k = 1; k < groups; k++)
        equal &= c.plan.groups.members[k] == c.plan.groups.members[0];
    for (int i = 0; i < 4; i++) {
        enum letter outer = i % 2 ? LETTER_I : LETTER_G;
        check_steps(&c, strategy[i], outer, 0.7, 0.9);
        check_steps(&c, strategy[i], outer, 1, 0);
        check_turns(&c, strategy[i], outer, 0.7, 0.9);
        check_coded(&c, strategy[i], EXEC_CODE_INT8, 0.7, 0.9);
        check_coded(&c, strategy[i], EXEC_CODE_BF16, 0.7, 0.9);
        if (equal)
            check_alike(&c, strategy[i], outer);
    }
    int status = c.failures != 0;
    tear_down(&c);
    return status;
}
