/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_TRACE_H
#define TRAIN_TRAIN_TRACE_H

/* Inside train/: traces a step: what all ranks did in it, as rank 0 collects and shows it. */
#include <stdio.h>

#include "engine/engine.h"
#include "plan/plan.h"
#include "plan/plan_timeline.h"

/* Something of a rank's that takes time in the step: a row, or what a row waits for. */
struct train_trace_bar {
    int node; /* the row, as step_path.h counts them */
    int wait; /* of a wait: for that row; -1: for none that is kept */
    int waits;
    double start_s, end_s; /* inside the step */
};

struct train_trace_rank {
    const char *host;            /* borrowed */
    struct step_time *time;      /* [2 * rows], owned; seconds from this rank's own beginning */
    struct train_trace_bar *bar; /* [bars], owned; of each lane in order */
    int bars;
    double step_s;
    double compute_s, exposed_s, idle_s; /* step_s in three */
    struct step_path path;
};

struct train_trace {
    int64_t step;
    const struct plan *plan;               /* borrowed: groups, strategy, names of units */
    const struct step *rows;               /* borrowed: every rank's */
    int ranks, slowest;                    /* slowest: the rank whose step took longest */
    const struct plan_timeline *predicted; /* borrowed; NULL: the plan's fabric has no rates */
    struct train_trace_rank *rank;         /* [ranks], owned */
};

/*
 * Returns those of a rank's times [2 * rows] that touch [start_s, end_s], as lines of numbers;
 * owned by the caller (mem_free).
 */
char *train_trace_text(const struct step *rows, const struct step_time *time, double start_s,
                       double end_s);
/* From each rank's text (texts[ranks]) and host (hosts[ranks]); slowest and paths are found. */
void train_trace_init(struct train_trace *t, const struct plan *plan, const struct step *rows,
                      int64_t step, char *const *texts, const char *const *hosts);
void train_trace_release(struct train_trace *t);

const struct step_row *train_trace_row(const struct train_trace *t, int node);
/* "forward layers.3", "agree"; "gather layers.3, micro-step 2" with its micro-step. */
void train_trace_name(const struct train_trace *t, int node, int micro, char text[96]);
/* One line on the slowest rank's critical path, without a newline. */
void train_trace_line(const struct train_trace *t, FILE *out);
/* Chrome's trace event format, which Perfetto reads, too. */
void train_trace_json(const struct train_trace *t, FILE *out);

/* train_trace_draw.c: the same as a timeline, SVG. */
enum { TRAIN_TRACE_DRAWN = 8 };
/* The ranks that are drawn, ascending: all, or the first of each group and the slowest. */
int train_trace_drawn(const struct train_trace *t, int drawn[TRAIN_TRACE_DRAWN]);
int train_trace_draw(const struct train_trace *t, FILE *out, struct err *err);

#endif
