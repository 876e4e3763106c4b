/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_SVG_CHART_H
#define BASE_SVG_CHART_H

#include "base/svg.h"
#include "base/units.h"

/*
 * A chart: two axes, a line per series.  Points that are no numbers, beyond 1e100, or below
 * 1e-100 on a logarithmic axis, are left out; a line is broken there.  A line without markers
 * is thinned to what is seen.
 */
enum svg_scale { SVG_LINEAR, SVG_LOG2, SVG_LOG10 };

/* Writes a number with its unit: units_bytes, units_time, ... (base/units.h). */
typedef const char *(*svg_unit)(struct units *u, double v);

struct svg_axis {
    const char *name; /* NULL, of an x axis: lines alone, another chart below has the words */
    enum svg_scale scale; /* linear: from 0 where no value is below it */
    svg_unit unit;
    int tight;     /* linear: from the least value to the greatest, whatever 0 is */
    int choose;    /* a y axis: logarithmic where most of a linear one's lines would lie on the
                      floor; the title says so */
    double lo, hi; /* lo < hi: its ends, whatever the values */
};

struct svg_series {
    const char *name;
    int colour, marker; /* of svg_colour and svg_marker; colour -1: grey; marker -1: none, but
                           for a point that no line reaches */
    int dashed;         /* a bound: black, thin, without markers */
    int faint;          /* thin and pale: what another line is drawn of */
    int points;
    const double *x, *y;    /* [points], borrowed; x ascending */
    const char *const *tip; /* [points], borrowed, or NULL: tooltips; of series with markers */
};

struct svg_chart {
    struct svg_box box; /* all of it: names, ticks and the plot */
    const char *title;
    struct svg_axis x, y;
    int count;
    const struct svg_series *series; /* [count], borrowed */
};

void svg_chart(struct svg *s, const struct svg_chart *c);

/*
 * Names, lines and markers of all series, in rows from the upper left corner x, y that are at
 * most `width` wide.  Returns the height; s NULL: only measures.
 */
double svg_legend(struct svg *s, double x, double y, double width,
                  const struct svg_series *series, int count);

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
