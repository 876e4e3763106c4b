/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WATCH_FIXTURE_H
#define WATCH_FIXTURE_H

/*
 * Simulates runs of a made-up program whose truth is known: ranks work, then meet in
 * collectives, which end when the last one has come and the data are over.  Every host has a
 * clock of its own.
 *
 * A step: work, all-gather of 1 MiB of all; a tenth of that work, all-reduce of 8 bytes of all;
 * with `pairs`, an all-reduce of 4 MiB of each rank and its partner on the next host.
 */
#include "plain_fixture.h"
#include "base/rng.h"
#include "watch/watch.h"

struct made {
    int ranks, per_host, steps, pairs;
    uint64_t seed;
    double noise;     /* deviation of a piece of work, a part of it */
    double transient; /* share of pieces that last three times as long */
    int who;          /* the rank that something is wrong with; -1: none */
    double slow;      /* its work lasts longer by this part */
    int whole_host;   /* so does that of its host's other ranks */
    double more;      /* it is slower than these by so much */
    double pause_s;   /* it stands still so long in every 100 ms */
    double
        inside_s; /* in every fourth call it stands still so long, when the others are done */
    int stall_every; /* so many steps, for so much of a step's work: */
    double stall;
    int more_every;  /* after so many steps there is one sum more */
    double link;     /* its pair's transfers last so many times as long */
    int hang_at;     /* it does not come to the all-reduce of that step */
    int mismatch_at; /* there it calls a broadcast instead */
};

#define MADE_WORK_S 1e-3

struct made_run {
    const struct made *m;
    struct watch *w;
    uint64_t at;    /* of the random numbers */
    double *t;      /* [ranks] true time */
    int64_t *calls; /* [ranks][2] */
};

static double made_uniform(struct made_run *r)
{
    return rng_uniform(r->m->seed, 1, r->at++);
}

static double made_normal(struct made_run *r)
{
    return rng_normal(r->m->seed, 2, r->at++);
}

/* A host's clock: hours off, and its own of everything. */
static double made_clock_s(const struct made *m, int rank)
{
    return 1.7e9 + 3600.0 * (rank / m->per_host) + 0.25 * (rank / m->per_host % 7);
}

static void made_work(struct made_run *r, int rank, double s)
{
    const struct made *m = r->m;

    s *= fmax(0.1, 1 + m->noise * made_normal(r));
    if (made_uniform(r) < m->transient)
        s *= 3;
    if (rank == m->who || (m->whole_host && rank / m->per_host == m->who / m->per_host))
        s *= 1 + m->slow + (rank == m->who ? m->more : 0);
    /* In the first part of every 100 ms it does not work. */
    while (rank == m->who && m->pause_s > 0 && s > 0) {
        double at = fmod(r->t[rank], 0.1);
        if (at < m->pause_s)
            r->t[rank] += m->pause_s - at;
        at = fmax(at, m->pause_s);
        double part = fmin(s, 0.1 - at + 1e-9);
        r->t[rank] += part;
        s -= part;
    }
    r->t[rank] += fmax(s, 0);
}

/* The ranks [first, first + n * stride) meet; those of `gone` do not come. */
static void made_meet(struct made_run *r, int which, uint64_t id, int first, int stride, int n,
                      int op, int64_t bytes, double transfer_s, int gone, int other)
{
    double last = 0;
    int comm = watch_comm(r->w, id, n);

    for (int i = 0; i < n; i++)
        last = fmax(last, r->t[first + i * stride]);
    for (int i = 0; i < n; i++) {
        int rank = first + i * stride;
        double clock = made_clock_s(r->m, rank),
               end = last + transfer_s * (1 + 0.1 * made_uniform(r));
        if (rank == gone)
            continue;
        if (rank == r->m->who && r->calls[2 * rank + which] % 4 == 3)
            end += r->m->inside_s;
        struct watch_call c = {
            .process = rank,
            .comm = comm,
            .member = i,
            .op = rank == other ? METER_BROADCAST : op,
            .sequence = ++r->calls[2 * rank + which],
            .bytes = bytes,
            .arrived_ns = (int64_t)(1e9 * (clock + r->t[rank])),
            .completed_ns = gone >= 0 || other >= 0 ? 0 : (int64_t)(1e9 * (clock + end))};
        watch_add(r->w, &c);
        r->t[rank] = end;
    }
}

static void made_step(struct made_run *r, int step)
{
    const struct made *m = r->m;
    int hangs = m->hang_at && step == m->hang_at,
        differs = m->mismatch_at && step == m->mismatch_at;

    for (int i = 0; i < m->ranks; i++) {
        made_work(r, i, MADE_WORK_S);
        if (i == m->who && m->stall_every && step % m->stall_every == 0)
            r->t[i] += m->stall * MADE_WORK_S;
    }
    made_meet(r, 0, 1, 0, 1, m->ranks, METER_ALL_GATHER, 1 << 20, 1e-4, -1, -1);
    for (int i = 0; i < m->ranks; i++)
        made_work(r, i, MADE_WORK_S / 10);
    made_meet(r, 0, 1, 0, 1, m->ranks, METER_ALL_REDUCE, 8, 2e-5, hangs ? m->who : -1,
              differs ? m->who : -1);
    if (m->more_every && step % m->more_every == 0)
        made_meet(r, 0, 1, 0, 1, m->ranks, METER_ALL_REDUCE, 8, 2e-5, -1, -1);
    for (int h = 0; m->pairs && !hangs && !differs && h < m->ranks / m->per_host; h += 2)
        for (int k = 0; k < m->per_host; k++) {
            int first = h * m->per_host + k;
            double link =
                m->who >= 0 && m->who / m->per_host / 2 == h / 2 && m->link > 0 ? m->link : 1;
            made_meet(r, 1, 100 + (uint64_t)first, first, m->per_host, 2, METER_ALL_REDUCE,
                      4 << 20, 4e-4 * link * (1 + 0.02 * made_normal(r)), -1, -1);
        }
}

/* Hosts are node0, node1, ...; ranks go host by host. */
static void made_run(const struct made *m, struct watch *w)
{
    struct made_run r = {.m = m, .w = w};
    char host[32];

    *w = (struct watch){0};
    r.t = mem_new((size_t)m->ranks, sizeof *r.t);
    r.calls = mem_new(2 * (size_t)m->ranks, sizeof *r.calls);
    for (int i = 0; i < m->ranks; i++) {
        snprintf(host, sizeof host, "node%d", i / m->per_host);
        watch_process(w, (uint64_t)i + 1, i, host);
    }
    int end = m->hang_at ? m->hang_at + 1 : m->mismatch_at ? m->mismatch_at + 1 : m->steps;
    for (int step = 1; step <= m->steps && step < end + (end == m->steps); step++)
        made_step(&r, step);
    double now = 0;
    for (int i = 0; i < m->ranks; i++)
        now = fmax(now, made_clock_s(m, i) + r.t[i]);
    w->now_ns = (int64_t)(1e9 * (now + 100));
    mem_free(r.t);
    mem_free(r.calls);
    if (watch_index(w, &err))
        abort();
}

#endif
