/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a step's end waited for.  Does not know how events are kept, nor other ranks: a
 * conversion that waits for another rank is as long as it was.
 *
 *     gathers  [  g0  ][  g1  ]            the step's end <- F1 <- the wait <- g1 <- g0
 *     compute  b.......F0.wwww.F1          <- b, behind which g0 was pushed
 *
 * g1 was pushed with g0, before that ended: g0 held it up, and not what pushed it.  (So may one
 * of another stream, behind which it had to be.)  A dot is a gap: F0 begins a little after g0
 * has ended, for its thread has to wake up.
 */
#include "engine/engine_trace.h"

#include <assert.h>
#include <math.h>

#include "base/mem.h"

struct walk {
    const struct engine_event *event;
    struct engine_path *path;
    int *before;    /* [count] the lane's event before it, -1: none */
    double start_s; /* of the window */
    double at_s;    /* the path is known from here on */
};

const char *engine_path_name(enum engine_path_sum sum)
{
    static const char *const names[] = {"compute", "gathers",   "reduces",
                                        "syncs",   "agreement", "gaps"};

    return names[sum];
}

/* Not of a wait. */
static enum engine_path_sum sum_of(enum engine_event_kind kind)
{
    switch (kind) {
    case ENGINE_GATHERED:
        return ENGINE_PATH_GATHERS;
    case ENGINE_REDUCED:
    case ENGINE_CONVERTED:
        return ENGINE_PATH_REDUCES;
    case ENGINE_SYNCED:
        return ENGINE_PATH_SYNCS;
    case ENGINE_AGREE:
        return ENGINE_PATH_AGREEMENT;
    default:
        return ENGINE_PATH_COMPUTE;
    }
}

/* The path goes on back to `to_s` through event i, or through nothing. */
static void part(struct walk *w, int i, double to_s)
{
    struct engine_path *p = w->path;
    enum engine_path_sum sum = i < 0 ? ENGINE_PATH_GAPS : sum_of(w->event[i].kind);

    to_s = fmax(to_s, w->start_s);
    if (to_s >= w->at_s)
        return;
    p->part[p->parts++] = (struct engine_path_part){i, to_s, w->at_s};
    p->sum_s[sum] += w->at_s - to_s;
    w->at_s = to_s;
}

/* What held up event i, whose beginning the walk has reached; -1: nothing that is known. */
static int held_by(struct walk *w, int i)
{
    const struct engine_event *v = &w->event[i];
    int by[] = {w->before[i], v->behind}, last = v->cause;
    double last_s = v->pushed_s;

    if (v->lane == ENGINE_LANE_COMPUTE)
        return w->before[i];
    for (int k = 0; k < 2; k++)
        if (by[k] >= 0 && w->event[by[k]].end_s > last_s) {
            last = by[k];
            last_s = w->event[last].end_s;
        }
    part(w, -1, last_s); /* until its stream took it up */
    return last;
}

/* The conversion that ended a wait, -1: it was there before, or is not known. */
static int waited_for(const struct walk *w, const struct engine_event *v)
{
    return v->cause >= 0 && w->event[v->cause].end_s > v->start_s ? v->cause : -1;
}

static void walk_back(struct walk *w, int i)
{
    while (i >= 0 && w->at_s > w->start_s) {
        const struct engine_event *v = &w->event[i];
        part(w, -1, v->end_s);
        int wait = v->kind == ENGINE_WAITED, other = wait ? waited_for(w, v) : -1;
        if (other >= 0) {
            i = other;
            continue;
        }
        part(w, wait ? -1 : i, v->start_s);
        i = held_by(w, i);
    }
    part(w, -1, w->start_s);
}

static void turn_round(struct engine_path *p)
{
    for (int i = 0, k = p->parts - 1; i < k; i++, k--) {
        struct engine_path_part one = p->part[i];
        p->part[i] = p->part[k];
        p->part[k] = one;
    }
}

struct span { /* when an event begins and ends where nothing comes between */
    double start_s, end_s;
};

/* As span, of event i, those before it known; times count from the window's beginning. */
static struct span span_of(const struct walk *w, const struct span *span, int i)
{
    const struct engine_event *v = &w->event[i];
    struct span s = {0};
    double took_s = fmax(v->end_s - fmax(v->start_s, w->start_s), 0);

    if (w->before[i] >= 0)
        s.start_s = span[w->before[i]].end_s;
    if (v->behind >= 0)
        s.start_s = fmax(s.start_s, span[v->behind].end_s);
    if (v->cause >= 0) {
        const struct engine_event *c = &w->event[v->cause];
        double ready_s = span[v->cause].end_s;
        /* Pushed amidst a computation that went on: it waits for no more than that part. */
        if (v->kind != ENGINE_WAITED && c->end_s > v->pushed_s)
            ready_s = fmax(ready_s - (c->end_s - v->pushed_s), span[v->cause].start_s);
        s.start_s = fmax(s.start_s, ready_s);
    }
    s.end_s = s.start_s + (v->kind == ENGINE_WAITED ? 0 : took_s);
    return s;
}

static double longest(const struct walk *w, int count, int last)
{
    struct span *span = mem_new((size_t)count + 1, sizeof *span);
    double longest_s;

    for (int i = 0; i < count; i++)
        span[i] = span_of(w, span, i);
    longest_s = last >= 0 ? span[last].end_s : 0;
    mem_free(span);
    return longest_s;
}

void engine_path_init(struct engine_path *p, const struct engine_event *event, int count,
                      double start_s, double end_s)
{
    int newest[ENGINE_LANES];
    struct walk w = {.event = event, .path = p, .start_s = start_s, .at_s = end_s};

    *p = (struct engine_path){0};
    /* The walk goes to earlier events alone, with a gap or two at each: before it, behind it.
     */
    p->part = mem_new(3 * (size_t)count + 1, sizeof *p->part);
    w.before = mem_new((size_t)count + 1, sizeof *w.before);
    for (int lane = 0; lane < ENGINE_LANES; lane++)
        newest[lane] = -1;
    for (int i = 0; i < count; i++) {
        assert(event[i].cause < i && event[i].behind < i);
        w.before[i] = newest[event[i].lane];
        newest[event[i].lane] = i;
    }
    walk_back(&w, newest[ENGINE_LANE_COMPUTE]);
    turn_round(p);
    p->longest_s = longest(&w, count, newest[ENGINE_LANE_COMPUTE]);
    mem_free(w.before);
}

void engine_path_release(struct engine_path *p)
{
    mem_free(p->part);
    *p = (struct engine_path){0};
}
