/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds a tree of jansson's from the tokens of JSON, whole or not at all. */
#include "base/jtree.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/jin.h"
#include "base/mem.h"

enum odd { ODD_NAN, ODD_LARGE, ODD_TWICE, ODD_ZERO_BYTE, ODDS };

static const char *const odd_names[ODDS] = {"NaN", "beyond 1e308", "given twice",
                                            "a text with a 0 byte"};

struct build {
    struct jin in;
    int own; /* nothing odd */
};

static void *malloc_or_abort(size_t bytes)
{
    return mem_have(malloc(bytes), "a tree of JSON");
}

/* jansson has no NaN and no infinity: numbers whose size no file has a use for. */
static double mark_of(enum odd odd)
{
    return -ldexp(1, 1023 - (int)odd);
}

const char *jtree_odd(const json_t *v)
{
    for (int i = 0; json_is_real(v) && i < ODDS; i++)
        if (json_real_value(v) == mark_of((enum odd)i))
            return odd_names[i];
    return NULL;
}

const char *jtree_kind(const json_t *v)
{
    static const char *const names[] = {"an object", "a list", "a text", "a whole number",
                                        "a number",  "true",   "false",  "null"};
    const char *odd = jtree_odd(v);

    return odd ? odd : names[json_typeof(v)];
}

int jtree_is_number(const json_t *v)
{
    return json_is_number(v) && !jtree_odd(v);
}

int jtree_no_real(const char *name, const json_t *object, const char *const *keys,
                  struct err *err)
{
    for (; *keys; keys++) {
        const json_t *v = json_object_get(object, *keys);
        if (json_is_real(v))
            return err_at(err, name, 0, *keys, "is %s, expected a text or a whole number",
                          jtree_kind(v));
    }
    return 0;
}

static json_t *mark(struct build *b, enum odd odd)
{
    if (!b->own)
        return json_real(mark_of(odd));
    b->in.wrong = odd == ODD_TWICE ? "each key once" : "a number that fits, or a text";
    return NULL;
}

/* A number, true, false or null. */
static json_t *read_bare(struct build *b)
{
    int64_t from = b->in.at;

    if (jin_skip(&b->in))
        return NULL;
    size_t n = (size_t)(b->in.at - from);
    char usual[32], *text = n < sizeof usual ? usual : mem_new(n + 1, 1);
    char *end = memcpy(text, b->in.text + from, n);
    json_t *v = NULL;
    text[n] = 0;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (strcmp(text, "null") == 0)
        v = json_null();
    else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        v = json_boolean(*text == 't');
    else if (strcmp(text, "NaN") == 0)
        v = mark(b, ODD_NAN);
    else if (!*end && !errno)
        v = json_integer(whole);
    else {
        double d = strtod(text, NULL); /* of any locale: commands keep the one of C */
        v = isinf(d) || (b->own && !*end) ? mark(b, ODD_LARGE) : json_real(d);
    }
    if (text != usual)
        mem_free(text);
    return v;
}

static json_t *read_text(struct build *b)
{
    if (jin_text(&b->in))
        return NULL;
    return memchr(b->in.word, 0, (size_t)b->in.word_bytes)
               ? mark(b, ODD_ZERO_BYTE)
               : json_stringn_nocheck(b->in.word, (size_t)b->in.word_bytes);
}

static json_t *read_value(struct build *b, int depth);

static int read_member(struct build *b, json_t *object, int depth)
{
    if (jin_text(&b->in) || jin_take(&b->in, ':'))
        return -1;
    int zero = memchr(b->in.word, 0, (size_t)b->in.word_bytes) != NULL;
    char *key = mem_dup(b->in.word);
    json_t *v = read_value(b, depth);
    int odd = zero || json_object_get(object, key);
    if (v && odd) {
        json_decref(v);
        v = mark(b, zero ? ODD_ZERO_BYTE : ODD_TWICE);
    }
    if (v && zero)
        json_decref(v);
    else if (v)
        json_object_set_new_nocheck(object, key, v);
    mem_free(key);
    return v ? 0 : -1;
}

static json_t *read_value(struct build *b, int depth)
{
    char open = jin_next(&b->in), close = open == '{' ? '}' : ']';
    int n = 0, more = 0;

    if (open == '"')
        return read_text(b);
    if (open != '{' && open != '[')
        return read_bare(b);
    if (depth == JIN_DEPTH_MAX) {
        b->in.wrong = "less depth";
        return NULL;
    }
    json_t *v = open == '{' ? json_object() : json_array();
    b->in.at++;
    while ((more = jin_item(&b->in, close, &n)) > 0) {
        json_t *item = open == '[' ? read_value(b, depth + 1) : NULL;
        if (open == '{' ? read_member(b, v, depth + 1)
                        : !item || json_array_append_new(v, item)) {
            more = -1;
            break;
        }
    }
    if (more == 0)
        return v;
    json_decref(v);
    return NULL;
}

static json_t *load(const char *text, int64_t bytes, int own, json_error_t *why)
{
    struct build b = {.in = {.text = text, .bytes = bytes}, .own = own};

    json_set_alloc_funcs(malloc_or_abort, free);
    /* jansson's rule: a tree is a list or an object. */
    char open = jin_next(&b.in);
    json_t *root = NULL;
    if (open == '{' || open == '[')
        root = read_value(&b, 0);
    else
        b.in.wrong = "'{' or '['";
    if (root && jin_end(&b.in)) {
        json_decref(root);
        root = NULL;
    }
    if (!root) {
        *why = (json_error_t){.line = 1, .position = (int)b.in.at};
        for (int64_t i = 0; i < b.in.at; i++)
            why->line += text[i] == '\n';
        snprintf(why->text, sizeof why->text, "expected %s", b.in.wrong);
    }
    jin_release(&b.in);
    return root;
}

json_t *jtree_load(const char *text, int64_t bytes, json_error_t *why)
{
    return load(text, bytes, 0, why);
}

static int read_tree(const char *name, const char *text, int64_t bytes, int own, json_t **root,
                     struct err *err)
{
    json_error_t why;

    *root = load(text, bytes, own, &why);
    return *root ? 0 : err_at(err, name, why.line, NULL, "no valid JSON: %.200s", why.text);
}

int jtree_read(const char *name, const char *text, int64_t bytes, json_t **root,
               struct err *err)
{
    return read_tree(name, text, bytes, 0, root, err);
}

int jtree_read_own(const char *name, const char *text, int64_t bytes, json_t **root,
                   struct err *err)
{
    return read_tree(name, text, bytes, 1, root, err);
}
