/* SPDX-License-Identifier: BSD-3-Clause */
/* What of a run's numbers is drawn: thinned lines lose no extreme, means are means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/train_plot.h"
#include "temp_fixture.h"
#include "xml_fixture.h"

enum { N = 20000, PIXELS = 900 };

static double x[N], y[N], thin_y[N];
static int keep[N];

static void wave(int with_gaps)
{
    for (int i = 0; i < N; i++) {
        x[i] = i + 1;
        y[i] = sin(i * 0.01) + 0.2 * sin(i * 1.7);
        if (with_gaps && i % 777 < 3)
            y[i] = NAN;
    }
    y[12344] = 99;
    y[5] = -99;
}

static double least_of(const double *v, const int *index, int n)
{
    double least = INFINITY;

    for (int i = 0; i < n; i++)
        least = fmin(least, v[index ? index[i] : i]);
    return least;
}

/* Of every pixel: the extremes, the ends, a gap where one was, and no more than five points. */
static void thinned_lines_keep_what_is_seen(void **state)
{
    double width = (double)N / PIXELS;

    (void)state;
    for (int gaps = 0; gaps < 2; gaps++) {
        wave(gaps);
        int n = train_plot_thin(x, y, N, width, keep);
        assert_in_range(n, PIXELS, 5 * (PIXELS + 1));
        for (int i = 1; i < n; i++)
            assert_true(keep[i] > keep[i - 1]);
        assert_int_equal(keep[0], 0);
        assert_int_equal(keep[n - 1], N - 1);
        for (int lo = 0, at = 0, to; lo < N; lo = to) {
            int from = at, none = 0, kept_none = 0;
            double pixel = floor((x[lo] - x[0]) / width), most[2] = {-INFINITY, -INFINITY};
            for (to = lo; to < N && floor((x[to] - x[0]) / width) == pixel; to++) {
                none |= isnan(y[to]);
                most[0] = fmax(most[0], y[to]);
            }
            for (; at < n && keep[at] < to; at++) {
                kept_none |= isnan(y[keep[at]]);
                most[1] = fmax(most[1], y[keep[at]]);
            }
            assert_in_range(at - from, 1, 5);
            assert_int_equal(none, kept_none);
            assert_true(most[0] == most[1]);
            assert_true(least_of(y + lo, NULL, to - lo) == least_of(y, keep + from, at - from));
        }
    }
}

static void short_rows_are_whole(void **state)
{
    double few[] = {3, 1, NAN, 2}, at[] = {1, 2, 3, 900};

    (void)state;
    assert_int_equal(train_plot_thin(at, few, 4, 1, keep), 4);
    assert_int_equal(train_plot_thin(at, few, 1, 1, keep), 1);
    assert_int_equal(train_plot_thin(at, few, 0, 1, keep), 0);
}

static void means_are_of_what_there_is_on_either_side(void **state)
{
    double v[] = {1, 2, 4, 8, NAN, 32, 64};

    (void)state;
    assert_true(train_plot_mean(v, 7, 0, 2) == 7.0 / 3);
    assert_true(train_plot_mean(v, 7, 1, 2) == 15.0 / 4);
    assert_true(train_plot_mean(v, 7, 2, 2) == 15.0 / 4); /* NAN is none of them */
    assert_true(train_plot_mean(v, 7, 3, 1) == 6);
    assert_true(isnan(train_plot_mean(v, 7, 4, 2)));
    assert_true(train_plot_mean(v, 7, 6, 2) == 48);
    assert_true(train_plot_mean(v, 7, 5, 1) == 48);
    assert_true(train_plot_mean(v, 1, 0, 9) == 1);
    for (int i = 0; i < 7; i++) /* 0: as it is */
        thin_y[i] = train_plot_mean(v, 7, i, 0);
    assert_memory_equal(thin_y, v, 4 * sizeof *v);
}

static void put_step(FILE *f, int step, const char *loss, const char *more)
{
    fprintf(f,
            "{\"step\":%d,\"loss\":%s,\"step_s\":0.5,\"tokens_per_s\":100,\"compute_s\":0.25,"
            "\"exposed_comm_s\":0.25,\"slow_bytes\":0,\"fast_bytes\":0,\"state_bytes\":9%s}\n",
            step, loss, more);
}

/* The picture of a log of `steps` steps; owned by the caller. */
static char *plot(int steps, const char *loss, const char *more)
{
    /* The file's name is in the picture, where random letters may spell "nan". */
    char dir[TEMP_PATH], path[TEMP_PATH + 8], *text = NULL;
    size_t bytes = 0;
    temp_folder(dir, "paro-plot");
    snprintf(path, sizeof path, "%s/steps", dir);
    FILE *log = fopen(path, "w"), *out = open_memstream(&text, &bytes);
    struct err err = {0};

    assert_non_null(log);
    for (int i = 1; i <= steps; i++)
        put_step(log, i, loss, more);
    fclose(log);
    const char *logs[] = {path};
    int rc = train_plot(logs, 1, out, &err);
    fclose(out);
    if (rc || io_remove_tree(dir, &err))
        fail_msg("%s", err.text);
    return text;
}

/* Whatever the numbers: well-formed, and no coordinate that is none. */
static void any_log_is_a_picture(void **state)
{
    static const char *const losses[] = {"null", "5.5", "0", "-3", "1e308", "1e-300"};
    static const char *const mores[] = {"", ",\"skipped\":true", ",\"eval_loss\":2.5",
                                        ",\"eval_loss\":null"};
    static const int steps[] = {1, 2, 99, 100, 3000};

    (void)state;
    for (int s = 0; s < 5; s++)
        for (int l = 0; l < 6; l++)
            for (int m = 0; m < 4; m++) {
                char *text = plot(steps[s], losses[l], mores[m]);
                assert_true(xml_elements(text) > 20);
                assert_null(strstr(text, "nan"));
                assert_null(strstr(text, "inf"));
                assert_true(!strstr(text, "skipped") == (m != 1));
                assert_true(!strstr(text, "validation") == (m != 2));
                assert_true(!strstr(text, "the mean of") == (steps[s] < 100));
                free(text);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thinned_lines_keep_what_is_seen),
        cmocka_unit_test(short_rows_are_whole),
        cmocka_unit_test(means_are_of_what_there_is_on_either_side),
        cmocka_unit_test(any_log_is_a_picture),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
