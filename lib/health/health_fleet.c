/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Simulates fabrics: a stream is as fast as the slower of its two ends, with noise and
 * occasional transient losses.
 */
#include "health/health_fleet.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"

enum { LATENCY_PARTNERS = 7, RANKS_MOST = 64, SPEC_MOST = 4096 };
enum { NORMAL = 8, LUCK, LOSS, LATE, SHARE, WRONG, COMMON }; /* random number streams */

static const double latency_s = 12e-6, latency_noise = 0.05;
/* A run of 8 hosts takes some seconds; no verdict depends on it. */
static const double run_s = 3, deadline_s = 10;

/* ---- parsing ---- */

static const struct {
    const char *name, *value;
} faults[HEALTH_FAULTS] = {[HEALTH_FAULT_PORT] = {"port", "HOST:PERCENT"},
                           [HEALTH_FAULT_OUT] = {"out", "HOST:PERCENT"},
                           [HEALTH_FAULT_IN] = {"in", "HOST:PERCENT"},
                           [HEALTH_FAULT_PAIR] = {"pair", "HOST-HOST:PERCENT"},
                           [HEALTH_FAULT_CUT] = {"cut", "HOST"},
                           [HEALTH_FAULT_FLAP] = {"flap", "HOST"},
                           [HEALTH_FAULT_CORRUPT] = {"corrupt", "HOST"},
                           [HEALTH_FAULT_LATE] = {"late", "HOST:PERCENT"},
                           [HEALTH_FAULT_RANK] = {"rank", "HOST.RANK:PERCENT"}};

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

static int parse_int(const char *text, int lo, int hi, int *out, struct err *err)
{
    int64_t v;

    if (num_i64(text, lo, hi, &v, err))
        return -1;
    *out = (int)v;
    return 0;
}

/* Cuts the text at the last `mark` and returns the part after it; NULL: no mark. */
static char *fleet_cut(char *text, char mark)
{
    char *at = strrchr(text, mark);

    if (at)
        *at++ = 0;
    return at;
}

static int parse_fault(int kind, char *value, struct health_fleet *f, struct err *err)
{
    struct health_fault x = {.kind = (enum health_fault_kind)kind, .other = -1, .percent = 100};
    const char *form = faults[kind].value, *mark = strpbrk(form, "-.");
    char *percent = strchr(form, ':') ? fleet_cut(value, ':') : NULL;
    char *second = mark ? fleet_cut(value, *mark) : NULL;

    if (f->faults == HEALTH_FAULTS_MOST)
        return err_set(err, ERR_INPUT, "one of more than %d faults", HEALTH_FAULTS_MOST);
    if (!percent != !strchr(form, ':') || !second != !mark)
        return err_set(err, ERR_INPUT, "expected %s", form);
    int most = kind == HEALTH_FAULT_RANK ? f->ranks : f->hosts;
    if (parse_int(value, 0, f->hosts - 1, &x.host, err) ||
        (second && parse_int(second, 0, most - 1, &x.other, err)) ||
        (percent && num_f64(percent, 1, 1e4, &x.percent, err)))
        return -1;
    if (kind == HEALTH_FAULT_PAIR && x.host == x.other)
        return err_set(err, ERR_INPUT, "host %d twice, expected a pair", x.host);
    f->fault[f->faults++] = x;
    return 0;
}

static int fleet_parse_value(const char *key, char *value, struct health_fleet *f,
                             struct err *err)
{
    const struct {
        const char *key;
        double lo, hi, *out;
    } reals[] = {{"far", 0.01, 1, &f->far},
                 {"noise", 0, 0.5, &f->noise},
                 {"transients", 0, 1, &f->transients},
                 {"common", 0, 0.5, &f->common}};

    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (strcmp(key, reals[i].key) == 0)
            return num_f64(value, reals[i].lo, reals[i].hi, reals[i].out, err);
    for (int kind = 0; kind < HEALTH_FAULTS; kind++)
        if (strcmp(key, faults[kind].name) == 0)
            return parse_fault(kind, value, f, err);
    if (strcmp(key, "leaf") == 0)
        return parse_int(value, 1, f->hosts, &f->leaf, err);
    if (strcmp(key, "pod") == 0)
        return parse_int(value, 1, f->hosts, &f->pod, err);
    for (int i = 0; i < HEALTH_LEVELS && strcmp(key, "level") == 0; i++)
        if (strcmp(value, health_levels[i]) == 0) {
            f->level = (enum health_level)i;
            return 0;
        }
    if (strcmp(key, "level") == 0)
        return err_set(err, ERR_INPUT, "'%s', expected quick, normal or deep", value);
    if (strcmp(key, "seed") == 0)
        return num_i64(value, 0, INT64_MAX, (int64_t *)&f->seed, err);
    return err_set(err, ERR_INPUT,
                   "'%.40s', expected leaf, pod, far, noise, transients, common, seed, level, "
                   "port, out, in, pair, cut, flap, corrupt, late or rank",
                   key);
}

int health_fleet_parse(const char *spec, struct health_fleet *out, struct err *err)
{
    struct health_fleet f;
    int rc = 0;

    if (strlen(spec) > SPEC_MOST)
        return err_set(err, ERR_INPUT, "a fleet of more than %d bytes", SPEC_MOST);
    health_fleet_init(&f);
    char *copy = mem_dup(spec), *save = NULL, *shape = strtok_r(copy, ",", &save);
    char *ranks = shape ? fleet_cut(shape, 'x') : NULL;
    if (!shape)
        rc = err_set(err, ERR_INPUT, "is empty, expected HOSTS[xRANKS][,KEY=VALUE...]");
    else if (parse_int(shape, 2, HEALTH_HOSTS_MOST, &f.hosts, err) ||
             (ranks && parse_int(ranks, 1, RANKS_MOST, &f.ranks, err)))
        rc = -1;
    for (char *key; rc == 0 && (key = strtok_r(NULL, ",", &save));) {
        char *value = strchr(key, '=');
        if (value)
            *value++ = 0;
        if (!value)
            rc = err_set(err, ERR_INPUT, "'%.40s', expected KEY=VALUE", key);
        else if (fleet_parse_value(key, value, &f, err))
            rc = err_prefix(err, "%s: ", key);
    }
    mem_free(copy);
    if (rc)
        return err_prefix(err, "fleet '%.200s': ", spec);
    *out = f;
    return 0;
}

/* ---- a run ---- */

struct run {
    const struct health_fleet *f;
    struct health_data *d;
    uint64_t at; /* number of random draws */
    int rounds;
};

/* Returns the host's first fault of that kind (host -1: any), or NULL. */
static const struct health_fault *find_fault(const struct health_fleet *f,
                                             enum health_fault_kind kind, int host)
{
    for (int i = 0; i < f->faults; i++)
        if (f->fault[i].kind == kind && (host < 0 || f->fault[i].host == host))
            return &f->fault[i];
    return NULL;
}

/* Returns noise and transients as a factor; noise: relative standard deviation. */
static double chance(struct run *r, double noise)
{
    const struct health_fleet *f = r->f;
    double v = 1 + noise * rng_normal(f->seed, NORMAL, r->at);

    if (rng_uniform(f->seed, LUCK, r->at) < f->transients)
        v *= 0.8 - 0.2 * rng_uniform(f->seed, LOSS, r->at);
    r->at++;
    return fmax(v, 0.01);
}

static double rate(struct run *r, int src, int dst)
{
    const struct health_fleet *f = r->f;
    int path = health_path(r->d, src, dst);
    double out = 100, in = 100, most = INFINITY;

    for (int i = 0; i < f->faults; i++) {
        const struct health_fault *x = &f->fault[i];
        int is_port = x->kind == HEALTH_FAULT_PORT;
        if ((is_port || x->kind == HEALTH_FAULT_OUT) && x->host == src)
            out = x->percent;
        if ((is_port || x->kind == HEALTH_FAULT_IN) && x->host == dst)
            in = x->percent;
        if (x->kind == HEALTH_FAULT_PAIR && x->host == src && x->other == dst)
            most = fmin(most, x->percent);
        if (x->kind == HEALTH_FAULT_FLAP && (x->host == src || x->host == dst) &&
            r->rounds % 3 == 1)
            most = fmin(most, 50);
    }
    double percent = fmin(most, fmin(out, in));
    /* Other work on the hosts slows all streams of a round alike. */
    double common = 1 + f->common * rng_normal(f->seed, COMMON, (uint64_t)r->rounds);
    double far = path < 2 ? 1 : path == 2 ? f->far : f->far * f->far;
    return f->Bps * far * percent / 100 * fmax(common, 0.01) * chance(r, f->noise);
}

static void add_stream(struct run *r, int src, int dst, enum health_stage stage)
{
    const struct health_fleet *f = r->f;
    int ranks = f->ranks;
    double Bps = rate(r, src, dst);

    HEALTH_ADD(&r->d->samples) = (struct health_sample){src, dst, r->rounds, stage, Bps};
    for (int i = 0; ranks > 1 && i < ranks; i++) {
        double share = 1;
        for (int k = 0; k < f->faults; k++) {
            const struct health_fault *x = &f->fault[k];
            if (x->kind == HEALTH_FAULT_RANK && x->other == i &&
                (x->host == src || x->host == dst))
                share = x->percent / 100;
        }
        share *= 1 + 0.1 * rng_normal(f->seed, SHARE, r->at++);
        HEALTH_ADD(&r->d->rank_samples) = (struct health_rank_sample){
            src * ranks + i, dst * ranks + i, r->rounds, Bps / ranks * share};
    }
    if (find_fault(f, HEALTH_FAULT_CORRUPT, src) && rng_uniform(f->seed, WRONG, r->at) < 0.5)
        health_data_add_wrong(r->d, src, dst,
                              1 + (int64_t)(rng_u64(f->seed, WRONG, r->at) % 100));
}

/* Returns 0 if a port is cut in the middle of the rounds, after which nothing arrives. */
static int fleet_run_rounds(struct run *r, const struct health_plan *p)
{
    const struct health_fault *cut = find_fault(r->f, HEALTH_FAULT_CUT, -1);
    int last = cut ? 5 : INT_MAX, t = 0;

    for (; t < p->rounds && r->rounds < last; t++, r->rounds++) {
        for (int src = 0; src < p->hosts; src++)
            if (p->dst[t * p->hosts + src] >= 0)
                add_stream(r, src, p->dst[t * p->hosts + src], p->stage);
        r->d->rounds += p->stage == HEALTH_ROUNDS;
    }
    /* The host of rank 0 hears nobody if it is itself cut off. */
    for (int k = 0; t < p->rounds && k < r->f->hosts; k++)
        r->d->host[k].silent = cut->host == r->d->own
                                   ? k != cut->host
                                   : find_fault(r->f, HEALTH_FAULT_CUT, k) != NULL;
    return t == p->rounds;
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

static void fleet_describe(const struct health_fleet *f, struct health_data *d)
{
    health_data_init(d, f->hosts, NULL);
    d->ranks = f->hosts * f->ranks;
    for (int k = 0; k < f->hosts; k++) {
        d->host[k].ranks = f->ranks;
        if (f->leaf) {
            d->host[k].leaf = k / f->leaf;
            d->host[k].pod = f->pod ? k / f->leaf / f->pod : 0;
        }
        HEALTH_ADD(&d->links) =
            (struct health_link){.host = k,
                                 .name = "ib0",
                                 .up = 1,
                                 .carrier = 1,
                                 .Bps = f->Bps,
                                 .want_Bps = f->Bps,
                                 .packets = 1000000000,
                                 .flaps = find_fault(f, HEALTH_FAULT_FLAP, k) ? 6 : 0,
                                 .since_s = 3600};
    }
    d->level = f->level;
    d->seed = f->seed;
    d->seconds = run_s;
    d->deadline_s = deadline_s;
    d->requested =
        1u << HEALTH_PART_LINKS | 1u << HEALTH_PART_ROUNDS | 1u << HEALTH_PART_LATENCY;
    d->done = 1u << HEALTH_PART_LINKS;
}

int health_fleet_run(const struct health_fleet *f, const struct health_rules *rules,
                     struct health_data *out, struct err *err)
{
    struct health_data d;
    struct run r = {.f = f, .d = &d};
    struct health_plan p;
    int whole = 1, rounds = 1;

    fleet_describe(f, &d);
    while (whole && rounds) {
        if (health_plan(&d, rules, &p, err)) {
            health_data_release(&d);
            return -1;
        }
        unsigned part = 1u << (d.samples.count ? HEALTH_PART_CONFIRM : HEALTH_PART_ROUNDS);
        rounds = p.rounds;
        d.wanted = d.samples.count ? d.wanted : rounds;
        d.requested |= rounds ? part : 0;
        whole = fleet_run_rounds(&r, &p);
        d.done |= whole && rounds ? part : 0;
        health_plan_release(&p);
    }
    if (d.done & 1u << HEALTH_PART_ROUNDS) {
        add_latencies(&r);
        d.done |= 1u << HEALTH_PART_LATENCY;
    }
    *out = d;
    return 0;
}
