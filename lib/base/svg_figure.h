/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_SVG_FIGURE_H
#define BASE_SVG_FIGURE_H

#include "base/svg_chart.h"

/*
 * A page of charts that is filled point by point:
 *
 *     title
 *     note
 *     -o- ring  -x- ho-ring  - - cut bound           legend: each name once, no faint lines
 *     [ chart ] [ chart ]                            as many a row as there are columns
 *     [ chart ] [ chart ]
 *
 *     struct svg_figure f = {.columns = 2};
 *     snprintf(f.title, sizeof f.title, ...);
 *     svg_figure_chart(&f, "time", x, y, 300);       lines that follow are in this chart,
 *     svg_figure_line(&f, "ring", (struct svg_series){.colour = 0, .marker = 0});
 *     svg_figure_point(&f, 4096, 1e-3, tip);         points in this line
 *     svg_figure_draw(&f, out);
 *     svg_figure_release(&f);
 */
struct svg_figure {
    char title[352], note[512];
    int columns;  /* 0: 1 */
    int backward; /* the legend begins with the last line */
    /* Set by the functions below; owned. */
    struct svg_chart *chart;      /* [charts] */
    struct svg_figure_line *line; /* [lines] */
    int charts, lines;
    size_t chart_room, line_room;
};

struct svg_figure_line {
    struct svg_series series;
    int chart;
    char *name;
    double *x, *y;
    char **tip;
    size_t x_room, y_room, tip_room;
};

/* title is copied; the axes' names are borrowed.  A chart whose x axis has no name stands right
   above the next one, which has. */
void svg_figure_chart(struct svg_figure *f, const char *title, struct svg_axis x,
                      struct svg_axis y, double high);
/* name is copied; of `style` colour, marker, dashed and faint are taken. */
void svg_figure_line(struct svg_figure *f, const char *name, struct svg_series style);
void svg_figure_point(struct svg_figure *f, double x, double y, const char *tip);
void svg_figure_draw(const struct svg_figure *f, FILE *out);
void svg_figure_release(struct svg_figure *f);

#endif
