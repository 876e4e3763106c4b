/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads and saves states: checkpoints, fresh weights, the gradient of a step.  Works piece by
 * piece, since device data passes through a buffer of the host.
 *
 * Ranks that hold the same elements of a vector are PEERS, and share the reading: a STRETCH,
 * which the source reads at once, is read by the peer that has read least so far, which sends
 * it to the others.  Each peer reads the first piece of its next stretch ahead of time, so that
 * all of them read at the same time.
 *
 *     3 peers, stretches    |   0   | 1 | 2 | 3 |   4   |
 *     read by                   0     1   2   1     2      and sent to the two others
 *
 * A rank that cannot read continues to send and receive, with undefined contents, to the end of
 * the unit: there all ranks agree.
 */
#include "engine/engine_inside.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"

/* The peers that hold the same shard, and share its reading. */
struct readers {
    struct world_peers peers;
    /* Owned, [peers]: elements that each has read; including those assigned ahead. */
    int64_t *done, *dealt;
};

struct loader {
    struct engine *engine;
    const struct engine_source *source;
    struct readers optim, params, outer;
    int unit, state;
    float *ahead; /* owned: first piece of the next stretch that this rank reads */
    int rc;       /* this rank's, reported where all agree */
    struct err err;
};

/* The rest of a shard, not read yet. */
struct rest {
    const struct range *range; /* borrowed */
    int ranges;
    int64_t at; /* position in the first range */
};

struct place { /* destination of the elements read */
    char *to;
    enum dtype type, seen;
    const struct kern_moment *coded; /* int8 moments, instead of the above; NULL: none */
    int64_t at;                      /* next element */
};

static int load_put(const struct engine *e, const struct place *p, float *x, int64_t n,
                    struct err *err)
{
    if (p->coded)
        return engine_moment(e, p->coded, p->at, x, n, 1, err);
    return engine_put_params(e, p->to + p->at * dtype_bytes(p->type), p->type, x, p->seen, n,
                             err);
}

/* Finds the next stretch; 0: none is left. */
static int next_stretch(const struct loader *l, struct rest *r, struct range *out)
{
    const struct engine_source *s = l->source;

    if (!r->ranges)
        return 0;
    int64_t end = s->end ? s->end(s->arg, l->unit, l->state, r->at) : r->range->hi;
    int64_t grain = l->engine->layout.grain; /* codes are written whole blocks at a time */
    end += (grain - end % grain) % grain;
    *out = (struct range){r->at, end < r->range->hi ? end : r->range->hi};
    r->at = out->hi;
    if (r->at == r->range->hi && --r->ranges)
        r->at = (++r->range)->lo;
    return 1;
}

static struct range first_piece(struct range stretch)
{
    int64_t end = stretch.lo + ENGINE_PIECE;

    return (struct range){stretch.lo, end < stretch.hi ? end : stretch.hi};
}

static void load_read_piece(struct loader *l, struct range piece, float *out)
{
    const struct engine_source *s = l->source;

    if (l->rc == 0)
        l->rc = s->read(s->arg, l->unit, l->state, piece, out, &l->err);
}

/* Finds the reader of the next stretch: the first peer with the least `load`; -1: none is
   left. */
static int next_reader(const struct loader *l, const struct readers *c, int64_t *load,
                       struct rest *r, struct range *out)
{
    int least = 0;

    if (!next_stretch(l, r, out))
        return -1;
    for (int i = 1; i < c->peers.ranks; i++)
        if (load[i] < load[least])
            least = i;
    load[least] += out->hi - out->lo;
    return least;
}

/* Reads the first piece of this rank's next stretch, if there is one. */
static void read_ahead(struct loader *l, const struct readers *c, struct rest *r)
{
    struct range stretch;
    int reader = -1;

    do {
        reader = next_reader(l, c, c->dealt, r, &stretch);
    } while (reader >= 0 && reader != c->peers.rank);
    if (reader >= 0)
        load_read_piece(l, first_piece(stretch), l->ahead);
}

static int load_stretch(struct loader *l, struct readers *c, int reader, struct range stretch,
                        struct place *p)
{
    struct engine *e = l->engine;
    int several = c->peers.ranks > 1, mine = reader == c->peers.rank;
    struct err lost;

    for (struct range left = stretch; left.lo < left.hi;) {
        struct range piece = first_piece(left);
        int64_t elems = piece.hi - piece.lo;
        int early = several && mine && left.lo == stretch.lo;
        float *x = early ? l->ahead : e->piece;
        if (mine && !early)
            load_read_piece(l, piece, x);
        if (several &&
            world_peers_bcast(&c->peers, x, elems * (int64_t)sizeof *x, reader, &lost)) {
            l->err = lost;
            return -1;
        }
        if (l->rc == 0)
            l->rc = load_put(e, p, x, elems, &l->err);
        p->at += elems;
        left.lo = piece.hi;
    }
    return 0;
}

static int load_share(struct loader *l, struct readers *c, const struct engine_share *s,
                      struct place p)
{
    struct rest next = {s->range, s->ranges, s->ranges ? s->range->lo : 0}, ahead = next;
    int reader, several = c->peers.ranks > 1;
    struct range stretch;

    memcpy(c->dealt, c->done, (size_t)c->peers.ranks * sizeof *c->done);
    if (several)
        read_ahead(l, c, &ahead);
    while ((reader = next_reader(l, c, c->done, &next, &stretch)) >= 0) {
        if (load_stretch(l, c, reader, stretch, &p))
            return -1;
        if (several && reader == c->peers.rank)
            read_ahead(l, c, &ahead);
    }
    return 0;
}

/*
 * Loads master and moments, derives the trained parameters from the master (by the same path as
 * after a step), and loads the frozen parameters.
 */
static int load_unit(struct loader *l, int states)
{
    struct engine *e = l->engine;
    struct engine_unit *u = &e->unit[l->unit];
    struct place frozen = {engine_frozen(e, u), e->plan->param_type, e->seen_type, NULL, 0};

    for (l->state = 0; l->state < states; l->state++) {
        struct engine_shard s = engine_state(e, l->unit, l->state);
        struct place p = {(char *)(uintptr_t)s.at, s.type, s.type,
                          s.coded.data ? &s.coded : NULL, 0};
        if (load_share(l, l->state < ENGINE_STATES ? &l->optim : &l->outer, s.share, p))
            return -1;
    }
    if (e->periods)
        engine_set_anchor(e, l->unit);
    l->state = 0;
    if (u->trained && e->step.shape.has[STEP_SYNC])
        engine_move(e, STEP_SYNC, l->unit, -1, &(struct engine_issue){.time = NULL});
    else if (u->trained)
        engine_slice(e, l->unit);
    return load_share(l, &l->params, &u->share[ENGINE_FROZEN], frozen);
}

/* The communicator's colour is the lowest rank among the peers; own: of the rank's group, whose
   states are no other's. */
static int open_readers(struct loader *l, struct readers *c, enum letter letter, int own)
{
    const struct engine *e = l->engine;
    const struct groups *g = &e->layout.groups;
    int rank = e->world->rank, colour = layout_first(&e->layout, letter, rank);

    if (own)
        colour = letter == LETTER_N ? groups_rank(g, g->group_of[rank], 0) : rank;
    c->peers = (struct world_peers){.ranks = 1};
    if (l->source->end && world_peers_open(e->world, colour, &c->peers, &l->err))
        return -1;
    c->done = mem_new((size_t)c->peers.ranks, sizeof *c->done);
    c->dealt = mem_new((size_t)c->peers.ranks, sizeof *c->dealt);
    return 0;
}

static void close_readers(struct readers *c)
{
    world_peers_close(&c->peers);
    mem_free(c->done);
    mem_free(c->dealt);
}

static int open_loader(struct loader *l)
{
    const struct engine *e = l->engine;
    struct plan_strategy s = plan_inner(&e->plan->settings, e->plan->strategy);
    void *ahead = NULL;

    if (l->source->end)
        l->rc = mem_data(ENGINE_PIECE * sizeof *l->ahead, "a piece of the checkpoint", &ahead,
                         &l->err);
    l->ahead = ahead;
    l->rc = world_agree(l->engine->world, l->rc, &l->err);
    return l->rc || open_readers(l, &l->optim, s.optimizer, e->periods) ||
                   open_readers(l, &l->params, s.params, 0) ||
                   (e->periods &&
                    open_readers(l, &l->outer, e->step.lane[STEP_OUTER_REDUCE].to, 0))
               ? -1
               : 0;
}

/* Loads units [first, end). */
static int load_units(struct engine *e, const struct engine_source *source, int first, int end,
                      int moments, struct err *err)
{
    struct loader l = {.engine = e, .source = source};
    struct err late;
    int rc = open_loader(&l);

    for (l.unit = first; rc == 0 && l.unit < end; l.unit++) {
        rc = load_unit(&l, moments ? ENGINE_STATES + e->periods : 1);
        if (rc == 0)
            rc = world_agree(e->world, l.rc, &l.err);
    }
    engine_wait_compute(e);
    if (l.err.code != ERR_PEER && stream_wait_all(e->stream[STEP_SYNC], &late) && rc == 0) {
        rc = -1;
        l.err = late;
    }
    /* A message to a lost peer stays in flight, and keeps its memory. */
    if (l.err.code != ERR_PEER) {
        close_readers(&l.optim);
        close_readers(&l.params);
        close_readers(&l.outer);
        mem_free(l.ahead);
    }
    if (rc)
        *err = l.err;
    return rc;
}

int engine_load(struct engine *e, const struct engine_source *source, int moments,
                struct err *err)
{
    int rc = load_units(e, source, 0, e->model->units, moments, err);

    engine_residuals_clear(e);
    return rc;
}

struct engine_shard engine_state(const struct engine *e, int unit, int state)
{
    const struct engine_unit *u = &e->unit[unit];
    const struct engine_share *share = &u->share[ENGINE_OPTIM];
    void *const at[] = {u->master, u->m, u->v, u->momentum};
    enum moments type = state == 1 || state == 2 ? e->plan->moments : MOMENTS_F32;

    if (state == 3)
        share = &u->share[ENGINE_OUTER];
    if (type == MOMENTS_INT8)
        return (struct engine_shard){.share = share,
                                     .coded = {type, state == 2, at[state], share->elems}};
    return (struct engine_shard){
        at[state], type == MOMENTS_BF16 ? DTYPE_BF16 : DTYPE_F32, share, {0}};
}

int engine_values(const struct engine *e, int unit, int state, struct range at, enum dtype type,
                  void *out, struct err *err)
{
    const struct engine_unit *u = &e->unit[unit];
    struct engine_shard frozen = {
        engine_frozen(e, u), e->plan->param_type, &u->share[ENGINE_FROZEN], {0}};

    assert(at.lo < u->trained || state == 0);
    return engine_copy(e, out, type, at.lo < u->trained ? engine_state(e, unit, state) : frozen,
                       at, err);
}

int engine_gradient(const struct engine *e, int unit, struct range at, float *out,
                    struct err *err)
{
    const struct engine_unit *u = &e->unit[unit];
    struct engine_shard from = {u->grads, e->grad_type, &u->share[ENGINE_OPTIM], {0}};

    if (engine_copy(e, out, DTYPE_F32, from, at, err))
        return -1;
    for (int64_t i = 0; e->mean != 1 && i < at.hi - at.lo; i++)
        out[i] = (float)((double)out[i] * e->mean);
    return 0;
}

/* ---- whole units ---- */

int engine_whole_open(const struct engine *e, int states, int64_t elems, struct engine_whole *w,
                      struct err *err)
{
    int64_t pieces = (int64_t)e->world->ranks * ENGINE_PIECE;
    void *memory = NULL;

    *w = (struct engine_whole){.states = states};
    if (mem_data((states * elems + pieces) * (int64_t)sizeof(float), "a whole unit", &memory,
                 err))
        return -1;
    for (int i = 0; i < states; i++)
        w->state[i] = (float *)memory + i * elems;
    w->pieces = (float *)memory + states * elems;
    w->memory = memory;
    return 0;
}

/* Elements [from, from + n) of a packed G shard to or from a whole vector. */
static void copy_packed(const struct range *r, int ranges, int64_t from, int64_t n,
                        float *whole, float *packed, int out)
{
    for (int i = 0; i < ranges && n > 0; i++) {
        int64_t elems = r[i].hi - r[i].lo;
        if (from >= elems) {
            from -= elems;
            continue;
        }
        int64_t part = elems - from < n ? elems - from : n;
        float *at = whole + r[i].lo + from;
        memcpy(out ? packed : at, out ? at : packed, (size_t)part * sizeof *at);
        packed += part;
        n -= part;
        from = 0;
    }
}

/* Gathers one of a unit's two vectors from the G shards of all ranks, piece by piece. */
static int gather_vector(struct engine *e, int unit, int state, struct range at,
                         const struct engine_whole *w, struct err *err)
{
    int64_t elems = at.hi - at.lo, most = 0;
    float *whole = w->state[state] + at.lo;
    int rank = e->world->rank, rc = 0;
    int n = layout_ranges(&e->layout, LETTER_G, rank, elems, e->ranges);

    for (int i = 0; rc == 0 && i < n; i++) {
        struct range r = {at.lo + e->ranges[i].lo, at.lo + e->ranges[i].hi};
        float *to = w->state[state] + r.lo;
        rc = state < ENGINE_STATES ? engine_values(e, unit, state, r, DTYPE_F32, to, err)
                                   : engine_gradient(e, unit, r, to, err);
    }
    if (world_agree(e->world, rc, err))
        return -1;
    for (int r = 0; r < e->world->ranks; r++) {
        int64_t shard = layout_elems(&e->layout, LETTER_G, r, elems);
        most = shard > most ? shard : most;
    }
    for (int64_t from = 0; from < most; from += ENGINE_PIECE) {
        n = layout_ranges(&e->layout, LETTER_G, rank, elems, e->ranges);
        copy_packed(e->ranges, n, from, ENGINE_PIECE, whole, e->piece, 1);
        if (world_allgather(e->world, e->piece, ENGINE_PIECE * (int64_t)sizeof(float),
                            w->pieces, err))
            return -1;
        for (int r = 0; r < e->world->ranks; r++) {
            n = layout_ranges(&e->layout, LETTER_G, r, elems, e->ranges);
            copy_packed(e->ranges, n, from, ENGINE_PIECE, whole,
                        w->pieces + (int64_t)r * ENGINE_PIECE, 0);
        }
    }
    return 0;
}

int engine_whole_gather(struct engine *e, int unit, struct engine_whole *w, struct err *err)
{
    const struct engine_unit *u = &e->unit[unit];

    for (int state = 0; state < w->states; state++) {
        memset(w->state[state], 0, (size_t)u->elems * sizeof(float));
        if (gather_vector(e, unit, state, (struct range){0, u->trained}, w, err))
            return -1;
    }
    return gather_vector(e, unit, 0, (struct range){u->trained, u->elems}, w, err);
}

static int load_read_whole(void *whole, int unit, int state, struct range at, float *out,
                           struct err *err)
{
    const struct engine_whole *w = whole;

    (void)unit;
    (void)err;
    memcpy(out, w->state[state] + at.lo, (size_t)(at.hi - at.lo) * sizeof *out);
    return 0;
}

int engine_whole_load(struct engine *e, int unit, struct engine_whole *w, struct err *err)
{
    const struct engine_source source = {.read = load_read_whole, .arg = w};

    return load_units(e, &source, unit, unit + 1, 1, err);
}

int engine_change(struct engine *e, engine_change_fn change, void *arg, struct err *err)
{
    int states = ENGINE_STATES + (e->model->sparse.lambda > 0);
    struct engine_whole w = {0};
    int64_t elems = 0;
    int rc = engine_drain(e, err); /* waits for the last sync */

    engine_wait_compute(e);
    for (int i = 0; i < e->model->units; i++) /* only masks are frozen */
        if (e->unit[i].frozen_size && e->unit[i].elems > elems)
            elems = e->unit[i].elems;
    rc = world_agree(e->world, rc ? rc : engine_whole_open(e, states, elems, &w, err), err);
    for (int unit = 0; rc == 0 && unit < e->model->units; unit++) {
        if (!e->unit[unit].frozen_size)
            continue;
        rc = engine_whole_gather(e, unit, &w, err);
        if (rc)
            break;
        change(arg, unit, w.state[0], w.state[1], w.state[2], w.state[3]);
        rc = engine_whole_load(e, unit, &w, err);
        for (int kind = STEP_REDUCE; kind <= STEP_CONVERT; kind++) /* elements have moved */
            if (e->unit[unit].residual[kind])
                memset(e->unit[unit].residual[kind], 0,
                       (size_t)e->unit[unit].size->handle[kind].residual_elems * 4);
    }
    mem_free(w.memory);
    return rc;
}
