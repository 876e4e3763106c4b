/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes structs by tables of their members. */
#include "value/value_record.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { KEYS_BYTES = 1024, WORD_MOST = 255 };

/* Whether the member is an int, or a list of them. */
static int is_int(const struct record *f)
{
    return f->space == sizeof(int) * (size_t)(f->each ? f->each * f->numbers : 1);
}

static int64_t whole_at(const struct record *f, const void *at, int i)
{
    return is_int(f) ? ((const int *)at)[i] : ((const int64_t *)at)[i];
}

double record_real(const struct record *f, const void *from)
{
    return *(const double *)(const void *)((const char *)from + f->at);
}

/* ---- reading ---- */

/* Writes " host ranks out_Bps?"  to `at`, below `end`; returns its end. */
static char *list_keys(const struct record *f, char *at, const char *end)
{
    for (; f->type; f++) {
        if (!f->key) {
            at = list_keys(f->of, at, end);
            continue;
        }
        assert(strlen(f->key) + sizeof " ?" <= (size_t)(end - at));
        at = stpcpy(stpcpy(at, " "), f->key);
        at = stpcpy(at, f->flags & RECORD_OPTIONAL ? "?" : "");
    }
    return at;
}

static int record_read_number(const struct record *f, const struct tree *t,
                              const struct tree_node *n, void *at, int i, struct err *err)
{
    int64_t whole = 0;

    if (f->type == RECORD_REAL)
        return tree_f64(t, n, f->least, f->most, (double *)at + i, err);
    if (tree_i64(t, n, f->lo, f->hi, &whole, err))
        return -1;
    if (is_int(f))
        ((int *)at)[i] = (int)whole;
    else
        ((int64_t *)at)[i] = whole;
    return 0;
}

static int record_read_numbers(const struct record *f, const struct tree *t,
                               const struct tree_node *n, char *from, struct err *err)
{
    int most = f->numbers * f->each, i = 0;

    if (tree_list(t, n, f->count_at ? 0 : most, most, err))
        return -1;
    if (n->items % f->each)
        return tree_fail(t, n, NULL, err, "has %d numbers, expected a multiple of %d", n->items,
                         f->each);
    for (const struct tree_node *c = n->child; c; c = c->next)
        if (record_read_number(f, t, c, from + f->at, i++, err))
            return -1;
    i /= f->each;
    if (f->count_at)
        memcpy(from + f->count_at, &i, sizeof i);
    return 0;
}

static int read_bool(const struct tree *t, const struct tree_node *n, int *at, struct err *err)
{
    const char *text = NULL;

    if (t->json)
        return tree_bool(t, n, at, err);
    if (tree_text(t, n, 0, WORD_MOST, &text, err))
        return -1;
    *at = strcmp(text, "yes") == 0;
    return *at || strcmp(text, "no") == 0
               ? 0
               : tree_fail(t, n, NULL, err, "is '%s', expected yes or no", text);
}

static int record_read_word(const struct record *f, const struct tree *t,
                            const struct tree_node *n, void *at, struct err *err)
{
    const char *text = NULL;
    struct err why;

    if (tree_text(t, n, 0, WORD_MOST, &text, err))
        return -1;
    return f->parse(text, at, &why) ? tree_fail(t, n, NULL, err, "is %s", why.text) : 0;
}

static int record_read_text(const struct record *f, const struct tree *t,
                            const struct tree_node *n, char *at, struct err *err)
{
    if (f->lo > 0 || !n->text || n->text[0])
        return tree_word(t, n, at, f->space, err);
    at[0] = 0;
    return 0;
}

/* Reads one member; n is not NULL. */
static int read_field(const struct record *f, const struct tree *t, const struct tree_node *n,
                      void *out, struct err *err)
{
    void *at = (char *)out + f->at;
    int words = 0;

    if (f->read)
        return f->read(f, t, n, at, err);
    if (f->parse)
        return record_read_word(f, t, n, at, err);
    switch (f->type) {
    case RECORD_BOOL:
        return read_bool(t, n, at, err);
    case RECORD_TEXT:
        return record_read_text(f, t, n, at, err);
    case RECORD_CHOICE:
        while (f->words[words])
            words++;
        return tree_choice(t, n, f->words, words, at, err);
    case RECORD_OBJECT:
        return record_read(t, n, f->of, "", at, err);
    default:
        return f->each ? record_read_numbers(f, t, n, out, err)
                       : record_read_number(f, t, n, at, 0, err);
    }
}

int record_values(const struct tree *t, const struct tree_node *n, const struct record *f,
                  void *out, struct err *err)
{
    for (; f->type; f++) {
        const struct tree_node *v = f->key ? tree_get(n, f->key) : NULL;
        if (!f->key) {
            if (record_values(t, n, f->of, (char *)out + f->at, err))
                return -1;
        } else if (v) {
            if (read_field(f, t, v, out, err))
                return -1;
        } else if (!(f->flags & (RECORD_OPTIONAL | RECORD_NULLABLE))) {
            return tree_fail(t, n, f->key, err, "is null, expected a value");
        }
    }
    return 0;
}

int record_keys(const struct tree *t, const struct tree_node *n, const struct record *f,
                const char *more, struct err *err)
{
    char keys[KEYS_BYTES];

    assert(strlen(more) < sizeof keys);
    list_keys(f, stpcpy(keys, more), keys + sizeof keys);
    return tree_keys(t, n, keys, err);
}

int record_read(const struct tree *t, const struct tree_node *n, const struct record *f,
                const char *more, void *out, struct err *err)
{
    return record_keys(t, n, f, more, err) || record_values(t, n, f, out, err) ? -1 : 0;
}

/* ---- writing ---- */

static int is_unknown(const struct record *f, const void *from)
{
    const void *at = (const char *)from + f->at;
    int64_t whole;

    if (!(f->flags & (RECORD_OPTIONAL | RECORD_NULLABLE)) || f->each)
        return 0;
    switch (f->type) {
    case RECORD_WHOLE:
        whole = whole_at(f, at, 0);
        return whole < f->lo || whole > f->hi || (f->flags & RECORD_ZERO && whole == 0);
    case RECORD_REAL:
        return !(*(const double *)at >= f->least && *(const double *)at <= f->most) ||
               (f->flags & RECORD_ZERO && *(const double *)at == 0);
    case RECORD_BOOL:
    case RECORD_CHOICE:
        return f->flags & RECORD_ZERO && *(const int *)at == 0;
    case RECORD_TEXT:
        return *(const char *)at == 0;
    case RECORD_WORD:
        return !f->name(at);
    case RECORD_OBJECT:
        return is_unknown(f->of, at);
    default:
        return 0;
    }
}

static void put_numbers(struct jout *j, const struct record *f, const void *from)
{
    const void *at = (const char *)from + f->at;
    int items = f->count_at ? *(const int *)(const void *)((const char *)from + f->count_at)
                            : f->numbers;
    int n = f->each ? f->each * items : 1;
    const char *key = f->each ? NULL : f->key;

    if (f->each)
        jout_open(j, f->key, '[');
    for (int i = 0; i < n; i++)
        if (f->type == RECORD_REAL)
            jout_num(j, key, ((const double *)at)[i]);
        else
            jout_int(j, key, whole_at(f, at, i));
    if (f->each)
        jout_close(j, ']');
}

static void put_field(struct jout *j, const struct record *f, const void *from)
{
    const void *at = (const char *)from + f->at;

    if (f->put) {
        f->put(f, j, at);
        return;
    }
    switch (f->type) {
    case RECORD_BOOL:
        if (j->yaml)
            jout_plain(j, f->key, *(const int *)at ? "yes" : "no");
        else
            jout_bool(j, f->key, *(const int *)at);
        return;
    case RECORD_TEXT:
        jout_text(j, f->key, at);
        return;
    case RECORD_CHOICE:
        jout_text(j, f->key, f->words[*(const int *)at]);
        return;
    case RECORD_WORD:
        jout_plain(j, f->key, f->name(at));
        return;
    case RECORD_OBJECT:
        if (f->key)
            record_put_object(j, f->key, f->of, at);
        else
            record_put(j, f->of, at);
        return;
    default:
        put_numbers(j, f, from);
    }
}

void record_put(struct jout *j, const struct record *f, const void *from)
{
    for (; f->type; f++) {
        const void *at = (const char *)from + f->at;
        if (f->flags & RECORD_BRIEF && j->yaml && *(const int *)at == 0)
            continue;
        if (!is_unknown(f, from))
            put_field(j, f, from);
        else if (!j->yaml && f->key && !(f->flags & RECORD_ABSENT))
            jout_null(j, f->key);
    }
}

void record_put_object(struct jout *j, const char *key, const struct record *f,
                       const void *from)
{
    jout_open(j, key, '{');
    record_put(j, f, from);
    jout_close(j, '}');
}

void record_put_list(struct jout *j, const char *key, const struct record *f, const void *from,
                     int count, size_t size)
{
    jout_open(j, key, '[');
    for (int i = 0; i < count; i++)
        record_put_object(j, NULL, f, (const char *)from + (size_t)i * size);
    jout_close(j, ']');
}

void record_put_line(FILE *out, const struct record *f, const void *from)
{
    struct jout j = {.file = out};

    record_put_object(&j, NULL, f, from);
}

/* Prints a cell; unknown values are empty. */
static void put_cell(FILE *out, const struct record *f, const void *from)
{
    const void *at = (const char *)from + f->at;
    const char *text = f->type == RECORD_TEXT     ? at
                       : f->type == RECORD_WORD   ? f->name(at)
                       : f->type == RECORD_CHOICE ? f->words[*(const int *)at]
                                                  : NULL;

    if (is_unknown(f, from))
        return;
    if (text && strpbrk(text, ",\"\n")) {
        putc('"', out);
        for (const char *p = text; *p; p++)
            fprintf(out, "%s%c", *p == '"' ? "\"" : "", *p);
        putc('"', out);
    } else if (text) {
        fputs(text, out);
    } else if (f->type == RECORD_REAL) {
        if (isfinite(*(const double *)at))
            fprintf(out, "%.9g", *(const double *)at);
    } else {
        fprintf(out, "%" PRId64, whole_at(f, at, 0));
    }
}

/* Prints a table's cells; from NULL: empty ones.  Returns the number of cells so far. */
static int put_cells(FILE *out, const struct record *f, int head, const char *from, int cells)
{
    for (; f->type; f++) {
        if (f->type == RECORD_OBJECT) {
            const char *in = from && !is_unknown(f, from) ? from + f->at : NULL;
            cells = put_cells(out, f->of, head, in, cells);
            continue;
        }
        if (cells++)
            putc(',', out);
        if (head)
            fputs(f->column ? f->column : f->key, out);
        else if (from)
            put_cell(out, f, from);
    }
    return cells;
}

void record_put_csv(FILE *out, const struct record *f, const void *from)
{
    put_cells(out, f, !from, from, 0);
    putc('\n', out);
}
