/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_BOUNDARY_H
#define PLAN_BOUNDARY_H

#include "base/err.h"
#include "topo/topo_boundary.h"

/*
 * The groups a plan may have: the fabric as it is for groups that end at each of the boundaries
 * to be searched (topo/topo_boundary.h).  A fabric of two levels has one.
 */
enum { PLAN_BOUNDARY_AUTO = -1, PLAN_BOUNDARIES = TOPO_LEVELS_MAX - 1 };

struct plan_boundaries {
    const struct topo *whole; /* borrowed */
    int asked;                /* a boundary, or PLAN_BOUNDARY_AUTO */
    int count;                /* 1 at least */
    int level[PLAN_BOUNDARIES];
    struct topo topo[PLAN_BOUNDARIES]; /* owned */
};

/*
 * The one that is asked for, or all that differ; the inmost where none is worth a look.
 * ERR_INPUT for one that the fabric has not.
 */
int plan_boundaries_init(struct plan_boundaries *b, const struct topo *whole, int asked,
                         struct err *err);
void plan_boundaries_release(struct plan_boundaries *b);

#endif
