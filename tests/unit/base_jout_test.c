/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests JSON out: byte for byte, and read back. */
#include "unit.h"

#include <float.h>

#include "value/value_json_out.h"
#include "value/value_tree.h"

struct page {
    struct jout j;
    char *text;
    size_t bytes;
};

static void begin(struct page *p, int pretty)
{
    *p = (struct page){0};
    p->j = (struct jout){.file = open_memstream(&p->text, &p->bytes), .pretty = pretty};
}

/* Closes the page and reads it. */
static struct tree read_back(struct page *p)
{
    struct tree t;

    fclose(p->j.file);
    assert_ok(tree_parse_loose(&t, "page", 1, p->text, (int64_t)p->bytes, &err));
    return t;
}

static void end(struct page *p, const char *expected)
{
    struct tree t = read_back(p);

    assert_string_equal(p->text, expected);
    tree_release(&t);
    free(p->text);
}

TEST(one_line)
{
    struct page p;

    begin(&p, 0);
    jout_open(&p.j, NULL, '{');
    jout_text(&p.j, "schema", "paro.x/1");
    jout_open(&p.j, "list", '[');
    jout_int(&p.j, NULL, INT64_MIN);
    jout_int(&p.j, NULL, INT64_MAX);
    jout_open(&p.j, NULL, '[');
    jout_close(&p.j, ']');
    jout_open(&p.j, NULL, '{');
    jout_close(&p.j, '}');
    jout_close(&p.j, ']');
    jout_bool(&p.j, "yes", 7);
    jout_bool(&p.j, "no", 0);
    jout_null(&p.j, "none");
    jout_text(&p.j, "absent", NULL);
    jout_close(&p.j, '}');
    end(&p,
        "{\"schema\":\"paro.x/1\",\"list\":[-9223372036854775808,9223372036854775807,[],{}],"
        "\"yes\":true,\"no\":false,\"none\":null,\"absent\":null}\n");
}

TEST(pretty_lines)
{
    struct page p;

    begin(&p, 1);
    jout_open(&p.j, NULL, '{');
    jout_open(&p.j, "empty", '[');
    jout_close(&p.j, ']');
    jout_open(&p.j, "a", '{');
    jout_int(&p.j, "b", 1);
    jout_int(&p.j, "c", 2);
    jout_close(&p.j, '}');
    jout_close(&p.j, '}');
    end(&p, "{\n  \"empty\": [],\n  \"a\": {\n    \"b\": 1,\n    \"c\": 2\n  }\n}\n");
}

/* JSON Lines: one writer, many documents. */
TEST(documents_follow_each_other)
{
    struct page p;

    begin(&p, 0);
    for (int i = 0; i < 2; i++) {
        jout_open(&p.j, NULL, '{');
        jout_int(&p.j, "step", i);
        jout_close(&p.j, '}');
    }
    fclose(p.j.file);
    assert_string_equal(p.text, "{\"step\":0}\n{\"step\":1}\n");
    free(p.text);
}

TEST(strings_are_escaped)
{
    static const char *const cases[][2] = {
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"\xc2\x85\xe2\x80\xae\xc3\xa4", "\"\\u0085\\u202e\xc3\xa4\""},
        {"\n\t\x01\x7f", "\"\\u000a\\u0009\\u0001\\u007f\""},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
         "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"\xff", "\"\\ufffd\""},                                  /* never a first byte */
        {"\xc3", "\"\\ufffd\""},                                  /* cut off */
        {"\xc3(", "\"\\ufffd(\""},                                /* not continued */
        {"\xc0\xaf", "\"\\ufffd\\ufffd\""},                       /* overlong '/' */
        {"\xe0\x80\xaf", "\"\\ufffd\\ufffd\\ufffd\""},            /* overlong, three bytes */
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},            /* a surrogate */
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""}, /* above U+10FFFF */
        {"\xf5\x80", "\"\\ufffd\\ufffd\""},
        {"", "\"\""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct page p;
        char expected[128];
        begin(&p, 0);
        jout_open(&p.j, NULL, '{');
        jout_text(&p.j, cases[i][0], cases[i][0]);
        jout_close(&p.j, '}');
        snprintf(expected, sizeof expected, "{%s:%s}\n", cases[i][1], cases[i][1]);
        end(&p, expected);
    }
}

/* Any two bytes, between two letters: always a document that a strict reader takes. */
TEST(no_bytes_break_it)
{
    for (int a = 1; a < 256; a++) {
        struct page p;
        begin(&p, 0);
        jout_open(&p.j, NULL, '[');
        for (int b = 1; b < 256; b++)
            jout_text(&p.j, NULL, (char[]){'x', (char)a, (char)b, 'y', 0});
        jout_close(&p.j, ']');
        struct tree t = read_back(&p);
        assert_int_equal(tree_count(t.root, TREE_LIST), 255);
        tree_release(&t);
        free(p.text);
    }
}

TEST(numbers_return)
{
    static const double cases[] = {0.1,     1.0 / 3,     1e300,   5e-324,
                                   DBL_MAX, 123456789.0, -2.5e-7, 1e21,
                                   100000., 0x1p53,      59.8e6,  4503599627370497.5};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct page p;
        begin(&p, 0);
        jout_open(&p.j, NULL, '[');
        jout_num(&p.j, NULL, cases[i]);
        jout_close(&p.j, ']');
        struct tree t = read_back(&p);
        double v = 0;
        assert_true(tree_is_number(t.root->child, &v) && v == cases[i]);
        tree_release(&t);
        free(p.text);
    }
}

TEST(no_number_is_null)
{
    struct page p;

    begin(&p, 0);
    jout_open(&p.j, NULL, '[');
    jout_num(&p.j, NULL, NAN);
    jout_num(&p.j, NULL, -NAN);
    jout_num(&p.j, NULL, INFINITY);
    jout_num(&p.j, NULL, -INFINITY);
    jout_num(&p.j, NULL, 0.1);
    jout_num(&p.j, NULL, 0);
    jout_num(&p.j, NULL, 35906560); /* whole numbers as integers, not 3.590656e+07 */
    jout_num(&p.j, NULL, 9007199254740992.0);
    jout_close(&p.j, ']');
    end(&p, "[null,null,null,null,0.1,0,35906560,9007199254740992]\n");
}

TEST(deep_nesting)
{
    struct page p;
    char expected[128];

    begin(&p, 0);
    for (int d = 0; d < 60; d++)
        jout_open(&p.j, NULL, '[');
    for (int d = 0; d < 60; d++)
        jout_close(&p.j, ']');
    memset(expected, '[', 60);
    memset(expected + 60, ']', 60);
    strcpy(expected + 120, "\n");
    end(&p, expected);
}

TEST(yaml_says_the_same)
{
    char text[256] = "";
    FILE *f = fmemopen(text, sizeof text, "w");
    struct jout j = {.file = f, .yaml = 1};

    jout_open(&j, NULL, '{');
    jout_text(&j, "format", "x/1");
    jout_open(&j, "items", '[');
    for (int i = 0; i < 2; i++) {
        jout_open(&j, NULL, '{');
        jout_text(&j, "name", i ? "no" : "a");
        jout_open(&j, "ranks", '[');
        jout_int(&j, NULL, i);
        jout_int(&j, NULL, 7);
        jout_close(&j, ']');
        jout_open(&j, "none", '[');
        jout_close(&j, ']');
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    jout_open(&j, "cells", '[');
    for (int i = 0; i < 2; i++) {
        jout_open(&j, NULL, '[');
        jout_int(&j, NULL, i);
        jout_int(&j, NULL, 7);
        jout_close(&j, ']');
    }
    jout_close(&j, ']');
    jout_open(&j, "map", '{');
    jout_num(&j, "rate", 1e-6);
    jout_bool(&j, "sure", 1);
    jout_close(&j, '}');
    jout_close(&j, '}');
    fclose(f);
    assert_string_equal(text, "format: x/1\n"
                              "items:\n"
                              "  - name: a\n"
                              "    ranks: [0, 7]\n"
                              "    none: []\n"
                              "  - name: \"no\"\n"
                              "    ranks: [1, 7]\n"
                              "    none: []\n"
                              "cells:\n"
                              "  - [0, 7]\n"
                              "  - [1, 7]\n"
                              "map:\n"
                              "  rate: 1.0e-06\n"
                              "  sure: true\n");
}
