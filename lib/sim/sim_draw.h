/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SIM_DRAW_H
#define SIM_SIM_DRAW_H

#include <stdint.h>
#include <stdio.h>

#include "sim/sim.h"

struct sim_picture { /* all borrowed */
    const struct schedule *schedule;
    const struct topo *topo;       /* the schedule's groups, with hosts and ports */
    const struct sim_times *times; /* filled for every row */
    const int64_t *chunk_bytes;    /* [schedule->chunks] */
    double bound_s;                /* the cut bound; 0 or NAN: none */
};

/*
 * Draws a timeline (draw/draw_timeline.h): a row per rank, in it for each lane that the rank
 * uses its sends, and below them, thinner, its receives.  The colour is the part of the vector
 * (its group), dark if a message goes to another group, light inside one.  ERR_INPUT, without
 * output, if it would be too large.  Errors of the FILE stay with it.
 */
int sim_draw(const struct sim_picture *p, FILE *out, struct err *err);
/* Prints every message, none of them joined, as "paro.sched.draw/1". */
int sim_draw_json(const struct sim_picture *p, FILE *out, struct err *err);

enum { SIM_DRAW_ROWS_MAX = 1 << 22 }; /* the schedule's: 1 GiB while drawing */

#endif
