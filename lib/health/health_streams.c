/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how the samples of a pair become one number for who prints or draws it. */
#include "health/health_parts.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/stats.h"

static int by_ends(const void *a, const void *b)
{
    const struct health_sample *p = a, *q = b;

    if (p->src != q->src)
        return p->src < q->src ? -1 : 1;
    if (p->dst != q->dst)
        return p->dst < q->dst ? -1 : 1;
    return (p->Bps > q->Bps) - (p->Bps < q->Bps);
}

static int by_latency(const void *a, const void *b)
{
    const struct health_latency *p = a, *q = b;

    if (p->src != q->src)
        return p->src < q->src ? -1 : 1;
    if (p->dst != q->dst)
        return p->dst < q->dst ? -1 : 1;
    return (p->s > q->s) - (p->s < q->s);
}

static double want_of(const struct health_verdict *v, int src, int dst)
{
    if (!v->port)
        return NAN;
    double out = v->port[src][HEALTH_OUT].want_Bps, in = v->port[dst][HEALTH_IN].want_Bps;

    return out > 0 && in > 0 ? fmin(out, in) : NAN;
}

/* Of what is sorted by ends and value, copies with the lower host first: one row a pair. */
static double latency_of(const struct health_latency *l, int count, int src, int dst)
{
    int lo = 0, hi = count, a = src < dst ? src : dst, b = src < dst ? dst : src;

    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (l[mid].src < a || (l[mid].src == a && l[mid].dst < b))
            lo = mid + 1;
        else
            hi = mid;
    }
    int n = 0;
    while (lo + n < count && l[lo + n].src == a && l[lo + n].dst == b)
        n++;
    return n ? l[lo + n / 2].s : NAN;
}

void health_streams_of(const struct health_data *d, const struct health_verdict *v,
                       struct health_streams *out)
{
    int n = d->samples.count, late = d->latencies.count;
    struct health_sample *s = mem_new((size_t)n + 1, sizeof *s);
    struct health_latency *l = mem_new((size_t)late + 1, sizeof *l);
    double *value = mem_new((size_t)n + 1, sizeof *value);

    *out = (struct health_streams){.at = mem_new((size_t)n + 1, sizeof *out->at)};
    for (int i = 0; i < n; i++)
        s[i] = d->samples.at[i];
    for (int i = 0; i < late; i++) {
        l[i] = d->latencies.at[i];
        if (l[i].src > l[i].dst)
            l[i] = (struct health_latency){l[i].dst, l[i].src, l[i].s};
    }
    qsort(s, (size_t)n, sizeof *s, by_ends);
    qsort(l, (size_t)late, sizeof *l, by_latency);
    for (int i = 0, m; i < n; i += m) {
        struct health_stream p = {.src = s[i].src, .dst = s[i].dst};
        for (m = 0; i + m < n && s[i + m].src == p.src && s[i + m].dst == p.dst; m++)
            value[m] = s[i + m].Bps;
        p.samples = m;
        p.Bps = stats_median(value, m);
        p.percent = 100 * p.Bps / want_of(v, p.src, p.dst);
        p.latency_s = latency_of(l, late, p.src, p.dst);
        out->at[out->count++] = p;
    }
    mem_free(s);
    mem_free(l);
    mem_free(value);
}

void health_streams_release(struct health_streams *p)
{
    mem_free(p->at);
    *p = (struct health_streams){0};
}
