/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures a fabric: decides the figures and their order, and stores the results in it.  All
 * ports send and receive at once in every round of level 1, as they do in a ring.
 *
 * A stream from k to j is as fast as the slower of k's way out and j's way in.  With three
 * groups or more each port has several partners, and its rate is that with the best of them;
 * with two groups the two ends of a stream cannot be distinguished, and need not be: nothing
 * else uses them.  On a ring of cables the only partners are both neighbours, at the same time,
 * and the best of repeated rounds counts.
 */
#include "probe/probe_fit.h"
#include "probe/probe_gpu.h"
#include "probe/probe_parts.h"
#include "probe/probe_work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/tick.h"
#include "topo/topo_print.h"

enum {
    REPEATS = 6,      /* runs of a round; the median counts, see probe_fit_spread */
    SHIFTS_MOST = 7,  /* partners of a port; with eight groups or fewer all of them */
    SHIFTS_LEAST = 2, /* two partners show which end of a stream is slow */
    ALONE_MOST = 2,   /* hosts up to which single flows are measured */
    STEPS = 32,       /* consecutive ring steps, with a small message from and to each rank: */
    STEP_BYTES = 64,  /* through a port */
    INSIDE_BYTES = 4 << 20,
    INSIDE_LAPS = 8, /* a lap that is copied at once gives one note of the curve */
    INSIDE_LAPS_LEAST = 2,
    GPU_LAPS = 2 /* noted one by one; the first empties token buckets */
};

static const double round_s = 0.1; /* a stream's time, excluding the skipped part */
static const double inside_line_s = 0.2, across_line_s = 1; /* messages of all sizes */
static const double shifts_s = 3;                           /* after this no new shift begins */

/*
 * Checks that the words received are those sent.  The GPU comes first: if it has failed, or
 * returns changed words, the received words prove nothing.
 */
static int topo_check_words(struct probe *p, int rc, const struct probe_result *got,
                            struct err *err)
{
    int64_t own = got->gpu_wrong[0] + got->gpu_wrong[1];

    if (rc == 0 && own)
        rc = err_set(err, ERR_DEVICE,
                     "%lld words of a measurement changed between the GPU and the host",
                     (long long)own);
    if (world_agree(p->world, rc, err))
        return -1;
    if (got->wrong)
        rc = err_set(err, ERR_MISMATCH, "%lld words of a measurement arrived wrong",
                     (long long)got->wrong);
    return world_agree(p->world, rc, err);
}

/* Runs a round REPEATS times; value[i * ranks + r]: the rate in run i into rank r, or into its
   group. */
static int repeat_round(struct probe *p, const struct probe_flow *flow, int flows, int inside,
                        double *value, struct err *err)
{
    struct probe_round r = {0};
    struct probe_result got = {0};
    int ranks = p->world->ranks, rc = probe_prepare(p, flow, flows, &r, err);

    r.laps = p->nccl ? GPU_LAPS : 1;
    for (int i = -1; rc == 0 && i < REPEATS; i++) { /* the first one opens the connections */
        got = (struct probe_result){0};
        rc = topo_check_words(p, probe_run(p, &r, &got, err), &got, err);
        double mine = inside ? got.rank_Bps : got.group_Bps;
        if (rc == 0)
            rc = world_allgather(p->world, &mine, sizeof mine, &value[(i < 0 ? 0 : i) * ranks],
                                 err);
        if (rc == 0 && i < 0 && inside && !p->nccl) {
            /* Laps for about round_s at the best rate that a rank had in the first run. */
            double best = 0;
            for (int q = 0; q < ranks; q++)
                best = fmax(best, value[q]);
            double laps = best * round_s / INSIDE_BYTES;
            r.laps = (int)fmin(fmax(laps, INSIDE_LAPS_LEAST), INSIDE_LAPS);
        }
    }
    probe_free(&r);
    return rc;
}

/*
 * Returns the median over the repeats; of each repeat it takes the median over those of ranks
 * first .. end - 1 that received something.
 */
static double topo_median_of(const double *value, int ranks, int first, int end, double *error)
{
    double *one = mem_new((size_t)ranks, sizeof *one), v[REPEATS];

    for (int i = 0; i < REPEATS; i++) {
        int n = 0;
        for (int r = first; r < end; r++)
            if (value[i * ranks + r] > 0)
                one[n++] = value[i * ranks + r];
        v[i] = n ? stats_median(one, n) : 0;
    }
    mem_free(one);
    double median = stats_median(v, REPEATS); /* stats_median sorts; compute the spread of the
                                                 same values */
    *error = probe_fit_spread(v, REPEATS, median);
    return median;
}

struct work { /* memory for all steps */
    struct probe_flow *flow;
    double *value; /* [REPEATS][ranks] */
    double *error; /* [groups][2]: of each port, out and in */
};

/*
 * Measures what a message costs the ranks at its ends while all ranks send and receive, as in
 * each step of a ring: half of the difference between such a step and a single message. (Pings
 * on all ranks keep half of them waiting, and where ranks share cores they show a third of that
 * cost.) It is at least half of the latency's error, because 0 would mean unknown.
 */
static int message_cost(struct probe *p, const struct probe_views *views, int l,
                        struct topo_level *level, struct err *err)
{
    struct probe_round r = {0};
    struct probe_summary all;
    double took[REPEATS];
    int rc = probe_lap(p, views, l, STEP_BYTES, &r, err);

    r.laps = STEPS;
    for (int i = -1; rc == 0 && i < REPEATS; i++) { /* the first one opens the connections */
        struct probe_result got = {0};
        rc = topo_check_words(p, probe_run(p, &r, &got, err), &got, err);
        took[i < 0 ? 0 : i] = got.took_s / STEPS;
    }
    double mine = rc == 0 && r.in_bytes ? stats_median(took, REPEATS) : 0;
    rc = rc ? rc : probe_summarize(p->world, mine, 0, &all, err);
    if (rc == 0)
        level->message_s = fmax(level->latency_err_s, all.median - level->latency_s) /
                           (l && p->view.groups->ring ? 4 : 2);
    probe_free(&r);
    return rc;
}

static int measure_inside(struct probe *p, struct work *w, int64_t bytes,
                          struct topo_level *level, struct err *err)
{
    const struct groups *g = p->view.groups;
    int pairs = 0;

    for (int k = 0; k < g->count; k++)
        if (g->members[k] > 1)
            w->flow[pairs++] =
                (struct probe_flow){groups_rank(g, k, 0), groups_rank(g, k, 1), 1};
    if (probe_line_latency(p, w->flow, pairs, level, err))
        return -1;
    if (pairs > ALONE_MOST)
        pairs = ALONE_MOST;
    if (probe_line_rate(p, w->flow, pairs, bytes, inside_line_s, level, err))
        return -1;
    level->port_Bps = level->flow_Bps;
    level->port_err_Bps = level->flow_err_Bps;
    int flows = probe_inside(g, bytes, w->flow);
    if (repeat_round(p, w->flow, flows, 1, w->value, err))
        return -1;
    level->member_Bps = topo_median_of(w->value, g->ranks, 0, g->ranks, &level->member_err_Bps);
    return 0;
}

/* Measures the rates of the flows of shift s, one part of them or (-1) all. */
static int measure_shift(struct probe *p, struct work *w, int s, int part, int64_t bytes,
                         struct topo_port *port, struct err *err)
{
    const struct groups *g = p->view.groups;
    int flows = probe_shift(&p->view, s, part, bytes, w->flow);

    if (flows == 0)
        return 0;
    if (repeat_round(p, w->flow, flows, 0, w->value, err))
        return -1;
    for (int k = 0; k < g->count; k++) {
        int to = probe_next(&p->view, k, s);
        int r = groups_rank(g, to, 0);
        double off, Bps = topo_median_of(w->value, g->ranks, r, r + 1, &off);
        double *best[2] = {&port[k].out_Bps, &port[to].in_Bps};
        for (int way = 0; to != k && way < 2; way++)
            if (Bps > *best[way]) {
                *best[way] = Bps;
                w->error[2 * (way ? to : k) + way] = off;
            }
    }
    return 0;
}

/* Measures the level that joins the view's groups, and their ports; 0 for ports without a
   stream. */
static int measure_across(struct probe *p, struct work *w, int64_t bytes,
                          struct topo_level *level, struct topo_port *port, struct err *err)
{
    const struct groups *g = p->view.groups;
    int pairs = probe_partners_across(&p->view, w->flow), ports = 0;
    int64_t most = bytes / 3 * 2 > PROBE_BYTES_LEAST ? bytes / 3 * 2 : PROBE_BYTES_LEAST;

    memset(w->error, 0, (size_t)g->count * 2 * sizeof *w->error);
    if (probe_line_latency(p, w->flow, pairs, level, err) ||
        probe_line_rate(p, w->flow, pairs, most, across_line_s, level, err))
        return -1;
    /*
     * With NCCL a rank's send and receive are one launch, which ends with the slower of both,
     * and so on around the ring, until all ports look like the slowest: so measure one
     * direction at a time.
     */
    int widest = probe_widest(&p->view), late = 0;
    int shifts = widest - 1 < SHIFTS_MOST ? widest - 1 : SHIFTS_MOST;
    double start = tick_now_s();
    for (int i = 0; i < shifts; i++) {
        late = tick_now_s() - start > shifts_s;
        if (i >= SHIFTS_LEAST && world_bcast(p->world, &late, sizeof late, 0, err))
            return -1;
        if (i >= SHIFTS_LEAST && late)
            break;
        int s = 1 + (int)((int64_t)i * (widest - 1) / shifts); /* spread over 1 .. widest - 1 */
        s = g->ring ? 1 : s; /* only neighbours share no cable with others */
        for (int part = p->nccl ? 0 : -1; part < (p->nccl ? PROBE_PARTS : 0); part++)
            if (measure_shift(p, w, s, part, bytes, port, err))
                return -1;
    }
    double *both = mem_new((size_t)g->count * 2, sizeof *both);
    for (int k = 0; k < g->count; k++) {
        if (probe_next(&p->view, k, 1) == k)
            continue;
        w->error[ports] = w->error[2 * k];
        both[ports++] = port[k].out_Bps;
        w->error[ports] = w->error[2 * k + 1];
        both[ports++] = port[k].in_Bps;
    }
    level->port_Bps = stats_median(both, ports);
    level->port_err_Bps = stats_median(w->error, ports); /* one port's */
    level->member_Bps = level->port_Bps / groups_largest(g);
    level->member_err_Bps = level->port_err_Bps / groups_largest(g);
    mem_free(both);
    return 0;
}

/*
 * Measures one rank alone: the copy rate of its own memory represents both levels.  In a GPU a
 * copy takes a few us, and waiting for it some 10: many at once.
 */
static int measure_alone(struct probe *p, struct topo_level *level, struct err *err)
{
    int times = p->gpu ? 64 : 1;
    double took[REPEATS];

    for (int i = 0; i < REPEATS; i++) {
        double start = tick_now_s();
        for (int n = 0; n < times; n++)
            if (p->gpu)
                device_copy(p->gpu->queue, p->gpu->out, p->gpu->in, p->space);
            else
                memcpy(p->out, p->in, (size_t)p->space);
        if (probe_gpu_check(p, err))
            return -1;
        took[i] = tick_now_s() - start;
    }
    double Bps = (double)p->space * times / stats_median(took, REPEATS);
    *level = (struct topo_level){.port_Bps = Bps, .flow_Bps = Bps, .member_Bps = Bps};
    return 0;
}

static int measure_levels(struct probe *p, const struct probe_views *views,
                          const int64_t *bytes, struct topo *t, struct err *err)
{
    const struct groups *g = views->view[1].groups;
    struct work w = {mem_new((size_t)g->ranks * PROBE_FLOWS, sizeof *w.flow),
                     mem_new((size_t)g->ranks * REPEATS, sizeof *w.value),
                     mem_new((size_t)g->count * 2, sizeof *w.error)};
    struct topo_port *port = mem_new((size_t)g->count, sizeof *port);
    int inside = groups_largest(g) > 1, across = g->count > 1, rc = 0;

    p->view = views->view[1];
    if (inside)
        rc = measure_inside(p, &w, bytes[0], &t->level[0], err);
    if (rc == 0 && inside)
        rc = message_cost(p, views, 0, &t->level[0], err);
    for (int l = 1; rc == 0 && across && l < t->levels; l++) {
        p->view = views->view[l];
        rc = measure_across(p, &w, bytes[l], &t->level[l], l == 1 ? t->port : port, err);
        rc = rc ? rc : message_cost(p, views, l, &t->level[l], err);
    }
    if (rc == 0 && !inside && !across)
        rc = measure_alone(p, &t->level[0], err);
    if (!inside && across)
        t->level[0] = t->level[1];
    if (!across)
        t->level[1] = t->level[0];
    for (int k = 0; k < g->count; k++) /* alone in its block: no stream passed */
        if (probe_next(&views->view[1], k, 1) == k)
            t->port[k] = (struct topo_port){t->level[1].port_Bps, t->level[1].port_Bps};
    MEM_FREE(w.flow, w.value, port, w.error);
    return rc;
}

/* Rounds to `decimals` decimals of its first digit. */
static void round_figure(double *v, int decimals)
{
    char text[32];

    snprintf(text, sizeof text, "%.*e", decimals, *v);
    *v = strtod(text, NULL);
}

/* A rate of 0 means a round too short to distinguish the times of any two bytes. */
static int check_rates(const struct topo *t, struct err *err)
{
    for (int l = 0; l < t->levels; l++)
        if (t->level[l].port_Bps < TOPO_RATE_MIN_BPS ||
            t->level[l].flow_Bps < TOPO_RATE_MIN_BPS)
            return err_set(err, ERR_PEER,
                           "cannot time level %d: sizes differ by too little time", l);
    for (int k = 0; k < t->groups.count; k++)
        if (topo_port_Bps(t, k) < TOPO_RATE_MIN_BPS)
            return err_set(err, ERR_PEER,
                           "cannot time the port of '%s': sizes differ by too little time",
                           t->host[k]);
    return 0;
}

static int is_gpu(const struct probe_settings *settings)
{
    return settings && device_kind(settings->device) != DEVICE_CPU;
}

/* Opens the probe on the transport that training will use; nccl may be NULL. */
static int open_over(struct probe *p, struct world *world,
                     const struct probe_settings *settings, struct exec_nccl *nccl,
                     int64_t space, struct err *err)
{
    if (probe_open(p, world, space, err))
        return -1;
    if (is_gpu(settings) && probe_gpu_open(p, settings->device, err)) {
        probe_close(p);
        return -1;
    }
    p->nccl = nccl;
    return 0;
}

/* Finds bytes[l], the size of a round of level l. */
static int size_rounds(struct world *world, const struct probe_views *views,
                       const struct probe_settings *settings, struct exec_nccl *nccl,
                       int64_t *bytes, struct err *err)
{
    int64_t space = 0;
    struct probe p;
    int rc = 0;

    bytes[0] = nccl ? 0 : INSIDE_BYTES;
    for (int l = 1; !nccl && rc == 0 && l < views->levels; l++)
        if (views->view[l].groups->count > 1)
            rc = probe_size(world, &views->view[l], round_s, &bytes[l], err);
    if (!nccl)
        return rc;
    for (int l = 1; l < views->levels; l++) {
        int64_t want = probe_shift_space(views->view[l].groups, PROBE_LOOK_BYTES);
        space = want > space ? want : space;
    }
    if (open_over(&p, world, settings, nccl, space, err))
        return -1;
    for (int l = 0; rc == 0 && l < views->levels; l++)
        if (probe_passes(views, l))
            rc = probe_size_gpu(&p, views, l, round_s, &bytes[l], err);
    probe_close(&p);
    return rc;
}

/* Returns the space for the largest round, and for a message with its extra words. */
static int64_t space_of(const struct probe_views *views, const struct probe_settings *settings,
                        const int64_t *bytes)
{
    int64_t space = bytes[0] + 64;

    for (int l = 1; l < views->levels; l++) {
        const struct groups *g = views->view[l].groups;
        int64_t want = probe_shift_space(g, bytes[l]),
                left = settings ? probe_left_space(g) : 0;
        space = want > space ? want : space;
        space = left > space ? left : space;
    }
    return space;
}

/* Measures how links and computing slow each other down: needs the rates. */
static int measure_beside(struct probe *p, const struct probe_views *views,
                          const struct probe_settings *settings, struct topo *t,
                          struct err *err)
{
    struct probe_settings square = {.device = settings->device, .type = settings->type};
    struct probe_work work;

    if (probe_work_open(&work, p->world, &square, err))
        return -1;
    int rc = probe_left(p, views, &work, t, err);
    rc = rc ? rc : probe_uses(p, views, &work, t, err);
    probe_work_close(&work);
    return rc;
}

/* The slowest of the ranks that are usual. */
static double least_usual(const double *rate, int ranks, const char *usual)
{
    double least = INFINITY;

    for (int r = 0; r < ranks; r++)
        least = usual[r] ? fmin(least, rate[r]) : least;
    return least;
}

/* Measures each rank's share of its machine, and its computing device. */
static int measure_own(struct world *world, const struct probe_settings *settings,
                       struct topo *t, struct err *err)
{
    struct device *device = settings ? settings->device : NULL;
    struct probe_summary has = {0};
    double *rate = mem_new((size_t)world->ranks, sizeof *rate);
    char *usual = mem_new((size_t)world->ranks, 1);

    t->device = device && device_kind(device) == DEVICE_CUDA ? TOPO_CUDA : TOPO_CPU;
    t->transport = settings ? settings->transport : TOPO_OVER_MPI;
    int rc = probe_memory(world, device, &t->memory_bytes, err);
    rc = rc || !settings ? rc : probe_devices(world, t, err);
    rc = rc || !settings ? rc : probe_flops(world, settings, rate, err);
    if (rc == 0 && settings) {
        probe_usual(rate, world->ranks, usual);
        t->flops = least_usual(rate, world->ranks, usual);
        round_figure(&t->flops, 3);
        for (int r = 0; r < world->ranks; r++) {
            round_figure(&rate[r], 3);
            topo_set_rank_flops(t, r, usual[r] ? t->flops : rate[r]);
        }
    }
    t->compute_type = settings ? settings->type : DTYPE_F32;
    if (rc == 0 && settings && settings->all_types) {
        /* The other type is f32, or the processors of all ranks have instructions for it. */
        struct probe_settings other = *settings;
        other.type = topo_other_type(t);
        rc = probe_summarize(world, other.type == DTYPE_F32 || probe_has_bf16(), 0, &has, err);
        if (has.count == world->ranks)
            rc = probe_flops(world, &other, rate, err);
        if (rc == 0 && has.count == world->ranks)
            t->other_flops = least_usual(rate, world->ranks, usual);
    }
    if (rc == 0 && settings)
        rc = probe_memory_rate(world, device, t->memory_bytes, rate, err);
    if (rc == 0 && settings)
        t->memory_Bps = least_usual(rate, world->ranks, usual);
    mem_free(rate);
    mem_free(usual);
    return rc;
}

static int measure_all(struct world *world, const struct probe_views *views,
                       const struct probe_settings *settings, struct exec_nccl *nccl,
                       struct topo *out, struct err *err)
{
    struct probe_load load = probe_load_begin();
    struct probe p = {0};
    struct topo t = {0};
    int64_t bytes[TOPO_LEVELS_MAX] = {0};
    int rc = size_rounds(world, views, settings, nccl, bytes, err);

    if (rc || open_over(&p, world, settings, nccl, space_of(views, settings, bytes), err))
        return -1;
    probe_views_topo(views, world, &t);
    rc = measure_levels(&p, views, bytes, &t, err);
    rc = rc ? rc : check_rates(&t, err);
    if (rc == 0 && !nccl && is_gpu(settings)) {
        /* Copies without pinned memory are slower, and so are the rates measured with them. */
        struct probe_summary all = {0};
        rc = probe_summarize(world, p.gpu && !p.gpu->pinned, 0, &all, err);
        if (all.count)
            snprintf(t.doubt, sizeof t.doubt,
                     "the driver cannot pin host memory for %d of %d ranks: copies are slower",
                     all.count, world->ranks);
    }
    rc = rc || !settings ? rc : measure_beside(&p, views, settings, &t, err);
    probe_close(&p);
    rc = rc ? rc : measure_own(world, settings, &t, err);
    rc = rc ? rc : probe_load_end(&load, world, t.doubt, err);
    topo_name_levels(&t);
    /* Four digits, of errors two: the measurements have no more. */
    for (int l = 0; l < t.levels; l++)
        for (const struct record *f = topo_level_record; f->type; f++)
            if (f->type == RECORD_REAL)
                round_figure((double *)(void *)((char *)&t.level[l] + f->at),
                             f->flags & TOPO_ERROR_BAR ? 1 : 3);
    for (int k = 0; k < t.groups.count; k++) {
        round_figure(&t.port[k].out_Bps, 3);
        round_figure(&t.port[k].in_Bps, 3);
    }
    round_figure(&t.other_flops, 3);
    round_figure(&t.memory_Bps, 3);
    if (rc == 0)
        *out = t;
    else
        topo_release(&t);
    return rc;
}

int probe_topo(struct world *world, const struct probe_views *found,
               const struct probe_settings *settings, struct topo *out, struct err *err)
{
    struct exec_nccl *nccl = NULL;
    struct probe_views hosts;

    if (settings && settings->transport == TOPO_OVER_NCCL &&
        exec_nccl_open_world(&nccl, world, settings->device, 0, err))
        return -1;
    probe_views_init(&hosts, world, NULL, 0);
    int rc = measure_all(world, found ? found : &hosts, settings, nccl, out, err);
    if (rc && nccl && err->code == ERR_PEER) /* other ranks do not join the collective close of
                                                communicators */
        exec_nccl_abort(nccl);
    exec_nccl_close(nccl);
    return rc;
}
