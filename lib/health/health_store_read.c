/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how files become the structs that tables of fields describe. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/jtree.h"
#include "base/mem.h"
#include "base/num.h"
#include "health/health_data.h"
#include "health/health_name.h"
#include "health/health_store.h"

enum { LINE_MOST = 8192, NAME_MOST = 255 };

/* ---- reading: values ---- */

struct reader {
    const struct health_store *s;
    const char *name;
    char *whole;
    int line;
    int promised;        /* items that the head says follow; -1: it says nothing */
    const char *of_line; /* YAML: the list that the line is in */
    unsigned begun;      /* bit k: the list of kind k */
    int *line_of;        /* of the items of the kind that is unique, owned */
    size_t line_room;
    struct err *err;
};

#define FAIL(r, key, ...) err_at((r)->err, (r)->name, (r)->line, key, __VA_ARGS__)

/* A value as an error shows it. */
static const char *shown(json_t *v, char text[64])
{
    static const char *const kinds[] = {[JSON_OBJECT] = "an object",
                                        [JSON_ARRAY] = "a list",
                                        [JSON_TRUE] = "true",
                                        [JSON_FALSE] = "false",
                                        [JSON_NULL] = "null"};

    if (json_is_string(v))
        snprintf(text, 64, "'%.40s'", json_string_value(v));
    else if (json_is_integer(v))
        snprintf(text, 64, "%" PRId64, (int64_t)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(text, 64, "%.6g", json_real_value(v));
    else
        return kinds[json_typeof(v)];
    return text;
}

static int read_whole(struct reader *r, const struct health_field *f, json_t *v, int64_t *out)
{
    struct err why;
    char text[64];
    int ok = 0;

    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        ok = *out >= f->lo && *out <= f->hi;
    } else if (r->s->yaml && json_is_string(v)) {
        ok = num_i64(json_string_value(v), f->lo, f->hi, out, &why) == 0;
    }
    return ok ? 0
              : FAIL(r, f->key, "is %s, expected a whole number from %" PRId64 " to %" PRId64,
                     shown(v, text), f->lo, f->hi);
}

static int read_real(struct reader *r, const struct health_field *f, json_t *v, double *out)
{
    struct err why;
    char text[64];
    int ok = 0;

    if (json_is_number(v)) {
        *out = json_number_value(v);
        ok = *out >= f->least && *out <= f->most;
    } else if (r->s->yaml && json_is_string(v)) {
        ok = num_f64(json_string_value(v), f->least, f->most, out, &why) == 0;
    }
    return ok ? 0
              : FAIL(r, f->key, "is %s, expected a number from %g to %g", shown(v, text),
                     f->least, f->most);
}

static int read_number(struct reader *r, const struct health_field *f, json_t *v, char *at,
                       int i)
{
    int64_t whole;

    if (f->type == HEALTH_TYPE_REAL)
        return read_real(r, f, v, (double *)(void *)at + i);
    if (read_whole(r, f, v, &whole))
        return -1;
    if (f->type == HEALTH_TYPE_I64)
        ((int64_t *)(void *)at)[i] = whole;
    else
        ((int *)(void *)at)[i] = (int)whole;
    return 0;
}

static int read_numbers(struct reader *r, const struct health_field *f, json_t *v, char *item)
{
    int n = (int)json_array_size(v), each = f->fixed ? f->fixed : f->each;
    int most = f->fixed ? each : each * f->items_most;
    char text[64];

    if (!f->fixed && !f->each)
        return read_number(r, f, v, item + f->at, 0);
    if (!json_is_array(v))
        return FAIL(r, f->key, "is %s, expected a list", shown(v, text));
    if (f->fixed ? n != most : n > most)
        return FAIL(r, f->key, "has %d numbers, expected %d%s", n, most,
                    f->fixed ? "" : " at most");
    if (n % each)
        return FAIL(r, f->key, "has %d numbers, expected a multiple of %d", n, each);
    for (int i = 0; i < n; i++)
        if (read_number(r, f, json_array_get(v, (size_t)i), item + f->at, i))
            return -1;
    if (!f->fixed)
        *(int *)(void *)(item + f->count_at) = n / each;
    return 0;
}

/* Without control characters, which no writer leaves in. */
static int read_text(struct reader *r, const struct health_field *f, json_t *v, char *to)
{
    const char *text = json_string_value(v);
    size_t n = json_string_length(v),
           most = f->type == HEALTH_TYPE_NAME ? (size_t)NAME_MOST : f->room - 1;
    char found[64];

    if (!json_is_string(v))
        return FAIL(r, f->key, "is %s, expected text", shown(v, found));
    if (n > most)
        return FAIL(r, f->key, "has %zu bytes, expected %zu at most", n, most);
    for (size_t i = 0; i < n; i++) /* a byte 0 too */
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return FAIL(r, f->key, "has a control character in it, expected text");
    if (f->type == HEALTH_TYPE_TEXT)
        memcpy(to, text, n + 1);
    else if (n == 0)
        return FAIL(r, f->key, "is empty, expected a name");
    else
        health_name_clean(text, to, f->room);
    return 0;
}

static int read_parts(struct reader *r, const struct health_field *f, json_t *list, void *to)
{
    unsigned parts = 0;
    char text[64];

    if (!json_is_array(list))
        return FAIL(r, f->key, "is %s, expected a list", shown(list, text));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        unsigned bit = 0;
        for (int p = 0; word && p < HEALTH_PARTS; p++)
            if (strcmp(word, health_part_name((enum health_part)p)) == 0)
                bit = 1u << p;
        if (bit <= parts) /* ascending */
            return FAIL(r, f->key,
                        "has '%.40s' at %zu, expected names of checks in their order",
                        word ? word : "no text", i);
        parts |= bit;
    }
    memcpy(to, &parts, sizeof parts);
    return 0;
}

static int read_field(struct reader *r, const struct health_field *f, json_t *v, char *item)
{
    char *at = item + f->at;
    int *flag = (int *)(void *)at;
    int64_t whole;
    enum health_level level;
    struct err why;
    char text[64];

    switch (f->type) {
    case HEALTH_TYPE_BOOL:
        *flag = json_is_true(v);
        return json_is_boolean(v)
                   ? 0
                   : FAIL(r, f->key, "is %s, expected true or false", shown(v, text));
    case HEALTH_TYPE_WORD:
        *flag = f->word ? json_is_string(v) && strcmp(json_string_value(v), f->word) == 0
                        : json_is_true(v);
        return *flag ? 0
                     : FAIL(r, f->key, "is %s, expected %s or no such key", shown(v, text),
                            f->word ? f->word : "true");
    case HEALTH_TYPE_TEXT:
    case HEALTH_TYPE_NAME:
        return read_text(r, f, v, at);
    case HEALTH_TYPE_LEVEL:
        if (!json_is_string(v) || health_level_parse(json_string_value(v), &level, &why))
            return FAIL(r, f->key, "is %s, expected quick, normal or deep", shown(v, text));
        *flag = (int)level;
        return 0;
    case HEALTH_TYPE_PARTS:
        return read_parts(r, f, v, at);
    case HEALTH_TYPE_COUNT:
        if (read_whole(r, f, v, &whole))
            return -1;
        r->promised = (int)whole;
        return 0;
    default:
        return read_numbers(r, f, v, item);
    }
}

/* ---- reading: objects ---- */

/* Exactly the keys of the table; in the head also `format`, which was looked at. */
static int read_object(struct reader *r, const struct health_field *fields, json_t *o,
                       int is_head, char *item)
{
    size_t known = is_head ? json_object_get(o, "format") != NULL : 0;
    const char *key;
    json_t *v;

    for (const struct health_field *f = fields; f->key; f++) {
        v = json_object_get(o, f->key);
        if (!v && f->type != HEALTH_TYPE_WORD)
            return FAIL(r, f->key, "is missing");
        if (v && read_field(r, f, v, item))
            return -1;
        known += v != NULL;
    }
    if (known == json_object_size(o))
        return 0;
    json_object_foreach(o, key, v)
    {
        const struct health_field *f = fields;
        while (f->key && strcmp(f->key, key))
            f++;
        if (!f->key && !(is_head && strcmp(key, "format") == 0))
            return FAIL(r, key, "is no key of this line");
    }
    return -1;
}

static int add_item(struct reader *r, const struct health_kind *k, json_t *o)
{
    const char *key = NULL, *wrong = NULL;
    char *item = mem_new(1, k->size);
    size_t room;
    int count, rc = read_object(r, k->field, o, 0, item);
    char *at = health_store_list(k, r->whole, &count);

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

static int add_any(struct reader *r, json_t *o)
{
    const struct health_kind *k = r->s->kind;

    while (k->key && !json_object_get(o, k->key))
        k++;
    if (!k->key || (r->of_line && strcmp(r->of_line, k->list)))
        return FAIL(r, NULL, "is no item of '%s'", r->s->format);
    return add_item(r, k, o);
}

static int read_json(struct reader *r, const char *at, const char *end)
{
    json_error_t why;
    int rc = 0;

    while (rc == 0 && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        r->line++;
        if (stop - at > LINE_MOST)
            return FAIL(r, NULL, "has %td bytes, expected %d at most", stop - at, LINE_MOST);
        json_t *o = jtree_load(at, stop - at, &why);
        if (!o)
            return FAIL(r, NULL, "no valid JSON: %.200s", why.text);
        if (!json_is_object(o))
            rc = FAIL(r, NULL, "is no JSON object");
        else
            rc = r->line == 1 ? read_object(r, r->s->head, o, 1, r->whole) : add_any(r, o);
        json_decref(o);
        at = stop + 1;
    }
    return rc;
}

/* "key: value" into the object, the value as a text. */
static int read_pair(struct reader *r, const char *at, const char *stop, json_t *o)
{
    const char *colon = memchr(at, ':', (size_t)(stop - at));
    char key[40];

    if (!colon || colon - at >= (int)sizeof key || colon == at || stop - colon < 3 ||
        colon[1] != ' ')
        return FAIL(r, NULL, "is not 'key: value'");
    snprintf(key, sizeof key, "%.*s", (int)(colon - at), at);
    const char *value = colon + 2;
    /* A quoted name: a clean one has nothing that is escaped. */
    if (stop - value >= 2 && *value == '"' && stop[-1] == '"') {
        value++;
        stop--;
    }
    if (memchr(value, '"', (size_t)(stop - value)) ||
        memchr(value, '\\', (size_t)(stop - value)))
        return FAIL(r, key, "has a quote or a backslash in its value");
    if (json_object_get(o, key))
        return FAIL(r, key, "is there twice");
    if (json_object_set_new(o, key, json_stringn(value, (size_t)(stop - value))))
        return FAIL(r, key, "is no UTF-8");
    return 0;
}

/* What is collected of an item ends where the next begins. */
static int end_item(struct reader *r, json_t *o, int first_line)
{
    int line = r->line, rc = 0;

    if (json_object_size(o)) {
        r->line = first_line;
        rc = add_any(r, o);
        r->line = line;
    }
    json_object_clear(o);
    return rc;
}

/* The line, without indentation: a list's key with nothing behind its colon, or of the head. */
static int read_outer(struct reader *r, const char *at, const char *stop, json_t *head)
{
    unsigned bit = 1;

    for (const struct health_kind *k = r->s->kind; k->key; k++, bit <<= 1) {
        size_t n = strlen(k->list);
        if (stop - at != (ptrdiff_t)n + 1 || memcmp(at, k->list, n) || at[n] != ':')
            continue;
        if (r->begun & bit)
            return FAIL(r, k->list, "is there twice");
        r->begun |= bit;
        r->of_line = k->list;
        return 0;
    }
    return r->of_line ? FAIL(r, NULL, "is no line of a list") : read_pair(r, at, stop, head);
}

static int read_yaml(struct reader *r, const char *at, const char *end)
{
    json_error_t why;
    json_t *head = jtree_load("{}", 2, &why), *item = jtree_load("{}", 2, &why);
    int rc = 0, first_line = 0;

    for (const char *stop; rc == 0 && at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        r->line++;
        if (stop - at > LINE_MOST || memchr(at, 0, (size_t)(stop - at))) {
            rc = FAIL(r, NULL, "has a byte 0, or more than %d bytes", LINE_MOST);
        } else if (strncmp(at, "  - ", 4) == 0 && r->of_line) {
            rc = end_item(r, item, first_line);
            first_line = r->line;
            rc = rc ? rc : read_pair(r, at + 4, stop, item);
        } else if (strncmp(at, "    ", 4) == 0 && json_object_size(item)) {
            rc = read_pair(r, at + 4, stop, item);
        } else {
            rc = end_item(r, item, first_line);
            rc = rc ? rc : read_outer(r, at, stop, head);
        }
    }
    rc = rc ? rc : end_item(r, item, first_line);
    if (rc == 0) {
        r->line = 1;
        rc = read_object(r, r->s->head, head, 1, r->whole);
    }
    json_decref(head);
    json_decref(item);
    return rc;
}

/* ---- reading: the whole ---- */

/* Before the checksum: another version is named by its name. */
static int check_format(struct reader *r, const char *text, int64_t bytes)
{
    static const char json[] = "{\"format\":\"", yaml[] = "format: ";
    const char *before = r->s->yaml ? yaml : json;
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
    char *at = health_store_list(k, r->whole, &count);
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

    r.line = 0;
    memset(whole, 0, s->size);
    if (rc == 0)
        rc = s->yaml ? read_yaml(&r, text, text + end) : read_json(&r, text, text + end);
    for (const struct health_kind *k = s->kind; rc == 0 && k->key; k++)
        if (k->unique)
            rc = check_unique(&r, k);
    if (rc == 0 && r.promised >= 0) {
        health_store_list(s->kind, whole, &count);
        if (count != r.promised)
            rc = FAIL(&r, NULL, "is the last, %d '%s' expected and %d found", r.promised,
                      s->kind->key, count);
    }
    r.line = 1;
    const char *key = NULL, *wrong = rc == 0 && s->check ? s->check(whole, &key) : NULL;
    if (wrong)
        rc = FAIL(&r, key, "%s", wrong);
    if (rc)
        s->release(whole);
    mem_free(r.line_of);
    return rc;
}
