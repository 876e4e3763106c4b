/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the rate expected of a stream, and finds pairs that are slow although both their
 * ends are healthy.
 *
 * The expected rate is the baseline's for the slower of the two ports, or that of hosts on
 * paths of the same class: the median over all ports of their own medians there.
 *
 * A pair has few samples (one, if there are many hosts), and a transient loss makes any of them
 * low.  Let p be the share of low samples on a healthy pair, counted in this run over all pairs
 * whose samples are not mostly low, plus two standard errors.  A pair with k low samples of n
 * is slow if M P(Bin(n, p) >= k) <= HEALTH_ALARMS, M being the number of pairs measured: 5 of 5
 * among 64 hosts with 2 % of transients.  Until then a low pair is measured again; it is
 * cleared as soon as half of its samples are not low.
 */
#include "health/health_analysis.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/*
 * Percent.  Where ports are at 100 / 0.75 of their baseline, a port that lost the quarter of
 * its rate that is CRITICAL is still at its own: such a baseline finds no faults.
 */
static const double stale_least = 133;
/* A pair measured again so often and neither slow nor cleared is intermittent. */
enum { PAIR_AGAIN_MOST = 16 };

static int alerts(const void *rules, double percent)
{
    return health_rules_state(rules, percent);
}

/* ---- expected rates ---- */

static int want_by_baseline(struct health_analysis *l, struct err *err)
{
    const struct health_baseline *b = l->rules->baseline;
    const struct health_data *d = l->d;

    if (health_baseline_check(b, d, err))
        return -1;
    int *at = health_baseline_places(b, d);
    for (int k = 0; k < d->hosts; k++)
        for (int way = 0; way < 2; way++) {
            l->want[k][way] = b->port[at[k]].Bps[way];
            l->spread[k][way] = b->port[at[k]].spread[way] * 100;
        }
    mem_free(at);
    for (int i = 0; i < d->samples.count; i++) {
        const struct health_sample *s = &d->samples.at[i];
        double ratio = b->path_ratio[health_path(d, s->src, s->dst)];
        double want = fmin(l->want[s->src][HEALTH_OUT], l->want[s->dst][HEALTH_IN]);
        l->ends.sample[i].value = 100 * s->Bps / (want * (ratio > 0 ? ratio : 1));
    }
    return 0;
}

/*
 * With few hosts a slow one spoils a large part of the others' samples, so a port counts with
 * its best partners.  With many hosts its median counts, which more samples do not raise.
 */
int health_path_rates(const struct health_data *d, const unsigned char *skip,
                      double rate[HEALTH_PATHS])
{
    int commonest = 0, most = 0;

    for (int path = 0; path < HEALTH_PATHS; path++) {
        struct health_ends e = {
            .ends = d->hosts, .ways = 2, .few = d->hosts <= HEALTH_PEERS_LEAST};
        for (int i = 0; i < d->samples.count; i++) {
            const struct health_sample *s = &d->samples.at[i];
            if (health_path(d, s->src, s->dst) == path && !(skip && skip[i]))
                health_ends_add(&e, s->src, s->dst, s->Bps, 0);
        }
        health_ends_index(&e);
        if (e.samples || !skip)
            rate[path] = health_ends_percentile(&e, 50);
        if (e.samples > most) {
            most = e.samples;
            commonest = path;
        }
        health_ends_release(&e);
    }
    return commonest;
}

static int want_by_peers(struct health_analysis *l, const unsigned char *skip, struct err *err)
{
    const struct health_data *d = l->d;

    if (d->hosts < HEALTH_HOSTS_ALONE)
        return err_set(err, ERR_INPUT,
                       "%d host%s and no baseline, expected -b BASELINE or %d hosts to compare"
                       " with each other",
                       d->hosts, d->hosts == 1 ? "" : "s", HEALTH_HOSTS_ALONE);
    int commonest = health_path_rates(d, skip, l->rate);
    for (int i = 0; i < d->samples.count; i++) {
        const struct health_sample *s = &d->samples.at[i];
        l->ends.sample[i].value = 100 * s->Bps / l->rate[health_path(d, s->src, s->dst)];
    }
    for (int k = 0; k < d->hosts; k++)
        l->want[k][HEALTH_OUT] = l->want[k][HEALTH_IN] = l->rate[commonest];
    return 0;
}

/*
 * All ports off their baseline by one factor are not many faults but another level, with which
 * ports are then compared.  If three in four are far above, the baseline is another fabric's,
 * and ports are compared with each other.
 */
static void find_shift(struct health_analysis *l)
{
    int n = l->d->samples.count, hosts = l->d->hosts;

    l->shift = 100;
    if (!l->rules->baseline)
        return;
    health_ends_index(&l->ends);
    double level = health_ends_percentile(&l->ends, 50);
    if (health_ends_percentile(&l->ends, 25) > stale_least)
        l->stale = level;
    else if (hosts >= HEALTH_PEERS_LEAST && alerts(l->rules, level))
        l->shift = level;
    else
        return;
    for (int k = 0; l->stale > 0 && k < hosts; k++)
        for (int way = 0; way < 2; way++)
            l->want[k][way] *= level / 100;
    for (int i = 0; i < n; i++)
        l->ends.sample[i].value *= 100 / level;
}

/* ---- pairs ---- */

struct seen {
    uint64_t key; /* src, dst */
    double residual, percent;
    int again;
};

static int analysis_by_key(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    int c = MEM_ORDER(x, y, key);

    return c ? c : MEM_ORDER(x, y, residual);
}

/* Returns samples of pairs whose ends are healthy, as percent of the slower end's rate. */
static struct seen *collect_pairs(struct health_analysis *l, int *n)
{
    int hosts = l->d->hosts, met;
    double(*level)[2] = mem_new((size_t)hosts, sizeof *level);
    struct seen *seen = mem_new((size_t)l->d->samples.count + 1, sizeof *seen);

    for (int k = 0; k < hosts; k++)
        for (int way = 0; way < 2; way++)
            level[k][way] =
                l->ends.end[k][way].slow ? NAN : health_ends_level(&l->ends, k, way, &met);
    *n = 0;
    for (int i = 0; i < l->d->samples.count; i++) {
        const struct health_ends_sample *s = &l->ends.sample[i];
        int src = s->end[0], dst = s->end[1];
        double out = level[src][HEALTH_OUT], in = level[dst][HEALTH_IN];
        if (l->excused[src] || l->excused[dst] || !(out > 0) || !(in > 0))
            continue;
        seen[(*n)++] = (struct seen){(uint64_t)src * (uint64_t)hosts + (uint64_t)dst,
                                     100 * s->value / fmin(out, in), s->value, s->again};
    }
    if (*n)
        qsort(seen, (size_t)*n, sizeof *seen, analysis_by_key);
    mem_free(level);
    return seen;
}

static struct health_pair count_pair(const struct health_analysis *l, const struct seen *s,
                                     int n)
{
    struct health_pair p = {.src = (int)(s->key / (uint64_t)l->d->hosts),
                            .dst = (int)(s->key % (uint64_t)l->d->hosts),
                            .n = n};
    double deviation = fmax(l->ends.pooled, HEALTH_SIGMA_LEAST), sure = 100 - 3 * deviation;

    for (int i = 0; i < n; i++) {
        p.low += s[i].residual < sure && alerts(l->rules, s[i].residual);
        p.again += s[i].again;
    }
    p.rounds = n - p.again;
    /* Sorted by residual; for one pair the percents have the same order. */
    int lower = (n - 1) / 2, upper = n / 2;
    p.residual = (s[lower].residual + s[upper].residual) / 2;
    p.percent = (s[lower].percent + s[upper].percent) / 2;
    p.z = (100 - p.residual) / health_median_error(deviation, n);
    return p;
}

static void judge_pair(const struct health_analysis *l, struct health_pair *p, double pairs)
{
    int more = 0; /* number of samples, all low, that accuse */

    while (more < PAIR_AGAIN_MOST &&
           pairs * health_binomial_above(p->n + more, p->low + more, l->low_share) >
               HEALTH_ALARMS)
        more++;
    p->need = p->n + more;
    int low = p->low * 2 > p->n && alerts(l->rules, p->residual);
    p->slow = low && more == 0;
    p->suspect = low && !p->slow && p->rounds > 0 && p->again < PAIR_AGAIN_MOST;
}

static void find_pairs(struct health_analysis *l)
{
    int n, pairs = 0, well = 0, well_low = 0;
    struct seen *seen = collect_pairs(l, &n);

    l->pair = mem_new((size_t)n + 1, sizeof *l->pair);
    for (int from = 0, to; from < n; from = to) {
        for (to = from; to < n && seen[to].key == seen[from].key; to++)
            ;
        struct health_pair p = count_pair(l, seen + from, to - from);
        pairs += p.rounds > 0;
        if (p.n == 1 || p.low * 2 <= p.n) {
            well += p.n;
            well_low += p.low;
        }
        if (p.low)
            l->pair[l->pairs++] = p;
    }
    l->low_share = well ? fmin(0.5, (well_low + 2 * sqrt(well_low) + 2) / well) : 0.5;
    for (int i = 0; i < l->pairs; i++)
        judge_pair(l, &l->pair[i], pairs);
    mem_free(seen);
}

/* ---- the analysis ---- */

/*
 * Computes the expected rates again without the streams of slow ports, which lowered them: by
 * 0.4 % with one of 8 ports at 95 %, by 2 % with three of 8 at 90 %.
 */
static void judge_ends_without_slow(struct health_analysis *l)
{
    int n = l->d->samples.count, skipped = 0;
    unsigned char *skip = mem_new((size_t)n + 1, 1);

    for (int i = 0; i < n; i++) {
        const int *end = l->ends.sample[i].end;
        skip[i] = l->ends.end[end[0]][HEALTH_OUT].slow || l->ends.end[end[1]][HEALTH_IN].slow;
        skipped += skip[i];
    }
    if (skipped && skipped < n) {
        struct err err;
        want_by_peers(l, skip, &err); /* cannot fail: peers sufficed the first time */
        health_ends_judge(&l->ends);
    }
    mem_free(skip);
}

int health_analyse(struct health_analysis *l, const struct health_data *d,
                   const struct health_rules *rules, struct err *err)
{
    *l = (struct health_analysis){.d = d, .rules = rules};
    l->want = mem_new((size_t)d->hosts, sizeof *l->want);
    l->spread = mem_new((size_t)d->hosts, sizeof *l->spread);
    l->ends = (struct health_ends){.ends = d->hosts,
                                   .ways = 2,
                                   .few = d->hosts <= HEALTH_PEERS_LEAST,
                                   .spread = l->spread,
                                   .alerts = alerts,
                                   .rules = rules};
    for (int i = 0; i < d->samples.count; i++) {
        const struct health_sample *s = &d->samples.at[i];
        health_ends_add(&l->ends, s->src, s->dst, 0, s->stage == HEALTH_CONFIRM);
    }
    if (rules->baseline ? want_by_baseline(l, err) : want_by_peers(l, NULL, err)) {
        health_analysis_release(l);
        return -1;
    }
    find_shift(l);
    l->ends.excused = l->excused = health_excused(d);
    health_ends_judge(&l->ends);
    if (!rules->baseline)
        judge_ends_without_slow(l);
    if (d->hosts > 2)
        find_pairs(l);
    return 0;
}

void health_analysis_release(struct health_analysis *l)
{
    health_ends_release(&l->ends);
    MEM_FREE(l->want, l->spread, l->pair, l->excused);
    *l = (struct health_analysis){0};
}
