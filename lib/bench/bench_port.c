/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how fast the groups' ports are, as far as a cut bound needs it: in a ring over the
 * groups every member sends to the next group, all at once, so that each port carries one full
 * flow out and one in.
 *
 *   [3,2]:   group 0 --flow 0--> group 1 --flow 1--> group 0        members 0 1 2 send to 0 1 0
 *
 * A flow is as slow as the slower of two ports: a port is given the rate of the faster of its
 * two flows, so that a slow neighbour is not its fault.  A port that is slow one way only is
 * taken for fast; the bound stays a bound.
 *
 * Of several turns the median counts: a turn is too long where the machine is busy, and too
 * short where the receiver began it late (each rank's clock is its own).
 */
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/tick.h"
#include "bench/bench_parts.h"
#include "exec/exec_mpi_native.h"

enum {
    PIECE = 60 * 1024, /* a message: what coll sends */
    FIRST = 4 << 20,   /* bytes through a port in the first turn */
    MOST = 256 << 20,
    TURNS = 5, /* at the final size */
    FLOWS = 3  /* colours: neighbouring flows are different handles */
};

/*
 * Long enough that a late start (measured: up to 6 ms with four ranks on a core) and a shaper's
 * burst (256 KiB on the way, 2 ms at 1 Gbit/s) together stay near 2 % of a turn.
 */
static const double turn_s = 0.4;

struct port {
    struct coll *coll; /* borrowed */
    const struct groups *g;
    void *in, *out;
    int64_t bytes; /* through a port, about */
    struct coll_handle flow[FLOWS];
    struct stream *stream[FLOWS];
    double *seconds; /* [g][TURNS] of the flow out of each group, for one byte */
};

/* The flow out of group k: neighbours in the ring never share one. */
static int colour(const struct groups *g, int k)
{
    return g->count % 2 && k == g->count - 1 ? 2 : k % 2;
}

static int pieces(const struct port *p, int k)
{
    return (int)((p->bytes / p->g->members[k] + PIECE - 1) / PIECE);
}

/* The rows of one colour that name this rank; its pieces are numbered sender by sender. */
static void make_rows(const struct port *p, int flow, struct schedule *s)
{
    const struct groups *g = p->g;
    int me = p->coll->world->rank;
    size_t room = 0;

    for (int k = 0; k < g->count; k++) {
        int next = (k + 1) % g->count, senders = 0;
        if (colour(g, k) != flow || (g->group_of[me] != k && g->group_of[me] != next))
            continue;
        for (int j = 0; j < g->members[k]; j++) {
            int src = groups_rank(g, k, j), dst = groups_rank(g, next, j % g->members[next]);
            if (src != me && dst != me)
                continue;
            int n = pieces(p, k);
            s->row = mem_grow(s->row, &room, (size_t)s->rows + (size_t)n, sizeof *s->row);
            for (int i = 0; i < n; i++)
                s->row[s->rows++] = (struct schedule_row){.step = i,
                                                          .src = src,
                                                          .dst = dst,
                                                          .chunk = senders * n + i,
                                                          .into = senders * n + i};
            senders++;
            s->chunks = senders * n;
        }
    }
}

static int prepare(struct port *p, int flow, struct err *err)
{
    struct schedule s = {.lanes = 1};
    struct exec_places places = {0};
    struct exec_rows rows = {0};
    int held = BENCH_PORT_ROOM / PIECE;

    groups_copy(&s.groups, p->g);
    make_rows(p, flow, &s);
    exec_places_init(&places, s.chunks, DTYPE_U8);
    for (int c = 0; c < s.chunks; c++) {
        places.elems[c] = PIECE;
        places.in_at[c] = (int64_t)(c % held) * PIECE;
        places.out_at[c] = (int64_t)(c % held) * PIECE;
    }
    int rc = exec_rows_init(&rows, &s, p->coll->world->rank, &places, err);
    rows.selves = 0; /* what is sent is not kept */
    rc = world_agree(p->coll->world, rc, err);
    if (rc == 0)
        rc = exec_mpi_prepare(p->coll->exec, &rows, &p->flow[flow].exec, err);
    exec_rows_release(&rows);
    exec_places_release(&places);
    schedule_release(&s);
    return rc;
}

/* All flows once; *arrived_s: when the flow into this rank's group was in. */
static int turn(struct port *p, double *arrived_s, struct err *err)
{
    const struct groups *g = p->g;
    int k = g->group_of[p->coll->world->rank];
    int into = colour(g, (k + g->count - 1) % g->count), rc = 0;
    struct coll_call call[FLOWS];
    int64_t ticket[FLOWS];

    if (exec_native_barrier(p->coll->world, err))
        return -1;
    double start = tick_now_s();
    for (int f = 0; f < FLOWS; f++) {
        call[f] = (struct coll_call){.handle = &p->flow[f], .in = p->in, .out = p->out};
        ticket[f] = coll_push(p->stream[f], &call[f]);
    }
    rc = stream_wait(p->stream[into], ticket[into], err);
    *arrived_s = tick_now_s() - start;
    for (int f = 0; f < FLOWS && rc == 0; f++)
        rc = stream_wait(p->stream[f], ticket[f], err);
    return rc;
}

/* Several turns with about p->bytes through each port; *longest_s of the slowest flow. */
static int turns(struct port *p, int n, double *longest_s, struct err *err)
{
    const struct groups *g = p->g;
    double *all = mem_new((size_t)g->ranks, sizeof *all), mine = 0;
    int rc = 0;

    *longest_s = 0;
    for (int f = 0; f < FLOWS && rc == 0; f++)
        rc = prepare(p, f, err);
    for (int i = 0; i < n && rc == 0; i++) {
        rc = turn(p, &mine, err);
        if (rc == 0)
            rc = world_allgather(p->coll->world, &mine, sizeof mine, all, err);
        for (int k = 0; k < g->count && rc == 0; k++) {
            int next = (k + 1) % g->count;
            double s = 0, bytes = (double)pieces(p, k) * g->members[k] * PIECE;
            for (int j = 0; j < g->members[next]; j++)
                s = all[groups_rank(g, next, j)] > s ? all[groups_rank(g, next, j)] : s;
            *longest_s = s > *longest_s ? s : *longest_s;
            p->seconds[k * TURNS + i] = s / bytes;
        }
    }
    /* as bench_move_close: what a peer that is gone has in flight is left alone */
    for (int f = 0; f < FLOWS && (rc == 0 || err->code != ERR_PEER); f++)
        coll_free(&p->flow[f]);
    mem_free(all);
    return rc;
}

int bench_port_measure(struct coll *c, void *in, void *out, struct topo_port *port,
                       struct err *err)
{
    struct port p = {.coll = c, .g = &c->layout.groups, .in = in, .out = out, .bytes = FIRST};
    int count = p.g->count, rc = 0;
    double longest_s = 0;

    if (count < 2) {
        memset(port, 0, (size_t)count * sizeof *port);
        return 0;
    }
    p.seconds = mem_new((size_t)count * TURNS, sizeof *p.seconds);
    for (int f = 0; f < FLOWS; f++)
        p.stream[f] = stream_open(c->runner, 1);
    rc = turns(&p, 1, &longest_s, err);
    while (rc == 0 && longest_s < turn_s && p.bytes < MOST) {
        p.bytes *= 2;
        rc = turns(&p, 1, &longest_s, err);
    }
    if (rc == 0)
        rc = turns(&p, TURNS, &longest_s, err);
    for (int k = 0; k < count && rc == 0; k++) {
        double s_out = stats_median(p.seconds + k * TURNS, TURNS);
        double s_in = stats_median(p.seconds + (k + count - 1) % count * TURNS, TURNS);
        port[k].out_Bps = port[k].in_Bps = 1 / (s_out < s_in ? s_out : s_in);
    }
    mem_free(p.seconds);
    return rc;
}
