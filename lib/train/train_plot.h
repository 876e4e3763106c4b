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

#endif
