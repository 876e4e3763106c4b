/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_BOUNDARY_H
#define TOPO_TOPO_BOUNDARY_H

#include "topo/topo.h"

/*
 * Where a group may end: at boundary b, 0 .. levels - 2, the levels 0 .. b lie inside a group,
 * and level b + 1 joins the groups.  Boundary 0 has the groups of level 0, boundary 1 the
 * blocks of level 2, and so on.
 *
 *   2x2x2, three levels      boundary 0: 4 groups of 2     boundary 1: 2 groups of 4
 *
 *      level 2   +-------+-------+
 *      level 1   +---+---+   +---+---+
 *      level 0   0   1   2   3  ...
 *
 * The fabric as it is for groups that end at boundary b: of levels - b levels, its level 0 what
 * the levels below become together, its groups the blocks in the order of their first group.  A
 * copy where b is 0.
 */
void topo_at_boundary(const struct topo *t, int b, struct topo *out);
/*
 * Whether groups of boundary b are worth a look: neither one group nor one rank in each, where
 * "inside the group" says nothing, nor the groups of a lower boundary over again.
 */
int topo_boundary_is_new(const struct topo *t, int b);

/*
 * A fabric of so many groups: those of t in their order and with their ports, repeated; blocks
 * of groups multiply alike.  Ranks are numbered by group.
 */
void topo_extend(const struct topo *t, int groups, struct topo *out);

/*
 * The fabric of these ranks, which are in its groups group_of[r]: groups and blocks without any
 * of them are left out, the others keep their order, ports and levels.
 */
void topo_subset(const struct topo *t, int ranks, const int *group_of, struct topo *out);

#endif
