/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows where the values of a shard file come from: this rank's states, now or as they were
 * when they were copied, or the rank that owns the shard.
 */
#include <stdlib.h>

#include "train/train_inside.h"

/* Of the G shard of `rank`, of what trains of the unit; owned by the caller. */
static struct range *g_ranges(const struct train_images *s, int rank, int unit, int *n)
{
    const struct layout *l = s->shape->layout;
    struct range *r = mem_new((size_t)layout_ranges_max(l), sizeof *r);

    *n = layout_ranges(l, LETTER_G, rank, s->shape->model->unit[unit].trained, r);
    return r;
}

/* Whether this rank has [at.lo, at.hi) of a vector of that many elements, in one range. */
static int holds(const struct train_images *s, enum letter letter, int64_t elems,
                 struct range at)
{
    const struct layout *l = s->shape->layout;
    struct range *r = mem_new((size_t)layout_ranges_max(l), sizeof *r);
    int n = layout_ranges(l, letter, s->train->world->rank, elems, r);
    int64_t first = layout_offset(r, n, at.lo);
    int has = first >= 0 && layout_offset(r, n, at.hi - 1) == first + at.hi - 1 - at.lo;

    mem_free(r);
    return has;
}

static void place_unit(struct train_images *s, struct train_image *i, int unit)
{
    int64_t trained = s->shape->model->unit[unit].trained;
    struct train_copy *c = &i->copy[unit];
    int n;
    struct range *r = g_ranges(s, i->rank, unit, &n);

    c->held = 1;
    for (int k = 0; i->k && k < n; k++)
        c->held &= holds(s, s->train->plan.strategy.optimizer, trained, r[k]);
    for (int k = 0; c->held && k < TRAIN_MOMENTS; k++)
        c->state[k] = arena_take(
            &s->arena, 4 * layout_elems(s->shape->layout, LETTER_G, i->rank, trained));
    mem_free(r);
}

static void place_all(struct train_images *s)
{
    for (struct train_image *i = s->image; i < s->image + s->images; i++)
        for (int u = 0; u < s->shape->model->units; u++)
            place_unit(s, i, u);
}

void train_images_add(struct train_images *s, int rank, int k)
{
    s->image = mem_grow(s->image, &s->room, (size_t)s->images + 1, sizeof *s->image);
    s->image[s->images++] = (struct train_image){.set = s, .rank = rank, .k = k};
}

int train_images_place(struct train_images *s, const char *what, struct err *err)
{
    for (int i = 0; i < s->images; i++)
        s->image[i].copy = mem_new((size_t)s->shape->model->units, sizeof *s->image[i].copy);
    place_all(s); /* measures */
    int64_t bytes = s->arena.used;
    int rc = arena_init(&s->arena, bytes, what, err);
    if (rc == 0)
        place_all(s);
    return world_agree(s->train->world, rc, err);
}

static int take_unit(struct train_images *s, const struct train_image *i, int unit,
                     struct err *err)
{
    int n, rc = 0;
    struct range *r = g_ranges(s, i->rank, unit, &n);

    for (int state = 0; rc == 0 && state < TRAIN_MOMENTS; state++) {
        float *to = i->copy[unit].state[state];
        for (int k = 0; rc == 0 && k < n; to += r[k].hi - r[k].lo, k++)
            rc = engine_values(s->train->engine, unit, state, r[k], DTYPE_F32, to, err);
    }
    mem_free(r);
    return rc;
}

int train_images_take(struct train_images *s, struct err *err)
{
    s->copied = 1;
    for (struct train_image *i = s->image; i < s->image + s->images; i++)
        for (int u = 0; u < s->shape->model->units; u++)
            if (i->copy[u].held && take_unit(s, i, u, err))
                return -1;
    return 0;
}

/* params and master are the same values, in the model's type and in f32 */
int train_image_fill(void *arg, int unit, int state, struct range at, void *out,
                     struct err *err)
{
    const struct train_image *i = arg;
    const struct train_images *s = i->set;
    const struct model_unit *u = &s->shape->model->unit[unit];
    enum dtype type = s->shape->state[state].type;
    int from = state > 0 ? state - 1 : 0, trains = at.lo < u->trained, n;

    if (trains && s->copied && i->copy[unit].held) {
        struct range *r = g_ranges(s, i->rank, unit, &n);
        int64_t first = layout_offset(r, n, at.lo);
        dtype_convert(out, type, i->copy[unit].state[from] + first, DTYPE_F32, at.hi - at.lo);
        mem_free(r);
        return 0;
    }
    struct range frozen = {at.lo - u->trained, at.hi - u->trained};
    if (!i->k ||
        (!trains && holds(s, s->train->plan.strategy.params, u->elems - u->trained, frozen)))
        return engine_values(s->train->engine, unit, from, at, type, out, err);
    int64_t bytes, most = (at.hi - at.lo) * dtype_bytes(type);
    return world_ask(s->service, i->rank, (int64_t[]){unit, state, at.lo, at.hi}, out, most,
                     &bytes, err);
}

void train_images_release(struct train_images *s)
{
    for (int i = 0; i < s->images; i++)
        mem_free(s->image[i].copy);
    mem_free(s->image);
    arena_release(&s->arena);
}
