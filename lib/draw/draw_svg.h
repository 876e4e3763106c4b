/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRAW_DRAW_SVG_H
#define DRAW_DRAW_SVG_H

#include <stdio.h>

/*
 * Writes a picture, SVG 1.1, well-formed for any text: markup is escaped, bytes that are no
 * UTF-8 and characters that XML does not know become U+FFFD.  The same calls write the same
 * bytes, whatever the locale.  Lengths are pixels, from the upper left corner, written with two
 * decimals; an element with a coordinate that is no number, or beyond SVG_FAR, is left out.
 * Errors stay with the FILE (ferror).
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
    int depth;  /* groups that are open, the document among them */
};

#define SVG_FAR 1e6

struct svg_box {
    double x, y, w, h;
};

struct svg_pen {        /* how an element looks; colours as "#0072B2" */
    const char *fill;   /* NULL: none */
    const char *stroke; /* NULL: none */
    double width;       /* of the stroke; 0: 1 */
    int dashed;
};

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };

struct svg_font {
    double size; /* 0: 11 */
    enum svg_anchor anchor;
    int bold;
    int turned;         /* read from below upwards, about its own point */
    const char *colour; /* NULL: nearly black */
};

/* The document: its size, its title (a viewer's tooltip, and what a screen reader says). */
void svg_open(struct svg *s, FILE *file, double width, double height, const char *title);
void svg_close(struct svg *s); /* the open groups, too */

/* A group is named for who reads the file; NULL: nameless.  `tip` as below. */
void svg_group_open(struct svg *s, const char *name, const char *tip);
void svg_group_close(struct svg *s);

/* `tip` is a tooltip, or NULL. */
void svg_rect(struct svg *s, struct svg_box box, const struct svg_pen *pen, const char *tip);
void svg_line(struct svg *s, double x1, double y1, double x2, double y2,
              const struct svg_pen *pen);
void svg_circle(struct svg *s, double x, double y, double r, const struct svg_pen *pen,
                const char *tip);
/* Through x, y of each point, xy[2 * points]; with a gap at points that are no numbers. */
void svg_polyline(struct svg *s, const double *xy, int points, const struct svg_pen *pen);
void svg_polygon(struct svg *s, const double *xy, int points, const struct svg_pen *pen,
                 const char *tip);
/* x, y is on the base line. */
void svg_text(struct svg *s, double x, double y, const struct svg_font *font, const char *text);
/* About as wide as `text` will be: no font is known, so the mean of common ones. */
double svg_text_width(const char *text, double size);

/* Very many boxes as one element: a tenth of the bytes, and no tooltips. */
void svg_boxes_open(struct svg *s, const struct svg_pen *pen);
void svg_boxes_add(struct svg *s, struct svg_box box);
void svg_boxes_close(struct svg *s);

/*
 * Colours that readers with any colour vision tell apart (15 and more apart in CIE L*a*b* for
 * each of the dichromacies of Machado et al. 2009), each with a contrast of 3 and more to white
 * (WCAG 2.1, graphical objects).  From SVG_COLOURS on they begin again.
 */
enum { SVG_COLOURS = 8 };
const char *svg_colour(int i);
/* More than that, in an order: from dark blue to ochre; t of 0 to 1.  Text as "#rrggbb". */
struct svg_rgb {
    char text[8];
};
struct svg_rgb svg_ramp(double t);
/* The colour mixed with white; share of 0 (white) to 1 (the colour). */
struct svg_rgb svg_tint(const char *colour, double share);

/* The head and key that all pages share, within this margin. */
enum { SVG_MARGIN = 20, SVG_LINE = 18 };
/* The title, and below it the lines of `note` ('\n' between them).  Returns the last base line;
 * s NULL: only measures. */
double svg_head(struct svg *s, const char *title, const char *note);

struct svg_look {        /* of boxes, and an entry of the legend */
    const char *name;    /* NULL: not in the legend */
    struct svg_rgb fill; /* "": none */
    int outlined;        /* black */
    int kind;            /* of a timeline: bars of different kinds are never joined */
};
/* The legend of boxes on a page of that width, its first base line y.  Returns the last one; s
 * NULL: only measures. */
double svg_key(struct svg *s, double y, double width, const struct svg_look *look, int looks);

/* The i-th marker, in shapes that differ without colour too. */
void svg_marker(struct svg *s, double x, double y, int i, const char *colour, const char *tip);

#endif
