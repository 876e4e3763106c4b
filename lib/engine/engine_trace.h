/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_ENGINE_TRACE_H
#define ENGINE_ENGINE_TRACE_H

#include "engine/engine.h"
#include "step/step_path.h"

/*
 * engine_trace.c: when the rows of a step ran, for one rank.  Rows of a lane follow each other
 * and do not overlap; the compute lane's leave no hole between the beginning of a step and its
 * end but what they wait for.
 */

/* Makes room for the times of two steps.  Before the first one, once; not collective. */
int engine_trace_open(struct engine *e, struct err *err);
/* On: times are kept from the next step on, of two steps at most; a third one while it is on is
   a bug.  Off: what was kept stays until it is on again. */
void engine_trace(struct engine *e, int on);
/* Of the last step and the one before it, [2 * rows] as step_path.h counts them; borrowed, as
   the rows.  Waits for what is under way. */
int engine_trace_times(struct engine *e, const struct step **step,
                       const struct step_time **time, struct err *err);
/* When the last step began and ended, as tick_now_s. */
void engine_trace_window(const struct engine *e, double *start_s, double *end_s);

#endif
