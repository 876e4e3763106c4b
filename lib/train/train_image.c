/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fills shard files with values: from this rank's states, now or when they were copied, or from
 * the rank that owns the shard.
 */

#include "train/train_inside.h"

static const int first_state[PARTS + 1] = {0, TRAIN_STATES, TRAIN_STATES + 1};

/* The elements of a part of a unit; .lo: its first one. */
static struct range part_range(const struct train_images *s, enum train_part part, int unit)
{
    const struct model_unit *u = &s->shape->model->unit[unit];

    return part == PART_TRAINED ? (struct range){0, u->trained}
                                : (struct range){u->trained, u->elems};
}

static int64_t part_elems(const struct train_images *s, enum train_part part, int unit)
{
    struct range r = part_range(s, part, unit);

    return r.hi - r.lo;
}

/* Whether a state of a part, as engine_values counts it, is of each group alone. */
static int is_of_group(const struct train_images *s, enum train_part part, int state)
{
    return part == PART_TRAINED && s->shape->state[state + 1].groups > 1;
}

/* Ranges of the shard of `rank` in a part of the unit; owned by the caller. */
static struct range *image_ranges(const struct train_images *s, int rank, enum train_part part,
                                  int state, int unit, int *n)
{
    const struct layout *l = s->shape->layout;
    enum letter letter = is_of_group(s, part, state) ? LETTER_I : LETTER_G;
    struct range *r = mem_new((size_t)layout_ranges_max(l), sizeof *r);

    *n = layout_ranges(l, letter, rank, part_elems(s, part, unit), r);
    return r;
}

/* Whether `holder` has [at.lo, at.hi) of a vector of `elems` elements, in one range. */
static int image_holds(const struct train_images *s, enum letter letter, int holder,
                       int64_t elems, struct range at)
{
    const struct layout *l = s->shape->layout;
    struct range *r = mem_new((size_t)layout_ranges_max(l), sizeof *r);
    int n = layout_ranges(l, letter, holder, elems, r);
    int64_t first = layout_offset(r, n, at.lo);
    int has = first >= 0 && layout_offset(r, n, at.hi - 1) == first + at.hi - 1 - at.lo;

    mem_free(r);
    return has;
}

/* The end of a part's states: without periods there is no outer momentum. */
static int image_end(const struct train_images *s, enum train_part part)
{
    return part == PART_TRAINED ? s->shape->states - 1 : first_state[part + 1];
}

/* Whether the states of `holder` lack some of that part of the shard of `rank`. */
static int lacks(const struct train_images *s, int holder, int rank, enum train_part part)
{
    const struct plan *plan = &s->train->plan;
    const struct groups *g = &s->shape->layout->groups;
    struct plan_strategy p = plan_inner(&plan->settings, plan->strategy);
    int alike = g->group_of[holder] == g->group_of[rank], has = 1, n;

    for (int state = 0; has && state < image_end(s, part) - first_state[part]; state++) {
        enum letter letter = part != PART_TRAINED       ? p.params
                             : state < TRAIN_STATES - 1 ? p.optimizer
                                                        : plan->outer;
        has = alike || !is_of_group(s, part, state);
        for (int u = 0; has && u < s->shape->model->units; u++) {
            struct range *r = image_ranges(s, rank, part, state, u, &n);
            for (int k = 0; has && k < n; k++)
                has = image_holds(s, letter, holder, part_elems(s, part, u), r[k]);
            mem_free(r);
        }
    }
    return !has;
}

/* Places a part in the order in which it is sent: the same for its owner and its holder. */
static void place_part(struct train_images *s, struct train_image *i, enum train_part part)
{
    int64_t before = s->arena.used;

    i->data[part] = arena_take(&s->arena, 0);
    for (int u = 0; u < s->shape->model->units; u++)
        for (int k = first_state[part]; k < image_end(s, part); k++) {
            int n;
            struct range *r = image_ranges(s, i->rank, part, k - first_state[part], u, &n);
            int64_t elems = 0;
            while (n-- > 0)
                elems += r[n].hi - r[n].lo;
            mem_free(r);
            i->state[u][k] = arena_take(&s->arena, 4 * elems);
        }
    i->bytes[part] = s->arena.used - before;
}

static void place_all(struct train_images *s)
{
    for (struct train_image *i = s->image; i < s->image + s->images; i++)
        for (int part = 0; part < PARTS; part++)
            if (part == PART_TRAINED || i->lacks[part])
                place_part(s, i, part);
}

void train_images_add(struct train_images *s, int rank, int k)
{
    s->image = mem_grow(s->image, &s->space, (size_t)s->images + 1, sizeof *s->image);
    s->image[s->images++] = (struct train_image){.set = s, .rank = rank, .k = k};
}

/* Lists the parts that this rank receives for the copies it holds, and those it sends to its
   holders. */
static void list_parcels(struct train_images *s)
{
    const struct groups *g = &s->shape->layout->groups;
    int most = PARTS * (s->images + s->shape->copies);

    s->parcel = mem_new((size_t)most, sizeof *s->parcel);
    for (int part = 0; part < PARTS; part++) {
        for (struct train_image *i = s->image + 1; i < s->image + s->images; i++)
            if ((i->lacks[part] = lacks(s, s->train->world->rank, i->rank, part)))
                s->parcel[s->parcels++] = (struct world_parcel){i->rank, 1, part, NULL, 0};
        for (int k = 1; k <= s->shape->copies; k++) {
            int holder = ckpt_copy_holder(g, s->image->rank, k);
            if (!lacks(s, holder, s->image->rank, part))
                continue;
            s->image->lacks[part] = 1;
            s->parcel[s->parcels++] = (struct world_parcel){holder, 0, part, NULL, 0};
        }
    }
}

static void fill_parcels(struct train_images *s)
{
    for (struct world_parcel *p = s->parcel; p < s->parcel + s->parcels; p++) {
        const struct train_image *i = s->image;
        while (p->receives && i->rank != p->peer)
            i++;
        p->data = i->data[p->tag];
        p->bytes = i->bytes[p->tag];
    }
}

int train_images_place(struct train_images *s, const char *what, struct err *err)
{
    for (int i = 0; i < s->images; i++)
        s->image[i].state = mem_new((size_t)s->shape->model->units, sizeof *s->image[i].state);
    list_parcels(s);
    place_all(s); /* measures */
    int64_t bytes = s->arena.used;
    int rc = arena_init(&s->arena, bytes, what, err);
    if (rc == 0) {
        place_all(s);
        fill_parcels(s);
    }
    return world_agree(s->train->world, rc, err);
}

static int take_unit(struct train_images *s, const struct train_image *i, enum train_part part,
                     int unit, struct err *err)
{
    int64_t at = part_range(s, part, unit).lo;
    int first = first_state[part], n, rc = 0;

    for (int state = first; rc == 0 && state < image_end(s, part); state++) {
        struct range *r = image_ranges(s, i->rank, part, state - first, unit, &n);
        float *to = i->state[unit][state];
        for (int k = 0; rc == 0 && k < n; to += r[k].hi - r[k].lo, k++)
            rc = engine_values(s->train->engine, unit, state - first,
                               (struct range){at + r[k].lo, at + r[k].hi}, DTYPE_F32, to, err);
        mem_free(r);
    }
    return rc;
}

int train_images_take(struct train_images *s, struct err *err)
{
    s->copied = 1;
    for (struct train_image *i = s->image; i < s->image + s->images; i++)
        for (int part = 0; part < PARTS; part++)
            for (int u = 0; i->data[part] && u < s->shape->model->units; u++)
                if (!(i->k && i->lacks[part]) && take_unit(s, i, part, u, err))
                    return -1;
    return 0;
}

/* params and master are the same values, in the model's type and in f32 */
int train_image_fill(void *arg, int unit, int state, struct range at, void *out,
                     struct err *err)
{
    const struct train_image *i = arg;
    const struct train_images *s = i->set;
    int64_t elems = at.hi - at.lo;
    at.lo = ckpt_element(s->shape->model, unit, &s->shape->state[state], at.lo);
    at.hi = at.lo + elems;
    enum train_part part = at.lo >= part_range(s, PART_TRAINED, unit).hi;
    enum dtype type = s->shape->state[state].type;
    int from = state > 0 ? state - 1 : 0, n;

    if (!s->copied || !i->data[part])
        return engine_values(s->train->engine, unit, from, at, type, out, err);
    struct range *r = image_ranges(s, i->rank, part, from, unit, &n);
    int64_t first = layout_offset(r, n, at.lo - part_range(s, part, unit).lo);
    const float *data = i->state[unit][first_state[part] + from];
    dtype_convert(out, type, data + first, DTYPE_F32, at.hi - at.lo);
    mem_free(r);
    return 0;
}

void train_images_release(struct train_images *s)
{
    for (int i = 0; i < s->images; i++)
        mem_free(s->image[i].state);
    mem_free(s->image);
    mem_free(s->parcel);
    arena_release(&s->arena);
}
