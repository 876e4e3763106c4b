/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_PLOT_H
#define TRAIN_TRAIN_PLOT_H

#include <stdio.h>

#include "base/err.h"

/*
 * Draws runs by their logs, as SVG: loss (and validation loss), tokens/s and the share of the
 * step that is exposed communication, over steps.  A log is a file or a run's folder.
 */
enum { TRAIN_PLOT_RUNS = 8 }; /* no more colours are told apart */
int train_plot(const char *const *logs, int count, FILE *out, struct err *err);

/* train_plot_line.c: what of a run's numbers is drawn.  No pixels, no logs. */

/*
 * Which of the points x, y [n] (x ascending) are enough for a line where `width` of x is one
 * pixel: of each pixel the first and the last, the least and the greatest, and the first that
 * is no number, for the line's gap.  keep[n] gets their indices; returns how many.
 */
int train_plot_thin(const double *x, const double *y, int n, double width, int *keep);
/*
 * The mean of the numbers among y[n] from i - half to i + half, of those that there are.  NAN
 * where y[i] is none.
 */
double train_plot_mean(const double *y, int n, int i, int half);

#endif
