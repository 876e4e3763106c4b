/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes samples within a time limit, and detects a host that no longer answers. */
#include "health/health_campaign.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/tick.h"
#include "health/health_analysis.h"
#include "health/health_data.h"
#include "probe/probe.h"

enum {
    PING_BYTES = 8,
    GATHERS = 4,        /* per collective; the first one opens its connections */
    GATHER_LEAST = 4096 /* bytes from each rank */
};

/* Runs of `rounds` rounds: most run once more to open connections; two measure the size. */
#define RUNS(rounds) (2 * (int64_t)(rounds) + 2)
/* Adds the runs of a confirmation, and one of all hosts at once. */
#define ALL_RUNS(rounds) (RUNS(rounds) + 2 * HEALTH_AGAIN + 1)

/* Duration of a stream: long compared with the sleeps of a waiting rank (100 us) and a time
   slice (4 ms). */
static const double round_s = 0.06;
/* Duration of a pair's pings, of which the quickest counts: other work on the hosts only slows
   pings down. */
static const double pings_s = 0.01;

struct health_round {
    int *dst; /* [hosts], owned */
    struct probe_round round;
    int fresh; /* 1: has not run yet; its first run opens connections and is not recorded */
};

struct round_report { /* a rank's report of a round */
    double host_Bps, rank_Bps, took_s;
    int64_t wrong, gpu_wrong[2];
    int over; /* rank 0's value counts: time is up */
};

static const struct groups *campaign_hosts_of(const struct health_campaign *t)
{
    return &t->world->groups;
}

/* If bytes did not arrive the campaign ends, and its peers receive no more requests. */
static int went(struct health_campaign *t, int rc, const struct err *err)
{
    if (rc == 0 || err->code != ERR_PEER)
        return rc;
    t->over = t->stalled = 1;
    return 0;
}

static int fit_cap(struct health_campaign *t, int rounds, int64_t cap_bytes, struct err *err)
{
    int64_t least = (int64_t)PROBE_BYTES_LEAST * RUNS(rounds);
    int64_t each = cap_bytes / ALL_RUNS(rounds);

    t->left = INT64_MAX;
    if (cap_bytes == 0)
        return 0;
    if (each < PROBE_BYTES_LEAST) /* rounds that exceed the cap are reported as missing */
        each = PROBE_BYTES_LEAST;
    if (t->bytes > each)
        t->bytes = each;
    t->left = cap_bytes - PROBE_BYTES_LEAST; /* used up by measuring the size */
    if (cap_bytes >= least)
        return 0;
    return err_set(err, ERR_INPUT,
                   "a port may carry %" PRId64 " bytes, expected %" PRId64 " or more",
                   cap_bytes, least);
}

static int least_members(const struct groups *g, int first, int count)
{
    int least = g->members[first];

    for (int k = first + 1; k < first + count; k++)
        least = g->members[k] < least ? g->members[k] : least;
    return least;
}

/* Returns the bytes that each rank contributes so that ports carry about `bytes`. */
static int64_t gather_bytes(const struct health_campaign *t, int first, int count,
                            int64_t bytes)
{
    int64_t each =
        bytes / ((int64_t)(count - 1) * least_members(campaign_hosts_of(t), first, count));

    return each < GATHER_LEAST ? GATHER_LEAST : each;
}

/*
 * Returns each ring's part of the remaining bytes: runs of all hosts, of a half, of a half of
 * that, and so on; a port takes part in one per level.  Nothing is measured after them.
 */
static int64_t ring_bytes(const struct health_campaign *t)
{
    int levels = 1;

    for (int hosts = campaign_hosts_of(t)->count; hosts >= 4; hosts = (hosts + 1) / 2)
        levels++;
    int64_t each = t->left / ((int64_t)GATHERS * HEALTH_COLLECTIVE_RUNS * levels);
    return each < t->bytes ? each : t->bytes;
}

int health_campaign_open(struct health_campaign *t, int rounds, int64_t cap_bytes,
                         struct err *err)
{
    struct world *w = t->world;
    const struct probe_view hosts = probe_view_hosts(w);

    t->before_s = w->deadline_s;
    t->missing = -1;
    t->start_s = tick_now_s();
    /*
     * No host is waited for longer than a third of the time: then a host that stops answering
     * is detected, the others' reports arrive (they detect it no later than a third after), and
     * a third is left for the answer.
     */
    w->deadline_s = fmax(0.2, (t->end_s - t->start_s) / 3);
    t->until_s = t->end_s - w->deadline_s;
    *t->where = "connecting";
    health_kernel_open(&t->kernel);
    int rc = probe_size(w, &hosts, round_s, &t->bytes, err);
    rc = rc ? rc : fit_cap(t, rounds, cap_bytes, err);
    if (rc == 0) { /* space of a rank for a round, and for a ring of all hosts */
        int count = w->groups.count;
        int64_t round = probe_shift_space(&w->groups, t->bytes),
                ring = probe_ring_space(count, gather_bytes(t, 0, count, t->bytes));
        rc = probe_open(&t->probe, w, round > ring ? round : ring, err);
        t->opened = rc == 0;
    }
    if (t->opened && w->node_rank == 0) {
        t->probe.look = health_kernel_look;
        t->probe.look_arg = &t->kernel;
    }
    if (rc == 0 && t->device)
        rc = probe_gpu_open(&t->probe, t->device, err);
    return went(t, rc, err);
}

void health_campaign_close(struct health_campaign *t)
{
    for (int i = 0; i < t->rounds; i++) {
        mem_free(t->round[i].dst);
        if (!t->stalled)
            probe_free(&t->round[i].round);
    }
    mem_free(t->round);
    if (t->opened && !t->stalled)
        probe_close(&t->probe);
    health_kernel_close(&t->kernel);
    t->world->deadline_s = t->before_s;
}

/* ---- rounds ---- */

/* Finds a round's number, and prepares the round if it is new. */
static int ready_round(struct health_campaign *t, const int *dst, int *number, struct err *err)
{
    const struct groups *g = campaign_hosts_of(t);
    const size_t bytes = (size_t)g->count * sizeof *dst;
    struct health_round new = {.fresh = 1};

    for (*number = 0; *number < t->rounds; ++*number)
        if (memcmp(t->round[*number].dst, dst, bytes) == 0)
            return 0;
    struct probe_flow *flow = mem_new((size_t)g->ranks * 2, sizeof *flow);
    int rc =
        probe_prepare(&t->probe, flow, probe_exchange(g, dst, t->bytes, flow), &new.round, err);
    mem_free(flow);
    if (rc)
        return -1;
    new.dst = mem_new((size_t)g->count, sizeof *new.dst);
    memcpy(new.dst, dst, bytes);
    t->round = mem_grow(t->round, &t->space, (size_t)t->rounds + 1, sizeof *t->round);
    t->round[t->rounds++] = new;
    return 0;
}

/* Wrong words of a GPU count for it, not for the stream that carried them. */
static void enter_gpus(struct health_campaign *t, const struct round_report *all)
{
    for (int i = 0; i < t->data->gpus.count; i++)
        for (int way = 0; way < 2; way++)
            t->data->gpus.at[i].wrong[way] += all[campaign_hosts_of(t)->rank[i]].gpu_wrong[way];
}

/* Counts wrong words received by a host, less those that were wrong when sent. */
static void enter_wrong(struct health_campaign *t, const struct round_report *all, int src,
                        int dst)
{
    const struct groups *g = campaign_hosts_of(t);
    int64_t words = 0;

    for (int j = 0; j < g->members[dst]; j++)
        words += all[groups_rank(g, dst, j)].wrong;
    for (int j = 0; j < g->members[src]; j++)
        words -= all[groups_rank(g, src, j)].gpu_wrong[HEALTH_OUT];
    if (words > 0)
        health_data_add_wrong(t->data, src, dst, words);
}

static void campaign_enter(struct health_campaign *t, const struct health_round *round,
                           enum health_stage stage, const struct round_report *all, int counts)
{
    const struct groups *g = campaign_hosts_of(t);
    int *from = mem_new((size_t)g->count, sizeof *from);

    for (int k = 0; k < g->count; k++)
        from[k] = -1;
    for (int k = 0; k < g->count; k++)
        if (round->dst[k] >= 0)
            from[round->dst[k]] = k;
    enter_gpus(t, all);
    for (int i = 0; i < g->ranks; i++) { /* data number ranks host by host */
        int r = g->rank[i], to = g->group_of[r], src = from[to], sender = -1;
        if (src < 0)
            continue;
        if (g->local_of[r] == 0)
            enter_wrong(t, all, src, to);
        if (counts && g->local_of[r] == 0 && all[r].host_Bps > 0)
            HEALTH_ADD(&t->data->samples) = (struct health_sample){
                .src = src, .dst = to, .round = t->ran, .stage = stage, .Bps = all[r].host_Bps};
        /* If the sending host has more ranks, several send to this one. */
        if (counts && g->members[to] > 1 && g->members[src] <= g->members[to])
            sender = g->first[src] + g->local_of[r] % g->members[src];
        if (sender >= 0 && all[r].rank_Bps > 0)
            HEALTH_ADD(&t->data->rank_samples) =
                (struct health_rank_sample){sender, i, t->ran, all[r].rank_Bps};
    }
    mem_free(from);
}

/* Runs one round and gathers every rank's report. */
static int campaign_run(struct health_campaign *t, struct probe_round *r,
                        struct round_report *all, struct err *err)
{
    struct probe_result got = {0};
    int rc = probe_run(&t->probe, r, &got, err);
    struct round_report mine = {.host_Bps = got.group_Bps,
                                .rank_Bps = got.rank_Bps,
                                .took_s = got.took_s,
                                .wrong = got.wrong,
                                .gpu_wrong = {got.gpu_wrong[0], got.gpu_wrong[1]},
                                .over = tick_now_s() > t->until_s};

    /* A failed GPU may send and receive anything: then no round counts. */
    if (t->probe.gpu && (rc == 0 || err->code == ERR_DEVICE))
        rc = world_agree(t->world, rc, err);
    return rc ? rc : world_allgather(t->world, &mine, sizeof mine, all, err);
}

static int campaign_run_round(struct health_campaign *t, int number, enum health_stage stage,
                              int counts, struct err *err)
{
    const struct groups *g = campaign_hosts_of(t);
    struct health_round *round = &t->round[number];

    if (t->bytes > t->left) { /* equal on all ranks; another round would exceed the cap */
        t->over = t->data->capped = 1;
        return 0;
    }
    t->left -= t->left < INT64_MAX ? t->bytes : 0;
    struct round_report *all = mem_new((size_t)t->world->ranks, sizeof *all);
    int rc = campaign_run(t, &round->round, all, err);
    if (rc == 0) {
        round->fresh = 0;
        t->over = all[0].over;
        campaign_enter(t, round, stage, all, counts);
        t->ran += counts;
    } else if (err->code == ERR_PEER &&
               exec_mpi_arrived(round->round.exec) < round->round.in_bytes) {
        for (int k = 0; k < g->count; k++) /* find the host whose bytes did not arrive */
            if (round->dst[k] == g->group_of[t->world->rank])
                t->missing = k;
    }
    mem_free(all);
    return went(t, rc, err);
}

int health_campaign_rounds(struct health_campaign *t, const struct health_plan *plan,
                           struct err *err)
{
    int rc = 0, number = 0;

    *t->where = plan->stage == HEALTH_ROUNDS ? "measuring" : "confirming";
    for (int i = 0; rc == 0 && i < plan->rounds && !t->over; i++) {
        rc = went(t, ready_round(t, plan->dst + (int64_t)i * plan->hosts, &number, err), err);
        if (rc == 0 && !t->over && t->round[number].fresh) {
            rc = campaign_run_round(t, number, plan->stage, 0, err);
            if (t->ran == 0) /* drop queue samples from opening connections */
                health_kernel_forget(&t->kernel);
        }
        if (rc == 0 && !t->over)
            rc = campaign_run_round(t, number, plan->stage, 1, err);
        if (plan->stage == HEALTH_ROUNDS)
            t->data->rounds = t->ran;
    }
    return rc;
}

/* ---- latency ---- */

int health_campaign_latency(struct health_campaign *t, int most, struct err *err)
{
    const struct groups *g = campaign_hosts_of(t);
    /* With an odd number of hosts one rests in each round: its partner does not exist. */
    int even = g->count + g->count % 2, cycle = even - 1, met = 0, rc = 0;
    /* Whole cycles, so that pairs are measured equally often; with many hosts part of one. */
    int rounds = cycle > most ? most : (most + cycle - 1) / cycle * cycle;
    struct probe_flow *pair = mem_new((size_t)g->count, sizeof *pair);
    struct round_report *all = mem_new((size_t)g->ranks, sizeof *all);
    int *at_once = mem_new((size_t)g->count, sizeof *at_once);

    *t->where = "measuring latency";
    for (int i = 0; rc == 0 && i < rounds && !t->over; i++) {
        struct round_report mine = {.over = 0};
        int at = rounds < cycle ? (int)((int64_t)i * cycle / rounds) : i % cycle, pairs = 0;
        for (int a = 0; a < g->count; a++) { /* the first rank of each host */
            int b = health_plan_circle(a, at, even);
            if (a < b && b < g->count)
                pair[pairs++] =
                    (struct probe_flow){groups_rank(g, a, 0), groups_rank(g, b, 0), PING_BYTES};
        }
        rc = probe_trips(&t->probe, pair, at_once, pairs, pings_s, &mine.took_s, err);
        mine.over = tick_now_s() > t->until_s;
        rc = rc ? rc : world_allgather(t->world, &mine, sizeof mine, all, err);
        for (int p = 0; rc == 0 && p < pairs; p++, met++) {
            int src = pair[p].src;
            double s = all[src].took_s / 2;
            if (met == t->data->latencies.count)
                HEALTH_ADD(&t->data->latencies) =
                    (struct health_latency){g->group_of[src], g->group_of[pair[p].dst], s};
            else /* keep the smaller of two measurements, as among pings */
                t->data->latencies.at[met].s = fmin(t->data->latencies.at[met].s, s);
        }
        if (rc == 0)
            t->over = all[0].over;
        rc = went(t, rc, err);
    }
    MEM_FREE(at_once, all, pair);
    return rc;
}

/* ---- all hosts at once ---- */

/* Expected seconds of a ring: by the slowest host's rate and the latency of each step. */
static double gather_wants(const struct health_campaign *t, int first, int count, int64_t bytes)
{
    const struct health_data *d = t->data;
    double *late = mem_new((size_t)d->latencies.count + 1, sizeof *late), slowest = INFINITY;
    double *rate = mem_new((size_t)d->samples.count + 1, sizeof *rate);

    for (int k = first; k < first + count; k++) {
        int n = 0;
        for (int i = 0; i < d->samples.count; i++)
            if (d->samples.at[i].dst == k)
                rate[n++] = d->samples.at[i].Bps;
        slowest = n ? fmin(slowest, stats_median(rate, n)) : slowest;
    }
    for (int i = 0; i < d->latencies.count; i++)
        late[i] = d->latencies.at[i].s;
    double step_s = d->latencies.count ? stats_median(late, d->latencies.count) : 0;
    int rails = least_members(campaign_hosts_of(t), first, count);
    mem_free(late);
    mem_free(rate);
    return (count - 1) * ((double)(bytes * rails) / slowest + step_s);
}

/* Wrong words are reported for the ring neighbour that passed them on, less those that their
   origins sent wrong. */
static void enter_ring(struct health_campaign *t, const struct round_report *all, int first,
                       int count)
{
    const struct groups *g = campaign_hosts_of(t);

    enter_gpus(t, all);
    for (int r = 0; r < t->world->ranks; r++) {
        int host = g->group_of[r], j = g->local_of[r];
        int64_t words = all[r].wrong;
        for (int k = first; words && k < first + count; k++)
            if (k != host && j < g->members[k])
                words -= all[groups_rank(g, k, j)].gpu_wrong[HEALTH_OUT];
        if (words > 0)
            health_data_add_wrong(t->data, host == first ? first + count - 1 : host - 1, host,
                                  words);
    }
}

int health_campaign_collective(struct health_campaign *t, int first, int count, struct err *err)
{
    if (t->ring_bytes == 0)
        t->ring_bytes = ring_bytes(t);
    int64_t bytes = gather_bytes(t, first, count, t->ring_bytes);
    int rails = least_members(campaign_hosts_of(t), first, count);
    if (t->left < INT64_MAX && bytes * (count - 1) * rails > t->ring_bytes) {
        t->over = t->data->capped = 1;
        return 0;
    }
    struct round_report *all = mem_new((size_t)t->world->ranks, sizeof *all);
    struct probe_round r = {0};
    double took[GATHERS - 1];
    int rc = probe_ring(&t->probe, first, count, bytes, &r, err), ran = 0;

    *t->where = "measuring all hosts at once";
    for (int i = 0; rc == 0 && i < GATHERS && !t->over; i++) {
        rc = campaign_run(t, &r, all, err);
        if (rc)
            break;
        t->over = all[0].over;
        double longest = 0;
        for (int k = 0; k < t->world->ranks; k++)
            longest = fmax(longest, all[k].took_s);
        enter_ring(t, all, first, count);
        if (i)
            took[ran++] = longest;
    }
    if (ran)
        HEALTH_ADD(&t->data->collectives) = (struct health_collective){
            first, count, stats_median(took, ran), gather_wants(t, first, count, bytes)};
    rc = went(t, rc, err);
    if (!t->stalled)
        probe_free(&r);
    mem_free(all);
    return rc;
}

/* ---- reports ---- */

struct report {
    double drain_Bps, waited_s, watched_s;
    struct health_change link;
    int missing;
};

static void enter_report(struct health_campaign *t, int rank, const struct report *r)
{
    int k = campaign_hosts_of(t)->group_of[rank];
    struct health_data *d = t->data;
    char link[HEALTH_NAME] = "";

    if (r->link.name[0])
        health_name_make(r->link.name, link, sizeof link);
    if (campaign_hosts_of(t)->local_of[rank] == 0)
        d->host[k].drain_Bps = r->drain_Bps;
    if (r->missing >= 0)
        health_data_add_stall(d, r->missing, k, r->waited_s);
    for (int i = 0; i < d->links.count; i++) /* each rank of the host reports the same link */
        if (d->links.at[i].host == k && strcmp(d->links.at[i].name, link) == 0)
            return;
    if (link[0]) {
        struct health_link l = {.host = k,
                                .up = 1,
                                .carrier = !r->link.lost,
                                .lost = r->link.lost,
                                .errors = -1,
                                .packets = -1,
                                .flaps = r->link.downs,
                                .since_s = r->watched_s};
        memcpy(l.name, link, sizeof l.name);
        HEALTH_ADD(&d->links) = l;
    }
}

/* Uses one exchange if all answer; otherwise takes the reports that reach rank 0 in time. */
void health_campaign_reports(struct health_campaign *t)
{
    const struct groups *g = campaign_hosts_of(t);
    struct report mine = {.drain_Bps = health_kernel_drain(&t->kernel),
                          .waited_s = t->world->deadline_s,
                          .watched_s = tick_now_s() - t->start_s,
                          .missing = t->missing};
    struct report *all = mem_new((size_t)g->ranks, sizeof *all);
    int *got = mem_new((size_t)g->ranks, sizeof *got);
    struct err err;

    *t->where = "waiting for reports";
    health_kernel_change(&t->kernel, &mine.link);
    if (!t->stalled && world_allgather(t->world, &mine, sizeof mine, all, &err) == 0)
        for (int r = 0; r < g->ranks; r++)
            got[r] = 1;
    else
        t->over = t->stalled = 1;
    if (t->stalled)
        world_collect(t->world, &mine, sizeof mine,
                      fmin(t->world->deadline_s, fmax(0.5, t->end_s - tick_now_s())), all, got);
    for (int k = 0; k < g->count; k++)
        t->data->host[k].silent = t->stalled && t->world->rank == 0;
    for (int r = 0; r < g->ranks; r++)
        if (got[r]) {
            t->data->host[g->group_of[r]].silent = 0;
            enter_report(t, r, &all[r]);
        }
    mem_free(got);
    if (!t->stalled) /* otherwise messages may still arrive in it */
        mem_free(all);
}
