/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a baseline is made of what was measured: paro-baseline/2 (paro-baseline(5)). */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "health/health_folder.h"
#include "health/health_look.h"
#include "health/health_sum.h"

struct learnt {
    const struct health_data *d;
    double rate[HEALTH_PATHS]; /* on paths of a class; 0: none */
    int commonest;
    double (*Bps)[2], (*spread)[2]; /* [hosts] on the commonest path */
    double *latency_s;              /* [hosts] */
};

/* Each sample as it would be on the commonest path; a port is what it is in a verdict. */
static void learn_rates(struct learnt *l)
{
    const struct health_data *d = l->d;
    int(*pair)[2] = mem_new((size_t)d->samples.count + 1, sizeof *pair), n;
    double *Bps = mem_new((size_t)d->samples.count + 1, sizeof *Bps);
    struct health_ends e = {.ends = d->hosts,
                            .ways = 2,
                            .samples = d->samples.count,
                            .pair = pair,
                            .few = d->hosts <= HEALTH_PEERS_LEAST};

    l->commonest = health_path_rates(d, NULL, l->rate);
    for (int i = 0; i < d->samples.count; i++) {
        const struct health_sample *s = &d->samples.at[i];
        pair[i][0] = s->src;
        pair[i][1] = s->dst;
        Bps[i] = s->Bps * l->rate[l->commonest] / l->rate[health_path(d, s->src, s->dst)];
    }
    health_ends_index(&e);
    for (int k = 0; k < d->hosts; k++)
        for (int way = 0; way < 2; way++) {
            double v = e.few ? health_ends_best(&e, k, way, Bps, &n)
                             : health_ends_median(&e, k, way, Bps, &n);
            l->Bps[k][way] = n ? v : 0;
            double share = n ? health_ends_deviation(&e, k, way, Bps) / v : 0;
            l->spread[k][way] = share > 1 ? 1 : share;
        }
    health_ends_release(&e);
    mem_free(pair);
    mem_free(Bps);
}

static void learn_latencies(struct learnt *l)
{
    const struct health_data *d = l->d;
    int(*pair)[2] = mem_new((size_t)d->latencies.count + 1, sizeof *pair), n;
    double *speed = mem_new((size_t)d->latencies.count + 1, sizeof *speed);
    struct health_ends e = {
        .ends = d->hosts, .ways = 1, .samples = d->latencies.count, .pair = pair};

    for (int i = 0; i < d->latencies.count; i++) {
        pair[i][0] = d->latencies.at[i].src;
        pair[i][1] = d->latencies.at[i].dst;
        speed[i] = 1 / d->latencies.at[i].s;
    }
    health_ends_index(&e);
    for (int k = 0; k < d->hosts; k++) {
        double v = d->hosts <= HEALTH_PEERS_LEAST ? health_ends_best(&e, k, 0, speed, &n)
                                                  : health_ends_median(&e, k, 0, speed, &n);
        l->latency_s[k] = n ? 1 / v : 0;
    }
    health_ends_release(&e);
    mem_free(pair);
    mem_free(speed);
}

static struct learnt learn(const struct health_data *d)
{
    size_t hosts = (size_t)d->hosts;
    struct learnt l = {.d = d};

    l.Bps = mem_new(hosts, sizeof *l.Bps);
    l.spread = mem_new(hosts, sizeof *l.spread);
    l.latency_s = mem_new(hosts, sizeof *l.latency_s);
    learn_rates(&l);
    learn_latencies(&l);
    return l;
}

static void unlearn(struct learnt *l)
{
    mem_free(l->Bps);
    mem_free(l->spread);
    mem_free(l->latency_s);
}

/* ---- as text ---- */

/* Four digits: more are not known. */
static void put_rate(FILE *out, const char *key, double Bps)
{
    double unit = 1;

    while (Bps / unit >= 9999.5)
        unit *= 10;
    fprintf(out, "    %s: %.0f\n", key, (double)(int64_t)(Bps / unit + 0.5) * unit);
}

static void put_port(const struct learnt *l, int k, FILE *out)
{
    static const char *const rate[] = {"out_Bps", "in_Bps"}, *const spread[] = {"out_spread",
                                                                                "in_spread"};

    fputs("  - host: ", out);
    yaml_put_text(out, l->d->host[k].name);
    fprintf(out, "\n    ranks: %d\n", l->d->host[k].ranks);
    for (int way = 0; way < 2; way++) {
        put_rate(out, rate[way], fmax(1, l->Bps[k][way]));
        fprintf(out, "    %s: %.4g\n", spread[way], l->spread[k][way]);
    }
    fprintf(out, "    latency_s: %.4g\n", l->latency_s[k]);
}

void health_baseline_print(const struct health_data *d, FILE *out)
{
    struct learnt l = learn(d);
    char *text = NULL, hex[HEALTH_SUM];
    size_t bytes = 0;
    FILE *f = mem_stream(&text, &bytes);

    fprintf(f, "format: paro-baseline/2\nwhen_s: %" PRId64 "\n%spaths:\n", d->when_s,
            d->gpus.count ? "device: cuda\n" : "");
    for (int path = 0; path < HEALTH_PATHS; path++)
        if (l.rate[path] > 0 || (path == 0 && d->samples.count == 0))
            fprintf(f, "  - path: %d\n    ratio: %.4g\n", path,
                    d->samples.count ? l.rate[path] / l.rate[l.commonest] : 1);
    fputs("ports:\n", f);
    for (int k = 0; k < d->hosts; k++)
        put_port(&l, k, f);
    fclose(f);
    health_sum(text, (int64_t)bytes, hex);
    fwrite(text, 1, bytes, out);
    fprintf(out, "checksum: %s\n", hex);
    mem_free(text);
    unlearn(&l);
}

/* ---- as a file ---- */

/* The port that would change most, in words. */
static int say_change(const struct health_data *d, const char *path, struct err *err)
{
    struct health_baseline old = {0};
    struct learnt l;
    double most = 0, was = 0, is = 0;
    int host = -1, where = 0;

    if (health_baseline_read(&old, path, err) || health_baseline_check(&old, d, err))
        goto end;
    l = learn(d);
    int *at = health_baseline_places(&old, d);
    for (int k = 0; k < d->hosts; k++)
        for (int way = 0; way < 2; way++) {
            double off = fabs(log(l.Bps[k][way] / old.Bps[at[k]][way]));
            if (host >= 0 && off <= most)
                continue;
            most = off;
            host = k;
            where = way;
            was = old.Bps[at[k]][way];
            is = l.Bps[k][way];
        }
    mem_free(at);
    unlearn(&l);
    err_set(err, ERR_MISMATCH,
            "'%s' exists; the largest change is %s %s, from %.4g to %.4g GB/s", path,
            d->host[host].name, where == HEALTH_OUT ? "out" : "in", was / 1e9, is / 1e9);
end:
    health_baseline_release(&old);
    return -1;
}

/* What stands at `path` and is no baseline, of whatever version, was not meant. */
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
    struct io_out out;

    if (!accept && access(path, F_OK) == 0) {
        say_change(d, path, err);
        return err_prefix(err, "expected --accept-baseline: ");
    }
    if (check_replaced(path, err) || health_file_create(&out, path, accept, err))
        return -1;
    health_baseline_print(d, out.file);
    return health_file_commit(&out, err);
}
