/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a rank's computing loses to an exchange that goes on beside it, however few its
 * bytes: the thread that waits for the others wakes again and again to look, and where ranks
 * share processors it does so at the cost of those that compute, for as long as the others are
 * not on a processor themselves.  Measured as a training gathers parameters:
 *
 *     main      piece 0   wait 0   piece 1   wait 1   piece 2 ...     beside pieces alone
 *     runner    exchange 0         1         2                         the next is always begun
 *
 *     use_lost_s = (last rank's end - last rank's end without exchanges) / pieces
 *
 * An exchange is as many laps, one after the other, as a ring of the level has steps.  A piece
 * is some milliseconds, as a use of a layer that is worth sharding is.
 */
#include <math.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/tick.h"
#include "probe/probe_work.h"

enum { TURNS = 5, PIECES_LEAST = 4, PIECES_MOST = 1000, AHEAD = 2 };

static const double piece_s = 5e-3;
static const double turn_s = 0.25; /* one part of a turn, where nothing slows it */
static const double level_s = 4.5; /* all turns of a level */
static const double rest_s = 0.02; /* as in probe_left.c */
/* More than transports send unasked, and next to nothing for a link. */
static const int64_t lap_bytes = 16 << 10;

struct uses { /* of one level */
    struct probe *probe;
    const struct probe_work *work;
    struct probe_round round; /* a lap */
    int laps;                 /* of an exchange; 0: this rank has nobody to wait for */
    int pieces, products;     /* products of a piece */
    struct stream *stream;
    int lap; /* of the exchange at hand; the runner's */
};

static int start_lap(struct uses *u, struct err *err)
{
    exec_mpi_set(u->round.exec, u->probe->in, u->probe->out, NULL);
    return exec_mpi_start(u->round.exec, err);
}

static int exchange_start(void *arg, struct err *err)
{
    struct uses *u = arg;

    u->lap = 0;
    return start_lap(u, err);
}

static enum stream_state exchange_poll(void *arg, struct err *err)
{
    struct uses *u = arg;
    enum stream_state now = exec_mpi_poll(u->round.exec, err);

    if (now != STREAM_DONE || ++u->lap == u->laps)
        return now;
    return start_lap(u, err) ? STREAM_FAILED : STREAM_MOVED;
}

static int64_t push(struct uses *u)
{
    return stream_push(u->stream, (struct stream_op){exchange_start, exchange_poll, u});
}

static double compute_piece(const struct uses *u)
{
    double start = tick_now_s();

    for (int i = 0; i < u->products; i++)
        probe_work_run(u->work, 0);
    return tick_now_s() - start;
}

/* All pieces, each after an exchange or with none; all ranks at once. */
static int compute(struct uses *u, int exchanges, double *took_s, struct err *err)
{
    double start = tick_now_s();
    int64_t ticket = exchanges ? push(u) : 0;

    for (int i = 0; i < u->pieces; i++) {
        int64_t next = exchanges ? push(u) : 0;
        if (exchanges && stream_wait(u->stream, ticket, err))
            return -1;
        ticket = next;
        compute_piece(u);
    }
    if (exchanges && stream_wait(u->stream, ticket, err))
        return -1;
    *took_s = tick_now_s() - start;
    return 0;
}

/* What the last rank took. */
static int last_s(struct uses *u, int exchanges, double *out, struct err *err)
{
    struct world *w = u->probe->world;
    double mine = 0, *all = mem_new((size_t)w->ranks, sizeof *all);
    int rc = world_barrier(w, err);

    tick_sleep_s(rest_s);
    rc = rc ? rc : compute(u, exchanges && u->laps, &mine, err);
    rc = rc ? rc : world_allgather(w, &mine, sizeof mine, all, err);
    *out = 0;
    for (int r = 0; rc == 0 && r < w->ranks; r++)
        *out = fmax(*out, all[r]);
    mem_free(all);
    return rc;
}

/* The same work on all ranks: about piece_s on the median of them, while all compute. */
static int size_pieces(struct uses *u, struct err *err)
{
    struct world *w = u->probe->world;
    double start, took, mine, *all = mem_new((size_t)w->ranks, sizeof *all);
    int times = 0, rc = world_barrier(w, err);

    u->products = 1;
    for (start = tick_now_s(), took = 0; took < turn_s; times++, took = tick_now_s() - start)
        compute_piece(u);
    mine = took / times;
    rc = rc ? rc : world_allgather(w, &mine, sizeof mine, all, err);
    if (rc == 0) {
        double product_s = fmax(stats_median(all, w->ranks), 1e-9);
        u->products = (int)fmax(1, rint(fmin(piece_s / product_s, 1e6)));
        double pieces = turn_s / (u->products * product_s);
        u->pieces = (int)fmin(fmax(pieces, PIECES_LEAST), PIECES_MOST);
    }
    mem_free(all);
    return rc;
}

static int take_turns(struct uses *u, double *lost_s, struct err *err)
{
    double lost[TURNS], start = tick_now_s();
    int turns = 0, late = 0;

    while (turns < TURNS && !late) {
        double alone, beside;
        if (last_s(u, 0, &alone, err) || last_s(u, 1, &beside, err))
            return -1;
        lost[turns++] = (beside - alone) / u->pieces;
        if (probe_late(u->probe->world, start, turns, level_s, &late, err))
            return -1;
    }
    *lost_s = fmax(stats_median(lost, turns), 0); /* less than nothing is chance */
    return 0;
}

/* Steps of a ring of this level in which this rank is. */
static int laps_of(const struct probe *p, int l)
{
    const struct groups *g = p->view.groups;
    int at, k = g->group_of[p->world->rank];

    return (l ? probe_circle(&p->view, k, &at) : g->members[k]) - 1;
}

static int measure_level(struct probe *p, const struct probe_work *work, int l, double *lost_s,
                         struct err *err)
{
    const struct groups *g = p->view.groups;
    struct uses u = {.probe = p, .work = work, .laps = laps_of(p, l)};
    struct probe_flow *flow = mem_new((size_t)g->ranks * 2, sizeof *flow);
    int flows =
        l ? probe_shift(&p->view, 1, lap_bytes, flow) : probe_inside(g, lap_bytes, flow);
    struct runner *runner = NULL;
    int rc = probe_prepare(p, flow, flows, &u.round, err);

    rc = rc ? rc : world_agree(p->world, runner_open(&runner, err), err);
    if (rc == 0) {
        u.stream = stream_open(runner, AHEAD);
        rc = size_pieces(&u, err);
    }
    rc = rc ? rc : take_turns(&u, lost_s, err);
    runner_close(runner);
    probe_free(&u.round);
    mem_free(flow);
    return rc;
}

int probe_uses(struct probe *p, const struct probe_views *views, struct topo *t,
               struct err *err)
{
    struct probe_work work;
    int rc = world_agree(p->world, probe_work_open(&work, &(struct probe_ask){0}, err), err);

    p->view = views->view[1];
    if (rc == 0 && groups_largest(&t->groups) > 1)
        rc = measure_level(p, &work, 0, &t->level[0].use_lost_s, err);
    for (int l = 1; rc == 0 && t->groups.count > 1 && l < t->levels; l++) {
        p->view = views->view[l];
        rc = measure_level(p, &work, l, &t->level[l].use_lost_s, err);
    }
    probe_work_close(&work);
    return rc;
}
