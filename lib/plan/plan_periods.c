/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses how often groups that train apart synchronise, and says what that gains.  A step
 * takes A + C / H on average: A inside a period, and C for the outer step at its end.
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

/* Sets H: A is found with a period of any length, and A + C with one of a single step. */
static int set_periods(struct plan_search *s, const struct plan_search *each, struct err *err)
{
    struct plan_search last = *s, one = *s;

    if (!(plan_search_whole(s)->flops > 0))
        return err_set(err, ERR_INPUT,
                       "--sync-every auto on a fabric without compute rate, expected one"
                       " (paro-topo -m MODEL, or synth:...,flops=)");
    last.at.sync_every = PLAN_SYNC_EVERY_MAX;
    one.at.sync_every = 1;
    s->at.sync_every = 0;
    if (plan_search(&last, err))
        return -1;
    one.fixed = last.best >= 0;
    one.strategy = plan_strategy_at(last.best < 0 ? 0 : last.best);
    if (plan_search(&one, err))
        return -1;
    double apart = periods_tokens_per_s(&last), meets = periods_tokens_per_s(&one);
    if (apart > 0 && meets > 0 && !is_enough(each, &last))
        s->at.sync_every =
            (int)fmin(fmax(ceil((apart / meets - 1) / SHARE), 1), PLAN_SYNC_EVERY_MAX);
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

int plan_periods_choose(struct plan_search *s, struct err *err)
{
    struct plan_search each = *s;

    if (s->at.sync_every != PLAN_PERIODS_AUTO)
        return 0;
    each.at.sync_every = 0;
    return plan_search(&each, err) || set_periods(s, &each, err) ? -1 : 0;
}

int plan_periods_search(struct plan_search *s, char gain[PLAN_PERIODS_GAIN], struct err *err)
{
    struct plan_search each = *s;
    int is_auto = s->at.sync_every == PLAN_PERIODS_AUTO;
    struct units rate;

    gain[0] = 0;
    each.at.sync_every = 0;
    if (s->at.sync_every == 0)
        return plan_search(s, err);
    if (plan_search(&each, err) || (is_auto && set_periods(s, &each, err)) ||
        plan_search(s, err))
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
    int n = snprintf(gain, PLAN_PERIODS_GAIN,
                     "groups synchronise every %d steps, which is another optimizer: %.4g"
                     " tokens/s, instead of %.4g (%s) with every step of all ranks",
                     s->at.sync_every, periods_tokens_per_s(s), periods_tokens_per_s(&each),
                     each.best < 0 ? "nothing fits"
                                   : plan_strategy_name(each.list[each.best].strategy));
    double enough = each.best < 0 ? INFINITY : enough_Bps(&each, s);
    if (isfinite(enough))
        snprintf(gain + n, (size_t)(PLAN_PERIODS_GAIN - n),
                 ", which takes at most a tenth longer from %s between groups on",
                 units_rate(&rate, enough));
    return 0;
}
