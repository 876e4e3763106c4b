/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRAW_DRAW_SVG_H
#define DRAW_DRAW_SVG_H

#include <stdio.h>

/*
 * Writes a drawing in SVG 1.1, well-formed for any text: markup is escaped; invalid UTF-8 and
 * characters that XML does not allow become U+FFFD.  The same calls write the same bytes in any
 * locale.  Lengths are pixels from the upper left corner, written with two decimals.  An
 * element with a coordinate that is not a number or beyond SVG_FAR is skipped.  Errors stay
 * with the FILE (ferror).
 *
 *     struct svg s;
 *     svg_open(&s, stdout, 640, 480, "what it shows");
 *     svg_rect(&s, (struct svg_box){10, 10, 100, 20},
 *              &(struct svg_pen){.fill = "#0072B2"}, NULL);
 *     svg_close(&s);
 *
 *     (0,0) ---------------------> x, to 640
 *       |    (10,10) +--------+
 *       |            |        | 20
 *       |            +--------+
 *       v               100
 *     y, to 480
 */
struct svg {
    FILE *file; /* borrowed */
    int depth;  /* number of open groups, including the document */
};

#define SVG_FAR 1e6

struct svg_box {
    double x, y, w, h;
};

struct svg_pen {        /* style of an element; colours as "#0072B2" */
    const char *fill;   /* NULL: none */
    const char *stroke; /* NULL: none */
    double width;       /* width of the stroke; 0: 1 */
    int dashed;
};

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };

struct svg_font {
    double size; /* 0: 11 */
    enum svg_anchor anchor;
    int bold;
    int turned;         /* rotated to read upwards, about its own point */
    const char *colour; /* NULL: almost black */
};

/* Begins the document: size, and title (a tooltip in viewers, read by screen readers). */
void svg_open(struct svg *s, FILE *file, double width, double height, const char *title);
void svg_close(struct svg *s); /* also closes open groups */

/* A group's name is for readers of the file; NULL: none.  `tip`: see below. */
void svg_group_open(struct svg *s, const char *name, const char *tip);
void svg_group_close(struct svg *s);

/* `tip`: a tooltip, or NULL. */
void svg_rect(struct svg *s, struct svg_box box, const struct svg_pen *pen, const char *tip);
void svg_line(struct svg *s, double x1, double y1, double x2, double y2,
              const struct svg_pen *pen);
void svg_circle(struct svg *s, double x, double y, double r, const struct svg_pen *pen,
                const char *tip);
/* Through the points xy[2 * points]; with gaps at points that are not numbers. */
void svg_polyline(struct svg *s, const double *xy, int points, const struct svg_pen *pen);
void svg_polygon(struct svg *s, const double *xy, int points, const struct svg_pen *pen,
                 const char *tip);
/* x, y is on the base line. */
void svg_text(struct svg *s, double x, double y, const struct svg_font *font, const char *text);
/* Approximate width of `text`: the font is unknown, so the mean of common ones. */
double svg_text_width(const char *text, double size);

/* Many boxes as one element: a tenth of the bytes, without tooltips. */
void svg_boxes_open(struct svg *s, const struct svg_pen *pen);
void svg_boxes_add(struct svg *s, struct svg_box box);
void svg_boxes_close(struct svg *s);

/*
 * Colours that are distinguishable with any colour vision (15 and more apart in CIE L*a*b* for
 * each of the dichromacies of Machado et al.  2009), each with a contrast of 3 and more to
 * white (WCAG 2.1, graphical objects).  Colours repeat from SVG_COLOURS on.
 */
enum { SVG_COLOURS = 8 };
const char *svg_colour(int i);
/* An ordered range of more colours, from dark blue to ochre; t from 0 to 1.  Text as
   "#rrggbb". */
struct svg_rgb {
    char text[8];
};
struct svg_rgb svg_ramp(double t);
/* The colour mixed with white; share from 0 (white) to 1 (the colour). */
struct svg_rgb svg_tint(const char *colour, double share);

/* Heading and legend shared by all pages, within this margin. */
enum { SVG_MARGIN = 20, SVG_LINE = 18 };
/* Draws the title, and below it the lines of `note` (separated by '\n').  Returns the last base
   line; s NULL: only measures. */
double svg_head(struct svg *s, const char *title, const char *note);

struct svg_look {        /* style of boxes, and an entry of the legend */
    const char *name;    /* NULL: not in the legend */
    struct svg_rgb fill; /* "": none */
    int outlined;        /* with a black outline */
    int kind;            /* timelines: bars of different kinds are never joined */
};
/* Draws the legend of boxes on a page of this width, first base line y.  Returns the last base
   line; s NULL: only measures. */
double svg_key(struct svg *s, double y, double width, const struct svg_look *look, int looks);

/* Draws the i-th marker; shapes differ, so they are distinguishable without colour. */
void svg_marker(struct svg *s, double x, double y, int i, const char *colour, const char *tip);

#endif
