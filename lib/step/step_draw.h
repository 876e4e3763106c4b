/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEP_STEP_DRAW_H
#define STEP_STEP_DRAW_H

#include <stddef.h>

#include "base/svg_timeline.h"
#include "step/step.h"

/*
 * A step as a timeline, predicted or measured: a row per rank, in it the lanes that some rank
 * uses, the compute lane first.  The caller sets the timeline's title, notes, rows, end and
 * tooltips, adds bars and path, draws and releases it.
 */
struct step_picture {
    struct svg_timeline timeline;
    struct svg_bar *bar; /* [timeline.bars], owned */
    size_t bar_room;
    struct svg_span *span; /* [timeline.spans], owned */
    size_t span_room;
};

/* What a bar of the timeline shows: a row, or a wait for a row. */
struct step_bar {
    int rank; /* a row of the timeline */
    const struct step_row *row;
    int waits;
    const struct step_row *waits_for; /* NULL: not known */
    double start_s, end_s;
    const char *unit; /* its name, borrowed; NULL: none */
    int64_t item;     /* for the tooltip */
};

void step_picture_add(struct step_picture *p, struct step_bar bar);
/* A part of the critical path; by time. */
void step_picture_add_path(struct step_picture *p, int rank, const struct step_row *row,
                           double start_s, double end_s);
int step_picture_draw(struct step_picture *p, FILE *out, struct err *err);
void step_picture_release(struct step_picture *p);

#endif
