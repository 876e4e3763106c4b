/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_TRACE_H
#define TRAIN_TRAIN_TRACE_H

/* Inside train/: traces a step: the work of all ranks in it, which rank 0 collects and
   shows. */
#include <stdio.h>

#include "engine/engine.h"
#include "plan/plan.h"
#include "plan/plan_timeline.h"

/* An interval of a rank in the step: a row, or the wait for another row. */
struct train_trace_bar {
    int node; /* the row, as step_path.h counts them */
    int wait; /* a wait: for that row; -1: for a row that was not recorded */
    int waits;
    double start_s, end_s; /* inside the step */
};

struct train_trace_rank {
    const char *host;            /* borrowed */
    struct step_time *time;      /* [2 * rows], owned; seconds since this rank began the step */
    struct train_trace_bar *bar; /* [bars], owned; in order within each lane */
    int bars;
    double step_s;
    double compute_s, exposed_s, idle_s; /* parts of step_s */
    struct step_path path;
};

struct train_trace {
    int64_t step;
    const struct plan *plan;               /* borrowed: groups, strategy, names of units */
    const struct step *rows;               /* borrowed: the same on every rank */
    int ranks, slowest;                    /* slowest: the rank whose step took longest */
    const struct plan_timeline *predicted; /* borrowed; NULL: the plan's fabric has no rates */
    struct train_trace_rank *rank;         /* [ranks], owned */
};

/*
 * Prints the times of a rank's rows [2 * rows] that overlap [start_s, end_s], as lines of
 * numbers; owned by the caller (mem_free).
 */
char *train_trace_text(const struct step *rows, const struct step_time *time, double start_s,
                       double end_s);
/* Builds a trace from each rank's text (texts[ranks]) and host (hosts[ranks]); finds the
   slowest rank and the critical paths. */
void train_trace_init(struct train_trace *t, const struct plan *plan, const struct step *rows,
                      int64_t step, char *const *texts, const char *const *hosts);
void train_trace_release(struct train_trace *t);

const struct step_row *train_trace_row(const struct train_trace *t, int node);
/* Names a row: "forward layers.3", "agree"; with micro "gather layers.3, micro-step 2". */
void train_trace_name(const struct train_trace *t, int node, int micro, char text[96]);
/* Prints the slowest rank's critical path as one line, without a newline. */
void train_trace_line(const struct train_trace *t, FILE *out);
/* Prints Chrome's trace event format, which Perfetto reads, too. */
void train_trace_json(const struct train_trace *t, FILE *out);

/* train_trace_draw.c: draws the trace as a timeline, SVG. */
enum { TRAIN_TRACE_DRAWN = 8 };
/* Selects the ranks to draw, ascending: all, or the first of each group and the slowest. */
int train_trace_drawn(const struct train_trace *t, int drawn[TRAIN_TRACE_DRAWN]);
int train_trace_draw(const struct train_trace *t, FILE *out, struct err *err);

#endif
