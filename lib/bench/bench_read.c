/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads rows back from JSON Lines, and keeps the best of several launches.  Strict: an error
 * names file, line and key.  Shares the table of keys with the printer.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/bench_parts.h"

/* A row has some 900 bytes: 18,000 of them, each of which is compared with all kept ones. */
enum { FILE_BYTES_MAX = 16 << 20, LAUNCHES_MAX = 1000000 };

/* Returns whether the parser of a text failed; prefixes its message with the key. */
static int is_wrong(const struct tree *t, const struct tree_node *n, int rc, struct err *err)
{
    struct err why = *err;

    if (rc)
        tree_fail(t, n, NULL, err, "is invalid: %s", why.text);
    return rc ? -1 : 0;
}

static int read_shape(const struct record *f, const struct tree *t, const struct tree_node *n,
                      void *at, struct err *err)
{
    const char *text = "";
    struct groups g = {0};
    char *shape = at;

    if (tree_text(t, n, 0, SIZE_MAX, &text, err) ||
        is_wrong(t, n, groups_parse(&g, text, err), err))
        return -1;
    groups_print(&g, shape, (int)f->space);
    groups_release(&g);
    return strlen(shape) < f->space - 1
               ? 0
               : tree_fail(t, n, NULL, err, "has more different group sizes than supported");
}

/* Reads a text that older files lack, or that may be unknown. */
static int read_fact(const struct record *f, const struct tree *t, const struct tree_node *n,
                     void *at, struct err *err)
{
    const char *text = "";

    if (tree_text(t, n, 0, SIZE_MAX, &text, err) ||
        is_wrong(t, n, bench_check_fact(text, err), err))
        return -1;
    snprintf(at, f->space, "%s", text);
    return 0;
}

static int read_setting(const struct record *f, const struct tree *t, const struct tree_node *n,
                        void *at, struct err *err)
{
    const char *text = "";

    if (tree_text(t, n, 0, SIZE_MAX, &text, err) ||
        is_wrong(t, n, bench_parse_setting(text, &text, err), err))
        return -1;
    snprintf(at, f->space, "%s", text);
    return 0;
}

static const char *chosen_name(enum schedule_algo algo)
{
    return algo == SCHEDULE_AUTO ? NULL : schedule_algo_name(algo);
}

static int parse_redop_or_none(const char *text, enum dtype_op *op, struct err *err)
{
    *op = DTYPE_OPS;
    return strcmp(text, "none") ? dtype_op_parse(text, op, err) : 0;
}

RECORD_WORDS(phases, unsigned, schedule_phases_parse, schedule_phases_name)
RECORD_WORDS(algo, int, bench_algo_parse, bench_algo_name)
RECORD_WORDS(chosen, enum schedule_algo, schedule_algo_parse, chosen_name)
RECORD_WORDS(type, enum dtype, dtype_parse, dtype_name)
RECORD_WORDS(redop, enum dtype_op, parse_redop_or_none, bench_redop_name)

#define L                             struct bench_line
#define TERM(member, words, ...)      RECORD_TERM(L, row.member, #member, words, __VA_ARGS__)
#define INT(member, key, lo, hi, ...) RECORD_INT(L, row.member, key, lo, hi, __VA_ARGS__)
#define SECONDS(member, key, ...)     RECORD_NUM(L, member, key, 0, DBL_MAX, __VA_ARGS__)
#define TEXT(member, key, read_, ...)                                                          \
    RECORD(TEXT, L, row.member, key, .read = (read_), __VA_ARGS__)
#define MARK(mark, key) SECONDS(row.time_s[mark], key, .column = key "_s", NULLABLE)
/* Files from before percentiles lack them. */
#define PERCENTILE(mark, key) SECONDS(row.time_s[mark], key, .column = key "_s", OPTIONAL)
#define RATIO(member, key)    SECONDS(row.member, key, .column = "ratio_mpi_" key, NULLABLE)
#define OPTIONAL              .flags = RECORD_OPTIONAL
#define NULLABLE              .flags = RECORD_NULLABLE

static const struct record chosen[] = {
    RECORD_TERM(L, row.chosen, "algo", chosen, .column = "chosen", NULLABLE),
    INT(chosen_chunk_bytes, "chunk_bytes", 0, INT64_MAX),
    {0}};

static const struct record times[] = {
    MARK(BENCH_MIN, "min"),
    PERCENTILE(BENCH_P10, "p10"),
    PERCENTILE(BENCH_P25, "p25"),
    SECONDS(row.time_s[BENCH_MEDIAN], "median", .column = "median_s"),
    PERCENTILE(BENCH_P75, "p75"),
    PERCENTILE(BENCH_P90, "p90"),
    PERCENTILE(BENCH_P99, "p99"),
    MARK(BENCH_MAX, "max"),
    {0}};

static const struct record ratios[] = {
    RATIO(ratio_p25, "p25"), RATIO(ratio_mid, "median"), RATIO(ratio_p75, "p75"), {0}};

const struct record bench_line_record[] = {
    TERM(op, phases),
    TERM(algo, algo),
    RECORD_PART("chosen", chosen, OPTIONAL),
    TEXT(setting, "setting", read_setting, OPTIONAL),
    TEXT(shape, "groups", read_shape),
    INT(ranks, "ranks", 1, GROUPS_RANKS_MAX),
    INT(bytes, "bytes", 0, INT64_C(1) << 50),
    INT(elems, "count", 0, INT64_C(1) << 50),
    TERM(type, type),
    TERM(redop, redop),
    INT(root, "root", 0, GROUPS_RANKS_MAX, OPTIONAL),
    RECORD(BOOL, L, row.simulated, "simulated", OPTIONAL),
    INT(launches, "launches", 1, LAUNCHES_MAX, OPTIONAL),
    RECORD_PART("time_s", times),
    RECORD_PART("ratio_mpi", ratios, OPTIONAL),
    SECONDS(algbw_Bps, "algbw_Bps", OPTIONAL),
    SECONDS(busbw_Bps, "busbw_Bps", OPTIONAL),
    INT(slow_bytes, "slow_bytes", 0, INT64_MAX, NULLABLE),
    SECONDS(row.limit_s, "limit_s", NULLABLE),
    SECONDS(limit_fraction, "limit_fraction", OPTIONAL),
    SECONDS(row.predicted_s, "predicted_s", OPTIONAL),
    INT(wrong, "wrong", 0, INT64_MAX, NULLABLE),
    SECONDS(row.load, "loadavg", OPTIONAL),
    TEXT(library, "library", read_fact, OPTIONAL),
    TEXT(host, "host", read_fact, OPTIONAL),
    TEXT(when, "when", read_fact, OPTIONAL),
    {0}};

static int bench_read_row(const struct tree *t, struct bench_row *out, struct err *err)
{
    struct bench_line line = {.row = bench_unknown_row};
    struct groups g = {0};

    if (tree_get(t->root, "overlap"))
        return tree_fail(t, t->root, "overlap", err,
                         "is a row of --overlap, which --read does not support");
    if (record_read(t, t->root, bench_line_record, "", &line, err) ||
        groups_parse(&g, line.row.shape, err))
        return -1;
    int ranks = g.ranks;
    groups_release(&g);
    if (ranks != line.row.ranks)
        return tree_fail(t, t->root, "ranks", err, "is not the number of ranks in 'groups'");
    *out = line.row;
    return 0;
}

static int same(const struct bench_row *a, const struct bench_row *b)
{
    return a->op == b->op && a->algo == b->algo && a->bytes == b->bytes && a->type == b->type &&
           a->redop == b->redop && a->root == b->root && a->simulated == b->simulated &&
           strcmp(a->setting, b->setting) == 0 && strcmp(a->shape, b->shape) == 0;
}

/* Adds counts; below 0: not checked.  Saturates at the largest count. */
static int64_t add_wrong(int64_t a, int64_t b)
{
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* Keeps the best median, and the wrong elements of all. */
static void read_keep(struct bench_rows *all, const struct bench_row *new)
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
    all->row = mem_grow(all->row, &all->space, (size_t)all->rows + 1, sizeof *all->row);
    all->row[all->rows++] = *new;
}

int bench_read_lines(const char *file, const char *text, struct bench_rows *all,
                     struct err *err)
{
    const char *name = strcmp(file, "-") ? file : "standard input";
    int line = 1, rc = 0;

    for (const char *at = text, *end = NULL; rc == 0 && *at; at = end, line++) {
        struct bench_row row;
        struct tree t;
        size_t n = strcspn(at, "\n");
        end = at + n + (at[n] == '\n');
        if (tree_parse_json(&t, name, line, at, (int64_t)n, err))
            return -1;
        rc = bench_read_row(&t, &row, err);
        if (rc == 0)
            read_keep(all, &row);
        tree_release(&t);
    }
    return rc;
}

/* Sorts shapes and operations by first appearance, then by size, then by appearance. */
struct place {
    const struct bench_row *row;
    int shape, op, at;
};

static int read_by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int c = MEM_ORDER(x, y, shape);

    c = c ? c : MEM_ORDER(x, y, op);
    c = c ? c : MEM_ORDER(x, y, row->bytes);
    return c ? c : MEM_ORDER(x, y, at);
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
    qsort(p, (size_t)all->rows, sizeof *p, read_by_place);
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
