/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_BOUNDARY_H
#define TOPO_TOPO_BOUNDARY_H

#include "topo/topo.h"

/*
 * A boundary is a level at which groups may end: at boundary b, 0 .. levels - 2, the levels 0
 * .. b lie inside a group, and level b + 1 joins the groups.  Boundary 0 has the groups of
 * level 0, boundary 1 the blocks of level 2, and so on.
 *
 *   2x2x2, three levels      boundary 0: 4 groups of 2     boundary 1: 2 groups of 4
 *
 *      level 2   +-------+-------+
 *      level 1   +---+---+   +---+---+
 *      level 0   0   1   2   3  ...
 *
 * Makes the fabric as seen by groups that end at boundary b.  It has levels - b levels; levels
 * 0 .. b are merged into its level 0, and its groups are the blocks in the order of their first
 * group.  With b = 0 it is a copy.
 */
void topo_at_boundary(const struct topo *t, int b, struct topo *out);
/*
 * Whether groups of boundary b are worth evaluating: there are several groups, some with
 * several ranks, and they differ from the groups of the boundary below.
 */
int topo_boundary_is_new(const struct topo *t, int b);

/*
 * Makes a fabric of `groups` groups: those of t in their order, with their ports and devices,
 * repeated; blocks of groups are repeated with them.  Ranks are numbered by group.
 */
void topo_extend(const struct topo *t, int groups, struct topo *out);

/*
 * Makes the fabric of a subset of t's ranks: rank r of the result lies in t's group
 * group_of[r].  Groups and blocks without any of these ranks are dropped; the others keep their
 * order, ports and levels.
 */
void topo_subset(const struct topo *t, int ranks, const int *group_of, struct topo *out);

#endif
