/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how tables of fields become files, and files the structs that they describe. */
#include "health/health_store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/io.h"
#include "base/jout.h"
#include "base/mem.h"
#include "base/tree.h"
#include "base/utf8.h"
#include "health/health_data.h"

enum { LINE_MOST = 8192, NAME_MOST = 255, TEXT_MOST = 512, KEYS_MOST = 400 };

int health_store_tail(const struct health_store *s, const char *text, int64_t bytes,
                      char line[HEALTH_TAIL])
{
    XXH128_hash_t h = XXH3_128bits(text, (size_t)bytes);

    return snprintf(line, HEALTH_TAIL,
                    s->yaml ? "checksum: %016" PRIx64 "%016" PRIx64 "\n"
                            : "{\"xxh3\":\"%016" PRIx64 "%016" PRIx64 "\"}\n",
                    (uint64_t)h.high64, (uint64_t)h.low64);
}

static void *list_of(const struct health_kind *k, const void *whole, int *count)
{
    void *at;

    memcpy(&at, (const char *)whole + k->at, sizeof at);
    memcpy(count, (const char *)whole + k->count, sizeof *count);
    return at;
}

static int int_at(const char *at)
{
    int v;

    memcpy(&v, at, sizeof v);
    return v;
}

/* ---- writing ---- */

static void put_field(struct jout *j, const struct health_field *f, const char *item)
{
    const void *at = item + f->at;
    int n = f->each ? f->each * (f->count_at ? int_at(item + f->count_at) : f->numbers) : 1;
    const char *key = f->each ? NULL : f->key;
    char text[TEXT_MOST];

    switch (f->type) {
    case HEALTH_TYPE_BOOL:
        jout_bool(j, f->key, int_at(at));
        return;
    case HEALTH_TYPE_WORD:
        if (int_at(at) && f->word)
            jout_text(j, f->key, f->word);
        else if (int_at(at))
            jout_bool(j, f->key, 1);
        return;
    case HEALTH_TYPE_TEXT:
    case HEALTH_TYPE_NAME:
        snprintf(text, sizeof text, "%s", (const char *)at);
        utf8_clean(text);
        jout_text(j, f->key, text);
        return;
    case HEALTH_TYPE_LEVEL:
        jout_text(j, f->key, health_levels[int_at(at)]);
        return;
    case HEALTH_TYPE_PARTS:
        jout_open(j, f->key, '[');
        for (int p = 0; p < HEALTH_PARTS; p++)
            if ((unsigned)int_at(at) >> p & 1)
                jout_text(j, NULL, health_parts[p]);
        jout_close(j, ']');
        return;
    default:
        if (f->each)
            jout_open(j, f->key, '[');
        for (int i = 0; i < n; i++)
            if (f->type == HEALTH_TYPE_REAL)
                jout_num(j, key, ((const double *)at)[i]);
            else if (f->type == HEALTH_TYPE_I64)
                jout_int(j, key, ((const int64_t *)at)[i]);
            else
                jout_int(j, key, ((const int *)at)[i]);
        if (f->each)
            jout_close(j, ']');
    }
}

void health_store_print(const struct health_store *s, const void *whole, FILE *out)
{
    char *text = NULL, line[HEALTH_TAIL];
    size_t bytes = 0;
    struct jout j = {.file = mem_stream(&text, &bytes), .yaml = s->yaml};

    jout_open(&j, NULL, '{');
    jout_text(&j, "format", s->format);
    for (const struct health_field *f = s->head; f->key; f++)
        put_field(&j, f, whole);
    if (!s->yaml)
        jout_close(&j, '}');
    for (const struct health_kind *k = s->kind; k->key; k++) {
        int count;
        const char *at = list_of(k, whole, &count);
        if (s->yaml)
            jout_open(&j, k->list, '[');
        for (int i = 0; i < count; i++) {
            jout_open(&j, NULL, '{');
            for (const struct health_field *f = k->field; f->key; f++)
                put_field(&j, f, at + (size_t)i * k->size);
            jout_close(&j, '}');
        }
        if (s->yaml)
            jout_close(&j, ']');
    }
    if (s->yaml)
        jout_close(&j, '}');
    fclose(j.file);
    health_store_tail(s, text, (int64_t)bytes, line);
    fwrite(text, 1, bytes, out);
    fputs(line, out);
    mem_free(text);
}

int health_store_write(const struct health_store *s, const void *whole, const char *path,
                       int force, struct err *err)
{
    struct io_out out;

    if (health_file_create(&out, path, force, err))
        return -1;
    health_store_print(s, whole, out.file);
    return health_file_commit(&out, err);
}

/* ---- reading: values ---- */

struct reader {
    const struct health_store *s;
    const char *name;
    char *whole;
    struct tree tree; /* of the line, in YAML of all */
    int line;
    int promised; /* items that follow by the head; -1: it has no count */
    char keys[HEALTH_KINDS_MOST + 1][KEYS_MOST]; /* of items of each kind; last: of the head */
    int *line_of; /* of the items of the kind that is unique, owned */
    size_t line_room;
    struct err *err;
};

#define FAIL(r, key, ...) err_at((r)->err, (r)->name, (r)->line, key, __VA_ARGS__)

static int read_number(struct reader *r, const struct health_field *f,
                       const struct tree_node *n, void *at, int i)
{
    int64_t whole = 0;

    if (f->type == HEALTH_TYPE_REAL)
        return tree_f64(&r->tree, n, f->least, f->most, (double *)at + i, r->err);
    if (n->text && n->text[strspn(n->text, "-0123456789")]) /* without an exponent or a unit */
        return tree_fail(&r->tree, n, NULL, r->err, "is '%.64s', expected a whole number",
                         n->text);
    if (tree_i64(&r->tree, n, f->lo, f->hi, &whole, r->err))
        return -1;
    if (f->type == HEALTH_TYPE_COUNT)
        r->promised = (int)whole;
    else if (f->type == HEALTH_TYPE_I64)
        ((int64_t *)at)[i] = whole;
    else
        ((int *)at)[i] = (int)whole;
    return 0;
}

static int read_numbers(struct reader *r, const struct health_field *f,
                        const struct tree_node *n, char *item)
{
    int most = f->numbers * f->each, i = 0;

    if (tree_list(&r->tree, n, f->count_at ? 0 : most, most, r->err))
        return -1;
    if (n->items % f->each)
        return tree_fail(&r->tree, n, NULL, r->err, "has %d numbers, expected a multiple of %d",
                         n->items, f->each);
    for (const struct tree_node *c = n->child; c; c = c->next)
        if (read_number(r, f, c, item + f->at, i++))
            return -1;
    if (f->count_at) {
        i /= f->each;
        memcpy(item + f->count_at, &i, sizeof i);
    }
    return 0;
}

static int read_text(struct reader *r, const struct health_field *f, const struct tree_node *n,
                     char *to)
{
    const int is_name = f->type == HEALTH_TYPE_NAME;
    char name[NAME_MOST + 1];

    if (!is_name && n->quoted && !n->text[0]) {
        to[0] = 0;
        return 0;
    }
    if (tree_word(&r->tree, n, is_name ? name : to, is_name ? sizeof name : f->room, r->err))
        return -1;
    if (is_name)
        health_name_clean(name, to, f->room);
    return 0;
}

static int read_parts(struct reader *r, const struct tree_node *n, unsigned *parts)
{
    int last = -1, part = 0;

    if (tree_list(&r->tree, n, 0, HEALTH_PARTS, r->err))
        return -1;
    for (const struct tree_node *c = n->child; c; c = c->next, last = part) {
        if (tree_choice(&r->tree, c, health_parts, HEALTH_PARTS, &part, r->err))
            return -1;
        if (part <= last)
            return tree_fail(&r->tree, c, NULL, r->err,
                             "is '%s', expected names of checks in their order", c->text);
        *parts |= 1u << part;
    }
    return 0;
}

static int read_field(struct reader *r, const struct health_field *f, const struct tree_node *n,
                      char *item)
{
    int *at = (int *)(void *)(item + f->at);
    const char *text = "";

    switch (f->type) {
    case HEALTH_TYPE_BOOL:
        return tree_bool(&r->tree, n, at, r->err);
    case HEALTH_TYPE_WORD:
        if (!f->word ? tree_bool(&r->tree, n, at, r->err)
                     : tree_text(&r->tree, n, 0, NAME_MOST, &text, r->err))
            return -1;
        *at = f->word ? strcmp(text, f->word) == 0 : *at;
        return *at ? 0
                   : tree_fail(&r->tree, n, NULL, r->err,
                               "is '%.40s', expected %s or no such key", n->text,
                               f->word ? f->word : "true");
    case HEALTH_TYPE_TEXT:
    case HEALTH_TYPE_NAME:
        return read_text(r, f, n, item + f->at);
    case HEALTH_TYPE_LEVEL:
        return tree_choice(&r->tree, n, health_levels, HEALTH_LEVELS, at, r->err);
    case HEALTH_TYPE_PARTS:
        return read_parts(r, n, (unsigned *)at);
    default:
        return f->each ? read_numbers(r, f, n, item) : read_number(r, f, n, item + f->at, 0);
    }
}

/* ---- reading: objects ---- */

/* Of `keys` all, each once; those of the table into the struct. */
static int read_object(struct reader *r, const struct health_field *f, const char *keys,
                       const struct tree_node *o, char *item)
{
    if (tree_keys(&r->tree, o, keys, r->err))
        return -1;
    for (; f->key; f++) {
        const struct tree_node *n = tree_get(o, f->key);
        if (n ? read_field(r, f, n, item) : f->type != HEALTH_TYPE_WORD)
            return n ? -1 : tree_fail(&r->tree, o, f->key, r->err, "is null, expected a value");
    }
    return 0;
}

static int add_item(struct reader *r, const struct health_kind *k, const struct tree_node *o)
{
    const char *key = NULL, *wrong = NULL;
    char *item = mem_new(1, k->size);
    size_t room;
    int count, rc = read_object(r, k->field, r->keys[k - r->s->kind], o, item);
    char *at = list_of(k, r->whole, &count);

    if (rc == 0 && count == k->most)
        rc = FAIL(r, NULL, "is one of more than %d", k->most);
    if (rc == 0 && k->check)
        wrong = k->check(r->whole, item, &key);
    if (wrong)
        rc = FAIL(r, key, "%s", wrong);
    if (rc == 0) {
        memcpy(&room, r->whole + k->room, sizeof room);
        at = mem_grow(at, &room, (size_t)count + 1, k->size);
        memcpy(at + (size_t)count * k->size, item, k->size);
        if (k->unique) {
            r->line_of =
                mem_grow(r->line_of, &r->line_room, (size_t)count + 1, sizeof *r->line_of);
            r->line_of[count] = r->line;
        }
        count++;
        memcpy(r->whole + k->at, &at, sizeof at);
        memcpy(r->whole + k->count, &count, sizeof count);
        memcpy(r->whole + k->room, &room, sizeof room);
    }
    mem_free(item);
    return rc;
}

static int read_line(struct reader *r, const char *text, int64_t bytes)
{
    const struct health_kind *k = r->s->kind;
    int rc;

    if (bytes > LINE_MOST)
        return FAIL(r, NULL, "has %" PRId64 " bytes, expected %d at most", bytes, LINE_MOST);
    if (tree_parse_json(&r->tree, r->name, r->line, text, bytes, r->err))
        return -1;
    while (k->key && !tree_get(r->tree.root, k->key))
        k++;
    if (r->line == 1)
        rc = read_object(r, r->s->head, r->keys[HEALTH_KINDS_MOST], r->tree.root, r->whole);
    else
        rc = k->key ? add_item(r, k, r->tree.root)
                    : FAIL(r, NULL, "is no item of '%s'", r->s->format);
    tree_release(&r->tree);
    return rc;
}

static int read_yaml(struct reader *r, const char *text, int64_t bytes)
{
    if (tree_parse(&r->tree, r->name, text, bytes, r->err))
        return -1;
    int rc = read_object(r, r->s->head, r->keys[HEALTH_KINDS_MOST], r->tree.root, r->whole);
    for (const struct health_kind *k = r->s->kind; rc == 0 && k->key; k++) {
        const struct tree_node *list = tree_get(r->tree.root, k->list);
        rc = tree_list(&r->tree, list, 0, k->most, r->err);
        for (const struct tree_node *c = list->child; rc == 0 && c; c = c->next) {
            r->line = c->line;
            rc = add_item(r, k, c);
        }
    }
    tree_release(&r->tree);
    return rc;
}

/* ---- reading: the whole ---- */

static void add_key(char keys[KEYS_MOST], const char *key, const char *mark)
{
    size_t used = strlen(keys);

    snprintf(keys + used, KEYS_MOST - used, " %s%s", key, mark);
}

/* "format when_s device? paths ports checksum" */
static void list_keys(struct reader *r)
{
    char *head = r->keys[HEALTH_KINDS_MOST];

    add_key(head, "format", "");
    for (const struct health_field *f = r->s->head; f->key; f++)
        add_key(head, f->key, f->type == HEALTH_TYPE_WORD ? "?" : "");
    for (const struct health_kind *k = r->s->kind; k->key; k++) {
        for (const struct health_field *f = k->field; f->key; f++)
            add_key(r->keys[k - r->s->kind], f->key, "");
        if (r->s->yaml)
            add_key(head, k->list, "");
    }
    if (r->s->yaml)
        add_key(head, "checksum", "");
}

/* Before the checksum: another version is named by its name. */
static int check_format(struct reader *r, const char *text, int64_t bytes)
{
    const char *before = r->s->yaml ? "format: " : "{\"format\":\"";
    size_t n = strlen(before), line = strcspn(text, "\n");
    char found[41] = "";

    if ((int64_t)strlen(r->s->format) + (int64_t)n < bytes && memcmp(text, before, n) == 0)
        snprintf(found, sizeof found, "%.*s", (int)strcspn(text + n, "\"\n"), text + n);
    r->line = 1;
    if (strcmp(found, r->s->format) == 0)
        return 0;
    if (found[0])
        return FAIL(r, "format", "is '%s', expected '%s'", found, r->s->format);
    snprintf(found, sizeof found, "%.*s", (int)(line < 40 ? line : 40), text);
    return FAIL(r, NULL, "is '%s', expected the format %s", found, r->s->format);
}

/* Where the last line begins; -1: it is no checksum of what is before it. */
static int64_t check_sum(struct reader *r, const char *text, int64_t bytes)
{
    char line[HEALTH_TAIL];
    int64_t before = bytes - health_store_tail(r->s, text, 0, line);
    const int key = r->s->yaml ? sizeof "checksum: " - 1 : sizeof "{\"xxh3\":\"" - 1;

    r->line = 0;
    for (int64_t i = 0; i < bytes; i++)
        r->line += i == 0 || text[i - 1] == '\n';
    if (before > 0 && text[before - 1] == '\n') {
        int tail = health_store_tail(r->s, text, before, line);
        if (memcmp(line, text + before, (size_t)tail) == 0)
            return before;
        if (memcmp(line, text + before, (size_t)key) == 0)
            return FAIL(r, NULL, "is damaged: its checksum is not %.32s", line + key);
    }
    return FAIL(r, NULL, "does not end with its checksum: it is cut or changed");
}

static int by_name(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    int order = strcmp(x, y);

    return order ? order : (x > y) - (x < y);
}

/* Sorted, since a file may list more than can be compared each with each. */
static int check_unique(struct reader *r, const struct health_kind *k)
{
    int count, rc = 0;
    char *at = list_of(k, r->whole, &count);
    const char **name = mem_new((size_t)count + 1, sizeof *name);

    for (int i = 0; i < count; i++)
        name[i] = at + (size_t)i * k->size;
    qsort(name, (size_t)count, sizeof *name, by_name);
    for (int i = 1; rc == 0 && i < count; i++)
        if (strcmp(name[i - 1], name[i]) == 0) {
            r->line = r->line_of[(size_t)(name[i] - at) / k->size];
            rc = FAIL(r, k->key, "is '%s' a second time, expected each once", name[i]);
        }
    mem_free(name);
    return rc;
}

int health_store_parse(const struct health_store *s, const char *name, const char *text,
                       int64_t bytes, void *whole, struct err *err)
{
    struct reader r = {.s = s, .name = name, .whole = whole, .promised = -1, .err = err};
    int64_t end = check_format(&r, text, bytes) ? -1 : check_sum(&r, text, bytes);
    int rc = end < 0 ? -1 : 0, count;
    const char *key = NULL, *wrong = NULL;

    r.line = 0;
    memset(whole, 0, s->size);
    list_keys(&r);
    if (rc == 0 && s->yaml)
        rc = read_yaml(&r, text, bytes);
    for (const char *at = text, *stop; rc == 0 && !s->yaml && at < text + end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(text + end - at));
        r.line++;
        rc = read_line(&r, at, stop - at);
    }
    for (const struct health_kind *k = s->kind; rc == 0 && k->key; k++)
        if (k->unique)
            rc = check_unique(&r, k);
    if (rc == 0 && r.promised >= 0) {
        list_of(s->kind, whole, &count);
        if (count != r.promised)
            rc = FAIL(&r, NULL, "is the last, %d '%s' expected and %d found", r.promised,
                      s->kind->key, count);
    }
    if (rc == 0 && s->check)
        wrong = s->check(whole, &key);
    if (wrong)
        rc = err_at(err, name, 1, key, "%s", wrong);
    if (rc)
        s->release(whole);
    mem_free(r.line_of);
    return rc;
}

int health_store_read(const struct health_store *s, const char *path, void *whole,
                      struct err *err)
{
    char *text = NULL;
    int64_t bytes = 0;

    if (io_read_text(path, s->bytes_most, &text, &bytes, err))
        return -1;
    int rc = health_store_parse(s, path, text, bytes, whole, err);
    mem_free(text);
    return rc;
}
