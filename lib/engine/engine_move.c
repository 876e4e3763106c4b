/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a transfer through a stream, and converts the type of a piece of a shard. */
#include "engine/engine_inside.h"

#include <assert.h>

#include "base/tick.h"
#include "kern/kern_cpu.h"

/* An operation has issued all its work. */
static void record_requested(struct engine_move *m)
{
    device_record(m->engine->device.move, m->moved);
    m->requests = 1;
}

/* Whether that work has ended; on a failed device all work counts as ended (dev.h). */
static int move_has_ended(struct engine_move *m)
{
    struct err kept;

    if (!device_done(m->moved, &kept))
        return 0;
    m->requests = 0;
    return 1;
}

/* Rounds the parameters of a group so that any order of the groups' sum gives the same bits. */
static void pack_exact(struct engine_move *m)
{
    struct engine *e = m->engine;

    if (kern_on_grid((double *)(uintptr_t)m->call.in, m->src, m->src_elems, ENGINE_FIXED_BITS,
                     0x1p8 / e->plan->groups.count))
        atomic_store(&e->beyond, 1);
}

static int sends_differences(const struct engine_move *m)
{
    return m->outer && m->engine->step.lane[STEP_OUTER_REDUCE].code;
}

/* The master less the anchor, which has the same layout: an outer step of rate 0 leaves it in
   the momentum, which may not be NaN before. */
static void pack_difference(struct engine_move *m)
{
    static const struct kern_outer difference = {.share = 1};
    struct kern *k = &m->engine->device.mover;
    float *to = (float *)(uintptr_t)m->call.in;

    device_zero(m->engine->device.move, to, m->src_elems * (int64_t)sizeof *to);
    k->op->outer(k, (float *)(uintptr_t)m->src, to, m->outer->anchor, DTYPE_F32, m->src_elems,
                 &difference);
}

/* The outer step, from the sum of the masters, or of their differences to the anchor; without a
   gather of the anchor the master is laid out as it is. */
static void take_outer_step(struct engine_move *m)
{
    const struct engine *e = m->engine;
    struct kern *k = &m->engine->device.mover;
    struct engine_unit *u = m->outer;
    float *from = sends_differences(m) ? (float *)(uintptr_t)m->call.in : u->anchor;

    if (from != u->anchor)
        device_zero(e->device.move, from, m->dst_elems * (int64_t)sizeof *from);
    k->op->outer(k, from, u->momentum, m->call.out, m->wire, m->dst_elems, &e->outer);
    if (from != u->anchor)
        k->op->accumulate(k, u->anchor, DTYPE_F32, from, DTYPE_F32, m->dst_elems);
    if (!e->step.shape.has[STEP_OUTER_GATHER])
        k->op->convert(k, u->master, DTYPE_F32, u->anchor, DTYPE_F32, m->dst_elems);
}

/* First operation of a transfer. */
static enum stream_state pack_source(void *arg, struct err *err)
{
    struct engine_move *m = arg;
    struct kern *k = &m->engine->device.mover;
    struct err kept;

    (void)err;
    if (!m->requests) {
        /* The source may still be in transfer on another stream, or being computed. */
        if ((m->after && !stream_done(m->after, m->after_ticket)) ||
            !device_done(m->requested, &kept))
            return STREAM_IDLE;
        if (m->start_s)
            *m->start_s = tick_now_s();
        if (!m->src_elems)
            return STREAM_DONE;
        if (m->outer && m->engine->exact)
            pack_exact(m);
        else if (sends_differences(m))
            pack_difference(m);
        else
            k->op->convert(k, (void *)(uintptr_t)m->call.in, m->wire, m->src, m->src_type,
                           m->src_elems);
        record_requested(m);
    }
    return move_has_ended(m) ? STREAM_DONE : STREAM_IDLE;
}

/* Last operation of a transfer. */
static enum stream_state store_result(void *arg, struct err *err)
{
    struct engine_move *m = arg;
    struct kern *k = &m->engine->device.mover;

    (void)err;
    if (!m->requests && m->dst_elems) {
        if (m->outer)
            take_outer_step(m);
        else if (m->add)
            k->op->accumulate(k, m->dst, m->dst_type, m->call.out, m->wire, m->dst_elems);
        else
            k->op->convert(k, m->dst, m->dst_type, m->call.out, m->wire, m->dst_elems);
        record_requested(m);
    }
    if (m->dst_elems && !move_has_ended(m))
        return STREAM_IDLE;
    if (m->end_s)
        *m->end_s = tick_now_s();
    return STREAM_DONE;
}

static int64_t push_move(struct engine *e, enum step_lane lane, struct engine_move *m,
                         const struct engine_issue *issue)
{
    struct stream *s = e->stream[lane];
    const struct coll_traffic *sent = &m->call.handle->mine;

    m->engine = e;
    m->moved = e->device.moved[lane];
    m->after = issue->after;
    m->after_ticket = issue->ticket;
    coll_traffic_add(&e->word.sent, sent, 1);
    if (issue->time) {
        issue->time->slow_bytes += sent->slow_out;
        issue->time->fast_bytes += sent->fast_out;
    }
    if (m->src_elems || m->start_s || m->after || e->device.gpu)
        stream_push(s, (struct stream_op){.poll = pack_source, .arg = m});
    int64_t ticket = coll_push(s, &m->call);
    if (m->dst_elems || m->end_s)
        ticket = stream_push(s, (struct stream_op){.poll = store_result, .arg = m});
    return ticket;
}

/* Gathers one of the two vectors of a unit to its offset in the slot; NULL: the vector is
 * empty. */
static struct engine_move *gather_part(struct engine *e, int unit, int slot, int part)
{
    struct engine_unit *u = &e->unit[unit];
    const struct plan *p = e->plan;
    int coded = e->step.lane[STEP_GATHER].code, apart = coded || p->param_type != e->seen_type;
    struct engine_size *size = part ? u->frozen_size : u->size;
    char *from = part ? engine_frozen(e, u) : u->params, *to = e->buffers.slot[slot];

    if (!size)
        return NULL;
    e->slot[slot].move[part] = (struct engine_move){
        .call = {.handle = &size->handle[STEP_GATHER],
                 .in = apart ? e->buffers.gather_send : from,
                 .out = to + (part ? u->trained * dtype_bytes(e->seen_type) : 0),
                 .round = coded},
        .wire = e->seen_type,
        .src = from,
        .src_type = p->param_type,
        .src_elems = !apart ? 0
                     : part ? u->share[ENGINE_FROZEN].elems
                            : u->share[ENGINE_PARAMS].elems,
        .requested = e->slot[slot].used,
    };
    return &e->slot[slot].move[part];
}

static struct engine_move *reduce_of(struct engine *e, int unit, int bucket)
{
    struct engine_unit *u = &e->unit[unit];
    struct engine_bucket *b = &e->bucket[bucket];

    b->move = (struct engine_move){
        .call = {.handle = &u->size->handle[STEP_REDUCE],
                 .in = e->buffers.bucket[bucket],
                 .out = e->buffers.reduce_recv,
                 .residual = u->residual[STEP_REDUCE]},
        .wire = e->reduce_type,
        .dst = u->grads,
        .dst_type = e->grad_type,
        .dst_elems = u->share[ENGINE_GRADS].elems,
        .add = 1,
        .requested = b->packed,
    };
    return &b->move;
}

/* Converts the accumulated gradient from its layout to the optimizer's, in place. */
static struct engine_move *convert_of(struct engine *e, int unit)
{
    struct engine_unit *u = &e->unit[unit];

    u->convert = (struct engine_move){
        .call = {.handle = &u->size->handle[STEP_CONVERT],
                 .in = e->buffers.convert_send,
                 .out = e->buffers.convert_recv,
                 .residual = u->residual[STEP_CONVERT],
                 .round = e->step.lane[STEP_CONVERT].code},
        .wire = e->reduce_type,
        .src = u->grads,
        .src_type = e->grad_type,
        .src_elems = u->share[ENGINE_GRADS].elems,
        .dst = u->grads,
        .dst_type = e->grad_type,
        .dst_elems = u->share[ENGINE_OPTIM].elems,
        .requested = u->added,
    };
    return &u->convert;
}

/* Sends new parameters, from the master, to their layout. */
static struct engine_move *sync_of(struct engine *e, int unit)
{
    struct engine_unit *u = &e->unit[unit];
    const struct plan *p = e->plan;
    int convert = p->param_type != e->seen_type;

    u->sync = (struct engine_move){
        .call = {.handle = &u->size->handle[STEP_SYNC],
                 .in = e->buffers.sync_send,
                 .out = convert ? e->buffers.sync_recv : u->params,
                 .round = e->step.lane[STEP_SYNC].code},
        .wire = e->seen_type,
        .src = u->master,
        .src_type = DTYPE_F32,
        .src_elems = u->share[ENGINE_OPTIM].elems,
        .dst = u->params,
        .dst_type = p->param_type,
        .dst_elems = convert ? u->share[ENGINE_PARAMS].elems : 0,
        .requested = u->updated,
    };
    return &u->sync;
}

/* Sums the masters of the groups, each rank those elements that it holds for its group. */
static struct engine_move *outer_reduce_of(struct engine *e, int unit)
{
    struct engine_unit *u = &e->unit[unit];
    const struct engine_share *o = &u->share[ENGINE_OPTIM], *g = &u->share[ENGINE_GROUP];

    u->outer_reduce = (struct engine_move){
        .call = {.handle = &u->size->handle[STEP_OUTER_REDUCE],
                 .in = e->buffers.outer_send,
                 .out = e->buffers.outer_recv,
                 .residual = u->residual[STEP_OUTER_REDUCE],
                 .round = e->step.lane[STEP_OUTER_REDUCE].code},
        .wire = e->outer_type,
        .src = g->elems ? u->master + layout_offset(o->range, o->ranges, g->range->lo) : NULL,
        .src_type = DTYPE_F32,
        .src_elems = g->elems,
        .dst = u->anchor,
        .dst_elems = u->share[ENGINE_OUTER].elems,
        .outer = u,
        .requested = u->updated,
    };
    return &u->outer_reduce;
}

static struct engine_move *outer_gather_of(struct engine *e, int unit)
{
    struct engine_unit *u = &e->unit[unit];

    u->outer_gather = (struct engine_move){
        .call = {.handle = &u->size->handle[STEP_OUTER_GATHER],
                 .in = e->buffers.adopt_send,
                 .out = e->buffers.adopt_recv},
        .wire = DTYPE_F32,
        .src = u->anchor,
        .src_type = DTYPE_F32,
        .src_elems = u->share[ENGINE_OUTER].elems,
        .dst = u->master,
        .dst_type = DTYPE_F32,
        .dst_elems = u->share[ENGINE_OPTIM].elems,
        .requested = u->updated,
    };
    return &u->outer_gather;
}

int64_t engine_move(struct engine *e, enum step_lane lane, int unit, int buffer,
                    const struct engine_issue *issue)
{
    struct device_event *requested = lane == STEP_GATHER    ? e->slot[buffer].used
                                     : lane == STEP_REDUCE  ? e->bucket[buffer].packed
                                     : lane == STEP_CONVERT ? e->unit[unit].added
                                                            : e->unit[unit].updated;
    struct step_time *t = issue->time;

    device_record(e->device.compute, requested);
    if (t)
        *t = (struct step_time){.ran = 1, .issued_s = tick_now_s()};
    if (lane == STEP_GATHER) {
        /* The frozen part needs no sync, so it goes first. */
        struct engine_move *last = gather_part(e, unit, buffer, 0),
                           *first = gather_part(e, unit, buffer, 1);
        const struct engine_issue at_once = {.time = issue->time};
        int64_t ticket = 0;
        if (issue->time) {
            (first ? first : last)->start_s = &issue->time->start_s;
            (last ? last : first)->end_s = &issue->time->end_s;
        }
        if (first)
            ticket = push_move(e, STEP_GATHER, first, &at_once);
        return last ? push_move(e, STEP_GATHER, last, issue) : ticket;
    }
    struct engine_move *m = lane == STEP_REDUCE         ? reduce_of(e, unit, buffer)
                            : lane == STEP_CONVERT      ? convert_of(e, unit)
                            : lane == STEP_OUTER_REDUCE ? outer_reduce_of(e, unit)
                            : lane == STEP_OUTER_GATHER ? outer_gather_of(e, unit)
                                                        : sync_of(e, unit);
    m->start_s = t ? &t->start_s : NULL;
    m->end_s = t ? &t->end_s : NULL;
    return push_move(e, lane, m, issue);
}

int engine_copy(const struct engine *e, void *out, enum dtype to_type, struct engine_shard from,
                struct range at, struct err *err)
{
    const struct engine_share *s = from.share;
    int64_t first = layout_offset(s->range, s->ranges, at.lo);

    if (at.lo == at.hi)
        return 0;
    /* A piece lies inside one range of the shard, as G ranges lie inside I and N ranges. */
    assert(first >= 0 &&
           layout_offset(s->range, s->ranges, at.hi - 1) == first + at.hi - 1 - at.lo);
    if (from.coded.data) {
        assert(to_type == DTYPE_F32);
        return engine_moment(e, &from.coded, first, out, at.hi - at.lo, 0, err);
    }
    return engine_get(e, out, to_type, (const char *)from.at + first * dtype_bytes(from.type),
                      from.type, at.hi - at.lo, err);
}
