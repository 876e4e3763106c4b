/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests trees of JSON that other programs wrote: an odd value decides only where it is used. */
#include "value/value_json_in.h"
#include "value/value_tree.h"
#include "unit.h"

static struct tree read_loose(const char *text)
{
    struct tree t;

    if (tree_parse_loose(&t, "f.json", 1, text, (int64_t)strlen(text), &err))
        fail_msg("%s: %s", text, err.text);
    return t;
}

TEST(test_values)
{
    struct tree a = read_loose("{\"a\": [1, -2.5e1, true, false, null, \"\\u00e4\\n\"], "
                               "\"b\": {}, \"c\": -0, \"d\": 9223372036854775807}");
    struct tree b =
        read_loose("{\"c\": 0, \"a\": [1.0, -25, true, false, null, \"\xc3\xa4\\n\"],"
                   "\"d\": 9223372036854775807, \"b\": {}}");
    static const char *const others[] =
        LIST("{}", "{\"a\": [1]}",
             "{\"c\": 0, \"a\": [1.0, -25, true, false, null, \"\"],"
             "\"d\": 9223372036854775807, \"b\": {}}");
    int64_t whole = 0;
    double real = 0;

    assert_true(tree_equal(a.root, b.root) && tree_equal(b.root, a.root));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct tree other = read_loose(others[i]);
        assert_false(tree_equal(a.root, other.root) || tree_equal(other.root, a.root));
        tree_release(&other);
    }
    assert_true(tree_is_whole(tree_get(a.root, "d"), &whole) && whole == INT64_MAX);
    const struct tree_node *list = tree_get(a.root, "a"), *v = list->child;
    assert_int_equal(tree_count(list, TREE_LIST), 6);
    assert_int_equal(tree_count(list, TREE_MAP), 0);
    assert_null(tree_first(list, TREE_MAP));
    assert_true(tree_is_whole(v, &whole) && whole == 1 && tree_is_number(v, &real) &&
                real == 1);
    v = v->next;
    assert_true(!tree_is_whole(v, &whole) && tree_is_number(v, &real) && real == -25);
    v = v->next;
    assert_true(tree_is(v, "true") && tree_is_bool(v) && !tree_is_number(v, &real));
    assert_true(tree_is(v->next, "false") && tree_is_bool(v->next) && !tree_string(v));
    assert_string_equal(tree_string(list->last), "\xc3\xa4\n");
    assert_null(tree_get(list, "a"));
    tree_release(&a);
    tree_release(&b);
}

/* A member that is absent or of another kind is none of the values that may be asked for. */
TEST(test_absent)
{
    struct tree t = read_loose("{\"n\": null, \"t\": \"true\", \"w\": \"1\"}");
    int64_t whole = 7;
    double real = 7;

    assert_null(tree_get(t.root, "n"));
    assert_int_equal(tree_find(t.root, "n")->kind, TREE_NULL);
    assert_null(tree_find(t.root, "x"));
    assert_null(tree_string(NULL));
    assert_false(tree_is_bool(NULL) || tree_is_bool(tree_get(t.root, "t")));
    assert_false(tree_is_whole(tree_get(t.root, "w"), &whole) || tree_is_whole(NULL, &whole) ||
                 tree_is_number(tree_get(t.root, "w"), &real) || tree_is_number(NULL, &real));
    assert_true(whole == 7 && real == 7 && tree_count(NULL, TREE_MAP) == 0);
    tree_release(&t);
}

/* A request for a number, a text or a list gets none. */
TEST(test_odd)
{
    static const struct {
        const char *text, *odd; /* NULL: a number */
    } cases[] = LIST({"1e400", "beyond 1e308"}, {"-1e400", "beyond 1e308"}, {"NaN", "NaN"},
                     {"Infinity", "beyond 1e308"}, {"-Infinity", "beyond 1e308"},
                     {"\"a\\u0000b\"", "a text with a 0 byte"}, {"1, \"k\": 1", "given twice"},
                     {"1, \"k\": [], \"k\": {}", "given twice"}, {"1e300", NULL},
                     {"1000000000000000019884624838656", NULL});
    char text[128];
    double d;
    int64_t whole;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "{\"a\": 1,\n \"k\": %s, \"z\": {\"k\": %s}}",
                 cases[i].text, cases[i].text);
        struct tree t = read_loose(text);
        const struct tree_node *v = tree_get(t.root, "k");
        assert_int_equal(tree_is_number(v, &d), !cases[i].odd);
        assert_false(tree_is_whole(v, &whole) || tree_string(v) || v->child);
        if (cases[i].odd) {
            assert_string_equal(tree_shown(&t, v), cases[i].odd);
            assert_says(tree_f64(&t, v, 0, 1, &d, &err), cases[i].odd);
            assert_int_equal(err.line, 2);
            assert_says(tree_no_real(&t, "a x k", &err), cases[i].odd);
        }
        assert_ok(tree_no_real(&t, "a x z", &err));
        tree_release(&t);
    }
    struct tree t = read_loose("{\"k\": 1000000000000000019884624838656, \"a\\u0000b\": [3]}");
    assert_true(tree_is_number(tree_get(t.root, "k"), &d) && d == 1e30);
    assert_int_equal(t.root->items, 1);
    assert_says(tree_no_real(&t, "k", &err), "text or a whole number");
    tree_release(&t);
}

/* Strictly, none of it is JSON; a key that is given twice is found where keys are known. */
TEST(test_strict)
{
    static const char *const odd[] =
        LIST("NaN", "Infinity", "-Infinity", "\"\\u0000\"", "1, \"\\u0000\": 1");
    char text[128];
    struct tree t;

    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        snprintf(text, sizeof text, "{\"z\":\n{\"k\": %s}}", odd[i]);
        t = read_loose(text);
        tree_release(&t);
        assert_says(tree_parse_json(&t, "f.json", 1, text, (int64_t)strlen(text), &err),
                    "f.json:2: is not JSON: expected ");
    }
}

/* Members in any order and number are found. */
TEST(test_many)
{
    enum { MANY = 5000 };
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = mem_stream(&text, &bytes);
    int64_t whole = 0;
    struct tree t;

    for (int i = 0; i < MANY; i++)
        fprintf(f, "%c\"%d\": %d", i ? ',' : '{', i * 7 % MANY, i);
    fputs(", \"7\": 1}", f);
    fclose(f);
    assert_ok(tree_parse_loose(&t, "f", 1, text, (int64_t)bytes, &err));
    for (int i = 0; i < MANY; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i * 7 % MANY);
        assert_int_equal(tree_is_whole(tree_get(t.root, key), &whole), i != 1);
        assert_true(i == 1 || whole == i);
    }
    assert_null(tree_get(t.root, "5000"));
    tree_release(&t);
    mem_free(text);
}

TEST(test_depth)
{
    enum { DEEP = JIN_DEPTH_MAX };
    char *text = mem_new(2 * DEEP + 3, 1);
    struct tree t;

    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    assert_ok(tree_parse_loose(&t, "f", 1, text, 2 * DEEP, &err));
    tree_release(&t);
    memset(text, '[', DEEP + 1);
    memset(text + DEEP + 1, ']', DEEP + 1);
    assert_says(tree_parse_loose(&t, "f", 1, text, 2 * DEEP + 2, &err), "less depth");
    mem_free(text);
}

TEST(test_broken)
{
    static const char *const broken[] =
        LIST("", "{", "[1,]", "{\"a\":1,}", "{\"a\" 1}", "[01]", "[1.]", "[.5]", "[+1]", "[-]",
             "[1e]", "[nan]", "[Inf]", "[1] 2", "{a: 1}", "[\"\xff\"]", "{\"\xff\": 1}");
    struct tree t;

    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        if (tree_parse_loose(&t, "f", 1, broken[i], (int64_t)strlen(broken[i]), &err) == 0)
            fail_msg("%s is read", broken[i]);
    assert_int_equal(tree_parse_loose(&t, "f", 1, "[1\0]", 4, &err), -1);
}
