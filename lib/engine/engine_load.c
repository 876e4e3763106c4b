/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how states come in and go out: checkpoints, fresh weights, the gradient of a step.  A
 * few elements at a time, for what is on a device goes through a piece of the host's memory.
 */
#include "engine/engine_inside.h"

#include <assert.h>

struct loader {
    struct engine *engine;
    int unit, state;
    enum dtype type, seen;
    engine_source source;
    void *arg;
};

/* Into a packed shard of the device, or (host) of the host. */
static int load_ranges(const struct loader *l, const struct range *ranges, int count, char *to,
                       int host, struct err *err)
{
    const struct engine *e = l->engine;
    struct kern near = e->device.near;

    for (int n = 0; n < count; n++)
        for (struct range r = ranges[n]; r.lo < r.hi;) {
            struct range part = {r.lo, r.hi - r.lo < ENGINE_PIECE ? r.hi : r.lo + ENGINE_PIECE};
            int64_t elems = part.hi - part.lo;
            if (l->source(l->arg, l->unit, l->state, &part, 1, e->piece, err))
                return -1;
            if (host)
                near.op->round(&near, to, l->type, e->piece, l->seen, elems);
            else if (engine_put_params(e, to, l->type, e->piece, l->seen, elems, err))
                return -1;
            to += elems * dtype_bytes(l->type);
            r.lo = part.hi;
        }
    return 0;
}

/* As a coded sync would have left them, so that a run that goes on sees what it saw. */
static int load_coded(const struct loader *from, struct err *err)
{
    struct engine *e = from->engine;
    const struct plan *p = e->plan;
    struct engine_unit *u = &e->unit[from->unit];
    struct loader l = *from;
    struct kern near = e->device.near;

    if (!u->size)
        return 0;
    const struct coll_handle *h = &u->size->handle[ENGINE_SYNC];
    int convert = p->param_type != p->wire_type, gpu = e->device.gpu;
    void *to = gpu ? coll_stage(h, EXEC_OUT) : convert ? e->sync_recv : u->params;
    l.type = l.seen = p->wire_type;
    if (load_ranges(&l, u->params_range, u->params_ranges, to, 1, err))
        return -1;
    coll_round(h, EXEC_OUT, to, NULL);
    if (!gpu && convert)
        near.op->convert(&near, u->params, p->param_type, to, p->wire_type, u->params_elems);
    if (!gpu)
        return 0;
    for (int64_t at = 0, n; at < u->params_elems; at += n) {
        n = u->params_elems - at < ENGINE_PIECE ? u->params_elems - at : ENGINE_PIECE;
        dtype_convert(e->piece, DTYPE_F32, (char *)to + at * dtype_bytes(p->wire_type),
                      p->wire_type, n);
        if (engine_put_params(e, (char *)u->params + at * dtype_bytes(p->param_type),
                              p->param_type, e->piece, p->param_type, n, err))
            return -1;
    }
    return 0;
}

static int load_states(const struct loader *from, int states, struct err *err)
{
    const struct engine_unit *u = &from->engine->unit[from->unit];
    float *const state[] = {u->master, u->m, u->v};
    struct loader l = *from;

    l.type = l.seen = DTYPE_F32;
    for (l.state = 0; u->trained && l.state < states; l.state++) {
        float *to = state[l.state];
        int rc =
            from->engine->device.gpu
                ? load_ranges(&l, u->optim_range, u->optim_ranges, (char *)to, 0, err)
                : l.source(l.arg, l.unit, l.state, u->optim_range, u->optim_ranges, to, err);
        if (rc)
            return -1;
    }
    return 0;
}

/* What trains of them.  Where no sync travels the master is here, as it was read. */
static int load_params(const struct loader *l, struct err *err)
{
    struct engine *e = l->engine;
    struct engine_unit *u = &e->unit[l->unit];

    if (!e->there[ENGINE_SYNC]) {
        engine_sync(e, l->unit);
        return 0;
    }
    return e->coded[ENGINE_SYNC]
               ? load_coded(l, err)
               : load_ranges(l, u->params_range, u->params_ranges, u->params, 0, err);
}

int engine_load(struct engine *e, engine_source source, void *arg, int moments, struct err *err)
{
    enum dtype type = e->plan->param_type;

    for (int i = 0; i < e->model->units; i++) {
        struct engine_unit *u = &e->unit[i];
        struct loader l = {e, i, 0, type, e->seen_type, source, arg};
        if (load_states(&l, moments ? 3 : 1, err))
            return -1;
        if (load_params(&l, err) ||
            load_ranges(&l, u->frozen_range, u->frozen_ranges, engine_frozen(e, u), 0, err))
            return -1;
    }
    engine_settle(e);
    engine_residuals_clear(e);
    return 0;
}

int engine_values(const struct engine *e, int unit, int state, struct range at, enum dtype type,
                  void *out, struct err *err)
{
    const struct engine_unit *u = &e->unit[unit];
    const float *from[3] = {u->master, u->m, u->v};
    struct engine_shard trained = {from[state], DTYPE_F32, u->optim_range, u->optim_ranges};
    struct engine_shard frozen = {engine_frozen(e, u), e->plan->param_type, u->frozen_range,
                                  u->frozen_ranges};

    assert(at.lo < u->trained || state == 0);
    return engine_copy(e, out, type, at.lo < u->trained ? trained : frozen, at, err);
}

int engine_gradient(const struct engine *e, int unit, struct range at, float *out,
                    struct err *err)
{
    const struct engine_unit *u = &e->unit[unit];
    struct engine_shard from = {u->grads, e->grad_type, u->optim_range, u->optim_ranges};

    return engine_copy(e, out, DTYPE_F32, from, at, err);
}
