/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how rows come back from JSON Lines, and which of several launches' rows stays.  Strict:
 * a line that bench_print would not have written is an error that names file, line and key.
 */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/jtree.h"
#include "bench/bench_parts.h"
#include "bench/bench_rows.h"

/* A row has some 900 bytes: 18,000 of them, each of which is compared with all kept ones. */
enum { FILE_BYTES_MAX = 16 << 20, LAUNCHES_MAX = 1000000 };

struct reader {
    const char *file;
    int line;
    struct err *err;
    int bad; /* err is set: the first to know says it */
};

static void refuse(struct reader *r, const char *key, const char *text)
{
    if (!r->bad)
        r->bad = err_at(r->err, r->file, r->line, key, "%s", text);
}

static const char *get_text(struct reader *r, json_t *row, const char *key)
{
    json_t *v = json_object_get(row, key);

    if (v && json_is_string(v))
        return json_string_value(v);
    refuse(r, key, "is missing or not text, expected text");
    return "";
}

/* null is -1; so is a key that older files lack, where `optional`. */
static int64_t get_int(struct reader *r, json_t *row, const char *key, int64_t most,
                       int optional)
{
    json_t *v = json_object_get(row, key);

    if ((!v && optional) || (v && json_is_null(v)))
        return -1;
    if (v && json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= most)
        return json_integer_value(v);
    refuse(r, key, "is missing or not a whole number from 0 on, expected one");
    return -1;
}

/* null is NAN; so is a key that older files lack, where `optional`. */
static double get_num(struct reader *r, json_t *row, const char *key, int optional)
{
    json_t *v = json_object_get(row, key);

    if ((!v && optional) || (v && json_is_null(v)))
        return NAN;
    if (v && json_is_number(v) && json_number_value(v) >= 0)
        return json_number_value(v);
    refuse(r, key, "is missing or not a number from 0 on, expected one");
    return NAN;
}

static json_t *get_object(struct reader *r, json_t *row, const char *key)
{
    json_t *v = json_object_get(row, key);

    if (!v || json_is_null(v))
        return NULL;
    if (!json_is_object(v))
        refuse(r, key, "is not an object");
    return json_is_object(v) ? v : NULL;
}

/* A row has the keys that print_json writes, and no others. */
static void check_keys(struct reader *r, json_t *row)
{
    static const char *const known[] = {
        "op",          "algo",      "chosen",     "setting", "groups",
        "ranks",       "bytes",     "count",      "type",    "redop",
        "root",        "simulated", "launches",   "time_s",  "ratio_mpi",
        "algbw_Bps",   "busbw_Bps", "slow_bytes", "limit_s", "limit_fraction",
        "predicted_s", "wrong",     "loadavg",    "library", "host",
        "when"};
    const char *key;
    json_t *v;

    json_object_foreach(row, key, v)
    {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(key, known[i]))
            i++;
        if (i == sizeof known / sizeof *known) {
            refuse(r, key,
                   strcmp(key, "overlap")
                       ? "is an unknown key"
                       : "is a row of --overlap, which --read does not support");
            return;
        }
    }
}

static void check(struct reader *r, int rc, const char *key)
{
    struct err why = *r->err;

    if (rc && !r->bad)
        r->bad = err_at(r->err, r->file, r->line, key, "is invalid: %s", why.text);
}

/* What auto took. */
static void read_chosen(struct reader *r, json_t *chosen, struct bench_row *out)
{
    const char *algo = get_text(r, chosen, "algo");

    out->chosen_chunk_bytes = get_int(r, chosen, "chunk_bytes", INT64_MAX, 0);
    if (out->chosen_chunk_bytes < 0)
        refuse(r, "chunk_bytes", "is null, expected a number");
    if (!r->bad)
        check(r, schedule_algo_parse(algo, &out->chosen, r->err), "chosen");
}

static void read_shape(struct reader *r, const char *shape, struct bench_row *out)
{
    struct groups g = {0};

    check(r, groups_parse(&g, shape, r->err), "groups");
    if (!r->bad && g.ranks != out->ranks)
        refuse(r, "ranks", "is not the number of ranks in 'groups'");
    if (!r->bad)
        groups_print(&g, out->shape, sizeof out->shape);
    if (strlen(out->shape) == sizeof out->shape - 1)
        refuse(r, "groups", "has more different group sizes than supported");
    groups_release(&g);
}

/* What older files lack, and what was not known. */
static void read_fact(struct reader *r, json_t *row, const char *key, char *out)
{
    json_t *v = json_object_get(row, key);

    if (!v || json_is_null(v))
        return;
    const char *text = get_text(r, row, key);
    if (r->bad)
        return;
    check(r, bench_check_fact(text, r->err), key);
    snprintf(out, BENCH_FACT_ROOM, "%s", text);
}

/* The texts first: what is said of a wrong one would be said in place of what is absent. */
static void read_words(struct reader *r, json_t *row, struct bench_row *out)
{
    const char *shape = get_text(r, row, "groups"), *redop = get_text(r, row, "redop");
    const char *op = get_text(r, row, "op"), *algo = get_text(r, row, "algo");
    const char *type = get_text(r, row, "type"), *setting = NULL;
    json_t *chosen = get_object(r, row, "chosen"), *named = json_object_get(row, "setting");

    if (named && !json_is_null(named))
        setting = get_text(r, row, "setting");
    if (!r->bad)
        check(r, schedule_phases_parse(op, &out->op, r->err), "op");
    if (!r->bad)
        check(r, bench_algo_parse(algo, &out->algo, r->err), "algo");
    if (!r->bad)
        check(r, dtype_parse(type, &out->type, r->err), "type");
    if (!r->bad && strcmp(redop, "none"))
        check(r, dtype_op_parse(redop, &out->redop, r->err), "redop");
    if (!r->bad && setting) {
        check(r, bench_check_setting(setting, r->err), "setting");
        snprintf(out->setting, sizeof out->setting, "%s", setting);
    }
    if (!r->bad && chosen)
        read_chosen(r, chosen, out);
    if (!r->bad)
        read_shape(r, shape, out);
}

static void read_times(struct reader *r, json_t *row, struct bench_row *out)
{
    json_t *t = get_object(r, row, "time_s"), *ratio = get_object(r, row, "ratio_mpi");

    if (!t) {
        refuse(r, "time_s", "is missing, expected an object");
        return;
    }
    for (int m = 0; m < BENCH_MARKS; m++) {
        int always = m == BENCH_MIN || m == BENCH_MEDIAN || m == BENCH_MAX;
        out->time_s[m] = get_num(r, t, bench_mark_name(m), !always);
    }
    if (!isfinite(out->time_s[BENCH_MEDIAN]))
        refuse(r, "median", "is null, expected a number");
    out->ratio_p25 = ratio ? get_num(r, ratio, "p25", 0) : NAN;
    out->ratio_mid = ratio ? get_num(r, ratio, "median", 0) : NAN;
    out->ratio_p75 = ratio ? get_num(r, ratio, "p75", 0) : NAN;
    out->limit_s = get_num(r, row, "limit_s", 0);
    out->predicted_s = get_num(r, row, "predicted_s", 1);
    out->load = get_num(r, row, "loadavg", 1);
}

static int read_row(struct reader *r, json_t *row, struct bench_row *out)
{
    *out = (struct bench_row){.chosen = SCHEDULE_AUTO, .redop = DTYPE_OPS};
    check_keys(r, row);
    out->ranks = (int)get_int(r, row, "ranks", GROUPS_RANKS_MAX, 0);
    out->root = (int)get_int(r, row, "root", GROUPS_RANKS_MAX, 1);
    out->bytes = get_int(r, row, "bytes", INT64_C(1) << 50, 0);
    out->elems = get_int(r, row, "count", INT64_C(1) << 50, 0);
    out->slow_bytes = get_int(r, row, "slow_bytes", INT64_MAX, 0);
    out->wrong = get_int(r, row, "wrong", INT64_MAX, 0);
    out->launches = (int)get_int(r, row, "launches", LAUNCHES_MAX, 1);
    out->launches = out->launches < 1 ? 1 : out->launches;
    out->simulated = json_is_true(json_object_get(row, "simulated"));
    if (out->bytes < 0 || out->elems < 0 || out->ranks < 1)
        refuse(r, out->ranks < 1 ? "ranks" : "bytes", "is null or 0, expected a number");
    read_words(r, row, out);
    read_times(r, row, out);
    read_fact(r, row, "library", out->library);
    read_fact(r, row, "host", out->host);
    read_fact(r, row, "when", out->when);
    return r->bad ? -1 : 0;
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
    struct reader r = {.file = strcmp(file, "-") ? file : "standard input", .err = err};

    for (const char *at = text, *end = NULL; *at; at = end) {
        struct bench_row row;
        json_error_t why;
        size_t n = strcspn(at, "\n");
        end = at + n + (at[n] == '\n');
        r.line++;
        json_t *v = jtree_load(at, (int64_t)n, &why);
        if (!v)
            return err_at(err, r.file, r.line, NULL, "is not a JSON object: %s", why.text);
        if (!json_is_object(v))
            refuse(&r, NULL, "is not a JSON object");
        else if (read_row(&r, v, &row) == 0)
            keep(all, &row);
        json_decref(v);
        if (r.bad)
            return -1;
    }
    return 0;
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
