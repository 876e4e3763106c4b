/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEP_STEP_DRAW_H
#define STEP_STEP_DRAW_H

#include "draw/draw_timeline.h"
#include "step/step.h"

/*
 * Draws a step as a timeline, predicted or measured: one timeline row per rank, with one line
 * for each lane that the rank uses, the compute lane first.  The caller sets the timeline's
 * title, note, rows, end and tooltips, adds bars and path, draws and releases it.
 */

/* A bar of the timeline: a step row that runs, or a wait for one. */
struct step_bar {
    int rank; /* the timeline's row */
    const struct step_row *row;
    int waits;
    const struct step_row *waits_for; /* NULL: the bar is no wait, or the awaited row is
                                         unknown */
    double start_s, end_s;
    const char *unit; /* the unit's name, borrowed; NULL: none */
    int64_t item;     /* for the caller's tooltip */
};

void step_draw_bar(struct svg_timeline *t, struct step_bar bar);
/* Marks a part of the critical path.  Parts are added in order of time. */
void step_draw_span(struct svg_timeline *t, int rank, const struct step_row *row,
                    double start_s, double end_s);
int step_draw(struct svg_timeline *t, FILE *out, struct err *err);

#endif
