/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generates the all-gather around one flat ring, the ranks group after group so that one flow
 * crosses each port.  At step t position i sends the chunks of the rank t positions before it.
 *
 *   n = 4, one chunk a rank; each cell is "whose chunk i sends to i+1":
 *     t       i=0  i=1  i=2  i=3
 *     0        0    1    2    3
 *     1        3    0    1    2     (received one step earlier)
 *     2        2    3    0    1
 *
 * A rank may own several chunks: its part of each of its segments, times the sub-chunks.  They
 * are sent one after the other within a ring step, which so has `most` logical steps, the most
 * chunks that a rank owns.
 *
 * A reduction is the time reversal of a ring that runs backward, so that the reduction runs
 * forward: see schedule_gen_ho.c.
 *
 * A broadcast runs along the ring without one link, a chain: chunk q makes hop t at step t + q.
 */
#include "schedule/schedule_gen.h"

#include "base/mem.h"

/* The largest number of segments that one rank holds. */
static int most_segments(const struct schedule *s)
{
    int *held = mem_new((size_t)s->groups.ranks, sizeof(int)), most = 0;

    for (int i = 0; i < s->segments * s->groups.count; i++)
        most = ++held[s->holder[i]] > most ? held[s->holder[i]] : most;
    mem_free(held);
    return most;
}

/* Sends the chunks of `owner` from src to dst at ring step t. */
static void block(struct schedule_gen *g, int t, int most, int owner, int src, int dst)
{
    const struct schedule *s = g->out;
    int k = s->groups.group_of[owner], count = s->groups.count, held = 0;

    for (int e = 0; e < s->segments; e++) {
        if (s->holder[e * count + k] != owner)
            continue;
        for (int c = 0; c < s->subchunks; c++)
            schedule_gen_emit(g, s->segments + 1, ((int64_t)t * most + held) * s->subchunks + c,
                              src, dst, (e * count + k) * s->subchunks + c);
        held++;
    }
}

static void gen_ring_gather(struct schedule_gen *g)
{
    const struct groups *groups = &g->out->groups;
    int n = groups->ranks, most = most_segments(g->out), step = g->reverse ? n - 1 : 1;

    if (!schedule_gen_stage(g, (int64_t)(n - 1) * most * g->out->subchunks))
        return;
    for (int i = 0; i < n; i++) {
        int src = groups->rank[i], dst = groups->rank[(i + step) % n];
        if (g->rank >= 0 && src != g->rank && dst != g->rank)
            continue;
        for (int t = 0; t < n - 1; t++)
            block(g, t, most, groups->rank[(g->reverse ? i + t : i - t + n) % n], src, dst);
    }
}

static void gen_ring_cast(struct schedule_gen *g)
{
    const struct schedule *s = g->out;
    int n = s->groups.ranks;
    int64_t chunks = (int64_t)s->segments * s->groups.count * s->subchunks;

    if (n < 2 || !schedule_gen_stage(g, n - 2 + chunks))
        return;
    int *chain = schedule_gen_ranks_chain(g);
    for (int t = 0; t < n - 1; t++) {
        int src = chain[t], dst = chain[t + 1];
        for (int q = 0; q < s->chunks && (g->rank < 0 || src == g->rank || dst == g->rank); q++)
            schedule_gen_emit(g, s->segments + 1, (int64_t)t + q, src, dst, q);
    }
    mem_free(chain);
}

/* A ring over all ranks serves only all phases of a reduction or gather together. */
static void gen_ring_half(struct schedule_gen *g, int across, int inside)
{
    if (across && inside)
        gen_ring_gather(g);
    else
        schedule_gen_ho(g, across, inside);
}

const struct schedule_generator schedule_generator_ring = {.half = gen_ring_half,
                                                           .cast = gen_ring_cast};
