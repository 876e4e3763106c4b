/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows which rows of a benchmark make a line of which chart.  Two charts an operation (and
 * shape and type, where rows of several are given): its time and its busbw over the size.
 */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/svg_figure.h"
#include "schedule/schedule.h"

struct plot {
    const struct bench_row **row; /* [rows], those with a time, by size; owned */
    int rows;
    const struct bench_row **panel; /* [panels], the first row of each; owned */
    int panels;
    const struct bench_row **line; /* [lines], the first row of each; owned */
    int lines;
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
static int add_new(const struct bench_row **list, int n, const struct bench_row *r,
                   int (*same)(const struct bench_row *, const struct bench_row *))
{
    int i = 0;

    while (i < n && !same(list[i], r))
        i++;
    if (i == n)
        list[n++] = r;
    return n;
}

static void plot_init(struct plot *p, const struct bench_row *rows, int n)
{
    size_t room = (size_t)n + 1;

    *p = (struct plot){.row = mem_new(room, sizeof *p->row),
                       .panel = mem_new(room, sizeof *p->panel),
                       .line = mem_new(room, sizeof *p->line)};
    for (int i = 0; i < n; i++)
        if (isfinite(rows[i].time_s[BENCH_MEDIAN]) && rows[i].time_s[BENCH_MEDIAN] > 0) {
            p->panels = add_new(p->panel, p->panels, &rows[i], same_panel);
            p->lines = add_new(p->line, p->lines, &rows[i], same_line);
            p->row[p->rows++] = &rows[i];
        }
    qsort(p->row, (size_t)p->rows, sizeof *p->row, by_size);
}

static void tip_of(const struct bench_row *r, char *text, size_t room)
{
    struct units size, least, median, most, rate;
    char label[96], limit[48] = "";

    if (has_limit(r))
        snprintf(limit, sizeof limit, ", %.3f of the cut bound", bench_limit_fraction(r));
    snprintf(text, room, "%s, %s: median %s (%s to %s), busbw %s%s%s",
             bench_label(r, label, sizeof label), units_bytes(&size, (double)r->bytes),
             units_time(&median, r->time_s[BENCH_MEDIAN]),
             units_time(&least, r->time_s[BENCH_MIN]), units_time(&most, r->time_s[BENCH_MAX]),
             units_rate(&rate, bench_busbw_Bps(r)), limit, r->simulated ? ", simulated" : "");
}

/*
 * Coloured by the algorithm, not by its turn: it has the same colour in every picture.  The MPI
 * library comes after ours, once for each way that it was set.
 */
static void add_line(const struct plot *p, struct svg_figure *f, const struct bench_row *panel,
                     int line, int rate)
{
    const struct bench_row *first = p->line[line];
    int style = first->algo;
    char name[96], tip[256];

    if (first->algo < 0) {
        style = SCHEDULE_AUTO + 1;
        for (int i = 0; i < line; i++)
            style += p->line[i]->algo < 0;
    }
    snprintf(name, sizeof name, "%s%s%s", bench_algo_name(first->algo),
             first->setting[0] ? ":" : "", first->setting);
    svg_figure_line(f, name, (struct svg_series){.colour = style, .marker = style});
    for (int i = 0; i < p->rows; i++) {
        const struct bench_row *r = p->row[i];
        if (!same_panel(r, panel) || !same_line(r, first))
            continue;
        tip_of(r, tip, sizeof tip);
        svg_figure_point(f, (double)r->bytes,
                         rate ? bench_busbw_Bps(r) : r->time_s[BENCH_MEDIAN], tip);
    }
}

/* The cut bound of each size. */
static void add_bound(const struct plot *p, struct svg_figure *f, const struct bench_row *panel,
                      int rate)
{
    int64_t last = -1;

    for (int i = 0; i < p->rows; i++) {
        struct bench_row r = *p->row[i];
        if (!same_panel(&r, panel) || !has_limit(&r) || r.bytes == last)
            continue;
        if (last < 0)
            svg_figure_line(f, "cut bound", (struct svg_series){.marker = -1, .dashed = 1});
        last = r.bytes;
        r.time_s[BENCH_MEDIAN] = r.limit_s;
        svg_figure_point(f, (double)r.bytes, rate ? bench_busbw_Bps(&r) : r.limit_s, NULL);
    }
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

void bench_plot(const struct bench_row *rows, int n, const char *title, FILE *out)
{
    const struct svg_axis size = {
        .name = "size of the whole vector", .scale = SVG_LOG2, .unit = units_bytes};
    const struct svg_axis axis[2] = {
        {.name = "time (median)", .scale = SVG_LOG10, .unit = units_time},
        {.name = "busbw", .unit = units_rate}};
    struct svg_figure f = {.columns = 2};
    struct plot p;
    char name[320], chart[352];

    plot_init(&p, rows, n);
    snprintf(f.title, sizeof f.title, "%s", title);
    describe(&p, f.note, sizeof f.note);
    for (int i = 0; i < p.panels; i++)
        for (int rate = 0; rate < 2; rate++) {
            panel_name(&p, p.panel[i], name, sizeof name);
            snprintf(chart, sizeof chart, rate ? "%s: bus bandwidth" : "%s: time", name);
            svg_figure_chart(&f, chart, size, axis[rate], 300);
            for (int line = 0; line < p.lines; line++)
                add_line(&p, &f, p.panel[i], line, rate);
            add_bound(&p, &f, p.panel[i], rate);
        }
    svg_figure_draw(&f, out);
    svg_figure_release(&f);
    mem_free(p.row);
    mem_free(p.panel);
    mem_free(p.line);
}
