/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a baseline is read: paro-baseline/2 (paro-baseline(5)).  Its last line is the
 * checksum of all before it, so that half of a file is none, and nobody mends one by hand.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/yaml.h"
#include "health/health_baseline.h"
#include "health/health_sum.h"

#define FORMAT "paro-baseline/2"

struct doc_port {
    char *host, *ranks, *out_Bps, *out_spread, *in_Bps, *in_spread, *latency_s;
};

struct doc_path {
    char *path, *ratio;
};

struct doc {
    char *format, *when_s, *device, *checksum;
    struct doc_port *ports;
    unsigned ports_count;
    struct doc_path *paths;
    unsigned paths_count;
};

enum { NUMBER_BYTES = 40, HOST_BYTES = 255, HOSTS_MOST = 1 << 20 };
static const char tail[] = "\nchecksum: ";

#define TEXT(struct_, member_, most_)                                                          \
    CYAML_FIELD_STRING_PTR(#member_, CYAML_FLAG_POINTER, struct struct_, member_, 1, most_)

static const cyaml_schema_field_t port_fields[] = {
    TEXT(doc_port, host, HOST_BYTES),         TEXT(doc_port, out_Bps, NUMBER_BYTES),
    TEXT(doc_port, out_spread, NUMBER_BYTES), TEXT(doc_port, in_Bps, NUMBER_BYTES),
    TEXT(doc_port, in_spread, NUMBER_BYTES),  TEXT(doc_port, ranks, NUMBER_BYTES),
    TEXT(doc_port, latency_s, NUMBER_BYTES),  CYAML_FIELD_END,
};
static const cyaml_schema_field_t path_fields[] = {
    TEXT(doc_path, path, NUMBER_BYTES), TEXT(doc_path, ratio, NUMBER_BYTES), CYAML_FIELD_END};
static const cyaml_schema_value_t path_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct doc_path, path_fields)};
static const cyaml_schema_value_t port_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct doc_port, port_fields)};
static const cyaml_schema_field_t doc_fields[] = {
    TEXT(doc, format, NUMBER_BYTES),
    TEXT(doc, when_s, NUMBER_BYTES),
    CYAML_FIELD_STRING_PTR("device", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct doc,
                           device, 1, NUMBER_BYTES),
    TEXT(doc, checksum, NUMBER_BYTES),
    CYAML_FIELD_SEQUENCE("paths", CYAML_FLAG_POINTER, struct doc, paths, &path_schema, 1,
                         HEALTH_PATHS),
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
    char path[64];
    int64_t ranks = 0;

    b->host[b->hosts++] = mem_dup(from->host);
    snprintf(path, sizeof path, "ports[%d].ranks", k);
    if (yaml_i64(y, path, from->ranks, 1, INT32_MAX, &ranks, err) ||
        number(y, k, "latency_s", from->latency_s, 0, 1e9, &b->latency_s[k], err))
        return -1;
    b->ranks[k] = (int)ranks;
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

/* What paths of a class have beside the commonest. */
static int read_path(struct health_baseline *b, const struct yaml *y, int i,
                     const struct doc_path *from, struct err *err)
{
    char path[64];
    int64_t class = 0;

    snprintf(path, sizeof path, "paths[%d].path", i);
    if (yaml_i64(y, path, from->path, 0, HEALTH_PATHS - 1, &class, err))
        return -1;
    if (b->path_ratio[class] > 0)
        return yaml_fail(y, path, err, "is %d a second time, expected each path once",
                         (int)class);
    snprintf(path, sizeof path, "paths[%d].ratio", i);
    return yaml_f64(y, path, from->ratio, 1e-3, 1e3, &b->path_ratio[class], err);
}

/* ---- hosts by name ---- */

static int by_name_then_place(const void *a, const void *b)
{
    char *const *x = *(char **const *)a, *const *y = *(char **const *)b;
    int order = strcmp(*x, *y);

    return order ? order : (x > y) - (x < y);
}

/* Sorted, since a file may list more hosts than can be compared each with each. */
static char ***sort_hosts(const struct health_baseline *b)
{
    char ***sorted = mem_new((size_t)b->hosts + 1, sizeof *sorted);

    for (int k = 0; k < b->hosts; k++)
        sorted[k] = &b->host[k];
    qsort(sorted, (size_t)b->hosts, sizeof *sorted, by_name_then_place);
    return sorted;
}

static int check_hosts(const struct health_baseline *b, const struct yaml *y, struct err *err)
{
    char ***sorted = sort_hosts(b), path[64];
    int rc = 0;

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

int *health_baseline_places(const struct health_baseline *b, const struct health_data *d)
{
    char ***sorted = sort_hosts(b);
    int *place = mem_new((size_t)d->hosts, sizeof *place);

    for (int k = 0; k < d->hosts; k++) {
        int lo = 0, hi = b->hosts;
        while (lo < hi) {
            int half = lo + (hi - lo) / 2;
            if (strcmp(*sorted[half], d->host[k].name) < 0)
                lo = half + 1;
            else
                hi = half;
        }
        place[k] = lo < b->hosts && strcmp(*sorted[lo], d->host[k].name) == 0
                       ? (int)(sorted[lo] - b->host)
                       : -1;
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
        else if (b->ranks[place[k]] != h->ranks)
            rc = err_set(err, ERR_MISMATCH,
                         "the baseline has host '%s' with %d ranks, found %d: it is of another"
                         " run (--learn makes a new one)",
                         h->name, b->ranks[place[k]], h->ranks);
    }
    mem_free(place);
    return rc;
}

/* ---- the file ---- */

static int check_sum(const struct yaml *y, struct err *err)
{
    /* tail, 32 digits, newline */
    int64_t before = y->bytes - (int64_t)(sizeof tail - 1) - 33;
    char hex[HEALTH_SUM];

    if (before < 0 || memcmp(y->text + before, tail, sizeof tail - 1) ||
        y->text[y->bytes - 1] != '\n')
        return err_at(err, y->name, 0, NULL,
                      "does not end with its checksum: it is no baseline, or cut short");
    health_sum(y->text, before + 1, hex);
    if (memcmp(hex, y->text + y->bytes - 33, 32))
        return err_at(err, y->name, 0, NULL, "is damaged: its checksum is not %s", hex);
    return 0;
}

static int read_parts(struct health_baseline *b, const struct yaml *y, const struct doc *doc,
                      struct err *err)
{
    if (yaml_i64(y, "when_s", doc->when_s, 0, INT64_C(1) << 40, &b->when_s, err))
        return -1;
    if (doc->device && strcmp(doc->device, "cuda"))
        return yaml_fail(y, "device", err, "is '%s', expected cuda, or no device", doc->device);
    b->gpu = doc->device != NULL;
    b->host = mem_new(doc->ports_count, sizeof *b->host);
    b->ranks = mem_new(doc->ports_count, sizeof *b->ranks);
    b->Bps = mem_new(doc->ports_count, sizeof *b->Bps);
    b->spread = mem_new(doc->ports_count, sizeof *b->spread);
    b->latency_s = mem_new(doc->ports_count, sizeof *b->latency_s);
    for (int i = 0; i < (int)doc->paths_count; i++)
        if (read_path(b, y, i, &doc->paths[i], err))
            return -1;
    for (int k = 0; k < (int)doc->ports_count; k++)
        if (read_port(b, y, k, &doc->ports[k], err))
            return -1;
    return check_hosts(b, y, err);
}

static int read_doc(struct health_baseline *b, const struct yaml *y, struct err *err)
{
    struct health_baseline new = {0};
    struct doc *doc = NULL;

    if (yaml_format(y, FORMAT, err) || check_sum(y, err) ||
        yaml_load(y, &schema, (void **)&doc, err))
        return -1;
    int rc = read_parts(&new, y, doc, err);
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
    mem_free(b->ranks);
    mem_free(b->Bps);
    mem_free(b->spread);
    mem_free(b->latency_s);
    *b = (struct health_baseline){0};
}
