/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes and reads the files of a check by their tables. */
#include "health/health_store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/io.h"
#include "base/mem.h"
#include "health/health_data.h"

enum { LINE_MOST = 8192, NAME_MOST = 255, KEYS_MOST = 400 };

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

/* ---- writing ---- */

void health_store_print(const struct health_store *s, const void *whole, FILE *out)
{
    char *text = NULL, line[HEALTH_TAIL];
    size_t bytes = 0;
    struct jout j = {.file = mem_stream(&text, &bytes), .yaml = s->yaml};

    jout_open(&j, NULL, '{');
    jout_text(&j, "format", s->format);
    record_put(&j, s->head, whole);
    if (!s->yaml)
        jout_close(&j, '}');
    for (const struct health_kind *k = s->kind; k->key; k++) {
        int count;
        const char *at = list_of(k, whole, &count);
        if (s->yaml)
            jout_open(&j, k->list, '[');
        for (int i = 0; i < count; i++)
            record_put_object(&j, NULL, k->field, at + (size_t)i * k->size);
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

    if (io_create(&out, path, force | IO_CLOSED, err))
        return -1;
    health_store_print(s, whole, out.file);
    return io_commit(&out, err);
}

/* ---- reading ---- */

struct reader {
    const struct health_store *s;
    const char *name;
    char *whole;
    struct tree tree; /* the current line, in YAML the whole file */
    int line;
    int promised; /* items that the head announces; -1: it has no count */
    int *line_of; /* line of each item of the unique kind, owned */
    size_t line_space;
    struct err *err;
};

#define FAIL(r, key, ...) err_at((r)->err, (r)->name, (r)->line, key, __VA_ARGS__)

int health_store_read_name(const struct record *f, const struct tree *t,
                           const struct tree_node *n, void *at, struct err *err)
{
    char name[NAME_MOST + 1];

    if (tree_word(t, n, name, sizeof name, err))
        return -1;
    health_name_clean(name, at, f->space);
    return 0;
}

/* Reads the head.  In YAML the head, the lists and the checksum are keys of one mapping. */
static int read_head(struct reader *r)
{
    char more[KEYS_MOST] = "format";
    const struct health_kind *first = r->s->kind;

    if (r->s->yaml)
        strcat(more, " checksum");
    for (const struct health_kind *k = first; r->s->yaml && k->key; k++)
        strcat(strcat(more, " "), k->list);
    if (record_read(&r->tree, r->tree.root, r->s->head, more, r->whole, r->err))
        return -1;
    if (r->s->counted) {
        memcpy(&r->promised, r->whole + first->count, sizeof r->promised);
        memset(r->whole + first->count, 0, sizeof r->promised);
    }
    return 0;
}

static int store_add_item(struct reader *r, const struct health_kind *k,
                          const struct tree_node *o)
{
    const char *key = NULL, *wrong = NULL;
    char *item = mem_new(1, k->size);
    size_t space;
    int count, rc = record_read(&r->tree, o, k->field, "", item, r->err);
    char *at = list_of(k, r->whole, &count);

    if (rc == 0 && count == k->most)
        rc = FAIL(r, NULL, "is one of more than %d", k->most);
    if (rc == 0 && k->check)
        wrong = k->check(r->whole, item, &key);
    if (wrong)
        rc = FAIL(r, key, "%s", wrong);
    if (rc == 0) {
        memcpy(&space, r->whole + k->space, sizeof space);
        at = mem_grow(at, &space, (size_t)count + 1, k->size);
        memcpy(at + (size_t)count * k->size, item, k->size);
        if (k->unique) {
            r->line_of =
                mem_grow(r->line_of, &r->line_space, (size_t)count + 1, sizeof *r->line_of);
            r->line_of[count] = r->line;
        }
        count++;
        memcpy(r->whole + k->at, &at, sizeof at);
        memcpy(r->whole + k->count, &count, sizeof count);
        memcpy(r->whole + k->space, &space, sizeof space);
    }
    mem_free(item);
    return rc;
}

static int store_read_line(struct reader *r, const char *text, int64_t bytes)
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
        rc = read_head(r);
    else
        rc = k->key ? store_add_item(r, k, r->tree.root)
                    : FAIL(r, NULL, "is no item of '%s'", r->s->format);
    tree_release(&r->tree);
    return rc;
}

static int read_yaml(struct reader *r, const char *text, int64_t bytes)
{
    if (tree_parse(&r->tree, r->name, text, bytes, r->err))
        return -1;
    int rc = read_head(r);
    for (const struct health_kind *k = r->s->kind; rc == 0 && k->key; k++) {
        const struct tree_node *list = tree_get(r->tree.root, k->list);
        rc = tree_list(&r->tree, list, 0, k->most, r->err);
        for (const struct tree_node *c = list->child; rc == 0 && c; c = c->next) {
            r->line = c->line;
            rc = store_add_item(r, k, c);
        }
    }
    tree_release(&r->tree);
    return rc;
}

/* ---- reading: the whole file ---- */

/* Runs before the checksum, so that another version is reported as such. */
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

/* Returns where the last line begins; -1: it is no checksum of the text before it. */
static int64_t store_check_sum(struct reader *r, const char *text, int64_t bytes)
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

static int store_by_name(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    int order = strcmp(x, y);

    return order ? order : (x > y) - (x < y);
}

/* Sorts, because a file may have too many items to compare each with each. */
static int check_unique(struct reader *r, const struct health_kind *k)
{
    int count, rc = 0;
    char *at = list_of(k, r->whole, &count);
    const char **name = mem_new((size_t)count + 1, sizeof *name);

    for (int i = 0; i < count; i++)
        name[i] = at + (size_t)i * k->size;
    qsort(name, (size_t)count, sizeof *name, store_by_name);
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
    int64_t end = check_format(&r, text, bytes) ? -1 : store_check_sum(&r, text, bytes);
    int rc = end < 0 ? -1 : 0, count;
    const char *key = NULL, *wrong = NULL;

    r.line = 0;
    memset(whole, 0, s->size);
    if (rc == 0 && s->yaml)
        rc = read_yaml(&r, text, bytes);
    for (const char *at = text, *stop; rc == 0 && !s->yaml && at < text + end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(text + end - at));
        r.line++;
        rc = store_read_line(&r, at, stop - at);
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
