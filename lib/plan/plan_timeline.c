/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks the rows of a step (step/step.h) event by event; plan_cost.c and plan_work.c give the
 * cost of each alone.  The walk begins at the norm, when nothing is in flight: first the update
 * of the previous step, then the micro-steps.
 */
#include "plan/plan_timeline.h"

#include <assert.h>
#include <math.h>

#include "base/mem.h"
#include "plan/plan_deal.h"
#include "plan/plan_rows.h"

struct lane {
    int *row; /* [rows], owned, in their order */
    int rows, done;
    int running, local;   /* current row: whether it runs; whether its links are done */
    double left, start_s; /* left: fraction of a transfer, or seconds of computing */
};

struct walk {
    struct plan_cost *cost;
    struct plan_rows rows;
    char *ended;            /* [rows] */
    struct plan_flow *flow; /* [spans][STEP_COMPUTE] */
    struct lane lane[STEP_LANES];
    struct plan_timeline *out;
    int keep_pieces;
    double now, agree_s;
    double lost[PLAN_TIERS];         /* share of computing lost while a tier is at its full
                                        rate */
    double *micro_s;                 /* [micros + 1] start of the first use; owned */
    double micro_part_s[PLAN_PARTS]; /* parts of the last micro-step but one */
};

/* given: rows of all micro-steps; NULL: generate them. */
static void walk_init(struct walk *w, const struct step *given)
{
    int spans = w->cost->traffic->spans, micros = plan_micro_steps(&w->cost->at->settings);

    w->out->micros = micros < PLAN_MICROS || given ? micros : PLAN_MICROS;
    if (given)
        w->rows.step = *given;
    else
        plan_rows_init(&w->rows, w->cost, w->out->micros);
    /* Distribute the rows to the lanes, from the norm on and around. */
    const struct step *s = &w->rows.step;
    int count[STEP_LANES] = {0};
    for (int i = 0; i < s->rows; i++)
        count[s->row[i].lane]++;
    for (int k = 0; k < STEP_LANES; k++)
        w->lane[k].row = mem_new((size_t)count[k] + 1, sizeof *w->lane[k].row);
    for (int n = 0; n < s->rows; n++) {
        int i = (s->norm + n) % s->rows;
        struct lane *l = &w->lane[s->row[i].lane];
        l->row[l->rows++] = i;
    }
    w->ended = mem_new((size_t)w->rows.step.rows, sizeof *w->ended);
    w->flow = mem_new((size_t)spans * STEP_COMPUTE, sizeof *w->flow);
    for (int i = 0; i < spans; i++)
        for (int k = 0; k < STEP_COMPUTE; k++)
            plan_flow_of(w->cost, i, (enum step_lane)k, &w->flow[i * STEP_COMPUTE + k]);
    if (w->keep_pieces)
        w->out->piece = mem_new((size_t)w->rows.step.rows + STEP_LANES, sizeof *w->out->piece);
    w->micro_s = mem_new((size_t)w->out->micros + 1, sizeof *w->micro_s);
    for (int i = 0; i <= w->out->micros; i++)
        w->micro_s[i] = -1;
}

/* Returns the lane's current or next row. */
static const struct step_row *at_hand(const struct walk *w, int lane)
{
    return &w->rows.step.row[w->lane[lane].row[w->lane[lane].done]];
}

static const struct plan_flow *flow_of(const struct walk *w, int lane)
{
    int span = w->cost->traffic->span_of[at_hand(w, lane)->unit];

    return &w->flow[span * STEP_COMPUTE + lane];
}

static double compute_s(const struct walk *w, const struct step_row *r)
{
    const struct plan_work *work = w->cost->work;

    switch (r->kind) {
    case STEP_FORWARD:
        return work[r->visit].forward_s;
    case STEP_BACKWARD:
        return work[r->visit].backward_s;
    case STEP_ACCUMULATE:
        return work[r->unit].add_s;
    case STEP_UPDATE:
        return work[r->unit].update_s;
    case STEP_AGREE:
        return w->agree_s;
    default:
        return 0;
    }
}

/* Returns a row's position in the walk, which begins with the norm. */
static int timeline_place_of(const struct step *s, int row)
{
    return row < s->norm ? row + s->rows - s->norm : row - s->norm;
}

/* Returns the first row that a row waits for, or -1.  A named row that comes later in the walk
   belongs to a step before it. */
static int awaited(const struct walk *w, const struct step_row *r)
{
    const struct step *s = &w->rows.step;
    int place = timeline_place_of(s, (int)(r - s->row));

    for (int k = 0; k < STEP_AFTERS; k++)
        if (r->after[k] >= 0 && timeline_place_of(s, r->after[k]) < place &&
            !w->ended[r->after[k]])
            return r->after[k];
    return -1;
}

/* Begins all rows that can begin. */
static void timeline_begin(struct walk *w)
{
    for (int k = 0; k < STEP_LANES; k++) {
        struct lane *l = &w->lane[k];
        if (l->running || l->done == l->rows || awaited(w, at_hand(w, k)) >= 0)
            continue;
        const struct step_row *r = at_hand(w, k);
        l->running = 1;
        l->local = 0;
        l->left = k == STEP_COMPUTE ? compute_s(w, r) : 1;
        l->start_s = w->now;
        if (r->kind == STEP_FORWARD && w->micro_s[r->micro] < 0) {
            w->micro_s[r->micro] = w->now;
            for (int i = 0; i < PLAN_PARTS && r->micro >= w->out->micros - 2; i++)
                w->micro_part_s[i] = w->out->part_s[i] - w->micro_part_s[i];
        }
    }
}

/* Seconds of a conversion alone; 0: it ends at once. */
static double alone(const struct walk *w, const struct plan_flow *f)
{
    return f->alone_s[w->lane[STEP_COMPUTE].running];
}

/* Sets the progress of each row per second: as a fraction, of computing in seconds. */
static void set_speeds(const struct walk *w, double speed[STEP_LANES])
{
    double load[PLAN_TIERS] = {0}, used[PLAN_TIERS] = {0};
    int computing = w->lane[STEP_COMPUTE].running;

    for (int k = 0; k < STEP_COMPUTE; k++) {
        if (!w->lane[k].running || w->lane[k].local)
            continue;
        const struct plan_flow *f = flow_of(w, k);
        for (int tier = 0; tier < PLAN_TIERS && alone(w, f) > 0; tier++)
            load[tier] += f->link_s[computing][tier] / alone(w, f);
    }
    for (int k = 0; k < STEP_COMPUTE; k++) {
        if (!w->lane[k].running)
            continue;
        const struct plan_flow *f = flow_of(w, k);
        if (w->lane[k].local) {
            speed[k] = 1 / f->local_s;
            continue;
        }
        double share = 1;
        for (int tier = 0; tier < PLAN_TIERS; tier++)
            if (f->link_s[0][tier] > 0 && load[tier] > 1)
                share = fmin(share, 1 / load[tier]);
        speed[k] = alone(w, f) > 0 ? share / alone(w, f) : INFINITY;
        for (int tier = 0; tier < PLAN_TIERS; tier++)
            used[tier] += isfinite(speed[k]) ? speed[k] * f->link_s[0][tier] : 0;
    }
    speed[STEP_COMPUTE] = computing;
    for (int tier = 0; tier < PLAN_TIERS; tier++)
        speed[STEP_COMPUTE] *= 1 - fmin(used[tier], 1) * w->lost[tier];
}

/* A transfer whose links are done continues with its local memory; other rows end. */
static void end_row(struct walk *w, int k)
{
    struct lane *l = &w->lane[k];
    const struct step_row *r = at_hand(w, k);

    if (k != STEP_COMPUTE && !l->local && flow_of(w, k)->local_s > 0) {
        l->local = 1;
        l->left = 1;
        return;
    }
    if (w->keep_pieces && w->now > l->start_s && r->unit >= 0)
        w->out->piece[w->out->pieces++] = (struct plan_piece){
            k, (enum step_kind)r->kind, r->unit, r->micro, l->start_s, w->now};
    w->ended[r - w->rows.step.row] = 1;
    l->running = 0;
    l->done++;
}

static double needs(double left, double speed)
{
    return left > 0 ? left / speed : 0;
}

/* Attributes time as the engine does: a wait belongs to the first unfinished transfer that the
   next row names; after the last row the next step's norm waits for conversions. */
static enum plan_part timeline_part_of(const struct walk *w)
{
    static const enum plan_part of[STEP_COMPUTE] = {PLAN_PART_GATHER, PLAN_PART_GRADS,
                                                    PLAN_PART_GRADS,  PLAN_PART_SYNC,
                                                    PLAN_PART_SYNC,   PLAN_PART_SYNC};
    const struct lane *l = &w->lane[STEP_COMPUTE];
    const struct step_row *r = l->done < l->rows ? at_hand(w, STEP_COMPUTE) : NULL;

    if (!l->running)
        return r ? of[w->rows.step.row[awaited(w, r)].lane] : PLAN_PART_GRADS;
    return r->kind == STEP_UPDATE  ? PLAN_PART_UPDATE
           : r->kind == STEP_AGREE ? PLAN_PART_AGREE
                                   : PLAN_PART_WORK;
}

/* Advances to the next end of a row; returns 0 if nothing runs. */
static int advance(struct walk *w)
{
    double speed[STEP_LANES] = {0}, dt = INFINITY;

    set_speeds(w, speed);
    for (int k = 0; k < STEP_LANES; k++)
        if (w->lane[k].running)
            dt = fmin(dt, needs(w->lane[k].left, speed[k]));
    if (!isfinite(dt))
        return 0;
    w->now += dt;
    w->out->part_s[timeline_part_of(w)] += dt;
    if (!w->lane[STEP_COMPUTE].running)
        w->out->waited_s += dt;
    for (int k = 0; k < STEP_LANES; k++) {
        struct lane *l = &w->lane[k];
        if (!l->running)
            continue;
        /* Compare with the expression that gave dt, so that the minimal row does end. */
        int ended = needs(l->left, speed[k]) <= dt;
        l->left -= isfinite(speed[k]) ? dt * speed[k] : 0;
        if (ended)
            end_row(w, k);
    }
    return 1;
}

/* Exchange of the norm: one number from each rank to all, in log2 rounds; inside a period among
   the ranks of a group. */
static double agree_s(const struct plan_cost *b)
{
    const struct groups *g = &b->traffic->layout.groups;
    int rounds = 0,
        inside = plan_apart(&b->at->settings, g) && b->step.shape.outer != STEP_OUTER_LAST;

    while (1 << rounds < (inside ? b->traffic->largest_group : g->ranks))
        rounds++;
    return rounds * plan_message_s(b, g->count > 1 && !inside);
}

/* Returns how often a global step converts units of a span. */
static int64_t times_of(const struct plan_cost *b, const struct plan_span *span, int kind)
{
    /* 64 bits: times the visits it may exceed an int. */
    int64_t micros = plan_micro_steps(&b->at->settings);

    if (kind >= STEP_OUTER_REDUCE && !b->step.shape.outer)
        return 0;
    return kind == STEP_GATHER   ? micros * (span->count[PLAN_ALL] + span->count[PLAN_AGAIN])
           : kind == STEP_REDUCE ? micros * span->count[PLAN_TRAINED]
                                 : span->count[PLAN_TRAINED];
}

void plan_timeline_least(struct plan_cost *b, struct plan_timeline *out)
{
    const struct plan_traffic *t = b->traffic;
    const struct model *m = b->at->model;
    double link_s[PLAN_TIERS] = {0};
    int micros = plan_micro_steps(&b->at->settings);

    *out = (struct plan_timeline){.step_s = 0};
    for (int v = 0; v < t->visits; v++) {
        int unit = m->unit ? model_unit_of_visit(m, v) : 0;
        struct plan_work work = b->work[v];
        out->pass_s += micros * (work.forward_s + (v < m->first_trained ? 0 : work.backward_s));
        if (unit == 0 && v > 0) /* tied embedding: counted at its first visit */
            continue;
        out->compute_s += micros * work.add_s + work.update_s;
    }
    out->compute_s += out->pass_s;
    for (int i = 0; i < t->spans; i++)
        for (int kind = 0; kind < STEP_COMPUTE; kind++) {
            struct plan_flow f;
            int64_t times = times_of(b, &t->span[i], kind);
            plan_flow_of(b, i, (enum step_lane)kind, &f);
            out->link_s += (double)times * f.alone_s[0];
            out->comm_s += (double)times * (f.alone_s[0] + f.local_s);
            for (int tier = 0; tier < PLAN_TIERS; tier++)
                link_s[tier] += (double)times * f.link_s[0][tier];
        }
    out->slow_s = link_s[PLAN_SLOW];
    out->bound_s = fmax(out->compute_s, fmax(link_s[PLAN_SLOW], link_s[PLAN_FAST]));
    out->step_s = out->bound_s + agree_s(b);
}

void plan_timeline_walk(struct plan_cost *b, int keep_pieces, const struct step *given,
                        struct plan_timeline *out)
{
    struct walk w = {.cost = b, .out = out, .keep_pieces = keep_pieces, .agree_s = agree_s(b)};

    plan_timeline_least(b, out);
    walk_init(&w, given);
    for (int tier = 0; tier < PLAN_TIERS; tier++) {
        /* The loss was measured at the rate that computing leaves to the tier. */
        const struct topo_level *v = &b->at->topo->level[tier == PLAN_FAST ? 0 : 1];
        double left = v->rate_left > 0 ? v->rate_left : 1;
        w.lost[tier] = fmin(v->compute_left > 0 ? (1 - v->compute_left) / left : 0, 0.95);
    }
    do
        timeline_begin(&w);
    while (advance(&w));
    for (int k = 0; k < STEP_LANES; k++)
        assert(w.lane[k].done == w.lane[k].rows);
    out->walked_s = out->step_s = w.now;
    /* Micro-steps that were not walked take as long as the last but one. */
    int more = out->left_out = plan_micro_steps(&b->at->settings) - out->micros;
    if (more > 0)
        out->step_s += more * (w.micro_s[out->micros - 1] - w.micro_s[out->micros - 2]);
    for (int i = 0; i < PLAN_PARTS && more > 0; i++)
        out->part_s[i] += more * w.micro_part_s[i];
    for (int k = 0; k < STEP_LANES; k++)
        mem_free(w.lane[k].row);
    MEM_FREE(w.flow, w.ended, w.micro_s);
    if (!given)
        plan_rows_release(&w.rows);
}

void plan_timeline_of(const struct plan_case *c, const struct plan_price *price,
                      const struct step *given, struct plan_timeline *out)
{
    struct plan_traffic t;
    struct plan_case paced = *c;

    plan_case_pace(&paced);
    plan_traffic_init(&t, c->topo, c->model, &c->settings);
    struct plan_cost b = plan_cost_of(&paced, &t, price->strategy, price->algo);
    struct plan_work *work = mem_new((size_t)t.visits, sizeof *work);
    plan_works_of(&b, work);
    b.work = work;
    plan_timeline_walk(&b, 1, given, out);
    mem_free(work);
    plan_traffic_release(&t);
}

/*
 * Rotates the timeline so that it begins after the update.  Time before that moves to the end;
 * a piece that crosses the cut is split.
 *
 *     syncs    [s0 s1|s2 ]                   [s2 ]    [s0 s1|
 *     compute  [u]   |F0 F1 B1 B0 |    ->    |F0 F1 B1 B0 [u]
 */
static void timeline_reverse(struct plan_timeline *t)
{
    double from_s = 0, hole_s = t->step_s - t->walked_s;
    int pieces = t->pieces;

    for (int i = 0; i < pieces; i++)
        if (t->piece[i].kind == STEP_UPDATE)
            from_s = fmax(from_s, t->piece[i].end_s);
    for (int i = 0; i < pieces; i++) {
        struct plan_piece *p = &t->piece[i];
        int first = p->start_s < from_s;
        double end_s = p->end_s;
        if (first && end_s > from_s) { /* its second part, at the step's beginning */
            t->piece[t->pieces] = *p;
            t->piece[t->pieces].start_s = 0;
            t->piece[t->pieces++].end_s = end_s - from_s;
            end_s = from_s;
        }
        /* The last micro-step and the conversions come after the hole. */
        int last = p->micro == t->micros - 1 || p->lane == STEP_CONVERT;
        double more_s = first ? t->step_s : last ? hole_s : 0;
        p->start_s += more_s - from_s;
        p->end_s = end_s + more_s - from_s;
    }
    t->walked_s = t->step_s;
}

void plan_timeline_of_plan(const struct plan *p, const struct topo *fabric,
                           struct plan_timeline *out)
{
    struct plan_price price = {.strategy = p->strategy, .algo = p->algo};
    struct plan_case c;

    plan_case_of(p, fabric, &c);
    plan_timeline_of(&c, &price, NULL, out);
    timeline_reverse(out);
}

void plan_timeline_release(struct plan_timeline *t)
{
    mem_free(t->piece);
    *t = (struct plan_timeline){.step_s = 0};
}
