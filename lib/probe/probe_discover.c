/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the distance of two ranks: the shortest of several round trips of a message.  Leaves
 * clustering to probe_cluster.c.  Ignores host names, but finds which ranks share a machine's
 * processors and gives them separate rounds, because ranks that wait for a processor look far.
 */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/tick.h"
#include "probe/probe.h"

enum {
    /*
     * A medium size, so that a link's rate contributes more to the time than a wake-up.  Twice
     * the burst of a shaper (128 kB with paro-lab): a full bucket makes a slow port look at
     * most twice as fast.
     */
    TRIP_BYTES = 256 << 10,
    CLOCK_LOOKS = 15
};

/*
 * A pair's round: some hundred trips through memory, one or two through a port of 500 Mbit/s;
 * longer than a time slice (4 ms), so that a rank that begins without its processor has it for
 * some of them.
 */
static const double round_s = 5e-3;

struct seat {
    char machine[PROBE_BOOT_BYTES];
    int processors;
    int first; /* lowest processor that the rank may use; -1: unknown */
};

struct discovery {
    struct probe probe;
    int *machine;    /* [ranks] the lowest rank on the same machine */
    int *processors; /* [ranks] number of processors of that machine */
    int *seat;       /* [ranks] the lowest rank that may use the same processors */
    int *place;      /* [ranks] the processor assigned to the rank in its round */
    cpu_set_t usual; /* processors that this rank may use; empty: unknown */
    struct probe_flow *flow;
    double *least_s;
    int *round, *used, *placed; /* [ranks] */
};

/* Returns the nth processor of a nonempty set, counted cyclically. */
static int nth_processor(const cpu_set_t *set, int nth)
{
    int p = 0;

    for (nth %= CPU_COUNT(set); !CPU_ISSET(p, set) || nth-- > 0; p++)
        continue;
    return p;
}

/*
 * Identifies machines by the kernel's boot id; if it is unknown each rank counts as a machine.
 * Ranks of one machine that mpirun bound to different sockets differ in their first processors.
 */
static int find_machines(struct world *world, struct discovery *d, struct err *err)
{
    struct seat mine, *all = mem_new((size_t)world->ranks, sizeof *all);
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    memset(&mine, 0, sizeof mine);
    probe_boot_id(mine.machine);
    mine.processors = online > 0 ? (int)online : 1;
    if (sched_getaffinity(0, sizeof d->usual, &d->usual))
        CPU_ZERO(&d->usual); /* the kernel has more processors than the set can hold */
    mine.first = CPU_COUNT(&d->usual) ? nth_processor(&d->usual, 0) : -1;
    int rc = world_allgather(world, &mine, sizeof mine, all, err);
    for (int r = 0; rc == 0 && r < world->ranks; r++) {
        int first = 0, same = 0;
        while (first < r && (!all[r].machine[0] || strcmp(all[first].machine, all[r].machine)))
            first++;
        while (same < r && (d->machine[same] != first || all[same].first != all[r].first))
            same++;
        d->machine[r] = first;
        d->seat[r] = same;
        d->processors[r] = all[first].processors;
    }
    mem_free(all);
    return rc;
}

static int measure_pairs(void *arg, const struct probe_pair *pair, int pairs, double *distance,
                         struct err *err)
{
    struct discovery *d = arg;
    double mine = 0;
    cpu_set_t one;

    for (int i = 0; i < pairs; i++)
        d->flow[i] = (struct probe_flow){pair[i].a, pair[i].b, TRIP_BYTES};
    /*
     * Choose the first round in which both ranks of a pair find a processor, or have the
     * machine to themselves.  (Two ranks of one machine need two.)
     */
    int left = pairs, ranks = d->probe.world->ranks;
    for (int i = 0; i < pairs; i++)
        d->round[i] = -1;
    for (int now = 0; left > 0; now++) {
        memset(d->used, 0, (size_t)ranks * sizeof *d->used);
        memset(d->placed, 0, (size_t)ranks * sizeof *d->placed);
        for (int i = 0; i < pairs; i++) {
            int a = d->machine[pair[i].a], b = d->machine[pair[i].b], need = 1 + (a == b);
            if (d->round[i] >= 0 || (d->used[a] && d->used[a] + need > d->processors[a]) ||
                (d->used[b] && d->used[b] + need > d->processors[b]))
                continue;
            d->used[a]++;
            d->used[b]++;
            d->place[pair[i].a] = d->placed[d->seat[pair[i].a]]++;
            d->place[pair[i].b] = d->placed[d->seat[pair[i].b]]++;
            d->round[i] = now;
            left--;
        }
    }
    /*
     * Two ranks of one machine on one processor alternate and look far, and on a busy machine
     * the scheduler leaves them there.  So each is bound to a processor of its own in its
     * round, of those that it may use.
     */
    int moves = CPU_COUNT(&d->usual);
    CPU_ZERO(&one);
    if (moves) {
        CPU_SET(nth_processor(&d->usual, d->place[d->probe.world->rank]), &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    int rc = probe_trips(&d->probe, d->flow, d->round, pairs, round_s, &mine, err);
    if (moves)
        sched_setaffinity(0, sizeof d->usual, &d->usual);
    if (rc || world_allgather(d->probe.world, &mine, sizeof mine, d->least_s, err))
        return -1;
    for (int i = 0; i < pairs; i++)
        distance[i] = d->least_s[pair[i].a];
    return 0;
}

/*
 * Ranks leave a barrier at the same moment, except for their wake-up times: the median over
 * several is within some 0.1 ms, while a round of rates takes 100.  Within a machine there is
 * one clock.
 */
static int compare_clocks(struct world *world, const struct discovery *d, double *ahead_s,
                          struct err *err)
{
    double mine[CLOCK_LOOKS], first[CLOCK_LOOKS];

    for (int i = 0; i < CLOCK_LOOKS; i++) {
        if (world_barrier(world, err))
            return -1;
        mine[i] = first[i] = tick_now_s();
    }
    if (world_bcast(world, first, sizeof first, 0, err))
        return -1;
    for (int i = 0; i < CLOCK_LOOKS; i++)
        mine[i] -= first[i];
    *ahead_s = d->machine[world->rank] == d->machine[0] ? 0 : stats_median(mine, CLOCK_LOOKS);
    return 0;
}

int probe_discover(struct world *world, struct probe_views *out, struct err *err)
{
    size_t n = (size_t)world->ranks;
    int *space = mem_new(7 * n, sizeof *space);
    struct discovery d = {.machine = space,
                          .processors = space + n,
                          .seat = space + 2 * n,
                          .place = space + 3 * n,
                          .round = space + 4 * n,
                          .used = space + 5 * n,
                          .placed = space + 6 * n,
                          .flow = mem_new(n, sizeof *d.flow),
                          .least_s = mem_new(n, sizeof *d.least_s)};
    struct probe_clusters c;
    double ahead_s = 0;
    int rc = find_machines(world, &d, err);

    rc = rc ? rc : compare_clocks(world, &d, &ahead_s, err);
    rc = rc ? rc : probe_open(&d.probe, world, TRIP_BYTES, err);
    if (rc == 0) {
        rc = probe_cluster(world->ranks, measure_pairs, &d, &c, err);
        probe_close(&d.probe);
    }
    if (rc == 0) {
        probe_views_init(out, world, &c, ahead_s);
        probe_clusters_release(&c);
    }
    MEM_FREE(space, d.flow, d.least_s);
    return rc;
}
