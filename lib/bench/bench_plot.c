/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows which rows of a benchmark make a line of which chart.  Two panels an operation, the
 * operations one below the other, one legend for all:
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
};

struct plot {
    struct svg svg;
    const struct bench_row **row; /* [rows], those with a time, by size; owned */
    int rows;
    unsigned *op; /* [ops], owned */
    int ops;
    enum bench_algo *algo; /* [algos], owned */
    int algos;
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

/* In the order of first sight, so that lines and panels come as the rows did. */
static void note(struct plot *p, const struct bench_row *r)
{
    int i = 0;

    while (i < p->ops && p->op[i] != r->op)
        i++;
    if (i == p->ops)
        p->op[p->ops++] = r->op;
    for (i = 0; i < p->algos && p->algo[i] != r->algo; i++)
        continue;
    if (i == p->algos)
        p->algo[p->algos++] = r->algo;
    p->bounded |= has_limit(r);
}

static void plot_init(struct plot *p, const struct bench_row *rows, int n)
{
    size_t room = (size_t)n + 1;

    *p = (struct plot){.row = mem_new(room, sizeof *p->row),
                       .op = mem_new(room, sizeof *p->op),
                       .algo = mem_new(room, sizeof *p->algo)};
    for (int i = 0; i < n; i++)
        if (isfinite(rows[i].median_s) && rows[i].median_s > 0) {
            note(p, &rows[i]);
            p->row[p->rows++] = &rows[i];
        }
    qsort(p->row, (size_t)p->rows, sizeof *p->row, by_size);
}

static void plot_release(struct plot *p)
{
    mem_free(p->row);
    mem_free(p->op);
    mem_free(p->algo);
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
    char text[256], limit[48] = "";

    if (has_limit(r))
        snprintf(limit, sizeof limit, ", %.3f of the cut bound", r->limit_s / r->median_s);
    snprintf(text, sizeof text, "%s, %s: median %s (%s to %s), busbw %s%s",
             bench_algo_name(r->algo), units_bytes(&size, (double)r->bytes),
             units_time(&median, r->median_s), units_time(&least, r->min_s),
             units_time(&most, r->max_s), units_rate(&rate, bench_busbw_Bps(r)), limit);
    return mem_dup(text);
}

static void line_of_algo(const struct plot *p, unsigned op, int a, struct line *l)
{
    line_init(l, p->rows);
    l->tip = mem_new((size_t)p->rows + 1, sizeof *l->tip);
    l->series.name = bench_algo_name(p->algo[a]);
    /* By the algorithm, not by its turn: it has the same colour in every picture. */
    l->series.colour = l->series.marker = (int)p->algo[a];
    for (int i = 0; i < p->rows; i++) {
        const struct bench_row *r = p->row[i];
        if (r->op != op || r->algo != p->algo[a])
            continue;
        int at = l->series.points++;
        l->x[at] = (double)r->bytes;
        l->time[at] = r->median_s;
        l->busbw[at] = bench_busbw_Bps(r);
        l->tip[at] = tip_of(r);
    }
    l->series.tip = (const char *const *)l->tip;
}

static void line_of_bound(const struct plot *p, unsigned op, struct line *l)
{
    line_init(l, p->rows);
    l->series.name = "cut bound";
    l->series.marker = -1;
    l->series.dashed = 1;
    for (int i = 0; i < p->rows; i++) {
        const struct bench_row *r = p->row[i];
        if (r->op != op || !has_limit(r) ||
            (l->series.points && l->x[l->series.points - 1] == (double)r->bytes))
            continue;
        struct bench_row best = *r;
        best.median_s = r->limit_s;
        int at = l->series.points++;
        l->x[at] = (double)r->bytes;
        l->time[at] = best.median_s;
        l->busbw[at] = bench_busbw_Bps(&best);
    }
}

static void draw_panel(struct plot *p, const struct line *l, const char *op, int i, double y)
{
    double wide = (WIDTH - 2 * MARGIN - GAP) / 2;
    int lines = p->algos + p->bounded;
    struct svg_series *series = mem_new((size_t)lines + 1, sizeof *series);
    char title[96];

    for (int at = 0; at < lines; at++) {
        series[at] = l[at].series;
        series[at].y = i ? l[at].busbw : l[at].time;
    }
    snprintf(title, sizeof title, i ? "%s: bus bandwidth" : "%s: time", op);
    struct svg_chart c = {.box = {MARGIN + i * (wide + GAP), y, wide, PANEL_HIGH},
                          .title = title,
                          .x = {"size of the whole vector", SVG_LOG2, units_bytes},
                          .y = {i ? "busbw" : "time (median)", i ? SVG_LINEAR : SVG_LOG10,
                                i ? units_rate : units_time},
                          .count = lines,
                          .series = series};
    svg_chart(&p->svg, &c);
    mem_free(series);
}

static void draw_op(struct plot *p, unsigned op, double y)
{
    int lines = p->algos + p->bounded;
    struct line *l = mem_new((size_t)lines + 1, sizeof *l);
    const char *name = schedule_phases_name(op);

    for (int a = 0; a < p->algos; a++)
        line_of_algo(p, op, a, &l[a]);
    if (p->bounded)
        line_of_bound(p, op, &l[p->algos]);
    for (int i = 0; i < 2; i++)
        draw_panel(p, l, name ? name : "partial move", i, y);
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
    snprintf(text, room, "%s: %d rank%s, %s%s", r->shape, r->ranks, r->ranks == 1 ? "" : "s",
             dtype_name(r->type), load);
}

/* The legend's rows, of lines without points. */
static double draw_legend(struct plot *p, int draw, double y)
{
    int lines = p->algos + p->bounded;
    struct svg_series *series = mem_new((size_t)lines + 1, sizeof *series);

    for (int a = 0; a < p->algos; a++)
        series[a] = (struct svg_series){.name = bench_algo_name(p->algo[a]),
                                        .colour = (int)p->algo[a],
                                        .marker = (int)p->algo[a]};
    if (p->bounded)
        series[p->algos] = (struct svg_series){.name = "cut bound", .dashed = 1};
    double high =
        svg_legend(draw ? &p->svg : NULL, MARGIN, y, WIDTH - 2 * MARGIN, series, lines);
    mem_free(series);
    return high;
}

void bench_plot(const struct bench_row *rows, int n, const char *title, FILE *out)
{
    struct plot p;
    char text[512];

    plot_init(&p, rows, n);
    double head = 60, legend = draw_legend(&p, 0, 0), y = head + legend + GAP;
    double high = y + p.ops * (PANEL_HIGH + GAP);
    svg_open(&p.svg, out, WIDTH, high, title);
    svg_text(&p.svg, MARGIN, 28, &(struct svg_font){.size = 17, .bold = 1}, title);
    describe(&p, text, sizeof text);
    svg_text(&p.svg, MARGIN, 48, &(struct svg_font){.size = 12, .colour = "#444444"}, text);
    draw_legend(&p, 1, head);
    for (int i = 0; i < p.ops; i++)
        draw_op(&p, p.op[i], y + i * (PANEL_HIGH + GAP));
    svg_close(&p.svg);
    plot_release(&p);
}
