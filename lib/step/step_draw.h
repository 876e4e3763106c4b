/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEP_STEP_DRAW_H
#define STEP_STEP_DRAW_H

#include "draw/draw_timeline.h"
#include "step/step.h"

/*
 * A step as a timeline, predicted or measured: a row per rank, in it the lanes that the rank
 * uses, the compute lane first.  The caller sets the timeline's title, note, rows, end and
 * tooltips, adds bars and path, draws and releases it.
 */

/* A bar of the timeline: a row of the step, or a wait for a row. */
struct step_bar {
    int rank; /* a row of the timeline */
    const struct step_row *row;
    int waits;
    const struct step_row *waits_for; /* NULL: not known */
    double start_s, end_s;
    const char *unit; /* its name, borrowed; NULL: none */
    int64_t item;     /* for the tooltip */
};

void step_draw_bar(struct svg_timeline *t, struct step_bar bar);
/* A part of the critical path; by time. */
void step_draw_span(struct svg_timeline *t, int rank, const struct step_row *row,
                    double start_s, double end_s);
int step_draw(struct svg_timeline *t, FILE *out, struct err *err);

#endif
