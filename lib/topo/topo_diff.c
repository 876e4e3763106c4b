/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares two fabrics and lists the differences.  Error bars are not compared: they describe
 * the precision of a figure.
 */
#include "topo/topo_print.h"

#include <math.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "value/value_yaml.h"

struct diff {
    FILE *out;
    struct jout *json; /* NULL: lines */
    double tolerance;
    int count;
    char where[96];
};

#define PLACE(d, ...) snprintf((d)->where, sizeof(d)->where, __VA_ARGS__)

static void diff_put_value(FILE *out, double v)
{
    if (v > 0 || v < 0)
        yaml_put_f64(out, v);
    else
        fputs("0", out);
}

/* Begins a difference: prints its place and key, before the values. */
static void begin_difference(struct diff *d, const char *key)
{
    d->count++;
    if (d->json) {
        jout_open(d->json, NULL, '{');
        jout_text(d->json, "where", d->where);
        jout_text(d->json, "key", key);
    } else {
        fprintf(d->out, "%s%s%s: ", d->where, d->where[0] ? "." : "", key);
    }
}

/* 0 (unknown, or no latency) equals only 0. */
static void diff_number(struct diff *d, const char *key, double old, double new)
{
    if (old == new || (old != 0 && fabs(new - old) <= d->tolerance * fabs(old)))
        return;
    begin_difference(d, key);
    if (d->json) {
        jout_num(d->json, "old", old);
        jout_num(d->json, "new", new);
        jout_close(d->json, '}');
        return;
    }
    diff_put_value(d->out, old);
    fputs(" -> ", d->out);
    diff_put_value(d->out, new);
    if (old != 0)
        fprintf(d->out, " (%+.1f %%)", (new - old) / old * 100);
    putc('\n', d->out);
}

/* NULL: absent. */
static void diff_words(struct diff *d, const char *key, const char *old, const char *new)
{
    if (old && new &&strcmp(old, new) == 0)
        return;
    begin_difference(d, key);
    if (d->json) {
        jout_text(d->json, "old", old);
        jout_text(d->json, "new", new);
        jout_close(d->json, '}');
        return;
    }
    yaml_put_text(d->out, old ? old : "absent");
    fputs(" -> ", d->out);
    yaml_put_text(d->out, new ? new : "absent");
    putc('\n', d->out);
}

/* Compute rates of a group's ranks, where one of the fabrics states them. */
static void diff_rank_flops(struct diff *d, const struct topo *old, const struct topo *t, int k)
{
    for (int i = 0; i < old->groups.members[k] && i < t->groups.members[k]; i++) {
        double a = topo_rank_flops(old, groups_rank(&old->groups, k, i));
        double b = topo_rank_flops(t, groups_rank(&t->groups, k, i));
        if (a != old->flops || b != t->flops)
            diff_number(d, "flops", a, b);
    }
}

static void diff_all(struct diff *d, const struct topo *old, const struct topo *t)
{
    static const struct topo_level none = {.name = ""};
    int levels = old->levels > t->levels ? old->levels : t->levels;
    int groups = old->groups.count > t->groups.count ? old->groups.count : t->groups.count;

    for (int l = 0; l < levels; l++) {
        const struct topo_level *a = l < old->levels ? &old->level[l] : &none;
        const struct topo_level *b = l < t->levels ? &t->level[l] : &none;

        PLACE(d, "levels[%d]", l);
        diff_words(d, "name", a->name[0] ? a->name : NULL, b->name[0] ? b->name : NULL);
        if (!a->name[0] || !b->name[0])
            continue;
        PLACE(d, "%s", b->name);
        for (const struct record *f = topo_level_record; f->type; f++)
            if (f->type == RECORD_REAL && !(f->flags & TOPO_ERROR_BAR))
                diff_number(d, f->key, record_real(f, a), record_real(f, b));
    }
    d->where[0] = 0;
    diff_words(d, "cabling", topo_cablings[old->groups.ring], topo_cablings[t->groups.ring]);
    diff_words(d, "device", topo_device_name(old->device), topo_device_name(t->device));
    diff_words(d, "transport", topo_transport_name(old->transport),
               topo_transport_name(t->transport));
    diff_number(d, "memory_bytes", (double)old->memory_bytes, (double)t->memory_bytes);
    diff_number(d, "flops", old->flops, t->flops);
    diff_words(d, "compute_type", dtype_name(old->compute_type), dtype_name(t->compute_type));
    if (old->compute_type == t->compute_type && old->other_flops > 0 && t->other_flops > 0)
        diff_number(d, topo_other_key(t), old->other_flops, t->other_flops);
    diff_number(d, "memory_Bps", old->memory_Bps, t->memory_Bps);
    for (int k = 0; k < groups; k++) {
        char *a = k < old->groups.count ? topo_ranks_text(old, k) : NULL;
        char *b = k < t->groups.count ? topo_ranks_text(t, k) : NULL;

        PLACE(d, "groups[%d]", k);
        diff_words(d, "ranks", a, b);
        if (a && b) {
            diff_words(d, "host", old->host[k], t->host[k]);
            diff_number(d, "port_out_Bps", old->port[k].out_Bps, t->port[k].out_Bps);
            diff_number(d, "port_in_Bps", old->port[k].in_Bps, t->port[k].in_Bps);
            diff_rank_flops(d, old, t, k);
        }
        for (int l = 2; a && b && l < old->levels && l < t->levels; l++) {
            PLACE(d, "groups[%d].blocks[%d]", k, l - 2);
            char was[16], is[16];
            snprintf(was, sizeof was, "%d", topo_unit(old, l, k));
            snprintf(is, sizeof is, "%d", topo_unit(t, l, k));
            diff_words(d, "block", was, is);
        }
        mem_free(a);
        mem_free(b);
    }
}

int topo_diff(const struct topo *old, const struct topo *t, double tolerance,
              enum topo_format format, FILE *out)
{
    struct jout j = {.file = out};
    struct diff d = {.out = out, .tolerance = tolerance};

    if (format != TOPO_JSON) {
        diff_all(&d, old, t);
        return d.count;
    }
    d.json = &j;
    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.topo.diff/1");
    jout_open(&j, "differences", '[');
    diff_all(&d, old, t);
    jout_close(&j, ']');
    jout_int(&j, "count", d.count);
    jout_close(&j, '}');
    return d.count;
}
