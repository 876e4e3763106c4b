/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_TIMELINE_H
#define PLAN_PLAN_TIMELINE_H

#include "plan/plan_cost.h"
#include "step/step_draw.h"

/*
 * A global step as the engine runs it (engine/engine_run.c): one thread computes, four streams
 * convert, each in its own order, all at once on the same links.
 *
 *     compute     u0 u1 u2 | F0 F1 F2 B2 B1 B0 | F0 F1 F2 B2  B1  B0
 *     syncs          s0 s1 s2
 *     gathers              p0 p1 p2 p1 p0      p0 ...
 *     reduces                        g2  g1 g0         g2  g1  g0
 *     boundaries                                          b2  b1  b0
 *
 * It begins with the update of the step before, when all gradients are known, and ends where
 * the next update would begin: all is quiet at either end, so such steps lie end to end.
 *
 * Conversions under way share the links: a tier's load is the sum of the shares that each
 * conversion on it would take alone, and where that is more than 1 all of them are slower in
 * proportion.  Ranks that compute leave the links, and the links leave the computing, what the
 * topology says (rate_left, compute_left).
 */
struct plan_piece { /* something that was done */
    int lane;       /* enum step_lane */
    enum step_kind kind;
    int unit, micro; /* micro: -1 where of the whole step */
    double start_s, end_s;
};

/* The state of the computing thread at any moment of a step; a lane: it waits for that lane. */
enum plan_part {
    PLAN_PART_GATHER,
    PLAN_PART_GRADS, /* reductions, and the conversion of accumulated gradients */
    PLAN_PART_SYNC,
    PLAN_PART_WORK, /* forwards, backwards, gradients added */
    PLAN_PART_UPDATE,
    PLAN_PART_AGREE,
    PLAN_PARTS
};

struct plan_timeline {
    double step_s;
    double part_s[PLAN_PARTS]; /* of step_s */
    double compute_s;          /* computing alone: the sum of the uses */
    double comm_s;             /* conversions alone: their sum */
    double pass_s, link_s;     /* of these the forwards and backwards, and the time on links */
    double slow_s;             /* the slow tier's busiest link, were all else free */
    double waited_s;           /* the computing thread waited */
    struct plan_piece *piece;  /* [pieces], owned; in the order of their ends */
    int pieces, micros; /* micros: that were walked; the others are like the last but one: */
    int left_out;
    double walked_s; /* of step_s: without the others */
};

enum { PLAN_MICROS = 4 }; /* walked at most: the first, two like all others, the last */

/* given: rows of all micro-steps, verified, or NULL.  Without keep_pieces times alone. */
void plan_timeline_walk(struct plan_cost *b, int keep_pieces, const struct step *given,
                        struct plan_timeline *out);
void plan_timeline_release(struct plan_timeline *t);
/* Walks a priced strategy and keeps each piece. */
void plan_timeline_of(const struct plan_case *c, const struct plan_price *price,
                      const struct step *given, struct plan_timeline *out);
/*
 * Walks a plan on a fabric of its groups, with compute rates: rotated so that it begins with
 * the first forward, as the engine's step does, and ends with the update.  Micro-steps that are
 * not walked are a hole.
 */
void plan_timeline_of_plan(const struct plan *p, const struct topo *fabric,
                           struct plan_timeline *out);
/* As a table by time, as a picture (SVG), and as paro.plan.timeline/1. */
void plan_timeline_print(const struct plan_search *s, const struct plan_timeline *t, FILE *out);
int plan_timeline_draw(const struct plan_search *s, const struct plan_timeline *t, FILE *out,
                       struct err *err);
void plan_timeline_print_json(const struct plan_search *s, const struct plan_timeline *t,
                              FILE *out);
/* The bars of a row of a picture, and their tooltips. */
void plan_timeline_add(const struct plan_timeline *t, const struct model *m,
                       struct svg_timeline *picture, int rank);
void plan_timeline_tip(const struct plan_timeline *t, const struct model *m,
                       const struct svg_bar *bar, char *text, size_t space);
/*
 * A bound that no overlap can undercut: all computing, or all that one tier carries; at a small
 * part of the cost.  compute_s and comm_s as above, step_s the bound.
 */
void plan_timeline_least(struct plan_cost *b, struct plan_timeline *out);

#endif
