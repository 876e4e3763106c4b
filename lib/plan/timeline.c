/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the order of a step's work and who waits for whom, and walks it event by event.  What
 * each piece costs alone is told by traffic.c and work.c.
 *
 * What is begun when is told by the computing thread's place in its program alone, so the
 * program is written down first: acts, each with what it waits for and with how many jobs each
 * lane has been given once it is over.  Then both are walked.
 */
#include "plan/timeline.h"

#include <assert.h>
#include <math.h>

#include "base/mem.h"

struct count { /* `lane` has ended so many jobs */
    int lane, jobs;
};

struct act { /* of the computing thread */
    enum plan_task task;
    int unit, micro;
    double s;
    struct count wait;
    int given[PLAN_CONVERSIONS];
};

struct job { /* of a stream */
    const struct plan_traffic *flow;
    int unit, micro;
    struct count behind;
};

struct lane {
    struct job *job;
    int jobs, done;
    int running, local; /* of the job at hand: whether begun; whether the links are done */
    double left, start_s;
};

struct program {
    struct plan_bill *bill;
    const struct model *model;
    int units, visits, uses, micros, keep, ring; /* uses: of units in a micro-step */
    int there[PLAN_CONVERSIONS];
    struct plan_traffic *flow; /* [spans][PLAN_CONVERSIONS] */
    struct act *act;
    int acts;
    struct lane lane[PLAN_CONVERSIONS];
    int *busy;              /* [ring + keep] places of gathered units */
    int use, pushed, taken; /* as in engine/engine_uses.c */
    int *reduced;           /* [units] the job that reduces it last, from 1; 0: none */
};

static int unit_of(const struct program *p, int visit)
{
    return p->model->unit ? model_unit_of_visit(p->model, visit) : 0;
}

static const struct plan_traffic *flow_of(const struct program *p, int unit,
                                          enum plan_conversion kind)
{
    return &p->flow[p->bill->tally->span_of[unit] * PLAN_CONVERSIONS + kind];
}

/* Returns the job's number, from 1. */
static int give(struct program *p, enum plan_conversion kind, int unit, int micro,
                struct count behind)
{
    struct lane *l = &p->lane[kind];

    l->job[l->jobs++] = (struct job){flow_of(p, unit, kind), unit, micro, behind};
    return l->jobs;
}

static struct act *act(struct program *p, enum plan_task task, int unit, int micro, double s)
{
    struct act *a = &p->act[p->acts++];

    *a = (struct act){.task = task, .unit = unit, .micro = micro, .s = s};
    return a;
}

/* What has been given to the lanes by now belongs to the act that is being written. */
static void over(struct program *p)
{
    for (int k = 0; k < PLAN_CONVERSIONS; k++)
        p->act[p->acts - 1].given[k] = p->lane[k].jobs;
}

/* ---- uses of units: engine/engine_uses.c ---- */

struct use {
    int visit, back, kept, ring;
};

static struct use use_at(const struct program *p, int use)
{
    int at = use % p->uses;
    struct use u = {.back = at >= p->visits};

    u.visit = u.back ? 2 * p->visits - 1 - at : at;
    u.kept = u.visit >= p->visits - p->keep;
    u.ring = use / p->uses * (p->uses - 2 * p->keep) + (u.back ? at - 2 * p->keep : at);
    return u;
}

static int *place_of(struct program *p, struct use u)
{
    return &p->busy[u.kept ? p->ring + u.visit - (p->visits - p->keep) : u.ring % p->ring];
}

static int use_of_gather(const struct program *p, int gather)
{
    int all = p->uses - p->keep, at = gather % all;

    return gather / all * p->uses + (at < p->visits ? at : at + p->keep);
}

static void give_gathers(struct program *p)
{
    int all = p->micros * (p->uses - p->keep);

    while (p->there[PLAN_GATHER] && p->pushed < all &&
           p->pushed - p->taken <= p->bill->at->prefetch) {
        int use = use_of_gather(p, p->pushed), *busy = place_of(p, use_at(p, use));
        int unit = unit_of(p, use_at(p, use).visit);
        if (*busy)
            return;
        struct count behind = {PLAN_SYNC, p->there[PLAN_SYNC] ? unit + 1 : 0};
        give(p, PLAN_GATHER, unit, use / p->uses, behind);
        *busy = ++p->pushed;
    }
}

static struct count take(struct program *p)
{
    struct use u = use_at(p, p->use);

    if (!p->there[PLAN_GATHER])
        return (struct count){PLAN_SYNC, p->there[PLAN_SYNC] ? unit_of(p, u.visit) + 1 : 0};
    p->taken += !(u.kept && u.back);
    return (struct count){PLAN_GATHER, *place_of(p, u)};
}

static void give_back(struct program *p)
{
    struct use u = use_at(p, p->use++);

    if (p->there[PLAN_GATHER] && !(u.kept && !u.back))
        *place_of(p, u) = 0;
    give_gathers(p);
}

/* ---- the program ---- */

static int trains(const struct program *p, int unit)
{
    const struct plan_tally *t = p->bill->tally;

    return t->span[t->span_of[unit]].elems[PLAN_TRAINED] > 0;
}

static void write_update(struct program *p)
{
    for (int u = 0; u < p->units; u++) {
        act(p, PLAN_TASK_UPDATE, u, -1, p->bill->work[u].update_s);
        if (p->there[PLAN_SYNC])
            give(p, PLAN_SYNC, u, -1, (struct count){0});
        if (u == p->units - 1)
            give_gathers(p);
        over(p);
    }
}

static void write_gradient(struct program *p, int unit, int micro, double add_s)
{
    int buckets = p->bill->at->buckets, given = p->lane[PLAN_REDUCE].jobs;
    struct act *a = act(p, PLAN_TASK_ADD, unit, micro, add_s);

    if (p->there[PLAN_REDUCE]) {
        a->wait = (struct count){PLAN_REDUCE, given > buckets - 1 ? given - buckets + 1 : 0};
        p->reduced[unit] = give(p, PLAN_REDUCE, unit, micro, (struct count){0});
    }
    if (p->there[PLAN_BOUNDARY] && micro == p->micros - 1)
        give(p, PLAN_BOUNDARY, unit, -1, (struct count){PLAN_REDUCE, p->reduced[unit]});
    over(p);
}

static void write_micro(struct program *p, int micro)
{
    for (int at = 0; at < p->uses; at++) {
        int back = at >= p->visits, visit = back ? 2 * p->visits - 1 - at : at;
        int unit = unit_of(p, visit);
        struct plan_work work = p->bill->work[visit];
        struct act *a = act(p, back ? PLAN_TASK_BACKWARD : PLAN_TASK_FORWARD, unit, micro,
                            back ? work.backward_s : work.forward_s);
        a->wait = take(p);
        give_back(p);
        over(p);
        /* Of a tied embedding the second use in the backward is still to come. */
        if (back && !(unit == 0 && visit > 0) && trains(p, unit))
            write_gradient(p, unit, micro, work.add_s);
    }
}

static void write_program(struct program *p)
{
    const struct plan_case *c = p->bill->at;
    int spans = p->bill->tally->spans, uses;
    struct layout_moves moves;

    p->units = p->model->unit ? p->model->units : 1;
    p->visits = p->bill->tally->visits;
    p->micros = c->accum < PLAN_MICROS ? c->accum : PLAN_MICROS;
    p->uses = 2 * p->visits - p->model->first_trained;
    p->keep = c->keep < p->uses - p->visits ? c->keep : p->uses - p->visits;
    uses = p->uses * p->micros;
    p->ring = c->prefetch + 1 < uses ? c->prefetch + 1 : uses;
    p->flow = mem_new((size_t)spans * PLAN_CONVERSIONS, sizeof *p->flow);
    p->act = mem_new((size_t)(uses * 2 + p->units + 1), sizeof *p->act);
    p->busy = mem_new((size_t)(p->ring + p->keep), sizeof *p->busy);
    p->reduced = mem_new((size_t)p->units, sizeof *p->reduced);
    for (int k = 0; k < PLAN_CONVERSIONS; k++) {
        int jobs = k == PLAN_GATHER ? uses : k == PLAN_REDUCE ? p->units * p->micros : p->units;
        p->there[k] = plan_traffic_moves(p->bill, (enum plan_conversion)k, &moves);
        p->lane[k].job = mem_new((size_t)jobs, sizeof *p->lane[k].job);
        for (int i = 0; i < spans; i++)
            plan_traffic_of(p->bill, i, (enum plan_conversion)k,
                            &p->flow[i * PLAN_CONVERSIONS + k]);
    }
    write_update(p);
    for (int i = 0; i < p->micros; i++)
        write_micro(p, i);
}

static void program_release(struct program *p)
{
    for (int k = 0; k < PLAN_CONVERSIONS; k++)
        mem_free(p->lane[k].job);
    mem_free(p->flow);
    mem_free(p->act);
    mem_free(p->busy);
    mem_free(p->reduced);
}

/* ---- the walk ---- */

struct walk {
    struct program *p;
    struct plan_timeline *out;
    int keep_pieces;
    double now;
    int at, given[PLAN_CONVERSIONS]; /* the act at hand, and what it lets be begun */
    int computing;
    double left, start_s;            /* of the act, in seconds */
    double lost[PLAN_TIERS];         /* of the computing where a tier is at its full rate */
    double micro_s[PLAN_MICROS + 1]; /* when its first use was there */
};

static void add_piece(struct walk *w, struct plan_piece piece)
{
    if (w->keep_pieces && piece.end_s > piece.start_s)
        w->out->piece[w->out->pieces++] = piece;
}

static int has_ended(const struct walk *w, struct count c)
{
    return w->p->lane[c.lane].done >= c.jobs;
}

/* Begins all that can be. */
static void begin(struct walk *w)
{
    struct program *p = w->p;

    for (int k = 0; k < PLAN_CONVERSIONS; k++) {
        struct lane *l = &p->lane[k];
        if (l->running || l->done >= w->given[k] || !has_ended(w, l->job[l->done].behind))
            continue;
        l->running = 1;
        l->local = 0;
        l->left = 1;
        l->start_s = w->now;
    }
    if (!w->computing && w->at < p->acts && has_ended(w, p->act[w->at].wait)) {
        const struct act *a = &p->act[w->at];
        w->computing = 1;
        w->left = a->s;
        w->start_s = w->now;
        if (a->micro >= 0 && a->task == PLAN_TASK_FORWARD && w->micro_s[a->micro] < 0)
            w->micro_s[a->micro] = w->now;
    }
}

/* Parts of each job, and of the act's seconds, a second. */
struct speeds {
    double lane[PLAN_CONVERSIONS], compute;
};

/* A conversion that takes no time is over at once. */
static double alone(const struct walk *w, const struct plan_traffic *f)
{
    return f->alone_s[w->computing];
}

static void set_speeds(const struct walk *w, struct speeds *s)
{
    double load[PLAN_TIERS] = {0}, used[PLAN_TIERS] = {0};

    *s = (struct speeds){.compute = w->computing};
    for (int k = 0; k < PLAN_CONVERSIONS; k++) {
        const struct lane *l = &w->p->lane[k];
        if (!l->running || l->local)
            continue;
        const struct plan_traffic *f = l->job[l->done].flow;
        for (int tier = 0; tier < PLAN_TIERS && alone(w, f) > 0; tier++)
            load[tier] += f->link_s[w->computing][tier] / alone(w, f);
    }
    for (int k = 0; k < PLAN_CONVERSIONS; k++) {
        const struct lane *l = &w->p->lane[k];
        if (!l->running)
            continue;
        const struct plan_traffic *f = l->job[l->done].flow;
        if (l->local) {
            s->lane[k] = 1 / f->local_s;
            continue;
        }
        double share = 1;
        for (int tier = 0; tier < PLAN_TIERS; tier++)
            if (f->link_s[0][tier] > 0 && load[tier] > 1)
                share = fmin(share, 1 / load[tier]);
        s->lane[k] = alone(w, f) > 0 ? share / alone(w, f) : INFINITY;
        for (int tier = 0; tier < PLAN_TIERS; tier++)
            used[tier] += isfinite(s->lane[k]) ? s->lane[k] * f->link_s[0][tier] : 0;
    }
    for (int tier = 0; tier < PLAN_TIERS; tier++)
        s->compute *= 1 - fmin(used[tier], 1) * w->lost[tier];
}

/* A job's links are done: its own memory is next, or the job is over. */
static void end_job(struct walk *w, int k)
{
    struct lane *l = &w->p->lane[k];
    const struct job *j = &l->job[l->done];

    if (!l->local && j->flow->local_s > 0) {
        l->local = 1;
        l->left = 1;
        return;
    }
    add_piece(w,
              (struct plan_piece){k, PLAN_TASK_CONVERT, j->unit, j->micro, l->start_s, w->now});
    l->running = 0;
    l->done++;
}

static void end_act(struct walk *w)
{
    const struct act *a = &w->p->act[w->at++];

    add_piece(w, (struct plan_piece){PLAN_LANE_COMPUTE, a->task, a->unit, a->micro, w->start_s,
                                     w->now});
    w->computing = 0;
    for (int k = 0; k < PLAN_CONVERSIONS; k++)
        w->given[k] = a->given[k];
}

static double needs(double left, double speed)
{
    return left > 0 ? left / speed : 0;
}

/* To the next end of anything; returns 0 when nothing is under way. */
static int advance(struct walk *w)
{
    struct speeds s;
    double dt = INFINITY;

    set_speeds(w, &s);
    if (w->computing)
        dt = needs(w->left, s.compute);
    for (int k = 0; k < PLAN_CONVERSIONS; k++)
        if (w->p->lane[k].running)
            dt = fmin(dt, needs(w->p->lane[k].left, s.lane[k]));
    if (!isfinite(dt))
        return 0;
    w->now += dt;
    if (!w->computing)
        w->out->waited_s += dt;
    /* What ends is what needed least: compared as it was computed, so that it does end. */
    int computed = w->computing && needs(w->left, s.compute) <= dt;
    w->left -= dt * s.compute;
    for (int k = 0; k < PLAN_CONVERSIONS; k++) {
        struct lane *l = &w->p->lane[k];
        if (!l->running)
            continue;
        int ended = needs(l->left, s.lane[k]) <= dt;
        l->left -= isfinite(s.lane[k]) ? dt * s.lane[k] : 0;
        if (ended)
            end_job(w, k);
    }
    if (computed)
        end_act(w);
    return 1;
}

/* Micro-steps that were not walked are as long as the last but one. */
static double unwalked_s(const struct walk *w)
{
    int micros = w->p->micros, more = w->p->bill->at->accum - micros;

    return more > 0 ? more * (w->micro_s[micros - 1] - w->micro_s[micros - 2]) : 0;
}

/* What the computing loses at a tier's full rate: measured at what the computing leaves of it.
 */
static double lost_of(const struct plan_bill *b, int tier)
{
    const struct topo_level *v = &b->at->topo->level[tier == PLAN_FAST ? 0 : 1];
    double left = v->rate_left > 0 ? v->rate_left : 1;
    double lost = v->compute_left > 0 ? (1 - v->compute_left) / left : 0;

    return fmin(lost, 0.95);
}

/* The norm: a word of each rank to all, in as many rounds as doubling takes. */
static double agree_s(const struct plan_bill *b)
{
    const struct groups *g = &b->tally->layout.groups;
    int rounds = 0;

    while (1 << rounds < g->ranks)
        rounds++;
    return rounds * plan_message_s(b, g->count > 1);
}

/* How often a global step converts units of a span. */
static int64_t times_of(const struct plan_bill *b, const struct plan_span *span, int kind)
{
    int64_t accum = b->at->accum; /* times the visits, more than an int holds */

    return kind == PLAN_GATHER   ? accum * (span->count[PLAN_ALL] + span->count[PLAN_AGAIN])
           : kind == PLAN_REDUCE ? accum * span->count[PLAN_TRAINED]
                                 : span->count[PLAN_TRAINED];
}

void plan_timeline_least(struct plan_bill *b, struct plan_timeline *out)
{
    const struct plan_tally *t = b->tally;
    const struct model *m = b->at->model;
    double link_s[PLAN_TIERS] = {0};

    *out = (struct plan_timeline){.step_s = 0};
    for (int v = 0; v < t->visits; v++) {
        int unit = m->unit ? model_unit_of_visit(m, v) : 0;
        struct plan_work work = b->work[v];
        out->compute_s +=
            b->at->accum * (work.forward_s + (v < m->first_trained ? 0 : work.backward_s));
        if (unit == 0 && v > 0) /* a tied embedding: counted at its first visit */
            continue;
        out->compute_s += b->at->accum * work.add_s + work.update_s;
    }
    for (int i = 0; i < t->spans; i++)
        for (int kind = 0; kind < PLAN_CONVERSIONS; kind++) {
            struct plan_traffic f;
            int64_t times = times_of(b, &t->span[i], kind);
            plan_traffic_of(b, i, (enum plan_conversion)kind, &f);
            out->comm_s += (double)times * (f.alone_s[0] + f.local_s);
            for (int tier = 0; tier < PLAN_TIERS; tier++)
                link_s[tier] += (double)times * f.link_s[0][tier];
        }
    out->step_s = fmax(out->compute_s, fmax(link_s[PLAN_SLOW], link_s[PLAN_FAST])) + agree_s(b);
}

static void run(struct plan_bill *b, int keep_pieces, struct plan_timeline *out)
{
    struct program p = {.bill = b, .model = b->at->model};
    struct walk w = {.p = &p, .out = out, .keep_pieces = keep_pieces};

    plan_timeline_least(b, out);
    write_program(&p);
    out->micros = p.micros;
    if (keep_pieces) {
        int most = p.acts;
        for (int k = 0; k < PLAN_CONVERSIONS; k++)
            most += p.lane[k].jobs;
        out->piece = mem_new((size_t)most, sizeof *out->piece);
    }
    for (int i = 0; i <= PLAN_MICROS; i++)
        w.micro_s[i] = -1;
    for (int tier = 0; tier < PLAN_TIERS; tier++)
        w.lost[tier] = lost_of(b, tier);
    do
        begin(&w);
    while (advance(&w));
    assert(w.at == p.acts);
    out->walked_s = w.now + agree_s(b);
    out->step_s = out->walked_s + unwalked_s(&w);
    program_release(&p);
}

void plan_timeline_walk(struct plan_bill *b, struct plan_timeline *out)
{
    run(b, 0, out);
}

void plan_timeline_keep(struct plan_bill *b, struct plan_timeline *out)
{
    run(b, 1, out);
}

void plan_timeline_release(struct plan_timeline *t)
{
    mem_free(t->piece);
    *t = (struct plan_timeline){.step_s = 0};
}
