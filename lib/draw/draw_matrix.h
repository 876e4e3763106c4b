/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRAW_DRAW_MATRIX_H
#define DRAW_DRAW_MATRIX_H

#include <stdint.h>

#include "draw/draw_svg.h"

/*
 * A matrix of percents of what is expected, the darker the further below:
 *
 *     title
 *     note
 *               a  b  c       a square one: rows and columns have the same names, and
 *            -1 #  #  #       row and column -1 stand apart
 *          -1
 *       a   #    .  #  #
 *     ! b   #    #  .  #      a sign of the row
 *       c   #    #  #  .
 *     legend
 *
 *     svg_matrix_init(&m, rows, columns, most);
 *     svg_matrix_enter(svg_matrix_cell(&m, row, column), percent, item);
 *     svg_matrix_draw(&m, out);
 *
 * With more than `most` rows or columns, each that is drawn stands for several: the lowest
 * percent of each cell is shown.
 */
enum { SVG_MATRIX_MOST = 128, SVG_MATRIX_CLASSES = 6 };

struct svg_cell {
    double percent; /* NAN: nothing was entered */
    int64_t item;   /* for the caller's tooltip */
    int count;      /* of what was entered */
    int framed;
};

struct svg_matrix {
    char title[160], note[8192];
    double wide, high; /* of a cell, at most */
    int square;
    /* 98 % and more, 95, 90, 75, 50, less; then plain words; NULL ends it. */
    const char *const *legend;
    /* Name of the rows from `from` to before `to`; "": none. */
    const char *(*name)(const void *of, int from, int to, char *text, size_t space);
    void (*tip)(const void *of, const struct svg_cell *cell, char *text, size_t space);
    const void *of; /* of name and tip; borrowed */
    /* Set by svg_matrix_init: what is drawn, and how many of the caller's that stands for. */
    int rows, columns, per_row, per_column;
    const char *sign[SVG_MATRIX_MOST]; /* of a row that is drawn; NULL: none */
    struct svg_cell *cell;             /* [rows + 1][columns + 1], owned until it is drawn */
};

void svg_matrix_init(struct svg_matrix *m, int rows, int columns, int most);
/* Where that of the caller's is drawn; row and column from -1. */
struct svg_cell *svg_matrix_cell(const struct svg_matrix *m, int row, int column);
/* NAN is not entered. */
void svg_matrix_enter(struct svg_cell *c, double percent, int64_t item);
void svg_matrix_draw(struct svg_matrix *m, FILE *out);

#endif
