/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of XML. */
#include "reader_fuzz.h"

#include "value/value_xml.h"

static int parse(struct xml *x, const void *data, size_t bytes)
{
    struct err err = {0};

    return fuzz_judge(xml_take(x, FUZZ_NAME, fuzz_copy(data, bytes), (int64_t)bytes, &err),
                      &err);
}

static void check_tree(const struct xml *x)
{
    int count = 0, line = 1;

    assert(x->nodes > 0 && !x->root->parent && !x->root->next);
    for (const struct xml_node *n = x->root; n; n = xml_after(n), count++) {
        assert(n->index == count && n->name[0] && n->text && n->line >= line);
        line = n->line;
        assert(n->attrs >= 0 && n->attrs <= XML_ATTRS_MAX);
        for (int a = 0; a < n->attrs; a++)
            assert(n->attr[a].name[0] && xml_find(n, n->attr[a].name) == n->attr[a].value);
        for (const struct xml_node *c = n->child; c; c = c->next)
            assert(c->parent == n && (c->next || n->last == c));
    }
    assert(count == x->nodes);
}

static void put_text(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (strchr("<>&\"'\r\t\n", *text))
            fprintf(f, "&#%d;", *text);
        else
            putc(*text, f);
    }
}

static void put_node(FILE *f, const struct xml_node *n)
{
    fprintf(f, "<%s", n->name);
    for (int a = 0; a < n->attrs; a++) {
        fprintf(f, " %s=\"", n->attr[a].name);
        put_text(f, n->attr[a].value);
        putc('"', f);
    }
    putc('>', f);
    put_text(f, n->text);
    for (const struct xml_node *c = n->child; c; c = c->next)
        put_node(f, c);
    fprintf(f, "</%s>", n->name);
}

static char *print(const struct xml *x, size_t *bytes)
{
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    put_node(f, x->root);
    fclose(f);
    return text;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct xml x = {0}, back = {0};
    size_t first_bytes = 0, again_bytes = 0;

    if (parse(&x, data, bytes))
        return 0;
    check_tree(&x);
    char *first = print(&x, &first_bytes);
    int rc = parse(&back, first, first_bytes);
    assert(rc == 0);
    check_tree(&back);
    assert(back.nodes == x.nodes);
    char *again = print(&back, &again_bytes);
    fuzz_same(first, first_bytes, again, again_bytes);
    xml_release(&x);
    xml_release(&back);
    return 1;
}

static const char one[] =
    "<?xml version=\"1.0\"?>\n<!DOCTYPE a SYSTEM \"a.dtd\">\n"
    "<a x='1' y=\"&lt;&#65;\">t &amp; u<b/><c k='v'>\n</c></a>\n<!-- c -->\n";
static const char other[] =
    "<system version=\"1\">\n <cpu numaid=\"0\">\n  <pci busid=\"a\"/>\n"
    "  <!-- gone -->\n </cpu>\n</system>";

FUZZ_SET(.name = "xml", .cases = 20000, .ends = " \n\"'=<>/&;",
         .words = FUZZ_LIST("&lt;", "&#x41;", "&#0;", "&b;", "<!--", "-->", "<a>", "</a>",
                            "<b/>", "<![CDATA[", "]]>", "<!ENTITY b \"c\">", "<?x?>", "a",
                            "x='1'", "=", "\"", "'", "\xc3\xa4", "\xff", "\x01", "\n"),
         .text = {FUZZ_TEXT(one), FUZZ_TEXT(other)});
