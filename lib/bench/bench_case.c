/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows one measurement: one operation at one size by several algorithms.
 *
 *   fill, then for each algorithm: run into poisoned memory and check
 *   the other warm-ups, in turn
 *   iteration 0:  barrier A barrier B barrier C      each rank keeps its own times
 *   iteration 1:  barrier A barrier B barrier C
 *   ...
 *   for each algorithm: run into poisoned memory and check
 *   the time of an iteration is that of its slowest rank; a row has their median
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/tick.h"
#include "bench/bench_parts.h"
#include "exec/exec_mpi_native.h"

/* A byte that is no value's of bench_data: NaN in the floating types, negative in i32. */
enum { POISON = 0xff };

struct contest { /* one algorithm */
    enum bench_algo algo;
    struct coll_handle ours;    /* all algorithms but mpi */
    struct exec_native *native; /* mpi */
    const char *in;
    struct range *holds; /* the part of the result that this rank gets */
    int ranges;
    double *seconds; /* [iters] this rank's; after collect, the slowest rank's */
    int64_t wrong;
};

struct this_case {
    struct bench *b;
    unsigned op;
    int64_t elems;
    int size; /* bytes of an element */
    struct bench_data data;
    struct contest contest[BENCH_ALGOS_MAX];
};

static void spec_of(const struct this_case *c, enum bench_algo algo, struct coll_spec *spec)
{
    enum letter from = c->op == SCHEDULE_ALL_GATHER ? LETTER_G : LETTER_N;
    enum letter to = c->op == SCHEDULE_REDUCE_SCATTER ? LETTER_G : LETTER_N;

    *spec = (struct coll_spec){
        .moves = c->op == SCHEDULE_ALL_GATHER ? layout_moves_copy(from, to)
                                              : layout_moves_sum(from, to),
        .from = from,
        .to = to,
        .elems = c->elems,
        .type = c->b->o->type,
        .algo = algo == BENCH_RING        ? SCHEDULE_RING
                : algo == BENCH_TWO_LEVEL ? SCHEDULE_TWO_LEVEL
                                          : SCHEDULE_HO_RING,
        .chunk_bytes = c->b->o->chunk_bytes,
    };
}

static int ranges_of(const struct this_case *c, enum bench_algo algo, enum letter letter,
                     struct range *out)
{
    const struct world *w = c->b->world;

    if (algo != BENCH_MPI || letter == LETTER_N)
        return layout_ranges(&c->b->coll.layout, letter, w->rank, c->elems, out);
    exec_native_block(c->elems, w->rank, w->ranks, &out->lo, &out->hi);
    return out->hi > out->lo;
}

static void fill(const struct this_case *c, char *to, const struct range *r, int n)
{
    for (int i = 0; i < n; i++) {
        bench_data_fill(&c->data, to, r[i].lo, r[i].hi);
        to += (r[i].hi - r[i].lo) * c->size;
    }
}

static int prepare(struct this_case *c, struct contest *t, struct err *err)
{
    struct bench *b = c->b;
    size_t room = (size_t)layout_ranges_max(&b->coll.layout);
    struct range *from = mem_new(room, sizeof *from);
    int gather = c->op == SCHEDULE_ALL_GATHER, rc;

    t->seconds = mem_new((size_t)b->o->iters, sizeof *t->seconds);
    t->holds = mem_new(room, sizeof *t->holds);
    t->ranges =
        ranges_of(c, t->algo, c->op == SCHEDULE_REDUCE_SCATTER ? LETTER_G : LETTER_N, t->holds);
    int froms = ranges_of(c, t->algo, gather ? LETTER_G : LETTER_N, from);
    char *in = gather && t->algo == BENCH_MPI ? b->native_in : b->in;
    fill(c, in, from, froms);
    t->in = in;
    mem_free(from);
    if (t->algo == BENCH_MPI) {
        enum exec_native_op op = gather                             ? EXEC_NATIVE_ALL_GATHER
                                 : c->op == SCHEDULE_REDUCE_SCATTER ? EXEC_NATIVE_REDUCE_SCATTER
                                                                    : EXEC_NATIVE_ALL_REDUCE;
        rc = exec_native_open(&t->native, b->world, op, c->elems, b->o->type, err);
        return world_agree(b->world, rc, err);
    }
    struct coll_spec spec;
    spec_of(c, t->algo, &spec);
    return coll_prepare(&b->coll, &spec, &t->ours, err);
}

static int run(struct this_case *c, struct contest *t, struct err *err)
{
    struct bench *b = c->b;

    return t->native ? exec_native_run(t->native, t->in, b->out, err)
                     : coll_run(b->stream, &t->ours, t->in, b->out, err);
}

/* Into memory that holds nothing of an earlier run. */
static int check(struct this_case *c, struct contest *t, struct err *err)
{
    struct bench *b = c->b;
    const char *at = b->out;

    memset(b->out, POISON, (size_t)(c->elems * c->size));
    if (exec_native_barrier(b->world, err) || run(c, t, err))
        return -1;
    for (int i = 0; i < t->ranges; i++) {
        t->wrong += bench_data_wrong(&c->data, at, t->holds[i].lo, t->holds[i].hi);
        at += (t->holds[i].hi - t->holds[i].lo) * c->size;
    }
    return 0;
}

static int check_all(struct this_case *c, struct err *err)
{
    for (int a = 0; a < c->b->o->algos; a++)
        if (check(c, &c->contest[a], err))
            return -1;
    return 0;
}

static int take_turns(struct this_case *c, struct err *err)
{
    const struct bench_options *o = c->b->o;

    /* the checked run was the first warm-up */
    for (int i = o->warmup ? 1 - o->warmup : 0; i < o->iters; i++)
        for (int a = 0; a < o->algos; a++) {
            if (exec_native_barrier(c->b->world, err))
                return -1;
            double start = tick_now_s();
            if (run(c, &c->contest[a], err))
                return -1;
            if (i >= 0)
                c->contest[a].seconds[i] = tick_now_s() - start;
        }
    return 0;
}

/* On every rank: times of the slowest, wrong elements of all. */
static int collect(struct this_case *c, struct contest *t, struct err *err)
{
    struct world *w = c->b->world;
    int iters = c->b->o->iters;
    int64_t bytes = iters * (int64_t)sizeof(double), *wrongs = NULL;
    double *all = mem_new((size_t)w->ranks * (size_t)iters, sizeof *all);
    int rc = world_allgather(w, t->seconds, bytes, all, err);

    wrongs = mem_new((size_t)w->ranks, sizeof *wrongs);
    if (rc == 0)
        rc = world_allgather(w, &t->wrong, sizeof t->wrong, wrongs, err);
    t->wrong = 0;
    for (int r = 0; r < w->ranks && rc == 0; r++) {
        t->wrong += wrongs[r];
        for (int i = 0; i < iters; i++)
            if (all[r * iters + i] > t->seconds[i])
                t->seconds[i] = all[r * iters + i];
    }
    mem_free(all);
    mem_free(wrongs);
    return rc;
}

static void make_row(const struct this_case *c, struct contest *t, struct bench_row *row)
{
    const struct bench *b = c->b;
    int iters = b->o->iters, ours = t->algo != BENCH_MPI;

    *row = (struct bench_row){.op = c->op,
                              .algo = t->algo,
                              .shape = b->shape,
                              .ranks = b->world->ranks,
                              .type = b->o->type,
                              .elems = c->elems,
                              .bytes = c->elems * c->size,
                              .wrong = t->wrong,
                              .slow_bytes = ours ? t->ours.slow_bytes : -1,
                              .limit_s = NAN,
                              .predicted_s = NAN,
                              .load = NAN};
    row->median_s = stats_median(t->seconds, iters); /* sorts */
    row->min_s = t->seconds[0];
    row->max_s = t->seconds[iters - 1];
    if (b->groups.count > 1)
        row->limit_s = coll_cut_bound_s(&b->groups, c->op, (double)row->bytes, b->port_Bps);
    if (b->topo.levels && ours)
        row->predicted_s =
            bench_model_s(&b->topo, &t->ours, coll_subchunks(&b->coll.layout, &t->ours.spec));
    getloadavg(&row->load, 1);
}

static int report(struct this_case *c, struct err *err)
{
    struct bench *b = c->b;

    for (int a = 0; a < b->o->algos; a++) {
        struct contest *t = &c->contest[a];
        struct bench_row row;
        if (collect(c, t, err))
            return -1;
        b->wrong += t->wrong;
        if (b->world->rank)
            continue;
        make_row(c, t, &row);
        bench_print_row(b, &row);
    }
    return 0;
}

int bench_case(struct bench *b, unsigned op, int64_t elems, struct err *err)
{
    struct this_case c = {.b = b, .op = op, .elems = elems, .size = dtype_bytes(b->o->type)};
    int rc = 0;

    bench_data_init(&c.data, op != SCHEDULE_ALL_GATHER, b->o->type, b->world->rank,
                    b->world->ranks);
    for (int a = 0; a < b->o->algos && rc == 0; a++) {
        c.contest[a].algo = b->o->algo[a];
        rc = prepare(&c, &c.contest[a], err);
    }
    if (rc == 0 &&
        (check_all(&c, err) || take_turns(&c, err) || check_all(&c, err) || report(&c, err)))
        rc = -1;
    for (int a = 0; a < b->o->algos; a++) {
        /* what a peer that is gone still has in flight is left alone: the caller aborts */
        if (rc == 0 || err->code != ERR_PEER) {
            coll_free(&c.contest[a].ours);
            exec_native_close(c.contest[a].native);
        }
        mem_free(c.contest[a].seconds);
        mem_free(c.contest[a].holds);
    }
    return rc;
}
