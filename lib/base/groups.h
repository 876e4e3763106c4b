/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_GROUPS_H
#define BASE_GROUPS_H

#include "base/err.h"

/*
 * The membership of ranks in groups: plain arrays.  A group is what is fast inside (a node, or
 * the nodes under one switch).  Groups may differ in size, and a rank's group is looked up,
 * never computed as rank / m: ranks may be placed by node or by slot.
 *
 *   [3,2] placed by slot:     group 0: ranks 0 1 2     group 1: ranks 3 4
 *   [3,2] placed by node:     group 0: ranks 0 2 4     group 1: ranks 1 3
 *
 * A group over several hosts is made of cells, the hosts, which are faster inside than the
 * group is; they have an order, in which data passes from one to the next.  Any other group is
 * one cell.
 */
struct groups {
    int ranks;     /* n */
    int count;     /* g */
    int *members;  /* [g]  m_k */
    int *first;    /* [g+1] where group k begins in `rank` */
    int *rank;     /* [n]  ranks, group after group, in member order */
    int *group_of; /* [n]  by rank: k */
    int *local_of; /* [n]  by rank: j, its place among the members of its group */
    int *cell_of;  /* [n]  by rank: its cell, 0, 1, ... in its group */
    int *cell;     /* [g+1] the cells of group k are cell[k] .. cell[k+1] - 1 of all */
    int *cell_at;  /* [cells+1] where a cell begins in `in_cell` */
    int *in_cell;  /* [n]  ranks, cell after cell, ascending in each */
};

/* A cell, and which of its ranks takes what it shares from the cell before. */
struct groups_cell {
    const int *rank; /* [ranks], borrowed */
    int ranks, carrier;
};

/* Groups of the given sizes, ranks counted through (placed by slot). */
void groups_init(struct groups *g, int count, const int *members);
/* Groups from each rank's group number 0..count-1; ERR_INPUT if a group is empty. */
int groups_init_of(struct groups *g, int ranks, const int *group_of, struct err *err);
/* "4x8", "[8,8,7]", "[4+4,7]" (a group of two cells), "8" (one group); ERR_INPUT tells what is
   wrong with it. */
int groups_parse(struct groups *g, const char *text, struct err *err);
/* By rank: its cell in its group, numbers from 0 that leave out none. */
void groups_set_cells(struct groups *g, const int *cell_of);
void groups_copy(struct groups *to, const struct groups *from);
void groups_release(struct groups *g);

/* The rank of member j of group k. */
int groups_rank(const struct groups *g, int k, int j);
int groups_largest(const struct groups *g); /* max m_k */
int groups_cells(const struct groups *g, int k);
int groups_most_cells(const struct groups *g); /* of a group */
/*
 * The cell `steps` after that of rank src, round its group.  Its carrier has src's place in
 * proportion, so that the ranks of a cell share what comes into it; src's own is src.
 */
struct groups_cell groups_cell_after(const struct groups *g, int src, int steps);
/*
 * The groups in an order in which each block of each level is one run, by the numbers of their
 * blocks, the highest level first: [count], owned by the caller.  block[(l - 2) * count + k] is
 * the block of group k at level l = 2 .. levels - 1.
 */
int *groups_by_block(const struct groups *g, int levels, const int *block);
int groups_equal(const struct groups *a, const struct groups *b); /* but for cells */
/* "4x8" when equal, else "[3,2]" (the placement is not told); `room` bytes at `text`. */
void groups_print(const struct groups *g, char *text, int space);

enum { GROUPS_RANKS_MAX = 1 << 20 }; /* bound on what a text may ask for */

#endif
