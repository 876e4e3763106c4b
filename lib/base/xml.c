/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the grammar of XML 1.0 as far as base/xml.h takes it.  Does not know what a document
 * says.  Names and values stay where they stand in the text: a value only shrinks when its
 * entities are replaced, and a 0 takes the place of the byte behind it, once that is read.
 */
#include "base/xml.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

/* Of a whole document: 48 MiB of them, far more than any machine's description has. */
enum { ATTRS_ALL = 1 << 21 };

struct parse {
    struct xml *x;
    struct err *err;
    char *at;
    int line;
    struct xml_node *open[XML_DEPTH_MAX], *last[XML_DEPTH_MAX]; /* last child of each */
    int depth, attrs, nodes_most;
};

static int fail(struct parse *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct parse *p, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_at(p->err, p->x->name, p->line, NULL, "%s", text);
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int blanks(struct parse *p)
{
    char *from = p->at;

    for (; is_blank(*p->at); p->at++)
        p->line += *p->at == '\n';
    return p->at > from;
}

/* Past `word` if it stands here. */
static int eat(struct parse *p, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(p->at, word, n))
        return 0;
    p->at += n;
    return 1;
}

/* Past the next `end`; -1 where there is none. */
static int eat_until(struct parse *p, const char *end)
{
    char *to = strstr(p->at, end);

    if (!to)
        return -1;
    for (; p->at < to; p->at++)
        p->line += *p->at == '\n';
    p->at += strlen(end);
    return 0;
}

static int is_name(char c, int first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
           (!first && ((c >= '0' && c <= '9') || c == '-' || c == '.'));
}

/* The bytes of a name here, 0 when none begins. */
static int name_bytes(const struct parse *p)
{
    int n = 0;

    while (is_name(p->at[n], n == 0))
        n++;
    return n;
}

/* ---- text and its entities ---- */

/* The character of "&...;" at *from, past it; 0 when it is none that is known. */
static uint32_t entity(char **from)
{
    static const struct {
        const char *name;
        char is;
    } five[] = {
        {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
    char *p = *from, *end = NULL;

    for (int i = 0; i < 5; i++) {
        if (strncmp(p, five[i].name, strlen(five[i].name)))
            continue;
        *from += strlen(five[i].name);
        return (uint32_t)five[i].is;
    }
    if (p[1] != '#')
        return 0;
    int hex = p[2] == 'x';
    p += 2 + hex;
    if (strspn(p, hex ? "0123456789abcdefABCDEF" : "0123456789") - 1 > 6)
        return 0; /* none, or more digits than a character has */
    unsigned long code = strtoul(p, &end, hex ? 16 : 10);
    if (*end != ';' || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ||
        (code < 0x20 && code != '\t' && code != '\n' && code != '\r'))
        return 0;
    *from = end + 1;
    return (uint32_t)code;
}

static char *put_utf8(char *to, uint32_t code)
{
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};

    *to++ = (char)(lead[more] | code >> 6 * more);
    while (more--)
        *to++ = (char)(0x80 | (code >> 6 * more & 0x3f));
    return to;
}

static int decode_entity(struct parse *p, char **to)
{
    uint32_t code = entity(&p->at);

    if (!code)
        return fail(p,
                    "has the entity '%.*s', expected one of &lt; &gt; &amp; &quot; &apos;"
                    " or a character by its number",
                    (int)strcspn(p->at, "; \n<\"") % 24, p->at);
    *to = put_utf8(*to, code);
    return 0;
}

/* From here up to one of `ends` (the byte itself stays unread): in place, a 0 behind it. */
static int decode(struct parse *p, const char *ends, char **stop)
{
    char *to = p->at;

    while (*p->at && !strchr(ends, *p->at)) {
        uint32_t code = 0;
        int n = utf8_next(p->at, &code);
        if (*p->at == '&') {
            if (decode_entity(p, &to))
                return -1;
            continue;
        }
        if (n == 0)
            return fail(p, "has a byte 0x%02x, expected UTF-8", (unsigned char)*p->at);
        if (code < 0x20 && !is_blank(*p->at))
            return fail(p, "has a control character 0x%02x, expected text", (int)code);
        p->line += *p->at == '\n';
        memmove(to, p->at, (size_t)n);
        p->at += n;
        to += n;
    }
    *stop = to;
    return 0;
}

/* ---- elements ---- */

static int read_attr(struct parse *p, struct xml_node *node)
{
    int n = name_bytes(p);
    char *name = p->at, *stop = NULL;
    struct xml_attr *a = &p->x->attr[p->attrs];

    if (n == 0)
        return fail(p, "has '%.12s' in <%s>, expected an attribute, '/>' or '>'", p->at,
                    node->name);
    if (node->attrs == XML_ATTRS_MAX || p->attrs == ATTRS_ALL)
        return fail(p, "has too many attributes in <%s>, expected %d at most, and %d in all",
                    node->name, XML_ATTRS_MAX, ATTRS_ALL);
    a->line = p->line;
    p->at += n;
    blanks(p);
    if (!eat(p, "="))
        return fail(p, "has the attribute '%.*s', expected '=' after it", n % 64, name);
    blanks(p);
    char quote = *p->at;
    if (quote != '"' && quote != '\'')
        return fail(p, "has an unquoted value of '%.*s', expected quotes", n % 64, name);
    name[n] = 0;
    a->name = name;
    a->value = ++p->at;
    if (decode(p, quote == '"' ? "\"<" : "'<", &stop))
        return -1;
    if (*p->at != quote)
        return fail(p, "has an unterminated value of '%.64s'", name);
    p->at++;
    *stop = 0;
    for (int i = 0; i < node->attrs; i++)
        if (strcmp(node->attr[i].name, name) == 0)
            return fail(p, "has the attribute '%.64s' twice in <%s>, expected once", name,
                        node->name);
    node->attrs++;
    p->attrs++;
    return 0;
}

static int open_node(struct parse *p, char *name, int n, struct xml_node **out)
{
    struct xml *x = p->x;

    if (x->nodes == p->nodes_most)
        return fail(p, "has more than %d elements", XML_NODES_MAX);
    if (p->depth == XML_DEPTH_MAX)
        return fail(p, "has elements nested deeper than %d", XML_DEPTH_MAX);
    struct xml_node *node = &x->node[x->nodes++], *up = p->depth ? p->open[p->depth - 1] : NULL;
    *node = (struct xml_node){.name = name, .text = "", .line = p->line, .parent = up};
    node->attr = &x->attr[p->attrs];
    if (up) {
        struct xml_node **last = &p->last[p->depth - 1];
        if (*last)
            (*last)->next = node;
        else
            up->child = node;
        *last = node;
    }
    p->at += n;
    *out = node;
    return 0;
}

/* Behind '<': the start of an element. */
static int read_start(struct parse *p)
{
    int n = name_bytes(p);
    char *name = p->at;
    struct xml_node *node = NULL;

    if (n == 0)
        return fail(p, "has '<%.12s', expected an element", p->at);
    if (p->x->nodes && p->depth == 0)
        return fail(p, "has a second element <%.*s> after <%s>, expected one", n % 64, name,
                    p->x->node->name);
    if (open_node(p, name, n, &node))
        return -1;
    for (;;) {
        int blank = blanks(p), single = p->at[0] == '/' && p->at[1] == '>';
        int over = single || *p->at == '>';
        if (!blank && !over)
            return *p->at ? fail(p, "has '%.12s' in <%.*s>, expected a blank, '/>' or '>'",
                                 p->at, n % 64, name)
                          : fail(p, "ends inside <%.*s>", n % 64, name);
        name[n] = 0; /* the byte that stood there has been looked at */
        if (!over && read_attr(p, node))
            return -1;
        if (!over)
            continue;
        p->at += 1 + single;
        if (!single) {
            p->last[p->depth] = NULL;
            p->open[p->depth++] = node;
            node->text = p->at;
        }
        return 0;
    }
}

/* Behind '</'. */
static int read_end(struct parse *p)
{
    int n = name_bytes(p);
    char *name = p->at;
    const struct xml_node *open = p->depth ? p->open[p->depth - 1] : NULL;

    p->at += n;
    blanks(p);
    if (!open)
        return fail(p, "ends </%.*s>, which is not open", n % 64, name);
    if ((int)strlen(open->name) != n || strncmp(open->name, name, (size_t)n))
        return fail(p, "ends </%.*s>, expected </%s>, open since line %d", n % 64, name,
                    open->name, open->line);
    if (!eat(p, ">"))
        return fail(p, "ends inside </%s>", open->name);
    p->depth--;
    return 0;
}

/*
 * "<!DOCTYPE name SYSTEM "hwloc2.dtd">": what hwloc writes.  It names a description that lies
 * elsewhere and is not read; one that declares entities itself has a '['.
 */
static int read_doctype(struct parse *p)
{
    char *end = strpbrk(p->at, "[>");

    if (p->x->nodes)
        return fail(p, "has a document type after <%s>, expected none", p->x->node->name);
    if (!end || *end == '[')
        return fail(p, "declares entities or elements of its own, expected none");
    return eat_until(p, ">");
}

/* Behind a '<': one piece of markup. */
static int read_markup(struct parse *p)
{
    if (eat(p, "!--"))
        return eat_until(p, "-->") ? fail(p, "has an unterminated comment") : 0;
    if (eat(p, "!DOCTYPE"))
        return read_doctype(p);
    if (*p->at == '!' || *p->at == '?')
        return fail(p, "has '<%.8s', expected elements and comments", p->at);
    return eat(p, "/") ? read_end(p) : read_start(p);
}

/* Text up to the next '<' or the end: an element's, or outside all of them blanks. */
static int read_text(struct parse *p)
{
    char *stop = NULL;

    if (p->depth == 0) {
        blanks(p);
        if (*p->at && *p->at != '<')
            return fail(p, "has '%.12s' outside all elements, expected '<'", p->at);
        return 0;
    }
    if (decode(p, "<", &stop))
        return -1;
    if (!*p->at)
        return fail(p, "ends inside <%s>, open since line %d", p->open[p->depth - 1]->name,
                    p->open[p->depth - 1]->line);
    return stop < p->at ? (*stop = 0) : 0; /* else read_all puts the 0 where the '<' is */
}

static int read_all(struct parse *p)
{
    eat(p, "\xef\xbb\xbf"); /* the mark that some editors put before UTF-8 */
    if (eat(p, "<?xml ") && eat_until(p, "?>"))
        return fail(p, "has an unterminated declaration");
    for (;;) {
        if (read_text(p))
            return -1;
        if (!*p->at)
            break;
        *p->at++ = 0;
        if (read_markup(p))
            return -1;
    }
    return p->x->nodes ? 0 : fail(p, "has no element, expected one");
}

static int count(const char *text, char c, int most)
{
    int n = 0;

    while (n < most && (text = strchr(text, c))) {
        text++;
        n++;
    }
    return n;
}

int xml_take(struct xml *x, const char *name, char *text, int64_t bytes, struct err *err)
{
    struct xml new = {.name = mem_dup(name), .text = text};
    struct parse p = {.x = &new, .err = err, .at = text, .line = 1};

    int rc = 0;
    if (bytes > XML_BYTES_MAX)
        rc = err_at(err, name, 0, NULL, "has %" PRId64 " bytes, expected %d at most", bytes,
                    XML_BYTES_MAX);
    else if (memchr(text, 0, (size_t)bytes))
        rc = err_at(err, name, 0, NULL, "has a byte 0x00, expected text");
    if (rc == 0) {
        /* Each element has its '<', each attribute its '=': one more, for one without. */
        p.nodes_most = count(text, '<', XML_NODES_MAX);
        new.node = mem_new((size_t)p.nodes_most + 1, sizeof *new.node);
        new.attr = mem_new((size_t)count(text, '=', ATTRS_ALL) + 1, sizeof *new.attr);
        rc = read_all(&p);
    }
    if (rc) {
        xml_release(&new);
        return -1;
    }
    new.root = new.node;
    *x = new;
    return 0;
}

void xml_release(struct xml *x)
{
    mem_free(x->name);
    mem_free(x->text);
    mem_free(x->node);
    mem_free(x->attr);
    *x = (struct xml){0};
}

/* ---- asking ---- */

static const struct xml_attr *attr_of(const struct xml_node *n, const char *attr)
{
    for (int i = 0; attr && i < n->attrs; i++)
        if (strcmp(n->attr[i].name, attr) == 0)
            return &n->attr[i];
    return NULL;
}

const char *xml_find(const struct xml_node *n, const char *attr)
{
    const struct xml_attr *a = attr_of(n, attr);

    return a ? a->value : NULL;
}

int xml_fail(const struct xml *x, const struct xml_node *n, const char *attr, struct err *err,
             const char *fmt, ...)
{
    const struct xml_attr *a = attr_of(n, attr);
    char text[sizeof err->text], key[sizeof err->key];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(key, sizeof key, "%.40s%s%.50s", n->name, attr ? "." : "", attr ? attr : "");
    return err_at(err, x->name, a ? a->line : n->line, key, "%s", text);
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
