/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how libyaml's events become a tree, and how its values are read.  Duplicate keys are
 * found by tree_keys: in a mapping of any keys nobody looks for them.
 */
#include "base/tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <yaml.h>

#include "base/mem.h"
#include "base/num.h"

/* ---- reading ---- */

struct parse {
    struct tree *t;
    const char *text;
    size_t bytes;
    yaml_parser_t parser;
    struct tree_node *open; /* the innermost mapping or list that is open */
    char *key;              /* owned: of the mapping that is open, its value follows */
    int key_line, depth, documents;
    struct err *err;
};

static struct tree_node *add(struct parse *p, enum tree_kind kind, int line)
{
    struct tree_node *n = mem_new(1, sizeof *n), *up = p->open;

    *n = (struct tree_node){
        .kind = kind, .line = p->key ? p->key_line : line, .key = p->key, .parent = up};
    p->key = NULL;
    if (!up)
        p->t->root = n;
    else if (up->last)
        up->last->next = n;
    else
        up->child = n;
    if (up) {
        up->last = n;
        up->items++;
    }
    return n;
}

static char *copy_text(const yaml_event_t *e)
{
    return mem_dup((const char *)e->data.scalar.value);
}

/* At the value that follows, which has no node yet. */
static int fail_next(struct parse *p, int line, const char *what)
{
    const struct tree_node *n = p->open || p->key ? add(p, TREE_SCALAR, line) : NULL;

    return n ? tree_fail(p->t, n, NULL, p->err, "%s", what)
             : err_at(p->err, p->t->name, line, NULL, "%s", what);
}

static int on_scalar(struct parse *p, const yaml_event_t *e, int line)
{
    int is_key = p->open && p->open->kind == TREE_MAP && !p->key;

    if (strlen((const char *)e->data.scalar.value) != e->data.scalar.length) {
        if (is_key)
            return tree_fail(p->t, p->open, NULL, p->err,
                             "has a key with a 0 byte in it, expected text");
        return fail_next(p, line, "has a 0 byte in it, expected text");
    }
    if (is_key) {
        p->key = copy_text(e);
        p->key_line = line;
        return 0;
    }
    add(p, TREE_SCALAR, line)->text = copy_text(e);
    return 0;
}

static int on_open(struct parse *p, enum tree_kind kind, int line)
{
    if (p->open && p->open->kind == TREE_MAP && !p->key)
        return tree_fail(p->t, p->open, NULL, p->err,
                         "has a list or a mapping for a key, expected a word");
    if (p->depth++ == TREE_DEPTH_MAX)
        return err_at(p->err, p->t->name, line, NULL, "is nested deeper than %d, expected less",
                      TREE_DEPTH_MAX);
    p->open = add(p, kind, line);
    return 0;
}

static int refuse_marks(struct parse *p, int line, const yaml_char_t *anchor,
                        const yaml_char_t *tag)
{
    if (anchor)
        return err_at(p->err, p->t->name, line, NULL,
                      "has an anchor '&%.40s', expected neither anchors nor aliases",
                      (const char *)anchor);
    if (tag)
        return err_at(p->err, p->t->name, line, NULL, "has a tag '%.40s', expected none",
                      (const char *)tag);
    return 0;
}

static int on_event(struct parse *p, const yaml_event_t *e)
{
    int line = (int)e->start_mark.line + 1;

    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        return p->documents++ ? err_at(p->err, p->t->name, line, NULL,
                                       "begins a second document, expected one")
                              : 0;
    case YAML_STREAM_END_EVENT:
        return p->documents
                   ? 0
                   : err_at(p->err, p->t->name, 0, NULL, "is empty, expected a document");
    case YAML_ALIAS_EVENT:
        return err_at(p->err, p->t->name, line, NULL,
                      "has an alias '*%.40s', expected neither anchors nor aliases",
                      (const char *)e->data.alias.anchor);
    case YAML_SCALAR_EVENT:
        return refuse_marks(p, line, e->data.scalar.anchor, e->data.scalar.tag) ||
                       on_scalar(p, e, line)
                   ? -1
                   : 0;
    case YAML_SEQUENCE_START_EVENT:
        return refuse_marks(p, line, e->data.sequence_start.anchor,
                            e->data.sequence_start.tag) ||
                       on_open(p, TREE_LIST, line)
                   ? -1
                   : 0;
    case YAML_MAPPING_START_EVENT:
        return refuse_marks(p, line, e->data.mapping_start.anchor, e->data.mapping_start.tag) ||
                       on_open(p, TREE_MAP, line)
                   ? -1
                   : 0;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        p->open = p->open->parent;
        p->depth--;
        return 0;
    default:
        return 0;
    }
}

static int fail_syntax(struct parse *p)
{
    const yaml_parser_t *y = &p->parser;
    int line = (int)y->problem_mark.line + 1;

    if (y->error == YAML_MEMORY_ERROR)
        return err_set(p->err, ERR_SYS, "out of memory reading '%s'", p->t->name);
    if (y->error == YAML_READER_ERROR) { /* it knows a byte, not a line */
        line = 1;
        for (size_t i = 0; i < y->problem_offset && i < p->bytes; i++)
            line += p->text[i] == '\n';
    }
    return err_at(p->err, p->t->name, line, NULL, "is not YAML: %s",
                  y->problem ? y->problem : "it cannot be read");
}

int tree_parse(struct tree *t, const char *name, const char *text, int64_t bytes,
               struct err *err)
{
    struct tree new = {.name = mem_dup(name)};
    struct parse p = {.t = &new, .text = text, .bytes = (size_t)bytes, .err = err};
    int rc = 0;

    /* It fails only where memory does, as mem_new would. */
    mem_have(yaml_parser_initialize(&p.parser) ? &p : NULL, "a parser of YAML");
    yaml_parser_set_encoding(&p.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p.parser, (const unsigned char *)text, p.bytes);
    for (int more = 1; rc == 0 && more;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&p.parser, &e)) {
            rc = fail_syntax(&p);
            break;
        }
        more = e.type != YAML_STREAM_END_EVENT;
        rc = on_event(&p, &e);
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&p.parser);
    mem_free(p.key);
    if (rc)
        tree_release(&new);
    else
        *t = new;
    return rc;
}

static void free_node(struct tree_node *n)
{
    for (struct tree_node *c = n->child, *next; c; c = next) {
        next = c->next;
        free_node(c);
    }
    mem_free(n->key);
    mem_free(n->text);
    mem_free(n);
}

void tree_release(struct tree *t)
{
    if (t->root)
        free_node(t->root);
    mem_free(t->name);
    *t = (struct tree){0};
}

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

const struct tree_node *tree_get(const struct tree_node *n, const char *key)
{
    const struct tree_node *c = n && n->kind == TREE_MAP ? n->child : NULL;

    while (c && strcmp(c->key, key))
        c = c->next;
    return c;
}

/* Levenshtein's distance, both words cut at 63 bytes. */
static int distance(const char *a, const char *b)
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
        int d = strcasecmp(key, n->key) ? distance(key, n->key) : 0;
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
        return tree_fail(t, n, NULL, err, "is a %s, expected a %s",
                         n->kind == TREE_MAP ? "mapping" : "list", expected);
    if (n->parent)
        return tree_fail(t, n, NULL, err, "is '%.40s', expected a %s", n->text, expected);
    return n->text[0] ? tree_fail(t, n, NULL, err,
                                  "begins with '%.40s', expected keys and values", n->text)
                      : tree_fail(t, n, NULL, err, "is empty, expected a document");
}

int tree_keys(const struct tree *t, const struct tree_node *n, const char *keys,
              struct err *err)
{
    char key[64];
    int optional;

    if (n->kind != TREE_MAP)
        return fail_kind(t, n, "mapping", err);
    for (const struct tree_node *c = n->child; c; c = c->next) {
        const char *rest = keys;
        do {
            if (!next_key(&rest, key, &optional))
                return fail_unknown(t, c, keys, err);
        } while (strcmp(key, c->key));
        /* Every key before this one is known: there are few of them. */
        const struct tree_node *first = tree_get(n, key);
        if (first != c)
            return tree_fail(t, c, NULL, err, "is given twice, first on line %d, expected once",
                             first->line);
    }
    while (next_key(&keys, key, &optional))
        if (!optional && !tree_get(n, key))
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

int tree_text(const struct tree *t, const struct tree_node *n, size_t least, size_t most,
              const char **out, struct err *err)
{
    size_t bytes = n && n->kind == TREE_SCALAR ? strlen(n->text) : 0;

    if (!n)
        return 0;
    if (n->kind != TREE_SCALAR)
        return fail_kind(t, n, "single value", err);
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

int tree_i64(const struct tree *t, const struct tree_node *n, int64_t lo, int64_t hi,
             int64_t *out, struct err *err)
{
    const char *text = NULL;
    struct err why;

    if (!n)
        return 0;
    if (tree_text(t, n, 0, SIZE_MAX, &text, err))
        return -1;
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
    const char *text = NULL;
    struct err why;

    if (!n)
        return 0;
    if (tree_text(t, n, 0, SIZE_MAX, &text, err))
        return -1;
    return num_f64(text, lo, hi, out, &why) ? tree_fail(t, n, NULL, err, "is %s", why.text) : 0;
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
    return tree_fail(t, n, NULL, err, "is '%s', expected one of: %s", text, list);
}
