/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proves a step correct by tracking which rows have ended when each row begins.  A lane runs
 * its rows in order, so one number per lane, the rows ended, is enough: a vector clock.  Two
 * steps are walked, the second beginning where the first ends.
 */
#include "step/step.h"

#include <string.h>

#include "base/mem.h"

struct clock {
    int ended[STEP_LANES]; /* rows ended in each lane, over both steps */
};

/* Contents of a slot.  A place is a row's position in its lane, over both steps, from 1; 0:
   none. */
struct slot {
    int unit, visit, micro; /* the unit gathered, and for which visit */
    int gathered;           /* place of the gather */
    int read;               /* place of the last use */
    int from, to;           /* rows over the two steps: the gather, the last use */
};

struct proof {
    const struct step *s;
    const struct step_shape *p;
    struct err *err;
    struct clock *clock;                     /* [2 * rows] vector clock when the row begins */
    int *place;                              /* [2 * rows] the row's place in its lane, from
                                                1 */
    int count[STEP_LANES], last[STEP_LANES]; /* rows so far and the last row, by lane */
    int row;                                 /* current row of the step being walked */
    int use;                                 /* current use in its micro-step, 0 .. uses - 1 */
    int micro, uses;
    struct slot *slot; /* [slots] */
    int *change;       /* [2 * rows + 1] change of the number of slots in use, from a row on */
    int *sent;         /* [buckets] place of the last reduce */
    int *filled;       /* [buckets] place of the last accumulate */
    int *backs, *back; /* [units] backward uses per micro-step; those so far */
    int *sums, *reduces, *converts; /* [units] rows in this step */
    int *reduced, *converted;       /* [units] place of the last row */
    /* The rows of a unit from its update or outer step on, in their order. */
    struct {
        int lane, kind;
    } tail[STEP_LANES];
    int tails, updates; /* rows; those before the update */
    int *stage;         /* [units] those in this step */
    /* [units] place and lane of the last one, in this step or the previous; of the last one
       that is not before an update */
    int *at, *lane, *fresh_at, *fresh_lane;
    int begun, normed; /* micro-steps begun; 1: own norm known, 2: all ranks' */
};

static int verify_fail(const struct proof *v, const char *what)
{
    const struct step_row *r = &v->s->row[v->row];

    return err_set(v->err, ERR_MISMATCH, "row %d (%s, unit %d, micro-step %d, buffer %d): %s",
                   v->row, step_kind_name(r), r->unit, r->micro, r->buffer, what);
}

static const struct clock *verify_known(const struct proof *v, int second)
{
    return &v->clock[second * v->s->rows + v->row];
}

/* Returns whether the lane's row at `place` has ended when the current row begins. */
static int verify_ended(const struct proof *v, int second, enum step_lane lane, int place)
{
    return verify_known(v, second)->ended[lane] >= place;
}

static int set_clock(struct proof *v, int second)
{
    const struct step *s = v->s;
    const struct step_row *r = &s->row[v->row];
    int at = second * s->rows + v->row;
    struct clock *c = &v->clock[at];

    if (r->lane < 0 || r->lane >= STEP_LANES)
        return verify_fail(v, "unknown lane");
    if (v->count[r->lane]) {
        *c = v->clock[v->last[r->lane]];
        c->ended[r->lane] = v->count[r->lane];
    }
    v->place[at] = ++v->count[r->lane];
    v->last[r->lane] = at;
    for (int k = 0; k < STEP_AFTERS; k++) {
        int after = r->after[k];
        if (after < -1 || after >= s->rows || after == v->row)
            return verify_fail(v, "follows a row that there is not, expected another one");
        if (after < 0 || (after > v->row && !second))
            continue;
        after += after > v->row ? 0 : second * s->rows;
        const struct clock *of = &v->clock[after];
        for (int l = 0; l < STEP_LANES; l++)
            c->ended[l] = of->ended[l] > c->ended[l] ? of->ended[l] : c->ended[l];
        int lane = s->row[after % s->rows].lane;
        c->ended[lane] = v->place[after] > c->ended[lane] ? v->place[after] : c->ended[lane];
    }
    return 0;
}

/* A unit's parameters must be updated and synced before they are read or gathered. */
static int check_fresh(struct proof *v, int second, int unit)
{
    if (!verify_ended(v, second, (enum step_lane)v->fresh_lane[unit], v->fresh_at[unit]))
        return verify_fail(v, "the unit's update of the step before may not have ended");
    return 0;
}

/* Counts a slot as in use from its gather to its last use. */
static void count_slot(struct proof *v, const struct slot *slot)
{
    if (!slot->gathered)
        return;
    v->change[slot->from]++;
    v->change[slot->to + 1]--;
}

static int check_gather(struct proof *v, int second)
{
    const struct step_row *r = &v->s->row[v->row];
    struct slot *slot;

    if (r->buffer < 0 || r->buffer >= v->s->slots)
        return verify_fail(v, "a slot that there is not");
    slot = &v->slot[r->buffer];
    if (slot->gathered && !slot->read)
        return verify_fail(v, "overwrites a unit that nothing has used");
    if (!verify_ended(v, second, STEP_COMPUTE, slot->read))
        return verify_fail(v, "overwrites a unit while a use may read it");
    count_slot(v, slot);
    *slot = (struct slot){.unit = r->unit,
                          .visit = r->visit,
                          .micro = r->micro,
                          .gathered = v->count[STEP_GATHER],
                          .from = second * v->s->rows + v->row};
    return check_fresh(v, second, r->unit);
}

static int check_use(struct proof *v, int second)
{
    const struct step_row *r = &v->s->row[v->row];
    int visits = v->p->visits, back = v->use >= visits;
    int visit = back ? 2 * visits - 1 - v->use : v->use;

    if (r->kind != (back ? STEP_BACKWARD : STEP_FORWARD) || r->visit != visit ||
        r->unit != step_unit_of(v->p, visit) || r->micro != v->micro ||
        v->begun != v->micro + 1)
        return verify_fail(v, "not the next use");
    v->back[r->unit] += back;
    if (++v->use == v->uses) {
        v->use = 0;
        v->micro++;
    }
    if (!v->p->has[STEP_GATHER])
        return r->buffer == -1 ? check_fresh(v, second, r->unit)
                               : verify_fail(v, "reads a slot");
    if (r->buffer < 0 || r->buffer >= v->s->slots)
        return verify_fail(v, "a slot that there is not");
    struct slot *slot = &v->slot[r->buffer];
    if (!slot->gathered || slot->unit != r->unit || slot->visit != r->visit ||
        slot->micro != r->micro)
        return verify_fail(v, "the slot has another unit");
    if (!verify_ended(v, second, STEP_GATHER, slot->gathered))
        return verify_fail(v, "the gather may not have ended");
    slot->read = v->count[STEP_COMPUTE];
    slot->to = second * v->s->rows + v->row;
    return 0;
}

static int check_accumulate(struct proof *v, int second)
{
    const struct step_row *r = &v->s->row[v->row];
    /* After a micro-step's last use v->micro is already the next one. */
    int micro = v->use ? v->micro : v->micro - 1;

    if (r->micro != micro || v->sums[r->unit] != micro)
        return verify_fail(v, "not the next gradient of the unit");
    if (v->back[r->unit] != v->backs[r->unit] * (micro + 1))
        return verify_fail(v, "the gradient is not whole");
    v->sums[r->unit]++;
    if (!v->p->has[STEP_REDUCE])
        return r->buffer == -1 ? 0 : verify_fail(v, "fills a bucket");
    if (r->buffer < 0 || r->buffer >= v->s->buckets)
        return verify_fail(v, "a bucket that there is not");
    if (!verify_ended(v, second, STEP_REDUCE, v->sent[r->buffer]))
        return verify_fail(v, "fills a bucket that may still be sent");
    v->filled[r->buffer] = v->count[STEP_COMPUTE];
    return 0;
}

static int check_reduce(struct proof *v, int second)
{
    const struct step_row *r = &v->s->row[v->row];

    if (++v->reduces[r->unit] != v->sums[r->unit] || r->micro != v->reduces[r->unit] - 1)
        return verify_fail(v, "not the gradient that was accumulated last");
    if (r->buffer < 0 || r->buffer >= v->s->buckets || !v->filled[r->buffer] ||
        !verify_ended(v, second, STEP_COMPUTE, v->filled[r->buffer]))
        return verify_fail(v, "sends a bucket that may not be filled");
    v->filled[r->buffer] = 0;
    v->sent[r->buffer] = v->reduced[r->unit] = v->count[STEP_REDUCE];
    return 0;
}

static int check_convert(struct proof *v, int second)
{
    int unit = v->s->row[v->row].unit;

    if (++v->converts[unit] > 1 || v->sums[unit] != v->p->micros)
        return verify_fail(v, "not once, after the last micro-step");
    if (verify_known(v, second)->ended[STEP_COMPUTE] < v->count[STEP_COMPUTE])
        return verify_fail(v, "the gradient may not be accumulated");
    if (!verify_ended(v, second, STEP_REDUCE, v->reduced[unit]))
        return verify_fail(v, "the gradient may not be reduced");
    v->converted[unit] = v->count[STEP_CONVERT];
    return 0;
}

static int check_norm(struct proof *v, int second)
{
    if (v->normed++ || v->micro != v->p->micros || v->row != v->s->norm)
        return verify_fail(v, "not once, after the last micro-step");
    for (int u = 0; u < v->p->units; u++) {
        int trains = v->p->trains[u];
        if (v->sums[u] != (trains ? v->p->micros : 0) ||
            v->reduces[u] != (v->p->has[STEP_REDUCE] ? v->sums[u] : 0) ||
            v->converts[u] != (v->p->has[STEP_CONVERT] && trains))
            return verify_fail(v, "a gradient is missing, or none is expected");
        if (!verify_ended(v, second, STEP_REDUCE, v->reduced[u]) ||
            !verify_ended(v, second, STEP_CONVERT, v->converted[u]))
            return verify_fail(v, "a gradient may still be on its way");
    }
    return 0;
}

/* An update must come after the norm; an early one after its own gradient. */
static int check_update(const struct proof *v, int second)
{
    int unit = v->s->row[v->row].unit;

    if (v->p->early_update ? v->normed || v->sums[unit] != v->p->micros ||
                                 !verify_ended(v, second, STEP_REDUCE, v->reduced[unit]) ||
                                 !verify_ended(v, second, STEP_CONVERT, v->converted[unit])
                           : v->normed != 2)
        return verify_fail(v, "the gradient may not be there, or the norm");
    return 0;
}

/* The update, the outer step, and what brings their result to the parameters: each after the
   one before, the first after the last of the step before. */
static int check_tail(struct proof *v, int second)
{
    const struct step_row *r = &v->s->row[v->row];
    int unit = r->unit, stage = v->stage[unit]++;

    if (stage == v->tails || r->lane != v->tail[stage].lane || r->kind != v->tail[stage].kind)
        return verify_fail(v, "not the unit's next row of its update and outer step");
    if (!verify_ended(v, second, (enum step_lane)v->lane[unit], v->at[unit]))
        return verify_fail(v, "the unit's row before may not have ended");
    if (stage == v->updates && check_update(v, second))
        return -1;
    v->lane[unit] = r->lane;
    v->at[unit] = v->count[r->lane];
    if (stage >= v->updates) {
        v->fresh_lane[unit] = v->lane[unit];
        v->fresh_at[unit] = v->at[unit];
    }
    return 0;
}

static void add_tail(struct proof *v, int lane, int kind)
{
    v->tail[v->tails].lane = lane;
    v->tail[v->tails++].kind = kind;
}

static void set_tail(struct proof *v)
{
    const struct step_shape *p = v->p;

    if (p->outer != STEP_OUTER_FIRST)
        add_tail(v, STEP_COMPUTE, STEP_UPDATE);
    for (int lane = STEP_OUTER_REDUCE; p->outer && lane <= STEP_OUTER_GATHER; lane++)
        if (p->has[lane])
            add_tail(v, lane, STEP_TRANSFER);
    v->updates = p->outer == STEP_OUTER_FIRST ? v->tails : 0;
    if (p->outer == STEP_OUTER_FIRST)
        add_tail(v, STEP_COMPUTE, STEP_UPDATE);
    if (p->has[STEP_SYNC])
        add_tail(v, STEP_SYNC, STEP_TRANSFER);
    else if (p->outer == STEP_OUTER_LAST)
        add_tail(v, STEP_COMPUTE, STEP_ADOPT);
}

static int step_verify_check_row(struct proof *v, int second)
{
    const struct step_row *r = &v->s->row[v->row];
    int lane = r->lane, unit = r->unit;

    if (r->kind < 0 || r->kind >= STEP_KINDS ||
        (lane == STEP_COMPUTE) != (r->kind != STEP_TRANSFER))
        return verify_fail(v, "not of this lane");
    if (lane != STEP_COMPUTE && !v->p->has[lane])
        return verify_fail(v, "a lane that transfers nothing");
    int parts = lane == STEP_GATHER || r->kind == STEP_FORWARD || r->kind == STEP_BACKWARD;
    if (!parts && r->visit != -1)
        return verify_fail(v, "a visit, expected none");
    int sums = r->kind == STEP_ACCUMULATE || lane == STEP_REDUCE;
    if (!parts && !sums && (r->buffer != -1 || (r->micro != -1 && r->kind != STEP_BEGIN)))
        return verify_fail(v, "a micro-step or a buffer, expected none");
    if (r->kind == STEP_BEGIN) {
        if (r->unit != -1 || v->use || r->micro != v->begun || v->begun++ != v->micro)
            return verify_fail(v, "not the next micro-step");
        return 0;
    }
    if (v->p->evaluate && !parts)
        return verify_fail(v, "not of a forward");
    if (r->kind == STEP_NORM)
        return unit == -1 ? check_norm(v, second) : verify_fail(v, "of a unit");
    if (r->kind == STEP_AGREE)
        return unit == -1 && v->normed++ == 1 ? 0 : verify_fail(v, "not once, after the norm");
    if (unit < 0 || unit >= v->p->units)
        return verify_fail(v, "a unit that there is not");
    if (lane == STEP_GATHER)
        return check_gather(v, second);
    if (parts)
        return check_use(v, second);
    if (!v->p->trains[unit])
        return verify_fail(v, "a unit that is not trained");
    if (r->kind == STEP_ACCUMULATE)
        return check_accumulate(v, second);
    if (lane == STEP_REDUCE)
        return check_reduce(v, second);
    if (lane == STEP_CONVERT)
        return check_convert(v, second);
    return check_tail(v, second);
}

static int verify_walk(struct proof *v, int second)
{
    size_t units = (size_t)v->p->units * sizeof(int);

    v->use = v->micro = v->begun = v->normed = 0;
    memset(v->back, 0, units);
    memset(v->sums, 0, units);
    memset(v->reduces, 0, units);
    memset(v->converts, 0, units);
    memset(v->stage, 0, units);
    for (v->row = 0; v->row < v->s->rows; v->row++)
        if (set_clock(v, second) || step_verify_check_row(v, second))
            return -1;
    v->row = v->s->rows - 1;
    if (v->micro != v->p->micros || v->normed != (v->p->evaluate ? 0 : 2))
        return verify_fail(v, "the last one, but a micro-step is missing, or the norm");
    if (v->begun != v->p->micros || v->use)
        return verify_fail(v, "the last one, but one more micro-step has begun");
    for (int u = 0; u < v->p->units; u++) {
        if (v->stage[u] != (v->p->trains[u] && !v->p->evaluate ? v->tails : 0))
            return verify_fail(v, "the last one, but a unit is not updated, or not synced");
    }
    for (int i = 0; i < v->s->slots; i++)
        if (!v->slot[i].read)
            return verify_fail(v, "the last one, but a slot has not been used");
    return 0;
}

/*
 * The peak of slots in use must equal the number of slots.  With units kept for the backward,
 * which have slots of their own, it may be lower.
 */
static int check_peak(struct proof *v)
{
    int used = 0, most = 0, kept = v->p->keep > 0 && v->p->first_trained < v->p->visits;

    for (int i = 0; i < v->s->slots; i++)
        count_slot(v, &v->slot[i]);
    for (int i = 0; i < 2 * v->s->rows; i++) {
        used += v->change[i];
        most = used > most ? used : most;
    }
    if (most == v->s->slots || kept)
        return 0;
    return err_set(v->err, ERR_MISMATCH, "%d slots are in use at once, expected all %d", most,
                   v->s->slots);
}

int step_verify(const struct step *s, const struct step_shape *p, struct err *err)
{
    enum { ARRAYS = 12 };
    size_t units = (size_t)p->units, rows = 2 * (size_t)s->rows;
    int *of_unit = mem_new(ARRAYS * units, sizeof *of_unit), *next = of_unit;
    struct proof v = {.s = s, .p = p, .err = err};
    int **arrays[ARRAYS] = {&v.backs,    &v.back,    &v.sums,      &v.reduces,
                            &v.converts, &v.reduced, &v.converted, &v.stage,
                            &v.at,       &v.lane,    &v.fresh_at,  &v.fresh_lane};

    for (int i = 0; i < ARRAYS; i++, next += units)
        *arrays[i] = next;
    set_tail(&v);
    v.uses = 2 * p->visits - p->first_trained;
    for (int visit = p->first_trained; visit < p->visits; visit++)
        v.backs[step_unit_of(p, visit)]++;
    v.clock = mem_new(rows + 1, sizeof *v.clock);
    v.place = mem_new(rows + 1, sizeof *v.place);
    v.slot = mem_new((size_t)s->slots + 1, sizeof *v.slot);
    v.change = mem_new(rows + 1, sizeof *v.change);
    v.sent = mem_new((size_t)s->buckets + 1, sizeof *v.sent);
    v.filled = mem_new((size_t)s->buckets + 1, sizeof *v.filled);
    int rc = s->rows < 1 ? err_set(err, ERR_MISMATCH, "no rows") : 0;
    if (rc == 0 && (verify_walk(&v, 0) || verify_walk(&v, 1) || check_peak(&v)))
        rc = -1;
    MEM_FREE(of_unit, v.clock, v.place, v.slot, v.change, v.sent, v.filled);
    return rc;
}
