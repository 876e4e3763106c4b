/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCHEDULE_FIXTURE_H
#define SCHEDULE_FIXTURE_H

/* Provides what the tests of schedules share: shapes, and generating that must succeed. */
#include "base/mem.h"
#include "layout/layout.h"
#include "schedule/schedule.h"

static const unsigned all_phases[] = {SCHEDULE_ALL_GATHER,
                                      SCHEDULE_REDUCE_SCATTER,
                                      SCHEDULE_ALL_REDUCE,
                                      SCHEDULE_BROADCAST,
                                      SCHEDULE_REDUCE_INSIDE,
                                      SCHEDULE_REDUCE_ACROSS,
                                      SCHEDULE_GATHER_ACROSS,
                                      SCHEDULE_GATHER_INSIDE,
                                      SCHEDULE_REDUCE_ACROSS | SCHEDULE_GATHER_ACROSS,
                                      SCHEDULE_REDUCE_SCATTER | SCHEDULE_GATHER_ACROSS,
                                      SCHEDULE_REDUCE_ACROSS | SCHEDULE_ALL_GATHER};

enum { PHASES = sizeof all_phases / sizeof *all_phases, WHOLE = 4 /* the first, named ones */ };

/* The spec of a layout's groups; the rest is the caller's. */
static inline struct schedule_spec spec_of(const struct layout *l, enum schedule_algo algo,
                                           unsigned phases, int subchunks)
{
    return (struct schedule_spec)LIST(.algo = algo, .phases = phases, .groups = &l->groups,
                                      .segments = l->segments, .holder = l->holder,
                                      .subchunks = subchunks);
}

static inline void gen_spec(struct schedule *s, const struct schedule_spec *spec, int rank)
{
    assert_ok(schedule_gen(spec, rank, s, &err));
}

static inline void gen(struct schedule *s, const struct layout *l, enum schedule_algo algo,
                       unsigned phases, int subchunks, int rank)
{
    struct schedule_spec spec = spec_of(l, algo, phases, subchunks);

    gen_spec(s, &spec, rank);
}

static inline void shape(struct layout *l, const char *text)
{
    struct groups g;

    assert_ok(groups_parse(&g, text, &err));
    layout_init(l, &g);
    groups_release(&g);
}

/* Calls `f` for every algorithm and each of the first `phases` phases, of a shape's layout. */
static inline void each_spec(const char *text, int phases, int subchunks,
                             void (*f)(struct schedule_spec *spec, const char *text))
{
    struct layout l;

    shape(&l, text);
    for (int i = 0; i < SCHEDULE_ALGOS * phases; i++) {
        struct schedule_spec spec =
            spec_of(&l, (enum schedule_algo)(i / phases), all_phases[i % phases], subchunks);
        f(&spec, text);
    }
    layout_release(&l);
}

/* Generates all rows and has them proven. */
static inline void prove(const struct schedule_spec *spec, const char *what)
{
    struct schedule s;

    gen_spec(&s, spec, -1);
    if (schedule_verify(&s, &err))
        fail_msg("%s %s phases %u subchunks %d root %d: %s", what,
                 schedule_algo_name(spec->algo), spec->phases, spec->subchunks, spec->root,
                 err.text);
    schedule_release(&s);
}

#endif
