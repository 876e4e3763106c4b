/* SPDX-License-Identifier: BSD-3-Clause */
/* The samples of each pair as one number, for JSON and pictures. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "health/health_parts.h"

struct value {
    int src, dst;
    double v;
};

static int by_ends(const void *a, const void *b)
{
    const struct value *p = a, *q = b;

    if (p->src != q->src)
        return p->src < q->src ? -1 : 1;
    if (p->dst != q->dst)
        return p->dst < q->dst ? -1 : 1;
    return (p->v > q->v) - (p->v < q->v);
}

/* Of a pair whose values begin at or after `at` among the n sorted ones: where, how many. */
static int find(const struct value *x, int n, int *at, int src, int dst)
{
    int count = 0;

    while (*at < n && (x[*at].src < src || (x[*at].src == src && x[*at].dst < dst)))
        ++*at;
    while (*at + count < n && x[*at + count].src == src && x[*at + count].dst == dst)
        count++;
    return count;
}

static double want_of(const struct health_verdict *v, int src, int dst)
{
    if (!v->port)
        return NAN;
    double out = v->port[src][HEALTH_OUT].want_Bps, in = v->port[dst][HEALTH_IN].want_Bps;

    return out > 0 && in > 0 ? fmin(out, in) : NAN;
}

int health_streams_of(const struct health_data *d, const struct health_verdict *v,
                      struct health_stream **out)
{
    int n = d->samples.count, late = 2 * d->latencies.count, count = 0, late_at = 0;
    struct value *s = mem_new((size_t)n + 1, sizeof *s),
                 *l = mem_new((size_t)late + 1, sizeof *l);

    *out = mem_new((size_t)n + 1, sizeof **out);
    for (int i = 0; i < n; i++)
        s[i] = (struct value){d->samples.at[i].src, d->samples.at[i].dst, d->samples.at[i].Bps};
    for (int i = 0; i < late; i++) { /* of a pair, both ways */
        const struct health_latency *from = &d->latencies.at[i / 2];
        l[i] = i % 2 ? (struct value){from->src, from->dst, from->s}
                     : (struct value){from->dst, from->src, from->s};
    }
    qsort(s, (size_t)n, sizeof *s, by_ends);
    qsort(l, (size_t)late, sizeof *l, by_ends);
    for (int i = 0, m; i < n; i += m) {
        int src = s[i].src, dst = s[i].dst, seen = find(l, late, &late_at, src, dst);
        m = find(s, n, &i, src, dst);
        double Bps = (s[i + (m - 1) / 2].v + s[i + m / 2].v) / 2;
        (*out)[count++] =
            (struct health_stream){.src = src,
                                   .dst = dst,
                                   .samples = m,
                                   .Bps = Bps,
                                   .percent = 100 * Bps / want_of(v, src, dst),
                                   .latency_s = seen ? l[late_at + seen / 2].v : NAN};
    }
    mem_free(s);
    mem_free(l);
    return count;
}
