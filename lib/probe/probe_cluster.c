/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses the pairs to measure, and cuts the links between groups.  One level at a time, from
 * the inside out:
 *
 *   measure   pairs of ranks, then of one rank for each part that is joined already
 *   link      the shortest pairs first, as in a minimum spanning tree: n - 1 links.  A pair
 *             that was disturbed looks too long, and other pairs link its ranks.
 *   cut       where a link is PROBE_CLUSTER_FACTOR times as long as the one before it
 *
 *      length |                         +----- links between groups
 *             |                         |
 *             |                  cut - -|- - -
 *             |  ----+------------------+
 *             +------------------------------- links, sorted
 *
 *   confirm   measure one rank of each part with one of every other part, a different rank
 *             each time; parts that turn out near are joined.  Several times, since all of a
 *             part's pairs may have been disturbed, for example by a busy processor
 *
 * It begins with rounds of all ranks:
 *
 *   shift s       r and r + s, for s = 1, 2, 4, ...: two rounds each
 *   reflection    r and c - r, for two c: each difference of ranks once.  A difference that
 *                 turns out to be near is measured as a shift.  (Placed by node on 3 hosts, no
 *                 power of two joins two ranks of one host; the differences 3, 6, 9, ... do.)
 */
#include "probe/probe_cluster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { CONFIRMATIONS = 4 }; /* consecutive tournaments that join nothing end a level */

struct edge {
    int a, b;
    double length;
};

struct finder {
    int ranks;
    probe_measure measure;
    void *arg;
    struct edge *edge;
    size_t edges, edges_space;
    int *part;  /* [ranks] the lowest rank of each rank's part: always a root */
    int *order; /* [ranks] one rank of each part */
    struct probe_pair *pair;
    double *distance;
    struct probe_clusters out;
};

static int cluster_log2_up(int n)
{
    int bits = 0;

    while (1 << bits < n)
        bits++;
    return bits;
}

/* ---- parts ---- */

static void join_parts(struct finder *f, int a, int b)
{
    int low = f->part[a] < f->part[b] ? f->part[a] : f->part[b];
    int high = f->part[a] < f->part[b] ? f->part[b] : f->part[a];

    for (int r = 0; low != high && r < f->ranks; r++)
        if (f->part[r] == high)
            f->part[r] = low;
}

/* Returns the nth rank, counted cyclically, of the part with this root. */
static int nth_member(const struct finder *f, int root, int nth)
{
    int size = 0, r = root;

    for (int i = root; i < f->ranks; i++)
        size += f->part[i] == root;
    for (nth %= size; nth > 0; nth--)
        do
            r++;
        while (f->part[r] != root);
    return r;
}

/* Lists the parts, each by its nth member; returns their number. */
static int list_parts(struct finder *f, int nth)
{
    int n = 0;

    for (int r = 0; r < f->ranks; r++)
        if (f->part[r] == r)
            f->order[n++] = nth_member(f, r, nth);
    return n;
}

/* Joins the ends of edges from .. to - 1 that are shorter than `within`. */
static void join_local(struct finder *f, size_t from, size_t to, double within)
{
    for (size_t i = from; i < to; i++)
        if (f->edge[i].length < within)
            join_parts(f, f->edge[i].a, f->edge[i].b);
}

/* ---- rounds ---- */

static int cluster_run_round(struct finder *f, int pairs, struct err *err)
{
    if (pairs == 0)
        return 0;
    if (f->measure(f->arg, f->pair, pairs, f->distance, err))
        return -1;
    f->edge = mem_grow(f->edge, &f->edges_space, f->edges + (size_t)pairs, sizeof *f->edge);
    for (int i = 0; i < pairs; i++)
        f->edge[f->edges++] = (struct edge){f->pair[i].a, f->pair[i].b, f->distance[i]};
    f->out.measured += pairs;
    f->out.rounds++;
    return 0;
}

/* Measures ranks s apart that are in different parts, in two rounds: r / s even, and odd. */
static int run_shift(struct finder *f, int s, struct err *err)
{
    for (int odd = 0; odd < 2; odd++) {
        int pairs = 0;
        for (int r = 0; r + s < f->ranks; r++)
            if (r / s % 2 == odd && f->part[r] != f->part[r + s])
                f->pair[pairs++] = (struct probe_pair){r, r + s};
        if (cluster_run_round(f, pairs, err))
            return -1;
    }
    return 0;
}

/* Measures pairs of ranks that add up to c (mod ranks). */
static int run_reflection(struct finder *f, int c, struct err *err)
{
    int pairs = 0;

    for (int r = 0; r < f->ranks; r++) {
        int to = (c - r + f->ranks) % f->ranks;
        if (r < to)
            f->pair[pairs++] = (struct probe_pair){r, to};
    }
    return cluster_run_round(f, pairs, err);
}

/* Returns the number of pairs that confirm a level: n log2 n. */
static int64_t enough_pairs(const struct finder *f)
{
    return (int64_t)f->ranks * (cluster_log2_up(f->ranks) > 1 ? cluster_log2_up(f->ranks) : 1);
}

/*
 * Runs a tournament of the parts' nth members (circle method: one stays, the others rotate), as
 * long as *left pairs remain.  Parts joined in the meantime are not paired.
 */
static int run_tournament(struct finder *f, double within, int nth, int64_t *left,
                          struct err *err)
{
    int n = list_parts(f, nth), even = n + n % 2;

    for (int round = 0; round < even - 1 && *left > 0; round++) {
        size_t from = f->edges;
        int pairs = 0;
        for (int i = 0; i < even / 2; i++) {
            int a = i ? (round + i) % (even - 1) : even - 1;
            int b = (round + even - 1 - i) % (even - 1);
            if (a >= n || b >= n || f->part[f->order[a]] == f->part[f->order[b]])
                continue;
            f->pair[pairs++] = (struct probe_pair){f->order[a], f->order[b]};
        }
        if (cluster_run_round(f, pairs, err))
            return -1;
        *left -= pairs;
        join_local(f, from, f->edges, within);
    }
    return 0;
}

/* ---- cuts ---- */

static int by_length(const void *a, const void *b)
{
    return MEM_ORDER((const struct edge *)a, (const struct edge *)b, length);
}

/*
 * Returns the length at which the next level begins: between the first two links that differ by
 * PROBE_CLUSTER_FACTOR; INFINITY if there are none.  Only links between parts count; parts are
 * unchanged.
 */
static double find_cut(struct finder *f)
{
    int *before = mem_new((size_t)f->ranks, sizeof *before);
    struct edge *sorted = mem_new(f->edges + 1, sizeof *sorted);
    double last = 0, cut = INFINITY;

    memcpy(before, f->part, (size_t)f->ranks * sizeof *before);
    memcpy(sorted, f->edge, f->edges * sizeof *sorted);
    qsort(sorted, f->edges, sizeof *sorted, by_length);
    for (size_t i = 0; i < f->edges && isinf(cut); i++) {
        const struct edge *e = &sorted[i];
        if (f->part[e->a] == f->part[e->b])
            continue;
        if (last > 0 && e->length >= PROBE_CLUSTER_FACTOR * last)
            cut = sqrt(last * e->length);
        last = e->length;
        join_parts(f, e->a, e->b);
    }
    memcpy(f->part, before, (size_t)f->ranks * sizeof *before);
    mem_free(before);
    mem_free(sorted);
    return cut;
}

static int run_first(struct finder *f, struct err *err)
{
    for (int s = 1; s < f->ranks; s *= 2)
        if (run_shift(f, s, err))
            return -1;
    size_t reflected = f->edges;
    if (run_reflection(f, f->ranks - 1, err) || run_reflection(f, f->ranks - 2, err))
        return -1;
    /*
     * The edges from `reflected` on are reflections.  Differences that join ranks which the
     * shifts have not joined are measured as shifts, the smallest first, at most log2 n of
     * them.
     */
    int *seen = mem_new((size_t)f->ranks, sizeof *seen), rc = 0;
    double within = find_cut(f);
    if (isinf(within))
        within = 0; /* one level so far: nothing is nearer than the rest */
    join_local(f, 0, reflected, within);
    for (size_t i = reflected; i < f->edges; i++) {
        const struct edge *e = &f->edge[i];
        seen[abs(e->a - e->b)] |= e->length < within && f->part[e->a] != f->part[e->b];
    }
    join_local(f, reflected, f->edges, within);
    for (int d = 1, left = cluster_log2_up(f->ranks); rc == 0 && left > 0 && d < f->ranks;
         d++) {
        size_t from = f->edges;
        if (!seen[d])
            continue;
        left--;
        rc = run_shift(f, d, err);
        join_local(f, from, f->edges, within);
    }
    for (int r = 0; r < f->ranks; r++) /* the final cut starts again from all edges */
        f->part[r] = r;
    mem_free(seen);
    return rc;
}

/* ---- levels ---- */

static int find_levels(struct finder *f, struct err *err)
{
    if (f->ranks == 1)
        return 0; /* no links, so nothing to cut */
    if (run_first(f, err))
        return -1;
    double within = find_cut(f);
    int64_t left = enough_pairs(f);
    /* All distances alike: rule out that a whole group was disturbed, or was not measured
       inside. */
    if (isinf(within) && run_tournament(f, 0, 0, &left, err))
        return -1;
    while (f->out.partitions < PROBE_PARTITIONS_MAX) {
        within = find_cut(f);
        if (isinf(within))
            return 0;
        join_local(f, 0, f->edges, within);
        /* Confirm the parts of this level: until CONFIRMATIONS tournaments in a row join none,
           or the pairs are used up. */
        int parts = list_parts(f, 0);
        for (int calm = 0; parts > 1 && calm < CONFIRMATIONS && left > 0; calm++) {
            int before = parts;
            if (run_tournament(f, within, calm, &left, err))
                return -1;
            parts = list_parts(f, 0);
            if (parts < before) {
                calm = -1;
                left = enough_pairs(f);
            }
        }
        if (list_parts(f, 0) == 1)
            return 0;
        int *part = f->out.part + (int64_t)f->out.partitions++ * f->ranks, n = 0;
        for (int r = 0; r < f->ranks; r++)
            part[r] = f->part[r] == r ? n++ : part[f->part[r]];
    }
    return 0;
}

int probe_cluster(int ranks, probe_measure measure, void *arg, struct probe_clusters *out,
                  struct err *err)
{
    struct finder f = {.ranks = ranks, .measure = measure, .arg = arg};
    size_t n = (size_t)ranks;

    f.part = mem_new(n, sizeof *f.part);
    f.order = mem_new(n, sizeof *f.order);
    f.pair = mem_new(n, sizeof *f.pair);
    f.distance = mem_new(n, sizeof *f.distance);
    f.out.ranks = ranks;
    f.out.part = mem_new(n * PROBE_PARTITIONS_MAX, sizeof(int));
    for (int r = 0; r < ranks; r++)
        f.part[r] = r;
    int rc = find_levels(&f, err);
    MEM_FREE(f.edge, f.part, f.order, f.pair, f.distance);
    if (rc == 0)
        *out = f.out;
    else
        probe_clusters_release(&f.out);
    return rc;
}

void probe_clusters_release(struct probe_clusters *c)
{
    mem_free(c->part);
    *c = (struct probe_clusters){0};
}
