/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how rows come back from JSON Lines, and which of several launches' rows stays.  Strict:
 * a line that bench_print would not have written is an error that names file, line and key.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/tree.h"
#include "bench/bench_parts.h"

/* A row has some 900 bytes: 18,000 of them, each of which is compared with all kept ones. */
enum { FILE_BYTES_MAX = 16 << 20, LAUNCHES_MAX = 1000000 };

struct reader {
    struct tree tree; /* of a line */
    struct bench_row *out;
    struct err *err;
};

/* Files of a time before percentiles lack them. */
static const char mark_keys[] = "min p10? p25? median p75? p90? p99? max";
static const char keys[] =
    "op algo chosen? setting? groups ranks bytes count type redop root? simulated? launches?"
    " time_s ratio_mpi? algbw_Bps? busbw_Bps? slow_bytes limit_s limit_fraction? predicted_s?"
    " wrong loadavg? library? host? when?";

static int get_text(const struct reader *r, const char *key, const char **out)
{
    return tree_text(&r->tree, tree_get(r->tree.root, key), 0, SIZE_MAX, out, r->err);
}

/* A key that is unknown, null or absent is -1. */
static int get_int(const struct reader *r, const struct tree_node *n, const char *key,
                   int64_t most, int64_t *out)
{
    *out = -1;
    return tree_i64(&r->tree, tree_get(n, key), 0, most, out, r->err);
}

/* The same, NAN. */
static int get_num(const struct reader *r, const struct tree_node *n, const char *key,
                   double *out)
{
    *out = NAN;
    return tree_f64(&r->tree, tree_get(n, key), 0, DBL_MAX, out, r->err);
}

/* Whether the parser of a text objected: then its words follow the key. */
static int is_wrong(const struct reader *r, int rc, const char *key)
{
    struct err why = *r->err;

    if (rc)
        tree_fail(&r->tree, r->tree.root, key, r->err, "is invalid: %s", why.text);
    return rc != 0;
}

static int refuse(const struct reader *r, const char *key, const char *text)
{
    return tree_fail(&r->tree, r->tree.root, key, r->err, "%s", text);
}

/* What auto took. */
static int read_chosen(const struct reader *r, const struct tree_node *chosen)
{
    const char *algo = "";

    if (!chosen)
        return 0;
    if (tree_keys(&r->tree, chosen, "algo chunk_bytes", r->err) ||
        tree_text(&r->tree, tree_get(chosen, "algo"), 0, SIZE_MAX, &algo, r->err) ||
        get_int(r, chosen, "chunk_bytes", INT64_MAX, &r->out->chosen_chunk_bytes))
        return -1;
    if (r->out->chosen_chunk_bytes < 0)
        return refuse(r, "chosen.chunk_bytes", "is null, expected a number");
    return is_wrong(r, schedule_algo_parse(algo, &r->out->chosen, r->err), "chosen") ? -1 : 0;
}

static int read_shape(const struct reader *r, const char *shape)
{
    struct groups g = {0};
    int rc = 0;

    if (is_wrong(r, groups_parse(&g, shape, r->err), "groups"))
        return -1;
    if (g.ranks != r->out->ranks)
        rc = refuse(r, "ranks", "is not the number of ranks in 'groups'");
    groups_print(&g, r->out->shape, sizeof r->out->shape);
    if (rc == 0 && strlen(r->out->shape) == sizeof r->out->shape - 1)
        rc = refuse(r, "groups", "has more different group sizes than supported");
    groups_release(&g);
    return rc;
}

/* A text that older files lack, or that was not known. */
static int read_fact(const struct reader *r, const char *key, char *out)
{
    const char *text = NULL;

    if (get_text(r, key, &text) || (text && is_wrong(r, bench_check_fact(text, r->err), key)))
        return -1;
    if (text)
        snprintf(out, BENCH_FACT_ROOM, "%s", text);
    return 0;
}

static int read_words(const struct reader *r)
{
    const char *op = "", *algo = "", *type = "", *redop = "", *shape = "", *setting = NULL;
    struct bench_row *out = r->out;

    if (get_text(r, "groups", &shape) || get_text(r, "redop", &redop) ||
        get_text(r, "op", &op) || get_text(r, "algo", &algo) || get_text(r, "type", &type) ||
        get_text(r, "setting", &setting))
        return -1;
    if (is_wrong(r, schedule_phases_parse(op, &out->op, r->err), "op") ||
        is_wrong(r, bench_algo_parse(algo, &out->algo, r->err), "algo") ||
        is_wrong(r, dtype_parse(type, &out->type, r->err), "type"))
        return -1;
    if (strcmp(redop, "none") &&
        is_wrong(r, dtype_op_parse(redop, &out->redop, r->err), "redop"))
        return -1;
    if (setting && is_wrong(r, bench_parse_setting(setting, &setting, r->err), "setting"))
        return -1;
    snprintf(out->setting, sizeof out->setting, "%s", setting ? setting : "");
    return read_chosen(r, tree_get(r->tree.root, "chosen")) || read_shape(r, shape) ? -1 : 0;
}

static int read_times(const struct reader *r)
{
    const struct tree_node *row = r->tree.root, *t = tree_get(row, "time_s");
    const struct tree_node *ratio = tree_get(row, "ratio_mpi");
    struct bench_row *out = r->out;

    if (!t)
        return refuse(r, "time_s", "is missing, expected an object");
    if (tree_keys(&r->tree, t, mark_keys, r->err) ||
        (ratio && tree_keys(&r->tree, ratio, "p25 median p75", r->err)))
        return -1;
    for (int m = 0; m < BENCH_MARKS; m++)
        if (get_num(r, t, bench_mark_name(m), &out->time_s[m]))
            return -1;
    if (!isfinite(out->time_s[BENCH_MEDIAN]))
        return refuse(r, "time_s.median", "is missing or null, expected a number");
    return get_num(r, ratio, "p25", &out->ratio_p25) ||
                   get_num(r, ratio, "median", &out->ratio_mid) ||
                   get_num(r, ratio, "p75", &out->ratio_p75) ||
                   get_num(r, row, "limit_s", &out->limit_s) ||
                   get_num(r, row, "predicted_s", &out->predicted_s) ||
                   get_num(r, row, "loadavg", &out->load)
               ? -1
               : 0;
}

static int read_row(const struct reader *r)
{
    const struct tree_node *row = r->tree.root;
    struct bench_row *out = r->out;
    int64_t ranks, root, launches;

    *out = (struct bench_row){.chosen = SCHEDULE_AUTO, .redop = DTYPE_OPS};
    if (row->kind != TREE_MAP)
        return tree_fail(&r->tree, row, NULL, r->err, "is not a JSON object");
    if (tree_get(row, "overlap"))
        return refuse(r, "overlap", "is a row of --overlap, which --read does not support");
    if (tree_keys(&r->tree, row, keys, r->err) ||
        get_int(r, row, "ranks", GROUPS_RANKS_MAX, &ranks) ||
        get_int(r, row, "root", GROUPS_RANKS_MAX, &root) ||
        get_int(r, row, "bytes", INT64_C(1) << 50, &out->bytes) ||
        get_int(r, row, "count", INT64_C(1) << 50, &out->elems) ||
        get_int(r, row, "slow_bytes", INT64_MAX, &out->slow_bytes) ||
        get_int(r, row, "wrong", INT64_MAX, &out->wrong) ||
        get_int(r, row, "launches", LAUNCHES_MAX, &launches) ||
        tree_bool(&r->tree, tree_get(row, "simulated"), &out->simulated, r->err))
        return -1;
    out->ranks = (int)ranks;
    out->root = (int)root;
    out->launches = launches < 1 ? 1 : (int)launches;
    if (out->bytes < 0 || out->elems < 0 || out->ranks < 1)
        return refuse(r,
                      out->ranks < 1   ? "ranks"
                      : out->bytes < 0 ? "bytes"
                                       : "count",
                      "is null or 0, expected a number");
    return read_words(r) || read_times(r) || read_fact(r, "library", out->library) ||
                   read_fact(r, "host", out->host) || read_fact(r, "when", out->when)
               ? -1
               : 0;
}

static int same(const struct bench_row *a, const struct bench_row *b)
{
    return a->op == b->op && a->algo == b->algo && a->bytes == b->bytes && a->type == b->type &&
           a->redop == b->redop && a->root == b->root && a->simulated == b->simulated &&
           strcmp(a->setting, b->setting) == 0 && strcmp(a->shape, b->shape) == 0;
}

/* Below 0: not checked.  More than can be counted are as many as can. */
static int64_t add_wrong(int64_t a, int64_t b)
{
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* The best median stays; wrong data stays wrong. */
static void keep(struct bench_rows *all, const struct bench_row *new)
{
    for (int i = 0; i < all->rows; i++) {
        struct bench_row *r = &all->row[i];
        if (!same(r, new))
            continue;
        int launches = r->launches + new->launches;
        int64_t wrong = add_wrong(r->wrong, new->wrong);
        if (new->time_s[BENCH_MEDIAN] < r->time_s[BENCH_MEDIAN])
            *r = *new;
        r->launches = launches < LAUNCHES_MAX ? launches : LAUNCHES_MAX;
        r->wrong = wrong;
        return;
    }
    all->row = mem_grow(all->row, &all->room, (size_t)all->rows + 1, sizeof *all->row);
    all->row[all->rows++] = *new;
}

int bench_read_lines(const char *file, const char *text, struct bench_rows *all,
                     struct err *err)
{
    const char *name = strcmp(file, "-") ? file : "standard input";
    int line = 1, rc = 0;

    for (const char *at = text, *end = NULL; rc == 0 && *at; at = end, line++) {
        struct bench_row row;
        struct reader r = {.out = &row, .err = err};
        size_t n = strcspn(at, "\n");
        end = at + n + (at[n] == '\n');
        if (tree_parse_json(&r.tree, name, line, at, (int64_t)n, err))
            return -1;
        rc = read_row(&r);
        if (rc == 0)
            keep(all, &row);
        tree_release(&r.tree);
    }
    return rc;
}

/* Shapes and operations as they first came, in them sizes ascending, in these as they came. */
struct place {
    const struct bench_row *row;
    int shape, op, at;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->shape != y->shape)
        return x->shape - y->shape;
    if (x->op != y->op)
        return x->op - y->op;
    if (x->row->bytes != y->row->bytes)
        return x->row->bytes < y->row->bytes ? -1 : 1;
    return x->at - y->at;
}

static void print_all(struct bench_sink *s, const struct bench_rows *all, int files)
{
    struct place *p = mem_new((size_t)all->rows + 1, sizeof *p);
    const char *shape = "";
    int text = s->o->format == BENCH_TEXT;

    for (int i = 0; i < all->rows; i++) {
        p[i] = (struct place){&all->row[i], i, i, i};
        for (int k = i; k-- > 0;) {
            p[i].shape = strcmp(p[k].row->shape, p[i].row->shape) ? p[i].shape : p[k].shape;
            p[i].op = p[k].row->op == p[i].row->op ? p[k].op : p[i].op;
        }
    }
    qsort(p, (size_t)all->rows, sizeof *p, by_place);
    if (text)
        fprintf(s->file, "# read from %d file%s; best median of several launches\n", files,
                files == 1 ? "" : "s");
    for (int i = 0; i < all->rows; i++) {
        if (text && strcmp(shape, p[i].row->shape)) {
            shape = p[i].row->shape;
            fprintf(s->file, "# %s: %d ranks\n", shape, p[i].row->ranks);
            bench_print_columns(s->o, s->file);
        }
        s->result->wrong = add_wrong(s->result->wrong, p[i].row->wrong);
        bench_sink_row(s, p[i].row);
    }
    mem_free(p);
}

int bench_read_files(const char *const *file, int files, struct bench_rows *all,
                     struct err *err)
{
    int rc = 0;

    for (int i = 0; i < files && rc == 0; i++) {
        char *text = NULL;
        int64_t bytes = 0;
        rc = io_read_text(file[i], FILE_BYTES_MAX, &text, &bytes, err);
        if (rc == 0 && strlen(text) != (size_t)bytes)
            rc = err_at(err, file[i], 0, NULL, "has a byte 0, expected JSON Lines");
        if (rc == 0)
            rc = bench_read_lines(file[i], text, all, err);
        mem_free(text);
    }
    if (rc == 0 && all->rows == 0)
        rc = err_set(err, ERR_INPUT, "no row in '%s', expected JSON Lines of paro-bench",
                     file[0]);
    return rc;
}

int bench_read(const struct bench_options *o, const char *const *file, int files, FILE *out,
               struct bench_result *result, struct err *err)
{
    struct bench_sink s;
    struct bench_rows all = {0};
    int rc = bench_sink_open(&s, o, out, result, err);

    if (rc == 0)
        rc = bench_read_files(file, files, &all, err);
    if (rc == 0)
        print_all(&s, &all, files);
    rc = bench_sink_close(&s, rc, err);
    mem_free(all.row);
    return rc;
}
