/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generates a step's rows: the compute lane's in their order, each transfer after the compute
 * row that issues it.
 *
 * A micro-step has a use for each visit of the forward and of the backward; the last `keep`
 * visits of the forward leave their unit gathered for the backward, in slots of their own:
 *
 *     4 visits, keep 1, prefetch 1: slots a and b rotate, k is kept
 *     use      F0 F1 F2 F3 B3 B2 B1 B0 | F0 ...
 *     slot      a  b  a  k  k  b  a  b |  a
 *     gather    0  1  2  3  -  4  5  6 |  7       gathers 0 and 1 are issued before use F0
 */
#include "step/step.h"

#include <stdint.h>

#include "base/mem.h"

struct gen {
    const struct step_shape *shape;
    struct step *s;
    int uses, keep, ring; /* uses and kept visits per micro-step; slots that rotate */
    int *held;            /* [slots] the gather whose unit it holds, -1: free */
    int use;              /* uses so far */
    int issued, used;     /* gathers issued; gathers whose first use has begun */
    int *first;           /* [units] the first visit, whose backward completes the gradient */
    int *reduced;         /* [units] row that last reduced or converted its gradient, -1: none
                             so far */
    int *synced;          /* [units] the last transfer after its update, -1: none so far */
    int *sent;            /* [buckets] the last reduce, -1: none */
    int bucket;           /* the next one to fill */
    int ends[STEP_LANES]; /* last row of each lane, -1: none */
};

struct use {
    int visit, back, slot, kept;
};

int step_unit_of(const struct step_shape *p, int visit)
{
    return visit < p->units ? visit : 0;
}

static struct use use_at(const struct gen *g, int use)
{
    int visits = g->shape->visits, at = use % g->uses, back = at >= visits;
    int visit = back ? 2 * visits - 1 - at : at, kept = visit - (visits - g->keep);
    int64_t turn =
        (int64_t)(use / g->uses) * (g->uses - 2 * g->keep) + (back ? at - 2 * g->keep : at);

    return (struct use){visit, back, kept >= 0 ? g->ring + kept : (int)(turn % g->ring),
                        kept >= 0};
}

static int gen_add(struct gen *g, enum step_lane lane, enum step_kind kind, struct step_row row)
{
    row.lane = lane;
    row.kind = kind;
    g->s->row[g->s->rows] = row;
    return g->ends[lane] = g->s->rows++;
}

/* Returns a row for the whole step and no visit; unit -1: for no unit. */
static struct step_row gen_whole(int unit)
{
    return (struct step_row){
        .unit = unit, .visit = -1, .micro = -1, .buffer = -1, .after = {-1, -1}};
}

/* Placeholders for rows of the previous step, which have no number yet: the compute lane's last
   row; SYNC_BEFORE - unit: that unit's sync. */
enum { LAST_BEFORE = -2, SYNC_BEFORE = -3 };

static int gen_synced(const struct gen *g, int unit)
{
    return g->shape->has[STEP_SYNC] && g->shape->trains[unit] ? SYNC_BEFORE - unit : -1;
}

/* Issues the gathers that prefetch allows and that find a free slot. */
static void issue_gathers(struct gen *g)
{
    const struct step_shape *p = g->shape;
    int each = g->uses - g->keep; /* gathers per micro-step */

    while (p->has[STEP_GATHER] && g->issued < p->micros * each &&
           g->issued - g->used <= p->prefetch) {
        int at = g->issued % each, micro = g->issued / each;
        struct use u = use_at(g, micro * g->uses + (at < p->visits ? at : at + g->keep));
        int unit = step_unit_of(p, u.visit);
        if (g->held[u.slot] >= 0)
            return;
        g->held[u.slot] =
            gen_add(g, STEP_GATHER, STEP_TRANSFER,
                    (struct step_row){.unit = unit,
                                      .visit = u.visit,
                                      .micro = micro,
                                      .buffer = u.slot,
                                      .after = {g->ends[STEP_COMPUTE], gen_synced(g, unit)}});
        g->issued++;
    }
}

/* Adds the rows of a unit's gradient, which is complete for this micro-step. */
static void write_gradient(struct gen *g, int unit, int micro)
{
    const struct step_shape *p = g->shape;
    struct step_row row = gen_whole(unit);

    row.micro = micro;
    if (!p->has[STEP_REDUCE]) {
        gen_add(g, STEP_COMPUTE, STEP_ACCUMULATE, row);
    } else {
        row.buffer = g->bucket;
        row.after[0] = g->sent[g->bucket];
        row.after[0] = gen_add(g, STEP_COMPUTE, STEP_ACCUMULATE, row);
        g->sent[g->bucket] = g->reduced[unit] = gen_add(g, STEP_REDUCE, STEP_TRANSFER, row);
        g->bucket = (g->bucket + 1) % p->buckets;
    }
    if (!p->has[STEP_CONVERT] || micro < p->micros - 1)
        return;
    row = gen_whole(unit);
    row.after[0] = g->ends[STEP_COMPUTE];
    row.after[1] = g->reduced[unit];
    g->reduced[unit] = gen_add(g, STEP_CONVERT, STEP_TRANSFER, row);
}

static void write_use(struct gen *g, int micro)
{
    const struct step_shape *p = g->shape;
    struct use u = use_at(g, g->use++);
    int unit = step_unit_of(p, u.visit), gathered = p->has[STEP_GATHER];

    g->used += !(u.kept && u.back);
    gen_add(g, STEP_COMPUTE, u.back ? STEP_BACKWARD : STEP_FORWARD,
            (struct step_row){.unit = unit,
                              .visit = u.visit,
                              .micro = micro,
                              .buffer = gathered ? u.slot : -1,
                              .after = {gathered ? g->held[u.slot] : gen_synced(g, unit), -1}});
    if (gathered && !(u.kept && !u.back))
        g->held[u.slot] = -1;
    issue_gathers(g);
    if (u.back && g->first[unit] == u.visit && p->trains[unit])
        write_gradient(g, unit, micro);
}

/* Adds a transfer of the whole step after row->after[0], which then names it. */
static void add_after(struct gen *g, enum step_lane lane, struct step_row *row)
{
    if (g->shape->has[lane])
        row->after[0] = g->synced[row->unit] = gen_add(g, lane, STEP_TRANSFER, *row);
}

/* Adds the outer step of trained units, which begins when the last sync has read the master. */
static void add_first(struct gen *g)
{
    for (int unit = 0; unit < g->shape->units; unit++) {
        struct step_row row = gen_whole(unit);
        row.after[0] = g->ends[STEP_COMPUTE];
        row.after[1] = gen_synced(g, unit);
        if (!g->shape->trains[unit])
            continue;
        add_after(g, STEP_OUTER_REDUCE, &row);
        row.after[1] = g->shape->has[STEP_OUTER_REDUCE] ? -1 : row.after[1];
        add_after(g, STEP_OUTER_GATHER, &row);
    }
}

/* Adds the updates of trained units, each with the transfers of its new parameters. */
static void add_updates(struct gen *g)
{
    const struct step_shape *p = g->shape;
    int first = p->outer == STEP_OUTER_FIRST, last = p->outer == STEP_OUTER_LAST;

    for (int i = 0; i < p->units; i++) {
        int unit = p->early_update ? p->units - 1 - i : i; /* early: in the order in which
                                                              gradients become complete */
        struct step_row row = gen_whole(unit);
        if (!p->trains[unit])
            continue;
        row.after[0] = p->early_update ? g->reduced[unit] : -1;
        row.after[1] = first ? g->synced[unit] : -1;
        row.after[0] = gen_add(g, STEP_COMPUTE, STEP_UPDATE, row);
        row.after[1] = -1;
        if (last) {
            add_after(g, STEP_OUTER_REDUCE, &row);
            add_after(g, STEP_OUTER_GATHER, &row);
        }
        add_after(g, STEP_SYNC, &row);
    }
    for (int unit = 0; unit < p->units && last && !p->has[STEP_SYNC]; unit++) {
        struct step_row row = gen_whole(unit);
        row.after[0] = g->synced[unit];
        if (p->trains[unit])
            gen_add(g, STEP_COMPUTE, STEP_ADOPT, row);
    }
}

/* Visits of a micro-step whose unit stays gathered from the forward to the backward. */
static int gen_kept_of(const struct step_shape *p)
{
    int backs = p->visits - p->first_trained;

    return p->keep < backs ? p->keep : backs;
}

/* Slots in rotation: the one in use and the prefetched ones, but no more than gathers. */
static int gen_ring_of(const struct step_shape *p)
{
    int64_t uses = 2 * (int64_t)p->visits - p->first_trained;
    int64_t turns = (uses - 2 * gen_kept_of(p)) * p->micros;

    return p->prefetch < turns ? p->prefetch + 1 : (int)turns;
}

int step_slots(const struct step_shape *p)
{
    return p->has[STEP_GATHER] ? gen_ring_of(p) + gen_kept_of(p) : 0;
}

void step_gen(struct step *s, const struct step_shape *p)
{
    struct gen g = {.shape = p,
                    .s = s,
                    .uses = 2 * p->visits - p->first_trained,
                    .keep = gen_kept_of(p),
                    .ring = gen_ring_of(p)};
    int slots = g.ring + g.keep;

    *s = (struct step){
        .slots = step_slots(p), .buckets = p->has[STEP_REDUCE] ? p->buckets : 0, .norm = -1};
    /* Per use a row and a gather; per gradient an accumulate and a reduce; per unit five
       more. */
    s->row = mem_new((size_t)p->micros * (2 * (size_t)g.uses + 2 * (size_t)p->units + 1) +
                         5 * (size_t)p->units + 2,
                     sizeof *s->row);
    g.held = mem_new((size_t)slots + 1, sizeof *g.held);
    g.first = mem_new((size_t)p->units, sizeof *g.first);
    g.reduced = mem_new((size_t)p->units, sizeof *g.reduced);
    g.synced = mem_new((size_t)p->units, sizeof *g.synced);
    g.sent = mem_new((size_t)p->buckets, sizeof *g.sent);
    for (int i = 0; i < slots; i++)
        g.held[i] = -1;
    for (int i = 0; i < p->buckets; i++)
        g.sent[i] = -1;
    for (int u = 0; u < p->units; u++)
        g.reduced[u] = g.synced[u] = -1;
    for (int l = 0; l < STEP_LANES; l++)
        g.ends[l] = -1;
    g.ends[STEP_COMPUTE] = LAST_BEFORE;
    for (int v = p->visits - 1; v >= 0; v--)
        g.first[step_unit_of(p, v)] = v;
    issue_gathers(&g);
    if (!p->evaluate && p->outer == STEP_OUTER_FIRST)
        add_first(&g);
    for (int micro = 0; micro < p->micros; micro++) {
        struct step_row begin = gen_whole(-1);
        begin.micro = micro;
        gen_add(&g, STEP_COMPUTE, STEP_BEGIN, begin);
        for (int i = 0; i < g.uses; i++)
            write_use(&g, micro);
    }
    if (!p->evaluate && p->early_update)
        add_updates(&g);
    if (!p->evaluate) {
        struct step_row row = gen_whole(-1);
        row.after[0] = g.ends[STEP_REDUCE];
        row.after[1] = g.ends[STEP_CONVERT];
        s->norm = gen_add(&g, STEP_COMPUTE, STEP_NORM, row);
        gen_add(&g, STEP_COMPUTE, STEP_AGREE, gen_whole(-1));
    }
    if (!p->evaluate && !p->early_update)
        add_updates(&g);
    /* Replace the placeholders by row numbers. */
    for (int i = 0; i < s->rows; i++)
        for (int k = 0; k < STEP_AFTERS; k++) {
            int *after = &s->row[i].after[k];
            *after = *after == LAST_BEFORE   ? g.ends[STEP_COMPUTE]
                     : *after <= SYNC_BEFORE ? g.synced[SYNC_BEFORE - *after]
                                             : *after;
        }
    MEM_FREE(g.held, g.first, g.reduced, g.synced, g.sent);
}

void step_release(struct step *s)
{
    mem_free(s->row);
    *s = (struct step){.rows = 0};
}

const char *step_lane_name(enum step_lane lane)
{
    static const char *const names[STEP_LANES] = {
        "gather", "reduce", "convert", "sync", "outer-reduce", "outer-gather", "compute"};

    return names[lane];
}

const char *step_kind_name(const struct step_row *row)
{
    static const char *const names[STEP_KINDS] = {
        NULL, "begin", "forward", "backward", "accumulate", "norm", "agree", "update", "adopt"};

    if (row->lane < 0 || row->lane >= STEP_LANES || row->kind < 0 || row->kind >= STEP_KINDS)
        return "?";
    return row->kind == STEP_TRANSFER ? step_lane_name((enum step_lane)row->lane)
                                      : names[row->kind];
}
