/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prices a strategy: memory, bytes and time of a global step (paro.md sections 2, 3 and 5). All
 * 27 go through the same lines: a letter only decides which legs run (layout_moves_*).
 *
 * The time of a step is that of a walk through it (plan/timeline.h), in which all that is under
 * way shares the links and, where ranks share them, the cores.
 */
#include "plan/plan.h"

#include <math.h>

#include "plan/tally.h"
#include "plan/timeline.h"

/* Sums of doubles in another order differ by some 1e-16 times their number of terms (below
   10,000): what differs by less than this is equal. */
static const double SAME = 1e-12;

int plan_price_less(double a, double b)
{
    return b - a > SAME * (a > b ? a : b);
}

static void price_bytes(struct plan_bill *b, struct plan_price *p)
{
    double bytes[PLAN_TIERS][PLAN_SETS][PLAN_LEGS] = {{{0}}};

    plan_flow_bytes(b, bytes);
    double out = plan_tally_largest(b->tally, PLAN_PORT_OUT, bytes[PLAN_SLOW]);
    double in = plan_tally_largest(b->tally, PLAN_PORT_IN, bytes[PLAN_SLOW]);
    p->slow_bytes = out > in ? out : in;
    p->slow_rank_bytes = plan_tally_largest(b->tally, PLAN_RANK_SLOW, bytes[PLAN_SLOW]);
    p->fast_bytes = plan_tally_largest(b->tally, PLAN_RANK_FAST, bytes[PLAN_FAST]);
}

/* By the walk; or, of a step that cannot be below the limit, by what it is not below. */
static void price_step(struct plan_bill *b, double limit_s, struct plan_price *p)
{
    struct plan_timeline t;

    plan_timeline_least(b, &t);
    if (t.step_s <= limit_s)
        plan_timeline_run(b, 0, &t);
    p->compute_s = t.compute_s;
    p->comm_s = t.comm_s;
    p->step_s = t.step_s;
    plan_timeline_release(&t);
}

/* All algorithms a case leaves open; the first of equal ones. */
static void price_one(const struct plan_case *c, const struct plan_tally *t, int bytes,
                      double limit_s, struct plan_price *p)
{
    static const enum schedule_algo algos[] = {SCHEDULE_HO_RING, SCHEDULE_TWO_LEVEL,
                                               SCHEDULE_RING};
    double tokens = c->model->unit
                        ? (double)c->micro_batch * c->seq * c->accum * t->layout.groups.ranks
                        : 0;
    struct plan_bill best = {.tally = NULL};

    for (int i = 0; i < 3; i++) {
        struct plan_bill b = {.at = c, .tally = t, .strategy = p->strategy, .algo = algos[i]};
        struct plan_price now = {.strategy = p->strategy, .algo = algos[i], .dominated_by = -1};
        if (c->algo != SCHEDULE_AUTO && c->algo != algos[i])
            continue;
        price_step(&b, best.tally ? fmin(limit_s, p->step_s) : limit_s, &now);
        if (best.tally && !plan_price_less(now.step_s, p->step_s))
            continue;
        best = b;
        *p = now;
    }
    if (bytes)
        price_bytes(&best, p);
    p->tokens_per_s = p->step_s > 0 ? tokens / p->step_s : 0;
    plan_footprint(c, t, p);
}

static int dominates(const struct plan_price *a, const struct plan_price *b)
{
    const double mine[] = {a->slow_bytes, a->fast_bytes, a->memory.total, a->step_s};
    const double its[] = {b->slow_bytes, b->fast_bytes, b->memory.total, b->step_s};
    int better = 0;

    for (int i = 0; i < 4; i++) {
        if (plan_price_less(its[i], mine[i]))
            return 0;
        better |= plan_price_less(mine[i], its[i]);
    }
    return better;
}

/* The first that dominates strategy i, or -1. */
static int dominator(const struct plan_price list[PLAN_STRATEGIES], int i)
{
    for (int j = 0; j < PLAN_STRATEGIES; j++)
        if (dominates(&list[j], &list[i]))
            return j;
    return -1;
}

static void price_all(const struct plan_case *c, const struct plan_tally *t, int bytes,
                      double limit_s, struct plan_price out[PLAN_STRATEGIES])
{
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        out[i] = (struct plan_price){.strategy = plan_strategy_at(i)};
        price_one(c, t, bytes, limit_s, &out[i]);
    }
}

void plan_price_times(const struct plan_case *c, const struct plan_tally *t, double limit_s,
                      struct plan_price out[PLAN_STRATEGIES])
{
    price_all(c, t, 0, limit_s, out);
}

void plan_price_bytes(const struct plan_case *c, const struct plan_tally *t,
                      struct plan_price *p)
{
    price_one(c, t, 1, INFINITY, p);
}

void plan_price_with(const struct plan_case *c, const struct plan_tally *t,
                     struct plan_price out[PLAN_STRATEGIES])
{
    price_all(c, t, 1, INFINITY, out);
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        out[i].dominated_by = dominator(out, i);
    /* Name one that survives itself: what a dominated one dominates, its dominator does too. */
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
    struct plan_tally tally;

    plan_tally_init(&tally, c->topo, c->model, c->trainable, c->keep);
    plan_price_with(c, &tally, out);
    plan_tally_release(&tally);
}
