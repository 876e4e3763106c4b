/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_RANK_READ_H
#define RANK_RANK_READ_H

#include "base/err.h"
#include "rank/rank_curve.h"

struct rank_run {
    const char *name; /* path as given, borrowed */
    struct rank_curve curve;
    int64_t lines, losses; /* lines in the log; those with a loss */
    int64_t broken;        /* truncated or overwritten lines */
    int64_t tokens;        /* per step; 0: not given */
    int64_t planned;       /* steps of the whole run, from its first line; 0: not given */
};

/* A longer line is rejected: no trainer writes one, and a file without line ends is no log. */
enum { RANK_LINE_MAX = 1 << 20 };

struct rank_reading {  /* how to read */
    int64_t per_epoch; /* per_epoch, last_step: for rank_curve_init */
    int last_step;
    const struct rank_query *query; /* the only later query; NULL: any */
    const char *regex;              /* NULL: the known formats */
};

/*
 * Reads run->name ("-": stdin) into the rest of *run, in blocks; memory holds only the curve.
 * If the log is a stream, which cannot be read again, everything is kept and `query` is
 * ignored.  ERR_INPUT if no line has a loss.
 */
int rank_read(struct rank_run *run, const struct rank_reading *how, struct err *err);
/* The same for an open file, from its current offset; run->name is for messages. */
int rank_read_fd(struct rank_run *run, int fd, const struct rank_reading *how, struct err *err);
void rank_run_release(struct rank_run *run);

/* Reads all runs, several at once if there are processors; returns the first run's error. */
int rank_read_all(struct rank_run *run, int runs, const struct rank_reading *how,
                  struct err *err);

#endif
