/* SPDX-License-Identifier: BSD-3-Clause */
/* XML as programs write it, and what is refused: each with its file, its line and its words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/xml.h"
#include "words_fixture.h"

static int parse(struct xml *x, const char *text, struct err *err)
{
    return xml_take(x, "f.xml", mem_dup(text), (int64_t)strlen(text), err);
}

static void elements(void **state)
{
    struct xml x;
    struct err err;

    (void)state;
    assert_int_equal(parse(&x,
                           "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                           "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
                           "<!-- a comment\n of two lines with <b> -->\n"
                           "<a x='1' y = \"two\n words\"\n z=\"&lt;&amp;&gt;&quot;&apos;&#65;"
                           "&#x20ac;\">\n 10 &amp; 20 <b/><c><d  k=''/></c><b>t</b ></a>\n"
                           "<!-- behind -->\n",
                           &err),
                     0);
    const struct xml_node *a = x.root, *b = a->child, *c = b->next;
    assert_string_equal(a->name, "a");
    assert_int_equal(a->line, 5);
    assert_int_equal(a->attrs, 3);
    assert_string_equal(xml_find(a, "x"), "1");
    assert_string_equal(xml_find(a, "y"), "two\n words");
    assert_string_equal(xml_find(a, "z"), "<&>\"'A\xe2\x82\xac");
    assert_int_equal(a->attr[2].line, 7);
    assert_null(xml_find(a, "Z"));
    assert_string_equal(a->text, "\n 10 & 20 ");
    assert_null(a->parent);
    assert_int_equal(b->attrs, 0);
    assert_string_equal(b->text, "");
    assert_int_equal(b->line, 8);
    assert_string_equal(c->name, "c");
    assert_string_equal(c->child->name, "d");
    assert_string_equal(xml_find(c->child, "k"), "");
    assert_ptr_equal(c->child->parent, c);
    assert_null(c->child->next);
    assert_string_equal(c->next->text, "t");
    assert_null(c->next->next);
    assert_int_equal(x.nodes, 5);
    xml_release(&x);
}

static void numbers(void **state)
{
    struct xml x;
    struct err err;
    int64_t i = 7;
    double d = 7;

    (void)state;
    assert_int_equal(parse(&x, "<a>\n<b i='12' d='1.5'\n junk='12abc'/></a>", &err), 0);
    const struct xml_node *b = x.root->child;
    assert_int_equal(xml_i64(&x, b, "i", 0, 12, &i, &err), 0);
    assert_int_equal(i, 12);
    assert_int_equal(xml_f64(&x, b, "d", 0, 2, &d, &err), 0);
    assert_true(d == 1.5);
    assert_int_equal(xml_i64(&x, b, "i", 0, 11, &i, &err), -1);
    assert_words(err.text, "f.xml:2: 'b.i' '12' expected number 0 11");
    assert_int_equal(xml_f64(&x, b, "junk", 0, 99, &d, &err), -1);
    assert_words(err.text, "f.xml:3: 'b.junk' '12abc' expected number 0 99");
    assert_int_equal(err.line, 3);
    assert_string_equal(err.key, "b.junk");
    assert_int_equal(xml_i64(&x, b, "none", 0, 9, &i, &err), -1);
    assert_words(err.text, "f.xml:2: 'b.none' missing expected number");
    assert_int_equal(xml_fail(&x, x.root, NULL, &err, "holds %d", 3), -1);
    assert_words(err.text, "f.xml:1: 'a' holds 3");
    assert_true(i == 12 && d == 1.5);
    xml_release(&x);
}

static const char *const refused[][2] = {
    {"", "f.xml:1: element expected"},
    {" \n<!-- only -->\n", "f.xml:3: element expected"},
    {"word <a/>", "f.xml:1: 'word <a/>' outside elements expected '<'"},
    {"<a/>\nmore", "f.xml:2: 'more' outside elements expected '<'"},
    {"<a/>\n<b/>", "f.xml:2: second element <b> <a> expected"},
    {"<a>\n<b>\n</a>", "f.xml:3: ends </a> expected </b> open line 2"},
    {"<a></a></a>", "f.xml:1: ends </a> open"},
    {"<a>\n<b/>\n", "f.xml:3: ends inside <a> open line 1"},
    {"<a", "f.xml:1: ends inside <a>"},
    {"<a x='1'", "f.xml:1: ends inside <a>"},
    {"<a></a", "f.xml:1: ends inside </a>"},
    {"<a/ >", "f.xml:1: '/ >' <a> expected blank '/>' '>'"},
    {"<a\n<b/>", "f.xml:2: '<b/>' <a> expected attribute '/>' '>'"},
    {"< a/>", "f.xml:1: '< a/>' expected element"},
    {"<a x='1'y='2'/>", "f.xml:1: 'y='2'/>' <a> expected blank '/>' '>'"},
    {"<a x=1/>", "f.xml:1: 'x' quotes"},
    {"<a x/>", "f.xml:1: attribute 'x' '='"},
    {"<a x='1/>", "f.xml:1: 'x'"},
    {"<a x='<b>'/>", "f.xml:1: 'x'"},
    {"<a x='1'\n x='2'/>", "f.xml:2: attribute 'x' twice <a> expected once"},
    {"<a><!-- </a>", "f.xml:1: comment"},
    {"<a>&foo;</a>",
     "f.xml:1: entity '&foo' expected &lt &gt &amp &quot &apos character number"},
    {"<a x='&#0;'/>", "f.xml:1: entity '&#0' expected"},
    {"<a x='&#xd800;'/>", "f.xml:1: entity '&#xd800' expected"},
    {"<a x='&#99999999;'/>", "f.xml:1: entity '&#99999999' expected"},
    {"<a x='&#;'/>", "f.xml:1: entity '&#' expected"},
    {"<a>a & b</a>", "f.xml:1: entity '&' expected"},
    {"<a>\xff</a>", "f.xml:1: byte 0xff expected UTF-8"},
    {"<a>\x1b[2J</a>", "f.xml:1: control character 0x1b expected text"},
    {"<a><![CDATA[x]]></a>", "f.xml:1: '<![CDATA[' expected elements comments"},
    {"<a><?php x?></a>", "f.xml:1: '<?php x?>' expected elements comments"},
    {"<?xml version='1.0'", "f.xml:1: declaration"},
    /* Ten lines that would become 10^9 letters, and a file of the machine that reads it. */
    {"<!DOCTYPE a [\n<!ENTITY b \"bbbbbbbbbb\">\n<!ENTITY c \"&b;&b;&b;&b;&b;&b;\">\n]>\n"
     "<a>&c;</a>",
     "f.xml:1: declares entities elements expected none"},
    {"<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>\n<a>&x;</a>",
     "f.xml:1: declares entities elements expected none"},
    {"<!DOCTYPE a SYSTEM \"a.dtd\">\n<a>&x;</a>", "f.xml:2: entity '&x' expected"},
    {"<!DOCTYPE a", "f.xml:1: declares entities elements expected none"},
    {"<a/>\n<!DOCTYPE a SYSTEM \"x\">", "f.xml:2: document type <a> expected none"},
};

static void refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct xml x = {0};
        struct err err = {0};
        assert_int_equal(parse(&x, refused[i][0], &err), -1);
        assert_words(err.text, refused[i][1]);
        assert_int_equal(err.code, ERR_INPUT);
        assert_null(x.text);
    }
}

/* `head`, n times `part` with %d counted up, `tail`. */
static char *many(const char *head, int n, const char *part, const char *tail)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);

    fputs(head, f);
    for (int i = 0; i < n; i++) {
        char one[64];
        const char *number = strchr(part, '#');
        snprintf(one, sizeof one, "%.*s%d%s", number ? (int)(number - part) : 0, part, i,
                 number ? number + 1 : "");
        fputs(number ? one : part, f);
    }
    fputs(tail, f);
    fclose(f);
    return text;
}

static void bounds(void **state)
{
    static const struct {
        const char *head;
        int n;
        const char *part, *tail, *want;
    } cases[] = {
        {"<a>", XML_DEPTH_MAX, "<b>", "", "f.xml:1: elements nested 64"},
        {"<a>", XML_NODES_MAX, "<b/>", "</a>", "f.xml:1: 262144 elements"},
        {"<a", XML_ATTRS_MAX + 1, " x#='1'", "/>",
         "f.xml:1: attributes <a> expected 64 2097152"},
        {"<a>", XML_BYTES_MAX / 8, "12345678", "</a>",
         "f.xml: 16777223 bytes expected 16777216"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xml x = {0};
        struct err err = {0};
        char *text = many(cases[i].head, cases[i].n, cases[i].part, cases[i].tail);
        assert_int_equal(parse(&x, text, &err), -1);
        assert_words(err.text, cases[i].want);
        free(text);
        /* One less is well, and the deepest, which are not closed, only end too early. */
        text = many(cases[i].head, cases[i].n - 1, cases[i].part, cases[i].tail);
        if (parse(&x, text, &err))
            assert_words(err.text, "f.xml:1: ends inside <b> open line 1");
        else
            xml_release(&x);
        free(text);
    }
    struct xml x = {0};
    struct err err = {0};
    assert_int_equal(xml_take(&x, "f.xml", mem_dup("<a>\0</a>"), 8, &err), -1);
    assert_words(err.text, "f.xml: byte 0x00 expected text");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements),
        cmocka_unit_test(numbers),
        cmocka_unit_test(refusals),
        cmocka_unit_test(bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
