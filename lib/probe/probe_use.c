/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures how much a rank's computing loses to a simultaneous exchange, however few its bytes:
 * the thread that waits for the others wakes again and again to poll, and where ranks share
 * processors it does so at the cost of those that compute, for as long as the other ranks are
 * not scheduled themselves.  Measured as a training gathers parameters:
 *
 *     main      piece 0   wait 0   piece 1   wait 1   piece 2 ...   compared with pieces alone
 *     runner    exchange 0         1         2                      the next one always runs
 *
 *     use_lost_s = (last rank's end - last rank's end without exchanges) / pieces
 *     latency_busy_s = duration of a lap
 *
 * An exchange has as many consecutive laps as a ring of the level has steps.  A piece takes
 * some milliseconds, as does the use of a layer that is worth sharding.  A round runs the
 * pieces alone, and then with the exchanges of each level.
 */
#include <math.h>

#include "base/stats.h"
#include "base/tick.h"
#include "probe/probe_parts.h"
#include "probe/probe_work.h"

enum { ROUNDS = 3, PIECES_LEAST = 4, PIECES_MOST = 1000, AHEAD = 2 };

static const double piece_s = 5e-3;
static const double part_s = 0.12; /* one part of a round, if nothing slows it */
static const double uses_s = 1.8;  /* all rounds: ROUNDS if there are few ranks, one with 64 */
/* More than transports send eagerly, and next to nothing for a link. */
static const int64_t lap_bytes = 16 << 10;

struct exchange { /* one level's */
    struct probe *probe;
    struct probe_round round; /* a lap */
    int laps; /* laps of an exchange; 0: this rank waits for nobody at this level */
    int lap;  /* current lap; the runner's */
    double start_s, took_s; /* start of the current exchange, sum over a round; the runner's */
    double lost_s[ROUNDS], lap_s[ROUNDS];
};

struct uses {
    struct probe *probe;
    const struct probe_views *views;
    struct probe_work *work;
    struct exchange at[TOPO_LEVELS_MAX];
    int pieces, products; /* products: of one piece */
    struct stream *stream;
};

static int exchange_start(void *arg, struct err *err)
{
    struct exchange *x = arg;

    x->lap = 0;
    x->start_s = tick_now_s();
    return probe_start(x->probe, &x->round, 0, err);
}

static enum stream_state exchange_poll(void *arg, struct err *err)
{
    struct exchange *x = arg;
    enum stream_state now = probe_poll(&x->round, err);

    if (now == STREAM_DONE && ++x->lap == x->laps)
        x->took_s += tick_now_s() - x->start_s;
    if (now != STREAM_DONE || x->lap == x->laps)
        return now;
    return probe_start(x->probe, &x->round, 0, err) ? STREAM_FAILED : STREAM_MOVED;
}

static int64_t push_exchange(struct uses *u, struct exchange *x)
{
    return stream_push(u->stream, (struct stream_op){exchange_start, exchange_poll, x});
}

/* Computes all pieces, each after an exchange (x NULL: without), on all ranks at once. */
static int compute_pieces(struct uses *u, struct exchange *x, double *took_s, struct err *err)
{
    double start = tick_now_s();
    int64_t ticket = x ? push_exchange(u, x) : 0;

    for (int i = 0; i < u->pieces; i++) {
        int64_t next = x && i + 1 < u->pieces ? push_exchange(u, x) : 0;
        if (x && stream_wait(u->stream, ticket, err))
            return -1;
        ticket = next;
        probe_work_run(u->work, 0, u->products);
    }
    *took_s = tick_now_s() - start;
    return 0;
}

/* Measures the time of the last rank. */
static int last_s(struct uses *u, struct exchange *x, double *out, struct err *err)
{
    struct probe_summary all;
    double mine = 0;

    if (probe_rest(u->probe->world, err) ||
        compute_pieces(u, x && x->laps ? x : NULL, &mine, err) ||
        probe_summarize(u->probe->world, mine, 0, &all, err))
        return -1;
    *out = all.most;
    return 0;
}

/* Returns the duration of a lap while all computed: the median of the ranks that had laps. */
static int lap_s(struct uses *u, struct exchange *x, double *out, struct err *err)
{
    double mine = x->laps ? x->took_s / u->pieces / x->laps : 0;
    struct probe_summary all;

    x->took_s = 0;
    if (probe_summarize(u->probe->world, mine, 0, &all, err))
        return -1;
    *out = all.median;
    return 0;
}

/* Sizes a piece equally on all ranks: about piece_s on the median one, while all compute. */
static int size_pieces(struct uses *u, struct err *err)
{
    struct probe_summary all;
    double start, took;
    int times = 0;

    if (world_barrier(u->probe->world, err))
        return -1;
    u->products = 1;
    for (start = tick_now_s(), took = 0; took < part_s; times++, took = tick_now_s() - start)
        probe_work_run(u->work, 0, u->products);
    if (probe_summarize(u->probe->world, took / times, 0, &all, err))
        return -1;
    double product_s = fmax(all.median, 1e-9);
    u->products = (int)fmax(1, rint(fmin(piece_s / product_s, 1e6)));
    double pieces = part_s / (u->products * product_s);
    u->pieces = (int)fmin(fmax(pieces, PIECES_LEAST), PIECES_MOST);
    return 0;
}

static int use_alternate(struct uses *u, struct topo *t, struct err *err)
{
    double start = tick_now_s(), alone, loaded;
    int rounds = 0, late = 0;

    while (rounds < ROUNDS && !late) {
        if (last_s(u, NULL, &alone, err))
            return -1;
        for (int l = 0; l < u->views->levels; l++) {
            if (!probe_passes(u->views, l))
                continue;
            if (last_s(u, &u->at[l], &loaded, err))
                return -1;
            u->at[l].lost_s[rounds] = (loaded - alone) / u->pieces;
            if (lap_s(u, &u->at[l], &u->at[l].lap_s[rounds], err))
                return -1;
        }
        if (probe_late(u->probe->world, start, ++rounds, uses_s, &late, err))
            return -1;
    }
    for (int l = 0; l < u->views->levels; l++) {
        struct exchange *x = &u->at[l];
        if (!probe_passes(u->views, l))
            continue;
        /* below 0 is chance */
        t->level[l].use_lost_s = fmax(stats_median(x->lost_s, rounds), 0);
        t->level[l].latency_busy_s = stats_median(x->lap_s, rounds);
    }
    return 0;
}

int probe_uses(struct probe *p, const struct probe_views *views, struct probe_work *work,
               struct topo *t, struct err *err)
{
    struct uses u = {.probe = p, .views = views, .work = work};
    struct runner *runner = NULL;
    int rc = 0;

    for (int l = 0; rc == 0 && l < views->levels; l++) {
        if (!probe_passes(views, l))
            continue;
        u.at[l].probe = p;
        rc = probe_lap(p, views, l, lap_bytes, &u.at[l].round, err);
        /* Steps of the ring of this level that this rank is in. */
        int at, k = p->view.groups->group_of[p->world->rank];
        u.at[l].laps = (l ? probe_circle(&p->view, k, &at) : p->view.groups->members[k]) - 1;
    }
    rc = rc ? rc : world_agree(p->world, runner_open(&runner, err), err);
    if (rc == 0) {
        u.stream = stream_open(runner, AHEAD);
        rc = size_pieces(&u, err);
    }
    rc = rc ? rc : use_alternate(&u, t, err);
    rc = rc ? rc : probe_work_check(work, p->world, err);
    runner_close(runner);
    for (int l = 0; l < views->levels; l++)
        probe_free(&u.at[l].round);
    return rc;
}
