/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the format paro-baseline/1 (paro-baseline(5)), in and out. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/yaml.h"
#include "health/health_parts.h"

#define FORMAT "paro-baseline/1"

struct doc_port {
    char *host, *out_Bps, *out_spread, *in_Bps, *in_spread;
};

struct doc {
    char *format;
    struct doc_port *ports;
    unsigned ports_count;
};

enum { NUMBER_BYTES = 40, HOST_BYTES = 255, HOSTS_MOST = 1 << 20 };

#define TEXT(struct_, member_, most_)                                                          \
    CYAML_FIELD_STRING_PTR(#member_, CYAML_FLAG_POINTER, struct struct_, member_, 1, most_)

static const cyaml_schema_field_t port_fields[] = {
    TEXT(doc_port, host, HOST_BYTES),         TEXT(doc_port, out_Bps, NUMBER_BYTES),
    TEXT(doc_port, out_spread, NUMBER_BYTES), TEXT(doc_port, in_Bps, NUMBER_BYTES),
    TEXT(doc_port, in_spread, NUMBER_BYTES),  CYAML_FIELD_END,
};
static const cyaml_schema_value_t port_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct doc_port, port_fields)};
static const cyaml_schema_field_t doc_fields[] = {
    TEXT(doc, format, NUMBER_BYTES),
    CYAML_FIELD_SEQUENCE("ports", CYAML_FLAG_POINTER, struct doc, ports, &port_schema, 1,
                         HOSTS_MOST),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct doc, doc_fields)};

int health_baseline_find(const struct health_baseline *b, const char *host)
{
    for (int k = 0; k < b->hosts; k++)
        if (strcmp(b->host[k], host) == 0)
            return k;
    return -1;
}

/* "ports[3].out_Bps" and its like. */
static int number(const struct yaml *y, int k, const char *key, const char *text, double lo,
                  double hi, double *out, struct err *err)
{
    char path[64];

    snprintf(path, sizeof path, "ports[%d].%s", k, key);
    return yaml_f64(y, path, text, lo, hi, out, err);
}

static int read_port(struct health_baseline *b, const struct yaml *y, int k,
                     const struct doc_port *from, struct err *err)
{
    b->host[b->hosts++] = mem_dup(from->host);
    /* The rates of paro-topology(5); a sample that deviates by itself says nothing. */
    return number(y, k, "out_Bps", from->out_Bps, 1, 1e25, &b->Bps[k][HEALTH_OUT], err) ||
                   number(y, k, "in_Bps", from->in_Bps, 1, 1e25, &b->Bps[k][HEALTH_IN], err) ||
                   number(y, k, "out_spread", from->out_spread, 0, 1, &b->spread[k][HEALTH_OUT],
                          err) ||
                   number(y, k, "in_spread", from->in_spread, 0, 1, &b->spread[k][HEALTH_IN],
                          err)
               ? -1
               : 0;
}

static int by_name_then_place(const void *a, const void *b)
{
    char *const *x = *(char **const *)a, *const *y = *(char **const *)b;
    int order = strcmp(*x, *y);

    return order ? order : (x > y) - (x < y);
}

/* Sorted, since a file may list more hosts than can be compared each with each. */
static int check_hosts(const struct health_baseline *b, const struct yaml *y, struct err *err)
{
    char ***sorted = mem_new((size_t)b->hosts, sizeof *sorted), path[64];
    int rc = 0;

    for (int k = 0; k < b->hosts; k++)
        sorted[k] = &b->host[k];
    qsort(sorted, (size_t)b->hosts, sizeof *sorted, by_name_then_place);
    for (int k = 1; rc == 0 && k < b->hosts; k++) {
        if (strcmp(*sorted[k - 1], *sorted[k]))
            continue;
        snprintf(path, sizeof path, "ports[%d].host", (int)(sorted[k] - b->host));
        rc = yaml_fail(y, path, err, "is '%s' a second time, expected each host once",
                       *sorted[k]);
    }
    mem_free(sorted);
    return rc;
}

static int read_doc(struct health_baseline *b, const struct yaml *y, struct err *err)
{
    struct health_baseline new = {0};
    struct doc *doc = NULL;

    if (yaml_format(y, FORMAT, err) || yaml_load(y, &schema, (void **)&doc, err))
        return -1;
    new.host = mem_new(doc->ports_count, sizeof *new.host);
    new.Bps = mem_new(doc->ports_count, sizeof *new.Bps);
    new.spread = mem_new(doc->ports_count, sizeof *new.spread);
    int rc = 0;
    for (int k = 0; rc == 0 && k < (int)doc->ports_count; k++)
        rc = read_port(&new, y, k, &doc->ports[k], err);
    rc = rc ? rc : check_hosts(&new, y, err);
    yaml_drop(&schema, doc);
    if (rc == 0)
        *b = new;
    else
        health_baseline_release(&new);
    return rc;
}

int health_baseline_read(struct health_baseline *b, const char *path, struct err *err)
{
    struct yaml y;

    if (yaml_read(&y, path, err))
        return -1;
    int rc = read_doc(b, &y, err);
    yaml_release(&y);
    return rc;
}

int health_baseline_parse(struct health_baseline *b, const char *name, const char *text,
                          int64_t bytes, struct err *err)
{
    struct yaml y;
    char *copy = mem_new((size_t)bytes + 1, 1);

    memcpy(copy, text, (size_t)bytes);
    yaml_take(&y, name, copy, bytes);
    int rc = read_doc(b, &y, err);
    yaml_release(&y);
    return rc;
}

void health_baseline_release(struct health_baseline *b)
{
    for (int k = 0; k < b->hosts; k++)
        mem_free(b->host[k]);
    mem_free(b->host);
    mem_free(b->Bps);
    mem_free(b->spread);
    *b = (struct health_baseline){0};
}

/* ---- printing ---- */

static int of_port(const struct health_sample *s, int k, int way, int partner)
{
    return (way == HEALTH_OUT ? s->src : s->dst) == k &&
           (partner < 0 || (way == HEALTH_OUT ? s->dst : s->src) == partner);
}

/*
 * With few hosts a port's rate is that with its best partner: the others' own limits are
 * theirs. With many it is the median over all of them (as in health_judge).
 */
static double rate_of(const struct health_data *d, int k, int way, double *v, double *mad)
{
    int few = d->hosts <= HEALTH_PEERS_LEAST;
    double best = 0;

    *mad = 0;
    for (int o = few ? 0 : -1; o < (few ? d->hosts : 0); o++) {
        int n = 0;
        for (int i = 0; i < d->samples; i++)
            if (of_port(&d->sample[i], k, way, o))
                v[n++] = d->sample[i].Bps;
        double median = n ? stats_median(v, n) : 0;
        if (median > best) {
            best = median;
            *mad = stats_mad(v, n, median);
        }
    }
    return best;
}

/* Four digits: no measurement here knows more. */
static void put(FILE *out, const char *key, double v)
{
    fprintf(out, "    %s: %.4g\n", key, v);
}

static void put_rate(FILE *out, const char *key, double Bps)
{
    double unit = 1;

    while (Bps / unit >= 9999.5)
        unit *= 10;
    fprintf(out, "    %s: %.0f\n", key, (double)(int64_t)(Bps / unit + 0.5) * unit);
}

void health_baseline_print(const struct health_data *d, FILE *out)
{
    double *v = mem_new((size_t)d->samples, sizeof *v);

    fprintf(out, "format: " FORMAT "\nports:\n");
    for (int k = 0; k < d->hosts; k++) {
        fputs("  - host: ", out);
        yaml_put_text(out, d->host[k]);
        putc('\n', out);
        for (int way = 0; way < 2; way++) {
            double mad = 0, Bps = rate_of(d, k, way, v, &mad);
            double spread = Bps > 0 ? mad / Bps : 0;
            put_rate(out, way == HEALTH_OUT ? "out_Bps" : "in_Bps", Bps);
            put(out, way == HEALTH_OUT ? "out_spread" : "in_spread", spread > 1 ? 1 : spread);
        }
    }
    mem_free(v);
}
