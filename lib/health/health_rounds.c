/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how samples are taken: shifts of the hosts in turn, both directions of every port in
 * every round, within a time; and what is left to say when a host no longer answers.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/tick.h"
#include "health/health_kernel.h"
#include "health/health_parts.h"
#include "probe/probe.h"

enum {
    SHIFTS_MOST = 15 /* partners of a port: with more hosts than that, the shifts are spread */
};

/* A stream's time: long beside the naps of a rank that waits (100 us) and a time slice (4 ms).
 */
static const double round_s = 0.06;

struct tour {
    struct world *w;
    struct probe probe;
    struct probe_round round[SHIFTS_MOST];
    struct probe_flow *flow;
    int shifts, shift[SHIFTS_MOST];
    struct health_kernel kernel;
};

struct tally { /* what each rank tells of a round */
    double host_Bps;
    int64_t wrong;
    int over; /* rank 0's word counts: the time is over */
};

static int prepare(struct tour *t, struct err *err)
{
    const struct groups *g = &t->w->groups;
    int64_t bytes = 0;
    const struct probe_view hosts = probe_view_hosts(t->w);

    if (probe_size(t->w, &hosts, round_s, &bytes, err))
        return -1;
    if (probe_open(&t->probe, t->w, probe_shift_room(g, bytes), err))
        return -1;
    if (t->w->node_rank == 0) {
        t->probe.look = health_kernel_look;
        t->probe.look_arg = &t->kernel;
    }
    int most = g->count - 1 < SHIFTS_MOST ? g->count - 1 : SHIFTS_MOST;
    for (int i = 0; i < most; i++) {
        t->shift[i] = 1 + (int)((int64_t)i * (g->count - 1) / most);
        int flows = probe_shift(&hosts, t->shift[i], bytes, t->flow);
        if (probe_prepare(&t->probe, t->flow, flows, &t->round[i], err))
            return -1;
        t->shifts++;
    }
    return 0;
}

/* Enters what everybody told of a round of shift s. */
static void enter(const struct tour *t, struct health_data *d, int s, const struct tally *all,
                  int counts)
{
    const struct groups *g = &t->w->groups;

    for (int r = 0; r < g->ranks; r++) {
        int to = g->group_of[r], from = (to - s + g->count) % g->count;
        if (all[r].wrong && d->wrong == 0) {
            d->wrong_src = from;
            d->wrong_dst = to;
        }
        d->wrong += all[r].wrong;
        if (counts && g->local_of[r] == 0 && all[r].host_Bps > 0)
            health_data_add(d, from, to, all[r].host_Bps);
    }
}

static int run_round(struct tour *t, struct health_data *d, int at, int counts, double until_s,
                     int *over, struct err *err)
{
    struct tally *all = mem_new((size_t)t->w->ranks, sizeof *all);
    struct tally mine = {0};
    struct probe_result got = {0};
    int rc = probe_run(&t->probe, &t->round[at], &got, err);

    mine.host_Bps = got.group_Bps;
    mine.wrong = got.wrong;
    mine.over = tick_now_s() > until_s;
    rc = rc ? rc : world_allgather(t->w, &mine, sizeof mine, all, err);
    if (rc == 0) {
        enter(t, d, t->shift[at], all, counts);
        *over = all[0].over;
    }
    mem_free(all);
    return rc;
}

/* The first round of a shift opens its connections: its data is checked, its rate is not taken.
 */
static int run_all(struct tour *t, struct health_data *d, double until_s, struct err *err)
{
    int over = 0;

    for (int i = 0; i < d->wanted && !over; i++) {
        int at = i % t->shifts;
        if (i < t->shifts && run_round(t, d, at, 0, until_s, &over, err))
            return -1;
        if (i == 0) /* what was seen while connections opened tells nothing */
            health_kernel_forget(&t->kernel);
        if (over)
            break;
        if (run_round(t, d, at, 1, until_s, &over, err))
            return -1;
        d->rounds++;
    }
    return 0;
}

struct report {
    double drain_Bps;
    char lost[16];
};

static struct report report_of(struct tour *t)
{
    struct report r = {.drain_Bps = health_kernel_drain(&t->kernel)};

    health_kernel_lost(&t->kernel, r.lost);
    return r;
}

static void enter_report(const struct tour *t, struct health_data *d, int rank,
                         const struct report *r)
{
    int k = t->w->groups.group_of[rank];

    if (t->w->groups.local_of[rank] == 0)
        d->drain_Bps[k] = r->drain_Bps;
    if (r->lost[0])
        memcpy(d->lost[k], r->lost, sizeof r->lost);
}

/* All answer: one exchange.  Not all do: what comes to rank 0 in time. */
static void finish(struct tour *t, struct health_data *d, double until_s)
{
    const struct groups *g = &t->w->groups;
    struct report mine = report_of(t), *all = mem_new((size_t)g->ranks, sizeof *all);
    int *got = mem_new((size_t)g->ranks, sizeof *got);
    double left_s = fmax(0.5, until_s - tick_now_s());
    struct err err;

    if (!d->stalled && world_allgather(t->w, &mine, sizeof mine, all, &err) == 0)
        for (int r = 0; r < g->ranks; r++)
            got[r] = 1;
    else
        d->stalled = 1;
    if (d->stalled)
        world_collect(t->w, &mine, sizeof mine, fmin(t->w->deadline_s, left_s), all, got);
    for (int k = 0; k < g->count; k++)
        d->silent[k] = d->stalled && t->w->rank == 0;
    for (int r = 0; r < g->ranks; r++)
        if (got[r]) {
            d->silent[g->group_of[r]] = 0;
            enter_report(t, d, r, &all[r]);
        }
    mem_free(got);
    if (!d->stalled) /* else messages may still be on their way into it */
        mem_free(all);
}

int health_rounds(struct world *w, int want, double until_s, const char *volatile *where,
                  struct health_data *d, struct err *err)
{
    struct tour t = {.w = w};
    double start = tick_now_s(), before_s = w->deadline_s;

    d->wanted = want;
    d->rounds = 0;
    t.flow = mem_new((size_t)w->ranks * 2, sizeof *t.flow);
    health_kernel_open(&t.kernel);
    /*
     * Nobody is waited for longer than a third of the time: a host that stops answering is
     * found, the reports of the others come in (they find it no later than a third after), and
     * a third is left for the answer.
     */
    w->deadline_s = fmax(0.2, (until_s - start) / 3);
    *where = "connecting";
    int rc = prepare(&t, err);
    *where = "measuring";
    if (rc == 0)
        rc = run_all(&t, d, until_s - w->deadline_s, err);
    int peer = rc && err->code == ERR_PEER;
    if (peer)
        d->stalled = 1;
    if (rc == 0 || peer) {
        rc = 0;
        *where = "waiting for reports";
        finish(&t, d, until_s);
    }
    if (!d->stalled) {
        for (int i = 0; i < t.shifts; i++)
            probe_free(&t.round[i]);
        probe_close(&t.probe);
    }
    health_kernel_close(&t.kernel);
    mem_free(t.flow);
    w->deadline_s = before_s;
    d->seconds += tick_now_s() - start;
    return rc;
}
