/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRAW_DRAW_FIGURE_H
#define DRAW_DRAW_FIGURE_H

#include <stddef.h>

#include "draw/draw_svg.h"
#include "base/units.h"

/*
 * A page of charts, each with two axes and a line for each series, filled point by point:
 *
 *     title
 *     note
 *     -o- ring  -x- ho-ring  - - cut bound           legend: each name once, no faint lines
 *     [ chart ] [ chart ]                            `columns` charts in a row
 *     [ chart ] [ chart ]
 *
 *     struct svg_figure f = {.columns = 2};
 *     snprintf(f.title, sizeof f.title, ...);
 *     svg_figure_chart(&f, "time", x, y, 300);       following lines belong to this chart,
 *     svg_figure_line(&f, "ring", (struct svg_series){.colour = 0, .marker = 0});
 *     svg_figure_point(&f, 4096, 1e-3, tip);         points of this line
 *     svg_figure_draw(&f, out);
 *     svg_figure_release(&f);
 *
 * Points that are not numbers, beyond 1e100, or below 1e-100 on a logarithmic axis are skipped;
 * the line has a gap there.  Invisible points of a line without markers are dropped.
 */
enum svg_scale { SVG_LINEAR, SVG_LOG2, SVG_LOG10 };

/* Writes a number with its unit: units_bytes, units_time, ... (base/units.h). */
typedef const char *(*svg_unit)(struct units *u, double v);

struct svg_axis {
    const char *name;     /* NULL for an x axis: no labels; the chart below has them */
    enum svg_scale scale; /* linear: from 0 if no value is negative */
    svg_unit unit;
    int tight; /* linear: from the smallest value to the largest, without 0 */
    /* Y axis: logarithmic if most of the lines would lie on the floor of a linear one; the
       title says so */
    int choose;
    double lo, hi; /* lo < hi: ends of the axis, independent of the values */
};

struct svg_series {
    /* Arguments of svg_colour and svg_marker; colour -1: grey; marker -1: none, except for
       isolated points */
    int colour, marker;
    int dashed; /* a bound: black, thin, without markers */
    int faint;  /* thin and pale: data from which another line is derived */
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
    int backward; /* the legend is in reverse order of the lines */
    /* Set by the functions below; owned. */
    struct svg_chart *chart;   /* [charts] */
    struct svg_series *series; /* [lines] */
    int charts, lines;
    int at_chart, at_line; /* the current chart and line */
    size_t chart_space, line_space;
};

/* Selects the chart of this title; a new one is `high` pixels high.  The axes' names are
   borrowed. */
void svg_figure_chart(struct svg_figure *f, const char *title, struct svg_axis x,
                      struct svg_axis y, double high);
/* Selects the chart's line of this name and style, or adds it. */
void svg_figure_line(struct svg_figure *f, const char *name, struct svg_series style);
/* Adds a point, in any order.  tip: tooltip of the marker, or NULL; equal points without tip
   are merged. */
void svg_figure_point(struct svg_figure *f, double x, double y, const char *tip);
void svg_figure_draw(const struct svg_figure *f, FILE *out);
void svg_figure_release(struct svg_figure *f);

/*
 * Ticks of an axis from lo to hi (hi > lo; lo > 0 if logarithmic), ascending, at round numbers:
 * 1, 2 or 5 times a power of 10; for SVG_LOG2 powers of 2. Returns their number, at most `most`
 * (3 to SVG_TICKS).
 */
enum { SVG_TICKS = 24 };
int svg_ticks(enum svg_scale scale, double lo, double hi, int most, double tick[SVG_TICKS]);
/* The text of a tick, without trailing zeros; zero is "0" without unit. */
const char *svg_tick_text(svg_unit unit, double v, struct units *u);

#endif
