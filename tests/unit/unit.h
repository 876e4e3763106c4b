/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

/*
 * Every program of unit tests includes this first: cmocka with what it needs, and main, which
 * runs the tests in the order of the file.
 *
 *     TEST(sums_are_exact)
 *     {
 *         assert_int_equal(sum(1, 2), 3);
 *     }
 */
#include "plain_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct {
    struct CMUnitTest test[64];
    int line[64];
    size_t count;
    CMFixtureFunction before, after;
} unit_tests;

/* Constructors run in any order. */
static inline void unit_add(int line, struct CMUnitTest test)
{
    size_t i = unit_tests.count++;

    for (; i > 0 && unit_tests.line[i - 1] > line; i--) {
        unit_tests.test[i] = unit_tests.test[i - 1];
        unit_tests.line[i] = unit_tests.line[i - 1];
    }
    unit_tests.test[i] = test;
    unit_tests.line[i] = line;
}

/* Before each test. */
static inline void unit_begin(void)
{
    err = (struct err){0};
}

/* A test with its own set-up and tear-down, functions of cmocka or NULL; `state` is theirs. */
#define UNIT_TEST(name, before, after)                                                         \
    static void name##_body(void **state);                                                     \
    static void name(void **state)                                                             \
    {                                                                                          \
        unit_begin();                                                                          \
        name##_body(state);                                                                    \
    }                                                                                          \
    static __attribute__((constructor)) void name##_is_a_test(void)                            \
    {                                                                                          \
        unit_add(__LINE__, (struct CMUnitTest){#name, name, before, after, NULL});             \
    }                                                                                          \
    static void name##_body(void **state __attribute__((unused)))

#define TEST(name) UNIT_TEST(name, NULL, NULL)

/* BEFORE_TESTS { ... } runs before main. */
#define BEFORE_TESTS static __attribute__((constructor)) void before_tests(void)

/* cmocka's set-up before the first test, and tear-down after the last. */
#define UNIT_GROUP(setup, teardown)                                                            \
    static __attribute__((constructor)) void unit_group(void)                                  \
    {                                                                                          \
        unit_tests.before = setup;                                                             \
        unit_tests.after = teardown;                                                           \
    }                                                                                          \
    struct unit_group_is_one

/* Calls that set err: all is well, or it is an error of that kind, or one that says so. */
#define assert_ok(call)                                                                        \
    do {                                                                                       \
        if (call)                                                                              \
            fail_msg("%s", err.text);                                                          \
    } while (0)
#define assert_error(call, kind)                                                               \
    do {                                                                                       \
        err = (struct err){0};                                                                 \
        assert_int_equal(call, -1);                                                            \
        assert_int_equal(err.code, kind);                                                      \
    } while (0)
#define assert_says(call, part)                                                                \
    do {                                                                                       \
        err = (struct err){0};                                                                 \
        assert_int_equal(call, -1);                                                            \
        if (!strstr(err.text, part))                                                           \
            fail_msg("no '%s' in: %s", part, err.text);                                        \
    } while (0)

/* How often a text has a word. */
static inline int unit_count(const char *text, const char *word)
{
    int n = 0;

    for (const char *p = text; (p = strstr(p, word)); p += strlen(word))
        n++;
    return n;
}

static struct {
    char *text;
    size_t bytes;
} unit_written;

/* A stream, one at a time, and what was written to it, which is the caller's to free(). */
static inline FILE *unit_stream(void)
{
    FILE *f = open_memstream(&unit_written.text, &unit_written.bytes);

    assert_non_null(f);
    return f;
}

static inline char *unit_text(FILE *f)
{
    fclose(f);
    return unit_written.text;
}

int main(void)
{
    return _cmocka_run_group_tests("unit", unit_tests.test, unit_tests.count, unit_tests.before,
                                   unit_tests.after);
}

#endif
