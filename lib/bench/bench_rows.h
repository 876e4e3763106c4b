/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_ROWS_H
#define BENCH_BENCH_ROWS_H

#include <stddef.h>

#include "bench/bench.h"

struct bench_rows {
    struct bench_row *row; /* [rows], owned: mem_free; also after an error */
    size_t room;           /* rows that fit */
    int rows;
};
/* A file's JSON Lines, added to those that are there; `file` is its name, or "-". */
int bench_read_lines(const char *file, const char *text, struct bench_rows *all,
                     struct err *err);
/* What a row says of where it was measured: printable, without '"', ',' or '\\'. */
int bench_check_fact(const char *text, struct err *err);
/* The rows of files, "-" being standard input; one at least.  all->row is owned in any case. */
int bench_read_files(const char *const *file, int files, struct bench_rows *all,
                     struct err *err);

#endif
