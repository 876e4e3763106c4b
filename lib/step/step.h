/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEP_STEP_H
#define STEP_STEP_H

#include "base/err.h"

/*
 * A training step as rows (paro-method(7), STEP): each row says which unit is gathered,
 * computed with, reduced, converted, updated or synced, in which buffer, and after which rows.
 *
 *     compute   b F0 F1 F2 B2 a2 B1 a1 B0 a0 | b F0 ...   norm agree u0 u1 u2
 *     gather    g0 g1 g2          g1    g0     g0 ...
 *     reduce                  r2    r1    r0
 *     convert                                       c2 c1 c0
 *     sync                                                              s0 s1 s2
 *
 * Rows are numbers: no pointers, costs or transport.  The list is in the order in which the
 * compute lane issues them.
 */
enum step_lane {
    STEP_GATHER,  /* parameters of a unit, whole */
    STEP_REDUCE,  /* a micro-step's gradient to its owners */
    STEP_CONVERT, /* the accumulated gradient to the optimizer's layout */
    STEP_SYNC,    /* new parameters to their layout */
    STEP_COMPUTE,
    STEP_LANES
};

enum step_kind {
    STEP_TRANSFER, /* the lane's own transfer */
    STEP_BEGIN,    /* reads a micro-batch */
    STEP_FORWARD,
    STEP_BACKWARD,
    STEP_ACCUMULATE, /* moves a micro-step's gradient out of the backward's buffer */
    STEP_NORM,       /* norm of this rank's part of the gradient */
    STEP_AGREE,      /* exchanges the parts of all ranks */
    STEP_UPDATE,
    STEP_KINDS
};

enum {
    STEP_AFTERS = 2,
    STEP_USES_MAX = 1 << 22 /* uses of units in a step, forward and back: some 12 million
                               rows */
};

/*
 * A row begins when the rows that it names in after[] have ended and its lane has ended the
 * rows before it.  Where after[] names a later row, it means that row of the previous step.
 */
struct step_row {
    int lane, kind;
    int unit, visit; /* -1: none */
    int micro;       /* -1: the whole step */
    int buffer;      /* gathers and uses: the slot; reduces and the rows that fill them: the
                        bucket; -1: none */
    int after[STEP_AFTERS]; /* rows, -1: none */
};

/* The inputs from which step_gen makes a step. */
struct step_shape {
    int units, visits;
    const char *trains;    /* [units] whether anything of it is trained */
    int first_trained;     /* the visit at which the backward ends, 0 .. visits */
    int micros;            /* micro-steps, 1 or more */
    int prefetch;          /* units gathered ahead of the one in use, 0 or more */
    int keep;              /* last visits whose gathered units stay for the backward */
    int buckets;           /* gradients being reduced at once, 1 or more */
    int evaluate;          /* forward only: first_trained is visits */
    int early_update;      /* units are updated before the norm, for which no row waits */
    int has[STEP_COMPUTE]; /* whether a lane transfers anything */
};

struct step {
    struct step_row *row; /* [rows], owned */
    int rows;
    int norm;           /* the row of STEP_NORM, followed by STEP_AGREE; -1: an evaluation */
    int slots, buckets; /* buffers for gathers, for reduces */
};

/* Returns the unit of a forward visit.  If there are more visits than units, the last one is
   unit 0 again, whose matrix the head shares.  The backward makes the visits in reverse
   order. */
int step_unit_of(const struct step_shape *shape, int visit);
/*
 * Returns the number of slots for gathered units: those that gathers use in rotation, and one
 * for each use that is kept for the backward.  Reads visits, first_trained, micros, prefetch,
 * keep and has of the shape.
 */
int step_slots(const struct step_shape *shape);

/* Writes about 3 rows for each use (visit, micro-step and direction), of which there are at
   most STEP_USES_MAX.  The caller releases s. */
void step_gen(struct step *s, const struct step_shape *shape);
void step_release(struct step *s);

/*
 * Proves for a step and the one after it: each use finds its unit, gathered after the update
 * and the sync before; no slot or bucket is written while a row may still read it; each
 * micro-step's gradient of each trained unit is accumulated once, reduced once, and converted
 * before the norm; each unit is updated and synced once; every slot is used, and where no unit
 * is kept for the backward all are in use at once.  Rows name only earlier ones, and lanes run
 * in order, so that no order of lanes can deadlock.  Shares no code with step_gen.
 * ERR_MISMATCH names the row.
 */
int step_verify(const struct step *s, const struct step_shape *shape, struct err *err);

const char *step_lane_name(enum step_lane lane);        /* "gather", ... "compute" */
const char *step_kind_name(const struct step_row *row); /* "forward", "gather" */

#endif
