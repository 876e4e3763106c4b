/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a conversion goes through a stream, and how a piece of a shard changes type. */
#include "engine/engine_inside.h"

#include <assert.h>

#include "base/tick.h"

static struct stream *stream_of(const struct engine *e, enum engine_kind kind)
{
    struct stream *const of[] = {[ENGINE_GATHER] = e->gathers,
                                 [ENGINE_MICRO] = e->reduces,
                                 [ENGINE_BOUNDARY] = e->boundaries,
                                 [ENGINE_SYNC] = e->syncs};

    return of[kind];
}

/* An operation has asked for all that it does. */
static void asked(struct engine_move *m)
{
    device_record(m->engine->device.move, m->moved);
    m->asked = 1;
}

/* Whether that has ended; of a device that has failed everything has (device.h). */
static int has_ended(struct engine_move *m)
{
    struct err kept;

    if (!device_done(m->moved, &kept))
        return 0;
    m->asked = 0;
    return 1;
}

/* What the operation needs may still be on its way in another stream, or be computed. */
static int is_ready(const struct engine_move *m)
{
    struct err kept;

    if (m->behind && !stream_done(m->behind, m->behind_ticket))
        return 0;
    for (int i = 0; i < ENGINE_AFTER; i++)
        if (m->after[i] && !device_done(m->after[i], &kept))
            return 0;
    return 1;
}

/* The first operation. */
static enum stream_state pack(void *arg, struct err *err)
{
    struct engine_move *m = arg;
    struct kern *k = &m->engine->device.mover;

    (void)err;
    if (!m->asked) {
        if (!is_ready(m))
            return STREAM_IDLE;
        if (m->event)
            m->event->start_s = tick_now_s();
        if (!m->src_elems)
            return STREAM_DONE;
        k->op->convert(k, (void *)(uintptr_t)m->call.in, m->wire, m->src, m->src_type,
                       m->src_elems);
        asked(m);
    }
    return has_ended(m) ? STREAM_DONE : STREAM_IDLE;
}

/* The last one. */
static enum stream_state store(void *arg, struct err *err)
{
    struct engine_move *m = arg;
    struct kern *k = &m->engine->device.mover;

    (void)err;
    if (!m->asked && m->dst_elems) {
        if (m->add)
            k->op->accumulate(k, m->dst, m->dst_type, m->call.out, m->wire, m->dst_elems);
        else
            k->op->convert(k, m->dst, m->dst_type, m->call.out, m->wire, m->dst_elems);
        asked(m);
    }
    if (m->dst_elems && !has_ended(m))
        return STREAM_IDLE;
    if (m->event)
        m->event->end_s = tick_now_s();
    return STREAM_DONE;
}

int64_t engine_move_push(struct engine *e, enum engine_kind kind, struct engine_move *m)
{
    struct stream *s = stream_of(e, kind);
    int waits = e->device.gpu && (m->after[0] || m->after[1]);

    m->engine = e;
    m->moved = e->device.moved[kind];
    coll_traffic_add(&e->word.sent, &m->call.handle->mine, 1);
    if (m->behind && stream_done(m->behind, m->behind_ticket))
        m->behind = NULL;
    if (m->src_elems || m->event || m->behind || waits)
        stream_push(s, (struct stream_op){.poll = pack, .arg = m});
    int64_t ticket = coll_push(s, &m->call);
    if (m->dst_elems || m->event)
        ticket = stream_push(s, (struct stream_op){.poll = store, .arg = m});
    return ticket;
}

int engine_copy(const struct engine *e, void *out, enum dtype to_type, struct engine_shard from,
                struct range at, struct err *err)
{
    int64_t first = layout_offset(from.ranges, from.n, at.lo);

    if (at.lo == at.hi)
        return 0;
    /* A piece lies inside one range of the shard: G inside I inside N. */
    assert(first >= 0 &&
           layout_offset(from.ranges, from.n, at.hi - 1) == first + at.hi - 1 - at.lo);
    return engine_get(e, out, to_type, (const char *)from.at + first * dtype_bytes(from.type),
                      from.type, at.hi - at.lo, err);
}
