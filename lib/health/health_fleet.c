/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a run sees of a fabric that is made up: a stream is as fast as the slower of its
 * two ends, with noise, and now and then a transient loss.
 */
#include "health/health_fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

enum {
    LATENCY_PARTNERS = 7,
    NORMAL,
    LUCK,
    LOSS,
    LATE,
    SHARE,
    WRONG,
    COMMON /* streams of random numbers */
};

static const double latency_s = 12e-6, latency_noise = 0.05;
/* A run of 8 hosts takes some seconds; what it was is in no verdict. */
static const double run_s = 3, deadline_s = 10;

struct run {
    const struct health_fleet *f;
    struct health_data *d;
    double (*port)[2]; /* [hosts] percent */
    uint64_t at;       /* random numbers drawn */
    int turns;
};

void health_fleet_init(struct health_fleet *f)
{
    *f = (struct health_fleet){.hosts = 8,
                               .ranks = 1,
                               .far = 1,
                               .Bps = 12.5e9,
                               .noise = 0.02,
                               .transients = 0.02,
                               .level = HEALTH_NORMAL};
}

static const struct health_fault *find_fault(const struct health_fleet *f,
                                             enum health_fault_kind kind, int host)
{
    for (int i = 0; i < f->faults; i++)
        if (f->fault[i].kind == kind && (host < 0 || f->fault[i].host == host))
            return &f->fault[i];
    return NULL;
}

/* Noise and transients, as a factor; `noise` of its own. */
static double chance(struct run *r, double noise)
{
    const struct health_fleet *f = r->f;
    double v = 1 + noise * rng_normal(f->seed, NORMAL, r->at);

    if (rng_uniform(f->seed, LUCK, r->at) < f->transients)
        v *= 0.8 - 0.2 * rng_uniform(f->seed, LOSS, r->at);
    r->at++;
    return fmax(v, 0.01);
}

static double path_factor(const struct run *r, int src, int dst)
{
    int path = health_path(r->d, src, dst);

    return path < 2 ? 1 : path == 2 ? r->f->far : r->f->far * r->f->far;
}

/* What else the hosts do slows all of a turn alike. */
static double common(const struct run *r)
{
    double v = r->f->common * rng_normal(r->f->seed, COMMON, (uint64_t)r->turns);

    return fmax(1 + v, 0.01);
}

static double rate(struct run *r, int src, int dst)
{
    double percent = fmin(r->port[src][HEALTH_OUT], r->port[dst][HEALTH_IN]);

    for (int i = 0; i < r->f->faults; i++) {
        const struct health_fault *x = &r->f->fault[i];
        if (x->kind == HEALTH_FAULT_PAIR && x->host == src && x->other == dst)
            percent = fmin(percent, x->percent);
        if (x->kind == HEALTH_FAULT_FLAP && (x->host == src || x->host == dst) &&
            r->turns % 3 == 1)
            percent = fmin(percent, 50);
    }
    return r->f->Bps * path_factor(r, src, dst) * percent / 100 * common(r) *
           chance(r, r->f->noise);
}

static void add_ranks(struct run *r, int src, int dst, double Bps)
{
    int ranks = r->f->ranks;

    for (int i = 0; ranks > 1 && i < ranks; i++) {
        struct health_rank_sample s = {src * ranks + i, dst * ranks + i, r->turns, 0};
        double share = 1;
        for (int k = 0; k < r->f->faults; k++) {
            const struct health_fault *x = &r->f->fault[k];
            if (x->kind == HEALTH_FAULT_RANK && x->other == i &&
                (x->host == src || x->host == dst))
                share = x->percent / 100;
        }
        s.Bps = Bps / ranks * share * (1 + 0.1 * rng_normal(r->f->seed, SHARE, r->at++));
        HEALTH_ADD(&r->d->rank_samples) = s;
    }
}

static void add_stream(struct run *r, int src, int dst, enum health_stage stage)
{
    double Bps = rate(r, src, dst);

    HEALTH_ADD(&r->d->samples) = (struct health_sample){src, dst, r->turns, stage, Bps};
    add_ranks(r, src, dst, Bps);
    if (find_fault(r->f, HEALTH_FAULT_CORRUPT, src) &&
        rng_uniform(r->f->seed, WRONG, r->at) < 0.5)
        health_data_add_wrong(r->d, src, dst,
                              1 + (int64_t)(rng_u64(r->f->seed, WRONG, r->at) % 100));
}

/* In the middle of the rounds a port is cut: nothing more comes from anybody. */
static int fall_silent(struct run *r)
{
    const struct health_fault *x = find_fault(r->f, HEALTH_FAULT_CUT, -1);

    if (!x || r->turns < 5)
        return 0;
    /* Who asks hears nobody when it is the asking host that is cut. */
    for (int k = 0; k < r->f->hosts; k++)
        r->d->host[k].silent =
            x->host == r->d->own ? k != x->host : find_fault(r->f, x->kind, k) != NULL;
    return 1;
}

static int run_turns(struct run *r, const struct health_plan *p)
{
    for (int t = 0; t < p->turns; t++) {
        if (fall_silent(r))
            return 0;
        for (int src = 0; src < p->hosts; src++) {
            int dst = p->dst[t * p->hosts + src];
            if (dst >= 0)
                add_stream(r, src, dst, p->stage);
        }
        r->turns++;
        r->d->rounds += p->stage == HEALTH_ROUNDS;
    }
    return 1;
}

static void add_latencies(struct run *r)
{
    int n = r->f->hosts, most = n - 1 < LATENCY_PARTNERS ? n - 1 : LATENCY_PARTNERS;

    for (int src = 0; src < n; src++)
        for (int i = 0; i < most; i++) {
            int dst = (src + 1 + (int)((int64_t)i * (n - 1) / most)) % n;
            double percent = 100;
            for (int k = 0; k < r->f->faults; k++) {
                const struct health_fault *x = &r->f->fault[k];
                if (x->kind == HEALTH_FAULT_LATE && (x->host == src || x->host == dst))
                    percent = fmax(percent, x->percent);
            }
            double s = latency_s * health_path(r->d, src, dst) / 2 + latency_s;
            s *= percent / 100 / chance(r, latency_noise);
            HEALTH_ADD(&r->d->latencies) = (struct health_latency){src, dst, s};
        }
}

static void add_links(struct run *r)
{
    for (int k = 0; k < r->f->hosts; k++) {
        struct health_link l = {.host = k,
                                .name = "ib0",
                                .up = 1,
                                .carrier = 1,
                                .Bps = r->f->Bps,
                                .want_Bps = r->f->Bps,
                                .packets = 1000000000,
                                .since_s = 3600};
        l.flaps = find_fault(r->f, HEALTH_FAULT_FLAP, k) ? 6 : 0;
        HEALTH_ADD(&r->d->links) = l;
    }
}

static void describe(struct run *r)
{
    const struct health_fleet *f = r->f;
    struct health_data *d = r->d;
    char **name = mem_new((size_t)f->hosts, sizeof *name);
    char text[32];

    for (int k = 0; k < f->hosts; k++) {
        snprintf(text, sizeof text, "node%d", k);
        name[k] = mem_dup(text);
    }
    health_data_init(d, f->hosts, (const char *const *)name);
    d->ranks = f->hosts * f->ranks;
    for (int k = 0; k < f->hosts; k++) {
        d->host[k].ranks = f->ranks;
        if (f->leaf) {
            d->host[k].leaf = k / f->leaf;
            d->host[k].pod = f->pod ? k / f->leaf / f->pod : 0;
        }
        r->port[k][HEALTH_OUT] = r->port[k][HEALTH_IN] = 100;
        mem_free(name[k]);
    }
    mem_free(name);
    for (int i = 0; i < f->faults; i++) {
        const struct health_fault *x = &f->fault[i];
        if (x->kind == HEALTH_FAULT_PORT || x->kind == HEALTH_FAULT_OUT)
            r->port[x->host][HEALTH_OUT] = x->percent;
        if (x->kind == HEALTH_FAULT_PORT || x->kind == HEALTH_FAULT_IN)
            r->port[x->host][HEALTH_IN] = x->percent;
    }
    d->level = f->level;
    d->seed = f->seed;
    d->seconds = run_s;
    d->deadline_s = deadline_s;
    d->asked = 1u << HEALTH_PART_LINKS | 1u << HEALTH_PART_ROUNDS | 1u << HEALTH_PART_LATENCY;
}

static int measure(struct run *r, const struct health_rules *rules, struct err *err)
{
    struct health_data *d = r->d;
    struct health_plan p;

    for (;;) {
        if (health_plan(d, rules, &p, err))
            return -1;
        unsigned part = p.stage == HEALTH_ROUNDS && d->samples.count == 0
                            ? 1u << HEALTH_PART_ROUNDS
                            : 1u << HEALTH_PART_CONFIRM;
        int turns = p.turns;
        if (part == 1u << HEALTH_PART_ROUNDS)
            d->wanted = turns;
        if (turns)
            d->asked |= part;
        int whole = run_turns(r, &p);
        health_plan_release(&p);
        if (turns == 0 || !whole)
            return 0;
        d->done |= part;
    }
}

int health_fleet_run(const struct health_fleet *f, const struct health_rules *rules,
                     struct health_data *out, struct err *err)
{
    struct health_data d;
    struct run r = {.f = f, .d = &d};

    r.port = mem_new((size_t)f->hosts, sizeof *r.port);
    describe(&r);
    add_links(&r);
    d.done = 1u << HEALTH_PART_LINKS;
    int rc = measure(&r, rules, err);
    if (d.done & 1u << HEALTH_PART_ROUNDS) {
        add_latencies(&r);
        d.done |= 1u << HEALTH_PART_LATENCY;
    }
    mem_free(r.port);
    if (rc)
        health_data_release(&d);
    else
        *out = d;
    return rc;
}
