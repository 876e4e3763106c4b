/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that states are placed as their letters require and that copies agree.  Reads the
 * ranges that the engine works with, and counts for itself.
 */
#include "engine/engine_inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const state_names[] = {"params", "grads", "optimizer", "frozen params",
                                          "outer state"};

static int by_start(const void *a, const void *b)
{
    return MEM_ORDER((const struct range *)a, (const struct range *)b, lo);
}

/* Whether the ranges, in any order, cover `all` once; *bad: the first part that is not covered
   once. */
static int cover_once(struct range *r, int n, struct range all, struct range *bad, int *held)
{
    int64_t at = all.lo;

    qsort(r, (size_t)n, sizeof *r, by_start);
    for (int i = 0; i <= n; i++) {
        int64_t lo = i < n ? r[i].lo : all.hi;
        if (lo != at) {
            *held = lo < at ? 2 : 0;
            *bad = lo < at ? (struct range){lo, at} : (struct range){at, lo};
            return 0;
        }
        at = i < n ? r[i].hi : at;
    }
    return 1;
}

struct holding { /* one rank's part of one state of one unit, as it is exchanged */
    int64_t ranges;
    struct range range[]; /* [layout_ranges_max] */
};

/* Number of copies of a state. */
static int copies_of(const struct groups *g, enum letter letter)
{
    return letter == LETTER_N ? g->ranks : letter == LETTER_I ? g->count : 1;
}

/*
 * Checks each set of ranks that holds one copy: for N each rank, for I each group, for G all.
 * all: the holdings of the ranks, `bytes` apart; space: for the ranges of all ranks.
 */
static int audit_state(const struct engine *e, int unit, int state, enum letter letter,
                       const char *all, size_t bytes, struct range *space, struct err *err)
{
    const struct groups *g = &e->plan->groups;
    const struct engine_unit *u = &e->unit[unit];
    struct range bad, whole = {state == ENGINE_FROZEN ? u->trained : 0,
                               state == ENGINE_FROZEN ? u->elems : u->trained};
    int sets = copies_of(g, letter), held;

    for (int set = 0; set < sets; set++) {
        int n = 0;
        for (int r = 0; r < g->ranks; r++) {
            const struct holding *h = (const void *)(all + (size_t)r * bytes);
            int own = letter == LETTER_N ? r : letter == LETTER_I ? g->group_of[r] : 0;
            if (own != set)
                continue;
            memcpy(space + n, h->range, (size_t)h->ranges * sizeof *space);
            n += (int)h->ranges;
        }
        if (!cover_once(space, n, whole, &bad, &held))
            return err_set(err, ERR_MISMATCH,
                           "%s of unit '%s', elements %" PRId64 " to %" PRId64
                           ": held %s by %s %d under '%c', expected once",
                           state_names[state], e->model->unit[unit].name, bad.lo, bad.hi,
                           held ? "twice" : "not",
                           letter == LETTER_N   ? "rank"
                           : letter == LETTER_I ? "group"
                                                : "all ranks from",
                           set, letter_char(letter));
    }
    return 0;
}

/* Checks that a shard's buffer has the size of its ranges, and that a unit is placed as
   `first`, the audited unit of the same size.  One agreement covers all units. */
static int audit_shares(const struct engine *e, int unit, int first, struct err *err)
{
    for (int i = 0; i < (e->periods ? ENGINE_GROUP : ENGINE_OUTER); i++) {
        const struct engine_share *s = &e->unit[unit].share[i], *f = &e->unit[first].share[i];
        int64_t sum = 0;
        for (int k = 0; k < s->ranges; k++)
            sum += s->range[k].hi - s->range[k].lo;
        if (sum != s->elems)
            return err_set(err, ERR_MISMATCH,
                           "%s of unit '%s': a buffer of %" PRId64
                           " elements, expected %" PRId64,
                           state_names[i], e->model->unit[unit].name, s->elems, sum);
        if (s->ranges != f->ranges ||
            memcmp(s->range, f->range, (size_t)s->ranges * sizeof *s->range))
            return err_set(
                err, ERR_MISMATCH,
                "%s of unit '%s' are placed differently from those of '%s' of the same size",
                state_names[i], e->model->unit[unit].name, e->model->unit[first].name);
    }
    return 0;
}

void engine_magnitudes(struct engine *e, int on)
{
    e->magnitudes = on;
}

int engine_audit(struct engine *e, struct err *err)
{
    struct plan_strategy s = plan_inner(&e->plan->settings, e->plan->strategy);
    const enum letter letter[] = {s.params, s.grads, s.optimizer, s.params,
                                  e->step.lane[STEP_OUTER_REDUCE].to};
    int states = e->periods ? ENGINE_OUTER + 1 : ENGINE_OUTER;
    size_t most = (size_t)layout_ranges_max(&e->layout), ranks = (size_t)e->world->ranks;
    size_t bytes = sizeof(struct holding) + most * sizeof(struct range);
    struct holding *mine = mem_new(1, bytes);
    char *all = mem_new(ranks, bytes);
    struct range *space = mem_new(ranks * most, sizeof *space);
    int rc = 0;

    for (int i = 0; rc == 0 && i < e->model->units; i++) {
        int first = 0; /* first unit of the same size: all ranks compare its ranges */
        while (e->unit[first].size != e->unit[i].size ||
               e->unit[first].frozen_size != e->unit[i].frozen_size)
            first++;
        rc = world_agree(e->world, audit_shares(e, i, first, err), err);
        for (int state = 0; rc == 0 && first == i && state < states; state++) {
            const struct engine_share *h = &e->unit[i].share[state];
            mine->ranges = h->ranges;
            memcpy(mine->range, h->range, (size_t)h->ranges * sizeof *h->range);
            rc = world_allgather(e->world, mine, (int64_t)bytes, all, err);
            if (rc == 0) /* same outcome on all ranks */
                rc = audit_state(e, i, state, letter[state], all, bytes, space, err);
        }
    }
    MEM_FREE(mine, all, space);
    return rc;
}

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

enum { HASHED_PARAMS, HASHED_MASTER, HASHED_MOMENTUM = 4, HASHED_STATES };
static const char *const hashed_names[] = {"params", "master", "exp_avg", "exp_avg_sq",
                                           "outer_momentum"};

/* Sums of element hashes, so that the order does not matter. */
struct hash {
    uint64_t once;  /* over this rank's G shards: each element of the model on one rank */
    uint64_t whole; /* over all elements that this rank holds */
};

static int proof_share_of(int state)
{
    return state == HASHED_PARAMS     ? ENGINE_PARAMS
           : state == HASHED_MOMENTUM ? ENGINE_OUTER
                                      : ENGINE_OPTIM;
}

/* Whether each group has its own: the moments, with periods. */
static int is_own(const struct engine *e, int state)
{
    return e->periods && state > HASHED_MASTER && state < HASHED_MOMENTUM;
}

static int add_range(struct engine *e, int unit, int state, struct range at, uint64_t *sum,
                     struct err *err)
{
    const struct engine_unit *u = &e->unit[unit];
    int params = state == HASHED_PARAMS, frozen = at.lo >= u->trained;
    struct engine_shard shard =
        params ? (struct engine_shard){frozen ? engine_frozen(e, u) : u->params,
                                       e->plan->param_type,
                                       &u->share[frozen ? ENGINE_FROZEN : ENGINE_PARAMS],
                                       {0}}
               : engine_state(e, unit, state - 1);
    uint64_t key = (uint64_t)unit << 48 |
                   (state < HASHED_MOMENTUM ? (uint64_t)state << 46 : UINT64_C(7) << 45);

    for (int64_t x = at.lo; x < at.hi;) {
        struct range part = {x, at.hi - x < ENGINE_PIECE ? at.hi : x + ENGINE_PIECE};
        if (engine_copy(e, e->piece, DTYPE_F32, shard, part, err))
            return -1;
        for (; x < part.hi; x++) {
            uint32_t bits;
            memcpy(&bits, &e->piece[x - part.lo], sizeof bits);
            *sum += mix(mix(key + (uint64_t)x + 1) + bits);
        }
    }
    return 0;
}

/* Adds one of a unit's two vectors, elements `at` of the unit; own: this rank's share. */
static int add_vector(struct engine *e, int unit, int state, struct range at,
                      const struct engine_share *own, struct hash *h, struct err *err)
{
    int n = layout_ranges(&e->layout, is_own(e, state) ? LETTER_I : LETTER_G, e->world->rank,
                          at.hi - at.lo, e->ranges);

    for (int i = 0; i < n; i++) {
        struct range r = {at.lo + e->ranges[i].lo, at.lo + e->ranges[i].hi};
        if (add_range(e, unit, state, r, &h->once, err))
            return -1;
    }
    if (e->world->ranks == 1) { /* one copy, held whole */
        h->whole = h->once;
        return 0;
    }
    for (int i = 0; i < own->ranges; i++)
        if (add_range(e, unit, state, own->range[i], &h->whole, err))
            return -1;
    return 0;
}

static int add_hash(struct engine *e, int unit, int state, struct hash *h, struct err *err)
{
    const struct engine_unit *u = &e->unit[unit];
    int params = state == HASHED_PARAMS;

    if (add_vector(e, unit, state, (struct range){0, u->trained},
                   &u->share[proof_share_of(state)], h, err))
        return -1;
    return params ? add_vector(e, unit, state, (struct range){u->trained, u->elems},
                               &u->share[ENGINE_FROZEN], h, err)
                  : 0;
}

/* Adds the ranks' hashes of one state; returns whether copies must differ. */
static int copies_differ(const struct engine *e, int state, const struct hash *all, int stride,
                         uint64_t *once)
{
    struct plan_strategy s = plan_inner(&e->plan->settings, e->plan->strategy);
    enum letter letter = state == HASHED_PARAMS     ? s.params
                         : state == HASHED_MOMENTUM ? e->step.lane[STEP_OUTER_REDUCE].to
                                                    : s.optimizer;
    const struct groups *g = &e->plan->groups;
    uint64_t copies = (uint64_t)copies_of(g, letter), whole = 0;

    *once = 0;
    for (int r = 0; r < g->ranks; r++) {
        *once += all[r * stride].once;
        whole += all[r * stride].whole;
    }
    return !is_own(e, state) && whole != copies * *once;
}

/* Collective, after copies of a state were found to differ: finds the unit. */
static int name_unit(struct engine *e, int state, struct hash *all, struct err *err)
{
    uint64_t once;

    for (int unit = 0; unit < e->model->units; unit++) {
        struct hash h = {0};
        if (world_agree(e->world, add_hash(e, unit, state, &h, err), err) ||
            world_allgather(e->world, &h, sizeof h, all, err))
            return -1;
        if (copies_differ(e, state, all, 1, &once))
            return err_set(err, ERR_MISMATCH,
                           "copies of '%s' of unit '%s' differ from rank to rank, expected "
                           "equal ones",
                           hashed_names[state], e->model->unit[unit].name);
    }
    return err_set(err, ERR_MISMATCH, "copies of '%s' differ from rank to rank",
                   hashed_names[state]);
}

int engine_hash(struct engine *e, uint64_t *hash, struct err *err)
{
    struct hash mine[HASHED_STATES] = {{0}}, *all;
    uint64_t once, sum = 0;
    int bad = -1, states = e->periods ? HASHED_STATES : HASHED_MOMENTUM;

    int rc = engine_drain(e, err);
    for (int unit = 0; unit < e->model->units; unit++)
        for (int s = 0; rc == 0 && s < states; s++)
            rc = add_hash(e, unit, s, &mine[s], err);
    rc = world_agree(e->world, rc, err);
    if (rc)
        return rc;
    all = mem_new((size_t)e->world->ranks * HASHED_STATES, sizeof *all);
    rc = world_allgather(e->world, mine, sizeof mine, all, err);
    for (int s = 0; rc == 0 && s < states; s++) {
        if (copies_differ(e, s, all + s, HASHED_STATES, &once))
            bad = bad < 0 ? s : bad;
        sum += once;
    }
    if (rc == 0 && bad >= 0)
        rc = name_unit(e, bad, all, err);
    mem_free(all);
    if (rc == 0)
        *hash = sum;
    return rc;
}
