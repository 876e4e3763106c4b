/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares other measurements than the rates of ports: a rank with the others of its host, the
 * latency to a host with those to the others, all hosts at once with the rates of pairs.
 */
#include <math.h>

#include "base/mem.h"
#include "base/stats.h"
#include "health/health_analysis.h"

static void add_end(struct health_finding *f, const struct health_end *e)
{
    f->percent = e->median;
    f->z = e->z;
    f->samples = e->n;
    f->partners = e->partners;
    f->saw = e->saw;
}

/* ---- ranks ---- */

/*
 * Adds the parts of a stream, which are consecutive and share a port, not evenly: percent of
 * their median (of two, of the larger one: the smaller is in question).  Only parts that share
 * a port.
 */
static void add_parts(const struct health_data *d, struct health_ends *e)
{
    const struct health_rank_sample *s = d->rank_samples.at;
    int n = d->rank_samples.count, *host = mem_new((size_t)d->ranks + 1, sizeof *host);
    double *v = mem_new((size_t)n + 1, sizeof *v);

    for (int k = 0, r = 0; k < d->hosts; k++)
        for (int i = 0; i < d->host[k].ranks; i++)
            host[r++] = k;
    for (int from = 0, to; from < n; from = to) {
        for (to = from;
             to < n && s[to].round == s[from].round && host[s[to].src] == host[s[from].src] &&
             host[s[to].dst] == host[s[from].dst];
             to++)
            v[to - from] = s[to].Bps;
        int parts = to - from;
        double usual = parts == 2 ? fmax(v[0], v[1]) : stats_median(v, parts);
        for (int i = from; parts > 1 && usual > 0 && i < to; i++)
            health_ends_add(e, s[i].src, s[i].dst, 100 * s[i].Bps / usual, 0);
    }
    for (int i = 0; i < e->samples; i++)
        v[i] = e->sample[i].value;
    double usual = e->samples ? stats_median(v, e->samples) : 100;
    for (int i = 0; i < e->samples; i++)
        e->sample[i].value *= 100 / usual;
    mem_free(host);
    mem_free(v);
}

/* Uneven sharing of a port is no network fault unless it is this large. */
static int rank_alerts(const void *rules, double percent)
{
    return percent < 100 &&
           health_range_alerts(&((const struct health_rules *)rules)->crit, percent);
}

void health_judge_ranks(const struct health_data *d, const struct health_rules *rules,
                        struct health_verdict *v)
{
    struct health_ends e = {.ends = d->ranks, .ways = 2, .alerts = rank_alerts, .rules = rules};

    add_parts(d, &e);
    if (e.samples)
        health_ends_judge(&e);
    for (int r = 0; e.samples && r < d->ranks; r++) {
        const struct health_end *end = e.end[r];
        int out = end[HEALTH_OUT].slow, both = out && end[HEALTH_IN].slow;
        int way = out ? HEALTH_OUT : HEALTH_IN, host = health_host_of_rank(d, r);
        if (!end[way].slow)
            continue;
        struct health_finding *f = health_verdict_addf(
            v, HEALTH_WARNING, HC_RANK, host, "rank %d on %.64s %s %.0f %% of the others there",
            r, d->host[host].name, both ? "out and in" : health_way[way], end[way].median);
        add_end(f, &end[way]);
        f->rank = r;
        f->way = both ? -1 : way;
    }
    health_ends_release(&e);
}

/* ---- latency ---- */

/*
 * Less lateness is no rank's fault: a rank that shares a processor answers 10 to 20 us later
 * while it does (measured).
 */
static const double late_least_s = 25e-6;

/* Ends have speeds, the inverse of latency, so that low is bad here too. */
static int late(const void *rules, double speed)
{
    return health_range_alerts(&((const struct health_rules *)rules)->late_warn, 1e4 / speed);
}

/* A baseline gives an expectation for two hosts.  With more, a latency that all have is no
   host's fault. */
static void expect_by_baseline(const struct health_data *d, const struct health_baseline *b,
                               double *want, double *v)
{
    int *at = health_baseline_places(b, d), n = 0;

    for (int i = 0; i < d->latencies.count; i++) {
        const struct health_latency *s = &d->latencies.at[i];
        if (at[s->src] >= 0 && at[s->dst] >= 0)
            want[i] = fmax(b->port[at[s->src]].latency_s, b->port[at[s->dst]].latency_s);
        if (want[i] > 0)
            v[n++] = s->s / want[i];
    }
    double shift = d->hosts >= HEALTH_HOSTS_ALONE && n ? fmax(1, stats_median(v, n)) : 1;
    for (int i = 0; i < d->latencies.count; i++)
        want[i] *= shift;
    mem_free(at);
}

/* Expects the median on paths of the same class. */
static void expect_by_peers(const struct health_data *d, double *want, double *v)
{
    for (int path = 0; path < HEALTH_PATHS; path++) {
        int n = 0;
        for (int i = 0; i < d->latencies.count; i++)
            if (health_path(d, d->latencies.at[i].src, d->latencies.at[i].dst) == path)
                v[n++] = d->latencies.at[i].s;
        double median = n ? stats_median(v, n) : 0;
        for (int i = 0; i < d->latencies.count; i++)
            if (health_path(d, d->latencies.at[i].src, d->latencies.at[i].dst) == path)
                want[i] = median;
    }
}

static void other_name_late(const struct health_data *d, const struct health_rules *rules,
                            int k, const struct health_end *end, double want_s,
                            struct health_verdict *v)
{
    const struct health_rules ranges = {.warn = rules->late_warn, .crit = rules->late_crit};
    const int two = d->hosts == 2;
    double percent = 1e4 / end->median, s = want_s * percent / 100;
    struct units u;
    struct health_finding *f = health_verdict_addf(
        v, health_range_alerts(&rules->late_crit, percent) ? HEALTH_CRITICAL : HEALTH_WARNING,
        HC_LATENCY, k, "%.64s%s%.64s latency %.3g of %.3g us, %s of %s", d->host[k].name,
        two ? " and " : "", two ? d->host[!k].name : "", s * 1e6, want_s * 1e6,
        health_percent(&u, &ranges, percent), rules->baseline ? "baseline" : "peers");

    add_end(f, end);
    f->other = two ? !k : -1;
    f->expected = f->peers = want_s;
    f->measured = s;
    f->percent = percent;
}

void health_judge_latency(const struct health_data *d, const struct health_rules *rules,
                          struct health_verdict *v)
{
    size_t space = (size_t)d->latencies.count + 1;
    double *want = mem_new(space, sizeof *want), *work = mem_new(space, sizeof *work);
    struct health_ends e = {.ends = d->hosts,
                            .ways = 1,
                            .few = d->hosts <= HEALTH_PEERS_LEAST,
                            .alerts = late,
                            .rules = rules};
    int n = 0;

    if (rules->baseline)
        expect_by_baseline(d, rules->baseline, want, work);
    else if (d->hosts >= HEALTH_HOSTS_ALONE)
        expect_by_peers(d, want, work);
    for (int i = 0; i < d->latencies.count; i++) {
        const struct health_latency *s = &d->latencies.at[i];
        if (want[i] <= 0) /* no expectation for this pair */
            continue;
        health_ends_add(&e, s->src, s->dst, 100 * want[i] / s->s, 0);
        want[n++] = want[i];
    }
    if (n) {
        health_ends_judge(&e);
        double usual_s = stats_median(want, n);
        for (int k = 0; k < d->hosts; k++)
            if (e.end[k][0].slow && usual_s * (100 / e.end[k][0].median - 1) >= late_least_s)
                other_name_late(d, rules, k, &e.end[k][0], usual_s, v);
    }
    health_ends_release(&e);
    mem_free(want);
    mem_free(work);
}

/* ---- all hosts at once ---- */

/* Returns the best run of these hosts at once, or NULL; sets *looks to the number of runs. */
static const struct health_collective *best_of(const struct health_data *d, int first,
                                               int count, int *looks)
{
    const struct health_collective *best = NULL;

    *looks = 0;
    for (int i = 0; i < d->collectives.count; i++) {
        const struct health_collective *c = &d->collectives.at[i];
        if (c->first != first || c->count != count)
            continue;
        ++*looks;
        if (!best || c->s * best->want_s < best->s * c->want_s)
            best = c;
    }
    return best;
}

/* Returns whether it took longer than expected from its pairs, by the range of CRITICAL. */
static int is_late(const struct health_collective *c, const struct health_rules *rules)
{
    return c->s > 0 && health_range_alerts(&rules->crit, 100 * c->want_s / c->s);
}

/*
 * Judges all hosts at once only if nobody is accused: a slow port makes every collective slow.
 * The expectation is a model, hence the range of CRITICAL for a WARNING.
 */
void health_judge_collective(const struct health_data *d, const struct health_rules *rules,
                             struct health_verdict *v)
{
    const struct health_collective *all = NULL, *least = NULL;
    int looks;

    for (int i = 0; i < v->findings; i++)
        if (v->finding[i].state != HEALTH_UNKNOWN)
            return;
    if (health_missing(d, 1u << HEALTH_PART_COLLECTIVE)) /* not measured often enough */
        return;
    for (int i = 0; i < d->collectives.count; i++) {
        const struct health_collective *c = &d->collectives.at[i];
        c = best_of(d, c->first, c->count, &looks);
        if (!is_late(c, rules))
            continue;
        if (c->count == d->hosts)
            all = c;
        else if (!least || c->count < least->count)
            least = c;
    }
    if (!all)
        return;
    double percent = 100 * all->want_s / all->s;
    struct health_finding *f =
        least ? health_verdict_addf(v, HEALTH_WARNING, HC_COLLECTIVE, -1,
                                    "all %d hosts at once %.0f %% of what pairs give, %.64s to "
                                    "%.64s too",
                                    d->hosts, percent, d->host[least->first].name,
                                    d->host[least->first + least->count - 1].name)
              : health_verdict_addf(
                    v, HEALTH_WARNING, HC_COLLECTIVE, -1,
                    "only all %d hosts at once are slow, %.0f %% of what pairs give", d->hosts,
                    percent);
    f->measured = all->s;
    f->expected = all->want_s;
    f->percent = percent;
}

/*
 * Chooses the hosts of the next collective: all; and, as long as a range is slow, its halves.
 *
 *     0..7 slow    0..3 slow    0..1 fine         only 0..3 together are slow
 *                  4..7 fine    2..3 fine
 *
 * A range is slow if it was slow HEALTH_COLLECTIVE_RUNS times in a row: a run takes at most a
 * second, in which any stream may collide with another program's.
 */
int health_bisect(const struct health_data *d, const struct health_rules *rules, int *first,
                  int *count)
{
    int looks;

    *first = 0;
    *count = d->hosts;
    if (!best_of(d, 0, d->hosts, &looks))
        return 1;
    for (int i = 0; i < d->collectives.count; i++) {
        const struct health_collective *c = &d->collectives.at[i];
        *first = c->first;
        *count = c->count;
        if (!is_late(best_of(d, *first, *count, &looks), rules))
            continue;
        if (looks < HEALTH_COLLECTIVE_RUNS)
            return 1;
        for (int upper = 0; upper < 2 && c->count >= 4; upper++) { /* a half has two hosts at
                                                                      least */
            *first = c->first + (upper ? c->count / 2 : 0);
            *count = upper ? c->count - c->count / 2 : c->count / 2;
            if (!best_of(d, *first, *count, &looks))
                return 1;
        }
    }
    return 0;
}
