/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COLL_COLL_TUNING_H
#define COLL_COLL_TUNING_H

#include "pick/pick_auto.h"
#include "world/world.h"

/*
 * Collective: a tuning table, the same on every rank, released by the caller: `file` where that
 * is not NULL ("-": stdin), else made for the fabric `t` by simulated time, for operations and
 * sizes as `ask` says.  Rank 0 alone reads and computes; the others' file, t and ask are not
 * looked at.  Whose groups it is for is checked by coll_open.
 */
int coll_tuning(struct world *world, const char *file, const struct topo *t,
                const struct pick_ask *ask, struct pick_table *out, struct err *err);

#endif
