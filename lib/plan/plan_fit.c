/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Advises if nothing fits.  More groups shrink the globally partitioned states and nothing
 * else: on g groups a strategy needs f(g) = A + B / g bytes, except for rounding and for
 * effects of the choice of algorithm.  So two sizes give its A and B, and these give the number
 * of groups to try next, or show that no number suffices: pricing a million ranks takes
 * seconds.
 */
#include "plan/plan_fit.h"

#include <math.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/units.h"
#include "plan/plan_traffic.h"

/* Tolerance of the least memory: shards are whole elements, and a flat ring needs other
   scratch. */
static const double CLOSE = 0.02;

/* Returns the search with each `auto` set to the choice that needs least memory. */
static struct plan_search least_of(const struct plan_search *s)
{
    struct plan_search least = *s;

    if (s->auto_batch && (s->auto_accum || !s->at.global_batch)) {
        least.at.micro_batch = 1;
        least.auto_batch = 0;
    }
    if (s->auto_keep)
        least.at.keep = 0;
    if (s->auto_layered)
        least.at.layered = 1;
    least.at.recompute |= s->auto_recompute;
    least.auto_keep = least.auto_recompute = least.auto_layered = 0;
    return least;
}

struct trial { /* a fabric with a number of groups of one boundary */
    struct plan_fit fit;
    double total[PLAN_STRATEGIES]; /* memory by strategy, allowed or not */
};

static struct trial search_on(const struct plan_search *least, int level, int groups)
{
    struct plan_search s = *least;
    struct plan_boundaries one;
    struct topo topo;
    struct err ignored;

    topo_extend(plan_search_whole(least), groups, &topo);
    plan_boundaries_init(&one, &topo, level, &ignored); /* as many levels as before */
    s.groups = &one;
    if (s.at.failures.copies == PLAN_COPIES_AUTO)
        s.at.failures = (struct plan_failures){0}; /* only memory is needed */
    plan_search(&s, &ignored); /* cannot fail: each rank has a sequence, and a micro-batch is
                                  not searched */
    const struct plan_price *p = &s.list[s.best >= 0 ? s.best : s.closest];
    struct trial t = {.fit = {.fits = s.best >= 0,
                              .groups = groups,
                              .ranks = topo.groups.ranks,
                              .strategy = p->strategy,
                              .memory = p->memory}};
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        t.total[i] = s.list[i].memory.total;
    plan_boundaries_release(&one);
    topo_release(&topo);
    return t;
}

/*
 * Returns the fewest groups with which any allowed strategy fits `memory`, extrapolated from
 * two sizes; or infinity.
 */
static double groups_seen(const struct plan_search *least, const struct trial *a,
                          const struct trial *b, double memory)
{
    double ga = a->fit.groups, gb = b->fit.groups, fewest = INFINITY;

    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        double A = (gb * b->total[i] - ga * a->total[i]) / (gb - ga);
        double B = (a->total[i] - A) * ga;
        if (plan_search_allows(least, i) && B > 0 && memory > A)
            fewest = fmin(fewest, B / (memory - A));
    }
    return fewest;
}

static struct plan_fit fit_at(const struct plan_search *least, int level)
{
    const struct groups *g = &plan_search_whole(least)->groups;
    int64_t ranks = least->at.global_batch ? least->at.global_batch : GROUPS_RANKS_MAX;
    int most = (int)(ranks / g->ranks * g->count);
    double memory = least->at.memory_bytes;
    struct trial before = {.fit.groups = 0}, now = search_on(least, level, 1);

    while (!now.fit.fits && now.fit.groups < most) {
        double next = 2.0 * now.fit.groups;
        /* Once all groups are repeated, the fabric's raggedness no longer changes. */
        if (before.fit.groups >= g->count) {
            double seen = ceil(groups_seen(least, &before, &now, memory));
            if (groups_seen(least, &before, &now, (1 + CLOSE) * memory) > most)
                break;
            next = seen > now.fit.groups ? seen : next;
        }
        before = now;
        now = search_on(least, level, next < most ? (int)next : most);
    }
    /* Bisect between too few groups and enough, first at one below: mostly `now` is minimal. */
    for (int lo = before.fit.groups, next = now.fit.groups - 1;
         now.fit.fits && now.fit.groups - lo > 1; next = lo + (now.fit.groups - lo) / 2) {
        struct trial t = search_on(least, level, next);
        if (t.fit.fits)
            now = t;
        else
            lo = next;
    }
    return now.fit;
}

/* Prefers one that fits, then fewer groups (if it fits), then less memory. */
static int is_smaller(const struct plan_fit *a, const struct plan_fit *b)
{
    if (a->fits != b->fits)
        return a->fits;
    if (a->fits && a->groups != b->groups)
        return a->groups < b->groups;
    return a->memory.total < b->memory.total;
}

static struct plan_fit smallest(const struct plan_search *least)
{
    const struct plan_boundaries *groups = least->groups;
    struct plan_fit best = {.fits = 0};

    for (int i = 0; i == 0 || (groups && i < groups->count); i++) {
        struct plan_fit fit = fit_at(least, groups ? groups->level[i] : 0);
        if (i == 0 || is_smaller(&fit, &best))
            best = fit;
    }
    return best;
}

void plan_fit(const struct plan_search *s, struct plan_advice *out)
{
    struct plan_search least = least_of(s);
    const struct plan_case *c = &least.at;

    *out = (struct plan_advice){.as_requested = smallest(&least)};
    if (out->as_requested.fits || !c->model->unit)
        return;
    out->relief = (struct plan_relief){!c->recompute, c->micro_batch > 1, c->keep > 0,
                                       plan_layered(&c->settings) > 1};
    if (!out->relief.recompute && !out->relief.batch && !out->relief.keep &&
        !out->relief.layered)
        return;
    least.at.recompute = least.at.micro_batch = least.at.layered = 1;
    least.at.keep = 0;
    out->relieved = smallest(&least);
}

/* "16 groups of 8 (128 ranks)", or "5 groups (33 ranks)" if they are ragged. */
static const char *fabric_text(const struct plan_search *s, const struct plan_fit *fit,
                               char text[64])
{
    const struct groups *g = &plan_search_whole(s)->groups;
    int m = g->members[0], even = 1;

    for (int k = 1; k < g->count; k++)
        even = even && g->members[k] == m;
    if (even)
        snprintf(text, 64, "%d group%s of %d (%d ranks)", fit->groups,
                 fit->groups == 1 ? "" : "s", m, fit->ranks);
    else
        snprintf(text, 64, "%d groups (%d ranks)", fit->groups, fit->ranks);
    return text;
}

/* "--recompute, --micro-batch=1 and --keep=0", as far as they apply. */
static const char *relief_text(const struct plan_relief *r, char text[64])
{
    const int requested[] = {r->recompute, r->batch, r->keep, r->layered};
    static const char *const words[] = {"--recompute", "--micro-batch=1", "--keep=0",
                                        "--layered=1"};
    int left = r->recompute + r->batch + r->keep + r->layered;

    *text = 0;
    for (int i = 0; i < 4; i++)
        if (requested[i]) {
            left--;
            strcat(strcat(text, words[i]), left > 1 ? ", " : left ? " and " : "");
        }
    return text;
}

/* Writes the effect of more groups, and what else would help. */
static void say_fit(const struct plan_search *s, const struct plan_advice *a, char text[320])
{
    const struct plan_fit *fit = a->as_requested.fits ? &a->as_requested : &a->relieved;
    struct units left, most;
    double bytes;
    char shape[64], relief[64];

    relief_text(&a->relief, relief);
    if (fit->fits) {
        snprintf(text, 320, "%s%s%s would fit on %s",
                 relief[0] ? "more groups would not help, but with " : "", relief,
                 relief[0] ? " it" : plan_strategy_name(fit->strategy),
                 fabric_text(s, fit, shape));
        return;
    }
    const char *what = plan_memory_heaviest(&a->as_requested.memory, &bytes);
    snprintf(text, 320, "more groups would not help%s%s: %s remain, %s of it %s",
             relief[0] ? ", nor would " : "", relief,
             units_bytes(&left, a->as_requested.memory.total), units_bytes(&most, bytes), what);
}

int plan_fit_refuse(const struct plan_search *s, const struct plan_advice *a, struct err *err)
{
    const struct plan_price *p = &s->list[s->closest];
    struct units need, most, have;
    double bytes;
    char more[320];
    const char *what = plan_memory_heaviest(&p->memory, &bytes);

    say_fit(s, a, more);
    return err_set(
        err, ERR_MISMATCH,
        "no feasible plan: %s%s needs %s per rank (%s of it %s), ranks may use %s; %s",
        plan_strategy_name(p->strategy), s->fixed ? "" : ", the smallest,",
        units_bytes(&need, p->memory.total), units_bytes(&most, bytes), what,
        units_bytes(&have, s->at.memory_bytes), more);
}

static void put_fit(struct jout *j, const char *key, const struct plan_fit *fit)
{
    if (!fit->fits) {
        jout_null(j, key);
        return;
    }
    jout_open(j, key, '{');
    jout_int(j, "groups", fit->groups);
    jout_int(j, "ranks", fit->ranks);
    jout_text(j, "strategy", plan_strategy_name(fit->strategy));
    jout_num(j, "total_bytes", fit->memory.total);
    jout_close(j, '}');
}

void plan_put_advice(struct jout *j, const struct plan_advice *a)
{
    put_fit(j, "fits_on", &a->as_requested);
    put_fit(j, "fits_on_relieved", &a->relieved);
}
