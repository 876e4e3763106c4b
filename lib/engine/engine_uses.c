/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows when a unit's parameters are gathered, where they lie meanwhile, and when the place is
 * free again.  A micro-step has 2 V uses of units, forward 0 .. V-1 and back; the last `keep`
 * uses of the forward stay for the backward, in places of their own:
 *
 *     V = 4, keep = 1, prefetch = 1: ring places a b, kept place k
 *     use      F0 F1 F2 F3 B3 B2 B1 B0 | F0 ...
 *     place     a  b  a  k  k  b  a  b |  a
 *     gather    0  1  2  3  -  4  5  6 |  7       gathers 0 and 1 begin before use F0
 */
#include "engine/engine_inside.h"

struct use {
    int visit, back, kept;
    int64_t ring; /* how many gathers into the ring come before its own */
};

static struct use use_at(const struct engine *e, int64_t use)
{
    int visits = e->model->visits, at = (int)(use % (2 * visits)), own = visits - e->keep;
    struct use u = {.back = at >= visits};

    u.visit = u.back ? 2 * visits - 1 - at : at;
    u.kept = u.visit >= own;
    u.ring = use / (2 * visits) * 2 * own + (u.back ? at - 2 * e->keep : at);
    return u;
}

/* The use that gather number `gather` is for, in its micro-step. */
static int64_t use_of_gather(const struct engine *e, int64_t gather)
{
    int visits = e->model->visits, all = 2 * visits - e->keep;
    int64_t at = gather % all;

    return gather / all * 2 * visits + (at < visits ? at : at + e->keep);
}

static struct engine_slot *slot_of(struct engine *e, struct use u)
{
    int at =
        u.kept ? e->ring + u.visit - (e->model->visits - e->keep) : (int)(u.ring % e->ring);

    return &e->slot[at];
}

static struct engine_unit *unit_of(struct engine *e, struct use u, int *unit)
{
    *unit = model_unit_of_visit(e->model, u.visit);
    return &e->unit[*unit];
}

static void push(struct engine *e, int64_t use)
{
    struct use at = use_at(e, use);
    struct engine_slot *slot = slot_of(e, at);
    int unit, coded = e->coded[ENGINE_GATHER];
    int apart = coded || e->plan->param_type != e->plan->wire_type;
    struct engine_unit *u = unit_of(e, at, &unit);

    slot->move = (struct engine_move){
        .call = {.handle = &u->size->handle[ENGINE_GATHER],
                 .in = apart ? e->gather_send : u->params,
                 .out = slot->recv},
        .wire = e->plan->wire_type,
        .src = u->params,
        .src_type = e->plan->param_type,
        .src_elems = apart ? u->params_elems : 0,
        .round = coded,
        .behind = e->syncs,
        .behind_ticket = u->synced,
        .behind_event = u->synced_event,
    };
    slot->event = engine_trace_move(e, &slot->move, ENGINE_GATHERED, ENGINE_LANE_GATHERS, unit,
                                    (int)(use / (2 * e->model->visits)));
    slot->ticket = engine_move_push(e, e->gathers, &slot->move);
    slot->busy = 1;
}

/* As many gathers as are wanted ahead and have a place. */
static void push_more(struct engine *e)
{
    while (e->pushed < e->all_gathers && e->pushed - e->taken <= e->plan->prefetch) {
        int64_t use = use_of_gather(e, e->pushed);
        if (slot_of(e, use_at(e, use))->busy)
            return;
        push(e, use);
        e->pushed++;
    }
}

void engine_uses_begin(struct engine *e)
{
    e->use = e->pushed = e->taken = 0;
    if (e->there[ENGINE_GATHER])
        push_more(e);
}

const float *engine_uses_take(struct engine *e, struct err *err)
{
    struct use at = use_at(e, e->use);
    int unit;
    struct engine_unit *u = unit_of(e, at, &unit);
    const void *from = u->params;
    enum dtype type = e->plan->param_type;

    if (e->there[ENGINE_GATHER]) {
        struct engine_slot *slot = slot_of(e, at);
        e->taken += !(at.kept && at.back);
        if (engine_wait(e, e->gathers, slot->ticket, slot->event, err))
            return NULL;
        from = slot->recv;
        type = e->plan->wire_type;
    } else if (engine_wait(e, e->syncs, u->synced, u->synced_event, err)) {
        return NULL;
    }
    if (type == DTYPE_F32)
        return from;
    dtype_convert(e->full, DTYPE_F32, from, type, u->elems);
    return e->full;
}

void engine_uses_give(struct engine *e)
{
    struct use at = use_at(e, e->use++);

    if (!e->there[ENGINE_GATHER])
        return;
    slot_of(e, at)->busy = at.kept && !at.back;
    push_more(e);
}
