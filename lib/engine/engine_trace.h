/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_ENGINE_TRACE_H
#define ENGINE_ENGINE_TRACE_H

#include "engine/engine.h"

/*
 * engine_trace.c: what a step did and when, for one rank.  Lanes are the compute thread and the
 * streams.  `cause` is the event that had to end before this one could begin and is not the
 * lane's own last one: for a conversion the compute event behind which it was pushed, for a
 * computation the conversion it waited for; -1: none.
 */
enum engine_event_kind {
    ENGINE_FORWARD,
    ENGINE_BACKWARD,
    ENGINE_UPDATE,
    ENGINE_AGREE,  /* the norm and the decision, of all ranks */
    ENGINE_WAITED, /* for the conversion that `cause` names */
    ENGINE_GATHERED,
    ENGINE_REDUCED,
    ENGINE_CONVERTED, /* the boundary */
    ENGINE_SYNCED,
    ENGINE_EVENT_KINDS
};
enum {
    ENGINE_LANE_COMPUTE,
    ENGINE_LANE_GATHERS,
    ENGINE_LANE_REDUCES,
    ENGINE_LANE_BOUNDARIES,
    ENGINE_LANE_SYNCS,
    ENGINE_LANES
};
struct engine_event {
    enum engine_event_kind kind;
    int lane, unit, micro, cause;   /* unit, micro: -1 where it has none */
    double start_s, end_s;          /* as tick_now_s */
    int64_t slow_bytes, fast_bytes; /* sent by this rank */
};
/*
 * From the next step on events are kept, up to those of two steps; off: they are dropped.  The
 * first call allocates.  A conversion is in the list from when it is pushed, and its times are
 * valid when it has ended: engine_trace_events waits for that.
 */
void engine_trace(struct engine *e, int on);
int engine_trace_events(struct engine *e, const struct engine_event **events, int *count,
                        struct err *err);
/* When the last step began and ended, as tick_now_s. */
void engine_trace_window(const struct engine *e, double *start_s, double *end_s);

#endif
