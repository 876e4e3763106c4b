/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_TOUR_H
#define HEALTH_HEALTH_TOUR_H

#include "health/health_data.h"
#include "health/health_kernel.h"
#include "health/health_verdict.h"
#include "probe/probe_gpu.h"
#include "world/world.h"

/*
 * Measuring: the hosts send to each other as a plan says, and what every rank saw goes into the
 * data of all.  Knows no verdict.
 */
struct health_tour {
    struct world *world;         /* borrowed, as the next two */
    const char *volatile *where; /* what goes on, for whoever watches the clock */
    struct health_data *data;
    struct probe probe;
    int opened;               /* the probe is */
    int64_t bytes;            /* through each port in a turn */
    int64_t left;             /* that each port may still carry in turns */
    int64_t ring_bytes;       /* that it may in one of all at once; 0: not known yet */
    double until_s, end_s;    /* no turn begins later; all is said */
    double start_s, before_s; /* when it began; the deadline that the world had before */
    struct health_kernel kernel;
    int turns;
    size_t room;
    struct health_turn *turn; /* [turns], owned: made ready, for a turn comes again */
    int ran;                  /* turns that were entered */
    int over;                 /* the time is, the bytes, or some did not come: all ranks know */
    int stalled;              /* bytes did not come: nothing is asked of peers any more */
    int missing;              /* the host whose bytes did not come to this rank, or -1 */
};

/*
 * Collective: until then (tick_now_s) all is to be said, so that measuring ends before.  Each
 * port is asked to carry at most cap_bytes (0: no cap), whatever is measured; ERR_INPUT where
 * that is too little for `turns` turns.
 */
int health_tour_open(struct health_tour *t, struct world *w, struct health_data *d,
                     const char *volatile *where, double until_s, int turns, int64_t cap_bytes,
                     struct err *err);
/* Collective, next: messages of turns and rings come from that GPU and go there; NULL: the
 * host's memory. */
int health_tour_gpu(struct health_tour *t, struct device *device, struct err *err);
/*
 * Collective: the turns of a plan, which all ranks have alike.  Ends early, with t->over, when
 * the time is over or bytes did not come.
 */
int health_tour_turns(struct health_tour *t, const struct health_plan *plan, struct err *err);
/* Collective: every host with up to `most` others, pair by pair at once.  A second call, with
 * the same `most`, keeps the smaller latency of each pair. */
int health_tour_latency(struct health_tour *t, int most, struct err *err);
/* Collective: a ring all-gather of the hosts; what it should take is the data's to say. */
int health_tour_collective(struct health_tour *t, int first, int count, struct err *err);
/* Collective, last: what every host's kernel saw; and who is silent where bytes did not come.
 */
void health_tour_reports(struct health_tour *t);
void health_tour_close(struct health_tour *t);

#endif
