/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_ROWS_H
#define BENCH_BENCH_ROWS_H

#include <stddef.h>

#include "bench/bench.h"

struct bench_rows {        /* that were read */
    struct bench_row *row; /* [rows], owned: mem_free */
    size_t room;
    int rows;
};
/* A file's JSON Lines, added to those that are there; `file` is its name, or "-". */
int bench_read_lines(const char *file, const char *text, struct bench_rows *all,
                     struct err *err);

#endif
