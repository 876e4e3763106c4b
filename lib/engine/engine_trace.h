/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_ENGINE_TRACE_H
#define ENGINE_ENGINE_TRACE_H

#include "engine/engine.h"

/*
 * engine_trace.c: what a step did and when, for one rank.  Lanes are the compute thread and the
 * streams; a lane's events follow each other and do not overlap, and the compute thread's
 * leave no hole between the beginning of a step and its end.
 *
 * What had to come first, beside the lane's own last event, is an earlier one in the list; -1:
 * none that is kept.  `cause` of a conversion is the computation behind which, or in which, it
 * was pushed, at pushed_s, and `behind` what another stream had to bring before it.  `cause` of
 * a wait is the conversion that was waited for; what was there already is a wait of no length,
 * so that everything a computation needed is in the list.
 */
enum engine_event_kind {
    ENGINE_BEGAN, /* gradients zeroed, a micro-batch read */
    ENGINE_FORWARD,
    ENGINE_BACKWARD,
    ENGINE_ADDED, /* a micro-step's gradient, added up here or made ready to travel */
    ENGINE_UPDATE,
    ENGINE_AGREE, /* the norm and the decision, of all ranks */
    ENGINE_WAITED,
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
    int lane, unit, micro; /* unit, micro: -1 where it has none */
    int cause, behind;
    double start_s, end_s;          /* as tick_now_s */
    double pushed_s;                /* of a conversion */
    int64_t slow_bytes, fast_bytes; /* sent by this rank */
};
const char *engine_event_name(enum engine_event_kind kind); /* "forward", "gather", ... */
const char *engine_lane_name(int lane);

/* Makes room for the events of two steps.  Before the first one, once; not collective. */
int engine_trace_open(struct engine *e, struct err *err);
/*
 * On: events are kept from the next step on, of two steps at most; a third one while it is on
 * is a bug.  Off: what was kept stays until it is on again, which engine_trace_events must
 * precede.  A conversion is in the list from when it is pushed, and its times are valid when it
 * has ended: engine_trace_events waits for that.
 */
void engine_trace(struct engine *e, int on);
int engine_trace_events(struct engine *e, const struct engine_event **events, int *count,
                        struct err *err);
/* When the last step began and ended, as tick_now_s. */
void engine_trace_window(const struct engine *e, double *start_s, double *end_s);

/*
 * engine_path.c: the critical path of a rank's step, [start_s, end_s]: what its end waited for,
 * and what that waited for, back to its beginning.  The parts follow each other without a hole.
 * Where nothing on the path runs (a thread has still to wake up) the part's event is -1: a gap.
 */
enum engine_path_sum {
    ENGINE_PATH_COMPUTE,
    ENGINE_PATH_GATHERS,
    ENGINE_PATH_REDUCES, /* of micro-steps, and the boundary */
    ENGINE_PATH_SYNCS,
    ENGINE_PATH_AGREEMENT,
    ENGINE_PATH_GAPS,
    ENGINE_PATH_SUMS
};
const char *engine_path_name(enum engine_path_sum sum);

struct engine_path_part {
    int event;
    double start_s, end_s;
};
struct engine_path {
    struct engine_path_part *part; /* [parts], owned */
    int parts;
    double sum_s[ENGINE_PATH_SUMS]; /* of the parts; together the window */
    /* The longest way through the events' order with the times they took and nothing between
       them: the step as it would be without gaps.  At least the parts without gaps, at most the
       window. */
    double longest_s;
};
void engine_path_init(struct engine_path *p, const struct engine_event *event, int count,
                      double start_s, double end_s);
void engine_path_release(struct engine_path *p);

#endif
