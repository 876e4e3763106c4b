/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts the elements that each rank sends to each other in each leg of a collective, for equal
 * and ragged groups, and the time that the links of the fabric need.  Independent of
 * strategies, types and overlap.
 *
 * Equal groups give the terms of paro-method(7), TRAFFIC: a = (m-1)/m inside, b = (g-1)/(g m)
 * across for one rank, m b = (g-1)/g through a port, (n-1)/n through a port for the flat ring.
 */
#include "plan/plan_traffic.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "base/mem.h"

static double traffic_least(double a, double b)
{
    return a < b ? a : b;
}

static double traffic_most(double a, double b)
{
    return a > b ? a : b;
}

/*
 * Blocks of groups (three levels and more): a ring of groups, ordered by block, crosses each
 * block's port once in each direction, so the narrowest port on the path counts.
 */
static void set_rates(struct plan_traffic *t, const struct topo *topo)
{
    int g = topo->groups.count;

    t->inside_s = topo->level[0].latency_s;
    t->inside_busy_s = topo->level[0].latency_busy_s;
    t->inside_message_s = topo->level[0].message_s;
    t->inside_Bps = topo->level[0].member_Bps;
    t->out_Bps = mem_new((size_t)g, sizeof *t->out_Bps);
    t->in_Bps = mem_new((size_t)g, sizeof *t->in_Bps);
    t->flow_Bps = mem_new((size_t)g, sizeof *t->flow_Bps);
    for (int k = 0; k < g; k++) {
        t->out_Bps[k] = topo->port[k].out_Bps;
        t->in_Bps[k] = topo->port[k].in_Bps;
        t->flow_Bps[k] = topo->level[1].flow_Bps;
    }
    for (int i = 1; i < topo->levels; i++) {
        const struct topo_level *level = &topo->level[i];
        t->across_s = traffic_most(t->across_s, level->latency_s);
        t->across_busy_s = traffic_most(t->across_busy_s, level->latency_busy_s);
        t->across_message_s = traffic_most(t->across_message_s, level->message_s);
        for (int k = 0; k < g; k++) {
            double port = i == 1 ? INFINITY : level->port_Bps;
            double rails = level->flow_Bps * topo->groups.members[k] * (1 + topo->groups.ring);
            t->out_Bps[k] = traffic_least(traffic_least(t->out_Bps[k], port), rails);
            t->in_Bps[k] = traffic_least(traffic_least(t->in_Bps[k], port), rails);
            t->flow_Bps[k] = traffic_least(t->flow_Bps[k], level->flow_Bps);
        }
    }
    for (int k = 0; k < g; k++)
        t->flow_Bps[k] =
            traffic_least(t->flow_Bps[k], traffic_least(t->out_Bps[k], t->in_Bps[k]));
}

static void flow(struct plan_traffic *t, enum plan_leg leg, int src, int dst, int64_t elems)
{
    const struct groups *groups = &t->layout.groups;
    int from = groups->group_of[src], to = groups->group_of[dst];

    if (from == to) {
        t->unit[t->first[PLAN_RANK_FAST] + src][leg] += (double)elems;
        return;
    }
    t->unit[t->first[PLAN_PORT_OUT] + from][leg] += (double)elems;
    t->unit[t->first[PLAN_PORT_IN] + to][leg] += (double)elems;
    t->unit[t->first[PLAN_RANK_SLOW] + src][leg] += (double)elems;
}

/*
 * Counts a rank's hops of a ring.  In a gather it receives `elems`, all but its own piece, from
 * the rank before; in a reduction it sends that many to the next.
 */
static void ring_hops(struct plan_traffic *t, enum plan_leg reduce, enum plan_leg gather,
                      int before, int rank, int next, int64_t elems)
{
    flow(t, gather, before, rank, elems);
    flow(t, reduce, rank, next, elems);
}

/* Counts a holder's segment inside its group: from cell to cell, and to the other ranks of
   each. */
static void count_cells(struct plan_traffic *t, int holder, int64_t elems)
{
    const struct groups *groups = &t->layout.groups;
    int cells = groups_cells(groups, groups->group_of[holder]);

    for (int i = 0; i < cells; i++) {
        struct groups_cell c = groups_cell_after(groups, holder, i);
        int rank = c.rank[c.carrier], sends = c.ranks - 1 + (i + 1 < cells);
        t->unit[t->first[PLAN_RANK_FAST] + rank][PLAN_INSIDE_GATHER] += (double)(elems * sends);
        if (i > 0 && sends > 0)
            t->own[3][rank] += elems;
    }
}

/*
 * Counts the pieces of every segment: the hops of the rails, and each rank's shards.  One pass
 * over segments and groups, since layout_ranges would need one for each rank.
 */
static void count_rails(struct plan_traffic *t, int64_t elems)
{
    const struct layout *l = &t->layout;
    int g = l->groups.count;

    for (int i = 0; i < PLAN_OWNS; i++)
        memset(t->own[i], 0, (size_t)l->groups.ranks * sizeof *t->own[i]);
    for (int e = 0; e < l->segments; e++) {
        int64_t whole = layout_cut(l, elems, e, g, 0) - layout_cut(l, elems, e, 0, 0);
        for (int k = 0; k < g; k++) {
            int last = (k + g - 1) % g, before = l->holder[e * g + last];
            int rank = l->holder[e * g + k], next = l->holder[e * g + (k + 1) % g];
            int64_t piece = layout_cut(l, elems, e, k + 1, 0) - layout_cut(l, elems, e, k, 0);
            int64_t even = layout_cut(l, elems, e, k + 1, 1) - layout_cut(l, elems, e, k, 1);
            t->own[0][rank] += whole;
            t->own[1][rank] += piece;
            count_cells(t, rank, whole);
            if (g == 1)
                continue;
            t->own[2][rank] +=
                layout_cut(l, elems, e, last + 1, 0) - layout_cut(l, elems, e, last, 0);
            ring_hops(t, PLAN_ACROSS_REDUCE, PLAN_ACROSS_GATHER, before, rank, next,
                      whole - piece);
            ring_hops(t, PLAN_EVEN_REDUCE, PLAN_EVEN_GATHER, before, rank, next, whole - even);
        }
    }
}

static void count_vector(struct plan_traffic *t, int64_t elems)
{
    const struct groups *groups = &t->layout.groups;
    int n = groups->ranks;

    count_rails(t, elems);
    for (int i = 0; i < n; i++) {
        int before = groups->rank[(i + n - 1) % n], rank = groups->rank[i];
        uint64_t *h = &t->kind[rank].hash;
        if (groups->members[groups->group_of[rank]] > 1)
            t->unit[t->first[PLAN_RANK_FAST] + rank][PLAN_INSIDE_REDUCE] +=
                (double)(elems - t->own[0][rank]);
        if (n > 1)
            ring_hops(t, PLAN_RING_REDUCE, PLAN_RING_GATHER, before, rank,
                      groups->rank[(i + 1) % n], elems - t->own[1][rank]);
        *h = fnv_mix(*h, (uint64_t)t->own[1][before]);
        for (int k = 0; k < PLAN_OWNS; k++)
            *h = fnv_mix(*h, (uint64_t)t->own[k][rank]);
    }
}

/* Adds a unit of the span, just counted, to the sums of a set. */
static void add_span(struct plan_traffic *t, struct plan_span *span, enum plan_set set)
{
    const struct groups *groups = &t->layout.groups;
    int64_t elems = span->elems[set];
    int points = t->first[PLAN_GAUGES];

    /* Time of the busiest port of each leg, and of the busiest rank inside its group. */
    for (int leg = 0; leg < PLAN_LEGS; leg++) {
        double *port_s = &span->slope[PLAN_SLOW][set][leg];
        double *rank_s = &span->slope[PLAN_FAST][set][leg];
        int ring = leg == PLAN_RING_REDUCE || leg == PLAN_RING_GATHER;
        for (int k = 0; k < groups->count; k++) {
            double out = ring ? t->flow_Bps[k] : t->out_Bps[k];
            double in = ring ? t->flow_Bps[k] : t->in_Bps[k];
            *port_s = traffic_most(*port_s, t->unit[t->first[PLAN_PORT_OUT] + k][leg] / out);
            *port_s = traffic_most(*port_s, t->unit[t->first[PLAN_PORT_IN] + k][leg] / in);
        }
        for (int r = 0; r < groups->ranks; r++)
            *rank_s = traffic_most(*rank_s,
                                   t->unit[t->first[PLAN_RANK_FAST] + r][leg] / t->inside_Bps);
    }
    for (int i = 0; i < points; i++)
        for (int leg = 0; leg < PLAN_LEGS; leg++)
            t->point[i][set][leg] += t->unit[i][leg] * span->count[set];
    /* A unit is stored once, however often it is visited. */
    t->elems[set] += (double)elems * span->count[PLAN_TRAINED];
}

/* Adds a unit to the span of its size; returns the span. */
static int add_unit(struct plan_traffic *t, int64_t elems, int64_t trained, int visits,
                    int again)
{
    struct plan_span *span = t->span;

    while (span < t->span + t->spans &&
           (span->elems[PLAN_ALL] != elems || span->elems[PLAN_TRAINED] != trained))
        span++;
    if (span == t->span + t->spans) {
        span->elems[PLAN_ALL] = span->elems[PLAN_AGAIN] = elems;
        span->elems[PLAN_TRAINED] = trained;
        t->spans++;
    }
    span->count[PLAN_ALL] += visits;
    span->count[PLAN_AGAIN] += again;
    span->count[PLAN_TRAINED]++;
    return (int)(span - t->span);
}

/* A bare number of parameters is one unit. */
static void set_spans(struct plan_traffic *t, const struct model *model, int64_t trainable,
                      int keep)
{
    t->span = mem_new((size_t)(model->units > 0 ? model->units : 1), sizeof *t->span);
    t->product_flops = model_flops_per_token(model, 0);
    t->visits = model->units > 0 ? model->visits : 1;
    t->span_of = mem_new((size_t)t->visits, sizeof *t->span_of);
    if (model->units == 0)
        add_unit(t, model->params, trainable, 1, keep == 0);
    for (int u = 0; u < model->units; u++) {
        int64_t elems = model->unit[u].elems, part = model->unit[u].trained;
        int visits = 0, again = 0;
        for (int v = 0; v < model->visits; v++) {
            int here = model_unit_of_visit(model, v) == u;
            visits += here;
            again += here && v >= model->first_trained && v < model->visits - keep;
        }
        if (trainable != model->trained)
            part = llround((double)elems * (double)trainable / (double)model->params);
        int span = add_unit(t, elems, part, visits, again);
        for (int v = 0; v < model->visits; v++)
            if (model_unit_of_visit(model, v) == u)
                t->span_of[v] = span;
    }
}

static int by_bytes_of_point(const void *a, const void *b)
{
    return memcmp(a, b, sizeof *((struct plan_traffic *)0)->point);
}

static int by_hash(const void *a, const void *b)
{
    return MEM_ORDER((const struct plan_kind *)a, (const struct plan_kind *)b, hash);
}

/* Sorts n items and keeps one of each; returns how many remain. */
static int distinct(void *items, int n, size_t size, int (*compare)(const void *, const void *))
{
    char *base = items;
    int kept = 0;

    if (n > 0)
        qsort(items, (size_t)n, size, compare);
    for (int i = 0; i < n; i++)
        if (i == 0 || compare(base + (size_t)(kept - 1) * size, base + (size_t)i * size))
            memmove(base + (size_t)kept++ * size, base + (size_t)i * size, size);
    return kept;
}

/* Sets the shares of a rank of each kind, span by span: trained and frozen part. */
static void set_shares(struct plan_traffic *t)
{
    const struct groups *groups = &t->layout.groups;
    int n = groups->ranks;

    t->share = mem_new((size_t)t->kinds * (size_t)t->spans, sizeof *t->share);
    for (int i = 0; i < 2 * t->spans; i++) {
        const int64_t *elems = t->span[i / 2].elems;
        int64_t part = i % 2 ? elems[PLAN_ALL] - elems[PLAN_TRAINED] : elems[PLAN_TRAINED];
        count_rails(t, part);
        for (int k = 0; k < t->kinds; k++) {
            int rank = t->kind[k].rank;
            int place = groups->first[groups->group_of[rank]] + groups->local_of[rank];
            struct plan_share *s = &t->share[k * t->spans + i / 2];
            int64_t *of = i % 2 ? s->frozen : s->trained;
            of[LETTER_N] = part;
            of[LETTER_I] = t->own[0][rank];
            of[LETTER_G] = t->own[1][rank];
            if (i % 2)
                continue;
            s->group_before = t->own[2][rank];
            s->carried = t->own[3][rank];
            s->rank_before = t->own[1][groups->rank[(place + n - 1) % n]];
        }
    }
}

void plan_traffic_init(struct plan_traffic *t, const struct topo *topo,
                       const struct model *model, const struct plan_settings *s)
{
    int g = topo->groups.count, n = topo->groups.ranks;

    assert(s->trainable >= 0 && s->trainable <= model->params && topo->levels >= 2);
    *t = (struct plan_traffic){.topo = topo};
    layout_init(&t->layout, &topo->groups);
    t->layout.grain = moments_grain(s->moments);
    t->largest_group = groups_largest(&topo->groups);
    t->most_cells = groups_most_cells(&topo->groups);
    t->least_group = topo->groups.members[0];
    for (int k = 1; k < g; k++)
        t->least_group =
            topo->groups.members[k] < t->least_group ? topo->groups.members[k] : t->least_group;
    set_rates(t, topo);
    set_spans(t, model, s->trainable, s->keep);
    t->first[PLAN_PORT_IN] = g;
    t->first[PLAN_RANK_SLOW] = 2 * g;
    t->first[PLAN_RANK_FAST] = 2 * g + n;
    t->first[PLAN_GAUGES] = 2 * g + 2 * n;
    t->point = mem_new((size_t)t->first[PLAN_GAUGES], sizeof *t->point);
    t->unit = mem_new((size_t)t->first[PLAN_GAUGES], sizeof *t->unit);
    for (int i = 0; i < PLAN_OWNS; i++)
        t->own[i] = mem_new((size_t)n, sizeof *t->own[i]);
    t->kind = mem_new((size_t)n, sizeof *t->kind);
    for (int r = 0; r < n; r++)
        t->kind[r] = (struct plan_kind){FNV_BASIS, r};
    for (int i = 0; i < t->spans; i++) {
        const int64_t *elems = t->span[i].elems;
        for (int set = 0; set < PLAN_SETS; set++) {
            int64_t trained = elems[PLAN_TRAINED];
            if (set == 0 || elems[set] != elems[set - 1]) {
                memset(t->unit, 0, (size_t)t->first[PLAN_GAUGES] * sizeof *t->unit);
                /* The trained and the frozen part are sharded separately. */
                count_vector(t, trained);
                if (elems[set] > trained)
                    count_vector(t, elems[set] - trained);
            }
            add_span(t, &t->span[i], (enum plan_set)set);
        }
    }
    t->kinds = distinct(t->kind, n, sizeof *t->kind, by_hash);
    set_shares(t);
    /* Thousands of ranks have few different readings: keep each once, since only the maximum
       counts. */
    int kept = 0;
    for (int i = 0; i < PLAN_GAUGES; i++) {
        int from = t->first[i], points = t->first[i + 1] - from;
        points = distinct(t->point + from, points, sizeof *t->point, by_bytes_of_point);
        memmove(t->point + kept, t->point + from, (size_t)points * sizeof *t->point);
        t->first[i] = kept;
        kept += points;
    }
    t->first[PLAN_GAUGES] = kept;
}

void plan_traffic_release(struct plan_traffic *t)
{
    layout_release(&t->layout);
    MEM_FREE(t->out_Bps, t->in_Bps, t->flow_Bps, t->span, t->span_of, t->point, t->unit);
    for (int i = 0; i < PLAN_OWNS; i++)
        mem_free(t->own[i]);
    mem_free(t->kind);
    mem_free(t->share);
    *t = (struct plan_traffic){0};
}

double plan_traffic_largest(const struct plan_traffic *t, enum plan_gauge gauge,
                            double times[PLAN_SETS][PLAN_LEGS])
{
    double weight[PLAN_SETS * PLAN_LEGS], top = 0;
    int at[PLAN_SETS * PLAN_LEGS], n = 0;

    /* A strategy runs only a few of the legs. */
    for (int i = 0; i < PLAN_SETS * PLAN_LEGS; i++)
        if (times[i / PLAN_LEGS][i % PLAN_LEGS] != 0) {
            weight[n] = times[i / PLAN_LEGS][i % PLAN_LEGS];
            at[n++] = i;
        }
    for (int i = t->first[gauge]; i < t->first[gauge + 1]; i++) {
        double sum = 0;
        for (int k = 0; k < n; k++)
            sum += t->point[i][at[k] / PLAN_LEGS][at[k] % PLAN_LEGS] * weight[k];
        top = traffic_most(top, sum);
    }
    return top;
}

int64_t plan_traffic_shard(const struct plan_traffic *t, enum plan_set set, enum letter letter,
                           int kind)
{
    int64_t elems = 0;

    for (int i = 0; i < t->spans; i++) {
        const struct plan_share *s = &t->share[kind * t->spans + i];
        elems += t->span[i].count[PLAN_TRAINED] *
                 (s->trained[letter] + (set == PLAN_TRAINED ? 0 : s->frozen[letter]));
    }
    return elems;
}
