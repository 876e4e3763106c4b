/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares two sets of tensors from checkpoints, folders or files. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/io.h"
#include "value/value_json_out.h"
#include "base/mem.h"
#include "shard/shard.h"
#include "ckpt/ckpt_weights.h"

enum { CHUNK = 1 << 18 }; /* elements compared at a time */

struct diff {
    FILE *out;
    int json;
    struct jout j;
    int count;
    char a[8 * CHUNK], b[8 * CHUNK]; /* one chunk each, at most 8 bytes per element */
    long double x[CHUNK], y[CHUNK];
    double scratch[CHUNK];
};

struct gap {
    /* elems: number of different elements; first: the first of them, or -1 */
    int64_t elems, first;
    double most, rel; /* largest |a - b|, and |a - b| / max(|a|, |b|); NaN: not a number */
    int64_t most_at;
};

static void report_difference(struct diff *d, const char *name, const char *what,
                              const char *detail, const struct gap *gap)
{
    d->count++;
    if (!d->json) {
        fprintf(d->out, "%s: %s\n", name, detail);
        return;
    }
    jout_open(&d->j, NULL, '{');
    jout_text(&d->j, "name", name);
    jout_text(&d->j, "what", what);
    jout_text(&d->j, "text", detail);
    if (gap) {
        jout_int(&d->j, "elems_differ", gap->elems);
        jout_known(&d->j, "first", gap->first);
        jout_num(&d->j, "max_abs", gap->most);
        jout_known(&d->j, "max_abs_at", gap->most_at);
        jout_num(&d->j, "max_rel", gap->rel);
    }
    jout_close(&d->j, '}');
}

/* --- values --- */

/* Reads an integer of 1 to 8 bytes. */
static long double whole_number(const char *p, int bytes, int is_signed)
{
    uint64_t v = io_le(p, bytes);
    int64_t s = (int64_t)(v << (64 - 8 * bytes)) >> (64 - 8 * bytes);

    return is_signed ? (long double)s : (long double)v;
}

/* 0: floating-point, 1: signed, 2: unsigned, -1: types whose bits are compared. */
static int diff_kind_of(int type, enum dtype *dtype)
{
    const char *name = st_type_name(type);

    if (st_type_dtype(type, dtype) == 0 && st_type_is_float(type))
        return 0;
    if (name[0] == 'I')
        return 1;
    return name[0] == 'U' || strcmp(name, "BOOL") == 0 ? 2 : -1;
}

/* Converts n values exactly: long double holds 64-bit integers. */
static void values_of(struct diff *d, int type, const char *from, int64_t n, long double *to)
{
    enum dtype dtype = DTYPE_F64;
    int kind = diff_kind_of(type, &dtype), bytes = st_type_bytes(type);

    if (kind == 0)
        dtype_convert(d->scratch, DTYPE_F64, from, dtype, n);
    for (int64_t i = 0; i < n; i++)
        to[i] = kind == 0  ? d->scratch[i]
                : kind < 0 ? (long double)NAN
                           : whole_number(from + i * bytes, bytes, kind == 1);
}

/* Records that element `at` differs. */
static void count_gap(struct gap *gap, int64_t at, long double x, long double y)
{
    double a = (double)x, b = (double)y, by = (double)fabsl(x - y);
    double most = fmax(fabs(a), fabs(b));
    /* Relative to the larger magnitude: 0 to 2, also for opposite infinities; -0 equals 0. */
    double rel = isnan(a) || isnan(b) ? NAN
                 : a == b             ? 0
                 : isinf(most)        ? (isinf(a) && isinf(b) ? 2 : 1)
                                      : fabs(a - b) / most;

    if (gap->elems++ == 0)
        gap->first = at;
    if (isnan(gap->most)) /* once NaN, always NaN */
        return;
    if (!(by <= gap->most) || gap->most_at < 0) {
        gap->most = by;
        gap->most_at = at;
    }
    if (!(rel <= gap->rel))
        gap->rel = rel;
}

/*
 * Compares one chunk of n elements from `at` on: bits if the types are equal, so that a NaN
 * equals itself, else values.
 */
static void compare_chunk(struct diff *d, int type_a, int type_b, int64_t at, int64_t n,
                          struct gap *gap)
{
    int64_t size = type_a == type_b ? st_type_bytes(type_a) : 0;

    if (size && memcmp(d->a, d->b, (size_t)(n * size)) == 0)
        return;
    values_of(d, type_a, d->a, n, d->x);
    values_of(d, type_b, d->b, n, d->y);
    for (int64_t i = 0; i < n; i++) {
        long double x = d->x[i], y = d->y[i];
        int same = size ? memcmp(d->a + i * size, d->b + i * size, (size_t)size) == 0
                        : x == y || (isnan(x) && isnan(y));
        if (!same)
            count_gap(gap, at + i, x, y);
    }
}

/* --- tensors --- */

static int same_shape(const struct st_tensor *a, const struct st_tensor *b)
{
    return a->dims == b->dims &&
           memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0;
}

/* "7 of 9 elements differ, first at 2, largest difference 0.5 at 4 [1, 1], relative 0.25" */
static void describe_gap(const struct st_tensor *t, const struct gap *gap, char *text,
                         size_t space)
{
    int64_t at = gap->most_at, index[ST_DIMS_MAX];
    int used = snprintf(text, space,
                        "%" PRId64 " of %" PRId64 " elements differ, first at %" PRId64
                        ", largest difference %.6g at %" PRId64 " [",
                        gap->elems, t->elems, gap->first, gap->most, at);

    for (int d = t->dims - 1; d >= 0; d--) {
        index[d] = at % t->shape[d];
        at /= t->shape[d];
    }
    for (int d = 0; d < t->dims && used < (int)space; d++)
        used +=
            snprintf(text + used, space - (size_t)used, "%s%" PRId64, d ? ", " : "", index[d]);
    if (used < (int)space)
        snprintf(text + used, space - (size_t)used, "], relative %.3g", gap->rel);
}

static int compare_tensor(struct diff *d, struct weights *a, const struct weights_item *ia,
                          struct weights *b, const struct weights_item *ib, struct err *err)
{
    const struct st_tensor *ta = &ia->shape, *tb = &ib->shape;
    char one[256], two[256], found[512] = "the values are the same", text[1100];
    struct gap gap = {.first = -1, .most_at = -1};
    enum dtype any;

    st_print_shape(ta, one, sizeof one);
    st_print_shape(tb, two, sizeof two);
    snprintf(text, sizeof text, "is %s in the first, %s in the second", one, two);
    if (!same_shape(ta, tb) || (ta->type != tb->type && (diff_kind_of(ta->type, &any) < 0 ||
                                                         diff_kind_of(tb->type, &any) < 0))) {
        report_difference(d, ia->name, same_shape(ta, tb) ? "type" : "shape", text, NULL);
        return 0;
    }
    for (int64_t at = 0; at < ta->elems; at += CHUNK) {
        int64_t n = ta->elems - at < CHUNK ? ta->elems - at : CHUNK;
        if (weights_read(a, ia, at, n, d->a, err) || weights_read(b, ib, at, n, d->b, err))
            return -1;
        compare_chunk(d, ta->type, tb->type, at, n, &gap);
    }
    if (gap.elems)
        describe_gap(ta, &gap, found, sizeof found);
    if (ta->type != tb->type) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "; %s", found);
        report_difference(d, ia->name, "type", text, &gap);
    } else if (gap.elems) {
        report_difference(d, ia->name, "values", found, &gap);
    }
    return 0;
}

static int compare_all(struct diff *d, struct weights *a, struct weights *b, struct err *err)
{
    int i = 0, k = 0, rc = 0;

    while (rc == 0 && (i < a->count || k < b->count)) { /* both lists are sorted by name */
        int order = i == a->count   ? 1
                    : k == b->count ? -1
                                    : strcmp(a->item[i].name, b->item[k].name);
        if (order == 0) {
            rc = compare_tensor(d, a, &a->item[i], b, &b->item[k], err);
            i++;
            k++;
        } else if (order < 0) {
            report_difference(d, a->item[i++].name, "only_first", "is in the first alone",
                              NULL);
        } else {
            report_difference(d, b->item[k++].name, "only_second", "is in the second alone",
                              NULL);
        }
    }
    return rc;
}

int shard_diff(const char *path_a, const char *path_b, const struct shard_options *options,
               int json, FILE *out, int *differ, struct err *err)
{
    struct weights a = {0}, b = {0};
    struct diff *d = mem_new(1, sizeof *d);
    char *text = NULL;
    size_t used = 0;
    int rc = weights_open(&a, path_a, options->limits, err);

    d->out = out;
    d->json = json;
    if (json) {
        d->j.file = mem_stream(&text, &used);
        jout_open(&d->j, NULL, '{');
        jout_text(&d->j, "schema", "paro.shard.diff/1");
        jout_open(&d->j, "differences", '[');
    }
    if (rc == 0)
        rc = weights_open(&b, path_b, options->limits, err);
    if (rc == 0 && a.is_ckpt != b.is_ckpt)
        rc = a.is_ckpt ? weights_rename(&b, &a.ckpt.model, err)
                       : weights_rename(&a, &b.ckpt.model, err);
    if (rc == 0)
        rc = compare_all(d, &a, &b, err);
    if (rc == 0)
        *differ = d->count;
    if (json) {
        jout_close(&d->j, ']');
        jout_bool(&d->j, "same", d->count == 0);
        jout_close(&d->j, '}');
        fclose(d->j.file);
    }
    if (rc == 0 && json) /* print one complete document or nothing */
        fputs(text, out);
    mem_free(text);
    mem_free(d);
    if (options->repaired) {
        options->repaired[0] = a.ckpt.repaired;
        options->repaired[1] = b.ckpt.repaired;
    }
    weights_close(&a);
    weights_close(&b);
    return rc;
}
