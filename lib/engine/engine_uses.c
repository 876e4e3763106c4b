/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows when a unit's parameters are gathered, where they lie meanwhile, and when the place is
 * free again.  A micro-step has 2 V uses of units, forward 0 .. V-1 and back (less where the
 * first ones have nothing that trains); the last `keep` uses of the forward stay for the
 * backward, in places of their own:
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
    int visits = e->model->visits, at = (int)(use % e->micro_uses);
    struct use u = {.back = at >= visits};

    u.visit = u.back ? 2 * visits - 1 - at : at;
    u.kept = u.visit >= visits - e->kept;
    u.ring =
        use / e->micro_uses * (e->micro_uses - 2 * e->kept) + (u.back ? at - 2 * e->kept : at);
    return u;
}

/* The use that gather number `gather` is for, in its micro-step. */
static int64_t use_of_gather(const struct engine *e, int64_t gather)
{
    int visits = e->model->visits, all = e->micro_uses - e->kept;
    int64_t at = gather % all;

    return gather / all * e->micro_uses + (at < visits ? at : at + e->kept);
}

static struct engine_slot *slot_of(struct engine *e, struct use u)
{
    int at =
        u.kept ? e->ring + u.visit - (e->model->visits - e->kept) : (int)(u.ring % e->ring);

    return &e->slot[at];
}

/* One of the two vectors of a unit, to where it lies in the whole of it. */
static void push_part(struct engine *e, struct engine_slot *slot, int part, int unit, int micro)
{
    struct engine_unit *u = &e->unit[unit];
    const struct plan *p = e->plan;
    int coded = e->coded[ENGINE_GATHER], apart = coded || p->param_type != p->wire_type;
    struct engine_move *m = &slot->move[part];
    struct engine_size *size = part ? u->frozen_size : u->size;
    int64_t shard = part ? u->frozen_elems : u->params_elems;
    char *from = u->params, *to = slot->recv;

    if (!size)
        return;
    if (part) {
        from = engine_frozen(e, u);
        to += u->trained * dtype_bytes(p->wire_type);
    }
    *m = (struct engine_move){
        .call = {.handle = &size->handle[ENGINE_GATHER],
                 .in = apart ? e->gather_send : from,
                 .out = to,
                 .round = coded},
        .wire = p->wire_type,
        .src = from,
        .src_type = p->param_type,
        .src_elems = apart ? shard : 0,
        .after = {slot->used, part ? NULL : u->updated},
        .behind = part ? NULL : e->syncs,
        .behind_ticket = u->synced,
        .behind_event = part ? -1 : u->synced_event,
    };
    slot->event = engine_trace_move(e, m, ENGINE_GATHERED, ENGINE_LANE_GATHERS, unit, micro);
    slot->ticket = engine_move_push(e, ENGINE_GATHER, m);
}

static void push(struct engine *e, int64_t use)
{
    struct use at = use_at(e, use);
    struct engine_slot *slot = slot_of(e, at);
    int unit = model_unit_of_visit(e->model, at.visit);

    /* What is frozen needs no sync: it goes first. */
    for (int part = ENGINE_PARTS - 1; part >= 0; part--)
        push_part(e, slot, part, unit, (int)(use / e->micro_uses));
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

void engine_uses_begin(struct engine *e, int micros, int back)
{
    int visits = e->model->visits, backs = back ? visits - e->model->first_trained : 0;

    e->use = e->pushed = e->taken = 0;
    e->micro_uses = visits + backs;
    e->kept = e->keep < backs ? e->keep : backs;
    e->all_gathers = (int64_t)micros * (e->micro_uses - e->kept);
    if (e->there[ENGINE_GATHER])
        push_more(e);
}

const void *engine_uses_take(struct engine *e, struct err *err)
{
    struct use at = use_at(e, e->use);
    struct engine_unit *u = &e->unit[model_unit_of_visit(e->model, at.visit)];
    const void *from = u->params;
    enum dtype type = e->plan->param_type;
    struct kern *k = &e->device.kern;

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
    if (type == e->hand_type)
        return from;
    k->op->convert(k, e->full, e->hand_type, from, type, u->elems);
    return e->full;
}

void engine_uses_give(struct engine *e)
{
    struct use at = use_at(e, e->use++);

    if (!e->there[ENGINE_GATHER])
        return;
    struct engine_slot *slot = slot_of(e, at);
    slot->busy = at.kept && !at.back;
    if (!slot->busy)
        device_record(e->device.compute, slot->used);
    push_more(e);
}
