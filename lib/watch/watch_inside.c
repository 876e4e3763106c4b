/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds time that is lost inside calls, where no rank arrives late: a rank is stopped, or loses
 * its processor, during a transfer.  The measure is the time from a call's last arrival to its
 * last completion, on the first host's clock:
 *
 *     rank 0   work |....====|  work                     . waits   = transfers
 *     rank 1   work      |====            ====|  work
 *     rank 2   work  |...====|  work
 *                        ^ last arrival       ^ last completion
 *
 * For calls of one communicator, operation and size, the needed time is the median over the
 * ranks of each rank's first quartile (a rank that is always stopped is late in all calls).  A
 * call that takes twice as long lost the difference, if that exceeds the spread of small
 * messages over the ranks.  Calls that overlap with others are skipped: their losses may be
 * hidden.  Simultaneous losses of several communicators count once.
 *
 * The run's extra time is reported if the median over the stretches of time is outside the
 * critical range, and three quarters of the stretches have at least half of it.  Ranks that
 * completed late are named unless all did.  A rank that transfers to a stopped one completes
 * late too, and networks lose time themselves, so no rank is accused and the state is WARNING.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "watch/watch_parts.h"

enum { LIKE_LEAST = 10 }; /* fewest calls with a quartile */

/* Latencies of networks are shorter, a scheduler's time slice is longer. */
static const double lost_least_s = 2e-3;

struct transfer {
    int op, size_class;
    int64_t row;
    double end_s, took_s;
};

struct loss {
    double from_s, to_s;
};

struct losses {
    const struct watch *w;
    struct loss *at;
    size_t space;
    int count;
    double *of; /* [processes] s by which each completed late */
};

static int by_likeness(const void *a, const void *b)
{
    const struct transfer *p = a, *q = b;
    int c = MEM_ORDER(p, q, op);

    c = c ? c : MEM_ORDER(p, q, size_class);
    return c ? c : MEM_ORDER(p, q, row);
}

static int inside_by_begin(const void *a, const void *b)
{
    return MEM_ORDER((const struct loss *)a, (const struct loss *)b, from_s);
}

/* Returns 0 if the row does not count. */
static int measure_row(const struct watch *w, const struct watch_comm *c, int64_t row,
                       struct transfer *t)
{
    const struct watch_cell *cell = watch_row(c, row);
    double last_s = -INFINITY, end_s = -INFINITY;

    for (int m = 0; m < c->size && c->complete[row]; m++) {
        if (cell[m].gap_ns == -1 || cell[m].work_ns > 0 ||
            w->host[w->process[c->process[m]].host].error_s < 0)
            return 0;
        last_s = fmax(last_s, watch_time_s(w, c->process[m], cell[m].arrived_ns));
        end_s = fmax(end_s, watch_time_s(w, c->process[m], cell[m].completed_ns));
    }
    *t = (struct transfer){cell->op, watch_size_class(cell->bytes), row, end_s, end_s - last_s};
    return c->complete[row] != 0;
}

/* Time from a call's last arrival to a member's completion. */
static double took_s(const struct watch *w, const struct watch_comm *c,
                     const struct transfer *t, int m)
{
    double end_s = watch_time_s(w, c->process[m], watch_row(c, t->row)[m].completed_ns);

    return end_s - (t->end_s - t->took_s);
}

/* The time that transfers of one kind need. */
static double base_s(const struct watch *w, const struct watch_comm *c,
                     const struct transfer *t, int n)
{
    double *each = mem_new((size_t)(n + c->size), sizeof *each), *quarter = each + n;

    for (int m = 0; m < c->size; m++) {
        for (int i = 0; i < n; i++)
            each[i] = took_s(w, c, &t[i], m);
        stats_median(each, n); /* sorts */
        quarter[m] = each[n / 4];
    }
    stats_median(quarter, c->size);
    double s = quarter[(c->size - 1) / 2];
    mem_free(each);
    return fmax(s, 0);
}

static void add_losses(struct losses *l, const struct watch_comm *c, const struct transfer *t,
                       int n)
{
    const double base = n < LIKE_LEAST ? INFINITY : base_s(l->w, c, t, n);

    for (int i = 0; i < n; i++) {
        if (t[i].took_s <= fmax(2 * base, base + lost_least_s))
            continue;
        l->at = mem_grow(l->at, &l->space, (size_t)l->count + 1, sizeof *l->at);
        l->at[l->count++] = (struct loss){t[i].end_s - (t[i].took_s - base), t[i].end_s};
        for (int m = 0; m < c->size; m++)
            l->of[c->process[m]] += fmax(took_s(l->w, c, &t[i], m) - base, 0);
    }
}

static void inside_add_comm(struct losses *l, const struct watch_comm *c)
{
    struct transfer *t = mem_new((size_t)c->calls + 1, sizeof *t);
    int n = 0;

    for (int64_t row = 0; row < c->calls; row++)
        n += measure_row(l->w, c, row, &t[n]);
    if (n)
        qsort(t, (size_t)n, sizeof *t, by_likeness);
    for (int i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && t[j].op == t[i].op && t[j].size_class == t[i].size_class; j++)
            ;
        add_losses(l, c, t + i, j - i);
    }
    mem_free(t);
}

/* Percent by which losses lengthen each stretch. */
static void fill_blocks(struct losses *l, double start_s, double block_s,
                        double percent[WATCH_BLOCKS])
{
    double until_s = start_s, lost_s[WATCH_BLOCKS] = {0};

    if (l->count)
        qsort(l->at, (size_t)l->count, sizeof *l->at, inside_by_begin);
    for (int i = 0; i < l->count; i++) {
        double at_s = fmax(l->at[i].from_s, until_s);
        until_s = fmax(until_s, l->at[i].to_s);
        for (int b = (int)((at_s - start_s) / block_s); b < WATCH_BLOCKS && at_s < until_s;
             b++) {
            double end_s = fmin(start_s + (b + 1) * block_s, until_s);
            lost_s[b] += fmax(end_s - at_s, 0);
            at_s = fmax(at_s, end_s);
        }
    }
    for (int b = 0; b < WATCH_BLOCKS; b++)
        percent[b] = 100 * lost_s[b] / fmax(block_s - lost_s[b], block_s / 100);
}

/* Names ranks with at least half of the largest loss, unless all have it. */
static int inside_name_late(const struct losses *l, char *text, size_t space, int *host)
{
    int *who = mem_new((size_t)l->w->processes, sizeof *who), n = 0;
    double most = 0;

    for (int p = 0; p < l->w->processes; p++)
        most = fmax(most, l->of[p]);
    for (int p = 0; p < l->w->processes; p++)
        if (l->of[p] > 0 && l->of[p] >= most / 2)
            who[n++] = p;
    *host = l->w->process[who[0]].host;
    for (int i = 1; i < n; i++)
        *host = l->w->process[who[i]].host == *host ? *host : -1;
    if (n < l->w->processes)
        watch_name_ranks(l->w, who, n, text, space);
    else
        *host = -1;
    mem_free(who);
    return n < l->w->processes;
}

void watch_judge_inside(const struct watch *w, const struct watch_rules *r, double start_s,
                        double block_s, struct watch_verdict *v)
{
    struct losses l = {.w = w, .of = mem_new((size_t)w->processes, sizeof *l.of)};
    double percent[WATCH_BLOCKS], sorted[WATCH_BLOCKS];
    int saw = 0, host;
    char late[160];

    for (int i = 0; i < w->comms && w->times == WATCH_TIMES; i++)
        inside_add_comm(&l, &w->comm[i]);
    fill_blocks(&l, start_s, block_s, percent);
    memcpy(sorted, percent, sizeof sorted);
    double middle = stats_median(sorted, WATCH_BLOCKS);
    v->lost = w->times == WATCH_TIMES ? middle / (100 + middle) : NAN;
    for (int b = 0; b < WATCH_BLOCKS; b++)
        saw += percent[b] >= middle / 2;
    if (l.count && health_range_alerts(&r->crit, middle) && 4 * saw >= 3 * WATCH_BLOCKS) {
        int some = inside_name_late(&l, late, sizeof late, &host);
        struct watch_finding *f =
            watch_find(w, v, WATCH_UNSTEADY, HEALTH_WARNING, -1,
                       "unsteady: %.0f %% of the time is lost inside calls%s%s: a"
                       " processor that is taken away, or the network",
                       100 * v->lost, some ? ", which end late on " : "", some ? late : "");
        f->host = host;
        f->share = v->lost;
    }
    mem_free(l.at);
    mem_free(l.of);
}
