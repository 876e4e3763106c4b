/* SPDX-License-Identifier: BSD-3-Clause */
/* Trees of JSON that other programs wrote: an odd value decides only where it is used. */
#include "base/jin.h"
#include "base/jtree.h"
#include "unit.h"

static json_t *read_tree(const char *text)
{
    json_t *root = NULL;

    if (jtree_read("f.json", text, (int64_t)strlen(text), &root, &err))
        fail_msg("%s: %s", text, err.text);
    return root;
}

TEST(test_values)
{
    json_t *root = read_tree("{\"a\": [1, -2.5e1, true, false, null, \"\\u00e4\\n\"], "
                             "\"b\": {}, \"c\": -0, \"d\": 9223372036854775807}");
    json_t *is = json_loads("{\"a\": [1, -25.0, true, false, null, \"\xc3\xa4\\n\"], "
                            "\"b\": {}, \"c\": 0, \"d\": 9223372036854775807}",
                            0, NULL);

    assert_true(json_equal(root, is));
    json_decref(root);
    json_decref(is);
}

/* jansson has no place for these; whoever asks for a number, a text or a list gets none. */
TEST(test_odd)
{
    static const struct {
        const char *text, *kind;
    } cases[] = LIST({"1e400", "beyond 1e308"}, {"-1e400", "beyond 1e308"}, {"NaN", "NaN"},
                     {"Infinity", "beyond 1e308"}, {"-Infinity", "beyond 1e308"},
                     {"\"a\\u0000b\"", "a text with a 0 byte"}, {"1, \"k\": 1", "given twice"},
                     {"1, \"k\": [], \"k\": {}", "given twice"}, {"1e300", NULL},
                     {"1000000000000000019884624838656", NULL});
    char text[128];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "{\"k\": %s, \"z\": {\"k\": %s}}", cases[i].text,
                 cases[i].text);
        json_t *root = read_tree(text), *v = json_object_get(root, "k");
        assert_true(json_is_real(v));
        assert_int_equal(json_object_size(root), 2);
        assert_int_equal(jtree_is_number(v), !cases[i].kind);
        assert_string_equal(jtree_kind(v), cases[i].kind ? cases[i].kind : "a number");
        if (cases[i].kind)
            assert_true(json_real_value(v) < -1e307);
        json_decref(root);
    }
    json_t *root = read_tree("{\"k\": 1000000000000000019884624838656, \"a\\u0000b\": 3}");
    assert_float_equal(json_number_value(json_object_get(root, "k")), 1e30, 0);
    assert_int_equal(json_object_size(root), 1);
    json_decref(root);
}

TEST(test_own)
{
    static const char *const odd[] = LIST("9223372036854775808", "1e400", "NaN", "Infinity",
                                          "\"\\u0000\"", "1, \"k\": 1", "1, \"\\u0000\": 1");
    char text[128];
    json_t *root = NULL;

    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        snprintf(text, sizeof text, "{\"z\":\n{\"k\": %s}}", odd[i]);
        assert_ok(jtree_read("f.json", text, (int64_t)strlen(text), &root, &err));
        json_decref(root);
        assert_int_equal(jtree_read_own("f.json", text, (int64_t)strlen(text), &root, &err),
                         -1);
        assert_null(root);
        assert_int_equal(err.line, 2);
        assert_non_null(strstr(err.text, "f.json:2: no valid JSON: expected "));
    }
}

TEST(test_depth)
{
    enum { DEEP = JIN_DEPTH_MAX };
    char *text = mem_new(2 * DEEP + 3, 1);
    json_t *root = NULL;

    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    assert_ok(jtree_read("f", text, 2 * DEEP, &root, &err));
    json_decref(root);
    memset(text, '[', DEEP + 1);
    memset(text + DEEP + 1, ']', DEEP + 1);
    assert_says(jtree_read("f", text, 2 * DEEP + 2, &root, &err), "less depth");
    mem_free(text);
}

TEST(test_broken)
{
    static const char *const broken[] =
        LIST("", "3", "\"a\"", "{", "[1,]", "{\"a\":1,}", "{\"a\" 1}", "[01]", "[1.]", "[.5]",
             "[+1]", "[-]", "[1e]", "[nan]", "[Inf]", "[1] 2", "{a: 1}", "[\"\xff\"]",
             "{\"\xff\": 1}");
    json_t *root = NULL;

    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        if (jtree_read("f", broken[i], (int64_t)strlen(broken[i]), &root, &err) == 0)
            fail_msg("%s is read", broken[i]);
        assert_null(root);
    }
    assert_int_equal(jtree_read("f", "[1\0]", 4, &root, &err), -1);
}
