/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the drawing of a run's numbers: means are means, and every log is a picture. */
#include "unit.h"

#include "temp_fixture.h"
#include "train/train.h"
#include "xml_fixture.h"

static void put_step(FILE *f, int step, const char *loss, const char *more)
{
    fprintf(f,
            "{\"step\":%d,\"loss\":%s,\"step_s\":0.5,\"tokens_per_s\":100,\"compute_s\":0.25,"
            "\"exposed_comm_s\":0.25,\"slow_bytes\":0,\"fast_bytes\":0,\"state_bytes\":9%s}\n",
            step, loss, more);
}

/* The picture of a log of `steps` steps, of one loss or as loss[] says; owned by the caller. */
static char *plot_losses(int steps, const char *loss, const double *losses, const char *more)
{
    /* The file's name is in the picture, where random letters may spell "nan". */
    char dir[TEMP_PATH], path[TEMP_PATH + 8], number[32], *text = NULL;
    size_t bytes = 0;
    temp_folder(dir, "paro-plot");
    snprintf(path, sizeof path, "%s/steps", dir);
    FILE *log = fopen(path, "w"), *out = open_memstream(&text, &bytes);
    err = (struct err){0};

    assert_non_null(log);
    for (int i = 1; i <= steps; i++) {
        if (losses)
            snprintf(number, sizeof number, isfinite(losses[i - 1]) ? "%.17g" : "null",
                     losses[i - 1]);
        put_step(log, i, losses ? number : loss, more);
    }
    fclose(log);
    const char *logs[] = {path};
    int rc = train_plot(logs, 1, out, &err);
    fclose(out);
    assert_ok(rc || io_remove_tree(dir, &err));
    return text;
}

static char *plot(int steps, const char *loss, const char *more)
{
    return plot_losses(steps, loss, NULL, more);
}

/* The y of the points of the next polyline at *at, into y[]; returns how many. */
static int read_line(const char **at, double *y)
{
    int n = 0;

    *at = strstr(*at, "<polyline points=\"") + strlen("<polyline points=\"");
    for (char *end; **at != '"'; n++) {
        strtod(*at, &end);
        y[n] = strtod(end + 1, &end);
        *at = end + (*end == ' ');
    }
    return n;
}

/* 200 steps with a gap: the mean of the 5 losses around each, of those that there are. */
TEST(means_are_of_what_there_is_on_either_side)
{
    enum { STEPS = 200, GAP = 50, HALF = 2 };
    double loss[STEPS], raw[STEPS], mean[STEPS];

    for (int i = 0; i < STEPS; i++)
        loss[i] = i == GAP ? NAN : 3 + sin(i * 1.7);
    char *text = plot_losses(STEPS, NULL, loss, "");
    const char *at = text;
    for (int k = 0; k < 2; k++) {
        double *y = k ? mean : raw;
        assert_int_equal(read_line(&at, y), GAP);
        assert_int_equal(read_line(&at, y + GAP + 1), STEPS - GAP - 1);
    }
    /* The axis is linear: its scale from two raw points far apart; two decimals of a pixel. */
    double scale = (raw[3] - raw[2]) / (loss[3] - loss[2]), zero = raw[2] - scale * loss[2];
    for (int i = 0; i < STEPS; i++) {
        double sum = 0, count = 0;
        for (int k = i - HALF; k <= i + HALF; k++)
            if (k >= 0 && k < STEPS && k != GAP) {
                sum += loss[k];
                count++;
            }
        assert_true(i == GAP || fabs(zero + scale * sum / count - mean[i]) < 0.05);
    }
    free(text);
}

/* Whatever the numbers: well-formed, and no coordinate that is none. */
TEST(any_log_is_a_picture)
{
    static const char *const losses[] = {"null", "5.5", "0", "-3", "1e308", "1e-300"};
    static const char *const mores[] = {"", ",\"skipped\":true", ",\"eval_loss\":2.5",
                                        ",\"eval_loss\":null"};
    static const int steps[] = {1, 2, 99, 100, 3000};

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
