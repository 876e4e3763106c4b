/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GOODPUT_FIXTURE_H
#define GOODPUT_FIXTURE_H

/*
 * Simulates a run on nodes that fail, moment by moment: each node has a clock of its own and a
 * piece of the last local save, of which the next nodes of its ring have copies.  Shares
 * nothing with plan/plan_goodput.c but the struct.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "plan/plan_goodput.h"

struct sim_mean { /* of a number a period */
    double sum, squares;
};

struct sim_run {
    const struct plan_survival *s;
    double *fails_s; /* [nodes] when each fails next */
    char *lost;      /* [nodes] its piece of the last local save, and the copies that it had */
    int next;        /* node that fails next */
    double now_s;
    uint64_t drawn, seed;
    int64_t periods;
    struct sim_mean seconds, shared; /* of a period; restarts from the shared folder in one */
    int64_t failures;
};

static inline double sim_lifetime_s(struct sim_run *r)
{
    return -r->s->mtbf_s * log1p(-rng_uniform(r->seed, 0, r->drawn++));
}

static inline void sim_find_next(struct sim_run *r)
{
    r->next = 0;
    for (int i = 1; i < r->s->nodes; i++)
        if (r->fails_s[i] < r->fails_s[r->next])
            r->next = i;
}

/* Is there a piece that neither its node nor any of its copies' nodes has? */
static inline int sim_is_lost(const struct sim_run *r)
{
    int ring = r->s->ring;

    for (int i = 0; i < r->s->nodes; i++) {
        int have = 0;
        for (int c = 0; c <= r->s->copies; c++)
            have += !r->lost[i / ring * ring + (i % ring + c) % ring];
        if (!have)
            return 1;
    }
    return 0;
}

/* One period, from one shared save to the next. */
static inline void sim_period(struct sim_run *r, double step_s, int64_t every, int64_t saves)
{
    const struct plan_survival *s = r->s;
    double restart_s = 0, from_s = r->now_s;
    int64_t at = 0, shared = 0;
    int local = s->copies > 0; /* a local save has been made since a restart without one */
    int failed = 0;            /* since the last save */

    while (at < saves) {
        double pause_s =
            (s->copies ? s->local_pause_s : 0) + (at == saves - 1 ? s->pause_s : 0);
        double end_s = r->now_s + restart_s + step_s * (double)every + pause_s;
        if (r->fails_s[r->next] > end_s) {
            r->now_s = end_s;
            restart_s = 0;
            local = s->copies > 0;
            if (failed)
                memset(r->lost, 0, (size_t)s->nodes);
            failed = 0;
            at++;
            continue;
        }
        r->now_s = r->fails_s[r->next];
        r->fails_s[r->next] += sim_lifetime_s(r);
        r->failures++;
        r->lost[r->next] = 1;
        failed = 1;
        sim_find_next(r);
        if (local && !sim_is_lost(r)) {
            restart_s = s->local_restart_s;
            continue;
        }
        shared++;
        restart_s = s->restart_s;
        at = local = 0;
    }
    double seconds = r->now_s - from_s;
    r->seconds.sum += seconds;
    r->seconds.squares += seconds * seconds;
    r->shared.sum += (double)shared;
    r->shared.squares += (double)(shared * shared);
    r->periods++;
}

static inline void sim_init(struct sim_run *r, const struct plan_survival *s, uint64_t seed)
{
    *r = (struct sim_run){.s = s, .seed = seed};
    r->fails_s = mem_new((size_t)s->nodes, sizeof *r->fails_s);
    r->lost = mem_new((size_t)s->nodes, 1);
    for (int i = 0; i < s->nodes; i++)
        r->fails_s[i] = sim_lifetime_s(r);
    sim_find_next(r);
}

static inline void sim_release(struct sim_run *r)
{
    mem_free(r->fails_s);
    mem_free(r->lost);
}

/* The mean of a period, and the standard error of it. */
static inline double sim_mean(const struct sim_run *r, const struct sim_mean *m, double *error)
{
    double n = (double)r->periods, mean = m->sum / n;

    *error = sqrt(fmax(m->squares / n - mean * mean, 0) / n);
    return mean;
}

#endif
