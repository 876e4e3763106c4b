/* SPDX-License-Identifier: BSD-3-Clause */
/* The plot of a benchmark: two panels an operation, a line an algorithm, any number of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "schedule/schedule.h"
#include "xml_fixture.h"

static const unsigned ops[] = {SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER,
                               SCHEDULE_ALL_REDUCE};
enum { ALGOS = 3, ROWS_MAX = 3 * ALGOS * 16 };

static void set_time(struct bench_row *r, double seconds)
{
    for (int m = 0; m < BENCH_MARKS; m++)
        r->time_s[m] = seconds;
}

static struct bench_row make_row(unsigned op, int algo, int64_t bytes)
{
    struct bench_row r = {.op = op,
                          .algo = algo,
                          .chosen = SCHEDULE_AUTO,
                          .shape = "2x4",
                          .ranks = 8,
                          .bytes = bytes};

    r.limit_s = (double)bytes / 60e6;
    r.load = 0.25;
    set_time(&r, 1e-4 * (algo + 1) + r.limit_s);
    return r;
}

/* All algorithms and `sizes` sizes of n operations. */
static int make_rows(struct bench_row *rows, int n, int sizes)
{
    int at = 0;

    for (int o = 0; o < n; o++)
        for (int s = 0; s < sizes; s++)
            for (int a = 0; a < ALGOS; a++)
                rows[at++] = make_row(ops[o], a, INT64_C(4096) << s);
    return at;
}

/* Well-formed text; owned by the caller. */
static char *plot(const struct bench_row *rows, int n)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);

    bench_plot(rows, n, "a <title>", f);
    fclose(f);
    if (xml_elements(text) < 0)
        fail_msg("not well-formed:\n%s", text);
    assert_non_null(strstr(text, "a &lt;title&gt;"));
    assert_null(strstr(text, "\"nan\""));
    assert_null(strstr(text, "\"inf\""));
    return text;
}

static int count(const char *text, const char *what)
{
    int n = 0;

    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

static void a_line_per_algorithm_and_the_bound(void **state)
{
    struct bench_row rows[ROWS_MAX] = {0};

    (void)state;
    for (int n = 1; n <= 3; n++) {
        char *text = plot(rows, make_rows(rows, n, 15));
        assert_int_equal(count(text, "class=\"chart\""), 2 * n);
        assert_int_equal(count(text, "<polyline"), 2 * n * (ALGOS + 1));
        /* of each panel, and of the legend */
        assert_int_equal(count(text, "stroke-dasharray"), 2 * n + 1);
        assert_int_equal(count(text, ">cut bound</text>"), 1);
        for (int a = 0; a < ALGOS; a++) {
            char name[64];
            snprintf(name, sizeof name, ">%s</text>", bench_algo_name(a));
            assert_int_equal(count(text, name), 1);
        }
        assert_non_null(strstr(text, "2x4"));
        assert_non_null(strstr(text, "8 ranks"));
        assert_non_null(strstr(text, "0.2"));
        assert_int_equal(count(text, ">all-gather: time<"), 1);
        free(text);
    }
}

static void order_of_rows_does_not_matter_to_lines(void **state)
{
    struct bench_row rows[ROWS_MAX], turned[ROWS_MAX];
    int n = make_rows(rows, 1, 15);

    (void)state;
    for (int i = 0; i < n; i++) /* sizes from large to small, algorithms as they were */
        turned[i] = rows[(n / ALGOS - 1 - i / ALGOS) * ALGOS + i % ALGOS];
    char *a = plot(rows, n), *b = plot(turned, n);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

static void one_size_is_a_picture(void **state)
{
    struct bench_row rows[ROWS_MAX] = {0};
    int n = make_rows(rows, 1, 1);

    (void)state;
    char *text = plot(rows, n);
    assert_int_equal(count(text, "<polyline"), 0);
    assert_int_equal(count(text, "of the cut bound</title>"), 2 * ALGOS);
    assert_int_equal(count(text, "stroke-dasharray"), 3);
    assert_non_null(strstr(text, ">4 KiB<"));
    free(text);
}

static void rows_without_numbers(void **state)
{
    static const double bad[] = {NAN, INFINITY, 0, -1};
    struct bench_row rows[ROWS_MAX] = {0};

    (void)state;
    char *text = plot(rows, 0);
    assert_int_equal(count(text, "class=\"chart\""), 0);
    free(text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int n = make_rows(rows, 1, 3);
        set_time(&rows[4], bad[i]); /* one point is missing, its line goes on without it */
        rows[0].load = NAN;
        text = plot(rows, n);
        assert_int_equal(count(text, "of the cut bound</title>"), 2 * (n - 1));
        assert_int_equal(count(text, "<polyline"), 2 * (ALGOS + 1));
        free(text);
        for (int k = 0; k < n; k++)
            rows[k].limit_s = bad[i];
        text = plot(rows, n);
        assert_int_equal(count(text, "cut bound"), 0);
        free(text);
    }
}

/* busbw 0: all of it lies on the axis. */
static void one_rank(void **state)
{
    struct bench_row row = make_row(SCHEDULE_ALL_GATHER, 0, 1 << 20);

    (void)state;
    row.ranks = 1;
    row.limit_s = NAN;
    char *text = plot(&row, 1);
    assert_non_null(strstr(text, "1 rank"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_per_algorithm_and_the_bound),
        cmocka_unit_test(order_of_rows_does_not_matter_to_lines),
        cmocka_unit_test(one_size_is_a_picture),
        cmocka_unit_test(rows_without_numbers),
        cmocka_unit_test(one_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
