/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the values of a tree, and reports their places in errors. */
#include "value/value_tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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
    const struct tree_node *at = key ? tree_find(n, key) : NULL;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put_path(out, n);
    if (key)
        fprintf(out, "%s%s", n->parent ? "." : "", key);
    fclose(out);
    err_at(err, t->name, (at ? at : n)->line, path[0] ? path : NULL, "%s", text);
    mem_free(path);
    return -1;
}

/* ---- keys ---- */

const struct tree_node *tree_first(const struct tree_node *n, enum tree_kind kind)
{
    return n && n->kind == kind ? n->child : NULL;
}

int tree_count(const struct tree_node *n, enum tree_kind kind)
{
    return n && n->kind == kind ? n->items : 0;
}

static int tree_by_key(const void *key, const void *member)
{
    return strcmp(key, (*(struct tree_node *const *)member)->key);
}

const struct tree_node *tree_find(const struct tree_node *n, const char *key)
{
    const struct tree_node *c = tree_first(n, TREE_MAP);

    if (c && n->sorted) {
        struct tree_node **found =
            bsearch(key, n->sorted, (size_t)n->items, sizeof *n->sorted, tree_by_key);
        return found ? *found : NULL;
    }
    while (c && strcmp(c->key, key))
        c = c->next;
    return c;
}

const struct tree_node *tree_get(const struct tree_node *n, const char *key)
{
    const struct tree_node *c = tree_find(n, key);

    return c && c->kind != TREE_NULL ? c : NULL;
}

/* Levenshtein distance of two words, cut at 63 bytes. */
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

/* Cuts off the next of the blank-separated keys, without its '?'; 0 at the end. */
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
    char key[64], closest[64] = "", list[400] = "";
    int least = 3, optional; /* at most two typing errors */

    while (next_key(&keys, key, &optional)) {
        int d = strcasecmp(key, n->key) ? edit_distance(key, n->key) : 0;
        size_t used = strlen(list);
        if (d < least && d < (int)strlen(key)) {
            memcpy(closest, key, sizeof closest);
            least = d;
        }
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", key);
    }
    return closest[0]
               ? tree_fail(t, n, NULL, err, "is an unknown key, did you mean '%s'?", closest)
               : tree_fail(t, n, NULL, err, "is an unknown key, expected one of: %s", list);
}

static int fail_kind(const struct tree *t, const struct tree_node *n, const char *expected,
                     struct err *err)
{
    if (n->kind != TREE_SCALAR)
        return tree_fail(t, n, NULL, err, "is %s, expected a %s", tree_shown(t, n), expected);
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
    const struct tree_node *first = tree_find(n, key);

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
        /* All earlier keys are known, so the search is short. */
        const struct tree_node *first = tree_find(n, key);
        if (first != c)
            return fail_twice(t, c, first, err);
    }
    while (next_key(&keys, key, &optional))
        if (!optional && !tree_find(n, key))
            return tree_fail(t, n, key, err, "is missing");
    return 0;
}

int tree_equal(const struct tree_node *a, const struct tree_node *b)
{
    const struct tree_node *c = a->child, *d = b->child;
    double x, y;

    if (tree_is_number(a, &x) && tree_is_number(b, &y))
        return x == y;
    if (a->kind != b->kind || a->items != b->items || a->quoted != b->quoted ||
        strcmp(a->text ? a->text : "", b->text ? b->text : ""))
        return 0;
    for (; c && d; c = c->next, d = d->next) {
        const struct tree_node *other = c->key ? tree_find(b, c->key) : d;
        if (!other || !tree_equal(c, other))
            return 0;
    }
    return 1;
}

int tree_no_real(const struct tree *t, const char *keys, struct err *err)
{
    char key[64];
    int optional;

    while (next_key(&keys, key, &optional)) {
        const struct tree_node *v = tree_get(t->root, key);
        double d;
        int64_t whole;
        if (v && (v->kind == TREE_ODD || (tree_is_number(v, &d) && !tree_is_whole(v, &whole))))
            return tree_fail(t, v, NULL, err, "is %.40s, expected a text or a whole number",
                             tree_shown(t, v));
    }
    return 0;
}

/* ---- values ---- */

const char *tree_string(const struct tree_node *n)
{
    return n && n->kind == TREE_SCALAR && n->quoted ? n->text : NULL;
}

/* The text of an unquoted JSON scalar; "" for other nodes. */
static const char *bare(const struct tree_node *n)
{
    return n && n->kind == TREE_SCALAR && !n->quoted ? n->text : "";
}

int tree_is(const struct tree_node *n, const char *word)
{
    return strcmp(bare(n), word) == 0;
}

int tree_is_bool(const struct tree_node *n)
{
    return tree_is(n, "true") || tree_is(n, "false");
}

int tree_is_whole(const struct tree_node *n, int64_t *out)
{
    const char *text = bare(n);
    char *end = NULL;

    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        return 0;
    *out = v;
    return 1;
}

int tree_is_number(const struct tree_node *n, double *out)
{
    const char *text = bare(n);

    if (*text != '-' && (*text < '0' || *text > '9'))
        return 0;
    *out = strtod(text, NULL); /* depends on the locale: commands use C */
    return 1;
}

const char *tree_shown(const struct tree *t, const struct tree_node *n)
{
    switch (n->kind) {
    case TREE_LIST:
        return "a list";
    case TREE_MAP:
        return t->json ? "an object" : "a mapping";
    case TREE_NULL:
        return "null";
    case TREE_ODD:
        return !n->text            ? "given twice"
               : n->quoted         ? "a text with a 0 byte"
               : n->text[0] == 'N' ? "NaN"
                                   : "beyond 1e308";
    default:
        return n->quoted ? "a text" : n->text;
    }
}

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

/* Whether JSON has a text where a number is expected, or the reverse. */
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

int tree_bytes(const struct tree *t, const struct tree_node *n, const char **out,
               int64_t *bytes, struct err *err)
{
    if (!n->quoted)
        return tree_fail(t, n, NULL, err, "is %.40s, expected a text", tree_shown(t, n));
    *out = n->text;
    *bytes = n->items;
    return 0;
}

int tree_word(const struct tree *t, const struct tree_node *n, char *out, size_t space,
              struct err *err)
{
    const char *text = NULL;

    if (!n)
        return 0;
    if (tree_text(t, n, 1, space - 1, &text, err))
        return -1;
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return tree_fail(t, n, NULL, err, "has a control character in it, expected text");
    snprintf(out, space, "%s", text);
    return 0;
}

/* Returns NULL and sets err if the node cannot be a number. */
static const char *tree_number_of(const struct tree *t, const struct tree_node *n,
                                  struct err *err)
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
    const char *text = n ? tree_number_of(t, n, err) : NULL;
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
    const char *text = n ? tree_number_of(t, n, err) : NULL;
    struct err why;

    if (!text)
        return n ? -1 : 0;
    return num_f64(text, lo, hi, out, &why) ? tree_fail(t, n, NULL, err, "is %s", why.text) : 0;
}

int tree_bool(const struct tree *t, const struct tree_node *n, int *out, struct err *err)
{
    if (!n)
        return 0;
    if (!tree_is_bool(n))
        return tree_fail(t, n, NULL, err, "is %.40s, expected true or false", tree_shown(t, n));
    *out = tree_is(n, "true");
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
