/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures times: the compared contests alternate within each iteration.
 *
 *   for each contest: run into poisoned memory and check
 *   the other warm-ups, in turn
 *   iteration 0:  barrier A barrier B barrier C      each rank keeps its own times
 *   iteration 1:  barrier C barrier B barrier A
 *   ...
 *   for each contest: run into poisoned memory and check
 *   the time of an iteration is that of its slowest rank
 *
 * A run finds the ports in the state that the previous run left: a shaper that passes a burst
 * after a pause (128 KiB on emulated fabrics) favours one position.  So the order is reversed
 * in every other iteration.
 */
#include "base/mem.h"
#include "base/stats.h"
#include "base/tick.h"
#include "bench/bench_parts.h"

static int rounds_check_all(struct bench *b, struct bench_contest *c, int contests,
                            struct err *err)
{
    for (int a = 0; a < contests; a++)
        for (int m = 0; m < c[a].moves; m++)
            if (bench_move_check(b, &c[a].move[m], err))
                return -1;
    return 0;
}

int bench_round(int iteration, int at, int contests)
{
    return iteration & 1 ? contests - 1 - at : at;
}

static int rounds_alternate(struct bench *b, struct bench_contest *c, int contests,
                            struct err *err)
{
    /* the checked run was the first warm-up */
    for (int i = b->o->warmup ? 1 - b->o->warmup : 0; i < b->o->iters; i++)
        for (int n = 0; n < contests; n++) {
            int a = bench_round(i, n, contests);
            if (exec_native_barrier(b->world, err))
                return -1;
            double start = tick_now_s();
            for (int m = 0; m < c[a].moves; m++)
                if (bench_move_run(b, &c[a].move[m], err))
                    return -1;
            if (i >= 0)
                c[a].seconds[i] = tick_now_s() - start;
        }
    return 0;
}

/* Collects on every rank the slowest rank's times and the wrong elements of all. */
static int rounds_collect(struct bench *b, struct bench_contest *c, struct err *err)
{
    struct world *w = b->world;
    int iters = b->o->iters;
    int64_t wrong = 0, bytes = iters * (int64_t)sizeof(double);
    double *all = mem_new((size_t)w->ranks * (size_t)iters, sizeof *all);
    int64_t *wrongs = mem_new((size_t)w->ranks, sizeof *wrongs);

    for (int m = 0; m < c->moves; m++)
        wrong += c->move[m].wrong;
    int rc = world_allgather(w, c->seconds, bytes, all, err);
    if (rc == 0)
        rc = world_allgather(w, &wrong, sizeof wrong, wrongs, err);
    for (int r = 0; r < w->ranks && rc == 0; r++) {
        c->wrong += wrongs[r];
        for (int i = 0; i < iters; i++)
            if (all[(int64_t)r * iters + i] > c->seconds[i])
                c->seconds[i] = all[(int64_t)r * iters + i];
    }
    mem_free(all);
    mem_free(wrongs);
    return rc;
}

int bench_rounds(struct bench *b, struct bench_contest *c, int contests, struct err *err)
{
    for (int a = 0; a < contests; a++)
        c[a].seconds = mem_new((size_t)b->o->iters, sizeof *c[a].seconds);
    if (rounds_check_all(b, c, contests, err) || rounds_alternate(b, c, contests, err) ||
        rounds_check_all(b, c, contests, err))
        return -1;
    for (int a = 0; a < contests; a++) {
        if (rounds_collect(b, &c[a], err))
            return -1;
        b->wrong += c[a].wrong;
    }
    return 0;
}

int bench_contest_open(struct bench *b, unsigned op, int algo, int64_t elems,
                       int64_t chunk_bytes, struct bench_contest *c, struct err *err)
{
    int reduces = op == SCHEDULE_REDUCE_SCATTER || op == SCHEDULE_ALL_REDUCE;
    enum letter from = op == SCHEDULE_ALL_GATHER ? LETTER_G : LETTER_N;
    enum letter to = op == SCHEDULE_REDUCE_SCATTER ? LETTER_G : LETTER_N;
    const struct bench_move_spec spec = {
        .algo = algo,
        .op = op,
        .phases = op,
        .from = from,
        .to = to,
        .redop = reduces ? b->o->redop : DTYPE_OPS,
        .giver = b->world->rank,
        .givers = b->world->ranks,
        .elems = elems,
        .chunk_bytes = chunk_bytes,
    };

    c->moves = 1;
    return bench_move_open(b, &spec, &c->move[0], err);
}

void bench_contest_close(struct bench_contest *c, int in_order)
{
    for (int m = 0; m < 2; m++)
        bench_move_close(&c->move[m], in_order);
    mem_free(c->seconds);
    *c = (struct bench_contest){0};
}

void bench_marks(double *seconds, int n, double *marks)
{
    static const struct {
        enum bench_mark mark;
        double percent;
    } at[] = {{BENCH_P10, 10}, {BENCH_P25, 25}, {BENCH_P75, 75},
              {BENCH_P90, 90}, {BENCH_P99, 99}, {BENCH_MAX, 100}};

    marks[BENCH_MEDIAN] = stats_median(seconds, n); /* stats_median sorts */
    marks[BENCH_MIN] = seconds[0];
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        marks[at[i].mark] = stats_percentile(seconds, n, at[i].percent);
}
