/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generates the Hierarchical Overlapping Ring (paro-method(7), HO-RING, after arXiv
 * 2310.06003): all-gather.  One inter-group ring, a rail, per segment over the rank that holds
 * it in each group; inside a group the holder of a segment hands each part to the other
 * members, while the next part is in flight on the rail.  In a group of several cells
 * (base/groups.h) a part passes from cell to cell in a ring, so that it crosses each cell's
 * port once, and each cell's carrier hands it to the cell's other ranks.
 *
 *   2 groups of 2; rank (k,j) is member j of group k and holds segment ej; part a is that of
 *   group 0, b that of group 1; one sub-chunk, H = 2:
 *
 *     lane      step 0              step 1              step 3
 *     rail e0   (0,0)->(1,0) e0a
 *               (1,0)->(0,0) e0b
 *     rail e1   (0,1)->(1,1) e1a
 *               (1,1)->(0,1) e1b
 *     inside                        (0,0)->(0,1) e0a    (0,0)->(0,1) e0b
 *                                   (0,1)->(0,0) e1a    (0,1)->(0,0) e1b
 *                                   (1,0)->(1,1) e0b    (1,0)->(1,1) e0a
 *                                   (1,1)->(1,0) e1b    (1,1)->(1,0) e1a
 *                                   its own part        the part from the rail
 *
 * With further levels a rail is a ring over the blocks of the highest level, and in each block
 * a rail over the blocks of the next, down to the groups: a part crosses each tier once per
 * block.  A part enters a foreign block of s_b groups at the carrier, the group at place
 * floor(i s_b / s_a), where i is its sender's place among the s_a groups of the block it comes
 * from.
 *
 *   4 groups in blocks {0 1} {2 3}, the part of group 1:
 *     t2 = 0   1 -> 3   (offset 0)        1 -> 0   t1 = 0   (offset 1)
 *     t2 = 1                              3 -> 2   t1 = 0   (offset 1)
 *
 * T counts the hops made so far at each level as digits, the highest level first; the radix of
 * a level is the most blocks that one of its rings joins.  No two groups are reached at the
 * same T. A row is at step (T C + c) H + offset: offset 0 for the highest rail, 1 for the next,
 * ..., R + u for hop u inside, with R rails.  H = R + max(1, most members - 1) has an offset
 * for each; no two rows of one chunk share a step, nor in the time reversal.
 *
 * A reduction is the time reversal of a gather whose rails run backward, so that the
 * reduction's rails run forward.  In an all-reduce each port then receives from one other port
 * alone.  With rails both ways it would receive from two, whose flows overload it alternately:
 * TCP slows down, and 0.90 of the bound is reached instead of 0.99 (4x2, [4,4,3]).
 *
 * Groups that are cabled in a ring have a port each way, and no flow of one way meets one of
 * the other: the sub-chunks take turns, even ones forward and odd ones backward, so that both
 * links of each group carry half of the bytes, in each direction.
 *
 * A broadcast starts at one group, whose port would pass a vector at each level: it uses a
 * chain instead, along which every port of every tier passes one, each way.  The root hands
 * each segment to its holder first.  Chunk q of a segment makes hop t at step (1 + t + q) H,
 * and hop u inside the t-th group at (1 + t + q) H + 1 + u.
 */
#include "schedule/schedule_gen.h"

#include "base/mem.h"

struct ho {
    struct schedule_gen *g;
    struct schedule_blocks b;
    int64_t turns; /* product of the radices: values of T */
    int inner;     /* offset of hop 0 inside */
    int hops;      /* H */
    int across, inside, cast;
    int way, ways; /* of a ring of groups: this way round, of two; else 0 of 1 */
};

/* The chunks sent in one pass: a part's chunks of segment e, or, from the root, all its
   chunks. */
struct ho_load {
    int segment, chunk, chunks;
};

static void gen_ho_begin(struct ho *h, struct schedule_gen *g)
{
    int most = groups_largest(&g->out->groups);

    h->g = g;
    schedule_blocks_init(&h->b, g->spec, g->reverse ^ h->way);
    h->turns = 1;
    for (int l = h->b.rails; l >= 1; l--)
        h->turns *= h->b.radix[l];
    h->inner = h->cast ? 1 : h->b.rails;
    h->hops = h->inner + (most > 2 ? most - 1 : 1);
}

static void gen_ho_move(const struct ho *h, int lane, int64_t turn, int offset, int src,
                        int dst, struct ho_load load)
{
    struct schedule_gen *g = h->g;
    int64_t step = h->cast ? 1 + turn : turn * g->out->subchunks;

    if (g->rank >= 0 && src != g->rank && dst != g->rank)
        return;
    for (int q = h->way; q < load.chunks; q += h->ways)
        schedule_gen_emit(g, lane, (step + q) * h->hops + offset, src, dst, load.chunk + q);
}

/* One ring, as seen from a place in one of its units. */
struct ring {
    const int *start; /* the ring's units, from the first on */
    int units;
    int from, entry; /* the unit that the part comes from, and its place there */
};

static int carrier(const struct ring *r, int unit)
{
    int64_t s_a = r->start[r->from + 1] - r->start[r->from];
    int64_t s_b = r->start[unit + 1] - r->start[unit];

    return r->start[unit] + (int)(r->entry * s_b / s_a);
}

static struct ring gen_ho_ring_of(const struct ho *h, int l, int place, int entry)
{
    int count = h->g->out->groups.count;
    const int *unit = h->b.unit + (int64_t)l * count;
    const int *above = h->b.start + (int64_t)(l + 1) * (count + 1);
    int upper = h->b.unit[(int64_t)(l + 1) * count + place];
    int first = unit[above[upper]], last = unit[above[upper + 1] - 1];
    struct ring r = {.start = h->b.start + (int64_t)l * (count + 1) + first,
                     .units = last - first + 1,
                     .from = unit[entry] - first};

    r.entry = entry - r.start[r.from];
    return r;
}

/*
 * Sends a load inside group k at this T: from the holder round the cells, carrier to carrier,
 * and in each cell from its carrier to the other ranks.
 */
static void gen_ho_hand_out(const struct ho *h, int k, int64_t turn, struct ho_load load)
{
    const struct schedule *s = h->g->out;
    int src = s->holder[(int64_t)load.segment * s->groups.count + k];
    int cells = groups_cells(&s->groups, k), u = h->inner, lane = s->segments;

    for (int i = 1, before = src; i < cells; i++, u++) {
        struct groups_cell to = groups_cell_after(&s->groups, src, i);
        int carrier = to.rank[to.carrier];
        if (!h->cast || carrier != s->root)
            gen_ho_move(h, lane, turn, u, before, carrier, load);
        before = carrier;
    }
    for (int i = 0; i < cells; i++) {
        struct groups_cell in = groups_cell_after(&s->groups, src, i);
        for (int j = 1; j < in.ranks; j++, u++) {
            int dst = in.rank[(in.carrier + j) % in.ranks];
            if (!h->cast || dst != s->root)
                gen_ho_move(h, lane, turn, u, in.rank[in.carrier], dst, load);
        }
    }
}

/*
 * Adds the rows of group k for a load that begins in group x: its holder's sends, its receives
 * (only if rows of one rank are emitted: otherwise its sender emits them), and the hops inside.
 */
static void group_rows(const struct ho *h, int k, int x, struct ho_load load)
{
    const struct schedule *s = h->g->out;
    const int *holder = s->holder + (int64_t)load.segment * s->groups.count;
    int place = h->b.at[k], entry = h->b.at[x];
    int64_t turn = 0, below = h->turns; /* T units per hop at this level */

    for (int l = h->b.rails; l >= 1; l--) {
        struct ring r = gen_ho_ring_of(h, l, place, entry);
        int unit = h->b.unit[(int64_t)l * s->groups.count + place] -
                   h->b.unit[(int64_t)l * s->groups.count + entry] + r.from;
        int t = (unit - r.from + r.units) % r.units;
        below /= h->b.radix[l];
        entry = carrier(&r, unit);
        if (h->across && entry == place) {
            int to = carrier(&r, (unit + 1) % r.units);
            int of = carrier(&r, (unit + r.units - 1) % r.units);
            if (t < r.units - 1)
                gen_ho_move(h, load.segment, turn + t * below, h->b.rails - l, holder[k],
                            holder[h->b.order[to]], load);
            if (t > 0 && h->g->rank >= 0)
                gen_ho_move(h, load.segment, turn + (t - 1) * below, h->b.rails - l,
                            holder[h->b.order[of]], holder[k], load);
        }
        turn += t * below;
    }
    if (h->inside)
        gen_ho_hand_out(h, k, turn, load);
}

void schedule_gen_ho(struct schedule_gen *g, int across, int inside)
{
    const struct schedule *s = g->out;
    struct ho h = {.across = across, .inside = inside, .ways = 1 + s->groups.ring};
    int count = s->groups.count, C = s->subchunks;
    int only = g->rank >= 0 ? s->groups.group_of[g->rank] : -1;
    int first = only >= 0 ? only : 0, end = only >= 0 ? only + 1 : count;

    for (int emit = 0; h.way < h.ways; h.way++) {
        gen_ho_begin(&h, g);
        if (h.way == 0)
            emit = schedule_gen_stage(g, h.turns * C * h.hops);
        for (int e = 0; emit && e < s->segments; e++)
            for (int x = 0; x < count; x++)
                for (int k = first; k < end; k++)
                    group_rows(&h, k, x, (struct ho_load){e, (e * count + x) * C, C});
        schedule_blocks_release(&h.b);
    }
}

/* Sends segment e from the root along the chain of groups. */
static void cast_segment(const struct ho *h, const int *chain, int e)
{
    struct schedule_gen *g = h->g;
    const struct schedule *s = g->out;
    int count = s->groups.count, chunks = count * s->subchunks;
    const int *holder = s->holder + (int64_t)e * count;
    int mine = g->rank >= 0 ? s->groups.group_of[g->rank] : -1;
    struct ho_load load = {e, e * chunks, chunks};

    if (h->across && holder[chain[0]] != s->root)
        gen_ho_move(h, s->segments, -1, 0, s->root, holder[chain[0]], load);
    for (int t = 0; t < count; t++) {
        int k = chain[t];
        if (h->across && t + 1 < count)
            gen_ho_move(h, e, t, 0, holder[k], holder[chain[t + 1]], load);
        if (h->inside && (mine < 0 || mine == k))
            gen_ho_hand_out(h, k, t, load);
    }
}

static void gen_ho_cast(struct schedule_gen *g, int across, int inside)
{
    const struct schedule *s = g->out;
    struct ho h = {.across = across, .inside = inside, .cast = 1, .ways = 1 + s->groups.ring};
    int count = s->groups.count;

    for (int emit = 0; h.way < h.ways; h.way++) {
        gen_ho_begin(&h, g);
        if (h.way == 0)
            emit = schedule_gen_stage(g, (count + (int64_t)count * s->subchunks) * h.hops);
        int *chain = schedule_blocks_chain(&h.b, count, s->groups.group_of[s->root]);
        for (int e = 0; emit && e < s->segments; e++)
            cast_segment(&h, chain, e);
        mem_free(chain);
        schedule_blocks_release(&h.b);
    }
}

static void ho_ring_cast(struct schedule_gen *g)
{
    gen_ho_cast(g, 1, 1);
}

const struct schedule_generator schedule_generator_ho_ring = {.half = schedule_gen_ho,
                                                              .cast = ho_ring_cast};

static void two_level_half(struct schedule_gen *g, int across, int inside)
{
    int across_first = !g->reverse; /* gather: across first; reduction: inside first */

    if (!across || !inside) {
        schedule_gen_ho(g, across, inside);
        return;
    }
    schedule_gen_ho(g, across_first, !across_first);
    schedule_gen_barrier(g);
    schedule_gen_ho(g, !across_first, across_first);
}

static void two_level_cast(struct schedule_gen *g)
{
    gen_ho_cast(g, 1, 0);
    schedule_gen_barrier(g);
    gen_ho_cast(g, 0, 1);
}

const struct schedule_generator schedule_generator_two_level = {
    .half = two_level_half, .cast = two_level_cast, .barrier = 1};
