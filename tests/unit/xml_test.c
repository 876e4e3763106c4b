/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests XML as programs write it, read and built, and what is refused: each with its file, its
 * line and its words.
 */
#include "unit.h"

#include "value/value_xml.h"
#include "words_fixture.h"

static int parse(struct xml *x, const char *text)
{
    return xml_take(x, "f.xml", mem_dup(text), (int64_t)strlen(text), &err);
}

TEST(elements)
{
    struct xml x;

    assert_ok(parse(&x, "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                        "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
                        "<!-- a comment\n of two lines with <b> -->\n"
                        "<a x='1' y = \"two\n words\"\n z=\"&lt;&amp;&gt;&quot;&apos;&#65;"
                        "&#x20ac;\">\n 10 &amp; <?skipped?><![CDATA[<20> ]]>"
                        "<b/><c><d  k=''/></c><b>t</b ></a>\n"
                        "<!-- behind -->\n"));
    const struct xml_node *a = x.root, *b = a->child, *c = b->next;
    assert_string_equal(a->name, "a");
    assert_int_equal(a->line, 5);
    assert_int_equal(a->attrs, 3);
    assert_string_equal(xml_find(a, "x"), "1");
    assert_string_equal(xml_find(a, "y"), "two  words");
    assert_string_equal(xml_find(a, "z"), "<&>\"'A\xe2\x82\xac");
    assert_null(xml_find(a, "Z"));
    assert_string_equal(a->text, "\n 10 & <20> ");
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
    assert_ptr_equal(xml_after(a), b);
    assert_ptr_equal(xml_after(b), c);
    assert_ptr_equal(xml_after(c), c->child);
    assert_ptr_equal(xml_after(c->child), c->next);
    assert_null(xml_after(c->next));
    assert_true(xml_is(b, "b") && !xml_is(b, "c") && !xml_is(NULL, "b"));
    assert_true(xml_has(a, "x", "1") && !xml_has(a, "x", "2") && !xml_has(a, "none", "1"));
    xml_release(&x);
    /* A comment's text is no document type. */
    assert_ok(parse(&x, "<!-- <!DOCTYPE a> or <!DOCTYPE -->\n<a/>"));
    xml_release(&x);
}

TEST(a_built_tree_is_printed)
{
    struct xml x = {0};
    struct xml_node *a = xml_add(&x, NULL, "a"), *b = xml_add(&x, a, "b");
    xml_set(a, "n", "%d", 3);
    xml_set(b, "k", "%s", "<&>\"\n'");
    xml_add(&x, b, "c");
    xml_add(&x, a, "d");
    FILE *out = unit_stream();
    xml_print(&x, out);
    char *text = unit_text(out);
    assert_string_equal(text, "<a n=\"3\">\n  <b k=\"&lt;&amp;&gt;&quot;&#10;'\">\n"
                              "    <c/>\n  </b>\n  <d/>\n</a>\n");
    free(text);
    xml_release(&x);
}

TEST(numbers)
{
    struct xml x;
    int64_t i = 7;
    double d = 7;

    assert_ok(parse(&x, "<a>\n<b i='12' d='1.5'\n junk='12abc'/></a>"));
    const struct xml_node *b = x.root->child;
    assert_ok(xml_i64(&x, b, "i", 0, 12, &i, &err));
    assert_int_equal(i, 12);
    assert_ok(xml_f64(&x, b, "d", 0, 2, &d, &err));
    assert_true(d == 1.5);
    assert_refused(xml_i64(&x, b, "i", 0, 11, &i, &err),
                   "f.xml:2: 'b.i' '12' expected number 0 11");
    assert_refused(xml_f64(&x, b, "junk", 0, 99, &d, &err),
                   "f.xml:2: 'b.junk' '12abc' expected number 0 99");
    assert_int_equal(err.line, 2);
    assert_string_equal(err.key, "b.junk");
    assert_refused(xml_i64(&x, b, "none", 0, 9, &i, &err),
                   "f.xml:2: 'b.none' missing expected number");
    assert_int_equal(xml_fail(&x, x.root, NULL, &err, "holds %d", 3), -1);
    assert_words(err.text, "f.xml:1: 'a' holds 3");
    assert_true(i == 12 && d == 1.5);
    xml_release(&x);
}

static const char *const refused[][2] = {
    {"", "f.xml:1: not XML no element"},
    {" \n<!-- only -->\n", "f.xml:3: not XML no element"},
    {"word <a/>", "f.xml:1: not XML syntax"},
    {"<a/>\nmore", "f.xml:2: not XML junk after"},
    {"<a/>\n<b/>", "f.xml:2: not XML junk after"},
    {"<a>\n<b>\n</a>", "f.xml:3: not XML mismatched tag <b> line 2"},
    {"<a></a></a>", "f.xml:1: not XML"},
    {"<a>\n<b/>\n", "f.xml:3: not XML ends <a> line 1"},
    {"<a", "f.xml:1: not XML unclosed"},
    {"<a x='1'", "f.xml:1: not XML unclosed"},
    {"<a></a", "f.xml:1: not XML unclosed <a> line 1"},
    {"<a/ >", "f.xml:1: not XML"},
    {"<a\n<b/>", "f.xml:2: not XML"},
    {"< a/>", "f.xml:1: not XML"},
    {"<a x='1'y='2'/>", "f.xml:1: not XML"},
    {"<a x=1/>", "f.xml:1: not XML"},
    {"<a x/>", "f.xml:1: not XML"},
    {"<a x='1/>", "f.xml:1: not XML unclosed"},
    {"<a x='<b>'/>", "f.xml:1: not XML"},
    {"<a x='1'\n x='2'/>", "f.xml:2: not XML duplicate attribute"},
    {"<a><!-- </a>", "f.xml:1: not XML unclosed <a> line 1"},
    {"<a>&foo;</a>", "f.xml:1: not XML undefined entity"},
    {"<a x='&#0;'/>", "f.xml:1: not XML character"},
    {"<a x='&#xd800;'/>", "f.xml:1: not XML character"},
    {"<a x='&#99999999;'/>", "f.xml:1: not XML character"},
    {"<a x='&#;'/>", "f.xml:1: not XML"},
    {"<a>a & b</a>", "f.xml:1: not XML"},
    {"<a>\xff</a>", "f.xml:1: not XML"},
    {"<a>\x1b[2J</a>", "f.xml:1: not XML"},
    {"<?xml version='1.0'", "f.xml:1: not XML"},
    /* Ten lines that would become 10^9 letters, and a file of the machine that reads it. */
    {"<!DOCTYPE a [\n<!ENTITY b \"bbbbbbbbbb\">\n<!ENTITY c \"&b;&b;&b;&b;&b;&b;\">\n]>\n"
     "<a>&c;</a>",
     "f.xml:1: declares entities elements expected none"},
    {"<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>\n<a>&x;</a>",
     "f.xml:1: declares entities elements expected none"},
    {"<!DOCTYPE a SYSTEM \"a.dtd\">\n<a>&x;</a>", "f.xml:2: not XML undefined entity"},
    {"<!DOCTYPE a SYSTEM \"a.dtd\">\n<a b='&x;'/>", "f.xml:2: not XML undefined entity"},
    {"<?xml version='1.0'?>\n<!-- by <me> -->\n<!DOCTYPE a SYSTEM \"a.dtd\">\n<a b='&x;'/>",
     "f.xml:4: not XML undefined entity"},
    {"<!DOCTYPE a", "f.xml:1: not XML"},
    {"<a/>\n<!DOCTYPE a SYSTEM \"x\">", "f.xml:2: not XML"},
};

TEST(refusals)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct xml x = {0};
        assert_error(parse(&x, refused[i][0]), ERR_INPUT);
        assert_words(err.text, refused[i][1]);
        assert_null(x.root);
    }
}

/* `head`, n times `part` with %d counted up, `tail`. */
static char *many(const char *head, int n, const char *part, const char *tail)
{
    FILE *f = unit_stream();

    fputs(head, f);
    for (int i = 0; i < n; i++) {
        char one[64];
        const char *number = strchr(part, '#');
        snprintf(one, sizeof one, "%.*s%d%s", number ? (int)(number - part) : 0, part, i,
                 number ? number + 1 : "");
        fputs(number ? one : part, f);
    }
    fputs(tail, f);
    return unit_text(f);
}

TEST(bounds)
{
    static const struct {
        const char *head;
        int n;
        const char *part, *tail, *want;
    } cases[] = {
        {"<a>", XML_DEPTH_MAX, "<b>", "", "f.xml:1: elements nested 64"},
        {"<a>", XML_NODES_MAX, "<b/>", "</a>", "f.xml:1: 262144 elements"},
        {"<a", XML_ATTRS_MAX + 1, " x#='1'", "/>", "f.xml:1: 65 attributes <a> expected 64"},
        {"<a>", XML_BYTES_MAX / 8, "12345678", "</a>",
         "f.xml: 16777223 bytes expected 16777216"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xml x = {0};
        char *text = many(cases[i].head, cases[i].n, cases[i].part, cases[i].tail);
        assert_refused(parse(&x, text), cases[i].want);
        free(text);
        /* One less is well, and the deepest, which are not closed, only end too early. */
        text = many(cases[i].head, cases[i].n - 1, cases[i].part, cases[i].tail);
        if (parse(&x, text))
            assert_words(err.text, "f.xml:1: not XML ends <b> line 1");
        else
            xml_release(&x);
        free(text);
    }
    struct xml x = {0};
    static const char with_nul[] = "<a>\0</a>";
    char *text = memcpy(mem_new(sizeof with_nul, 1), with_nul, sizeof with_nul);
    assert_refused(xml_take(&x, "f.xml", text, sizeof with_nul - 1, &err), "f.xml:1: not XML");
}
