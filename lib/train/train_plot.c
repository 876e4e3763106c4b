/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the picture of runs: three panels over one axis of steps, a colour a run.
 *
 *     title
 *     what the lines are
 *     --- run a, 400 steps   --- run b, 380 steps, 2 skipped
 *     loss        pale: every step; over it the mean of some steps; o validation; v skipped
 *     tokens/s
 *     exposed     of the step
 *                 step
 */
#include "train/train_plot.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/run_folder.h"
#include "base/svg_chart.h"
#include "plan/log.h"

enum {
    PANELS = 3,
    LINES = 5,        /* of a run in a panel: pale, bold, lone points, validation, skipped */
    SMOOTH_FROM = 100 /* steps; their hundredth on either side is a mean's */
};
enum { VALIDATION_MARKER = 0, LONE_MARKER = 0, SKIPPED_MARKER = 4 };

static const double WIDTH = 1040, MARGIN = 20, HIGH[PANELS] = {330, 210, 210};
static const double PLOT_WIDE = 910; /* of WIDTH, less margins and the room for names */
static const double HEAD = 66, GAP = 10, MARK_WIDE = 8;
/* A greatest loss so many times the least: on a linear axis the rest would be one line. */
static const double LOG_FROM = 30;

struct line {
    double *x, *y; /* [n], owned */
    int n;
};

struct run {
    struct plan_log log;
    char *name;        /* owned */
    char legend[320];  /* of the longest name of a file, and numbers */
    double *y[PANELS]; /* [log.steps]; y[0] is the log's own */
    struct line line[PANELS][LINES];
    int skipped;
};

struct picture {
    struct run run[TRAIN_PLOT_RUNS];
    int runs, half;          /* half: of the steps in a mean; 0: no means */
    int validation, skipped; /* whether some run has any */
    double lo, hi, pixel;    /* of the axis of steps */
};

/* The folder's name where the log is called log.jsonl, else the file's own. */
static char *name_of(const char *path)
{
    char *whole = realpath(path, NULL), *base = whole ? strrchr(whole, '/') : NULL, *name;

    if (!base) { /* no such path any more: as it was given */
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
        r->name = name_of(path);
    mem_free(path);
    return rc;
}

/* Two runs of one name: as they were given. */
static void tell_apart(struct picture *p, const char *const *logs)
{
    int alike[TRAIN_PLOT_RUNS] = {0};

    for (int i = 0; i < p->runs; i++)
        for (int k = 0; k < p->runs; k++)
            alike[i] |= k != i && strcmp(p->run[i].name, p->run[k].name) == 0;
    for (int i = 0; i < p->runs; i++)
        if (alike[i]) {
            mem_free(p->run[i].name);
            p->run[i].name = mem_dup(logs[i]);
        }
}

static int read_runs(struct picture *p, const char *const *logs, int count, struct err *err)
{
    if (count > TRAIN_PLOT_RUNS)
        return err_set(err, ERR_INPUT, "%d logs, expected at most %d", count, TRAIN_PLOT_RUNS);
    for (; p->runs < count; p->runs++)
        if (read_run(&p->run[p->runs], logs[p->runs], err))
            return -1;
    tell_apart(p, logs);
    return 0;
}

static void range_of_steps(struct picture *p)
{
    const double *first = p->run[0].log.v[PLAN_STEP];
    int most = 0;

    p->lo = p->hi = first[0];
    for (int i = 0; i < p->runs; i++) {
        const struct plan_log *l = &p->run[i].log;
        p->lo = fmin(p->lo, l->v[PLAN_STEP][0]);
        p->hi = fmax(p->hi, l->v[PLAN_STEP][l->steps - 1]);
        most = l->steps > most ? l->steps : most;
    }
    double room = fmax(0.01 * (p->hi - p->lo), 0.5);
    p->lo = fmax(0, p->lo - room);
    p->hi = fmax(p->hi + room, p->lo + 10); /* ticks at whole steps */
    p->pixel = (p->hi - p->lo) / PLOT_WIDE;
    p->half = most >= SMOOTH_FROM ? most / SMOOTH_FROM : 0;
}

static struct line line_new(int n)
{
    size_t room = (size_t)n + 1;

    return (struct line){mem_new(room, sizeof(double)), mem_new(room, sizeof(double)), 0};
}

static void line_add(struct line *l, double x, double y)
{
    l->x[l->n] = x;
    l->y[l->n++] = y;
}

/* The raw line, and those of its points that no line goes through. */
static void add_raw(const struct picture *p, const double *x, const double *y, int n,
                    struct line *raw, struct line *lone)
{
    int *keep = mem_new((size_t)n, sizeof *keep);
    int kept = train_plot_thin(x, y, n, p->pixel, keep);

    *raw = line_new(kept);
    *lone = line_new(kept);
    for (int k = 0; k < kept; k++) {
        double at = y[keep[k]];
        int before = k > 0 && isfinite(y[keep[k - 1]]);
        int behind = k + 1 < kept && isfinite(y[keep[k + 1]]);
        line_add(raw, x[keep[k]], at);
        if (isfinite(at) && !before && !behind)
            line_add(lone, x[keep[k]], at);
    }
    mem_free(keep);
}

/* One mean a pixel, at the middle of its steps. */
static void add_means(const struct picture *p, const double *x, const double *y, int n,
                      struct line *out)
{
    *out = line_new(n);
    for (int lo = 0, hi; lo < n; lo = hi) {
        for (hi = lo + 1; hi < n && x[hi] - x[lo] < p->pixel;)
            hi++;
        int at = lo + (hi - lo) / 2;
        line_add(out, x[at], train_plot_mean(y, n, at, p->half));
    }
}

static void add_validation(struct picture *p, struct run *r)
{
    const double *x = r->log.v[PLAN_STEP], *y = r->log.v[PLAN_EVAL_LOSS];
    struct line *l = &r->line[0][3];

    *l = line_new(r->log.steps);
    for (int i = 0; i < r->log.steps; i++)
        if (isfinite(y[i]))
            line_add(l, x[i], y[i]);
    p->validation |= l->n > 0;
}

/* On the loss: its own, or the last one that was a number; beside each other, not one blot. */
static void add_skipped(struct picture *p, struct run *r)
{
    const double *x = r->log.v[PLAN_STEP], *y = r->log.v[PLAN_LOSS];
    struct line *l = &r->line[0][4];
    double last = NAN;

    *l = line_new(2 * r->log.steps);
    for (int i = 0; i < r->log.steps; i++) {
        last = isfinite(y[i]) ? y[i] : last;
        if (!r->log.skipped[i])
            continue;
        r->skipped++;
        if (l->n && x[i] - l->x[l->n - 2] < MARK_WIDE * p->pixel)
            continue;
        line_add(l, x[i], last);
        line_add(l, x[i], NAN); /* marks, no line between them */
    }
    p->skipped |= r->skipped > 0;
}

static void add_run(struct picture *p, struct run *r)
{
    const struct plan_log *l = &r->log;
    size_t n = (size_t)l->steps;

    r->y[0] = l->v[PLAN_LOSS];
    r->y[1] = l->v[PLAN_TOKENS_PER_S];
    r->y[2] = mem_new(n, sizeof **r->y);
    for (int i = 0; i < l->steps; i++)
        r->y[2][i] = l->v[PLAN_EXPOSED_S][i] / l->v[PLAN_STEP_S][i];
    for (int panel = 0; panel < PANELS; panel++) {
        struct line *line = r->line[panel];
        add_raw(p, l->v[PLAN_STEP], r->y[panel], l->steps, &line[0], &line[2]);
        if (p->half)
            add_means(p, l->v[PLAN_STEP], r->y[panel], l->steps, &line[1]);
    }
    add_validation(p, r);
    add_skipped(p, r);
    int used = snprintf(r->legend, sizeof r->legend, "%.200s, %d step%s", r->name, l->steps,
                        l->steps == 1 ? "" : "s");
    if (r->skipped)
        snprintf(r->legend + used, sizeof r->legend - (size_t)used, ", %d skipped", r->skipped);
}

static struct svg_series series_of(const struct picture *p, int run, int panel, int line)
{
    const struct line *l = &p->run[run].line[panel][line];
    int lone = line == 2, pale = p->half && (line == 0 || lone);
    int marker = line == 3   ? VALIDATION_MARKER
                 : line == 4 ? SKIPPED_MARKER
                 : lone      ? LONE_MARKER
                             : -1;

    return (struct svg_series){.name = p->run[run].name,
                               .colour = run,
                               .marker = marker,
                               .faint = pale,
                               .points = l->n,
                               .x = l->x,
                               .y = l->y};
}

static const char *percent(struct units *u, double v)
{
    snprintf(u->text, sizeof u->text, "%.4g %%", 100 * v);
    return u->text;
}

/* Whether most of the losses would lie on the floor of a linear axis. */
static int wants_log(const struct picture *p)
{
    double least = INFINITY, greatest = 0;

    for (int r = 0; r < p->runs; r++)
        for (int i = 0; i < p->run[r].log.steps; i++) {
            double y = p->run[r].y[0][i];
            if (!isfinite(y))
                continue;
            least = fmin(least, y);
            greatest = fmax(greatest, y);
        }
    return least > 0 && greatest > LOG_FROM * least;
}

static void draw_panel(const struct picture *p, struct svg *svg, int panel, double top)
{
    static const char *const titles[PANELS] = {"loss", "tokens/s",
                                               "exposed communication, of the step"};
    struct svg_series series[TRAIN_PLOT_RUNS * LINES];
    int n = 0, log = panel == 0 && wants_log(p);
    struct svg_chart chart = {.box = {MARGIN, top, WIDTH - 2 * MARGIN, HIGH[panel]},
                              .title = log ? "loss, on a logarithmic axis" : titles[panel],
                              .x = {.name = panel == PANELS - 1 ? "step" : NULL,
                                    .unit = units_whole,
                                    .lo = p->lo,
                                    .hi = p->hi},
                              .y = {.name = panel == 0   ? "nats a token"
                                            : panel == 1 ? "all ranks"
                                                         : "of rank 0",
                                    .unit = panel == 0   ? units_plain
                                            : panel == 1 ? units_count
                                                         : percent,
                                    .scale = log ? SVG_LOG10 : SVG_LINEAR,
                                    .tight = panel == 0}};

    /* Pale lines of all runs are below the others. */
    for (int line = 0; line < LINES; line++)
        for (int run = 0; run < p->runs; run++)
            if (p->run[run].line[panel][line].n)
                series[n++] = series_of(p, run, panel, line);
    chart.count = n;
    chart.series = series;
    svg_chart(svg, &chart);
}

static double put_mark(struct svg *svg, double x, double y, int marker, const char *text)
{
    svg_marker(svg, x + 5, y - 4, marker, "#444444", NULL);
    svg_text(svg, x + 14, y, &(struct svg_font){0}, text);
    return x + 14 + svg_text_width(text, 11) + 18;
}

static void put_head(const struct picture *p, struct svg *svg, const char *title)
{
    char text[160] = "lines: every step";
    double x = MARGIN, y = MARGIN + 32;

    if (p->half)
        snprintf(text, sizeof text,
                 "lines: the mean of the %d steps around each; pale: every step",
                 2 * p->half + 1);
    svg_text(svg, MARGIN, MARGIN + 12, &(struct svg_font){.size = 15, .bold = 1}, title);
    svg_text(svg, x, y, &(struct svg_font){0}, text);
    x += svg_text_width(text, 11) + 18;
    if (p->validation)
        x = put_mark(svg, x, y, VALIDATION_MARKER, "validation loss");
    if (p->skipped)
        put_mark(svg, x, y, SKIPPED_MARKER, "skipped: the gradient was not finite");
}

static void draw(struct picture *p, FILE *out)
{
    struct svg_series legend[TRAIN_PLOT_RUNS];
    struct svg svg;
    char title[320] = "Training";
    double names = 34; /* below the last panel's axis; the others have none */

    for (int i = 0; i < p->runs; i++)
        legend[i] = (struct svg_series){.name = p->run[i].legend, .colour = i, .marker = -1};
    if (p->runs == 1)
        snprintf(title, sizeof title, "Training: %.250s", p->run[0].name);
    double top =
        MARGIN + HEAD - 20 + svg_legend(NULL, 0, 0, WIDTH - 2 * MARGIN, legend, p->runs);
    double high = HIGH[0] + HIGH[1] + HIGH[2] - (PANELS - 1) * (names - GAP);
    svg_open(&svg, out, WIDTH, top + high + MARGIN, title);
    put_head(p, &svg, title);
    svg_legend(&svg, MARGIN, MARGIN + HEAD - 24, WIDTH - 2 * MARGIN, legend, p->runs);
    for (int panel = 0; panel < PANELS; panel++) {
        draw_panel(p, &svg, panel, top);
        top += HIGH[panel] - names + GAP;
    }
    svg_close(&svg);
}

static void release(struct picture *p)
{
    for (int i = 0; i < TRAIN_PLOT_RUNS; i++) {
        struct run *r = &p->run[i];
        for (int k = 0; k < PANELS * LINES; k++) {
            mem_free(r->line[k / LINES][k % LINES].x);
            mem_free(r->line[k / LINES][k % LINES].y);
        }
        mem_free(r->y[2]);
        mem_free(r->name);
        plan_log_release(&r->log);
    }
    mem_free(p);
}

int train_plot(const char *const *logs, int count, FILE *out, struct err *err)
{
    struct picture *p = mem_new(1, sizeof *p);
    int rc;

    assert(count > 0);
    rc = read_runs(p, logs, count, err);
    if (rc == 0) {
        range_of_steps(p);
        for (int i = 0; i < p->runs; i++)
            add_run(p, &p->run[i]);
        draw(p, out);
    }
    release(p);
    return rc;
}
