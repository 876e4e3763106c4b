/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes baselines, paro-baseline/2 (paro-baseline(5)), and learns one from
   samples. */
#include "health/health_baseline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "health/health_analysis.h"

#define RATIO_MOST 1e3 /* largest ratio of two paths' rates */

/* ---- the file ---- */

#define B struct health_baseline
static const char *const devices[] = {"cpu", "cuda", NULL};
static const struct record head[] = {
    RECORD_INT(B, when_s, "when_s", 0, INT64_C(1) << 40),
    RECORD(CHOICE, B, gpu, "device", .words = devices,
           .flags = RECORD_OPTIONAL | RECORD_ABSENT | RECORD_ZERO),
    {0}};

#define E struct health_expected
/* Rates of paro-topology(5); the spread of a sample that has no other is 1. */
static const struct record port_fields[] = {
    HEALTH_NAME(E, host, "host"),
    RECORD_INT(E, ranks, "ranks", 1, INT32_MAX),
    RECORD_NUM(E, Bps[HEALTH_OUT], "out_Bps", 1, 1e25),
    RECORD_NUM(E, spread[HEALTH_OUT], "out_spread", 0, 1),
    RECORD_NUM(E, Bps[HEALTH_IN], "in_Bps", 1, 1e25),
    RECORD_NUM(E, spread[HEALTH_IN], "in_spread", 0, 1),
    RECORD_NUM(E, latency_s, "latency_s", 0, 1e9),
    {0}};

static const struct record path_fields[] = {
    RECORD_INT(struct health_ratio, path, "path", 0, HEALTH_PATHS - 1),
    RECORD_NUM(struct health_ratio, ratio, "ratio", 1 / RATIO_MOST, RATIO_MOST),
    {0}};

static const char *check_path(void *whole, void *item, const char **key)
{
    const struct health_ratio *p = item;
    double *ratio = &((struct health_baseline *)whole)->path_ratio[p->path];

    *key = "path";
    if (*ratio > 0)
        return "is there a second time, expected each path once";
    *ratio = p->ratio;
    return NULL;
}

static const struct health_kind kinds[] = {{.key = "path",
                                            .list = "paths",
                                            .field = path_fields,
                                            HEALTH_LISTED(B, paths),
                                            .most = HEALTH_PATHS,
                                            .check = check_path},
                                           {.key = "host",
                                            .list = "ports",
                                            .field = port_fields,
                                            HEALTH_ITEMS(B, port, hosts, space),
                                            .most = 1 << 20,
                                            .unique = 1},
                                           {0}};

static const char *baseline_check_whole(void *whole, const char **key)
{
    const struct health_baseline *b = whole;

    *key = b->hosts ? "paths" : "ports";
    return b->hosts && b->paths.count ? NULL : "is empty";
}

static void baseline_release(void *whole)
{
    health_baseline_release(whole);
}

const struct health_store health_baseline_store = {.format = "paro-baseline/2",
                                                   .yaml = 1,
                                                   .bytes_most = 256 << 20,
                                                   .head = head,
                                                   .kind = kinds,
                                                   .size = sizeof(B),
                                                   .check = baseline_check_whole,
                                                   .release = baseline_release};

void health_baseline_release(struct health_baseline *b)
{
    mem_free(b->port);
    mem_free(b->paths.at);
    *b = (struct health_baseline){0};
}

/* ---- hosts by name ---- */

static int baseline_by_host(const void *a, const void *b)
{
    return strcmp((*(const struct health_expected *const *)a)->host,
                  (*(const struct health_expected *const *)b)->host);
}

int *health_baseline_places(const struct health_baseline *b, const struct health_data *d)
{
    const struct health_expected **sorted = mem_new((size_t)b->hosts + 1, sizeof *sorted);
    int *place = mem_new((size_t)d->hosts, sizeof *place);
    struct health_expected wanted;
    const struct health_expected *key = &wanted;

    for (int k = 0; k < b->hosts; k++)
        sorted[k] = &b->port[k];
    qsort(sorted, (size_t)b->hosts, sizeof *sorted, baseline_by_host);
    for (int k = 0; k < d->hosts; k++) {
        memcpy(wanted.host, d->host[k].name, sizeof wanted.host);
        const struct health_expected *const *found =
            bsearch(&key, sorted, (size_t)b->hosts, sizeof *sorted, baseline_by_host);
        place[k] = found ? (int)(*found - b->port) : -1;
    }
    mem_free(sorted);
    return place;
}

int health_baseline_check(const struct health_baseline *b, const struct health_data *d,
                          struct err *err)
{
    static const char *const memory[] = {"hosts", "GPUs"};
    int *place = health_baseline_places(b, d), rc = 0, gpu = d->gpus.count > 0;

    if (b->gpu != gpu)
        rc = err_set(
            err, ERR_MISMATCH,
            "the baseline is of the memory of %s, expected that of %s (--learn%s makes a"
            " new one)",
            memory[b->gpu], memory[gpu], gpu ? " --device cuda" : "");
    for (int k = 0; rc == 0 && k < d->hosts; k++) {
        const struct health_host *h = &d->host[k];
        if (place[k] < 0)
            rc = err_set(err, ERR_MISMATCH,
                         "the baseline has no host '%s', expected every host that is checked"
                         " (--learn makes a new one)",
                         h->name);
        else if (b->port[place[k]].ranks != h->ranks)
            rc = err_set(err, ERR_MISMATCH,
                         "the baseline has host '%s' with %d ranks, found %d: it is of another"
                         " run (--learn makes a new one)",
                         h->name, b->port[place[k]].ranks, h->ranks);
    }
    mem_free(place);
    return rc;
}

/* ---- learning ---- */

/* Rounds to four digits: the measurement has no more. */
static double round_4(double v)
{
    char text[40];

    snprintf(text, sizeof text, "%.3e", v);
    return strtod(text, NULL);
}

/*
 * Learns ports: scales each sample to the most common class, whose rate is `rate` of it, and
 * computes a port as a verdict does.
 */
static void learn_ports(struct health_baseline *b, const struct health_data *d,
                        const double rate[HEALTH_PATHS], int commonest)
{
    const int few = d->hosts <= HEALTH_PEERS_LEAST;
    struct health_ends rates = {.ends = d->hosts, .ways = 2, .few = few},
                       latencies = {.ends = d->hosts, .ways = 1, .few = few};
    int n;

    for (int i = 0; i < d->samples.count; i++) {
        const struct health_sample *s = &d->samples.at[i];
        double Bps = s->Bps * rate[commonest] / rate[health_path(d, s->src, s->dst)];
        health_ends_add(&rates, s->src, s->dst, Bps, 0);
    }
    for (int i = 0; i < d->latencies.count; i++) {
        const struct health_latency *l = &d->latencies.at[i];
        health_ends_add(&latencies, l->src, l->dst, 1 / l->s, 0);
    }
    health_ends_index(&rates);
    health_ends_index(&latencies);
    for (int k = 0; k < d->hosts; k++) {
        struct health_expected *e = &b->port[k];
        memcpy(e->host, d->host[k].name, sizeof e->host);
        e->ranks = d->host[k].ranks;
        for (int way = 0; way < 2; way++) {
            double v = health_ends_level(&rates, k, way, &n);
            double share = n ? health_ends_deviation(&rates, k, way) / v : 0;
            e->Bps[way] = n ? round_4(fmax(1, v)) : 1;
            e->spread[way] = round_4(fmin(1, share));
        }
        double v = health_ends_level(&latencies, k, 0, &n);
        e->latency_s = n ? round_4(1 / v) : 0;
    }
    health_ends_release(&rates);
    health_ends_release(&latencies);
}

struct health_baseline health_baseline_learn(const struct health_data *d)
{
    struct health_baseline b = {
        .when_s = d->when_s, .gpu = d->gpus.count > 0, .hosts = d->hosts};
    double rate[HEALTH_PATHS];
    int commonest = health_path_rates(d, NULL, rate);

    b.port = mem_new((size_t)d->hosts, sizeof *b.port);
    for (int i = 0; i < HEALTH_PATHS; i++)
        if (rate[i] > 0) { /* clamp the ratio of longer paths to the most that a baseline
                              holds */
            double ratio = fmax(round_4(rate[i] / rate[commonest]), 1 / RATIO_MOST);
            HEALTH_ADD(&b.paths) = (struct health_ratio){i, fmin(ratio, RATIO_MOST)};
        }
    if (b.paths.count == 0)
        HEALTH_ADD(&b.paths) = (struct health_ratio){0, 1};
    learn_ports(&b, d, rate, commonest);
    return b;
}

void health_baseline_print(const struct health_data *d, FILE *out)
{
    struct health_baseline b = health_baseline_learn(d);

    health_store_print(&health_baseline_store, &b, out);
    health_baseline_release(&b);
}

/* Sets err to the port that would change most. */
static void describe_change(const struct health_data *d, const struct health_baseline *new,
                            const char *path, struct err *err)
{
    struct health_baseline old;
    int host = 0, where = 0;
    double most = -1;

    if (health_store_read(&health_baseline_store, path, &old, err))
        return;
    if (health_baseline_check(&old, d, err) == 0) {
        int *at = health_baseline_places(&old, d);
        for (int k = 0; k < d->hosts; k++)
            for (int way = 0; way < 2; way++) {
                double change = fabs(log(new->port[k].Bps[way] / old.port[at[k]].Bps[way]));
                if (change <= most)
                    continue;
                most = change;
                host = k;
                where = way;
            }
        err_set(err, ERR_MISMATCH,
                "'%s' exists; the largest change is %s %s, from %.4g to %.4g GB/s", path,
                d->host[host].name, health_way[where], old.port[at[host]].Bps[where] / 1e9,
                new->port[host].Bps[where] / 1e9);
        mem_free(at);
    }
    health_baseline_release(&old);
}

/* Refuses to replace a file at `path` that is no baseline of any version. */
static int check_replaced(const char *path, struct err *err)
{
    static const char format[] = "format: paro-baseline/";
    char first[sizeof format] = "";
    FILE *f = fopen(path, "re");

    if (!f)
        return errno == ENOENT ? 0 : err_sys(err, "cannot read '%s'", path);
    size_t n = fread(first, 1, sizeof format - 1, f);
    fclose(f);
    if (n == sizeof format - 1 && strcmp(first, format) == 0)
        return 0;
    return err_set(err, ERR_INPUT,
                   "'%s' is not a baseline, expected one to replace, or a new name", path);
}

int health_baseline_write(const struct health_data *d, const char *path, int accept,
                          struct err *err)
{
    struct health_baseline b = health_baseline_learn(d);
    int rc = -1;

    if (!accept && access(path, F_OK) == 0) {
        describe_change(d, &b, path, err);
        err_prefix(err, "expected --accept-baseline: ");
    } else if (check_replaced(path, err) == 0) {
        rc = health_store_write(&health_baseline_store, &b, path, accept, err);
    }
    health_baseline_release(&b);
    return rc;
}
