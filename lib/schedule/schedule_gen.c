/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a schedule is put together from its phases: what is shared by all generators, the
 * order of rows, one rank's part of them.  The shapes themselves are gen_ring.c and gen_ho.c.
 * A reduce-scatter is the time reversal of the all-gather: same rows, ends swapped, copy ->
 * add.
 */
#include "schedule/schedule_gen.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const struct {
    const char *name;
    unsigned phases;
} colls[] = {
    {"all-gather", SCHEDULE_ALL_GATHER},
    {"reduce-scatter", SCHEDULE_REDUCE_SCATTER},
    {"all-reduce", SCHEDULE_ALL_REDUCE},
    {"broadcast", SCHEDULE_BROADCAST},
};

static const char *const algos[] = {"ring", "two-level", "ho-ring", "auto"};

const char *schedule_phases_name(unsigned phases)
{
    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
        if (colls[i].phases == phases)
            return colls[i].name;
    return NULL;
}

int schedule_phases_parse(const char *text, unsigned *out, struct err *err)
{
    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++) {
        if (strcmp(text, colls[i].name) == 0) {
            *out = colls[i].phases;
            return 0;
        }
    }
    return err_set(err, ERR_INPUT,
                   "operation '%s', expected all-gather, reduce-scatter, all-reduce or "
                   "broadcast",
                   text);
}

const char *schedule_algo_name(enum schedule_algo algo)
{
    return algos[algo];
}

int schedule_algo_parse(const char *text, enum schedule_algo *out, struct err *err)
{
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, algos[i]) == 0) {
            *out = (enum schedule_algo)i;
            return 0;
        }
    }
    return err_set(err, ERR_INPUT, "algorithm '%s', expected ring, two-level, ho-ring or auto",
                   text);
}

void schedule_gen_emit(struct schedule_gen *g, int lane, int64_t step, int src, int dst,
                       int chunk)
{
    struct schedule *s = g->out;

    if (g->rank >= 0 && src != g->rank && dst != g->rank)
        return;
    if (g->reverse) {
        int c = chunk % s->subchunks;
        step = g->span - 1 - step;
        /* The last sub-chunk gathered is the first reduced: both streams run 0, 1, 2, ... */
        chunk += s->subchunks - 1 - 2 * c;
        int was = src;
        src = dst;
        dst = was;
    }
    s->row = mem_grow(s->row, &g->room, (size_t)s->rows + 1, sizeof *s->row);
    s->row[s->rows++] = (struct schedule_row){
        .lane = lane,
        .step = (int)(g->base + step),
        .src = src,
        .dst = dst,
        .chunk = chunk,
        .into = chunk,
        .op = g->reverse ? SCHEDULE_ADD : SCHEDULE_COPY,
    };
}

static int by_step(const void *a, const void *b)
{
    const struct schedule_row *x = a, *y = b;

    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->chunk != y->chunk)
        return x->chunk < y->chunk ? -1 : 1;
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    return (x->dst > y->dst) - (x->dst < y->dst);
}

/* One half, all of it a reduction or all of it a gather: `two` is its bits shifted down. */
static void half(struct schedule_gen *g, const struct schedule_spec *spec, int across,
                 int inside)
{
    struct schedule *s = g->out;
    int serial = spec->algo == SCHEDULE_TWO_LEVEL && across && inside;

    if (!across && !inside)
        return;
    if (spec->algo == SCHEDULE_RING && across && inside) {
        g->span = schedule_gen_ring_span(s);
        schedule_gen_ring(g);
        g->base += g->span;
        return;
    }
    g->span = schedule_gen_ho_span(s);
    if (!serial) {
        schedule_gen_ho(g, across, inside);
        g->base += g->span;
        return;
    }
    for (int part = 0; part < 2; part++) {
        int first_across = !g->reverse; /* gather: across first; reduce: inside first */
        int now_across = part == 0 ? first_across : !first_across;
        schedule_gen_ho(g, now_across, !now_across);
        g->base += g->span;
        if (part == 0)
            s->barrier[s->barriers++] = (int)g->base;
    }
}

int schedule_gen(const struct schedule_spec *spec, int rank, struct schedule *out,
                 struct err *err)
{
    struct schedule s = {.algo = spec->algo, .phases = spec->phases, .root = spec->root};
    int g = spec->groups->count;
    struct schedule_gen gen = {.out = &s, .rank = rank};
    int64_t chunks = (int64_t)spec->segments * g * spec->subchunks;

    groups_copy(&s.groups, spec->groups);
    s.segments = spec->segments;
    s.subchunks = spec->subchunks;
    s.holder = mem_new((size_t)spec->segments * (size_t)g, sizeof(int));
    memcpy(s.holder, spec->holder, (size_t)spec->segments * (size_t)g * sizeof(int));
    int64_t ring = schedule_gen_ring_span(&s), ho = schedule_gen_ho_span(&s);
    if (chunks > INT32_MAX || 4 * (ring > ho ? ring : ho) > INT32_MAX) {
        schedule_release(&s);
        return err_set(err, ERR_INPUT,
                       "%d sub-chunks of %d segments in %d groups do not fit a schedule",
                       spec->subchunks, spec->segments, g);
    }
    s.chunks = (int)chunks;
    s.lanes = s.segments + 2; /* a rail per segment, inside the groups, the flat ring */
    gen.reverse = 1;
    half(&gen, spec, spec->phases & SCHEDULE_REDUCE_ACROSS,
         spec->phases & SCHEDULE_REDUCE_INSIDE);
    if (spec->algo == SCHEDULE_TWO_LEVEL && gen.base)
        s.barrier[s.barriers++] = (int)gen.base;
    gen.reverse = 0;
    s.gather_step = (int)gen.base;
    half(&gen, spec, spec->phases & SCHEDULE_GATHER_ACROSS,
         spec->phases & SCHEDULE_GATHER_INSIDE);
    s.steps = (int)gen.base;
    if (s.rows)
        qsort(s.row, (size_t)s.rows, sizeof *s.row, by_step);
    *out = s;
    return 0;
}

void schedule_release(struct schedule *s)
{
    groups_release(&s->groups);
    mem_free(s->holder);
    mem_free(s->row);
    *s = (struct schedule){0};
}
