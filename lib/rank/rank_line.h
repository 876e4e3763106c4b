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
 * from the first byte of a line, or whatever an expression finds in it.  N is 0 or above; X is
 * a number, "nan" or "inf" in any case; in JSON null, NaN and Infinity.
 */
enum rank_said {
    RANK_NOTHING, /* a line of something else: an evaluation, a warning */
    RANK_LOSS,
    RANK_BROKEN /* begins as a line of a loss, and is none: cut short, or written over */
};

struct rank_point {
    int64_t step; /* -1: the line has none (an expression of one group) */
    double loss;
    int64_t planned; /* steps of the whole run, M; 0: not said */
    int64_t tokens;  /* of the step; 0: not said, or not looked for */
};

/* Steps up to 2^53 are whole in a double, and far from the ends of an int64_t. */
#define RANK_STEP_MAX (INT64_C(1) << 53)

/*
 * Reads the line p[bytes], followed by a line feed.  tokens: look for those of a line of JSON,
 * else they may stay 0.
 */
enum rank_said rank_line(const char *p, int64_t bytes, int tokens, struct rank_point *out);

/* A number at p, up to what cannot belong to it; NULL where there is none. */
const char *rank_line_number(const char *p, double *out);
/* A step at p, digits alone, 17 at most; NULL where there is none. */
const char *rank_line_step(const char *p, int64_t *out);

/*
 * Bytes of p[bytes], the beginning of a text, that are the mark some programs put before UTF-8:
 * 0 or 3; -1 of UTF-16, ERR_INPUT.
 */
int rank_line_mark(const char *p, int64_t bytes, const char *name, struct err *err);

/* An expression of PCRE2: rank_regex.c. */
struct rank_regex;
/*
 * The groups named step and loss, or else the first two; the only one is the loss, and then
 * steps are counted by the caller.  ERR_INPUT with where it is wrong.
 */
int rank_regex_new(const char *text, struct rank_regex **out, struct err *err);
void rank_regex_free(struct rank_regex *r);
/* Each thread has its own. */
int rank_regex_line(struct rank_regex *r, const char *p, int64_t bytes, struct rank_point *out,
                    enum rank_said *said, struct err *err);

#endif
