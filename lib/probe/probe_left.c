/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the share of their rates that ranks keep when they transfer and compute at the same
 * time, because they share cores and memory bandwidth.  Measured as in training: the process's
 * communication thread (dev/dev_stream.h) makes all MPI calls and moves the bytes, the main
 * thread multiplies matrices.
 *
 *     main        products alone   waits           products
 *     runner      sleeps           traffic alone   traffic      all ranks, ROUNDS times in turn
 *
 *     rate_left = traffic with products / traffic alone,  compute_left likewise
 *
 * Traffic consists of laps of a ring inside the groups (level 0), or of shift 1 between them
 * (level 1), or between blocks of them (further out).  A rank's time runs from the beginning of
 * its first lap to the end of its last one.  Neighbours wait for each other, so no rank is far
 * ahead; one that is done continues computing for a while, since others are not.
 */
#include <math.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/tick.h"
#include "probe/probe_parts.h"
#include "probe/probe_work.h"

enum { ROUNDS = 3, LAPS_LEAST = 1, LAPS_MOST = 1000, ENDS = 2, END_BYTES = 8 };

static const double round_s = 0.2; /* one part of a round, if nothing slows it */
static const double level_s = 3.0; /* all rounds of a level: about ROUNDS if there are few
                                      ranks */
static const int64_t lap_bytes_least = 128 << 10, lap_bytes_most = 4 << 20;

struct contest { /* one level's measurement */
    struct probe *probe;
    struct probe_work *work;
    struct probe_round round;     /* a lap */
    struct probe_round end[ENDS]; /* a word from each to rank 0, and from rank 0 to each */
    struct probe words; /* sends those words: by MPI, because NCCL would connect all with
                           rank 0 */
    struct runner *runner;
    struct stream *stream;
    double most_Bps; /* of all ranks, by the level's rates: more comes from a shaper's bucket,
                        which fills while ranks rest */
};

struct traffic { /* an operation of the runner: all laps, then the ends */
    struct contest *contest;
    double start_s, last_s; /* the laps' time; owned by the runner until done */
    atomic_int done, failed;
};

static int start_lap(struct traffic *t, int lap, struct err *err)
{
    struct contest *c = t->contest;
    int ends = lap >= c->round.laps;
    struct probe_round *r = ends ? &c->end[lap - c->round.laps] : &c->round;

    if (probe_start(ends ? &c->words : c->probe, r, 0, err) == 0)
        return 0;
    atomic_store(&t->failed, 1);
    return -1;
}

static int traffic_start(void *arg, struct err *err)
{
    struct traffic *t = arg;

    t->start_s = tick_now_s();
    return start_lap(t, 0, err);
}

static enum stream_state traffic_poll(void *arg, struct err *err)
{
    struct traffic *t = arg;
    struct contest *c = t->contest;
    int lap = atomic_load(&t->done), laps = c->round.laps;
    struct probe_round *r = lap < laps ? &c->round : &c->end[lap - laps];
    enum stream_state now = probe_poll(r, err);

    if (now == STREAM_FAILED)
        atomic_store(&t->failed, 1);
    if (now != STREAM_DONE)
        return now;
    if (lap == laps - 1)
        t->last_s = tick_now_s();
    if (lap + 1 < laps + ENDS && start_lap(t, lap + 1, err))
        return STREAM_FAILED;
    atomic_store(&t->done, lap + 1);
    return lap + 1 < laps + ENDS ? STREAM_MOVED : STREAM_DONE;
}

static int still_runs(struct traffic *t, int laps)
{
    return atomic_load(&t->done) < laps && !atomic_load(&t->failed);
}

/*
 * FLOP/s of products alone (t NULL) for a part of a round, or as long as this rank's laps last;
 * in that case it computes on until all ranks are done.
 */
static double compute_rate(struct probe_work *w, struct traffic *t)
{
    int times = 0, laps = t ? t->contest->round.laps : 0;
    double start = tick_now_s(), took = 0;

    for (; took <= 0 || (t ? still_runs(t, laps) : took < round_s); took = tick_now_s() - start)
        times += probe_work_some(w, 0);
    while (t && still_runs(t, laps + ENDS))
        probe_work_some(w, 0);
    return times * w->product[0].flops / took;
}

/* Runs the laps once, alone or with products: what this rank received and computed per
   second. */
static int left_run_laps(struct contest *c, int busy, double *Bps, double *flops,
                         struct err *err)
{
    struct traffic t = {.contest = c};
    int64_t ticket =
        stream_push(c->stream, (struct stream_op){traffic_start, traffic_poll, &t});
    double computed = busy ? compute_rate(c->work, &t) : 0;

    if (stream_wait(c->stream, ticket, err))
        return -1;
    *Bps = (double)c->round.laps * (double)c->round.in_bytes / fmax(t.last_s - t.start_s, 1e-9);
    /* Without bytes to receive there are no laps to compute during. */
    if (busy && c->round.in_bytes)
        *flops = computed;
    return 0;
}

/* Sums over all ranks in one round. */
struct round {
    double flops, Bps, beside_flops, beside_Bps;
};

/* A share, at most 1: more is chance; 0 if the total is unknown. */
static double part_of_one(double some, double all)
{
    double p = all > 0 ? some / all : 0;

    return p <= 0 ? 0 : p > 1 ? 1 : p < TOPO_LEFT_MIN ? TOPO_LEFT_MIN : p;
}

static int left_alternate(struct contest *c, struct topo_level *level, struct err *err)
{
    double rate[ROUNDS], compute[ROUNDS], start = tick_now_s();
    int rounds = 0, late = 0;

    while (rounds < ROUNDS && !late) { /* connections are open and the rates known */
        struct world *w = c->probe->world;
        struct round round = {0}, mine = {0}, *all = mem_new((size_t)w->ranks, sizeof *all);
        int rc = probe_rest(w, err);
        if (rc == 0 && c->round.in_bytes)
            mine.flops = compute_rate(c->work, NULL);
        rc = rc ? rc : probe_rest(w, err);
        rc = rc ? rc : left_run_laps(c, 0, &mine.Bps, NULL, err);
        rc = rc ? rc : probe_rest(w, err);
        rc = rc ? rc : left_run_laps(c, 1, &mine.beside_Bps, &mine.beside_flops, err);
        rc = rc ? rc : world_allgather(w, &mine, sizeof mine, all, err);
        for (int r = 0; rc == 0 && r < w->ranks; r++) {
            round.flops += all[r].flops;
            round.Bps += all[r].Bps;
            round.beside_flops += all[r].beside_flops;
            round.beside_Bps += all[r].beside_Bps;
        }
        mem_free(all);
        if (rc)
            return -1;
        rate[rounds] = part_of_one(round.beside_Bps, fmin(round.Bps, c->most_Bps));
        compute[rounds++] = part_of_one(round.beside_flops, round.flops);
        if (probe_late(w, start, rounds, level_s, &late, err))
            return -1;
    }
    level->rate_left = stats_median(rate, rounds);
    level->compute_left = stats_median(compute, rounds);
    return 0;
}

/*
 * Bytes of one lap for a rate, so that LAPS_LEAST laps take about a round.  With NCCL as many
 * as there is space for: 4 MiB pass in 10 us, and launching them takes as long.
 */
static int64_t lap_bytes(const struct probe *p, const struct groups *g, double Bps)
{
    double want = Bps * round_s / LAPS_LEAST;
    int64_t most = lap_bytes_most, over = probe_shift_space(g, 0);

    if (p->nccl && p->space - over > most)
        most = p->space - over;
    return want < (double)lap_bytes_least ? lap_bytes_least
           : want > (double)most          ? most
                                          : (int64_t)want;
}

int64_t probe_left_space(const struct groups *g)
{
    int64_t laps = probe_shift_space(g, lap_bytes_most), ends = (int64_t)g->ranks * 64;

    return laps > ends ? laps : ends;
}

/* Prepares all rows of one level, of laps of `bytes`. */
static int prepare_rows(struct contest *c, const struct probe_views *views, int l,
                        int64_t bytes, struct err *err)
{
    int ranks = c->probe->world->ranks,
        rc = probe_lap(c->probe, views, l, bytes, &c->round, err);
    struct probe_flow *flow = mem_new((size_t)ranks, sizeof *flow);

    c->words = *c->probe;
    if (c->words.nccl) {
        c->words.gpu = NULL;
        c->words.nccl = NULL;
    }
    for (int end = 0; rc == 0 && end < ENDS; end++) {
        for (int r = 1; r < ranks; r++)
            flow[r - 1] = (struct probe_flow){end ? 0 : r, end ? r : 0, END_BYTES};
        rc = probe_prepare(&c->words, flow, ranks - 1, &c->end[end], err);
    }
    mem_free(flow);
    return rc;
}

int probe_left(struct probe *p, const struct probe_views *views, struct probe_work *work,
               struct topo *t, struct err *err)
{
    int rc = 0;

    for (int l = 0; rc == 0 && l < views->levels; l++) {
        if (!probe_passes(views, l))
            continue;
        struct topo_level *level = &t->level[l];
        double Bps = l == 0   ? level->member_Bps
                     : l == 1 ? topo_slowest_port_Bps(t)
                              : level->port_Bps;
        const struct groups *g = views->view[l ? l : 1].groups;
        int64_t bytes = lap_bytes(p, g, Bps);
        double laps = Bps * round_s / (double)bytes;
        struct contest c = {
            .probe = p, .work = work, .most_Bps = Bps * (l == 0 ? g->ranks : g->count)};
        rc = prepare_rows(&c, views, l, bytes, err);
        c.round.laps = laps < LAPS_LEAST  ? LAPS_LEAST
                       : laps > LAPS_MOST ? LAPS_MOST
                                          : (int)laps;
        rc = rc ? rc : world_agree(p->world, runner_open(&c.runner, err), err);
        if (rc == 0) {
            c.stream = stream_open(c.runner, 1);
            rc = left_alternate(&c, level, err);
        }
        rc = rc ? rc : probe_work_check(work, p->world, err);
        runner_close(c.runner);
        probe_free(&c.round);
        for (int end = 0; end < ENDS; end++)
            probe_free(&c.end[end]);
    }
    return rc;
}
