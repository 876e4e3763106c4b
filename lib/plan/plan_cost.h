/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_COST_H
#define PLAN_PLAN_COST_H

#include "plan/plan_traffic.h"

/*
 * The load that the conversions of a strategy and its computing put on the fabric, one unit at
 * a time.  Leaves the times when they run at once to the timeline (plan/plan_timeline.h).
 * Inside this floor only.
 */
struct plan_cost {                      /* of one strategy under one algorithm */
    const struct plan_case *at;         /* borrowed */
    const struct plan_traffic *traffic; /* borrowed */
    struct plan_strategy strategy;
    enum schedule_algo algo;
    struct plan_step step;
    const struct plan_work *work; /* [visits], borrowed: plan_works_of */
    int computing; /* rates and latencies are those that are left while ranks compute */
    double elem_bytes[PLAN_TIERS]; /* of an element, in the conversion at hand */
};

/* One conversion of one unit. */
struct plan_flow {
    /* Alone on the links, and how much of it each tier's busiest link has to do: [0] while no
       rank computes, [1] while all do. */
    double alone_s[2], link_s[2][PLAN_TIERS];
    double local_s; /* the rank's own memory, at either end: rounding, adding */
};

struct plan_cost plan_cost_of(const struct plan_case *c, const struct plan_traffic *t,
                              struct plan_strategy strategy, enum schedule_algo algo);
/*
 * The leg of each phase, by its number; -1: it is not run.  Returns whether the flat ring runs
 * them, in one inside and across: it stands for global collectives alone, and what stays on the
 * rails stays there.
 */
enum { PLAN_PHASES = 4 };
int plan_legs_of(enum schedule_algo algo, unsigned phases, int leg[PLAN_PHASES]);
/* All zero where nothing moves. */
void plan_flow_of(struct plan_cost *b, int span, enum step_lane kind, struct plan_flow *out);
/*
 * c->chunk_bytes: with which a gather of the largest unit takes the least time, by the case's
 * algorithm (ho-ring where it is left open); which of those as good, pick/pick_auto.h says.
 */
void plan_choose_chunk(struct plan_case *c, const struct plan_traffic *t);
/*
 * Each leg over its set: how often in a global step, times the bytes of an element; what
 * plan_traffic_largest takes.
 */
void plan_flow_bytes(struct plan_cost *b, double bytes[PLAN_TIERS][PLAN_SETS][PLAN_LEGS]);

/* Is the term as if it took no time?  Seconds of bytes read and written; 0 where unknown. */
int plan_is_free(const struct plan_cost *b, enum plan_term term);
double plan_memory_s(const struct plan_cost *b, double bytes);
/* Seconds of one message across the groups, or inside one. */
double plan_message_s(const struct plan_cost *b, int across);

/* Seconds of computing, one rank's, all ranks busy. */
struct plan_work {
    double forward_s, backward_s; /* of one visit */
    double add_s;                 /* its gradient is added up, or made ready to leave */
    double update_s;              /* of its unit, once a step: AdamW on the largest shard */
};
/* The work of each visit, [visits]; whatever the algorithm. */
void plan_works_of(const struct plan_cost *b, struct plan_work *out);

#endif
