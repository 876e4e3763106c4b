/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds communicators that are slower than similar ones: with equally many ranks and hosts, in
 * calls of the same operation and of sizes within an eighth.  The measure is the time from the
 * last arrival to the first completion, which contains no wait for another rank's work: the
 * shortest wait of any member, on its own clock.
 *
 * A communicator is slow if its median exceeds the time of a port at 80 % of its rate, 1.25
 * times the median over its peers less 4 % (horing-check's range of 96 %: 1.2), and neither the
 * spread of its own calls nor that of its peers explains it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "health/health_analysis.h"
#include "watch/watch_parts.h"

enum { PEERS_LEAST = 3, CALLS_LEAST = 10 };

static const double slow_least = 1.2, slow_critical = 2; /* half the rate */

struct class
{ /* the properties that communicators share */
    int op, size_class, ranks, hosts;
};

struct one {
    struct class of;
    int comm, calls;
    int64_t bytes; /* bytes of a call */
    double transfer_s, mad_s;
};

/* Number of a communicator's hosts, and the first two. */
static int link_hosts_of(const struct watch *w, const struct watch_comm *c, int host[2])
{
    unsigned char *seen = mem_new((size_t)w->hosts, 1);
    int n = 0;

    for (int m = 0; m < c->size; m++) {
        int h = c->process[m] < 0 ? 0 : w->process[c->process[m]].host;
        if (c->process[m] >= 0 && !seen[h]) {
            if (n < 2)
                host[n] = h;
            n++;
            seen[h] = 1;
        }
    }
    mem_free(seen);
    return n;
}

/* Eighths of powers of two: sizes within a class differ by less than slow_least. */
int watch_size_class(int64_t bytes)
{
    int shift = 60 - __builtin_clzll((unsigned long long)bytes | 8);

    return 8 * shift + (int)(bytes >> shift);
}

/* The class of a communicator's largest calls, which show a link best; -1: none count. */
static int largest_calls(const struct watch_comm *c)
{
    int largest = -1;

    for (int64_t row = 0; row < c->calls; row++) {
        int size = c->complete[row] ? watch_size_class(watch_row(c, row)->bytes) : -1;
        largest = size > largest ? size : largest;
    }
    return largest;
}

/* Measures the calls of a class; 0: too few. */
static int link_measure(const struct watch *w, struct one *x)
{
    const struct watch_comm *c = &w->comm[x->comm];
    double *s = mem_new((size_t)c->calls, sizeof *s);

    for (int64_t row = 0; row < c->calls; row++) {
        const struct watch_cell *cell = watch_row(c, row);
        double least = INFINITY;
        if (!c->complete[row] || cell->op != x->of.op ||
            watch_size_class(cell->bytes) != x->of.size_class)
            continue;
        for (int m = 0; m < c->size; m++)
            least = fmin(least, 1e-9 * (double)(cell[m].completed_ns - cell[m].arrived_ns));
        x->bytes = cell->bytes;
        s[x->calls++] = least;
    }
    if (x->calls) {
        x->transfer_s = stats_median(s, x->calls);
        x->mad_s = stats_mad(s, x->calls, x->transfer_s);
    }
    mem_free(s);
    return x->calls >= CALLS_LEAST;
}

static int by_class(const void *a, const void *b)
{
    const struct one *p = a, *q = b;
    int differ = memcmp(&p->of, &q->of, sizeof p->of);

    return differ ? differ : p->comm - q->comm;
}

static void name_link(const struct watch *w, const struct one *x, double ratio, double z,
                      struct watch_verdict *v)
{
    int host[2] = {0, 0}, hosts = link_hosts_of(w, &w->comm[x->comm], host);
    enum health_state state = ratio >= slow_critical ? HEALTH_CRITICAL : HEALTH_WARNING;
    char call[64], who[200];

    if (hosts == 2)
        snprintf(who, sizeof who, "%.60s to %.60s is slow", w->host[host[0]].name,
                 w->host[host[1]].name);
    else
        snprintf(who, sizeof who, "%d hosts from %.60s on are slow together", hosts,
                 w->host[host[0]].name);
    struct watch_finding *f = watch_find(
        w, v, WATCH_LINK, state, -1, "%s: %s takes %.2f times as long as between others: %s",
        who, watch_call_name(x->of.op, x->bytes, call, sizeof call), ratio,
        hosts == 2 ? "the link" : "a link of theirs");
    f->percent = 100 * (ratio - 1);
    f->z = z;
    f->host = host[0];
}

/* named: [comms] communicators reported already for another operation. */
static void judge_class(const struct watch *w, const struct one *x, int n, char *named,
                        struct watch_verdict *v)
{
    double *s = mem_new((size_t)n, sizeof *s), accusing = health_accusing_z(n, 10.0 * n);

    for (int i = 0; i < n; i++)
        s[i] = x[i].transfer_s;
    double middle = stats_median(s, n), mad = stats_mad(s, n, middle);
    for (int i = 0; i < n && middle > 0; i++) {
        double above = x[i].transfer_s - middle, ratio = x[i].transfer_s / middle;
        double error = health_median_error(fmax(x[i].mad_s, 1e-9), x[i].calls);
        double z = above / error;
        if (ratio > slow_least && z > accusing && !named[x[i].comm] &&
            (n < HEALTH_PEERS_LEAST || above > accusing * mad)) {
            name_link(w, &x[i], ratio, z, v);
            named[x[i].comm] = 1;
        }
    }
    mem_free(s);
}

void watch_judge_links(const struct watch *w, struct watch_verdict *v)
{
    struct one *x = NULL;
    size_t space = 0;
    char *named = mem_new((size_t)w->comms + 1, 1);
    int n = 0, host[2];

    for (int i = 0; i < w->comms && w->times != WATCH_ORDER && watch_host_name(w, 0); i++) {
        int size = largest_calls(&w->comm[i]), hosts = link_hosts_of(w, &w->comm[i], host);
        for (int op = 0; op < METER_OPS && size >= 0 && hosts > 1; op++) {
            x = mem_grow(x, &space, (size_t)n + 1, sizeof *x);
            x[n] = (struct one){.of = {op, size, w->comm[i].size, hosts}, .comm = i};
            n += meter_op_synchronises((enum meter_op)op) && link_measure(w, &x[n]);
        }
    }
    if (n)
        qsort(x, (size_t)n, sizeof *x, by_class);
    for (int i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && memcmp(&x[i].of, &x[j].of, sizeof x->of) == 0; j++)
            ;
        if (j - i >= PEERS_LEAST)
            judge_class(w, x + i, j - i, named, v);
    }
    mem_free(named);
    mem_free(x);
}
