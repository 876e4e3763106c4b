/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses how often groups that train apart synchronise, and says what that gains.
 */
#include "plan/plan_periods.h"

#include <math.h>

#include "base/units.h"

static const double SHARE = 0.1; /* of the time, that outer steps may take */

static double periods_tokens_per_s(const struct plan_search *s)
{
    return s->best < 0 ? 0 : s->list[s->best].tokens_per_s;
}

/* Whether steps of all ranks take no more than a tenth longer. */
static int is_enough(const struct plan_search *each, const struct plan_search *apart)
{
    return periods_tokens_per_s(each) * (1 + SHARE) >= periods_tokens_per_s(apart);
}

/* Sets H, and as many fragments as were requested; without a number as there are units. */
static void set_period(struct plan_search *s, int every, int fragments)
{
    int units = s->at.model->units > 1 ? s->at.model->units : 1;

    s->at.sync_every = every;
    s->at.fragments = (int)fmin(every, fragments > 0 ? fragments : units);
}

/* Sets the least H with which a step takes a tenth longer at most than in an endless period. */
static int set_periods(struct plan_search *s, const struct plan_search *each, struct err *err)
{
    struct plan_search last = *s, at;
    int less = 0, more = PLAN_SYNC_EVERY_MAX, fragments = s->at.fragments;

    if (!(plan_search_whole(s)->flops > 0))
        return err_set(err, ERR_INPUT,
                       "--sync-every auto on a fabric without compute rate, expected one"
                       " (paro-topo -m MODEL, or synth:...,flops=)");
    last.at.sync_every = more;
    s->at.sync_every = last.at.fragments = s->at.fragments = 0;
    if (plan_search(&last, err))
        return -1;
    if (is_enough(each, &last))
        return 0;
    at = last;
    at.fixed = 1;
    at.strategy = plan_strategy_at(last.best);
    while (more - less > 1) {
        int every = less + (more - less) / 2;
        set_period(&at, every, fragments);
        if (plan_search(&at, err))
            return -1;
        *(is_enough(&at, &last) ? &more : &less) = every;
    }
    set_period(s, more, fragments);
    return 0;
}

/* Searches again what a search has found, with the slow tier so many times as fast. */
static struct plan_search on_faster(const struct plan_search *found, double times)
{
    struct plan_search s = *found;
    struct err ignored; /* cannot fail: it was run before */

    s.groups = NULL;
    s.auto_batch = s.auto_accum = s.auto_keep = s.auto_recompute = 0;
    s.auto_layered = s.auto_type = 0;
    s.fixed = 1;
    s.strategy = found->list[found->best].strategy;
    s.at.slow_rate *= times;
    plan_search(&s, &ignored);
    return s;
}

/* Returns the rate between groups from which steps of all ranks are enough; INFINITY: none. */
static double enough_Bps(const struct plan_search *each, const struct plan_search *apart)
{
    double less = 1, more = is_enough(each, apart) ? 1 : 1 << 10;

    while (more / less > 1.01) {
        double times = sqrt(less * more);
        struct plan_search e = on_faster(each, times), a = on_faster(apart, times);
        *(is_enough(&e, &a) ? &more : &less) = times;
    }
    return more < 1 << 10 ? more * topo_slowest_port_Bps(apart->at.topo) * apart->at.slow_rate
                          : INFINITY;
}

/* Searches without periods, and chooses them. */
static int choose_periods(struct plan_search *s, struct plan_search *each, struct err *err)
{
    *each = *s;
    each->at.sync_every = each->at.fragments = 0;
    if (plan_search(each, err))
        return -1;
    if (s->at.sync_every == PLAN_PERIODS_AUTO)
        return set_periods(s, each, err);
    if (s->at.fragments == PLAN_PERIODS_AUTO)
        set_period(s, s->at.sync_every, 0);
    return 0;
}

int plan_periods_choose(struct plan_search *s, struct err *err)
{
    struct plan_search each;
    int is_auto = s->at.sync_every == PLAN_PERIODS_AUTO || s->at.fragments == PLAN_PERIODS_AUTO;

    return is_auto ? choose_periods(s, &each, err) : 0;
}

int plan_periods_search(struct plan_search *s, char gain[PLAN_PERIODS_GAIN], struct err *err)
{
    struct plan_search each;
    struct units rate;
    char turns[40] = "";

    gain[0] = 0;
    if (s->at.sync_every == 0)
        return plan_search(s, err);
    if (choose_periods(s, &each, err) || plan_search(s, err))
        return -1;
    if (s->best < 0 || !(s->at.topo->flops > 0))
        return 0;
    if (!plan_apart(&s->at.settings, &s->at.topo->groups)) {
        snprintf(gain, PLAN_PERIODS_GAIN, "%s",
                 s->at.topo->groups.count == 1
                     ? "one group has no other to synchronise with (--sync-every)"
                     : "groups that train apart gain less than a tenth: every step is of all"
                       " ranks");
        return 0;
    }
    if (s->at.fragments)
        snprintf(turns, sizeof turns, ", in %d fragment%s", s->at.fragments,
                 &"s"[s->at.fragments == 1]);
    int n = snprintf(
        gain, PLAN_PERIODS_GAIN,
        "%s/%d: groups synchronise every %d steps%s, which is another optimizer: %.4g"
        " tokens/s, instead of %.4g (%s) with every step of all ranks",
        plan_strategy_name(s->list[s->best].strategy), s->at.sync_every, s->at.sync_every,
        turns, periods_tokens_per_s(s), periods_tokens_per_s(&each),
        each.best < 0 ? "nothing fits" : plan_strategy_name(each.list[each.best].strategy));
    double enough = each.best < 0 ? INFINITY : enough_Bps(&each, s);
    if (isfinite(enough))
        snprintf(gain + n, (size_t)(PLAN_PERIODS_GAIN - n),
                 ", which takes at most a tenth longer from %s between groups on",
                 units_rate(&rate, enough));
    return 0;
}
