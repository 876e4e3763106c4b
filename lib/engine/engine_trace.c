/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records when rows run: the compute thread those of its lane, the communication thread those
 * of transfers.  Keeps two consecutive steps; the first half of the array is the older one's.
 */
#include "engine/engine_inside.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/tick.h"

enum { STEPS = 2, ROWS_MAX = 1 << 21 }; /* about 200 MB */

int engine_trace_open(struct engine *e, struct err *err)
{
    struct engine_record *r = &e->record;
    int rows = engine_list(e, ENGINE_STEPS, e->step.shape.micros)->step.rows;
    void *time = NULL;

    assert(!r->time);
    if (rows > ROWS_MAX)
        return err_set(err, ERR_INPUT, "a step of %d rows, expected %d at most for a trace",
                       rows, ROWS_MAX);
    if (mem_data((int64_t)STEPS * rows * (int64_t)sizeof *r->time, "times of a trace", &time,
                 err))
        return -1;
    r->time = time;
    return 0;
}

void engine_trace(struct engine *e, int on)
{
    struct engine_record *r = &e->record;

    assert(!on || r->time);
    r->on = on;
    if (!on)
        return;
    r->steps = 0;
    memset(r->time, 0, STEPS * (size_t)e->list[ENGINE_STEPS].step.rows * sizeof *r->time);
}

void engine_trace_begin(struct engine *e)
{
    struct engine_record *r = &e->record;

    r->start_s = r->mark_s = tick_now_s();
    r->last = NULL;
    r->steps += r->on;
    assert(r->steps <= STEPS);
}

void engine_trace_end(struct engine *e)
{
    struct engine_record *r = &e->record;

    r->end_s = tick_now_s();
    if (r->last)
        r->last->end_s = r->end_s;
}

struct step_time *engine_trace_row(const struct engine *e, int row)
{
    const struct engine_record *r = &e->record;

    return r->on ? &r->time[(r->steps - 1) * e->running->step.rows + row] : NULL;
}

void engine_trace_ended(struct engine *e, struct step_time *t)
{
    struct engine_record *r = &e->record;

    if (!t)
        return;
    t->ran = 1;
    t->end_s = r->mark_s = tick_now_s();
    r->last = t;
}

int engine_trace_times(struct engine *e, const struct step **step,
                       const struct step_time **time, struct err *err)
{
    struct engine_record *r = &e->record;
    const struct step *s = &e->running->step;

    if (engine_drain(e, err))
        return -1;
    if (r->steps == 1) { /* no step before it was traced */
        memcpy(r->time + s->rows, r->time, (size_t)s->rows * sizeof *r->time);
        memset(r->time, 0, (size_t)s->rows * sizeof *r->time);
        r->steps = STEPS;
    }
    *step = s;
    *time = r->time;
    return 0;
}

void engine_trace_window(const struct engine *e, double *start_s, double *end_s)
{
    *start_s = e->record.start_s;
    *end_s = e->record.end_s;
}
