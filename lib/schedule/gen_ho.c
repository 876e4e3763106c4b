/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Hierarchical Overlapping Ring (paro.md section 5, after arXiv 2310.06003): all-gather.
 * One inter-group ring, a rail, per segment over the rank that holds it in each group; inside a
 * group the holder of a segment hands each part to the other members, while the next part is in
 * flight on the rail.
 *
 *   2 groups of 2, segments e0 e1, parts a b (of groups 0 and 1), one sub-chunk, H = 2:
 *     step 0   rails   (0,0)->(1,0) e0a   (1,0)->(0,0) e0b   (0,1)->(1,1) e1a   (1,1)->(0,1)
 * e1b step 1   inside  batch 0: each holder hands its own part to its neighbour step 3   inside
 * batch 1: and the part that came over the rail
 *
 * With further levels a rail is a ring over the blocks of the highest level, and in each block
 * a rail over the blocks of the next, down to the groups: a part crosses each tier once per
 * block.  It enters a block of s_b groups that is not its own at the carrier, the group whose
 * place among the s_b is that of its sender's among the s_a of the block it comes from, in
 * proportion: floor(i s_b / s_a).
 *
 *   4 groups in blocks {0 1} {2 3}, the part of group 1:
 *     t2 = 0   1 -> 3   (offset 0)        1 -> 0   t1 = 0   (offset 1)
 *     t2 = 1                              3 -> 2   t1 = 0   (offset 1)
 *
 * T counts the hops made so far at each level as digits, the highest level first; the radix of
 * a level is the most blocks that one of its rings joins.  Each group is reached at a T of its
 * own.  A row is at step (T C + c) H + offset: offset 0 for the highest rail, 1 for the next,
 * ..., R + u for hop u inside, with R rails.  H = R + max(1, most members - 1) has room for all
 * of them; no two rows of one chunk share a step, in the time reversal neither.
 *
 * A broadcast is the part of the root's group that is the whole segment, behind a step in which
 * the root hands it to the holder.  Its chunk q is at step (1 + T + q) H + offset.
 */
#include "schedule/schedule_gen.h"

#include <stdlib.h>

#include "base/mem.h"

/*
 * The blocks as ranges: groups in an order in which each block of each level is one run.  The
 * units of level 1 are the groups, of level rails + 1 there is one.
 */
struct ho {
    struct schedule_gen *g;
    int rails;
    int *order;    /* [groups] group at each place */
    int *at;       /* [groups] place of each group */
    int *unit;     /* [rails+2][groups] the unit of a place, counted through each level */
    int *start;    /* [rails+2][groups+1] the first place of a unit */
    int *radix;    /* [rails+1] the most units of this level in one of the next */
    int64_t turns; /* product of the radices */
    int hops;      /* H */
    int across, inside, cast;
};

/* What moves at once: a part's chunks of segment e, or all chunks of it from the root. */
struct ho_load {
    int segment, chunk, chunks;
};

static int rails_of(const struct schedule_spec *spec)
{
    return spec->levels > 2 ? spec->levels - 1 : 1;
}

struct place {
    int group;
    const struct schedule_spec *spec;
};

/* By blocks, the highest level first, then by number. */
static int by_block(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    for (int l = rails_of(x->spec); l >= 2; l--) {
        const int *block = x->spec->block + (int64_t)(l - 2) * x->spec->groups->count;
        if (block[x->group] != block[y->group])
            return block[x->group] < block[y->group] ? -1 : 1;
    }
    return x->group < y->group ? -1 : 1;
}

static void sort_groups(struct ho *h)
{
    int count = h->g->out->groups.count;
    struct place *place = mem_new((size_t)count, sizeof *place);

    for (int k = 0; k < count; k++)
        place[k] = (struct place){.group = k, .spec = h->g->spec};
    qsort(place, (size_t)count, sizeof *place, by_block);
    for (int i = 0; i < count; i++) {
        h->order[i] = place[i].group;
        h->at[place[i].group] = i;
    }
    mem_free(place);
}

/* Units of level l, where those of level l + 1 are known: a unit ends where its upper one does.
 */
static void cut_level(struct ho *h, int l)
{
    const struct schedule_spec *spec = h->g->spec;
    int count = spec->groups->count, units = 0, inside = 0;
    int *unit = h->unit + (int64_t)l * count, *start = h->start + (int64_t)l * (count + 1);
    const int *above = unit + count;
    const int *block = l >= 2 ? spec->block + (int64_t)(l - 2) * count : NULL;

    for (int i = 0; i < count; i++) {
        int fresh = i == 0 || above[i] != above[i - 1];
        if (fresh)
            inside = 0;
        if (fresh || !block || block[h->order[i]] != block[h->order[i - 1]]) {
            start[units++] = i;
            inside++;
        }
        unit[i] = units - 1;
        if (inside > h->radix[l])
            h->radix[l] = inside;
    }
    start[units] = count;
}

static void begin(struct ho *h, struct schedule_gen *g)
{
    int count = g->out->groups.count, most = groups_largest(&g->out->groups);
    size_t levels = (size_t)(rails_of(g->spec) + 2);

    h->g = g;
    h->rails = rails_of(g->spec);
    h->order = mem_new((size_t)count, sizeof(int));
    h->at = mem_new((size_t)count, sizeof(int));
    h->unit = mem_new(levels * (size_t)count, sizeof(int));
    h->start = mem_new(levels * (size_t)(count + 1), sizeof(int));
    h->radix = mem_new(levels, sizeof(int));
    sort_groups(h);
    h->start[(h->rails + 1) * (count + 1) + 1] = count; /* one unit of all groups */
    h->turns = 1;
    for (int l = h->rails; l >= 1; l--) {
        cut_level(h, l);
        h->turns *= h->radix[l];
    }
    h->hops = h->rails + (most > 2 ? most - 1 : 1);
}

static void end(struct ho *h)
{
    mem_free(h->order);
    mem_free(h->at);
    mem_free(h->unit);
    mem_free(h->start);
    mem_free(h->radix);
}

static void move(const struct ho *h, int lane, int64_t turn, int offset, int src, int dst,
                 struct ho_load load)
{
    struct schedule_gen *g = h->g;
    int64_t step = h->cast ? 1 + turn : turn * g->out->subchunks;

    if (g->rank >= 0 && src != g->rank && dst != g->rank)
        return;
    for (int q = 0; q < load.chunks; q++)
        schedule_gen_emit(g, lane, (step + q) * h->hops + offset, src, dst, load.chunk + q);
}

/* One ring, as seen from a place in one of its units. */
struct ring {
    const int *start; /* of its units, from the first on */
    int units;
    int from, entry; /* the unit where the part comes from, its place in there */
};

static int carrier(const struct ring *r, int unit)
{
    int64_t s_a = r->start[r->from + 1] - r->start[r->from];
    int64_t s_b = r->start[unit + 1] - r->start[unit];

    return r->start[unit] + (int)(r->entry * s_b / s_a);
}

static struct ring ring_of(const struct ho *h, int l, int place, int entry)
{
    int count = h->g->out->groups.count;
    const int *unit = h->unit + (int64_t)l * count;
    const int *above = h->start + (int64_t)(l + 1) * (count + 1);
    int upper = h->unit[(int64_t)(l + 1) * count + place];
    int first = unit[above[upper]], last = unit[above[upper + 1] - 1];
    struct ring r = {.start = h->start + (int64_t)l * (count + 1) + first,
                     .units = last - first + 1,
                     .from = unit[entry] - first};

    r.entry = entry - r.start[r.from];
    return r;
}

/* Inside group k, at this turn: the holder to each other member. */
static void hand_out(const struct ho *h, int k, int64_t turn, struct ho_load load)
{
    const struct schedule *s = h->g->out;
    int src = s->holder[(int64_t)load.segment * s->groups.count + k];
    int j = s->groups.local_of[src], m = s->groups.members[k];

    for (int u = 0; u < m - 1; u++) {
        int dst = groups_rank(&s->groups, k, (j + 1 + u) % m);
        if (!h->cast || dst != s->root)
            move(h, s->segments, turn, h->rails + u, src, dst, load);
    }
}

/*
 * The rows that group k has of a load that begins in group x: what its holder sends on, what it
 * receives (when only its rows are wanted: else its sender emits them), what it hands out.
 */
static void group_rows(const struct ho *h, int k, int x, struct ho_load load)
{
    const struct schedule *s = h->g->out;
    const int *holder = s->holder + (int64_t)load.segment * s->groups.count;
    int place = h->at[k], entry = h->at[x];
    int64_t turn = 0, below = h->turns; /* turns of one hop at this level */

    for (int l = h->rails; l >= 1; l--) {
        struct ring r = ring_of(h, l, place, entry);
        int unit = h->unit[(int64_t)l * s->groups.count + place] -
                   h->unit[(int64_t)l * s->groups.count + entry] + r.from;
        int t = (unit - r.from + r.units) % r.units;
        below /= h->radix[l];
        entry = carrier(&r, unit);
        if (h->across && entry == place) {
            int to = carrier(&r, (unit + 1) % r.units);
            int of = carrier(&r, (unit + r.units - 1) % r.units);
            if (t < r.units - 1)
                move(h, load.segment, turn + t * below, h->rails - l, holder[k],
                     holder[h->order[to]], load);
            if (t > 0 && h->g->rank >= 0)
                move(h, load.segment, turn + (t - 1) * below, h->rails - l,
                     holder[h->order[of]], holder[k], load);
        }
        turn += t * below;
    }
    if (h->inside)
        hand_out(h, k, turn, load);
}

/* Calls group_rows for the groups that are wanted. */
static void groups_rows(const struct ho *h, int x, struct ho_load load)
{
    const struct groups *groups = &h->g->out->groups;
    int only = h->g->rank >= 0 ? groups->group_of[h->g->rank] : -1;

    for (int k = only >= 0 ? only : 0; k < (only >= 0 ? only + 1 : groups->count); k++)
        group_rows(h, k, x, load);
}

void schedule_gen_ho(struct schedule_gen *g, int across, int inside)
{
    const struct schedule *s = g->out;
    struct ho h = {.across = across, .inside = inside};
    int count = s->groups.count, C = s->subchunks;

    begin(&h, g);
    if (schedule_gen_stage(g, h.turns * C * h.hops))
        for (int e = 0; e < s->segments; e++)
            for (int x = 0; x < count; x++)
                groups_rows(&h, x, (struct ho_load){e, (e * count + x) * C, C});
    end(&h);
}

void schedule_gen_ho_cast(struct schedule_gen *g, int across, int inside)
{
    const struct schedule *s = g->out;
    struct ho h = {.across = across, .inside = inside, .cast = 1};
    int x = s->groups.group_of[s->root], count = s->groups.count;
    int64_t chunks = (int64_t)count * s->subchunks;

    begin(&h, g);
    if (schedule_gen_stage(g, (h.turns + chunks) * h.hops)) {
        for (int e = 0; e < s->segments; e++) {
            struct ho_load load = {e, e * (int)chunks, (int)chunks};
            int holder = s->holder[(int64_t)e * count + x];
            if (across && holder != s->root)
                move(&h, s->segments, -1, 0, s->root, holder, load);
            groups_rows(&h, x, load);
        }
    }
    end(&h);
}
