/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_RANK_READ_H
#define RANK_RANK_READ_H

#include "base/err.h"
#include "rank/rank_curve.h"

struct rank_run {
    const char *name; /* the path as it was given, borrowed */
    struct rank_curve curve;
    int64_t lines, losses; /* of the log, and those of them that have a loss */
    int64_t broken;        /* lines that were cut short or written over */
    int64_t tokens;        /* of a step; 0: not said */
    int64_t planned;       /* steps of the whole run, as its first line says; 0: not said */
};

/* A longer line is refused: no trainer writes one, and a file without ends of lines is no log.
 */
enum { RANK_LINE_MAX = 1 << 20 };

struct rank_reading {  /* how */
    int64_t per_epoch; /* this and last_step: rank_curve_init's */
    int last_step;
    const struct rank_query *query; /* the queries to come; NULL: anything */
    const char *regex;              /* an expression; NULL: the known formats */
};

/*
 * Reads run->name ("-": stdin) into the rest of *run, in blocks: what is held is the curve. All
 * of it where the log is no file, which can be read again; then `ask` is of no use.  ERR_INPUT
 * where no line has a loss.
 */
int rank_read(struct rank_run *run, const struct rank_reading *how, struct err *err);
/* The same of an open file, from where it stands; run->name is for messages. */
int rank_read_fd(struct rank_run *run, int fd, const struct rank_reading *how, struct err *err);
void rank_run_release(struct rank_run *run);

/* All of them, several at once where there are processors; the error of the first that has one.
 */
int rank_read_all(struct rank_run *run, int runs, const struct rank_reading *how,
                  struct err *err);

#endif
