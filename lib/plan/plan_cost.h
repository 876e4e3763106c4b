/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_COST_H
#define PLAN_PLAN_COST_H

#include "plan/plan_traffic.h"

/*
 * The load that a strategy's conversions and its computing put on the fabric, one unit at a
 * time.  The timeline (plan/plan_timeline.h) combines them where they overlap.  Internal to
 * this floor.
 */
struct plan_cost {                      /* one strategy under one algorithm */
    const struct plan_case *at;         /* borrowed */
    const struct plan_traffic *traffic; /* borrowed */
    struct plan_strategy strategy;
    enum schedule_algo algo;
    struct plan_step step;
    const struct plan_work *work; /* [visits], borrowed: from plan_works_of */
    int computing; /* 1: use the rates and latencies that remain while ranks compute */
    double elem_bytes[PLAN_TIERS]; /* bytes of an element on each tier, in the current
                                      conversion */
};

/* Cost of one conversion of one unit. */
struct plan_flow {
    /* Seconds alone on the links, and seconds of each tier's busiest link: [0] while no rank
       computes, [1] while all do. */
    double alone_s[2], link_s[2][PLAN_TIERS];
    double local_s; /* seconds for the rank's own memory, at either end: rounding, adding */
};

struct plan_cost plan_cost_of(const struct plan_case *c, const struct plan_traffic *t,
                              struct plan_strategy strategy, enum schedule_algo algo);
/*
 * Sets leg[i] to the leg of phase 1 << i, or -1 if that phase does not run.  Returns whether
 * the flat ring runs them: it replaces only pairs of inside and across phases, else the rails
 * do.
 */
enum { PLAN_PHASES = 4 };
int plan_legs_of(enum schedule_algo algo, unsigned phases, int leg[PLAN_PHASES]);
/* Computes the cost of a conversion; all zero if it transfers nothing. */
void plan_flow_of(struct plan_cost *b, int span, enum step_lane kind, struct plan_flow *out);
/*
 * Sets c->chunk_bytes to the size with which a gather of the largest unit takes least time, by
 * the case's algorithm (ho-ring for SCHEDULE_AUTO); ties as in pick/pick_auto.h.
 */
void plan_choose_chunk(struct plan_case *c, const struct plan_traffic *t);
/*
 * Computes for each leg and set the bytes of an element times the runs in a global step: the
 * input of plan_traffic_largest.
 */
void plan_flow_bytes(struct plan_cost *b, double bytes[PLAN_TIERS][PLAN_SETS][PLAN_LEGS]);

/* Returns whether the term is priced as taking no time. */
int plan_is_free(const struct plan_cost *b, enum plan_term term);
/* Returns the seconds to read or write `bytes` of memory; 0 if its rate is unknown. */
double plan_memory_s(const struct plan_cost *b, double bytes);
/* Returns the seconds of one message between groups (across), or inside one. */
double plan_message_s(const struct plan_cost *b, int across);

/* Seconds of one rank's computing while all ranks compute. */
struct plan_work {
    double forward_s, backward_s; /* one visit */
    double add_s;                 /* adding up its gradient, or preparing it for sending */
    double update_s;              /* AdamW on the unit's largest shard, once a step */
};
/* Computes the work of each visit, [visits], which no algorithm affects. */
void plan_works_of(const struct plan_cost *b, struct plan_work *out);

#endif
