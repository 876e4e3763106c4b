/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how the events of a step are kept: by the compute thread in the order in which they
 * begin to matter; the communication thread only writes the times of conversions.
 */
#include "engine/engine_inside.h"

#include "base/tick.h"

enum { STEPS = 2 };

/* A use waits and computes; of conversions there are gathers, and three kinds for each unit. */
static int64_t events_most(const struct engine *e)
{
    int64_t uses = (int64_t)e->plan->accum * 2 * e->model->visits, units = e->model->units;

    return STEPS * (3 * uses + (e->plan->accum * 2 + 6) * units + 8);
}

void engine_trace(struct engine *e, int on)
{
    struct engine_record *r = &e->record;

    if (on && !r->event) {
        r->room = (int)events_most(e);
        r->event = mem_new((size_t)r->room, sizeof *r->event);
    }
    r->on = on && r->event;
    r->count = 0;
    r->last = -1;
}

void engine_trace_begin(struct engine *e)
{
    struct engine_record *r = &e->record;

    r->start_s = tick_now_s();
}

void engine_trace_end(struct engine *e)
{
    e->record.end_s = tick_now_s();
}

static struct engine_event *add(struct engine_record *r)
{
    if (!r->on || r->count == r->room)
        return NULL;
    return &r->event[r->count++];
}

void engine_trace_compute(struct engine *e, enum engine_event_kind kind, int unit, int micro,
                          double start_s, int cause)
{
    struct engine_event *v = add(&e->record);

    if (!v)
        return;
    *v = (struct engine_event){.kind = kind,
                               .lane = ENGINE_LANE_COMPUTE,
                               .unit = unit,
                               .micro = micro,
                               .cause = cause,
                               .start_s = start_s,
                               .end_s = tick_now_s()};
    e->record.last = e->record.count - 1;
}

int engine_trace_move(struct engine *e, struct engine_move *m, enum engine_event_kind kind,
                      int lane, int unit, int micro)
{
    struct engine_record *r = &e->record;
    struct engine_event *v = add(r);

    m->event = v;
    if (!v)
        return -1;
    *v = (struct engine_event){.kind = kind,
                               .lane = lane,
                               .unit = unit,
                               .micro = micro,
                               .cause = r->last,
                               .slow_bytes = m->call.handle->mine.slow_out,
                               .fast_bytes = m->call.handle->mine.fast_out};
    return r->count - 1;
}

int engine_trace_events(struct engine *e, const struct engine_event **events, int *count,
                        struct err *err)
{
    if (stream_wait_all(e->gathers, err) || stream_wait_all(e->reduces, err) ||
        stream_wait_all(e->boundaries, err) || stream_wait_all(e->syncs, err))
        return -1;
    *events = e->record.event;
    *count = e->record.count;
    return 0;
}

void engine_trace_window(const struct engine *e, double *start_s, double *end_s)
{
    *start_s = e->record.start_s;
    *end_s = e->record.end_s;
}
