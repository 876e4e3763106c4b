/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_RANK_LINE_H
#define RANK_RANK_LINE_H

#include <stdint.h>

#include "base/err.h"

/*
 * Parses lines of logs.  The known forms are
 *
 *     {"step":N,"loss":X,...}             a JSON object with these keys, in any order
 *     s:N trl:X                           llm.c's main.log
 *     step N/M | train loss X | ...       llm.c's console: also "| loss X", and "step N: train
 *                                         loss X"
 *     step:N/M train_loss:X ...           modded-nanogpt
 *
 * from the first byte of a line, or the matches of an expression.  N is 0 or above; X is a
 * number, "nan" or "inf" in any case; in JSON null, NaN and Infinity.
 */
enum rank_said {
    RANK_NOTHING, /* another kind of line: an evaluation, a warning */
    RANK_LOSS,
    RANK_BROKEN /* begins like a line with a loss but is not: truncated, or overwritten */
};

struct rank_point {
    int64_t step; /* -1: none (an expression with one group) */
    double loss;
    int64_t planned; /* steps of the whole run, M; 0: not given */
    int64_t tokens;  /* the step's; 0: not given, or not parsed */
};

/* Steps up to 2^53 are exact in a double, and far from the limits of int64_t. */
#define RANK_STEP_MAX (INT64_C(1) << 53)

/*
 * Parses the line p[bytes], followed by a line feed.  tokens: parse those of a JSON line;
 * otherwise they may stay 0.
 */
enum rank_said rank_line(const char *p, int64_t bytes, int tokens, struct rank_point *out);

/* Parses a number at p; returns its end, or NULL if there is none. */
const char *rank_line_number(const char *p, double *out);
/* Parses a step at p, only digits, 17 at most; returns its end, or NULL. */
const char *rank_line_step(const char *p, int64_t *out);

/*
 * Returns the size of a UTF-8 byte order mark at the beginning of p[bytes]: 0 or 3; -1,
 * ERR_INPUT, for UTF-16.
 */
int rank_line_mark(const char *p, int64_t bytes, const char *name, struct err *err);

/* An expression of PCRE2: rank_regex.c. */
struct rank_regex;
/*
 * Compiles an expression.  Uses the groups named step and loss, or the first two; a single
 * group is the loss, and the caller then counts steps.  ERR_INPUT with the position of the
 * error.
 */
int rank_regex_new(const char *text, struct rank_regex **out, struct err *err);
void rank_regex_free(struct rank_regex *r);
/* Matches a line.  Each thread needs its own r. */
int rank_regex_line(struct rank_regex *r, const char *p, int64_t bytes, struct rank_point *out,
                    enum rank_said *said, struct err *err);

#endif
