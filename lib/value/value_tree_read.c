/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds trees from libyaml's events and from JSON tokens.  tree_keys finds duplicate keys of a
 * strict tree; in mappings with arbitrary keys they are not detected.
 */
#include "value/value_tree.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "value/value_json_in.h"
#include "base/mem.h"

/* ---- memory ---- */

struct tree_part {
    struct tree_part *next;
    size_t used, space;
    char bytes[];
};

/* Allocates zeroed memory aligned to `align` bytes; each block is twice as large as the
   previous one. */
static void *tree_read_take(struct tree *t, size_t bytes, size_t align)
{
    struct tree_part *p = t->parts;
    size_t at = p ? (p->used + align - 1) / align * align : 0;

    if (!p || at + bytes > p->space) {
        size_t space = !p ? 1 << 10 : p->space < 1 << 20 ? 2 * p->space : p->space;
        space = space < bytes ? bytes : space;
        t->parts = mem_new(1, sizeof *p + space);
        *t->parts = (struct tree_part){.next = p, .space = space};
        p = t->parts;
        at = 0;
    }
    p->used = at + bytes;
    return p->bytes + at;
}

static const char *keep_text(struct tree *t, const char *text, size_t bytes)
{
    return memcpy(tree_read_take(t, bytes + 1, 1), text, bytes);
}

void tree_release(struct tree *t)
{
    for (struct tree_part *p = t->parts, *next; p; p = next) {
        next = p->next;
        mem_free(p);
    }
    mem_free(t->name);
    *t = (struct tree){0};
}

/* ---- reading ---- */

struct parse {
    struct tree *t;
    const char *text;
    size_t bytes;
    yaml_parser_t parser;
    struct tree_node *open; /* the innermost mapping or list that is open */
    const char *key;        /* key of the open mapping whose value comes next */
    int key_line, depth, documents;
    struct err *err;
};

static struct tree_node *tree_read_add_node(struct parse *p, enum tree_kind kind, int line)
{
    struct tree_node *n = tree_read_take(p->t, sizeof *n, _Alignof(struct tree_node)),
                     *up = p->open;

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

static const char *copy_text(struct parse *p, const yaml_event_t *e)
{
    return keep_text(p->t, (const char *)e->data.scalar.value, e->data.scalar.length);
}

/* Reports an error at the next value, which has no node yet. */
static int fail_next(struct parse *p, int line, const char *what)
{
    const struct tree_node *n =
        p->open || p->key ? tree_read_add_node(p, TREE_SCALAR, line) : NULL;

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
        p->key = copy_text(p, e);
        p->key_line = line;
        return 0;
    }
    tree_read_add_node(p, TREE_SCALAR, line)->text = copy_text(p, e);
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
    p->open = tree_read_add_node(p, kind, line);
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
    if (y->error == YAML_READER_ERROR) { /* libyaml gives a byte offset, no line */
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

    /* It can only fail for lack of memory, where mem_new would abort too. */
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
    if (rc)
        tree_release(&new);
    else
        *t = new;
    return rc;
}

/* ---- JSON ---- */

struct json {
    struct parse p;
    struct jin in;
    int64_t counted; /* bytes whose lines are included in `line` */
    int line;
    int loose;
};

static int line_at(struct json *j)
{
    for (; j->line && j->counted < j->in.at; j->counted++)
        j->line += j->in.text[j->counted] == '\n';
    return j->line;
}

static int tree_read_fail_expected(struct json *j, const char *expected)
{
    j->in.wrong = expected;
    return -1;
}

static const char *keep_word(struct json *j)
{
    return keep_text(j->p.t, j->in.word, (size_t)j->in.word_bytes);
}

/* Reads a text; sets *zero if it contains a 0 byte. */
static int tree_read_word(struct json *j, int *zero)
{
    if (jin_text(&j->in))
        return -1;
    *zero = (int64_t)strlen(j->in.word) != j->in.word_bytes;
    return *zero && !j->loose ? tree_read_fail_expected(j, "a text without a 0 byte") : 0;
}

static int tree_read_text(struct json *j, int line)
{
    int zero = 0;

    if (tree_read_word(j, &zero))
        return -1;
    struct tree_node *v = tree_read_add_node(&j->p, zero ? TREE_ODD : TREE_SCALAR, line);
    v->quoted = 1;
    v->text = keep_word(j);
    v->items = (int)j->in.word_bytes;
    return 0;
}

/* Reads a number, true, false or null. */
static int read_bare(struct json *j, int line)
{
    int64_t from = j->in.at;

    if (jin_skip(&j->in))
        return -1;
    struct tree_node *v = tree_read_add_node(&j->p, TREE_SCALAR, line);
    v->text = keep_text(j->p.t, j->in.text + from, (size_t)(j->in.at - from));
    int named = strchr("NI", *v->text) || v->text[1] == 'I'; /* NaN, Infinity, -Infinity */
    if (strcmp(v->text, "null") == 0) {
        v->kind = TREE_NULL;
    } else if (j->loose) {
        v->kind = named || isinf(strtod(v->text, NULL)) ? TREE_ODD : TREE_SCALAR;
    } else if (named) {
        j->in.at = from;
        return tree_read_fail_expected(j, "a value");
    }
    return 0;
}

static void set_twice(struct tree_node *n)
{
    n->kind = TREE_ODD;
    n->text = NULL;
    n->child = n->last = NULL;
    n->items = n->quoted = 0;
}

static int tree_read_by_key(const void *a, const void *b)
{
    const struct tree_node *x = *(struct tree_node *const *)a;
    const struct tree_node *y = *(struct tree_node *const *)b;
    int order = strcmp(x->key, y->key);

    return order ? order : x->line - y->line;
}

/* Sorts the members of a loose tree's mapping and marks duplicates as odd. */
static void sort_members(struct tree *t, struct tree_node *n)
{
    size_t items = (size_t)n->items, i = 0;
    struct tree_node **member = tree_read_take(t, items * sizeof *member, sizeof *member);

    for (struct tree_node *c = n->child; c; c = c->next)
        member[i++] = c;
    qsort(member, items, sizeof *member, tree_read_by_key);
    for (i = 1; i < items; i++)
        if (strcmp(member[i - 1]->key, member[i]->key) == 0) {
            set_twice(member[i - 1]);
            set_twice(member[i]);
            member[i]->line = member[i - 1]->line;
        }
    n->sorted = member;
}

static int read_json(struct json *j);

static int read_member(struct json *j)
{
    int zero = 0;

    jin_next(&j->in);
    j->p.key_line = line_at(j);
    if (tree_read_word(j, &zero))
        return -1;
    j->p.key = zero ? NULL : keep_word(j);
    if (jin_take(&j->in, ':'))
        return -1;
    return zero ? jin_skip(&j->in) : read_json(j);
}

static int read_json(struct json *j)
{
    char open = jin_next(&j->in), close = open == '{' ? '}' : ']';
    int line = line_at(j), count = 0, more = 0;

    if (open == '"')
        return tree_read_text(j, line);
    if (open != '{' && open != '[')
        return read_bare(j, line);
    if (j->p.depth == (j->loose ? JIN_DEPTH_MAX : TREE_DEPTH_MAX))
        return tree_read_fail_expected(j, "less depth");
    j->in.at++;
    j->p.depth++;
    struct tree_node *n = tree_read_add_node(&j->p, open == '{' ? TREE_MAP : TREE_LIST, line);
    while ((more = jin_item(&j->in, close, &count)) > 0) {
        j->p.open = n;
        if (open == '{' ? read_member(j) : read_json(j))
            return -1;
    }
    if (j->loose && n->kind == TREE_MAP && n->child)
        sort_members(j->p.t, n);
    j->p.open = n->parent;
    j->p.depth--;
    return more;
}

static int tree_read_parse_json(struct tree *t, const char *name, struct json j,
                                struct err *err)
{
    struct tree new = {.name = mem_dup(name), .json = 1};

    j.p = (struct parse){.t = &new, .err = err};
    int rc = read_json(&j);
    rc = rc ? rc : jin_end(&j.in);
    if (rc) {
        err_at(err, name, line_at(&j), NULL, "is not JSON: expected %s at byte %" PRId64,
               j.in.wrong, j.in.at);
        tree_release(&new);
    } else {
        *t = new;
    }
    jin_release(&j.in);
    return rc;
}

int tree_parse_json(struct tree *t, const char *name, int line, const char *text, int64_t bytes,
                    struct err *err)
{
    return tree_read_parse_json(
        t, name, (struct json){.in = {.text = text, .bytes = bytes}, .line = line}, err);
}

int tree_parse_loose(struct tree *t, const char *name, int line, const char *text,
                     int64_t bytes, struct err *err)
{
    return tree_read_parse_json(
        t, name, (struct json){.in = {.text = text, .bytes = bytes}, .line = line, .loose = 1},
        err);
}
