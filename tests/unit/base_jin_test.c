/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests JSON read bit by bit: what each token is, where it is wrong, and what is passed over.
 */
#include "unit.h"

#include "value/value_json_in.h"

/* The text read has no 0 behind it: a byte too many is seen by the sanitizer. */
static struct jin begin(const char *text, char **copy)
{
    size_t n = strlen(text);

    *copy = mem_new(n ? n : 1, 1);
    memcpy(*copy, text, n);
    return (struct jin){.text = *copy, .bytes = (int64_t)n};
}

TEST(test_example)
{
    char *copy = NULL;
    struct jin j = begin(" {\"a\" : [1, 22],\t\"b\":[ ]\n} ", &copy);
    int n = 0, k = 0;
    int64_t v = 0;

    assert_int_equal(jin_take(&j, '{'), 0);
    assert_int_equal(jin_item(&j, '}', &n), 1);
    assert_int_equal(jin_text(&j) || jin_take(&j, ':') || jin_take(&j, '['), 0);
    assert_string_equal(j.word, "a");
    assert_int_equal(jin_item(&j, ']', &k), 1);
    assert_int_equal(jin_whole(&j, &v), 0);
    assert_int_equal(v, 1);
    assert_int_equal(jin_item(&j, ']', &k), 1);
    assert_int_equal(jin_whole(&j, &v), 0);
    assert_int_equal(v, 22);
    assert_int_equal(jin_item(&j, ']', &k), 0);
    assert_int_equal(jin_item(&j, '}', &n), 1);
    assert_int_equal(jin_text(&j) || jin_take(&j, ':') || jin_skip(&j), 0);
    assert_int_equal(jin_item(&j, '}', &n), 0);
    assert_int_equal(jin_end(&j), 0);
    assert_int_equal(n, 2);
    jin_release(&j);
    mem_free(copy);
}

TEST(test_texts)
{
    static const struct {
        const char *text, *is; /* NULL: */
        const char *wrong;
        int64_t at;
    } cases[] = {
        {"\"\"", "", NULL, 0},
        {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", "a\"\\/\b\f\n\r\tz", NULL, 0},
        {"\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
         NULL, 0},
        {"a", NULL, "a text", 0},
        {"\"a", NULL, "'\"'", 2},
        {"\"a\\", NULL, "an escape", 3},
        {"\"a\\x\"", NULL, "an escape", 3},
        {"\"\\u00g0\"", NULL, "a hexadecimal digit", 5},
        {"\"\\u00", NULL, "a hexadecimal digit", 5},
        {"\"\\ud83d\"", NULL, "the second half of a character", 7},
        {"\"\\ud83d\\u0041\"", NULL, "the second half of a character", 13},
        {"\"\\ude00\"", NULL, "the first half of a character", 7},
        {"\"\xff\"", NULL, "UTF-8", 1},
        {"\"\xe2\x82", NULL, "UTF-8", 1},
        {"\"\xc0\xaf\"", NULL, "UTF-8", 1},
        {"\"\t\"", NULL, "no control character", 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *copy = NULL;
        struct jin j = begin(cases[i].text, &copy);
        assert_int_equal(jin_text(&j), cases[i].is ? 0 : -1);
        if (cases[i].is) {
            assert_string_equal(j.word, cases[i].is);
            assert_int_equal(j.word_bytes, strlen(cases[i].is));
            assert_int_equal(jin_end(&j), 0);
        } else {
            assert_string_equal(j.wrong, cases[i].wrong);
            assert_int_equal(j.at, cases[i].at);
        }
        jin_release(&j);
        mem_free(copy);
    }
}

TEST(test_wholes)
{
    static const struct {
        const char *text;
        int64_t is; /* -1: it is none */
    } cases[] =
        LIST({"0", 0}, {" 9007199254740993", 9007199254740993},
             {"9223372036854775807", INT64_MAX}, {"007", -1}, {"9223372036854775808", -1},
             {"18446744073709551616", -1}, {"-1", -1}, {"-0", -1}, {"+1", -1}, {"1.0", -1},
             {"1e2", -1}, {"", -1}, {"true", -1}, {"\"1\"", -1});

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *copy = NULL;
        struct jin j = begin(cases[i].text, &copy);
        int64_t v = -1;
        assert_int_equal(jin_whole(&j, &v), cases[i].is < 0 ? -1 : 0);
        assert_true(v == cases[i].is);
        mem_free(copy);
    }
}

TEST(test_skip)
{
    static const char *const whole[] =
        LIST("3", "-1.5e+7", "true", "null", "\"a]\"", "[]", "{}", "[1,[2,{\"a\":[]}],\"}\"]",
             "{\"a\":{\"b\":null}}");
    static const char *const broken[] = {"",      "[",     "]",        "[1,]", "{\"a\"}",
                                         "{1:2}", "[1 2]", "{\"a\":}", "nul"};
    enum { DEEP = 100000 };
    char *copy = NULL, *deep = mem_new(DEEP + 1, 1);

    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        struct jin j = begin(whole[i], &copy);
        assert_int_equal(jin_skip(&j) || jin_end(&j), 0);
        jin_release(&j);
        mem_free(copy);
    }
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct jin j = begin(broken[i], &copy);
        assert_int_equal(jin_skip(&j), -1);
        assert_non_null(j.wrong);
        jin_release(&j);
        mem_free(copy);
    }
    memset(deep, '[', DEEP); /* no deep stack */
    struct jin j = {.text = deep, .bytes = DEEP};
    assert_int_equal(jin_skip(&j), -1);
    assert_string_equal(j.wrong, "less depth");
    mem_free(deep);
}
