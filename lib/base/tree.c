/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how the values of a tree are read, and how an error names its place. */
#include "base/tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/num.h"

/* ---- places ---- */

static void put_path(FILE *out, const struct tree_node *n)
{
    int index = 0;

    if (!n->parent)
        return;
    put_path(out, n->parent);
    for (const struct tree_node *c = n->parent->child; c != n; c = c->next)
        index++;
    if (n->key)
        fprintf(out, "%s%s", n->parent->parent ? "." : "", n->key);
    else
        fprintf(out, "[%d]", index);
}

int tree_fail(const struct tree *t, const struct tree_node *n, const char *key, struct err *err,
              const char *fmt, ...)
{
    char text[sizeof err->text], *path = NULL;
    size_t bytes = 0;
    FILE *out = mem_stream(&path, &bytes);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put_path(out, n);
    if (key)
        fprintf(out, "%s%s", n->parent ? "." : "", key);
    fclose(out);
    err_at(err, t->name, n->line, path[0] ? path : NULL, "%s", text);
    mem_free(path);
    return -1;
}

/* ---- keys ---- */

static const struct tree_node *find_key(const struct tree_node *n, const char *key)
{
    const struct tree_node *c = n && n->kind == TREE_MAP ? n->child : NULL;

    while (c && strcmp(c->key, key))
        c = c->next;
    return c;
}

const struct tree_node *tree_get(const struct tree_node *n, const char *key)
{
    const struct tree_node *c = find_key(n, key);

    return c && c->kind != TREE_NULL ? c : NULL;
}

/* Levenshtein's distance, both words cut at 63 bytes. */
static int edit_distance(const char *a, const char *b)
{
    int row[64];
    int n = (int)strnlen(a, 63), m = (int)strnlen(b, 63);

    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int keep = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int step = (row[j - 1] < row[j] ? row[j - 1] : row[j]) + 1;
            row[j] = keep < step ? keep : step;
        }
    }
    return row[m];
}

/* The next of the blank-separated keys without its '?'; 0 after the last. */
static int next_key(const char **keys, char key[64], int *optional)
{
    *keys += strspn(*keys, " ");
    size_t n = strcspn(*keys, " ");
    *optional = n && (*keys)[n - 1] == '?';
    snprintf(key, 64, "%.*s", (int)n - *optional, *keys);
    *keys += n;
    return n > 0;
}

static int fail_unknown(const struct tree *t, const struct tree_node *n, const char *keys,
                        struct err *err)
{
    char key[64], near[64] = "", list[400] = "";
    int least = 3, optional; /* two slips of the finger */

    while (next_key(&keys, key, &optional)) {
        int d = strcasecmp(key, n->key) ? edit_distance(key, n->key) : 0;
        size_t used = strlen(list);
        if (d < least && d < (int)strlen(key)) {
            memcpy(near, key, sizeof near);
            least = d;
        }
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", key);
    }
    return near[0] ? tree_fail(t, n, NULL, err, "is an unknown key, did you mean '%s'?", near)
                   : tree_fail(t, n, NULL, err, "is an unknown key, expected one of: %s", list);
}

static int fail_kind(const struct tree *t, const struct tree_node *n, const char *expected,
                     struct err *err)
{
    if (n->kind != TREE_SCALAR)
        return tree_fail(t, n, NULL, err, "is %s, expected a %s",
                         n->kind == TREE_NULL   ? "null"
                         : n->kind == TREE_LIST ? "a list"
                         : t->json              ? "an object"
                                                : "a mapping",
                         expected);
    if (n->parent)
        return tree_fail(t, n, NULL, err, "is '%.40s', expected a %s", n->text, expected);
    return n->text[0] ? tree_fail(t, n, NULL, err,
                                  "begins with '%.40s', expected keys and values", n->text)
                      : tree_fail(t, n, NULL, err, "is empty, expected a document");
}

static int fail_twice(const struct tree *t, const struct tree_node *n,
                      const struct tree_node *first, struct err *err)
{
    return tree_fail(t, n, NULL, err, "is given twice, first on line %d, expected once",
                     first->line);
}

int tree_once(const struct tree *t, const struct tree_node *n, const char *key, struct err *err)
{
    const struct tree_node *first = find_key(n, key);

    for (const struct tree_node *c = first ? first->next : NULL; c; c = c->next)
        if (strcmp(c->key, key) == 0)
            return fail_twice(t, c, first, err);
    return 0;
}

int tree_keys(const struct tree *t, const struct tree_node *n, const char *keys,
              struct err *err)
{
    char key[64];
    int optional;

    if (n->kind != TREE_MAP)
        return fail_kind(t, n, t->json ? "JSON object" : "mapping", err);
    for (const struct tree_node *c = n->child; c; c = c->next) {
        const char *rest = keys;
        do {
            if (!next_key(&rest, key, &optional))
                return fail_unknown(t, c, keys, err);
        } while (strcmp(key, c->key));
        /* Every key before this one is known: there are few of them. */
        const struct tree_node *first = find_key(n, key);
        if (first != c)
            return fail_twice(t, c, first, err);
    }
    while (next_key(&keys, key, &optional))
        if (!optional && !find_key(n, key))
            return tree_fail(t, n, key, err, "is missing");
    return 0;
}

/* ---- values ---- */

int tree_list(const struct tree *t, const struct tree_node *n, int64_t least, int64_t most,
              struct err *err)
{
    if (!n)
        return 0;
    if (n->kind != TREE_LIST)
        return fail_kind(t, n, "list", err);
    if (n->items < least)
        return tree_fail(t, n, NULL, err, "has %d items, expected %lld at least", n->items,
                         (long long)least);
    if (n->items > most)
        return tree_fail(t, n, NULL, err, "has %d items, expected %lld at most", n->items,
                         (long long)most);
    return 0;
}

/* Whether JSON has a text where a number is expected, or the other way round. */
static int is_other(const struct tree *t, const struct tree_node *n, int text)
{
    return t->json && n->kind == TREE_SCALAR && n->quoted != text;
}

int tree_text(const struct tree *t, const struct tree_node *n, size_t least, size_t most,
              const char **out, struct err *err)
{
    if (!n)
        return 0;
    if (n->kind != TREE_SCALAR)
        return fail_kind(t, n, t->json ? "text" : "single value", err);
    if (is_other(t, n, 1))
        return tree_fail(t, n, NULL, err, "is %.40s, expected text", n->text);
    size_t bytes = strlen(n->text);
    if (bytes > most)
        return tree_fail(t, n, NULL, err, "has %zu bytes, expected %zu at most", bytes, most);
    if (bytes < least)
        return tree_fail(t, n, NULL, err, "has %zu bytes, expected %zu at least", bytes, least);
    *out = n->text;
    return 0;
}

int tree_word(const struct tree *t, const struct tree_node *n, char *out, size_t room,
              struct err *err)
{
    const char *text = NULL;

    if (!n)
        return 0;
    if (tree_text(t, n, 1, room - 1, &text, err))
        return -1;
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return tree_fail(t, n, NULL, err, "has a control character in it, expected text");
    snprintf(out, room, "%s", text);
    return 0;
}

/* NULL, and err is set, where it cannot be a number. */
static const char *number_of(const struct tree *t, const struct tree_node *n, struct err *err)
{
    if (n->kind != TREE_SCALAR)
        fail_kind(t, n, t->json ? "number" : "single value", err);
    else if (is_other(t, n, 0))
        tree_fail(t, n, NULL, err, "is the text '%.40s', expected a number", n->text);
    else
        return n->text;
    return NULL;
}

int tree_i64(const struct tree *t, const struct tree_node *n, int64_t lo, int64_t hi,
             int64_t *out, struct err *err)
{
    const char *text = n ? number_of(t, n, err) : NULL;
    struct err why;

    if (!text)
        return n ? -1 : 0;
    int rc =
        hi > INT32_MAX ? num_count(text, lo, hi, out, &why) : num_i64(text, lo, hi, out, &why);
    return rc ? tree_fail(t, n, NULL, err, "is %s", why.text) : 0;
}

int tree_int(const struct tree *t, const struct tree_node *n, int lo, int hi, int *out,
             struct err *err)
{
    int64_t v = *out;
    int rc = tree_i64(t, n, lo, hi, &v, err);

    *out = rc ? *out : (int)v;
    return rc;
}

int tree_f64(const struct tree *t, const struct tree_node *n, double lo, double hi, double *out,
             struct err *err)
{
    const char *text = n ? number_of(t, n, err) : NULL;
    struct err why;

    if (!text)
        return n ? -1 : 0;
    return num_f64(text, lo, hi, out, &why) ? tree_fail(t, n, NULL, err, "is %s", why.text) : 0;
}

int tree_bool(const struct tree *t, const struct tree_node *n, int *out, struct err *err)
{
    int is_true = n && n->kind == TREE_SCALAR && strcmp(n->text, "true") == 0;

    if (!n)
        return 0;
    if (n->kind != TREE_SCALAR || n->quoted || (!is_true && strcmp(n->text, "false")))
        return tree_fail(t, n, NULL, err, "is '%.40s', expected true or false",
                         n->kind == TREE_SCALAR ? n->text : "...");
    *out = is_true;
    return 0;
}

int tree_choice(const struct tree *t, const struct tree_node *n, const char *const *words,
                int count, int *out, struct err *err)
{
    char list[400] = "";
    const char *text = NULL;

    if (!n)
        return 0;
    if (tree_text(t, n, 0, SIZE_MAX, &text, err))
        return -1;
    for (int i = 0; i < count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
        if (strcmp(words[i], text))
            continue;
        *out = i;
        return 0;
    }
    return tree_fail(t, n, NULL, err, "is '%.40s', expected one of: %s", text, list);
}
