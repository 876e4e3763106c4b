/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEP_STEP_PATH_H
#define STEP_STEP_PATH_H

#include <stdint.h>

#include "step/step.h"

/* Times of one row in a trace. */
struct step_time {
    int ran; /* 0: the row is not in the trace */
    /* issued: the compute lane reached the row; from then until start the row waits for others.
       When it ends, a compute row issues its lane's next one. */
    double issued_s, start_s, end_s;
    int64_t slow_bytes, fast_bytes; /* this rank sent between groups; inside its group */
};

/*
 * The critical path of a rank's step in the window [start_s, end_s]: the row that ended last,
 * the row that it waited for, and so on back to the start.  Parts are contiguous and in order
 * of time.  Where nothing on the path runs (a thread has still to wake up) the part is a gap,
 * node -1.
 *
 * A node is a row of the step or of the previous one, whose last transfers may reach into this
 * step: node = second * rows + row, second 0 for the previous step, 1 for this one.
 */
enum step_path_sum {
    STEP_PATH_COMPUTE,
    STEP_PATH_GATHER,
    STEP_PATH_REDUCE, /* reduce and convert */
    STEP_PATH_SYNC,   /* and the outer lanes */
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
    double sum_s[STEP_PATH_SUMS]; /* duration of the parts by kind; they add up to the window */
    /* Duration of the step without gaps: the end of the last compute row, from the window's
       start, if each row began as soon as the rows it waits for had ended.  At least the sum of
       the parts that are not gaps, at most the window. */
    double longest_s;
};
/* time: [2 * rows], by node.  The caller releases p. */
void step_path_init(struct step_path *p, const struct step *s, const struct step_time *time,
                    double start_s, double end_s);
void step_path_release(struct step_path *p);

/* Returns the node that after[k] of a node names; negative: none, or before both steps. */
int step_after(const struct step *s, int node, int k);

#endif
