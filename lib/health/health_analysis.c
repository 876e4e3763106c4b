/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is expected of a stream, and which pairs are slow while both their ends are well.
 *
 * Expected is what the baseline says of the slower of the two ports, or what hosts have on
 * paths of the same class: the median over all ports of their own medians there.
 *
 * A pair's samples are few (one, where hosts are many) and a transient loss makes any of them
 * low.  Let p be the share of low samples where nothing is wrong, counted in this very run over
 * all pairs that are not low in their majority, with two standard errors added.  A pair with k
 * low samples of n is slow when M P(Bin(n, p) >= k) <= HEALTH_ALARMS, M being the number of
 * pairs that were measured: 5 of 5 among 64 hosts with 2 % of transients.  Until then a low
 * pair is measured again; it is well as soon as half of its samples are.
 */
#include "health/health_analysis.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"

/*
 * Percent: where ports are at 100 / 0.75 of their baseline, one that lost the quarter of its
 * rate that is CRITICAL still is at its own: such a baseline finds no faults.
 */
static const double stale_least = 133;
/* A pair that was measured so often again and is neither slow nor well comes and goes. */
enum { PAIR_AGAIN_MOST = 16 };

static int alerts(const void *rules, double percent)
{
    return health_rules_alert(rules, percent);
}

/* ---- what is expected ---- */

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
        l->percent[i] = 100 * s->Bps / (want * (ratio > 0 ? ratio : 1));
    }
    return 0;
}

/*
 * The median (p 50) or a lower percentile over ports.  With few hosts a slow one spoils a large
 * part of each other's samples, so that a port counts with its best partners; with many its
 * median does, which no number of samples pushes up.
 */
static double percentile_of_ports(int hosts, int (*pair)[2], const double *value, int n,
                                  double p)
{
    struct health_ends e = {.ends = hosts,
                            .ways = 2,
                            .samples = n,
                            .pair = pair,
                            .few = hosts <= HEALTH_PEERS_LEAST};
    double *each = mem_new((size_t)hosts * 2 + 1, sizeof *each), v = 0;
    int known = 0, met;

    health_ends_index(&e);
    for (int way = 0; way < 2; way++)
        for (int k = 0; k < hosts; k++) {
            each[known] = health_ends_level(&e, k, way, value, &met);
            known += met > 0;
        }
    if (known)
        v = p < 50 ? stats_percentile(each, known, p) : stats_median(each, known);
    health_ends_release(&e);
    mem_free(each);
    return v;
}

int health_path_rates(const struct health_data *d, const unsigned char *skip,
                      double rate[HEALTH_PATHS])
{
    int commonest = 0, most = 0;
    int(*pair)[2] = mem_new((size_t)d->samples.count + 1, sizeof *pair);
    double *Bps = mem_new((size_t)d->samples.count + 1, sizeof *Bps);

    for (int path = 0; path < HEALTH_PATHS; path++) {
        int n = 0;
        for (int i = 0; i < d->samples.count; i++) {
            const struct health_sample *s = &d->samples.at[i];
            if (health_path(d, s->src, s->dst) != path || (skip && skip[i]))
                continue;
            pair[n][0] = s->src;
            pair[n][1] = s->dst;
            Bps[n++] = s->Bps;
        }
        if (n || !skip)
            rate[path] = percentile_of_ports(d->hosts, pair, Bps, n, 50);
        if (n > most) {
            most = n;
            commonest = path;
        }
    }
    mem_free(pair);
    mem_free(Bps);
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
        l->percent[i] = 100 * s->Bps / l->rate[health_path(d, s->src, s->dst)];
    }
    for (int k = 0; k < d->hosts; k++)
        l->want[k][HEALTH_OUT] = l->want[k][HEALTH_IN] = l->rate[commonest];
    return 0;
}

/*
 * All ports off their baseline by the same: not so many faults but another level.  Ports are
 * compared with it then.  Three in four far above theirs: the baseline is of another fabric,
 * and ports are compared with each other.
 */
static void find_shift(struct health_analysis *l)
{
    int n = l->d->samples.count, hosts = l->d->hosts;

    l->shift = 100;
    if (!l->rules->baseline)
        return;
    double level = percentile_of_ports(hosts, l->pair_of, l->percent, n, 50);
    if (percentile_of_ports(hosts, l->pair_of, l->percent, n, 25) > stale_least)
        l->stale = level;
    else if (hosts >= HEALTH_PEERS_LEAST && alerts(l->rules, level))
        l->shift = level;
    else
        return;
    for (int k = 0; l->stale > 0 && k < hosts; k++)
        for (int way = 0; way < 2; way++)
            l->want[k][way] *= level / 100;
    for (int i = 0; i < n; i++)
        l->percent[i] *= 100 / level;
}

/* ---- pairs ---- */

struct seen {
    uint64_t key; /* src, dst */
    double residual, percent;
    int again;
};

static int by_key(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->residual > y->residual) - (x->residual < y->residual);
}

/* Samples of pairs whose ends are well, as percent of what the slower end can do. */
static struct seen *collect_pairs(struct health_analysis *l, int *n)
{
    int hosts = l->d->hosts, met;
    double(*level)[2] = mem_new((size_t)hosts, sizeof *level);
    struct seen *seen = mem_new((size_t)l->d->samples.count + 1, sizeof *seen);

    for (int k = 0; k < hosts; k++)
        for (int way = 0; way < 2; way++)
            level[k][way] = l->ends.end[k][way].slow
                                ? NAN
                                : health_ends_level(&l->ends, k, way, l->percent, &met);
    *n = 0;
    for (int i = 0; i < l->d->samples.count; i++) {
        int src = l->pair_of[i][0], dst = l->pair_of[i][1];
        double out = level[src][HEALTH_OUT], in = level[dst][HEALTH_IN];
        if (l->excused[src] || l->excused[dst] || !(out > 0) || !(in > 0))
            continue;
        seen[(*n)++] =
            (struct seen){(uint64_t)src * (uint64_t)hosts + (uint64_t)dst,
                          100 * l->percent[i] / fmin(out, in), l->percent[i], l->again[i]};
    }
    if (*n)
        qsort(seen, (size_t)*n, sizeof *seen, by_key);
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
    /* They are sorted by their residuals, and percents of one pair go with these. */
    int lower = (n - 1) / 2, upper = n / 2;
    p.residual = (s[lower].residual + s[upper].residual) / 2;
    p.percent = (s[lower].percent + s[upper].percent) / 2;
    p.z = (100 - p.residual) / health_median_error(deviation, n);
    return p;
}

static void judge_pair(const struct health_analysis *l, struct health_pair *p, double pairs)
{
    int more = 0; /* samples, all of them low, that accuse */

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

/* ---- all ---- */

static void judge_ends(struct health_analysis *l)
{
    l->ends = (struct health_ends){.ends = l->d->hosts,
                                   .ways = 2,
                                   .samples = l->d->samples.count,
                                   .pair = l->pair_of,
                                   .value = l->percent,
                                   .again = l->again,
                                   .spread = l->spread,
                                   .excused = l->excused,
                                   .few = l->d->hosts <= HEALTH_PEERS_LEAST,
                                   .alerts = alerts,
                                   .rules = l->rules};
    health_ends_judge(&l->ends);
}

/*
 * What is expected, once more without the streams of ports that are slow, which pulled it down:
 * by 0.4 % with one of 8 ports at 95 %, by 2 % with three of 8 at 90 %.
 */
static void judge_ends_without_slow(struct health_analysis *l)
{
    int n = l->d->samples.count, skipped = 0;
    unsigned char *skip = mem_new((size_t)n + 1, 1);

    for (int i = 0; i < n; i++) {
        skip[i] = l->ends.end[l->pair_of[i][0]][HEALTH_OUT].slow ||
                  l->ends.end[l->pair_of[i][1]][HEALTH_IN].slow;
        skipped += skip[i];
    }
    if (skipped && skipped < n) {
        struct err err;
        want_by_peers(l, skip, &err); /* they were enough to compare the first time */
        health_ends_release(&l->ends);
        judge_ends(l);
    }
    mem_free(skip);
}

int health_analyse(struct health_analysis *l, const struct health_data *d,
                   const struct health_rules *rules, struct err *err)
{
    size_t hosts = (size_t)d->hosts, n = (size_t)d->samples.count + 1;

    *l = (struct health_analysis){.d = d, .rules = rules};
    l->pair_of = mem_new(n, sizeof *l->pair_of);
    l->percent = mem_new(n, sizeof *l->percent);
    l->again = mem_new(n, 1);
    l->want = mem_new(hosts, sizeof *l->want);
    l->spread = mem_new(hosts, sizeof *l->spread);
    for (int i = 0; i < d->samples.count; i++) {
        l->pair_of[i][0] = d->samples.at[i].src;
        l->pair_of[i][1] = d->samples.at[i].dst;
        l->again[i] = d->samples.at[i].stage == HEALTH_CONFIRM;
    }
    if (rules->baseline ? want_by_baseline(l, err) : want_by_peers(l, NULL, err)) {
        health_analysis_release(l);
        return -1;
    }
    l->excused = health_excused(d);
    find_shift(l);
    judge_ends(l);
    if (!rules->baseline)
        judge_ends_without_slow(l);
    if (d->hosts > 2)
        find_pairs(l);
    return 0;
}

void health_analysis_release(struct health_analysis *l)
{
    health_ends_release(&l->ends);
    mem_free(l->pair_of);
    mem_free(l->percent);
    mem_free(l->again);
    mem_free(l->want);
    mem_free(l->spread);
    mem_free(l->pair);
    mem_free(l->excused);
    *l = (struct health_analysis){0};
}
