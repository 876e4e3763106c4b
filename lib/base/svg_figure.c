/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows a page of charts.  Axes and lines are svg_chart's. */
#include "base/svg_figure.h"

#include <string.h>

#include "base/mem.h"

static const double WIDTH = 1040, MARGIN = 20, GAP = 14, HEAD = 60;
/* Below a chart's axis; a chart whose x axis has no name leaves it to the next one. */
static const double AXIS_NAME = 34;

void svg_figure_chart(struct svg_figure *f, const char *title, struct svg_axis x,
                      struct svg_axis y, double high)
{
    f->chart = mem_grow(f->chart, &f->chart_room, (size_t)f->charts + 1, sizeof *f->chart);
    f->chart[f->charts++] =
        (struct svg_chart){.box = {.h = high}, .title = mem_dup(title), .x = x, .y = y};
}

void svg_figure_line(struct svg_figure *f, const char *name, struct svg_series style)
{
    f->line = mem_grow(f->line, &f->line_room, (size_t)f->lines + 1, sizeof *f->line);
    f->line[f->lines++] = (struct svg_figure_line){
        .series = style, .chart = f->charts - 1, .name = mem_dup(name)};
}

void svg_figure_point(struct svg_figure *f, double x, double y, const char *tip)
{
    struct svg_figure_line *l = &f->line[f->lines - 1];
    size_t n = (size_t)l->series.points++;

    l->x = mem_grow(l->x, &l->x_room, n + 1, sizeof *l->x);
    l->y = mem_grow(l->y, &l->y_room, n + 1, sizeof *l->y);
    l->x[n] = x;
    l->y[n] = y;
    if (!tip)
        return;
    l->tip = mem_grow(l->tip, &l->tip_room, n + 1, sizeof *l->tip);
    l->tip[n] = mem_dup(tip);
}

static struct svg_series series_of(const struct svg_figure_line *l)
{
    struct svg_series s = l->series;

    s.name = l->name;
    s.x = l->x;
    s.y = l->y;
    s.tip = (const char *const *)l->tip;
    return s;
}

/* Each name of a colour once, as it first comes. */
static int find_legend(const struct svg_figure *f, struct svg_series *legend)
{
    int n = 0;

    for (int i = 0; i < f->lines; i++) {
        struct svg_series s = series_of(&f->line[f->backward ? f->lines - 1 - i : i]);
        int k = 0;
        while (k < n && (legend[k].colour != s.colour || strcmp(legend[k].name, s.name) != 0))
            k++;
        if (k == n && !s.faint)
            legend[n++] = s;
    }
    return n;
}

static double row_high(const struct svg_chart *c)
{
    return c->box.h + GAP - (c->x.name ? 0 : AXIS_NAME);
}

void svg_figure_draw(const struct svg_figure *f, FILE *out)
{
    struct svg_series *series = mem_new((size_t)f->lines + 1, sizeof *series);
    int columns = f->columns ? f->columns : 1, legends = find_legend(f, series);
    double wide = (WIDTH - 2 * MARGIN - (columns - 1) * GAP) / columns;
    double y = HEAD + GAP + svg_legend(NULL, 0, 0, WIDTH - 2 * MARGIN, series, legends);
    double high = y;
    struct svg svg;

    for (int i = 0; i < f->charts; i += columns)
        high += row_high(&f->chart[i]);
    svg_open(&svg, out, WIDTH, high + MARGIN - GAP, f->title);
    svg_text(&svg, MARGIN, 28, &(struct svg_font){.size = 17, .bold = 1}, f->title);
    svg_text(&svg, MARGIN, 48, &(struct svg_font){.size = 12, .colour = "#444444"}, f->note);
    svg_legend(&svg, MARGIN, HEAD, WIDTH - 2 * MARGIN, series, legends);
    for (int i = 0; i < f->charts; i++) {
        struct svg_chart c = f->chart[i];
        c.box = (struct svg_box){MARGIN + i % columns * (wide + GAP), y, wide, c.box.h};
        for (int k = 0; k < f->lines; k++)
            if (f->line[k].chart == i)
                series[c.count++] = series_of(&f->line[k]);
        c.series = series;
        svg_chart(&svg, &c);
        if ((i + 1) % columns == 0)
            y += row_high(&c);
    }
    svg_close(&svg);
    mem_free(series);
}

void svg_figure_release(struct svg_figure *f)
{
    for (int i = 0; i < f->lines; i++) {
        struct svg_figure_line *l = &f->line[i];
        for (int k = 0; l->tip && k < l->series.points; k++)
            mem_free(l->tip[k]);
        mem_free(l->tip);
        mem_free(l->x);
        mem_free(l->y);
        mem_free(l->name);
    }
    for (int i = 0; i < f->charts; i++)
        mem_free((char *)f->chart[i].title);
    mem_free(f->line);
    mem_free(f->chart);
    *f = (struct svg_figure){.columns = 0};
}
