/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows which rows of a benchmark make a line of which chart.  Two panels an operation (and
 * shape and type, where rows of several are given), one below the other, one legend for all:
 *
 *     title
 *     shape, ranks, type, load
 *     -o- ring  -x- ho-ring  - - cut bound
 *     all-gather: time     all-gather: busbw
 *     all-reduce: time     all-reduce: busbw
 */
#include "bench/bench_plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/svg_chart.h"
#include "schedule/schedule.h"

static const double WIDTH = 1040, PANEL_HIGH = 300, MARGIN = 20, GAP = 14;

struct line { /* an algorithm's points, or the bound's, of one operation */
    struct svg_series series;
    double *x, *time, *busbw; /* [points], owned */
    char **tip;               /* [points], owned, each too; NULL: the bound */
    char name[96];
};

struct plot {
    struct svg svg;
    const struct bench_row **row; /* [rows], those with a time, by size; owned */
    int rows;
    const struct bench_row **panel; /* [panels], the first row of each; owned */
    int panels;
    const struct bench_row **line; /* [lines], the first row of each; owned */
    int lines;
    int bounded; /* some row has a bound */
};

static int by_size(const void *a, const void *b)
{
    const struct bench_row *const *x = a, *const *y = b;

    if ((*x)->bytes != (*y)->bytes)
        return (*x)->bytes < (*y)->bytes ? -1 : 1;
    return *x < *y ? -1 : *x > *y; /* as given: the same picture each time */
}

static int has_limit(const struct bench_row *r)
{
    return isfinite(r->limit_s) && r->limit_s > 0;
}

static int same_panel(const struct bench_row *a, const struct bench_row *b)
{
    return a->op == b->op && a->type == b->type && a->redop == b->redop &&
           strcmp(a->shape, b->shape) == 0;
}

/* What auto chose may differ from size to size: its line is one. */
static int same_line(const struct bench_row *a, const struct bench_row *b)
{
    return a->algo == b->algo && strcmp(a->setting, b->setting) == 0;
}

/* In the order of first sight, so that lines and panels come as the rows did. */
static void note(struct plot *p, const struct bench_row *r)
{
    int i = 0;

    while (i < p->panels && !same_panel(p->panel[i], r))
        i++;
    if (i == p->panels)
        p->panel[p->panels++] = r;
    for (i = 0; i < p->lines && !same_line(p->line[i], r); i++)
        continue;
    if (i == p->lines)
        p->line[p->lines++] = r;
    p->bounded |= has_limit(r);
}

/*
 * By the algorithm, not by its turn: it has the same colour in every picture.  The MPI library
 * comes behind ours, once for each way that it was set.
 */
static struct svg_series style_of(const struct plot *p, int line, char *name, int room)
{
    const struct bench_row *r = p->line[line];
    int style = r->algo;

    if (r->algo < 0) {
        style = SCHEDULE_AUTO + 1;
        for (int i = 0; i < line; i++)
            style += p->line[i]->algo < 0;
    }
    snprintf(name, (size_t)room, "%s%s%s", bench_algo_name(r->algo), r->setting[0] ? ":" : "",
             r->setting);
    return (struct svg_series){.name = name, .colour = style, .marker = style};
}

static void plot_init(struct plot *p, const struct bench_row *rows, int n)
{
    size_t room = (size_t)n + 1;

    *p = (struct plot){.row = mem_new(room, sizeof *p->row),
                       .panel = mem_new(room, sizeof *p->panel),
                       .line = mem_new(room, sizeof *p->line)};
    for (int i = 0; i < n; i++)
        if (isfinite(rows[i].time_s[BENCH_MEDIAN]) && rows[i].time_s[BENCH_MEDIAN] > 0) {
            note(p, &rows[i]);
            p->row[p->rows++] = &rows[i];
        }
    qsort(p->row, (size_t)p->rows, sizeof *p->row, by_size);
}

static void plot_release(struct plot *p)
{
    mem_free(p->row);
    mem_free(p->panel);
    mem_free(p->line);
}

static void line_init(struct line *l, int room)
{
    *l = (struct line){.x = mem_new((size_t)room + 1, sizeof(double)),
                       .time = mem_new((size_t)room + 1, sizeof(double)),
                       .busbw = mem_new((size_t)room + 1, sizeof(double))};
    l->series.x = l->x;
}

static void line_release(struct line *l)
{
    for (int i = 0; l->tip && i < l->series.points; i++)
        mem_free(l->tip[i]);
    mem_free(l->tip);
    mem_free(l->x);
    mem_free(l->time);
    mem_free(l->busbw);
}

static char *tip_of(const struct bench_row *r)
{
    struct units size, least, median, most, rate;
    char text[256], label[96], limit[48] = "";

    if (has_limit(r))
        snprintf(limit, sizeof limit, ", %.3f of the cut bound", bench_limit_fraction(r));
    snprintf(text, sizeof text, "%s, %s: median %s (%s to %s), busbw %s%s%s",
             bench_label(r, label, sizeof label), units_bytes(&size, (double)r->bytes),
             units_time(&median, r->time_s[BENCH_MEDIAN]),
             units_time(&least, r->time_s[BENCH_MIN]), units_time(&most, r->time_s[BENCH_MAX]),
             units_rate(&rate, bench_busbw_Bps(r)), limit, r->simulated ? ", simulated" : "");
    return mem_dup(text);
}

static void line_of_algo(const struct plot *p, const struct bench_row *panel, int at_line,
                         struct line *l)
{
    line_init(l, p->rows);
    l->tip = mem_new((size_t)p->rows + 1, sizeof *l->tip);
    const double *x = l->x;
    l->series = style_of(p, at_line, l->name, sizeof l->name);
    l->series.x = x;
    for (int i = 0; i < p->rows; i++) {
        const struct bench_row *r = p->row[i];
        if (!same_panel(r, panel) || !same_line(r, p->line[at_line]))
            continue;
        int at = l->series.points++;
        l->x[at] = (double)r->bytes;
        l->time[at] = r->time_s[BENCH_MEDIAN];
        l->busbw[at] = bench_busbw_Bps(r);
        l->tip[at] = tip_of(r);
    }
    l->series.tip = (const char *const *)l->tip;
}

static void line_of_bound(const struct plot *p, const struct bench_row *panel, struct line *l)
{
    line_init(l, p->rows);
    l->series.name = "cut bound";
    l->series.marker = -1;
    l->series.dashed = 1;
    for (int i = 0; i < p->rows; i++) {
        const struct bench_row *r = p->row[i];
        if (!same_panel(r, panel) || !has_limit(r) ||
            (l->series.points && l->x[l->series.points - 1] == (double)r->bytes))
            continue;
        struct bench_row best = *r;
        best.time_s[BENCH_MEDIAN] = r->limit_s;
        int at = l->series.points++;
        l->x[at] = (double)r->bytes;
        l->time[at] = r->limit_s;
        l->busbw[at] = bench_busbw_Bps(&best);
    }
}

static void draw_panel(struct plot *p, const struct line *l, const char *op, int i, double y)
{
    double wide = (WIDTH - 2 * MARGIN - GAP) / 2;
    int lines = p->lines + p->bounded;
    struct svg_series *series = mem_new((size_t)lines + 1, sizeof *series);
    char title[352];

    for (int at = 0; at < lines; at++) {
        series[at] = l[at].series;
        series[at].y = i ? l[at].busbw : l[at].time;
    }
    snprintf(title, sizeof title, i ? "%s: bus bandwidth" : "%s: time", op);
    struct svg_chart c = {
        .box = {MARGIN + i * (wide + GAP), y, wide, PANEL_HIGH},
        .title = title,
        .x = {.name = "size of the whole vector", .scale = SVG_LOG2, .unit = units_bytes},
        .y = {.name = i ? "busbw" : "time (median)",
              .scale = i ? SVG_LINEAR : SVG_LOG10,
              .unit = i ? units_rate : units_time},
        .count = lines,
        .series = series};
    svg_chart(&p->svg, &c);
    mem_free(series);
}

/* "all-gather", and what else tells this panel from the others. */
static void panel_name(const struct plot *p, const struct bench_row *r, char *text, int room)
{
    int shapes = 0, types = 0;

    for (int i = 0; i < p->panels; i++) {
        shapes += strcmp(p->panel[i]->shape, r->shape) != 0;
        types += p->panel[i]->type != r->type ||
                 (p->panel[i]->op == r->op && p->panel[i]->redop != r->redop);
    }
    int at = snprintf(text, (size_t)room, "%s", schedule_phases_name(r->op));
    if (shapes)
        at += snprintf(text + at, (size_t)(room - at), " %s", r->shape);
    if (types && at < room)
        snprintf(text + at, (size_t)(room - at), " %s%s%s", dtype_name(r->type),
                 r->redop == DTYPE_OPS ? "" : " ",
                 r->redop == DTYPE_OPS ? "" : dtype_op_name(r->redop));
}

static void draw_panels(struct plot *p, const struct bench_row *panel, double y)
{
    int lines = p->lines + p->bounded;
    struct line *l = mem_new((size_t)lines + 1, sizeof *l);
    char name[320];

    for (int a = 0; a < p->lines; a++)
        line_of_algo(p, panel, a, &l[a]);
    if (p->bounded)
        line_of_bound(p, panel, &l[p->lines]);
    panel_name(p, panel, name, sizeof name);
    for (int i = 0; i < 2; i++)
        draw_panel(p, l, name, i, y);
    for (int at = 0; at < lines; at++)
        line_release(&l[at]);
    mem_free(l);
}

/* "4x2: 8 ranks, f32; load average 0.8 to 2.1" */
static void describe(const struct plot *p, char *text, size_t room)
{
    double least = INFINITY, most = -INFINITY;
    char load[64] = "";

    if (!p->rows) {
        snprintf(text, room, "no rows");
        return;
    }
    for (int i = 0; i < p->rows; i++)
        if (isfinite(p->row[i]->load)) {
            least = fmin(least, p->row[i]->load);
            most = fmax(most, p->row[i]->load);
        }
    if (most >= least)
        snprintf(load, sizeof load,
                 most - least < 0.1 ? "; load average %.1f" : "; load average %.1f to %.1f",
                 least, most);
    const struct bench_row *r = p->row[0];
    int same = 1;
    for (int i = 0; i < p->rows; i++)
        same &= p->row[i]->type == r->type && strcmp(p->row[i]->shape, r->shape) == 0;
    if (same)
        snprintf(text, room, "%s: %d rank%s, %s%s", r->shape, r->ranks,
                 r->ranks == 1 ? "" : "s", dtype_name(r->type), load);
    else
        snprintf(text, room, "several shapes or types%s", load);
}

/* The legend's rows, of lines without points. */
static double draw_legend(struct plot *p, int draw, double y)
{
    int lines = p->lines + p->bounded;
    struct svg_series *series = mem_new((size_t)lines + 1, sizeof *series);

    char(*name)[96] = mem_new((size_t)lines + 1, sizeof *name);
    for (int a = 0; a < p->lines; a++)
        series[a] = style_of(p, a, name[a], sizeof name[a]);
    if (p->bounded)
        series[p->lines] = (struct svg_series){.name = "cut bound", .dashed = 1};
    double high =
        svg_legend(draw ? &p->svg : NULL, MARGIN, y, WIDTH - 2 * MARGIN, series, lines);
    mem_free(series);
    mem_free(name);
    return high;
}

void bench_plot(const struct bench_row *rows, int n, const char *title, FILE *out)
{
    struct plot p;
    char text[512];

    plot_init(&p, rows, n);
    double head = 60, legend = draw_legend(&p, 0, 0), y = head + legend + GAP;
    double high = y + p.panels * (PANEL_HIGH + GAP);
    svg_open(&p.svg, out, WIDTH, high, title);
    svg_text(&p.svg, MARGIN, 28, &(struct svg_font){.size = 17, .bold = 1}, title);
    describe(&p, text, sizeof text);
    svg_text(&p.svg, MARGIN, 48, &(struct svg_font){.size = 12, .colour = "#444444"}, text);
    draw_legend(&p, 1, head);
    for (int i = 0; i < p.panels; i++)
        draw_panels(&p, p.panel[i], y + i * (PANEL_HIGH + GAP));
    svg_close(&p.svg);
    plot_release(&p);
}
