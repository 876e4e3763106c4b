/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the size of a step's arrays and allocates them from arenas. */
#include "step/step_place.h"

static int64_t place_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct step_unit step_largest(const struct step_space *s)
{
    struct step_unit l = {0};

    for (int i = 0; i < s->units; i++) {
        const struct step_unit *u = &s->unit[i];
        l.elems = place_most(l.elems, u->elems);
        l.trained = place_most(l.trained, u->trained);
        l.params = place_most(l.params, u->params);
        l.grads = place_most(l.grads, u->grads);
        l.optim = place_most(l.optim, u->optim);
        l.frozen = place_most(l.frozen, u->frozen);
        l.group = place_most(l.group, u->group);
        l.outer = place_most(l.outer, u->outer);
    }
    return l;
}

int64_t step_state_bytes(const struct step_space *s)
{
    int64_t bytes = 0;

    for (int i = 0; i < s->units; i++) {
        const struct step_unit *u = &s->unit[i];
        bytes += u->count * ((u->params + u->frozen) * dtype_bytes(s->param) +
                             u->grads * dtype_bytes(s->grad) + u->optim * 4 +
                             2 * moments_bytes(s->moments, u->optim) + u->outer * 2 * 4);
    }
    return bytes;
}

/* Takes `count` blocks from the arena; `to` is NULL if they are only measured. */
static void take_each(struct arena *arena, int64_t bytes, int count, void **to)
{
    for (int i = 0; i < count; i++) {
        void *at = arena_take(arena, bytes);
        if (to)
            to[i] = at;
    }
}

void step_place(const struct step_space *s, struct arena *shared, struct arena *own,
                struct step_states *states, struct step_buffers *out)
{
    struct step_buffers b = out ? *out : (struct step_buffers){0};
    struct step_unit l = step_largest(s);
    int w = dtype_bytes(s->wire), r = dtype_bytes(s->reduce), convert = s->param != s->wire;
    int p = dtype_bytes(s->param), g = dtype_bytes(s->grad);
    int gathers = s->has[STEP_GATHER], reduces = s->has[STEP_REDUCE];

    for (int i = 0; i < s->units; i++) {
        const struct step_unit *u = &s->unit[i];
        const struct step_states at = {
            .params = arena_take_each(shared, (u->params + u->frozen) * p, u->count),
            .grads = arena_take_each(own, place_most(u->grads, u->optim) * g, u->count),
            .master = arena_take_each(own, u->optim * 4, u->count),
            .m = arena_take_each(own, moments_bytes(s->moments, u->optim), u->count),
            .v = arena_take_each(own, moments_bytes(s->moments, u->optim), u->count),
            .anchor = arena_take_each(own, u->outer * 4, u->count),
            .momentum = arena_take_each(own, u->outer * 4, u->count)};
        if (states)
            states[i] = at;
    }
    if (gathers && (convert || s->coded))
        b.gather_send = arena_take(shared, place_most(l.params, l.frozen) * w);
    take_each(shared, l.elems * w, gathers ? s->slots : 0, b.slot);
    if ((gathers ? s->wire : s->param) != s->read)
        b.read = arena_take(own, l.elems * dtype_bytes(s->read));
    take_each(shared, l.trained * r, reduces ? s->buckets : 0, b.bucket);
    if (s->apart) {
        b.gradient = arena_take(own, s->apart * l.trained * 4);
        if (s->tied)
            b.tied_gradient = arena_take(own, s->apart * s->tied * 4);
    }
    for (int i = 0; i < 2 && s->moments != MOMENTS_F32; i++)
        b.moment[i] = arena_take(own, (l.optim < s->piece ? l.optim : s->piece) * 4);
    if (reduces)
        b.reduce_recv = arena_take(shared, l.grads * r);
    if (s->has[STEP_CONVERT]) {
        b.convert_send = arena_take(shared, l.grads * r);
        b.convert_recv = arena_take(shared, l.optim * r);
    }
    if (s->has[STEP_SYNC]) {
        b.sync_send = arena_take(shared, l.optim * w);
        if (convert)
            b.sync_recv = arena_take(shared, l.params * w);
    }
    if (s->has[STEP_OUTER_REDUCE]) {
        b.outer_send = arena_take(shared, l.group * dtype_bytes(s->outer));
        b.outer_recv = arena_take(shared, l.outer * dtype_bytes(s->outer));
    }
    if (s->has[STEP_OUTER_GATHER]) {
        b.adopt_send = arena_take(shared, l.outer * 4);
        b.adopt_recv = arena_take(shared, l.optim * 4);
    }
    if (out)
        *out = b;
}
