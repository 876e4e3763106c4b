/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how libyaml's events and the tokens of JSON become a tree.  Duplicate keys are found by
 * tree_keys: in a mapping of any keys nobody looks for them.
 */
#include "base/tree.h"

#include <string.h>

#include <yaml.h>

#include "base/jin.h"
#include "base/mem.h"

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

static struct tree_node *add_node(struct parse *p, enum tree_kind kind, int line)
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
    const struct tree_node *n = p->open || p->key ? add_node(p, TREE_SCALAR, line) : NULL;

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
    add_node(p, TREE_SCALAR, line)->text = copy_text(e);
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
    p->open = add_node(p, kind, line);
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

/* ---- JSON ---- */

struct json {
    struct parse p;
    struct jin in;
    int64_t counted; /* bytes whose lines are counted in `line` */
    int line;
};

static int line_at(struct json *j)
{
    for (; j->counted < j->in.at; j->counted++)
        j->line += j->in.text[j->counted] == '\n';
    return j->line;
}

static int read_word(struct json *j)
{
    if (jin_text(&j->in))
        return -1;
    if ((int64_t)strlen(j->in.word) == j->in.word_bytes)
        return 0;
    j->in.wrong = "a text without a 0 byte";
    return -1;
}

/* A number, true, false or null. */
static int read_bare(struct json *j, int line)
{
    int64_t from = j->in.at;

    if (jin_skip(&j->in))
        return -1;
    size_t n = (size_t)(j->in.at - from);
    struct tree_node *v = add_node(&j->p, TREE_SCALAR, line);
    v->text = mem_new(n + 1, 1);
    memcpy(v->text, j->in.text + from, n);
    if (strcmp(v->text, "null") == 0)
        v->kind = TREE_NULL;
    else if (strchr("NI", *v->text) || v->text[1] == 'I') { /* NaN, Infinity, -Infinity */
        j->in.at = from;
        j->in.wrong = "a value";
        return -1;
    }
    return 0;
}

static int read_json(struct json *j)
{
    char open = jin_next(&j->in), close = open == '{' ? '}' : ']';
    int line = line_at(j), count = 0, more = 0;

    if (open == '"') {
        if (read_word(j))
            return -1;
        struct tree_node *v = add_node(&j->p, TREE_SCALAR, line);
        v->text = mem_dup(j->in.word);
        v->quoted = 1;
        return 0;
    }
    if (open != '{' && open != '[')
        return read_bare(j, line);
    if (j->p.depth == TREE_DEPTH_MAX) {
        j->in.wrong = "less depth";
        return -1;
    }
    j->in.at++;
    j->p.depth++;
    struct tree_node *n = add_node(&j->p, open == '{' ? TREE_MAP : TREE_LIST, line);
    while ((more = jin_item(&j->in, close, &count)) > 0) {
        j->p.open = n;
        if (open == '{') {
            jin_next(&j->in);
            j->p.key_line = line_at(j);
            if (read_word(j))
                return -1;
            j->p.key = mem_dup(j->in.word);
            if (jin_take(&j->in, ':'))
                return -1;
        }
        if (read_json(j))
            return -1;
    }
    j->p.open = n->parent;
    j->p.depth--;
    return more;
}

int tree_parse_json(struct tree *t, const char *name, int line, const char *text, int64_t bytes,
                    struct err *err)
{
    struct tree new = {.name = mem_dup(name), .json = 1};
    struct json j = {
        .p = {.t = &new, .err = err}, .in = {.text = text, .bytes = bytes}, .line = line};
    int rc = read_json(&j);

    rc = rc ? rc : jin_end(&j.in);
    if (rc) {
        err_at(err, name, line_at(&j), NULL, "is not JSON: expected %s", j.in.wrong);
        tree_release(&new);
    } else {
        *t = new;
    }
    mem_free(j.p.key);
    jin_release(&j.in);
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
