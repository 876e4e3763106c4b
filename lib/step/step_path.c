/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the critical path of a step: the chain of rows and waits that led to its end.  A
 * transfer counts with its whole duration, even if it waited for another rank, because one
 * rank's trace does not show the others.
 *
 *     gather   [  g0  ][  g1  ]            the step's end <- F1 <- g1 <- g0 <- b
 *     compute  bwwwwwwww.F0wwww.F1
 *
 * g0 and g1 were issued after b, but g1 had to wait for g0.  w: the lane waits; the row waited
 * for is on the path instead.  A dot is a gap: F0 begins a little after g0 has ended, because
 * its thread has to wake up.
 */
#include "step/step_path.h"

#include <math.h>

#include "base/mem.h"

struct walk {
    const struct step *s;
    const struct step_time *time;
    struct step_path *path;
    int *before;    /* [2 * rows] the previous row of its lane that ran, -1: none */
    int *issuer;    /* [2 * rows] the compute row that issued it */
    double start_s; /* start of the window */
    double at_s;    /* the path is found from this time on */
};

const char *step_path_name(enum step_path_sum sum)
{
    static const char *const names[] = {"compute", "gathers",   "reduces",
                                        "syncs",   "agreement", "gaps"};

    return names[sum];
}

int step_after(const struct step *s, int node, int k)
{
    int row = node % s->rows, after = s->row[row].after[k];

    return after < 0 ? -1 : after < row ? node - row + after : node - row - s->rows + after;
}

static const struct step_row *path_row_of(const struct walk *w, int node)
{
    return &w->s->row[node % w->s->rows];
}

/* Extends the path back to `to_s` by a node, or by a gap (node -1). */
static void part(struct walk *w, int node, double to_s)
{
    static const enum step_path_sum of[STEP_LANES] = {
        [STEP_GATHER] = STEP_PATH_GATHER,     [STEP_REDUCE] = STEP_PATH_REDUCE,
        [STEP_CONVERT] = STEP_PATH_REDUCE,    [STEP_SYNC] = STEP_PATH_SYNC,
        [STEP_OUTER_REDUCE] = STEP_PATH_SYNC, [STEP_OUTER_GATHER] = STEP_PATH_SYNC,
        [STEP_COMPUTE] = STEP_PATH_COMPUTE};
    struct step_path *p = w->path;
    const struct step_row *r = node < 0 ? NULL : path_row_of(w, node);
    enum step_path_sum sum = !r                      ? STEP_PATH_GAP
                             : r->kind == STEP_AGREE ? STEP_PATH_AGREE
                                                     : of[r->lane];

    to_s = fmax(to_s, w->start_s);
    if (to_s >= w->at_s)
        return;
    p->part[p->parts++] = (struct step_part){node, to_s, w->at_s};
    p->sum_s[sum] += w->at_s - to_s;
    w->at_s = to_s;
}

/* Returns the k-th node that a node may have waited for; -1: none, or it did not run. */
enum { HOLDERS = STEP_AFTERS + 1 };
static int holder_of(const struct walk *w, int node, int k)
{
    int at = k < STEP_AFTERS ? step_after(w->s, node, k) : w->before[node];

    return at >= 0 && w->time[at].ran ? at : -1;
}

static void walk_back(struct walk *w, int node)
{
    while (node >= 0 && w->at_s > w->start_s) {
        const struct step_time *t = &w->time[node];
        int cause = w->issuer[node];
        double cause_s = t->issued_s;
        part(w, -1, t->end_s);
        part(w, node, t->start_s);
        for (int k = 0; k < HOLDERS; k++) {
            int at = holder_of(w, node, k);
            if (at >= 0 && w->time[at].end_s > cause_s) {
                cause = at;
                cause_s = w->time[at].end_s;
            }
        }
        part(w, -1, cause_s); /* gap until its lane started it */
        node = cause;
    }
    part(w, -1, w->start_s);
}

/* Computes step_path.longest_s.  last: the compute lane's last node that ran, -1: none. */
static double longest(const struct walk *w, int last)
{
    int nodes = 2 * w->s->rows;
    double *end_s = mem_new((size_t)nodes + 1, sizeof *end_s), longest_s;

    for (int i = 0; i < nodes; i++) {
        const struct step_time *t = &w->time[i];
        double ready_s = w->issuer[i] < 0 ? 0 : end_s[w->issuer[i]];
        for (int k = 0; t->ran && k < HOLDERS; k++)
            if (holder_of(w, i, k) >= 0)
                ready_s = fmax(ready_s, end_s[holder_of(w, i, k)]);
        end_s[i] = ready_s + (t->ran ? fmax(t->end_s - fmax(t->start_s, w->start_s), 0) : 0);
    }
    longest_s = last >= 0 ? end_s[last] : 0;
    mem_free(end_s);
    return longest_s;
}

void step_path_init(struct step_path *p, const struct step *s, const struct step_time *time,
                    double start_s, double end_s)
{
    size_t nodes = 2 * (size_t)s->rows;
    int newest[STEP_LANES];
    struct walk w = {.s = s, .time = time, .path = p, .start_s = start_s, .at_s = end_s};

    *p = (struct step_path){.parts = 0};
    /* The walk only visits earlier nodes, with at most two gaps each: before and after it. */
    p->part = mem_new(3 * nodes + 1, sizeof *p->part);
    w.before = mem_new(nodes + 1, sizeof *w.before);
    w.issuer = mem_new(nodes + 1, sizeof *w.issuer);
    for (int lane = 0; lane < STEP_LANES; lane++)
        newest[lane] = -1;
    for (size_t i = 0; i < nodes; i++) {
        int lane = path_row_of(&w, (int)i)->lane;
        w.before[i] = newest[lane];
        w.issuer[i] = newest[STEP_COMPUTE];
        if (time[i].ran)
            newest[lane] = (int)i;
    }
    walk_back(&w, newest[STEP_COMPUTE]);
    for (int i = 0, k = p->parts - 1; i < k; i++, k--) { /* reverse into order of time */
        struct step_part one = p->part[i];
        p->part[i] = p->part[k];
        p->part[k] = one;
    }
    p->longest_s = longest(&w, newest[STEP_COMPUTE]);
    mem_free(w.before);
    mem_free(w.issuer);
}

void step_path_release(struct step_path *p)
{
    mem_free(p->part);
    *p = (struct step_path){.parts = 0};
}
