/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows which port, or which pair, is to blame.  Does not know where the samples come from.
 *
 * A stream is as fast as the slower of its two ends.  Ports are judged worst first; the streams
 * of a port that was found slow say nothing of their other ends any more:
 *
 *     3 hosts, host 1 slow both ways     0>1 50   0>2 100   1>0 50   1>2 50   2>0 100   2>1 50
 *     1 out: 50 50   1 in: 50 50         slow, all partners see it
 *     0 out: (50) 100                    the 50 is host 1's: 100 is left
 *
 * With two hosts every stream has the same two ends, and no stream tells which is slow.  The
 * kernel of the sender does: the rate at which its queue empties while bytes wait in it is what
 * its own port can do.  Where that is the stream's rate the port is the narrow place; where it
 * is more, or where nothing ever waits, the narrow place lies behind it.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "health/health.h"

/* Percent: what one and the same healthy port differs by from run to run at least (measured).
 */
static const double sigma_least = 0.5;
/* The standard error of a median of a normal sample: sqrt(pi / 2) sigma / sqrt(n). */
static const double median_error = 1.2533;
/*
 * A stream's payload over what its sender's port can do, headers included: 1448 / 1514 = 0.956
 * in frames of 1500 bytes, up to 1 in longer ones, when that port is the narrow place; 0.956 of
 * 90 % (the usual warning) = 0.86 at most when another is.  Between the two.
 */
static const double narrow_here = 0.91;

struct judge {
    const struct health_data *d;
    const struct health_rules *rules;
    struct health_verdict *v;
    double (*want)[2];   /* [hosts] expected rate */
    double (*spread)[2]; /* [hosts] of a sample, percent; 0 unknown */
    int (*slow)[2];      /* [hosts] found slow, by direction */
    int *first[2];       /* [hosts + 1] where a port's samples begin in index[way] */
    int *index[2];       /* [samples] */
    double *room;        /* [samples] */
    double *percent;     /* [samples] of what is expected of the stream */
};

struct estimate {
    int n;
    double median, sigma; /* percent; sigma: of the median */
    double best;          /* what the best quarter of the partners see */
};

const char *health_state_name(enum health_state s)
{
    static const char *const names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

    return names[s];
}

static int end_of(const struct health_sample *s, int way)
{
    return way == HEALTH_OUT ? s->src : s->dst;
}

/* The other end: its port is the one of the other direction. */
static int partner_of(const struct health_sample *s, int way)
{
    return way == HEALTH_OUT ? s->dst : s->src;
}

/* The samples of each port, so that judging costs no more than there are samples. */
static void make_index(struct judge *j)
{
    const struct health_data *d = j->d;

    for (int way = 0; way < 2; way++) {
        int *first = mem_new((size_t)d->hosts + 2, sizeof *first);
        for (int i = 0; i < d->samples; i++)
            first[end_of(&d->sample[i], way) + 2]++;
        for (int k = 0; k < d->hosts; k++)
            first[k + 2] += first[k + 1];
        j->index[way] = mem_new((size_t)d->samples, sizeof(int));
        for (int i = 0; i < d->samples; i++)
            j->index[way][first[end_of(&d->sample[i], way) + 1]++] = i;
        j->first[way] = first;
    }
}

/* Into j->room: samples of the port, other than those of slow partners; `partner` -1: any. */
static int collect(struct judge *j, int k, int way, int partner, const double *value)
{
    int n = 0;

    for (int at = j->first[way][k]; at < j->first[way][k + 1]; at++) {
        int i = j->index[way][at], other = partner_of(&j->d->sample[i], way);
        if (!j->slow[other][!way] && (partner < 0 || other == partner))
            j->room[n++] = value[i];
    }
    return n;
}

/* The upper quartile over partners of the median with each. */
static double best_of(struct judge *j, int k, int way, const double *value)
{
    int begin = j->first[way][k], count = j->first[way][k + 1] - begin, partners = 0;
    int *met = mem_new((size_t)count, sizeof *met);
    double *each = mem_new((size_t)count, sizeof *each), best = 0;

    for (int at = begin; at < begin + count; at++) {
        int other = partner_of(&j->d->sample[j->index[way][at]], way), seen = 0;
        for (int m = 0; m < partners && !seen; m++)
            seen = met[m] == other;
        int n = seen ? 0 : collect(j, k, way, other, value);
        if (n) {
            met[partners] = other;
            each[partners++] = stats_median(j->room, n);
        }
    }
    /* Nearest rank: the best of up to four partners, one in four of more. */
    if (partners)
        best = stats_percentile(each, partners, partners < 4 ? 100 : 76);
    mem_free(met);
    mem_free(each);
    return best;
}

static struct estimate estimate(struct judge *j, int k, int way)
{
    struct estimate e = {.n = collect(j, k, way, -1, j->percent)};

    if (e.n == 0)
        return e;
    e.median = stats_median(j->room, e.n);
    double one = fmax(stats_mad(j->room, e.n, e.median), j->spread[k][way]);
    e.sigma = fmax(sigma_least, median_error * one / sqrt(e.n));
    e.best = best_of(j, k, way, j->percent);
    return e;
}

/* ---- what is expected ---- */

static int want_by_baseline(struct judge *j, struct err *err)
{
    const struct health_baseline *b = j->rules->baseline;

    for (int k = 0; k < j->d->hosts; k++) {
        int at = health_baseline_find(b, j->d->host[k]);
        if (at < 0)
            return err_set(err, ERR_INPUT,
                           "host '%s' is not in the baseline, expected every"
                           " host that is checked (--learn makes a new one)",
                           j->d->host[k]);
        for (int way = 0; way < 2; way++) {
            j->want[k][way] = b->Bps[at][way];
            j->spread[k][way] = b->spread[at][way] * 100;
        }
    }
    return 0;
}

/*
 * The median over the ports of the same direction.  With few hosts a slow one spoils a large
 * part of each other's samples, so that a port counts with its best partners; with many its
 * median does, which no number of samples pushes up.
 */
static int want_by_peers(struct judge *j, struct err *err)
{
    int hosts = j->d->hosts, few = hosts <= HEALTH_PEERS_LEAST;
    double *each = mem_new((size_t)hosts, sizeof *each);
    double *Bps = mem_new((size_t)j->d->samples, sizeof *Bps);

    for (int i = 0; i < j->d->samples; i++)
        Bps[i] = j->d->sample[i].Bps;
    for (int way = 0; way < 2 && hosts >= HEALTH_HOSTS_ALONE; way++) {
        int known = 0;
        for (int k = 0; k < hosts; k++) {
            int n = collect(j, k, way, -1, Bps);
            if (n)
                each[known++] = few ? best_of(j, k, way, Bps) : stats_median(j->room, n);
        }
        double median = known ? stats_median(each, known) : 0;
        for (int k = 0; k < hosts; k++)
            j->want[k][way] = median;
    }
    mem_free(each);
    mem_free(Bps);
    if (hosts < HEALTH_HOSTS_ALONE)
        return err_set(err, ERR_INPUT,
                       "%d host%s and no baseline, expected -b BASELINE or %d"
                       " hosts to compare with each other",
                       hosts, hosts == 1 ? "" : "s", HEALTH_HOSTS_ALONE);
    return 0;
}

/* ---- findings ---- */

void health_verdict_add(struct health_verdict *v, const struct health_finding *f)
{
    /* GCM's order: what is known to be bad comes before what is not known. */
    static const int rank[] = {
        [HEALTH_OK] = 0, [HEALTH_UNKNOWN] = 1, [HEALTH_WARNING] = 2, [HEALTH_CRITICAL] = 3};

    v->finding = mem_grow(v->finding, &v->room, (size_t)v->findings + 1, sizeof *v->finding);
    v->finding[v->findings++] = *f;
    if (rank[f->state] > rank[v->state])
        v->state = f->state;
}

static enum health_state state_of(const struct judge *j, double percent)
{
    if (health_range_alerts(&j->rules->crit, percent))
        return HEALTH_CRITICAL;
    return health_range_alerts(&j->rules->warn, percent) ? HEALTH_WARNING : HEALTH_OK;
}

/* Three partners in four see it: with the best of the rest, more than half of it is there. */
static int seen_by_partners(const struct estimate *e)
{
    return fabs(100 - e->best) > fabs(100 - e->median) / 2;
}

/* Robust deviation of the medians of the ports of one direction that are not found slow. */
static double peers_sigma(struct judge *j, int way)
{
    double *each = mem_new((size_t)j->d->hosts, sizeof *each), sigma = 0;
    int n = 0;

    for (int k = 0; k < j->d->hosts; k++)
        if (!j->slow[k][way]) {
            int samples = collect(j, k, way, -1, j->percent);
            if (samples)
                each[n++] = stats_median(j->room, samples);
        }
    if (n >= HEALTH_PEERS_LEAST) {
        double *copy = mem_new((size_t)n, sizeof *copy);
        memcpy(copy, each, (size_t)n * sizeof *copy);
        sigma = stats_mad(each, n, stats_median(copy, n));
        mem_free(copy);
    }
    mem_free(each);
    return sigma;
}

static void write_port(struct judge *j, int k, int way, const struct estimate *e, double sigma)
{
    struct health_port *p = &j->v->port[k][way];

    p->samples = e->n;
    p->want_Bps = j->want[k][way];
    p->percent = e->median;
    p->Bps = e->median / 100 * p->want_Bps;
    p->z = e->n ? fabs(100 - e->median) / sigma : 0;
}

/* The worst port that is slow and not yet named; 0 when there is none. */
static int find_slow(struct judge *j, int *slow_k, int *slow_way)
{
    double worst = INFINITY;

    for (int way = 0; way < 2; way++) {
        double peers = peers_sigma(j, way);
        for (int k = 0; k < j->d->hosts; k++) {
            struct estimate e = estimate(j, k, way);
            double sigma = fmax(e.sigma, peers);
            if (j->slow[k][way])
                continue;
            write_port(j, k, way, &e, sigma);
            if (e.n == 0 || state_of(j, e.median) == HEALTH_OK || e.median >= worst ||
                fabs(100 - e.median) <= HEALTH_Z * sigma || !seen_by_partners(&e))
                continue;
            worst = e.median;
            *slow_k = k;
            *slow_way = way;
        }
    }
    return worst < INFINITY;
}

/* Two hosts: whose end of the stream from `src` is it?  Both when the kernel does not tell. */
static void blame_one_of_two(struct judge *j, int src, int *sender, int *receiver)
{
    double drain_Bps = j->d->drain_Bps[src];
    int here = j->v->port[src][HEALTH_OUT].Bps > narrow_here * drain_Bps;

    *sender = drain_Bps < 0 || (drain_Bps > 0 && here);
    *receiver = drain_Bps < 0 || !*sender;
}

static void judge_two(struct judge *j)
{
    int k = 0, way = 0, slow[2] = {0, 0};

    /* Which streams are slow, before any of their ends is named. */
    while (find_slow(j, &k, &way)) {
        int src = way == HEALTH_OUT ? k : !k;
        slow[src] = 1;
        j->slow[src][HEALTH_OUT] = j->slow[!src][HEALTH_IN] = 1;
    }
    for (int src = 0; src < 2; src++) {
        int sender, receiver;
        if (!slow[src])
            continue;
        blame_one_of_two(j, src, &sender, &receiver);
        j->slow[src][HEALTH_OUT] = sender;
        j->slow[!src][HEALTH_IN] = receiver;
    }
}

static void judge_many(struct judge *j)
{
    int k = 0, way = 0;

    while (find_slow(j, &k, &way))
        j->slow[k][way] = 1;
}

static const char *by_whom(const struct judge *j)
{
    return j->rules->baseline ? "baseline" : "peers";
}

/* Two hosts, no evidence: the pair is named once, not each of its ends. */
static int is_either(const struct judge *j, int src)
{
    return j->d->hosts == 2 && j->slow[src][HEALTH_OUT] && j->slow[!src][HEALTH_IN];
}

static void name_port(struct judge *j, int k)
{
    struct health_finding f = {.code = "HC-301", .action = "operator", .host = k, .other = -1};
    static const char *const word[] = {"out", "in"};
    int ways = 0;

    for (int way = 0; way < 2; way++) {
        struct health_port *p = &j->v->port[k][way];
        if (!j->slow[k][way] || is_either(j, way == HEALTH_OUT ? k : !k))
            continue;
        p->state = state_of(j, p->percent);
        if (p->state == HEALTH_CRITICAL || f.state == HEALTH_OK)
            f.state = p->state;
        size_t used = strlen(f.text);
        if (ways++ == 0)
            snprintf(f.text, sizeof f.text, "%.60s %s %.3g of %.3g MB/s, %.0f %%",
                     j->d->host[k], word[way], p->Bps / 1e6, p->want_Bps / 1e6, p->percent);
        else
            snprintf(f.text + used, sizeof f.text - used, ", %s %.0f %%", word[way],
                     p->percent);
    }
    if (ways == 0)
        return;
    size_t used = strlen(f.text);
    snprintf(f.text + used, sizeof f.text - used, " of %s", by_whom(j));
    health_verdict_add(j->v, &f);
}

static void name_either(struct judge *j, int src)
{
    struct health_port *p = &j->v->port[src][HEALTH_OUT];
    struct health_finding f = {
        .code = "HC-302", .action = "retest", .host = src, .other = !src};

    f.state = p->state = j->v->port[!src][HEALTH_IN].state = state_of(j, p->percent);
    snprintf(f.text, sizeof f.text,
             "%.60s out or %.60s in (two hosts: cannot tell) %.0f %% of %s", j->d->host[src],
             j->d->host[!src], p->percent, by_whom(j));
    health_verdict_add(j->v, &f);
}

/* A deviation beyond the critical range that the noise explains: not known, not good. */
static void name_unsteady(struct judge *j, int k, int way)
{
    struct health_port *p = &j->v->port[k][way];
    struct estimate e = estimate(j, k, way);
    struct health_finding f = {
        .state = HEALTH_UNKNOWN, .code = "HC-303", .action = "retest", .host = k, .other = -1};

    if (j->slow[k][way] || p->samples == 0 || p->z > HEALTH_Z ||
        state_of(j, p->percent) != HEALTH_CRITICAL || !seen_by_partners(&e))
        return;
    p->state = HEALTH_UNKNOWN;
    snprintf(f.text, sizeof f.text, "%.60s %s %.0f %% of %s, too unsteady to judge",
             j->d->host[k], way == HEALTH_OUT ? "out" : "in", p->percent, by_whom(j));
    health_verdict_add(j->v, &f);
}

/* One stream, both ends of which are well with others. */
static void judge_pair(struct judge *j, int src, int dst)
{
    struct health_finding f = {
        .code = "HC-304", .action = "operator", .host = src, .other = dst};

    if (src == dst || j->slow[src][HEALTH_OUT] || j->slow[dst][HEALTH_IN])
        return;
    int n = collect(j, src, HEALTH_OUT, dst, j->percent);
    if (n < 2) /* one sample may be a hiccup */
        return;
    double median = stats_median(j->room, n);
    double one = fmax(stats_mad(j->room, n, median), j->spread[src][HEALTH_OUT]);
    /* With few samples their own deviation is a poor guess: sigma_least is per median of many.
     */
    double sigma = fmax(2 * sigma_least, median_error * one / sqrt(n));
    f.state = state_of(j, median);
    if (f.state == HEALTH_OK || fabs(100 - median) <= HEALTH_Z * sigma)
        return;
    snprintf(f.text, sizeof f.text, "%.60s to %.60s %.0f %% of %s, both well with others",
             j->d->host[src], j->d->host[dst], median, by_whom(j));
    health_verdict_add(j->v, &f);
}

static void name_all(struct judge *j)
{
    int hosts = j->d->hosts;

    for (int k = 0; k < hosts; k++)
        name_port(j, k);
    for (int src = 0; hosts == 2 && src < 2; src++)
        if (is_either(j, src))
            name_either(j, src);
    for (int k = 0; k < hosts; k++)
        for (int way = 0; way < 2; way++)
            name_unsteady(j, k, way);
    for (int src = 0; hosts > 2 && src < hosts; src++)
        for (int dst = 0; dst < hosts; dst++)
            judge_pair(j, src, dst);
}

int health_judge(const struct health_data *d, const struct health_rules *rules,
                 struct health_verdict *out, struct err *err)
{
    size_t hosts = (size_t)d->hosts;
    struct health_verdict v = {.hosts = d->hosts, .by_baseline = rules->baseline != NULL};
    struct judge j = {.d = d, .rules = rules, .v = &v};

    v.port = mem_new(hosts, sizeof *v.port);
    j.want = mem_new(hosts, sizeof *j.want);
    j.spread = mem_new(hosts, sizeof *j.spread);
    j.slow = mem_new(hosts, sizeof *j.slow);
    j.room = mem_new((size_t)d->samples, sizeof *j.room);
    j.percent = mem_new((size_t)d->samples, sizeof *j.percent);
    make_index(&j);
    int rc = rules->baseline ? want_by_baseline(&j, err) : want_by_peers(&j, err);
    if (rc == 0) {
        for (int i = 0; i < d->samples; i++) {
            const struct health_sample *s = &d->sample[i];
            j.percent[i] =
                100 * s->Bps / fmin(j.want[s->src][HEALTH_OUT], j.want[s->dst][HEALTH_IN]);
        }
        if (d->hosts == 2)
            judge_two(&j);
        else
            judge_many(&j);
        name_all(&j);
    }
    mem_free(j.want);
    mem_free(j.spread);
    mem_free(j.slow);
    mem_free(j.room);
    mem_free(j.percent);
    for (int way = 0; way < 2; way++) {
        mem_free(j.first[way]);
        mem_free(j.index[way]);
    }
    if (rc == 0)
        *out = v;
    else
        health_verdict_release(&v);
    return rc;
}

void health_verdict_release(struct health_verdict *v)
{
    mem_free(v->port);
    mem_free(v->finding);
    *v = (struct health_verdict){0};
}

static int is_confirmed(const struct health_finding *f, const struct health_verdict *again)
{
    for (int i = 0; i < again->findings; i++) {
        const struct health_finding *g = &again->finding[i];
        if (g->host == f->host && g->other == f->other && strcmp(g->code, f->code) == 0)
            return 1;
    }
    return 0;
}

void health_confirm(struct health_verdict *v, const struct health_verdict *again)
{
    struct health_finding *all = v->finding;
    int n = v->findings;

    v->finding = NULL;
    v->findings = 0;
    v->room = 0;
    v->state = HEALTH_OK;
    for (int i = 0; i < n; i++)
        if (is_confirmed(&all[i], again))
            health_verdict_add(v, &all[i]);
    mem_free(all);
    for (int k = 0; k < v->hosts; k++)
        for (int way = 0; way < 2; way++)
            if (again->port[k][way].state == HEALTH_OK)
                v->port[k][way].state = HEALTH_OK;
}

/* ---- data ---- */

void health_data_init(struct health_data *d, int hosts, const char *const *host)
{
    size_t n = (size_t)hosts;

    *d = (struct health_data){.hosts = hosts, .host = host};
    d->drain_Bps = mem_new(n, sizeof *d->drain_Bps);
    d->lost = mem_new(n, sizeof *d->lost);
    d->silent = mem_new(n, sizeof *d->silent);
    for (int k = 0; k < hosts; k++)
        d->drain_Bps[k] = -1;
}

void health_data_release(struct health_data *d)
{
    mem_free(d->sample);
    mem_free(d->drain_Bps);
    mem_free(d->lost);
    mem_free(d->silent);
    *d = (struct health_data){0};
}

void health_data_add(struct health_data *d, int src, int dst, double Bps)
{
    d->sample = mem_grow(d->sample, &d->room, (size_t)d->samples + 1, sizeof *d->sample);
    d->sample[d->samples++] = (struct health_sample){src, dst, Bps};
}
