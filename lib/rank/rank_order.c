/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides which runs may be compared, and at which budget, and sorts them by their scores.
 * Training speed was shown to predict for runs that differ only in their network (Ru et al.,
 * NeurIPS 2021).  Runs with another batch, schedule or length are rejected.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "rank/rank.h"

static int order_stops(const struct rank_options *o)
{
    return o->stop_below > 0 || o->stop_share > 0;
}

/* Checks values that logs state; 0: not stated. */
static int order_check_alike(const struct rank_result *r, struct err *err)
{
    /* the first run that states them */
    const struct rank_run *a = &r->run[0], *tokens = a, *planned = a;
    int headless = 0; /* 1: a log lacks its first step */

    for (int i = 0; i < r->o->logs; i++)
        headless |= rank_curve_headless(&r->run[i].curve);
    for (int i = 1; i < r->o->logs; i++) {
        const struct rank_run *b = &r->run[i];
        if (headless && a->curve.first != b->curve.first)
            return err_set(err, ERR_MISMATCH,
                           "log '%s' begins with step %" PRId64 " and '%s' with %" PRId64
                           ", expected logs from their first step on (or --force)",
                           a->name, a->curve.first, b->name, b->curve.first);
        if (tokens->tokens != b->tokens && tokens->tokens && b->tokens)
            return err_set(err, ERR_MISMATCH,
                           "a step of '%s' has %" PRId64 " tokens and one of '%s' %" PRId64
                           ", expected the same (or --force)",
                           tokens->name, tokens->tokens, b->name, b->tokens);
        if (planned->planned != b->planned && planned->planned && b->planned)
            return err_set(err, ERR_MISMATCH,
                           "'%s' is a run of %" PRId64 " steps and '%s' of %" PRId64
                           ", expected the same (or --force)",
                           planned->name, planned->planned, b->name, b->planned);
        tokens = tokens->tokens ? tokens : b;
        planned = planned->planned ? planned : b;
    }
    return 0;
}

static int too_short(const struct rank_run *run, int64_t want, struct err *err)
{
    const struct rank_curve *c = &run->curve;
    int64_t have = rank_curve_epochs(c);

    if (have == 0)
        return err_set(err, ERR_MISMATCH,
                       "log '%s' ends with step %" PRId64 ", expected a whole epoch of %" PRId64
                       " (--steps-per-epoch)",
                       run->name, c->last, c->per_epoch);
    return err_set(err, ERR_MISMATCH,
                   "log '%s' has %" PRId64 " epoch%s, expected %" PRId64
                   " (or -T 100%% for those that all have, or --force)",
                   run->name, have, have == 1 ? "" : "s", want);
}

/* floor(fraction * of), from 1 to `of`; adding 1e-9 keeps 0.29 of 100 at 29. */
static int64_t order_share_of(double fraction, int64_t of)
{
    int64_t t = (int64_t)floor(fraction * (double)of * (1 + 1e-9));

    return t < 1 ? 1 : t > of ? of : t;
}

/* Returns the epochs at which all runs are compared. */
static int64_t common_budget(const struct rank_result *r)
{
    int64_t own = rank_curve_epochs(&r->run[0].curve), least = own, most = own;

    for (int i = 1; i < r->o->logs; i++) {
        int64_t t = rank_curve_epochs(&r->run[i].curve);
        least = t < least ? t : least;
        most = t > most ? t : most;
    }
    if (r->o->epochs)
        return r->o->epochs;
    /* The decision on stopping run 0 uses the epochs that it has. */
    if (order_stops(r->o))
        return r->o->fraction > 0 ? order_share_of(r->o->fraction, own) : own;
    return r->o->fraction > 0 ? order_share_of(r->o->fraction, least) : most;
}

/* Sets each run's own budget; 0: too short, and excluded, if the decision is on stopping run
   0. */
static int set_budgets(struct rank_result *r, struct err *err)
{
    int64_t want = common_budget(r);

    r->epochs = want;
    for (int i = 0; i < r->o->logs; i++) {
        struct rank_place *p = &r->place[i];
        int64_t have = rank_curve_epochs(&r->run[i].curve);
        p->run = &r->run[i];
        p->epochs = have < want ? have : want;
        if (have >= want && have > 0)
            continue;
        if (i > 0 && order_stops(r->o))
            p->epochs = 0;
        else if (have == 0 || !r->o->force)
            return too_short(p->run, want, err);
        else
            r->forced = 1;
        if (p->epochs && p->epochs < r->epochs)
            r->epochs = p->epochs;
    }
    return 0;
}

/* Sorts by score; then those that are not numbers, then the excluded ones. */
static int by_score(const void *x, const void *y)
{
    const struct rank_place *a = x, *b = y;

    if (!a->epochs != !b->epochs)
        return a->epochs ? -1 : 1;
    if (a->epochs && !isfinite(a->score) != !isfinite(b->score))
        return isfinite(a->score) ? -1 : 1;
    if (a->epochs && isfinite(a->score) && a->score != b->score)
        return a->score < b->score ? -1 : 1;
    return a->run < b->run ? -1 : a->run > b->run; /* in the given order */
}

/* Returns whether b, the next after a, is indistinguishable from it. */
static int alike(const struct rank_place *a, const struct rank_place *b, double noise)
{
    if (!isfinite(a->score) || !isfinite(b->score))
        return !isfinite(a->score) && !isfinite(b->score);
    return b->score == a->score || b->score - a->score < 2 * noise;
}

int rank_order(struct rank_result *r, struct err *err)
{
    if (!r->o->force && order_check_alike(r, err))
        return -1;
    if (set_budgets(r, err))
        return -1;
    for (int i = 0; i < r->o->logs; i++) {
        struct rank_place *p = &r->place[i];
        if (!p->epochs)
            continue;
        p->score = rank_curve_score(&p->run->curve, &r->o->how, p->epochs);
        p->loss = rank_curve_loss(&p->run->curve, p->epochs);
        r->ranked++;
    }
    qsort(r->place, (size_t)r->o->logs, sizeof *r->place, by_score);
    /* Neighbours within twice the noise share a range of ranks, transitively: neither is called
       better. */
    for (int i = 0, to; i < r->ranked; i = to) {
        for (to = i + 1;
             to < r->ranked && alike(&r->place[to - 1], &r->place[to], r->o->noise);)
            to++;
        for (int k = i; k < to; k++) {
            r->place[k].best = i + 1;
            r->place[k].worst = to;
        }
    }
    if (!order_stops(r->o))
        return 0;
    /* Run 0 stops if its best possible rank is beyond the number of runs to keep. */
    const struct rank_place *p = r->place;
    while (p->run != &r->run[0])
        p++;
    r->share = r->o->stop_share > 0           ? (int)order_share_of(r->o->stop_share, r->ranked)
               : r->o->stop_below < r->ranked ? (int)r->o->stop_below
                                              : r->ranked;
    r->stop = p->best > r->share || !isfinite(p->score);
    return 0;
}
