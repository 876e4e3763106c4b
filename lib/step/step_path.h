/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEP_STEP_PATH_H
#define STEP_STEP_PATH_H

#include <stdint.h>

#include "step/step.h"

/* When a row ran. */
struct step_time {
    int ran; /* 0: not in the trace */
    /* issued: the compute lane reached it; until start a row of that lane waits for others.
       The compute lane's next row is issued where this one ends. */
    double issued_s, start_s, end_s;
    int64_t slow_bytes, fast_bytes; /* sent by this rank between groups, inside its group */
};

/*
 * The critical path of a rank's step, [start_s, end_s]: what its end waited for, and what that
 * waited for, back to its beginning.  The parts follow each other without a hole.  Where
 * nothing on the path runs (a thread has still to wake up) the part is a gap, node -1.
 *
 * A node is a row of the step, or of the one before it, whose last transfers may reach into
 * this one: second * rows + row, second 0 for the step before.
 */
enum step_path_sum {
    STEP_PATH_COMPUTE,
    STEP_PATH_GATHER,
    STEP_PATH_REDUCE, /* and convert */
    STEP_PATH_SYNC,
    STEP_PATH_AGREE,
    STEP_PATH_GAP,
    STEP_PATH_SUMS
};
const char *step_path_name(enum step_path_sum sum);

struct step_part {
    int node;
    double start_s, end_s;
};
struct step_path {
    struct step_part *part; /* [parts], owned */
    int parts;
    double sum_s[STEP_PATH_SUMS]; /* of the parts; together the window */
    /* The end of the last compute row, counted from the window's start, if every row began the
       moment that the rows it waits for had ended: the step without gaps.  At least the parts
       without gaps, at most the window. */
    double longest_s;
};
/* time: [2 * rows]. */
void step_path_init(struct step_path *p, const struct step *s, const struct step_time *time,
                    double start_s, double end_s);
void step_path_release(struct step_path *p);

/* The node that a row names as after[k]; negative: none, or before both steps. */
int step_after(const struct step *s, int node, int k);

#endif
