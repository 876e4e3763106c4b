/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how tensors are listed, and how two sets of them are compared. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/jout.h"
#include "base/mem.h"
#include "base/units.h"
#include "ckpt/ckpt_parts.h"
#include "ckpt/tool.h"
#include "ckpt/weights.h"

enum { CHUNK = 1 << 20 }; /* elements compared at a time */

static const char *kind_of(const struct weights *w)
{
    return w->is_ckpt ? "checkpoint" : w->hf.alone ? "file" : "folder";
}

static void ls_json(const struct weights *w, FILE *out)
{
    struct jout j = {.file = out, .pretty = 1};
    char groups[256];

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.shard.ls/1");
    jout_text(&j, "kind", kind_of(w));
    if (w->is_ckpt) {
        groups_print(&w->ckpt.groups, groups, sizeof groups);
        jout_text(&j, "strategy", w->ckpt.strategy);
        jout_text(&j, "shape", groups);
        jout_int(&j, "ranks", w->ckpt.groups.ranks);
        jout_text(&j, "trains", w->ckpt.model.partial ? w->ckpt.model.partial : "all");
        if (w->ckpt.has_run)
            jout_int(&j, "step", w->ckpt.run.step);
        else
            jout_null(&j, "step");
    }
    jout_int(&j, "bytes", w->bytes);
    jout_open(&j, "tensors", '[');
    for (int i = 0; i < w->count; i++) {
        const struct st_tensor *t = &w->item[i].shape;
        jout_open(&j, NULL, '{');
        jout_text(&j, "name", w->item[i].name);
        jout_text(&j, "type", st_type_name(t->type));
        jout_open(&j, "shape", '[');
        for (int d = 0; d < t->dims; d++)
            jout_int(&j, NULL, t->shape[d]);
        jout_close(&j, ']');
        jout_int(&j, "elems", t->elems);
        jout_int(&j, "bytes", t->elems * st_type_bytes(t->type));
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    jout_close(&j, '}');
}

static void ls_table(const struct weights *w, FILE *out)
{
    char groups[256], shape[256];
    struct units u;
    int width = 4;

    if (w->is_ckpt) {
        groups_print(&w->ckpt.groups, groups, sizeof groups);
        fprintf(out, "checkpoint of %d ranks (%s), strategy %s", w->ckpt.groups.ranks, groups,
                w->ckpt.strategy);
        if (w->ckpt.model.partial)
            fprintf(out, ", trains %s", w->ckpt.model.partial);
        if (w->ckpt.has_run)
            fprintf(out, ", step %" PRId64, w->ckpt.run.step);
        fputc('\n', out);
    }
    for (int i = 0; i < w->count; i++)
        if ((int)strlen(w->item[i].name) > width)
            width = (int)strlen(w->item[i].name);
    fprintf(out, "%-*s  %-16s  %12s\n", width, "name", "type, shape", "size");
    for (int i = 0; i < w->count; i++) {
        const struct st_tensor *t = &w->item[i].shape;
        st_print_shape(t, shape, sizeof shape);
        fprintf(out, "%-*s  %-16s  %12s\n", width, w->item[i].name, shape,
                units_bytes(&u, (double)(t->elems * st_type_bytes(t->type))));
    }
    fprintf(out, "%d tensors, %s\n", w->count, units_bytes(&u, (double)w->bytes));
}

int tool_ls(const char *path, int json, FILE *out, struct err *err)
{
    struct weights w;

    if (weights_open(&w, path, err))
        return -1;
    if (json)
        ls_json(&w, out);
    else
        ls_table(&w, out);
    weights_close(&w);
    return 0;
}

/* --- diff --- */

struct diff {
    FILE *out;
    int json;
    struct jout j;
    int count;
    char *a, *b; /* one chunk each, of at most 8 bytes an element */
    double *x, *y;
};

struct gap {
    int64_t elems, first; /* that differ; the first of them, or -1 */
    double most;          /* largest |a - b|; NaN where the type is no floating one */
};

static void say(struct diff *d, const char *name, const char *what, const char *detail)
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
    jout_close(&d->j, '}');
}

/* One chunk of n elements from `at`: bits are compared, so that a NaN equals itself. */
static void compare_chunk(struct diff *d, int type, int64_t at, int64_t n, struct gap *gap)
{
    size_t size = (size_t)st_type_bytes(type);
    enum dtype dtype;

    if (memcmp(d->a, d->b, (size_t)n * size) == 0)
        return;
    int floating = st_type_dtype(type, &dtype) == 0 && dtype != DTYPE_I32 && dtype != DTYPE_U8;
    if (floating) {
        dtype_convert(d->x, DTYPE_F64, d->a, dtype, n);
        dtype_convert(d->y, DTYPE_F64, d->b, dtype, n);
    }
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(d->a + (size_t)i * size, d->b + (size_t)i * size, size) == 0)
            continue;
        if (gap->elems++ == 0)
            gap->first = at + i;
        double by = floating ? fabs(d->x[i] - d->y[i]) : NAN;
        if (!(by <= gap->most) && !isnan(gap->most)) /* once NaN, always NaN */
            gap->most = by;
    }
}

static int compare(struct diff *d, struct weights *a, const struct weights_item *ia,
                   struct weights *b, const struct weights_item *ib, struct err *err)
{
    const struct st_tensor *t = &ia->shape;
    char one[256], two[256], text[640];
    struct gap gap = {.first = -1};

    st_print_shape(t, one, sizeof one);
    st_print_shape(&ib->shape, two, sizeof two);
    if (strcmp(one, two)) {
        snprintf(text, sizeof text, "is %s in the first, %s in the second", one, two);
        say(d, ia->name, "shape", text);
        return 0;
    }
    for (int64_t at = 0; at < t->elems; at += CHUNK) {
        int64_t n = t->elems - at < CHUNK ? t->elems - at : CHUNK;
        if (weights_read(a, ia, at, n, d->a, err) || weights_read(b, ib, at, n, d->b, err))
            return -1;
        compare_chunk(d, t->type, at, n, &gap);
    }
    if (gap.elems) {
        snprintf(text, sizeof text,
                 "%" PRId64 " of %" PRId64 " elements differ, the first at %" PRId64
                 ", by at most %.6g",
                 gap.elems, t->elems, gap.first, gap.most);
        say(d, ia->name, "values", text);
    }
    return 0;
}

static int compare_all(struct diff *d, struct weights *a, struct weights *b, struct err *err)
{
    int i = 0, k = 0, rc = 0;

    while (rc == 0 && (i < a->count || k < b->count)) { /* both are sorted by name */
        int order = i == a->count   ? 1
                    : k == b->count ? -1
                                    : strcmp(a->item[i].name, b->item[k].name);
        if (order == 0) {
            rc = compare(d, a, &a->item[i], b, &b->item[k], err);
            i++;
            k++;
        } else if (order < 0) {
            say(d, a->item[i++].name, "only_first", "is in the first alone");
        } else {
            say(d, b->item[k++].name, "only_second", "is in the second alone");
        }
    }
    return rc;
}

int tool_diff(const char *path_a, const char *path_b, int json, FILE *out, int *differ,
              struct err *err)
{
    struct weights a = {0}, b = {0};
    struct diff d = {.out = out, .json = json};
    char *text = NULL;
    size_t used = 0;

    if (weights_open(&a, path_a, err) || weights_open(&b, path_b, err)) {
        weights_close(&a);
        return -1;
    }
    if ((a.is_ckpt && !b.is_ckpt && weights_rename(&b, &a.ckpt.model, err)) ||
        (b.is_ckpt && !a.is_ckpt && weights_rename(&a, &b.ckpt.model, err))) {
        weights_close(&a);
        weights_close(&b);
        return -1;
    }
    d.a = mem_new(CHUNK, 8);
    d.b = mem_new(CHUNK, 8);
    d.x = mem_new(CHUNK, sizeof *d.x);
    d.y = mem_new(CHUNK, sizeof *d.y);
    if (json) {
        d.j.file = ckpt_stream(&text, &used);
        jout_open(&d.j, NULL, '{');
        jout_text(&d.j, "schema", "paro.shard.diff/1");
        jout_open(&d.j, "differences", '[');
    }
    int rc = compare_all(&d, &a, &b, err);
    if (json) {
        jout_close(&d.j, ']');
        jout_bool(&d.j, "same", d.count == 0);
        jout_close(&d.j, '}');
        fclose(d.j.file);
        if (rc == 0)
            fputs(text, out);
        mem_free(text);
    }
    mem_free(d.a);
    mem_free(d.b);
    mem_free(d.x);
    mem_free(d.y);
    weights_close(&a);
    weights_close(&b);
    if (rc == 0)
        *differ = d.count;
    return rc;
}
