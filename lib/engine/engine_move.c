/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a conversion goes through a stream, and how a piece of a shard changes type. */
#include "engine/engine_inside.h"

#include <assert.h>
#include <string.h>

#include "base/tick.h"
#include "kern/kern_cpu.h"

static int pack(void *arg, struct err *err)
{
    struct engine_move *m = arg;

    (void)err;
    if (m->event)
        m->event->start_s = tick_now_s();
    if (m->src_elems)
        dtype_convert((void *)(uintptr_t)m->call.in, m->wire, m->src, m->src_type,
                      m->src_elems);
    if (m->round)
        coll_round(m->call.handle, EXEC_IN, (void *)(uintptr_t)m->call.in, m->call.residual);
    return 0;
}

/*
 * An accumulator that is not f32 is summed in f32 and rounded once; f64 is what exact sums
 * have, of numbers that are on their grid already.
 */
void engine_accumulate(void *acc, enum dtype acc_type, const void *x, enum dtype type,
                       int64_t n)
{
    if (acc_type == DTYPE_F32) {
        kern_accumulate(acc, x, type, n);
        return;
    }
    if (acc_type == DTYPE_F64) {
        assert(type == DTYPE_F64);
        dtype_reduce(acc, acc, x, DTYPE_F64, DTYPE_SUM, n);
        return;
    }
    float a[256];
    for (int64_t i = 0; i < n; i += 256) {
        int64_t part = n - i < 256 ? n - i : 256;
        char *at = (char *)acc + i * dtype_bytes(acc_type);
        dtype_convert(a, DTYPE_F32, at, acc_type, part);
        kern_accumulate(a, (const char *)x + i * dtype_bytes(type), type, part);
        dtype_convert(at, acc_type, a, DTYPE_F32, part);
    }
}

/* The first operation: what it needs may still be on its way in another stream. */
static enum stream_state ready(void *arg, struct err *err)
{
    struct engine_move *m = arg;

    if (m->behind && !stream_done(m->behind, m->behind_ticket))
        return STREAM_IDLE;
    return pack(m, err) ? STREAM_FAILED : STREAM_DONE;
}

static int store(void *arg, struct err *err)
{
    struct engine_move *m = arg;

    (void)err;
    if (m->dst_elems && m->add)
        engine_accumulate(m->dst, m->dst_type, m->call.out, m->wire, m->dst_elems);
    else if (m->dst_elems)
        dtype_convert(m->dst, m->dst_type, m->call.out, m->wire, m->dst_elems);
    if (m->event)
        m->event->end_s = tick_now_s();
    return 0;
}

int64_t engine_move_push(struct engine *e, struct stream *s, struct engine_move *m)
{
    coll_traffic_add(&e->word.sent, &m->call.handle->mine, 1);
    if (m->behind && stream_done(m->behind, m->behind_ticket))
        m->behind = NULL;
    if (m->src_elems || m->event || m->behind)
        stream_push(s, (struct stream_op){.poll = ready, .arg = m});
    int64_t ticket = coll_push(s, &m->call);
    if (m->dst_elems || m->event)
        ticket = stream_push(s, (struct stream_op){.start = store, .arg = m});
    return ticket;
}

void engine_round(void *to, enum dtype type, const float *x, enum dtype seen, int64_t n)
{
    float rounded[256];
    uint16_t half[256];

    if (seen == DTYPE_F32 || seen == type) {
        dtype_convert(to, type, x, DTYPE_F32, n);
        return;
    }
    assert(type == DTYPE_F32 && dtype_bytes(seen) == 2);
    for (int64_t i = 0; i < n; i += 256) {
        int64_t part = n - i < 256 ? n - i : 256;
        dtype_convert(half, seen, x + i, DTYPE_F32, part);
        dtype_convert(rounded, DTYPE_F32, half, seen, part);
        memcpy((float *)to + i, rounded, (size_t)part * sizeof(float));
    }
}

void engine_copy(void *out, enum dtype to_type, const void *shard, enum dtype type,
                 const struct range *ranges, int n, struct range at)
{
    int64_t first = layout_offset(ranges, n, at.lo);

    if (at.lo == at.hi)
        return;
    /* A piece lies inside one range of the shard: G inside I inside N. */
    assert(first >= 0 && layout_offset(ranges, n, at.hi - 1) == first + at.hi - 1 - at.lo);
    dtype_convert(out, to_type, (const char *)shard + first * dtype_bytes(type), type,
                  at.hi - at.lo);
}
