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
 * Rail hop t of sub-chunk c is at step (t C + c) H; inside, batch i hop u at (i C + c) H + 1 +
 * u. H = max(2, most members) leaves room for all hops of a batch, and the + 1 keeps the rail
 * and the inside of one chunk in different steps, in the time reversal too.
 */
#include "schedule/schedule_gen.h"

static int stride(const struct schedule *s)
{
    int most = groups_largest(&s->groups);

    return most > 2 ? most : 2;
}

int64_t schedule_gen_ho_span(const struct schedule *s)
{
    return (int64_t)s->groups.count * s->subchunks * stride(s);
}

static void rail(struct schedule_gen *g, int e)
{
    const struct schedule *s = g->out;
    int count = s->groups.count, h = stride(s);
    const int *holder = s->holder + (int64_t)e * count;

    for (int k = 0; k < count; k++) {
        int src = holder[k], dst = holder[(k + 1) % count];
        if (g->rank >= 0 && src != g->rank && dst != g->rank)
            continue;
        for (int t = 0; t < count - 1; t++) {
            int part = (k - t + count) % count;
            for (int c = 0; c < s->subchunks; c++)
                schedule_gen_emit(g, e, ((int64_t)t * s->subchunks + c) * h, src, dst,
                                  (e * count + part) * s->subchunks + c);
        }
    }
}

static void inside_group(struct schedule_gen *g, int k, int e)
{
    const struct schedule *s = g->out;
    int count = s->groups.count, m = s->groups.members[k], h = stride(s);
    int src = s->holder[(int64_t)e * count + k], j = s->groups.local_of[src];

    for (int u = 0; u < m - 1; u++) {
        int dst = groups_rank(&s->groups, k, (j + 1 + u) % m);
        if (g->rank >= 0 && src != g->rank && dst != g->rank)
            continue;
        for (int i = 0; i < count; i++) {
            int part = (k - i + count) % count;
            for (int c = 0; c < s->subchunks; c++)
                schedule_gen_emit(g, s->segments, ((int64_t)i * s->subchunks + c) * h + 1 + u,
                                  src, dst, (e * count + part) * s->subchunks + c);
        }
    }
}

void schedule_gen_ho(struct schedule_gen *g, int across, int inside)
{
    const struct groups *groups = &g->out->groups;
    int only = g->rank >= 0 ? groups->group_of[g->rank] : -1;

    for (int e = 0; e < g->out->segments; e++) {
        if (across)
            rail(g, e);
        for (int k = only >= 0 ? only : 0; inside && k < (only >= 0 ? only + 1 : groups->count);
             k++)
            inside_group(g, k, e);
    }
}
