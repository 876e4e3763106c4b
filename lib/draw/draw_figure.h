/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRAW_DRAW_FIGURE_H
#define DRAW_DRAW_FIGURE_H

#include <stddef.h>

#include "draw/draw_svg.h"
#include "base/units.h"

/*
 * A page of charts, each two axes and a line per series, that is filled point by point:
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
 *
 * Points that are no numbers, beyond 1e100, or below 1e-100 on a logarithmic axis, are left
 * out; a line is broken there.  A line without markers is thinned to what is seen.
 */
enum svg_scale { SVG_LINEAR, SVG_LOG2, SVG_LOG10 };

/* Writes a number with its unit: units_bytes, units_time, ... (base/units.h). */
typedef const char *(*svg_unit)(struct units *u, double v);

struct svg_axis {
    const char *name; /* NULL, of an x axis: lines alone, the chart right below has the words */
    enum svg_scale scale; /* linear: from 0 where no value is below it */
    svg_unit unit;
    int tight;     /* linear: from the least value to the greatest, whatever 0 is */
    int choose;    /* a y axis: logarithmic where most of a linear one's lines would lie on the
                      floor; the title says so */
    double lo, hi; /* lo < hi: its ends, whatever the values */
};

struct svg_series {
    int colour, marker; /* of svg_colour and svg_marker; colour -1: grey; marker -1: none, but
                           for a point that no line reaches */
    int dashed;         /* a bound: black, thin, without markers */
    int faint;          /* thin and pale: what another line is drawn of */
    /* Set by the functions below; owned. */
    char *name;
    int chart, points;
    struct svg_point {
        double x, y;
        char *tip; /* NULL: none */
    } * point;
    size_t space;
};

struct svg_figure {
    char title[352], note[512];
    int columns;  /* 0: 1 */
    int backward; /* the legend begins with the last line */
    /* Set by the functions below; owned. */
    struct svg_chart *chart;   /* [charts] */
    struct svg_series *series; /* [lines] */
    int charts, lines;
    int at_chart, at_line; /* where the next line and the next point belong */
    size_t chart_space, line_space;
};

/* The chart of that title, a new one of `high` pixels or one that there is; the axes' names are
   borrowed. */
void svg_figure_chart(struct svg_figure *f, const char *title, struct svg_axis x,
                      struct svg_axis y, double high);
/* The chart's line of that name and style, a new one or one that there is. */
void svg_figure_line(struct svg_figure *f, const char *name, struct svg_series style);
/* In any order.  tip: a tooltip of the marker, or NULL: twice the same is one point then. */
void svg_figure_point(struct svg_figure *f, double x, double y, const char *tip);
void svg_figure_draw(const struct svg_figure *f, FILE *out);
void svg_figure_release(struct svg_figure *f);

/*
 * Where an axis from lo to hi (above lo; above 0 when logarithmic) has its ticks, ascending, at
 * round numbers: 1, 2 or 5 times a power of 10, on SVG_LOG2 powers of 2.  Returns how many:
 * `most` (3 to SVG_TICKS) at most.
 */
enum { SVG_TICKS = 24 };
int svg_ticks(enum svg_scale scale, double lo, double hi, int most, double tick[SVG_TICKS]);
/* The text of a tick: without decimals that are 0, and "0" alone. */
const char *svg_tick_text(svg_unit unit, double v, struct units *u);

#endif
