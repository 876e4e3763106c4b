/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assembles a schedule from its phases: code shared by all generators, the order of rows, the
 * selection of one rank's rows.  The algorithms themselves are in schedule_gen_*.c.  A
 * reduce-scatter is the time reversal of the all-gather: same rows, src and dst swapped, copy
 * -> add.
 */
#include "schedule/schedule_gen.h"

#include <assert.h>
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

void schedule_gen_barrier(struct schedule_gen *g)
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
    s->row = mem_grow(s->row, &g->space, (size_t)s->rows + 1, sizeof *s->row);
    s->row[s->rows++] = row;
}

void schedule_gen_emit(struct schedule_gen *g, int lane, int64_t step, int src, int dst,
                       int chunk)
{
    assert(step >= 0 && step < g->span);
    struct schedule_row row = {.lane = lane,
                               .step = (int)step,
                               .src = src,
                               .dst = dst,
                               .chunk = chunk,
                               .into = chunk,
                               .op = SCHEDULE_COPY};

    if (g->reverse) {
        /* The reversal would reduce the last sub-chunk first; renumbered, both streams run 0,
           1, ... */
        int c = chunk % g->out->subchunks;
        row.chunk = row.into = chunk + g->out->subchunks - 1 - 2 * c;
        row.step = (int)(g->span - 1 - step);
        row.src = dst;
        row.dst = src;
        row.op = SCHEDULE_ADD;
    }
    schedule_gen_row(g, row);
}

static int gen_by_step(const void *a, const void *b)
{
    const struct schedule_row *x = a, *y = b;
    int c = x->step - y->step;

    c = c ? c : x->lane - y->lane;
    c = c ? c : x->chunk - y->chunk;
    c = c ? c : x->src - y->src;
    return c ? c : x->dst - y->dst;
}

static void gen_halves(struct schedule_gen *g, const struct schedule_generator *by)
{
    unsigned phases = g->spec->phases;

    g->reverse = 1;
    if (phases & SCHEDULE_REDUCE_SCATTER)
        by->half(g, (phases & SCHEDULE_REDUCE_ACROSS) != 0,
                 (phases & SCHEDULE_REDUCE_INSIDE) != 0);
    if (by->barrier)
        schedule_gen_barrier(g);
    g->reverse = 0;
    g->out->gather_step = (int)g->next;
    if (phases & SCHEDULE_ALL_GATHER)
        by->half(g, (phases & SCHEDULE_GATHER_ACROSS) != 0,
                 (phases & SCHEDULE_GATHER_INSIDE) != 0);
}

static void compose(struct schedule_gen *g, int dry)
{
    const struct schedule_generator *by = schedule_algo_generator(g->spec->algo);

    assert(by->run || (by->half && by->cast));
    g->dry = dry;
    g->next = 0;
    g->reverse = 0;
    g->out->barriers = 0;
    if (g->spec->phases & SCHEDULE_BROADCAST)
        (by->run ? schedule_gen_few_cast : by->cast)(g);
    else if (by->run)
        schedule_gen_few(g);
    else
        gen_halves(g, by);
}

/* Fills in everything but the rows. */
static int gen_begin(const struct schedule_spec *spec, struct schedule_gen *gen,
                     struct err *err)
{
    struct schedule *s = gen->out;
    int g = spec->groups->count;
    int64_t chunks = (int64_t)spec->segments * g * spec->subchunks;

    *s = (struct schedule){.algo = spec->algo,
                           .phases = spec->phases,
                           .segments = spec->segments,
                           .subchunks = spec->subchunks,
                           .root = spec->root};
    groups_copy(&s->groups, spec->groups);
    s->holder = mem_new((size_t)spec->segments * (size_t)g, sizeof(int));
    memcpy(s->holder, spec->holder, (size_t)spec->segments * (size_t)g * sizeof(int));
    compose(gen, 1);
    if (chunks * (1 + s->planes) > INT32_MAX || gen->next > INT32_MAX)
        return err_set(err, ERR_INPUT,
                       "%d sub-chunks of %d segments in %d groups do not fit a schedule",
                       spec->subchunks, spec->segments, g);
    s->chunks = (int)chunks;
    s->lanes = s->segments + 2; /* one rail per segment, one lane inside the groups, one for
                                   other rows */
    s->steps = (int)gen->next;
    return 0;
}

int schedule_check(const struct schedule_spec *spec, struct err *err)
{
    struct schedule s;
    struct schedule_gen gen = {.spec = spec, .out = &s};
    int rc = gen_begin(spec, &gen, err);

    schedule_release(&s);
    return rc;
}

int schedule_gen(const struct schedule_spec *spec, int rank, struct schedule *out,
                 struct err *err)
{
    struct schedule s;
    struct schedule_gen gen = {.spec = spec, .out = &s, .rank = rank};

    if (gen_begin(spec, &gen, err)) {
        schedule_release(&s);
        return -1;
    }
    compose(&gen, 0);
    if (s.rows)
        qsort(s.row, (size_t)s.rows, sizeof *s.row, gen_by_step);
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
