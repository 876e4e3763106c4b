/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws a matrix of percentages: cells, names, legend.  Leaves the expected values to its
   caller. */
#include "draw/draw_matrix.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

static const double WIDTH = 900, MAP = 640, NAMES = 190, GAP = 8, SIGN = 20, NAME_HIGH = 13;
static const char *const INK = "#444444", *const ALARM = "#d55e00";

/* Classes of percentages, each darker than the previous one: distinguishable by lightness
   alone. */
static const struct {
    double least;
    const char *hue;
    double share; /* share of the colour */
} classes[SVG_MATRIX_CLASSES] = {{98, "#0072b2", 0.14}, {95, "#5b1a4a", 0.3},
                                 {90, "#5b1a4a", 0.45}, {75, "#5b1a4a", 0.62},
                                 {50, "#5b1a4a", 0.82}, {-INFINITY, "#5b1a4a", 1}};

struct page {
    struct svg svg;
    const struct svg_matrix *m;
    double x, y, w, h; /* position and size of the first cell */
};

void svg_matrix_init(struct svg_matrix *m, int rows, int columns, int most)
{
    assert(rows > 0 && columns > 0 && most <= SVG_MATRIX_MOST);
    m->per_row = (rows + most - 1) / most;
    m->per_column = (columns + most - 1) / most;
    m->rows = (rows + m->per_row - 1) / m->per_row;
    m->columns = (columns + m->per_column - 1) / m->per_column;
    int cells = (m->rows + 1) * (m->columns + 1);
    m->cell = mem_new((size_t)cells, sizeof *m->cell);
    for (int i = 0; i < cells; i++)
        m->cell[i].percent = NAN;
}

struct svg_cell *svg_matrix_cell(const struct svg_matrix *m, int row, int column)
{
    int i = row < 0 ? 0 : row / m->per_row + 1, k = column < 0 ? 0 : column / m->per_column + 1;

    return &m->cell[i * (m->columns + 1) + k];
}

void svg_matrix_enter(struct svg_cell *c, double percent, int64_t item)
{
    if (isnan(percent) || (c->count++ && percent >= c->percent))
        return;
    c->percent = percent;
    c->item = item;
}

static void draw_cell(struct page *p, int row, int column)
{
    const struct svg_matrix *m = p->m;
    const struct svg_cell *c = &m->cell[(row + 1) * (m->columns + 1) + column + 1];
    struct svg_box box = {p->x + (column < 0 ? -p->w - GAP : column * p->w),
                          p->y + (row < 0 ? -p->h - GAP : row * p->h), p->w - (p->w > 6),
                          p->h - (p->h > 3)};
    char tip[300], words[16];
    int class = 0;

    if (isnan(c->percent))
        return;
    while (c->percent < classes[class].least)
        class ++;
    struct svg_rgb rgb = svg_tint(classes[class].hue, classes[class].share);
    m->tip(m->of, c, tip, sizeof tip);
    svg_rect(&p->svg, box, &(struct svg_pen){.fill = rgb.text}, tip);
    if (c->framed)
        svg_rect(&p->svg, (struct svg_box){box.x + 1, box.y + 1, box.w - 1, box.h - 1},
                 &(struct svg_pen){.stroke = ALARM, .width = 2}, tip);
    snprintf(words, sizeof words, "%.0f", c->percent);
    if (fmin(p->w, p->h) >= 26)
        svg_text(&p->svg, box.x + p->w / 2, box.y + p->h / 2 + 4,
                 &(struct svg_font){.size = p->w < 40 ? 9 : 12,
                                    .anchor = SVG_MIDDLE,
                                    .colour = c->percent < 75 ? "#ffffff" : INK},
                 words);
}

/* Shortens a long name in its middle: the ends are more informative. */
static const char *matrix_name_of(const struct svg_matrix *m, int row, char text[160])
{
    char whole[160];
    const char *name =
        m->name(m->of, row * m->per_row, (row + 1) * m->per_row, whole, sizeof whole);
    size_t n = strlen(name);

    snprintf(text, 160, "%s", name);
    if (svg_text_width(text, 10) > NAMES)
        snprintf(text, 160, "%.9s..%s", name, name + n - 20);
    return text;
}

void svg_matrix_draw(struct svg_matrix *m, FILE *out)
{
    struct page p = {
        .m = m, .w = fmin(m->wide, MAP / m->columns), .h = fmin(m->high, MAP / m->rows)};
    struct svg_look look[SVG_MATRIX_CLASSES + 8] = {{0}};
    double names = 0, foot;
    int every = 1, looks = 0;
    char text[160];

    while (every * p.h < NAME_HIGH)
        every *= 2;
    for (int i = 0; i < m->rows; i += every)
        names = fmax(names, svg_text_width(matrix_name_of(m, i, text), 10));
    for (; m->legend[looks]; looks++) {
        look[looks].name = m->legend[looks];
        if (looks < SVG_MATRIX_CLASSES)
            look[looks].fill = svg_tint(classes[looks].hue, classes[looks].share);
    }
    p.x = SVG_MARGIN + SIGN + names + 6 + (m->square ? p.w + GAP : 0);
    p.y = svg_head(NULL, m->title, m->note) + SVG_LINE + (m->square ? names + p.h + GAP : 0);
    double width = fmax(WIDTH, p.x + m->columns * p.w + SVG_MARGIN);
    foot = p.y + m->rows * p.h + 2 * SVG_LINE;
    svg_open(&p.svg, out, width, svg_key(NULL, foot, width, look, looks) + SVG_MARGIN,
             m->title);
    svg_head(&p.svg, m->title, m->note);
    svg_group_open(&p.svg, "cells", NULL);
    if (m->square)
        svg_rect(&p.svg, (struct svg_box){p.x, p.y, m->columns * p.w, m->rows * p.h},
                 &(struct svg_pen){.stroke = "#d0d0d0"}, NULL);
    for (int row = -1; row < m->rows; row++)
        for (int column = -1; column < m->columns; column++)
            draw_cell(&p, row, column);
    svg_group_close(&p.svg);
    for (int i = 0; i < m->rows; i++) {
        double x = p.x + (i + 0.5) * p.w + 4, y = p.y + (i + 0.5) * p.h + 4;
        double edge = 6 + (m->square ? p.w + GAP : 0);
        if (m->sign[i])
            svg_text(&p.svg, SVG_MARGIN, y,
                     &(struct svg_font){.size = 13, .bold = 1, .colour = ALARM}, m->sign[i]);
        if (i % every)
            continue;
        svg_text(&p.svg, p.x - edge, y,
                 &(struct svg_font){.size = 10, .anchor = SVG_END, .colour = INK},
                 matrix_name_of(m, i, text));
        if (m->square)
            svg_text(&p.svg, x, p.y - 6 - p.h - GAP,
                     &(struct svg_font){.size = 10, .turned = 1, .colour = INK}, text);
    }
    svg_key(&p.svg, foot, width, look, looks);
    svg_close(&p.svg);
    mem_free(m->cell);
    m->cell = NULL;
}
