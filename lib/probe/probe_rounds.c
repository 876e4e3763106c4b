/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses simultaneous flows that share no port, and their length.  Also makes parallel rings
 * through some groups, as many as the smallest of them has ranks:
 *
 *     groups 1 and 2 of 2x(0 1) (2 3) (4 5):    2 > 4 > 2      3 > 5 > 3
 */
#include "probe/probe.h"

#include <assert.h>

#include "base/mem.h"
#include "probe/probe_parts.h"

/*
 *   groups of 3 and 2 members, shift 1, `bytes` through each port:
 *
 *     group 0   0 1 2      0 -> 3   1 -> 4   2 -> 3      a third of the bytes each
 *     group 1   3 4        3 -> 0   4 -> 1   3 -> 2
 */
int probe_exchange(const struct groups *g, const int *to, int64_t bytes,
                   struct probe_flow *flow)
{
    int flows = 0;

    for (int k = 0; k < g->count; k++) {
        if (to[k] < 0 || to[k] == k)
            continue;
        int a = g->members[k], b = g->members[to[k]], pairs = a > b ? a : b;
        for (int i = 0; i < pairs; i++, flows++)
            if (flow)
                flow[flows] =
                    (struct probe_flow){groups_rank(g, k, i % a), groups_rank(g, to[k], i % b),
                                        (bytes + pairs - 1) / pairs};
    }
    return flows;
}

int probe_shift(const struct probe_view *v, int s, int part, int64_t bytes,
                struct probe_flow *flow)
{
    int count = v->groups->count, ring = v->groups->ring, flows = 0;
    int *to = mem_new((size_t)count, sizeof *to), *of = mem_new((size_t)count, sizeof *of);

    assert(s >= 1 && s < count);
    /* Find which part of shift s the flow of each group belongs to; -1: no flow. */
    for (int k = 0; k < count; k++)
        of[k] = PROBE_PARTS;
    for (int k = 0; k < count; k++) {
        int at = k, places = 0, last = k;
        for (; of[at] == PROBE_PARTS; at = probe_next(v, at, s)) {
            of[at] = places++ % 2;
            last = at;
        }
        if (places == 1)
            of[last] = -1;
        else if (places % 2)
            of[last] = PROBE_PARTS - 1;
    }
    /* On a ring the part is the receiver's, so that both its neighbours send in one. */
    for (int way = 0; way <= ring; way++) {
        for (int k = 0; k < count; k++) {
            int next = probe_next(v, k, way ? count - s : s);
            to[k] = part < 0 || of[ring ? next : k] == part ? next : -1;
        }
        flows += probe_exchange(v->groups, to, (bytes + ring) / (1 + ring), flow + flows);
    }
    mem_free(to);
    mem_free(of);
    return flows;
}

int64_t probe_shift_space(const struct groups *g, int64_t bytes)
{
    /* At most all streams of one port, each rounded up to 64 bytes and by one byte. */
    return bytes + (int64_t)groups_largest(g) * (1 + g->ring) * 66;
}

int probe_inside(const struct groups *g, int64_t bytes, struct probe_flow *flow)
{
    int flows = 0;

    for (int k = 0; k < g->count; k++) {
        int m = g->members[k];
        if (m < 2)
            continue;
        for (int j = 0; j < m; j++, flows++)
            if (flow)
                flow[flows] = (struct probe_flow){groups_rank(g, k, j),
                                                  groups_rank(g, k, (j + 1) % m), bytes};
    }
    return flows;
}

int probe_lap(struct probe *p, const struct probe_views *views, int l, int64_t bytes,
              struct probe_round *out, struct err *err)
{
    p->view = views->view[l ? l : 1];
    const struct groups *g = p->view.groups;
    struct probe_flow *flow = mem_new((size_t)g->ranks * PROBE_FLOWS, sizeof *flow);
    int flows = l ? probe_shift(&p->view, 1, -1, bytes, flow) : probe_inside(g, bytes, flow);
    int rc = probe_prepare(p, flow, flows, out, err);

    mem_free(flow);
    return rc;
}

/* Pairs the groups of a circle: an odd last one has no partner. */
int probe_partners_across(const struct probe_view *v, struct probe_flow *pair)
{
    const struct groups *g = v->groups;
    int pairs = 0;

    for (int k = 0; k < g->count; k++) {
        int at, count = probe_circle(v, k, &at);
        if (at % 2 || at + 1 == count)
            continue;
        int to = probe_next(v, k, 1);
        pair[pairs++] = (struct probe_flow){groups_rank(g, k, 0), groups_rank(g, to, 0), 1};
    }
    return pairs;
}

static int64_t rounds_bytes_of(double Bps, double seconds, int64_t most)
{
    double want = Bps * seconds + PROBE_SKIP;

    return want < PROBE_BYTES_LEAST ? PROBE_BYTES_LEAST
           : want > (double)most    ? most
                                    : (int64_t)want;
}

int probe_size(struct world *world, const struct probe_view *v, double seconds, int64_t *bytes,
               struct err *err)
{
    const int64_t look = PROBE_LOOK_BYTES;
    struct probe_flow *flow = mem_new((size_t)v->groups->ranks * PROBE_FLOWS, sizeof *flow);
    struct probe_round r = {0};
    struct probe_result got = {0};
    struct probe_summary all = {0}; /* a group alone in its circle has no rate */
    struct probe p;

    if (probe_open(&p, world, probe_shift_space(v->groups, look), err)) {
        mem_free(flow);
        return -1;
    }
    p.view = *v;
    /* The median over the groups of the rate into each, in one run of shift 1. */
    int rc = probe_prepare(&p, flow, probe_shift(v, 1, -1, look, flow), &r, err);
    for (int i = 0; rc == 0 && i < 2; i++) /* the first opens the connections */
        rc = probe_run(&p, &r, &got, err);
    rc = rc ? rc : probe_summarize(world, got.group_Bps, 0, &all, err);
    probe_free(&r);
    mem_free(flow);
    probe_close(&p);
    if (rc == 0)
        *bytes = rounds_bytes_of(all.median, seconds, PROBE_BYTES_MOST);
    return rc;
}

/*
 * A fast link passes these bytes between two polls, so that there is no curve: a rank's whole
 * time counts, the launch included.
 */
int probe_size_gpu(struct probe *p, const struct probe_views *views, int level, double seconds,
                   int64_t *bytes, struct err *err)
{
    struct probe_round r = {0};
    struct probe_result got = {0};
    struct probe_summary all;
    int rc = probe_lap(p, views, level, PROBE_LOOK_BYTES, &r, err);

    for (int i = 0; rc == 0 && i < 2; i++)
        rc = world_agree(p->world, probe_run(p, &r, &got, err), err);
    double mine = rc == 0 && r.in_bytes ? PROBE_LOOK_BYTES / got.took_s : 0;
    rc = rc ? rc : probe_summarize(p->world, mine, 0, &all, err);
    if (rc == 0)
        *bytes = rounds_bytes_of(all.median, seconds, PROBE_GPU_BYTES_MOST);
    probe_free(&r);
    return rc;
}

/* ---- rings ---- */

/*
 * Adds the rows of rank `me`, at position i of a ring of n.  Data from position o arrives in
 * step (i - o) mod n - 1 and is passed on in the next step, piece by piece.  It is stored after
 * the data of lower positions, one's own left out, so that wrong_words finds it as a flow from
 * its origin.
 */
static void add_ring(struct probe *p, struct probe_rows *rows, const int *ring, int n, int i,
                     int64_t bytes, int chunk)
{
    int pieces = probe_chunks(p, bytes), next = ring[(i + 1) % n];
    struct probe_round *r = &rows->round;

    r->mine[r->mines++] = (struct probe_flow){p->world->rank, next, bytes};
    for (int o = 0; o < n; o++) {
        int64_t base = o == i ? 0 : r->in_bytes;
        for (int c = 0; c < pieces; c++) {
            int64_t at = probe_chunk_at(bytes, pieces, c);
            int id = chunk + o * pieces + c;
            rows->places.elems[id] = probe_chunk_at(bytes, pieces, c + 1) - at;
            (o == i ? rows->places.in_at : rows->places.out_at)[id] = base + at;
        }
        if (o != i) {
            r->mine[r->mines++] = (struct probe_flow){ring[o], p->world->rank, bytes};
            r->in_bytes += arena_space(bytes);
        }
    }
    for (int step = 0; step < n - 1; step++)
        for (int way = 0; way < 2; way++) { /* the bytes passed on, then those received */
            int o = (i - step - way + 2 * n) % n;
            int src = way ? ring[(i - 1 + n) % n] : p->world->rank;
            for (int c = 0; c < pieces; c++)
                probe_rows_add(rows, step, src, way ? p->world->rank : next,
                               chunk + o * pieces + c);
        }
}

int64_t probe_ring_space(int count, int64_t bytes)
{
    return (int64_t)count * arena_space(bytes);
}

int probe_ring(struct probe *p, int first, int count, int64_t bytes, struct probe_round *out,
               struct err *err)
{
    const struct groups *g = p->view.groups;
    int rails = g->members[first], pieces = probe_chunks(p, bytes), me = p->world->rank;
    int *ring = mem_new((size_t)count, sizeof *ring);
    struct probe_rows r;

    for (int k = first; k < first + count; k++)
        rails = g->members[k] < rails ? g->members[k] : rails;
    probe_rows_init(&r, p, rails * count * pieces, count * pieces * 2, count);
    for (int j = 0; j < rails; j++) {
        int mine = -1;
        for (int k = 0; k < count; k++) {
            ring[k] = groups_rank(g, first + k, j);
            mine = ring[k] == me ? k : mine;
        }
        if (mine >= 0)
            add_ring(p, &r, ring, count, mine, bytes, j * count * pieces);
    }
    assert(r.round.in_bytes <= p->space && bytes <= p->space);
    mem_free(ring);
    return probe_rows_agree(p, &r, out, err);
}
