/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a schedule is put together from its phases: what is shared by all generators, the
 * order of rows, one rank's part of them.  The shapes themselves are in gen_*.c.  A
 * reduce-scatter is the time reversal of the all-gather: same rows, ends swapped, copy -> add.
 */
#include "schedule/schedule_gen.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

int schedule_gen_stage(struct schedule_gen *g, int64_t span)
{
    g->base = g->next;
    g->span = span;
    g->next += span;
    return !g->dry;
}

/* A row waits for all rows of the stages so far. */
static void barrier(struct schedule_gen *g)
{
    if (g->next)
        g->out->barrier[g->out->barriers++] = (int)g->next;
}

void schedule_gen_row(struct schedule_gen *g, struct schedule_row row)
{
    struct schedule *s = g->out;

    if (g->rank >= 0 && row.src != g->rank && row.dst != g->rank)
        return;
    row.step += (int)g->base;
    s->row = mem_grow(s->row, &g->room, (size_t)s->rows + 1, sizeof *s->row);
    s->row[s->rows++] = row;
}

void schedule_gen_emit(struct schedule_gen *g, int lane, int64_t step, int src, int dst,
                       int chunk)
{
    struct schedule_row row = {.lane = lane,
                               .step = (int)step,
                               .src = src,
                               .dst = dst,
                               .chunk = chunk,
                               .into = chunk,
                               .op = SCHEDULE_COPY};

    if (g->reverse) {
        /* The last sub-chunk gathered is the first reduced: both streams run 0, 1, 2, ... */
        int c = chunk % g->out->subchunks;
        row.chunk = row.into = chunk + g->out->subchunks - 1 - 2 * c;
        row.step = (int)(g->span - 1 - step);
        row.src = dst;
        row.dst = src;
        row.op = SCHEDULE_ADD;
    }
    schedule_gen_row(g, row);
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

/* One half by rings, all of it a reduction or all of it a gather. */
static void half(struct schedule_gen *g, int across, int inside)
{
    if (!across && !inside)
        return;
    if (g->spec->algo == SCHEDULE_RING && across && inside) {
        schedule_gen_ring(g);
    } else if (g->spec->algo == SCHEDULE_TWO_LEVEL && across && inside) {
        int first_across = !g->reverse; /* gather: across first; reduce: inside first */
        schedule_gen_ho(g, first_across, !first_across);
        barrier(g);
        schedule_gen_ho(g, !first_across, first_across);
    } else {
        schedule_gen_ho(g, across, inside);
    }
}

static void rings(struct schedule_gen *g)
{
    unsigned phases = g->spec->phases;

    g->reverse = 1;
    half(g, phases & SCHEDULE_REDUCE_ACROSS, phases & SCHEDULE_REDUCE_INSIDE);
    if (g->spec->algo == SCHEDULE_TWO_LEVEL)
        barrier(g);
    g->reverse = 0;
    g->out->gather_step = (int)g->next;
    half(g, phases & SCHEDULE_GATHER_ACROSS, phases & SCHEDULE_GATHER_INSIDE);
}

static void broadcast(struct schedule_gen *g)
{
    enum schedule_algo algo = g->spec->algo;

    if (schedule_algo_kernel(algo)) {
        schedule_gen_few_cast(g);
    } else if (algo == SCHEDULE_RING) {
        schedule_gen_ring_cast(g);
    } else if (algo == SCHEDULE_TWO_LEVEL) {
        schedule_gen_ho_cast(g, 1, 0);
        barrier(g);
        schedule_gen_ho_cast(g, 0, 1);
    } else {
        schedule_gen_ho_cast(g, 1, 1);
    }
}

static void compose(struct schedule_gen *g, int dry)
{
    g->dry = dry;
    g->next = 0;
    g->reverse = 0;
    g->out->barriers = 0;
    if (g->spec->phases & SCHEDULE_BROADCAST)
        broadcast(g);
    else if (schedule_algo_kernel(g->spec->algo))
        schedule_gen_few(g);
    else
        rings(g);
}

int schedule_gen(const struct schedule_spec *spec, int rank, struct schedule *out,
                 struct err *err)
{
    struct schedule s = {.algo = spec->algo,
                         .phases = spec->phases,
                         .segments = spec->segments,
                         .subchunks = spec->subchunks,
                         .root = spec->root};
    int g = spec->groups->count;
    struct schedule_gen gen = {.spec = spec, .out = &s, .rank = rank};
    int64_t chunks = (int64_t)spec->segments * g * spec->subchunks;

    groups_copy(&s.groups, spec->groups);
    s.holder = mem_new((size_t)spec->segments * (size_t)g, sizeof(int));
    memcpy(s.holder, spec->holder, (size_t)spec->segments * (size_t)g * sizeof(int));
    compose(&gen, 1);
    if (chunks * (1 + s.planes) > INT32_MAX || gen.next > INT32_MAX) {
        schedule_release(&s);
        return err_set(err, ERR_INPUT,
                       "%d sub-chunks of %d segments in %d groups do not fit a schedule",
                       spec->subchunks, spec->segments, g);
    }
    s.chunks = (int)chunks;
    s.lanes = s.segments + 2; /* a rail per segment, inside the groups, all other ways */
    s.steps = (int)gen.next;
    compose(&gen, 0);
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
