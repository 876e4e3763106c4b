/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the rates of the groups' ports, as far as a cut bound needs them: in a ring over the
 * groups every member sends to the next group, all at once (probe_shift), so that each port
 * carries one full flow out and one in.
 *
 * A flow is as slow as the slower of two ports: a port gets the rate of the faster of its two
 * flows, so that a slow neighbour is not blamed on it.  A port that is slow in one direction
 * only is taken for fast; the bound remains a bound.  The median of several runs counts.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "bench/bench_parts.h"

/*
 * LAP: bytes through a port at a time, for which a rank allocates space.  Several laps even if
 * one is long: a receiver without a processor for a quarter of a second then affects the result
 * little.
 */
enum { LAP = 4 << 20, LAPS_MIN = 4, LAPS_MAX = 64, RUNS = 5 };

/*
 * Long enough that scheduling delays between two polls (measured: up to 6 ms with four ranks on
 * a core) and a shaper's burst (256 KiB in flight, 2 ms at 1 Gbit/s) are about 2 % of it.
 */
static const double run_s = 0.4;

struct arrival { /* data received by one rank in a lap */
    double bytes, seconds;
};

/*
 * A receiver that polls late sees the first bytes late and the rest with them: its curve is
 * then too fast.  A flow is no faster than all of its bytes in its whole time.
 */
double bench_port_lap_s(const struct probe_result *got, double bytes, int laps)
{
    double wall_s = got->took_s / laps;

    return got->rank_Bps > 0 ? fmax(bytes / got->rank_Bps, wall_s) : wall_s;
}

/* Runs one round.  flow_s[k]: seconds per byte of the flow into group k, by its slowest
   member. */
static int port_run(struct probe *p, struct probe_round *r, double *flow_s, double *longest_s,
                    struct err *err)
{
    const struct groups *g = p->view.groups;
    struct arrival *all = mem_new((size_t)g->ranks, sizeof *all), mine = {0};
    struct probe_result got = {0};
    int rc = world_agree(p->world, probe_run(p, r, &got, err), err);

    mine.bytes = (double)r->in_bytes;
    mine.seconds = bench_port_lap_s(&got, mine.bytes, r->laps);
    rc = rc ? rc : world_allgather(p->world, &mine, sizeof mine, all, err);
    *longest_s = 0;
    for (int k = 0; rc == 0 && k < g->count; k++) {
        struct arrival sum = {0};
        for (int j = 0; j < g->members[k]; j++) {
            const struct arrival *at = &all[groups_rank(g, k, j)];
            sum.bytes += at->bytes;
            sum.seconds = fmax(sum.seconds, at->seconds);
        }
        flow_s[k] = sum.seconds / sum.bytes;
        *longest_s = fmax(*longest_s, sum.seconds * r->laps);
    }
    mem_free(all);
    return rc;
}

int bench_port_measure(struct world *world, struct topo *t, struct err *err)
{
    const struct groups *g = &t->groups;
    struct topo_port *port = t->port;
    struct probe_flow *flow;
    struct probe_round r = {0};
    struct probe p;
    double longest_s = 0, *seconds; /* [RUNS][groups] */

    memset(port, 0, (size_t)g->count * sizeof *port);
    if (g->count < 2)
        return 0;
    if (probe_open(&p, world, probe_shift_space(g, LAP), err))
        return -1;
    struct probe_load load = probe_load_begin();
    p.view = (struct probe_view){.groups = g, .hosts = groups_equal(g, &world->groups)};
    flow = mem_new((size_t)g->ranks * PROBE_FLOWS, sizeof *flow);
    seconds = mem_new((size_t)g->count * RUNS, sizeof *seconds);
    int rc = probe_prepare(&p, flow, probe_shift(&p.view, 1, -1, LAP, flow), &r, err);
    rc = rc ? rc : port_run(&p, &r, seconds, &longest_s, err); /* opens the connections */
    while (rc == 0 && (r.laps < LAPS_MIN || (longest_s < run_s && r.laps < LAPS_MAX))) {
        r.laps = r.laps < LAPS_MIN ? LAPS_MIN : 2 * r.laps;
        rc = port_run(&p, &r, seconds, &longest_s, err);
    }
    for (int i = 0; rc == 0 && i < RUNS; i++)
        rc = port_run(&p, &r, seconds + i * g->count, &longest_s, err);
    rc = rc ? rc : probe_load_end(&load, world, t->doubt, err);
    for (int k = 0; rc == 0 && k < g->count; k++) {
        double in[RUNS], out[RUNS];
        for (int i = 0; i < RUNS; i++) {
            in[i] = seconds[i * g->count + k];
            out[i] = seconds[i * g->count + (k + 1) % g->count];
        }
        port[k].out_Bps = port[k].in_Bps =
            1 / fmin(stats_median(in, RUNS), stats_median(out, RUNS));
    }
    probe_free(&r);
    probe_close(&p);
    mem_free(flow);
    mem_free(seconds);
    return rc;
}
