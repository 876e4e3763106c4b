/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prices a strategy: memory, bytes and time of a global step (paro-method(7), TRAFFIC and
 * TIME).  All 27 share this code: a letter only decides which legs run (layout_phases_*).
 *
 * The time of a step is computed by a walk through it (plan/plan_timeline.h), in which
 * concurrent rows share the links and, where ranks share them, the cores.
 */

#include <math.h>

#include "base/mem.h"
#include "kern/kern_kind.h"
#include "plan/plan_deal.h"
#include "plan/plan_traffic.h"
#include "plan/plan_timeline.h"

/* Sums of doubles in another order differ by some 1e-16 times the number of their terms (below
   10,000): values that differ by less than this are equal. */
static const double SAME = 1e-12;

int plan_price_less(double a, double b)
{
    return b - a > SAME * (a > b ? a : b);
}

static const enum schedule_algo algos[] = {SCHEDULE_HO_RING, SCHEDULE_TWO_LEVEL, SCHEDULE_RING};
enum { ALGOS = sizeof algos / sizeof *algos };

struct plan_cost plan_cost_of(const struct plan_case *c, const struct plan_traffic *t,
                              struct plan_strategy strategy, enum schedule_algo algo)
{
    struct plan_cost b = {.at = c,
                          .traffic = t,
                          .strategy = plan_inner(&c->settings, strategy),
                          .algo = algo,
                          .step = plan_step_of(c->model, &c->settings, strategy, &t->layout)};

    b.step.space.units = t->spans;
    b.step.space.tied = c->model->tied ? t->span[t->span_of[0]].elems[PLAN_TRAINED] : 0;
    return b;
}

enum dtype plan_params_wire(const struct plan_settings *s)
{
    return dtype_bytes(s->wire_type) < dtype_bytes(s->param_type) ? s->wire_type
                                                                  : s->param_type;
}

static enum letter price_inner(enum letter letter)
{
    return letter == LETTER_G ? LETTER_I : letter;
}

struct plan_strategy plan_inner(const struct plan_settings *settings, struct plan_strategy s)
{
    return settings->sync_every
               ? (struct plan_strategy){price_inner(s.params), price_inner(s.grads),
                                        price_inner(s.optimizer)}
               : s;
}

enum letter plan_outer(const struct plan_settings *s)
{
    return s->outer == LETTER_I || s->slow_grads ? LETTER_I : LETTER_G;
}

int plan_fragment_of(const struct plan_settings *s, int64_t step)
{
    if (!s->fragments)
        return -1;
    int64_t every = s->sync_every, at = (step - 1) % every;
    int64_t turn = (at * s->fragments + every - 1) / every;
    return turn < s->fragments && turn * every / s->fragments == at ? (int)turn : -1;
}

int plan_turn(const struct plan_settings *s, int unit, int64_t step)
{
    return s->fragments && plan_fragment_of(s, step) == unit % s->fragments;
}

int plan_apart(const struct plan_settings *s, const struct groups *groups)
{
    return s->sync_every > 0 && groups->count > 1;
}

int plan_layered(const struct plan_settings *s)
{
    int most = s->layered < s->accum ? s->layered : s->accum;

    return most > 1 ? most : 1;
}

int plan_micro_steps(const struct plan_settings *s)
{
    int layered = plan_layered(s);

    return s->accum / layered + (s->accum % layered > 0);
}

int64_t plan_optimizer_bytes(const struct plan_settings *s, int64_t elems)
{
    return elems * dtype_bytes(DTYPE_F32) + 2 * moments_bytes(s->moments, elems);
}

int64_t plan_sequences(const struct plan_settings *s, int ranks)
{
    return s->global_batch ? s->global_batch : (int64_t)ranks * s->accum * s->micro_batch;
}

struct plan_step plan_step_of(const struct model *m, const struct plan_settings *s,
                              struct plan_strategy letters, const struct layout *l)
{
    const unsigned across = SCHEDULE_REDUCE_ACROSS | SCHEDULE_GATHER_ACROSS;
    const enum letter outer = plan_outer(s);
    int apart = plan_apart(s, &l->groups);

    letters = plan_inner(s, letters);
    struct plan_step out = {
        .lane = {[STEP_GATHER] = {letters.params, LETTER_N,
                                  layout_phases_copy(letters.params, LETTER_N)},
                 [STEP_REDUCE] = {LETTER_N, letters.grads, layout_phases_micro(letters.grads)},
                 [STEP_CONVERT] = {letters.grads, letters.optimizer,
                                   layout_phases_sum(letters.grads, letters.optimizer)},
                 [STEP_SYNC] = {letters.optimizer, letters.params,
                                layout_phases_copy(letters.optimizer, letters.params)},
                 [STEP_OUTER_REDUCE] = {LETTER_I, outer, layout_phases_sum(LETTER_I, outer)},
                 [STEP_OUTER_GATHER] = {outer, letters.optimizer,
                                        layout_phases_copy(outer, letters.optimizer)}},
        .shape = {.units = m->unit ? m->units : 1,
                  .visits = m->unit ? m->visits : 1,
                  .first_trained = m->first_trained,
                  .micros = plan_micro_steps(s),
                  .prefetch = s->prefetch,
                  .keep = s->keep,
                  .buckets = s->buckets,
                  .outer = !apart         ? STEP_OUTER_NONE
                           : s->fragments ? STEP_OUTER_FIRST
                                          : STEP_OUTER_LAST},
        .space = {.param = s->param_type,
                  .wire = plan_params_wire(s),
                  .grad = s->grad_type,
                  .reduce = s->wire_type,
                  .outer = DTYPE_F32,
                  .moments = s->moments,
                  .piece = s->device == DEVICE_CPU ? PLAN_PIECE : PLAN_GPU_PIECE,
                  .buckets = s->buckets}};

    for (int k = 0; k < STEP_COMPUTE; k++) {
        struct plan_lane *lane = &out.lane[k];
        if (k >= STEP_OUTER_REDUCE ? !apart : apart) /* groups meet in the outer step alone */
            lane->phases &= k >= STEP_OUTER_REDUCE ? 0 : ~across;
        lane->trimmed = layout_phases_trim(l, lane->phases);
        int params = k == STEP_GATHER || k == STEP_SYNC;
        lane->type = params                   ? plan_params_wire(s)
                     : k >= STEP_OUTER_REDUCE ? DTYPE_F32
                                              : s->wire_type;
        if (lane->trimmed & across)
            lane->code = exec_code_of(params ? s->slow_params : s->slow_grads, lane->type);
        out.shape.has[k] = out.space.has[k] = lane->trimmed != 0;
    }
    int gathers = out.shape.has[STEP_GATHER];
    out.space.coded = out.lane[STEP_GATHER].code != EXEC_CODE_SAME;
    out.space.apart = out.shape.has[STEP_REDUCE] || s->grad_type != DTYPE_F32;
    out.space.slots = step_slots(&out.shape);
    out.space.read = kern_kind_weight(s->device, s->compute_type,
                                      gathers ? out.space.wire : out.space.param);
    return out;
}

/* Adds `share` of the times of a step that has an outer step, or has none. */
static void price_part(struct plan_cost *b, int walk, enum step_outer outer, double share,
                       struct plan_price *p)
{
    struct plan_timeline line;

    b->step.shape.outer = outer;
    if (walk)
        plan_timeline_walk(b, 0, NULL, &line);
    else
        plan_timeline_least(b, &line);
    p->compute_s += share * line.compute_s;
    p->comm_s += share * line.comm_s;
    p->slow_s += share * line.slow_s;
    p->bound_s += share * line.bound_s;
    p->step_s += share * line.step_s;
}

/* Sets the times, of a period's mean step: by a walk, or, with walk = 0, a lower bound. */
static void price_step(struct plan_cost *b, int walk, struct plan_price *p)
{
    enum step_outer outer = b->step.shape.outer;
    int turns = b->at->fragments ? b->at->fragments : 1;
    double ends = outer ? (double)turns / b->at->sync_every : 0;

    b->algo = p->algo;
    p->compute_s = p->comm_s = p->slow_s = p->bound_s = p->step_s = 0;
    price_part(b, walk, STEP_OUTER_NONE, 1 - ends, p);
    if (outer)
        price_part(b, walk, outer, ends, p);
}

/* Prices with the fastest of the algorithms left open; the first of equal ones. */
static void price_one(const struct plan_case *c, const struct plan_traffic *t,
                      const struct plan_network *net, int walk, struct plan_price *p)
{
    double tokens =
        (double)plan_sequences(&c->settings, t->layout.groups.ranks) * (double)c->seq;
    struct plan_cost b = plan_cost_of(c, t, p->strategy, p->algo);
    struct plan_work *work = mem_new((size_t)t->visits, sizeof *work);
    int found = 0;

    plan_works_of(&b, work);
    b.work = work;
    for (int i = 0; i < ALGOS; i++) {
        struct plan_price now = {.strategy = p->strategy, .algo = algos[i], .dominated_by = -1};
        if (c->algo != SCHEDULE_AUTO && c->algo != algos[i])
            continue;
        price_step(&b, 0, &now);
        /* Skip the walk of an algorithm that cannot be faster. */
        if (found && !plan_price_less(now.step_s, p->step_s))
            continue;
        if (walk)
            price_step(&b, 1, &now);
        if (!found || plan_price_less(now.step_s, p->step_s))
            *p = now;
        found = 1;
    }
    mem_free(work);
    p->tokens_per_s = c->topo->flops > 0 ? tokens / p->step_s : NAN;
    b.algo = p->algo;
    plan_footprint(&b, net, p);
}

void plan_price_bytes(const struct plan_case *c, const struct plan_traffic *t,
                      struct plan_price *p)
{
    double bytes[PLAN_TIERS][PLAN_SETS][PLAN_LEGS] = {{{0}}};
    struct plan_cost b = plan_cost_of(c, t, p->strategy, p->algo);

    plan_flow_bytes(&b, bytes);
    double out = plan_traffic_largest(t, PLAN_PORT_OUT, bytes[PLAN_SLOW]);
    double in = plan_traffic_largest(t, PLAN_PORT_IN, bytes[PLAN_SLOW]);
    p->slow_bytes = out > in ? out : in;
    p->slow_rank_bytes = plan_traffic_largest(t, PLAN_RANK_SLOW, bytes[PLAN_SLOW]);
    p->fast_bytes = plan_traffic_largest(t, PLAN_RANK_FAST, bytes[PLAN_FAST]);
}

static int dominates(const struct plan_price *a, const struct plan_price *b)
{
    const double mine[] = {a->slow_bytes, a->fast_bytes, a->memory.total,
                           plan_price_gross_s(a)};
    const double its[] = {b->slow_bytes, b->fast_bytes, b->memory.total, plan_price_gross_s(b)};
    int better = 0;

    for (int i = 0; i < 4; i++) {
        if (plan_price_less(its[i], mine[i]))
            return 0;
        better |= plan_price_less(mine[i], its[i]);
    }
    return better;
}

/* Returns the strategy to walk next: the least bound of those that may be fastest; -1: none. */
static int next_of(const struct plan_price list[PLAN_STRATEGIES], unsigned wanted,
                   double best_s)
{
    int next = -1;

    for (int i = 0; i < PLAN_STRATEGIES; i++)
        if (wanted >> i & 1 && !plan_price_less(best_s, list[i].step_s) &&
            (next < 0 || list[i].step_s < list[next].step_s))
            next = i;
    return next;
}

void plan_price_fastest(const struct plan_case *at, const struct plan_traffic *t, unsigned of,
                        double limit_s, struct plan_price out[PLAN_STRATEGIES])
{
    const struct plan_network net = plan_network_of(at);
    struct plan_case paced = *at, *c = &paced;
    unsigned wanted = 0;

    plan_case_pace(c);

    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        out[i] = (struct plan_price){.strategy = plan_strategy_at(i)};
        price_one(c, t, &net, 0, &out[i]);
        wanted |= out[i].feasible ? of & 1U << i : 0;
    }
    for (int i; (i = next_of(out, wanted, limit_s)) >= 0;) {
        price_one(c, t, &net, 1, &out[i]);
        if (out[i].step_s < limit_s) /* otherwise it is not the fastest, whatever failures
                                        cost */
            plan_survive(c, t, &out[i]);
        wanted &= ~(1U << i);
        limit_s = out[i].feasible ? fmin(limit_s, plan_price_gross_s(&out[i])) : limit_s;
    }
}

void plan_price_with(const struct plan_case *at, const struct plan_traffic *t,
                     struct plan_price out[PLAN_STRATEGIES])
{
    const struct plan_network net = plan_network_of(at);
    struct plan_work *work = mem_new((size_t)t->visits, sizeof *work);
    struct plan_case paced = *at, *c = &paced;

    plan_case_pace(c);

    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        out[i] = (struct plan_price){.strategy = plan_strategy_at(i)};
        price_one(c, t, &net, 1, &out[i]);
        plan_survive(c, t, &out[i]);
        plan_budget_set(c, &out[i]);
        /* max(t_comm, t_comp) of the paper, see paro-method(7), TIME. */
        struct plan_cost b = plan_cost_of(c, t, out[i].strategy, SCHEDULE_RING);
        struct plan_timeline line;
        plan_works_of(&b, work);
        b.work = work;
        b.step.shape.outer = STEP_OUTER_NONE; /* the paper has no periods */
        plan_timeline_least(&b, &line);
        out[i].guideline_s = fmax(line.link_s, line.pass_s);
        plan_price_bytes(c, t, &out[i]);
    }
    mem_free(work);
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        int by = 0; /* the first that dominates it */
        while (by < PLAN_STRATEGIES && !dominates(&out[by], &out[i]))
            by++;
        out[i].dominated_by = by < PLAN_STRATEGIES ? by : -1;
    }
    /* Name a dominator that is not dominated itself: dominance is transitive. */
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        for (int hops = 0; hops < PLAN_STRATEGIES && out[i].dominated_by >= 0; hops++) {
            int above = out[out[i].dominated_by].dominated_by;
            if (above < 0)
                break;
            out[i].dominated_by = above;
        }
}

void plan_price_all(const struct plan_case *c, struct plan_price out[PLAN_STRATEGIES])
{
    struct plan_traffic traffic;

    plan_traffic_init(&traffic, c->topo, c->model, &c->settings);
    plan_price_with(c, &traffic, out);
    plan_traffic_release(&traffic);
}
