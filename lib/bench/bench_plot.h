/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_PLOT_H
#define BENCH_BENCH_PLOT_H

#include "bench/bench.h"

/*
 * Draws rows, in any order, as one SVG: for each operation, in the order they first come, its
 * time over the size and its busbw over the size, a line per algorithm (and per setting of the
 * MPI library), the cut bound dashed where rows have one; each shape and type apart.  Shape,
 * ranks, type and load average come from the rows; `title` stands above them.  Rows without a
 * time above 0 are left out.  Errors stay with the FILE (ferror).
 */
void bench_plot(const struct bench_row *rows, int n, const char *title, FILE *out);

#endif
