/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows a collective of some groups alone: rings through them, side by side, one for each rank
 * that all of them have.
 *
 *     groups 1 and 2 of 2x(0 1) (2 3) (4 5):    2 > 4 > 2      3 > 5 > 3
 */
#include "probe/probe_ring.h"

#include <assert.h>

#include "base/mem.h"
#include "probe/probe_parts.h"

/*
 * The rows of rank `me`, at place i of a ring of n: what the ring's place o gave arrives in
 * step (i - o) mod n - 1 and goes on in the next, piece by piece; it lies behind what lower
 * places gave, one's own left out, so that wrong_words finds each as a flow from its origin.
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
            r->in_bytes += probe_aligned(bytes);
        }
    }
    for (int step = 0; step < n - 1; step++)
        for (int way = 0; way < 2; way++) { /* what is sent on, then what comes */
            int o = (i - step - way + 2 * n) % n;
            int src = way ? ring[(i - 1 + n) % n] : p->world->rank;
            for (int c = 0; c < pieces; c++)
                probe_rows_add(rows, step, src, way ? p->world->rank : next,
                               chunk + o * pieces + c);
        }
}

int64_t probe_ring_room(int count, int64_t bytes)
{
    return (int64_t)count * probe_aligned(bytes);
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
    assert(r.round.in_bytes <= p->room && bytes <= p->room);
    mem_free(ring);
    return probe_rows_agree(p, &r, out, err);
}
