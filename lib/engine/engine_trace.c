/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how the events of a step are kept: by the compute thread in the order in which they
 * begin to matter; the communication thread only writes the times of conversions.
 */
#include "engine/engine_inside.h"

#include <assert.h>
#include <inttypes.h>

#include "base/tick.h"

enum { STEPS = 2, EVENTS_MAX = 1 << 22 }; /* some 300 MB */

/*
 * Of one step: each use waits, computes and has a gather for each of its unit's two vectors;
 * each micro-step begins and has, for each unit, a wait for a bucket, an addition and a
 * reduction; at the end each unit has a boundary, two waits, an update and a sync; and the step
 * begins, agrees, and computes before and behind that.
 */
static int64_t events_most(const struct engine *e)
{
    int64_t accum = e->plan->accum, uses = accum * 2 * e->model->visits,
            units = e->model->units;

    return STEPS * ((2 + ENGINE_PARTS) * uses + accum * (1 + 3 * units) + 5 * units + 4);
}

const char *engine_event_name(enum engine_event_kind kind)
{
    static const char *const names[] = {"begin",  "forward", "backward", "add",
                                        "update", "agree",   "wait",     "gather",
                                        "reduce", "convert", "sync"};

    return names[kind];
}

const char *engine_lane_name(int lane)
{
    static const char *const names[] = {"compute", "gather", "reduce", "convert",
                                        "parameter sync"};

    return names[lane];
}

int engine_trace_open(struct engine *e, struct err *err)
{
    struct engine_record *r = &e->record;
    int64_t most = events_most(e);
    void *event = NULL;

    assert(!r->event);
    if (most > EVENTS_MAX)
        return err_set(err, ERR_INPUT,
                       "a step of %" PRId64 " events, expected %d at most for a trace",
                       most / STEPS, EVENTS_MAX / STEPS);
    if (mem_data(most * (int64_t)sizeof *r->event, "trace events", &event, err))
        return -1;
    r->event = event;
    r->room = (int)most;
    return 0;
}

void engine_trace(struct engine *e, int on)
{
    struct engine_record *r = &e->record;

    assert(!on || r->event);
    r->on = on;
    if (!on)
        return;
    r->count = r->first = 0;
    r->last = -1;
    /* What was pushed before this has no event in the list. */
    for (int i = 0; i < e->model->units; i++)
        e->unit[i].synced_event = e->unit[i].reduced_event = -1;
    for (int i = 0; i < e->slots; i++)
        e->slot[i].event = -1;
    for (int i = 0; i < e->buckets; i++)
        e->bucket[i].event = -1;
}

void engine_trace_begin(struct engine *e)
{
    struct engine_record *r = &e->record;

    r->start_s = r->mark_s = tick_now_s();
    r->first = r->count;
}

void engine_trace_end(struct engine *e)
{
    engine_trace_more(e);
    e->record.end_s = e->record.on ? e->record.mark_s : tick_now_s();
}

static struct engine_event *add(struct engine_record *r)
{
    assert(r->count < r->room);
    return &r->event[r->count++];
}

void engine_trace_compute(struct engine *e, enum engine_event_kind kind, int unit, int micro)
{
    struct engine_record *r = &e->record;
    double now_s;

    if (!r->on)
        return;
    now_s = tick_now_s();
    r->last = r->count;
    *add(r) = (struct engine_event){.kind = kind,
                                    .lane = ENGINE_LANE_COMPUTE,
                                    .unit = unit,
                                    .micro = micro,
                                    .cause = -1,
                                    .behind = -1,
                                    .start_s = r->mark_s,
                                    .end_s = now_s};
    r->mark_s = now_s;
}

void engine_trace_more(struct engine *e)
{
    struct engine_record *r = &e->record;

    if (!r->on || r->last < r->first)
        return;
    r->event[r->last].end_s = r->mark_s = tick_now_s();
}

void engine_trace_wait(struct engine *e, int cause)
{
    struct engine_record *r = &e->record;

    if (!r->on)
        return;
    if (r->last >= r->first && r->event[r->last].kind != ENGINE_WAITED)
        engine_trace_more(e);
    r->last = r->count;
    *add(r) = (struct engine_event){.kind = ENGINE_WAITED,
                                    .lane = ENGINE_LANE_COMPUTE,
                                    .unit = -1,
                                    .micro = -1,
                                    .cause = cause,
                                    .behind = -1,
                                    .start_s = r->mark_s,
                                    .end_s = r->mark_s};
}

int engine_trace_move(struct engine *e, struct engine_move *m, enum engine_event_kind kind,
                      int lane, int unit, int micro)
{
    struct engine_record *r = &e->record;

    m->event = NULL;
    if (!r->on)
        return -1;
    m->event = add(r);
    *m->event = (struct engine_event){.kind = kind,
                                      .lane = lane,
                                      .unit = unit,
                                      .micro = micro,
                                      .cause = r->last,
                                      .behind = m->behind ? m->behind_event : -1,
                                      .pushed_s = tick_now_s(),
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
