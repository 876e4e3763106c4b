/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRAW_DRAW_MATRIX_H
#define DRAW_DRAW_MATRIX_H

#include <stdint.h>

#include "draw/draw_svg.h"

/*
 * A matrix of percentages of expected values; lower ones are darker:
 *
 *     title
 *     note
 *               a  b  c       if square, rows and columns have the same names, and
 *            -1 #  #  #       row and column -1 are set off
 *          -1
 *       a   #    .  #  #
 *     ! b   #    #  .  #      a row's sign
 *       c   #    #  #  .
 *     legend
 *
 *     svg_matrix_init(&m, rows, columns, most);
 *     svg_matrix_enter(svg_matrix_cell(&m, row, column), percent, item);
 *     svg_matrix_draw(&m, out);
 *
 * With more than `most` rows or columns, each one drawn represents several, and a cell shows
 * the lowest percentage.
 */
enum { SVG_MATRIX_MOST = 128, SVG_MATRIX_CLASSES = 6 };

struct svg_cell {
    double percent; /* NAN: no value was entered */
    int64_t item;   /* for the caller's tooltip */
    int count;      /* number of entered values */
    int framed;
};

struct svg_matrix {
    char title[160], note[8192];
    double wide, high; /* largest size of a cell */
    int square;
    /* Texts for 98 % and more, 95, 90, 75, 50, less; then further lines; ends with NULL. */
    const char *const *legend;
    /* Name of rows from .. to - 1; "": none. */
    const char *(*name)(const void *of, int from, int to, char *text, size_t space);
    void (*tip)(const void *of, const struct svg_cell *cell, char *text, size_t space);
    const void *of; /* argument of name and tip; borrowed */
    /* Set by svg_matrix_init: rows and columns drawn, and the number of the caller's in
       each. */
    int rows, columns, per_row, per_column;
    const char *sign[SVG_MATRIX_MOST]; /* sign of a drawn row; NULL: none */
    struct svg_cell *cell;             /* [rows + 1][columns + 1], owned; freed when drawn */
};

void svg_matrix_init(struct svg_matrix *m, int rows, int columns, int most);
/* The drawn cell that contains the caller's row and column, from -1. */
struct svg_cell *svg_matrix_cell(const struct svg_matrix *m, int row, int column);
/* Adds a value to a cell; NAN is ignored. */
void svg_matrix_enter(struct svg_cell *c, double percent, int64_t item);
void svg_matrix_draw(struct svg_matrix *m, FILE *out);

#endif
