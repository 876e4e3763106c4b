/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws runs: three panels over one axis of steps, a colour a run.
 *
 *     loss        pale: every step; over it the mean of some steps; o validation; v skipped
 *     tokens/s
 *     exposed     of the step
 *                 step
 */

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/run_folder.h"
#include "draw/draw_figure.h"
#include "plan/plan_log.h"
#include "train/train.h"

enum {
    PANELS = 3,
    SMOOTH_FROM = 100, /* steps; means then cover a hundredth on either side */
    PIXELS = 910,      /* length of a panel's axis */
    MARK_PIXELS = 8    /* distance between marks of skipped steps */
};
enum { VALIDATION_MARKER = 0, SKIPPED_MARKER = 4 };

struct run {
    struct plan_log log;
    char *name; /* owned */
    int skipped, validated;
};

struct picture {
    struct run run[TRAIN_PLOT_RUNS];
    const char *name[TRAIN_PLOT_RUNS]; /* runs with equal names: the paths as given */
    int runs, half;                    /* half: steps on either side in a mean; 0: no means */
    double lo, hi, pixel;              /* the axis of steps */
    struct svg_figure figure;
};

/* The folder's name if the log is called log.jsonl, else the file's own. */
static char *plot_name_of(const char *path)
{
    char *whole = realpath(path, NULL), *base = whole ? strrchr(whole, '/') : NULL, *name;

    if (!base) { /* the path does not exist any more: use it as given */
        name = mem_dup(path);
    } else if (strcmp(base, "/log.jsonl")) {
        name = mem_dup(base + 1);
    } else {
        *base = '\0';
        base = strrchr(whole, '/');
        name = mem_dup(base && base[1] ? base + 1 : path);
    }
    free(whole);
    return name;
}

static int read_run(struct run *r, const char *log, struct err *err)
{
    char *path = NULL;

    if (run_folder_log(log, &path, err))
        return -1;
    int rc = plan_log_read(&r->log, path, err);
    if (rc == 0 && r->log.steps == 0)
        rc = err_set(err, ERR_INPUT, "log '%s' has no step", path);
    if (rc == 0)
        r->name = plot_name_of(path);
    mem_free(path);
    return rc;
}

static const char *percent(struct units *u, double v)
{
    snprintf(u->text, sizeof u->text, "%.4g %%", 100 * v);
    return u->text;
}

static void measure_axis(struct picture *p)
{
    int most = 0;

    p->lo = INFINITY;
    p->hi = -INFINITY;
    for (int i = 0; i < p->runs; i++) {
        struct run *r = &p->run[i];
        const struct plan_log *l = &r->log;
        p->lo = fmin(p->lo, l->v[PLAN_STEP][0]);
        p->hi = fmax(p->hi, l->v[PLAN_STEP][l->steps - 1]);
        most = l->steps > most ? l->steps : most;
        for (int k = 0; k < l->steps; k++) {
            r->skipped += l->skipped[k] != 0;
            r->validated += isfinite(l->v[PLAN_EVAL_LOSS][k]) != 0;
        }
    }
    double space = fmax(0.01 * (p->hi - p->lo), 0.5);
    p->lo = fmax(0, p->lo - space);
    p->hi = fmax(p->hi + space, p->lo + 10); /* ticks at whole steps */
    p->pixel = (p->hi - p->lo) / PIXELS;
    p->half = most >= SMOOTH_FROM ? most / SMOOTH_FROM : 0;
}

static double plot_value_of(const struct plan_log *l, int panel, int step)
{
    return panel == 0   ? l->v[PLAN_LOSS][step]
           : panel == 1 ? l->v[PLAN_TOKENS_PER_S][step]
                        : l->v[PLAN_EXPOSED_S][step] / l->v[PLAN_STEP_S][step];
}

/* Mean of the numbers from `half` steps before to `half` after; NAN if step i has none. */
static double mean_of(const struct plan_log *l, int panel, int i, int half)
{
    double sum = 0;
    int count = 0;

    for (int k = i - half; k <= i + half; k++)
        if (k >= 0 && k < l->steps && isfinite(plot_value_of(l, panel, k))) {
            sum += plot_value_of(l, panel, k);
            count++;
        }
    return isfinite(plot_value_of(l, panel, i)) ? sum / count : NAN;
}

/* Draws every step, and one mean a pixel, at the middle of its steps. */
static void train_plot_add_lines(struct picture *p, int run, int panel, const char *name)
{
    const struct plan_log *l = &p->run[run].log;
    const double *x = l->v[PLAN_STEP];
    struct svg_series style = {.colour = run, .marker = -1, .faint = p->half > 0};

    svg_figure_line(&p->figure, name, style);
    for (int i = 0; i < l->steps; i++)
        svg_figure_point(&p->figure, x[i], plot_value_of(l, panel, i), NULL);
    if (!p->half)
        return;
    style.faint = 0;
    svg_figure_line(&p->figure, name, style);
    for (int lo = 0, hi; lo < l->steps; lo = hi) {
        for (hi = lo + 1; hi < l->steps && x[hi] - x[lo] < p->pixel;)
            hi++;
        int at = lo + (hi - lo) / 2;
        svg_figure_point(&p->figure, x[at], mean_of(l, panel, at, p->half), NULL);
    }
}

/* Marks skipped steps at the last loss that was a number, some pixels apart. */
static void add_marks(struct picture *p, int run, const char *name)
{
    const struct plan_log *l = &p->run[run].log;
    const double *x = l->v[PLAN_STEP], *loss = l->v[PLAN_LOSS], *eval = l->v[PLAN_EVAL_LOSS];
    struct svg_series style = {.colour = run, .marker = VALIDATION_MARKER};
    double last = NAN, marked = -INFINITY;

    svg_figure_line(&p->figure, name, style);
    for (int i = 0; i < l->steps; i++)
        if (isfinite(eval[i]))
            svg_figure_point(&p->figure, x[i], eval[i], NULL);
    style.marker = SKIPPED_MARKER;
    svg_figure_line(&p->figure, name, style);
    for (int i = 0; i < l->steps; i++) {
        last = isfinite(loss[i]) ? loss[i] : last;
        if (!l->skipped[i] || x[i] - marked < MARK_PIXELS * p->pixel)
            continue;
        marked = x[i];
        svg_figure_point(&p->figure, x[i], last, NULL);
        svg_figure_point(&p->figure, x[i], NAN, NULL); /* interrupts the line between marks */
    }
}

static void add_panel(struct picture *p, int panel)
{
    static const char *const titles[PANELS] = {"loss", "tokens/s",
                                               "exposed communication, of the step"};
    const struct svg_axis x = {.name = panel == PANELS - 1 ? "step" : NULL,
                               .unit = units_whole,
                               .lo = p->lo,
                               .hi = p->hi};
    const struct svg_axis y[PANELS] = {
        {.name = "nats a token", .unit = units_plain, .tight = 1, .choose = 1},
        {.name = "all ranks", .unit = units_count},
        {.name = "of rank 0", .unit = percent}};
    struct svg_series grey = {.colour = -1, .marker = VALIDATION_MARKER};
    int skipped = 0, validated = 0;

    svg_figure_chart(&p->figure, titles[panel], x, y[panel], panel == 0 ? 330 : 210);
    for (int i = 0; i < p->runs; i++) {
        const struct run *r = &p->run[i];
        char name[320];
        int n = snprintf(name, sizeof name, "%.200s, %d step%s", p->name[i], r->log.steps,
                         r->log.steps == 1 ? "" : "s");
        if (r->skipped)
            snprintf(name + n, sizeof name - (size_t)n, ", %d skipped", r->skipped);
        skipped |= r->skipped;
        validated |= r->validated;
        train_plot_add_lines(p, i, panel, name);
        if (panel == 0)
            add_marks(p, i, name);
    }
    if (validated)
        svg_figure_line(&p->figure, "validation loss", grey);
    grey.marker = SKIPPED_MARKER;
    if (skipped)
        svg_figure_line(&p->figure, "skipped: the gradient was not finite", grey);
}

int train_plot(const char *const *logs, int count, FILE *out, struct err *err)
{
    int rc = 0;

    assert(count > 0);
    if (count > TRAIN_PLOT_RUNS)
        return err_set(err, ERR_INPUT, "%d logs, expected at most %d", count, TRAIN_PLOT_RUNS);
    struct picture *p = mem_new(1, sizeof *p);
    struct svg_figure *f = &p->figure;
    for (; rc == 0 && p->runs < count; p->runs++)
        rc = read_run(&p->run[p->runs], logs[p->runs], err);
    if (rc == 0) {
        for (int i = 0; i < count; i++) {
            p->name[i] = p->run[i].name;
            for (int k = 0; k < count; k++)
                if (k != i && strcmp(p->run[i].name, p->run[k].name) == 0)
                    p->name[i] = logs[i];
        }
        measure_axis(p);
        snprintf(f->title, sizeof f->title, count == 1 ? "Training: %.250s" : "Training",
                 p->name[0]);
        snprintf(f->note, sizeof f->note,
                 p->half ? "lines: the mean of the %d steps around each; pale: every step"
                         : "lines: every step",
                 2 * p->half + 1);
        for (int panel = 0; panel < PANELS; panel++)
            add_panel(p, panel);
        svg_figure_draw(f, out);
        svg_figure_release(f);
    }
    for (int i = 0; i < p->runs; i++) {
        mem_free(p->run[i].name);
        plan_log_release(&p->run[i].log);
    }
    mem_free(p);
    return rc;
}
