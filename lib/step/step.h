/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEP_STEP_H
#define STEP_STEP_H

#include "base/err.h"

/*
 * A training step of one rank as a list of rows (paro-method(7), STEP).  A row names a unit (a
 * layer, or the embedding), what is done with it, the buffer used, and the rows that must have
 * ended before.  The example has 3 units and 2 micro-steps; | separates the micro-steps:
 *
 *     compute   b F0 F1 F2 B2 a2 B1 a1 B0 a0 | b F0 ...   norm agree u0 u1 u2
 *     gather    g0 g1 g2          g1    g0     g0 ...
 *     reduce                  r2    r1    r0
 *     convert                                       c2 c1 c0
 *     sync                                                              s0 s1 s2
 *
 * b reads a micro-batch; F and B are forward and backward, a accumulates a gradient, u updates.
 * The forward makes visits 0 .. visits - 1, one for each unit in order, and one more if the
 * head shares unit 0's matrix; the backward makes them in reverse.  A use is a visit in one
 * micro-step and one direction.
 *
 * Rows are plain numbers: no pointers, costs or transport.  Each lane executes its rows in list
 * order, one at a time; the lanes run at the same time.  The list is in the order in which the
 * compute lane issues the rows.
 */
enum step_lane {
    STEP_GATHER,  /* all-gather a unit's parameters */
    STEP_REDUCE,  /* reduce a micro-step's gradient to its owners */
    STEP_CONVERT, /* bring the accumulated gradient to the optimizer's layout */
    STEP_SYNC,    /* bring the new parameters from the optimizer's layout to theirs */
    /* Where the groups train apart (paro-method(7), PERIODS): */
    STEP_OUTER_REDUCE, /* sum the groups' parameters, and take the outer step with the mean */
    STEP_OUTER_GATHER, /* bring its result from the outer state's layout to the optimizer's */
    STEP_COMPUTE,
    STEP_LANES
};

enum step_kind {
    STEP_TRANSFER, /* the transfer of the row's lane */
    STEP_BEGIN,    /* reads a micro-batch */
    STEP_FORWARD,
    STEP_BACKWARD,
    STEP_ACCUMULATE, /* moves a micro-step's gradient out of the backward's buffer */
    STEP_NORM,       /* computes the norm of this rank's part of the gradient */
    STEP_AGREE,      /* exchanges these norms among all ranks */
    STEP_UPDATE,
    STEP_ADOPT, /* derives the parameters after the outer step, if no sync does */
    STEP_KINDS
};

/* When the groups, which train apart, take an outer step. */
enum step_outer {
    STEP_OUTER_NONE,
    STEP_OUTER_LAST, /* after the update */
    STEP_OUTER_FIRST /* during the micro-steps: the update begins with its result */
};

enum {
    STEP_AFTERS = 2,
    STEP_USES_MAX = 1 << 22 /* bound on the uses in a step: some 12 million rows */
};

/*
 * A row begins when the rows named in after[] and the earlier rows of its lane have ended.  An
 * after[] that names a later row means that row of the previous step.
 */
struct step_row {
    int lane, kind;
    int unit, visit; /* -1: none */
    int micro;       /* -1: the whole step */
    int buffer;      /* the slot of gathers and uses; the bucket of accumulates and reduces;
                        -1: none */
    int after[STEP_AFTERS]; /* row numbers, -1: none */
};

/* Input of step_gen. */
struct step_shape {
    int units, visits;
    const char *trains;    /* [units] 1: some of the unit's parameters are trained */
    int first_trained;     /* the backward ends with this visit, 0 .. visits */
    int micros;            /* micro-steps, 1 or more */
    int prefetch;          /* units gathered ahead of the one in use, 0 or more */
    int keep;              /* last visits whose gathered units stay for the backward; more
                              than the backward has are all of these */
    int buckets;           /* gradients in flight, 1 or more */
    int evaluate;          /* forward only: first_trained is visits */
    int early_update;      /* update units before the norm, so that no update waits for it */
    enum step_outer outer; /* when the units take outer steps */
    int has[STEP_COMPUTE]; /* 1: this lane has transfers */
};

struct step {
    struct step_row *row; /* [rows], owned */
    int rows;
    int norm;           /* row number of STEP_NORM, which STEP_AGREE follows; -1: an
                           evaluation */
    int slots, buckets; /* buffers for gathered units, for gradients being reduced */
};

/* Returns the unit of a forward visit, 0 .. visits - 1.  With more visits than units the last
   visit is unit 0 again, because the head shares the embedding's matrix. */
int step_unit_of(const struct step_shape *shape, int visit);
/*
 * Returns the number of slots for gathered units: the slots that gathers use in rotation, plus
 * one for each visit kept for the backward; 0 if the gather lane has no transfers.  Reads
 * visits, first_trained, micros, prefetch, keep and has[STEP_GATHER] of the shape.
 */
int step_slots(const struct step_shape *shape);

/* Generates the rows, about 3 for each use; the caller keeps uses at or below STEP_USES_MAX.
   The caller releases *s with step_release. */
void step_gen(struct step *s, const struct step_shape *shape);
void step_release(struct step *s);

/*
 * Proves a step correct when it is run twice in succession.  Returns 0, or ERR_MISMATCH that
 * names the row.  Checked:
 * - each use finds its unit gathered, after the unit's last update and sync;
 * - no slot or bucket is written while a row may still read it;
 * - in each micro-step each trained unit's gradient is accumulated once and reduced once; it
 *   is converted before the norm, and the unit is updated, before the norm if early_update;
 *   its outer reduce, outer gather, adoption and sync follow one another, each once if the step
 *   has it, with the update before or after the outer ones;
 * - every slot is used; if no unit is kept for the backward, all are in use at once;
 * - after[] names other rows, later ones meaning those of the previous step, and each lane
 *   runs in order: no deadlock is possible.
 * Shares no code with step_gen.
 */
int step_verify(const struct step *s, const struct step_shape *shape, struct err *err);

const char *step_lane_name(enum step_lane lane);        /* "gather", "reduce", ..., "compute" */
const char *step_kind_name(const struct step_row *row); /* "forward", ...; a transfer's is its
                                                           lane's: "gather" */

#endif
