/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_TIMELINE_H
#define PLAN_PLAN_TIMELINE_H

#include "plan/plan_cost.h"
#include "step/step_draw.h"

/*
 * A global step as the engine runs it (engine/engine_run.c): one thread computes, four streams
 * convert, each in its own order, concurrently on the same links.
 *
 *     compute     u0 u1 u2 | F0 F1 F2 B2 B1 B0 | F0 F1 F2 B2  B1  B0
 *     syncs          s0 s1 s2
 *     gathers              p0 p1 p2 p1 p0      p0 ...
 *     reduces                        g2  g1 g0         g2  g1  g0
 *     boundaries                                          b2  b1  b0
 *
 * It begins with the update of the previous step, when all gradients are known, and ends where
 * the next update would begin.  Nothing is in flight at either end, so such steps can be
 * concatenated.
 *
 * Concurrent conversions share the links: a tier's load is the sum of the shares that each
 * conversion on it would use alone; above 1 all of them slow down in proportion.  Computing
 * slows the links, and the links slow computing, to the shares that the topology states
 * (rate_left, compute_left).
 */
struct plan_piece { /* one bar of the timeline */
    int lane;       /* enum step_lane */
    enum step_kind kind;
    int unit, micro; /* micro: -1 if it belongs to the whole step */
    double start_s, end_s;
};

/* State of the computing thread at a moment of a step; a lane's part: it waits for that
   lane. */
enum plan_part {
    PLAN_PART_GATHER,
    PLAN_PART_GRADS, /* reductions, and conversions of accumulated gradients */
    PLAN_PART_SYNC,
    PLAN_PART_WORK, /* forwards, backwards, accumulating gradients */
    PLAN_PART_UPDATE,
    PLAN_PART_AGREE,
    PLAN_PARTS
};

struct plan_timeline {
    double step_s;
    double bound_s; /* the longest of computing alone and each tier's busiest link alone */
    double part_s[PLAN_PARTS]; /* step_s by part */
    double compute_s;          /* computing alone: the sum of the uses */
    double comm_s;             /* conversions alone: their sum */
    double pass_s, link_s;     /* part of compute_s: forwards and backwards; of comm_s: links */
    double slow_s;             /* the slow tier's busiest link, if everything else took no
                                  time */
    double waited_s;           /* time that the computing thread waited */
    struct plan_piece *piece;  /* [pieces], owned; in the order of their ends */
    int pieces, micros; /* micros: micro-steps walked; the others equal the last but one */
    int left_out;
    double walked_s; /* step_s without the others */
};

enum { PLAN_MICROS = 4 }; /* walked at most: the first, two like all others, the last */

/* Walks a step.  given: verified rows of all micro-steps; NULL: generate them.  keep_pieces 0:
   compute times only. */
void plan_timeline_walk(struct plan_cost *b, int keep_pieces, const struct step *given,
                        struct plan_timeline *out);
void plan_timeline_release(struct plan_timeline *t);
/* Walks a priced strategy and keeps the pieces. */
void plan_timeline_of(const struct plan_case *c, const struct plan_price *price,
                      const struct step *given, struct plan_timeline *out);
/*
 * Walks a plan on a fabric with its groups and with compute rates.  The result is rotated to
 * begin with the first forward, as the engine's step does, and to end with the update.
 * Micro-steps that are not walked are a hole.
 */
void plan_timeline_of_plan(const struct plan *p, const struct topo *fabric,
                           struct plan_timeline *out);
/* Prints a table by time, a picture (SVG), or paro.plan.timeline/1. */
void plan_timeline_print(const struct plan_search *s, const struct plan_timeline *t, FILE *out);
int plan_timeline_draw(const struct plan_search *s, const struct plan_timeline *t, FILE *out,
                       struct err *err);
void plan_timeline_print_json(const struct plan_search *s, const struct plan_timeline *t,
                              FILE *out);
/* Adds the bars of one row of a picture, and their tooltips. */
void plan_timeline_add(const struct plan_timeline *t, const struct model *m,
                       struct svg_timeline *picture, int rank);
void plan_timeline_tip(const struct plan_timeline *t, const struct model *m,
                       const struct svg_bar *bar, char *text, size_t space);
/*
 * Computes a lower bound on any overlap, at a small part of the cost: step_s is the time of all
 * computing, or of one tier's whole load, whichever is longer.  Sets compute_s and comm_s as
 * above.
 */
void plan_timeline_least(struct plan_cost *b, struct plan_timeline *out);

#endif
