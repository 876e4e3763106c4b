/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds a bounded tree from expat's events, and prints a tree.  Leaves the document's meaning
 * to the caller.
 */
#include "value/value_xml.h"

#include <expat.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

/* ---- building ---- */

struct xml_node *xml_add(struct xml *x, struct xml_node *parent, const char *name)
{
    struct xml_node *n = mem_new(1, sizeof *n);

    *n = (struct xml_node){
        .name = mem_dup(name), .text = mem_dup(""), .index = x->nodes++, .parent = parent};
    if (!parent)
        x->root = n;
    else if (parent->last)
        parent->last->next = n;
    else
        parent->child = n;
    if (parent)
        parent->last = n;
    return n;
}

static void add_attr(struct xml_node *n, const char *name, const char *value)
{
    n->attr = mem_grow(n->attr, &n->attr_space, (size_t)n->attrs + 1, sizeof *n->attr);
    n->attr[n->attrs++] = (struct xml_attr){mem_dup(name), mem_dup(value)};
}

void xml_set(struct xml_node *n, const char *attr, const char *fmt, ...)
{
    char value[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    add_attr(n, attr, value);
}

/* ---- reading ---- */

struct parse {
    struct xml *x;
    XML_Parser parser;
    struct xml_node *open; /* the innermost element that is open */
    size_t text_bytes, text_space;
    int depth;
    int failed; /* err is set */
    struct err *err;
};

static void value_xml_fail(struct parse *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void value_xml_fail(struct parse *p, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_at(p->err, p->x->name, (int)XML_GetCurrentLineNumber(p->parser), NULL, "%s", text);
    p->failed = 1;
    XML_StopParser(p->parser, XML_FALSE);
}

static void on_start(void *ctx, const char *name, const char **attr)
{
    struct parse *p = ctx;
    int attrs = XML_GetSpecifiedAttributeCount(p->parser) / 2;

    if (p->failed)
        return;
    if (p->x->nodes == XML_NODES_MAX) {
        value_xml_fail(p, "has more than %d elements", XML_NODES_MAX);
        return;
    }
    if (p->depth++ == XML_DEPTH_MAX) {
        value_xml_fail(p, "has elements nested deeper than %d", XML_DEPTH_MAX);
        return;
    }
    if (attrs > XML_ATTRS_MAX) {
        value_xml_fail(p, "has %d attributes in <%.64s>, expected %d at most", attrs, name,
                       XML_ATTRS_MAX);
        return;
    }
    struct xml_node *n = xml_add(p->x, p->open, name);
    n->line = (int)XML_GetCurrentLineNumber(p->parser);
    for (int i = 0; i < attrs; i++)
        add_attr(n, attr[2 * i], attr[2 * i + 1]);
    p->open = n;
    p->text_bytes = p->text_space = 0;
}

static void on_end(void *ctx, const char *name)
{
    struct parse *p = ctx;

    (void)name;
    if (p->failed)
        return;
    p->open = p->open->parent;
    p->depth--;
}

static void on_text(void *ctx, const char *text, int bytes)
{
    struct parse *p = ctx;

    if (p->failed || p->open->child)
        return;
    if (p->text_space == 0) {
        mem_free(p->open->text);
        p->open->text = NULL;
    }
    p->open->text =
        mem_grow(p->open->text, &p->text_space, p->text_bytes + (size_t)bytes + 1, 1);
    memcpy(p->open->text + p->text_bytes, text, (size_t)bytes);
    p->text_bytes += (size_t)bytes;
    p->open->text[p->text_bytes] = 0;
}

static void on_doctype(void *ctx, const char *name, const char *system, const char *public,
                       int declares)
{
    (void)name;
    (void)system;
    (void)public;
    if (declares)
        value_xml_fail(ctx, "declares entities or elements of its own, expected none");
}

/* Skips the declaration and comments before a document type or the first element. */
static char *skip_prolog(char *at)
{
    at += strncmp(at, "\xef\xbb\xbf", 3) ? 0 : 3;
    for (;;) {
        at += strspn(at, " \t\r\n");
        const char *close = strncmp(at, "<?", 2) == 0     ? "?>"
                            : strncmp(at, "<!--", 4) == 0 ? "-->"
                                                          : NULL;
        char *end = close ? strstr(at + 2, close) : NULL;
        if (!end)
            return at;
        at = end + strlen(close);
    }
}

/*
 * Replaces "<!DOCTYPE topology SYSTEM "hwloc2.dtd">" before the first element by blanks: with
 * an external DTD that is not read, expat drops unknown entities without an error.
 */
static void blank_doctype(char *text)
{
    char *at = skip_prolog(text), *end = strpbrk(at, "[>");

    if (strncmp(at, "<!DOCTYPE", 9) || !end || *end != '>')
        return;
    for (; at <= end; at++)
        *at = *at == '\n' ? '\n' : ' ';
}

static int xml_parse_text(struct parse *p, char *text, int bytes)
{
    blank_doctype(text);
    XML_SetUserData(p->parser, p);
    XML_SetElementHandler(p->parser, on_start, on_end);
    XML_SetCharacterDataHandler(p->parser, on_text);
    XML_SetStartDoctypeDeclHandler(p->parser, on_doctype);
    if (XML_Parse(p->parser, text, bytes, 1) == XML_STATUS_OK)
        return 0;
    if (p->failed)
        return -1;
    enum XML_Error code = XML_GetErrorCode(p->parser);
    if (code == XML_ERROR_NO_MEMORY)
        return err_set(p->err, ERR_SYS, "out of memory reading '%s'", p->x->name);
    int line = (int)XML_GetCurrentLineNumber(p->parser);
    if (!p->open)
        return err_at(p->err, p->x->name, line, NULL, "is not XML: %s", XML_ErrorString(code));
    /* expat reports a truncated text as having no element. */
    return err_at(p->err, p->x->name, line, NULL,
                  "is not XML: %s, in <%.64s>, open since line %d",
                  code == XML_ERROR_NO_ELEMENTS ? "it ends early" : XML_ErrorString(code),
                  p->open->name, p->open->line);
}

int xml_take(struct xml *x, const char *name, char *text, int64_t bytes, struct err *err)
{
    struct xml new = {.name = mem_dup(name)};
    struct parse p = {.x = &new, .err = err};
    int rc = -1;

    if (bytes > XML_BYTES_MAX) {
        err_at(err, name, 0, NULL, "has %" PRId64 " bytes, expected %d at most", bytes,
               XML_BYTES_MAX);
    } else {
        p.parser = mem_have(XML_ParserCreate("UTF-8"), "a parser of XML");
        rc = xml_parse_text(&p, text, (int)bytes);
        XML_ParserFree(p.parser);
    }
    mem_free(text);
    if (rc)
        xml_release(&new);
    else
        *x = new;
    return rc;
}

void xml_release(struct xml *x)
{
    for (struct xml_node *n = x->root, *next; n; n = next) {
        if (n->child) { /* children first: then n has none */
            next = n->child;
            n->child = NULL;
            continue;
        }
        next = n->next ? n->next : n->parent;
        for (int i = 0; i < n->attrs; i++) {
            mem_free(n->attr[i].name);
            mem_free(n->attr[i].value);
        }
        MEM_FREE(n->attr, n->name, n->text, n);
    }
    mem_free(x->name);
    *x = (struct xml){0};
}

/* ---- looking up ---- */

struct xml_node *xml_after(const struct xml_node *n)
{
    if (n->child)
        return n->child;
    while (n && !n->next)
        n = n->parent;
    return n ? n->next : NULL;
}

const char *xml_find(const struct xml_node *n, const char *attr)
{
    for (int i = 0; i < n->attrs; i++)
        if (strcmp(n->attr[i].name, attr) == 0)
            return n->attr[i].value;
    return NULL;
}

const char *xml_word(const struct xml_node *n, const char *attr)
{
    const char *value = n ? xml_find(n, attr) : NULL;

    return value ? value : "";
}

int xml_is(const struct xml_node *n, const char *name)
{
    return n && strcmp(n->name, name) == 0;
}

int xml_has(const struct xml_node *n, const char *attr, const char *value)
{
    const char *found = xml_find(n, attr);

    return found && strcmp(found, value) == 0;
}

int xml_fail(const struct xml *x, const struct xml_node *n, const char *attr, struct err *err,
             const char *fmt, ...)
{
    char text[sizeof err->text], key[sizeof err->key];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(key, sizeof key, "%.40s%s%.50s", n->name, attr ? "." : "", attr ? attr : "");
    return err_at(err, x->name, n->line, key, "%s", text);
}

int xml_i64(const struct xml *x, const struct xml_node *n, const char *attr, int64_t lo,
            int64_t hi, int64_t *out, struct err *err)
{
    const char *text = xml_find(n, attr);
    struct err why;

    if (!text)
        return xml_fail(x, n, attr, err, "is missing, expected a whole number");
    return num_i64(text, lo, hi, out, &why) ? xml_fail(x, n, attr, err, "is %s", why.text) : 0;
}

int xml_f64(const struct xml *x, const struct xml_node *n, const char *attr, double lo,
            double hi, double *out, struct err *err)
{
    const char *text = xml_find(n, attr);
    struct err why;

    if (!text)
        return xml_fail(x, n, attr, err, "is missing, expected a number");
    return num_f64(text, lo, hi, out, &why) ? xml_fail(x, n, attr, err, "is %s", why.text) : 0;
}

/* ---- printing ---- */

static void print_value(const char *value, FILE *out)
{
    for (; *value; value++) {
        const char *entity = *value == '&'   ? "&amp;"
                             : *value == '<' ? "&lt;"
                             : *value == '>' ? "&gt;"
                             : *value == '"' ? "&quot;"
                                             : NULL;
        if (entity)
            fputs(entity, out);
        else if ((unsigned char)*value < 0x20)
            fprintf(out, "&#%d;", *value);
        else
            putc(*value, out);
    }
}

static void print_node(const struct xml_node *n, int depth, FILE *out)
{
    fprintf(out, "%*s<%s", 2 * depth, "", n->name);
    for (int i = 0; i < n->attrs; i++) {
        fprintf(out, " %s=\"", n->attr[i].name);
        print_value(n->attr[i].value, out);
        putc('"', out);
    }
    fputs(n->child ? ">\n" : "/>\n", out);
    for (const struct xml_node *c = n->child; c; c = c->next)
        print_node(c, depth + 1, out);
    if (n->child)
        fprintf(out, "%*s</%s>\n", 2 * depth, "", n->name);
}

void xml_print(const struct xml *x, FILE *out)
{
    print_node(x->root, 0, out);
}
