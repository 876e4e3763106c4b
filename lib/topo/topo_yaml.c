/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the format paro-topology/1 (paro-topology(5)), in and out: what is printed reads back
 * as the same fabric and prints as the same text.
 */
#include "topo/topo_print.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/yaml.h"

#define FORMAT "paro-topology/1"

struct doc_level {
    char *name, *latency_s, *port_Bps, *flow_Bps, *member_Bps, *message_s;
    char *latency_err_s, *port_err_Bps, *flow_err_Bps, *member_err_Bps;
    char *rate_left, *compute_left, *use_lost_s, *rate_source, *latency_source;
};

struct doc_group {
    char *host, *port_out_Bps, *port_in_Bps, *numa_nodes, *gpus, *nics, *gpu_name;
    char **ranks, **blocks;
    unsigned ranks_count, blocks_count;
};

struct doc {
    char *format, *device, *transport, *memory_bytes, *flops, *compute_type, *memory_Bps;
    struct doc_level *levels;
    unsigned levels_count;
    struct doc_group *groups;
    unsigned groups_count;
};

enum { NUMBER_BYTES = 40, HOST_BYTES = 255 };

#define TEXT(struct_, member_, flags_, least_, most_)                                          \
    CYAML_FIELD_STRING_PTR(#member_, CYAML_FLAG_POINTER | (flags_), struct struct_, member_,   \
                           least_, most_)
#define NUMBER(struct_, member_, flags_) TEXT(struct_, member_, flags_, 1, NUMBER_BYTES)

static const cyaml_schema_value_t number_schema = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 1, NUMBER_BYTES)};
static const cyaml_schema_field_t level_fields[] = {
    TEXT(doc_level, name, 0, 1, sizeof((struct topo_level *)NULL)->name - 1),
    NUMBER(doc_level, latency_s, 0),
    NUMBER(doc_level, port_Bps, 0),
    NUMBER(doc_level, flow_Bps, 0),
    NUMBER(doc_level, member_Bps, 0),
    NUMBER(doc_level, message_s, CYAML_FLAG_OPTIONAL),
    NUMBER(doc_level, latency_err_s, CYAML_FLAG_OPTIONAL),
    NUMBER(doc_level, port_err_Bps, CYAML_FLAG_OPTIONAL),
    NUMBER(doc_level, flow_err_Bps, CYAML_FLAG_OPTIONAL),
    NUMBER(doc_level, member_err_Bps, CYAML_FLAG_OPTIONAL),
    NUMBER(doc_level, rate_left, CYAML_FLAG_OPTIONAL),
    NUMBER(doc_level, compute_left, CYAML_FLAG_OPTIONAL),
    NUMBER(doc_level, use_lost_s, CYAML_FLAG_OPTIONAL),
    TEXT(doc_level, rate_source, CYAML_FLAG_OPTIONAL, 1, TOPO_SOURCE_BYTES - 1),
    TEXT(doc_level, latency_source, CYAML_FLAG_OPTIONAL, 1, TOPO_SOURCE_BYTES - 1),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t level_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct doc_level, level_fields)};
static const cyaml_schema_field_t group_fields[] = {
    TEXT(doc_group, host, CYAML_FLAG_OPTIONAL, 1, HOST_BYTES),
    CYAML_FIELD_SEQUENCE("ranks", CYAML_FLAG_POINTER, struct doc_group, ranks, &number_schema,
                         1, GROUPS_RANKS_MAX),
    NUMBER(doc_group, port_out_Bps, CYAML_FLAG_OPTIONAL),
    NUMBER(doc_group, port_in_Bps, CYAML_FLAG_OPTIONAL),
    CYAML_FIELD_SEQUENCE("blocks", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct doc_group,
                         blocks, &number_schema, 1, TOPO_LEVELS_MAX),
    NUMBER(doc_group, numa_nodes, CYAML_FLAG_OPTIONAL),
    NUMBER(doc_group, gpus, CYAML_FLAG_OPTIONAL),
    NUMBER(doc_group, nics, CYAML_FLAG_OPTIONAL),
    TEXT(doc_group, gpu_name, CYAML_FLAG_OPTIONAL, 1, TOPO_NAME_BYTES - 1),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t group_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct doc_group, group_fields)};
static const cyaml_schema_field_t doc_fields[] = {
    TEXT(doc, format, 0, 1, NUMBER_BYTES),
    CYAML_FIELD_SEQUENCE("levels", CYAML_FLAG_POINTER, struct doc, levels, &level_schema, 2,
                         TOPO_LEVELS_MAX),
    TEXT(doc, device, CYAML_FLAG_OPTIONAL, 1, NUMBER_BYTES),
    TEXT(doc, transport, CYAML_FLAG_OPTIONAL, 1, NUMBER_BYTES),
    NUMBER(doc, memory_bytes, CYAML_FLAG_OPTIONAL),
    NUMBER(doc, flops, CYAML_FLAG_OPTIONAL),
    TEXT(doc, compute_type, CYAML_FLAG_OPTIONAL, 1, NUMBER_BYTES),
    NUMBER(doc, memory_Bps, CYAML_FLAG_OPTIONAL),
    CYAML_FIELD_SEQUENCE("groups", CYAML_FLAG_POINTER, struct doc, groups, &group_schema, 1,
                         GROUPS_RANKS_MAX),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct doc, doc_fields)};

/* What a level may say beside its rates, in the order printed; 0 there: it does not say. */
static const struct extra {
    const char *key;
    size_t from, to; /* a text in doc_level, a double in topo_level */
    double least, most;
} extras[] = {
#define EXTRA(key_, least_, most_)                                                             \
    {                                                                                          \
#key_, offsetof(struct doc_level, key_), offsetof(struct topo_level, key_), least_,    \
            most_                                                                              \
    }
    EXTRA(message_s, 0, TOPO_LATENCY_MAX_S),     EXTRA(latency_err_s, 0, TOPO_LATENCY_MAX_S),
    EXTRA(port_err_Bps, 0, TOPO_RATE_MAX_BPS),   EXTRA(flow_err_Bps, 0, TOPO_RATE_MAX_BPS),
    EXTRA(member_err_Bps, 0, TOPO_RATE_MAX_BPS), EXTRA(rate_left, TOPO_LEFT_MIN, 1),
    EXTRA(compute_left, TOPO_LEFT_MIN, 1),       EXTRA(use_lost_s, 0, TOPO_LATENCY_MAX_S),
#undef EXTRA
};
enum { EXTRAS = sizeof extras / sizeof *extras };

/* ---- reading ---- */

struct path {
    char text[80];
};

static const char *path_of(struct path *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static const char *path_of(struct path *p, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(p->text, sizeof p->text, fmt, ap);
    va_end(ap);
    return p->text;
}

/* Names and hosts are printed on terminals. */
static int check_word(const struct yaml *y, const char *path, const char *text, struct err *err)
{
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return yaml_fail(y, path, err, "has a control character in it, expected text");
    return 0;
}

/* Rank j of group k enters of[]; `before` is the rank listed before it in its group, or -1. */
static int read_rank(const struct yaml *y, const struct doc *doc, int k, int j, int n, int *of,
                     int64_t *before, struct err *err)
{
    struct path p;
    const char *at = path_of(&p, "groups[%d].ranks[%d]", k, j);
    int64_t rank = 0;

    if (yaml_i64(y, at, doc->groups[k].ranks[j], 0, GROUPS_RANKS_MAX, &rank, err))
        return -1;
    if (rank >= n)
        return yaml_fail(y, at, err,
                         "is rank %" PRId64 ", expected 0 to %d, since the groups"
                         " list %d ranks",
                         rank, n - 1, n);
    if (of[rank] >= 0 && of[rank] != k)
        return yaml_fail(y, at, err,
                         "is rank %" PRId64 ", which groups[%d] has too, expected"
                         " each rank once",
                         rank, of[rank]);
    if (rank <= *before)
        return yaml_fail(y, at, err,
                         "is rank %" PRId64 " after rank %" PRId64 ", expected the"
                         " ranks of a group to ascend",
                         rank, *before);
    of[rank] = k;
    *before = rank;
    return 0;
}

/* *ranks and *group_of (owned by the caller): each rank once, ascending in its group. */
static int read_ranks(const struct yaml *y, const struct doc *doc, int *ranks, int **group_of,
                      struct err *err)
{
    int64_t n = 0;

    for (unsigned k = 0; k < doc->groups_count; k++)
        n += doc->groups[k].ranks_count;
    if (n > GROUPS_RANKS_MAX)
        return yaml_fail(y, "groups", err, "have %" PRId64 " ranks, expected %d at most", n,
                         GROUPS_RANKS_MAX);
    int *of = mem_new((size_t)n, sizeof *of);
    for (int64_t r = 0; r < n; r++)
        of[r] = -1;
    for (int k = 0; k < (int)doc->groups_count; k++) {
        int64_t before = -1;
        for (int j = 0; j < (int)doc->groups[k].ranks_count; j++) {
            if (read_rank(y, doc, k, j, (int)n, of, &before, err)) {
                mem_free(of);
                return -1;
            }
        }
    }
    /* n different numbers below n: none is missing. */
    *ranks = (int)n;
    *group_of = of;
    return 0;
}

static int read_rate(const struct yaml *y, const char *path, const char *text, double *out,
                     struct err *err)
{
    return yaml_f64(y, path, text, TOPO_RATE_MIN_BPS, TOPO_RATE_MAX_BPS, out, err);
}

/* One of the 2^20 ranks that may share a port of the least rate has less than 1 B/s. */
#define MEMBER_MIN_BPS 1e-7

static int read_member(const struct yaml *y, const char *path, const char *text, double *out,
                       struct err *err)
{
    return yaml_f64(y, path, text, MEMBER_MIN_BPS, TOPO_RATE_MAX_BPS, out, err);
}

static int read_source(const struct yaml *y, const char *path, const char *text,
                       char to[TOPO_SOURCE_BYTES], struct err *err)
{
    if (!text)
        return 0;
    snprintf(to, TOPO_SOURCE_BYTES, "%s", text);
    return check_word(y, path, text, err);
}

static int read_extras(struct topo_level *to, int l, const struct yaml *y,
                       const struct doc_level *from, struct err *err)
{
    struct path p;

    for (int i = 0; i < EXTRAS; i++) {
        const struct extra *e = &extras[i];
        const char *text = *(char *const *)(const void *)((const char *)from + e->from);
        double *value = (double *)(void *)((char *)to + e->to);
        if (text && yaml_f64(y, path_of(&p, "levels[%d].%s", l, e->key), text, e->least,
                             e->most, value, err))
            return -1;
    }
    return 0;
}

/*
 * What one of a port's members has when all send passes the port.  Beyond what one measurement
 * differs from the next (TOPO_SLOW_SHARE) more is no fabric but a slip, as bits for bytes.  At
 * level 0, and at level 1 of one group, which repeats it, the two are a rank's own rate alone
 * and in company, measured apart: no port is shared.
 */
static int check_share(const struct topo *t, int l, const struct yaml *y, const char *path,
                       struct err *err)
{
    const struct topo_level *v = &t->level[l];

    if (l == 0 || t->groups.count == 1 || v->member_Bps * TOPO_SLOW_SHARE <= v->port_Bps)
        return 0;
    return yaml_fail(y, path, err,
                     "is %.6g, expected at most port_Bps, %.6g, which all members share",
                     v->member_Bps, v->port_Bps);
}

static int read_level(struct topo *t, int l, const struct yaml *y, const struct doc *doc,
                      struct err *err)
{
    const struct doc_level *from = &doc->levels[l];
    struct topo_level *to = &t->level[l];
    struct path p;

    if (check_word(y, path_of(&p, "levels[%d].name", l), from->name, err))
        return -1;
    for (int i = 0; i < l; i++)
        if (strcmp(t->level[i].name, from->name) == 0)
            return yaml_fail(y, p.text, err, "is '%s' as is levels[%d]'s, expected another",
                             from->name, i);
    snprintf(to->name, sizeof to->name, "%s", from->name);
    if (yaml_f64(y, path_of(&p, "levels[%d].latency_s", l), from->latency_s, 0,
                 TOPO_LATENCY_MAX_S, &to->latency_s, err))
        return -1;
    if (read_rate(y, path_of(&p, "levels[%d].port_Bps", l), from->port_Bps, &to->port_Bps, err))
        return -1;
    if (read_rate(y, path_of(&p, "levels[%d].flow_Bps", l), from->flow_Bps, &to->flow_Bps, err))
        return -1;
    if (read_member(y, path_of(&p, "levels[%d].member_Bps", l), from->member_Bps,
                    &to->member_Bps, err))
        return -1;
    if (check_share(t, l, y, p.text, err))
        return -1;
    if (read_source(y, path_of(&p, "levels[%d].rate_source", l), from->rate_source,
                    to->rate_source, err))
        return -1;
    if (read_source(y, path_of(&p, "levels[%d].latency_source", l), from->latency_source,
                    to->latency_source, err))
        return -1;
    return read_extras(to, l, y, from, err);
}

static int read_blocks(struct topo *t, int k, const struct yaml *y,
                       const struct doc_group *from, struct err *err)
{
    struct path p;
    int above = t->levels - 2;

    if ((int)from->blocks_count != above)
        return yaml_fail(y, path_of(&p, "groups[%d].blocks", k), err,
                         "has %u numbers, expected %d (one for each level from levels[2] on)",
                         from->blocks_count, above);
    for (int l = 0; l < above; l++) {
        int64_t block = 0;
        if (yaml_i64(y, path_of(&p, "groups[%d].blocks[%d]", k, l), from->blocks[l], 0,
                     t->groups.count - 1, &block, err))
            return -1;
        t->block[l * t->groups.count + k] = (int)block;
    }
    return 0;
}

static int read_count(const struct yaml *y, int k, const char *key, const char *text, int *out,
                      struct err *err)
{
    struct path p;
    int64_t count = 0;

    if (text && yaml_i64(y, path_of(&p, "groups[%d].%s", k, key), text, 0, TOPO_DEVICES_MAX,
                         &count, err))
        return -1;
    *out = (int)count;
    return 0;
}

static int read_group(struct topo *t, int k, const struct yaml *y, const struct doc_group *from,
                      struct err *err)
{
    struct path p;
    struct topo_port *port = &t->port[k];

    port->out_Bps = port->in_Bps = t->level[1].port_Bps;
    if (from->host) {
        if (check_word(y, path_of(&p, "groups[%d].host", k), from->host, err))
            return -1;
        topo_set_host(t, k, from->host);
    }
    if (from->port_out_Bps && read_rate(y, path_of(&p, "groups[%d].port_out_Bps", k),
                                        from->port_out_Bps, &port->out_Bps, err))
        return -1;
    if (from->port_in_Bps && read_rate(y, path_of(&p, "groups[%d].port_in_Bps", k),
                                       from->port_in_Bps, &port->in_Bps, err))
        return -1;
    if (read_count(y, k, "numa_nodes", from->numa_nodes, &t->devices[k].numa_nodes, err) ||
        read_count(y, k, "gpus", from->gpus, &t->devices[k].gpus, err) ||
        read_count(y, k, "nics", from->nics, &t->devices[k].nics, err))
        return -1;
    if (from->gpu_name) {
        if (check_word(y, path_of(&p, "groups[%d].gpu_name", k), from->gpu_name, err))
            return -1;
        snprintf(t->devices[k].gpu_name, TOPO_NAME_BYTES, "%s", from->gpu_name);
    }
    return read_blocks(t, k, y, from, err);
}

/* Groups that share a block share every block further out. */
static int check_nesting(const struct topo *t, const struct yaml *y, struct err *err)
{
    int count = t->groups.count, rc = 0;
    int *first = mem_new((size_t)count, sizeof *first);
    struct path p;

    for (int l = 0; rc == 0 && l + 3 < t->levels; l++) {
        const int *in = t->block + l * count, *out = in + count;
        for (int k = 0; k < count; k++)
            first[k] = -1;
        for (int k = 0; rc == 0 && k < count; k++) {
            int at = first[in[k]];
            if (at < 0)
                first[in[k]] = k;
            else if (out[at] != out[k])
                rc = yaml_fail(y, path_of(&p, "groups[%d].blocks[%d]", k, l + 1), err,
                               "is %d, but groups[%d] of the same block %d has %d, expected"
                               " levels that nest",
                               out[k], at, in[k], out[at]);
        }
    }
    mem_free(first);
    return rc;
}

static int read_device(struct topo *t, const struct yaml *y, const char *text, struct err *err)
{
    struct err why;

    if (text && topo_device_parse(text, &t->device, &why))
        return yaml_fail(y, "device", err, "is %s", why.text);
    return 0;
}

static int read_transport(struct topo *t, const struct yaml *y, const char *text,
                          struct err *err)
{
    if (text && !strcmp(text, topo_transport_name(TOPO_OVER_NCCL)))
        t->transport = TOPO_OVER_NCCL;
    else if (text && strcmp(text, topo_transport_name(TOPO_OVER_MPI)) != 0)
        return yaml_fail(y, "transport", err, "is '%s', expected mpi or nccl", text);
    return 0;
}

static int read_compute_type(struct topo *t, const struct yaml *y, const char *text,
                             struct err *err)
{
    struct err why;

    if (text && dtype_parse_compute(text, &t->compute_type, &why))
        return yaml_fail(y, "compute_type", err, "is %s", why.text);
    return 0;
}

static int read_doc(struct topo *t, const struct yaml *y, const struct doc *doc,
                    struct err *err)
{
    if (read_device(t, y, doc->device, err) || read_transport(t, y, doc->transport, err) ||
        read_compute_type(t, y, doc->compute_type, err))
        return -1;
    if (doc->memory_bytes && yaml_i64(y, "memory_bytes", doc->memory_bytes, 1,
                                      TOPO_MEMORY_MAX_BYTES, &t->memory_bytes, err))
        return -1;
    if (doc->flops && yaml_f64(y, "flops", doc->flops, 1, TOPO_FLOPS_MAX, &t->flops, err))
        return -1;
    if (doc->memory_Bps && read_rate(y, "memory_Bps", doc->memory_Bps, &t->memory_Bps, err))
        return -1;
    for (int l = 0; l < t->levels; l++)
        if (read_level(t, l, y, doc, err))
            return -1;
    for (int k = 0; k < t->groups.count; k++)
        if (read_group(t, k, y, &doc->groups[k], err))
            return -1;
    return check_nesting(t, y, err);
}

int topo_parse_yaml(struct topo *t, const struct yaml *y, struct err *err)
{
    struct doc *doc = NULL;
    struct topo new = {0};
    struct groups groups = {0};
    int *group_of = NULL, ranks = 0, rc = -1;

    if (yaml_format(y, FORMAT, err) || yaml_load(y, &schema, (void **)&doc, err))
        return -1;
    if (read_ranks(y, doc, &ranks, &group_of, err))
        goto done;
    if (groups_init_of(&groups, ranks, group_of, err))
        goto done;
    topo_init(&new, (int)doc->levels_count, &groups);
    if (read_doc(&new, y, doc, err)) {
        topo_release(&new);
        goto done;
    }
    *t = new;
    rc = 0;
done:
    groups_release(&groups);
    mem_free(group_of);
    yaml_drop(&schema, doc);
    return rc;
}

/* ---- printing ---- */

static void put_number(FILE *out, const char *indent, const char *key, double v)
{
    fprintf(out, "%s%s: ", indent, key);
    yaml_put_f64(out, v);
    putc('\n', out);
}

static void put_source(FILE *out, const char *key, const char *text)
{
    if (!text[0])
        return;
    fprintf(out, "    %s: ", key);
    yaml_put_text(out, text);
    putc('\n', out);
}

static void put_level(FILE *out, const struct topo_level *level)
{
    fputs("  - name: ", out);
    yaml_put_text(out, level->name);
    putc('\n', out);
    put_number(out, "    ", "latency_s", level->latency_s);
    put_number(out, "    ", "port_Bps", level->port_Bps);
    put_number(out, "    ", "flow_Bps", level->flow_Bps);
    put_number(out, "    ", "member_Bps", level->member_Bps);
    for (int i = 0; i < EXTRAS; i++) {
        double v = *(const double *)(const void *)((const char *)level + extras[i].to);
        if (v > 0)
            put_number(out, "    ", extras[i].key, v);
    }
    put_source(out, "rate_source", level->rate_source);
    put_source(out, "latency_source", level->latency_source);
}

static void put_count(FILE *out, const char *key, int count)
{
    if (count > 0)
        fprintf(out, "    %s: %d\n", key, count);
}

static void put_group(FILE *out, const struct topo *t, int k)
{
    const struct groups *g = &t->groups;

    fputs("  - ", out);
    if (t->host[k][0]) {
        fputs("host: ", out);
        yaml_put_text(out, t->host[k]);
        fputs("\n    ", out);
    }
    for (int j = 0; j < g->members[k]; j++)
        fprintf(out, "%s%d", j ? ", " : "ranks: [", groups_rank(g, k, j));
    fputs("]\n", out);
    if (t->port[k].out_Bps != t->level[1].port_Bps)
        put_number(out, "    ", "port_out_Bps", t->port[k].out_Bps);
    if (t->port[k].in_Bps != t->level[1].port_Bps)
        put_number(out, "    ", "port_in_Bps", t->port[k].in_Bps);
    for (int l = 0; l < t->levels - 2; l++)
        fprintf(out, "%s%d", l ? ", " : "    blocks: [", t->block[l * g->count + k]);
    if (t->levels > 2)
        fputs("]\n", out);
    put_count(out, "numa_nodes", t->devices[k].numa_nodes);
    put_count(out, "gpus", t->devices[k].gpus);
    put_count(out, "nics", t->devices[k].nics);
    if (t->devices[k].gpu_name[0]) {
        fputs("    gpu_name: ", out);
        yaml_put_text(out, t->devices[k].gpu_name);
        fputs("\n", out);
    }
}

void topo_print_yaml(const struct topo *t, FILE *out)
{
    fputs("format: " FORMAT "\nlevels:\n", out);
    for (int l = 0; l < t->levels; l++)
        put_level(out, &t->level[l]);
    if (t->device != TOPO_CPU)
        fprintf(out, "device: %s\n", topo_device_name(t->device));
    if (t->transport != TOPO_OVER_MPI)
        fprintf(out, "transport: %s\n", topo_transport_name(t->transport));
    if (t->memory_bytes)
        fprintf(out, "memory_bytes: %" PRId64 "\n", t->memory_bytes);
    if (t->flops > 0)
        put_number(out, "", "flops", t->flops);
    if (t->compute_type != DTYPE_F32)
        fprintf(out, "compute_type: %s\n", dtype_name(t->compute_type));
    if (t->memory_Bps > 0)
        put_number(out, "", "memory_Bps", t->memory_Bps);
    fputs("groups:\n", out);
    for (int k = 0; k < t->groups.count; k++)
        put_group(out, t, k);
}
