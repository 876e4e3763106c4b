/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_GROUPS_H
#define BASE_GROUPS_H

#include "base/err.h"

/*
 * The membership of ranks in groups, as plain arrays.  The ranks of a group have fast links
 * among each other (a node, or the nodes under one switch).  Groups may differ in size.  A
 * rank's group is looked up, never computed as rank / m, since ranks may be placed by node or
 * by slot.
 *
 *   [3,2] placed by slot:     group 0: ranks 0 1 2     group 1: ranks 3 4
 *   [3,2] placed by node:     group 0: ranks 0 2 4     group 1: ranks 1 3
 *
 * A group over several hosts consists of cells, its hosts, which have faster links inside than
 * between them.  Cells are ordered; data passes from each to the next.  Any other group is one
 * cell.
 */
struct groups {
    int ranks;     /* n */
    int count;     /* g */
    int *members;  /* [g]  m_k */
    int *first;    /* [g+1] index in `rank` of group k's first rank */
    int *rank;     /* [n]  ranks, group after group, in member order */
    int *group_of; /* [n]  by rank: its group k */
    int *local_of; /* [n]  by rank: its index j among the members of its group */
    int *cell_of;  /* [n]  by rank: its cell, 0, 1, ... in its group */
    int *cell;     /* [g+1] group k has the cells cell[k] .. cell[k+1] - 1 */
    int *cell_at;  /* [cells+1] index in `in_cell` of each cell's first rank */
    int *in_cell;  /* [n]  ranks, cell after cell, ascending in each */
    /* 1: no switch joins the groups.  Each has a link to the group before it and one to the
       group after it, and the last is joined to the first. */
    int ring;
};

/* A cell, and the rank in it (carrier) that receives shared data from the previous cell. */
struct groups_cell {
    const int *rank; /* [ranks], borrowed */
    int ranks, carrier;
};

/* Makes groups of the given sizes, with consecutive ranks (placed by slot). */
void groups_init(struct groups *g, int count, const int *members);
/* Makes groups from each rank's group number 0..count-1; ERR_INPUT if a group is empty. */
int groups_init_of(struct groups *g, int ranks, const int *group_of, struct err *err);
/* Parses "4x8", "[8,8,7]", "[4+4,7]" (a group of two cells), "8" (one group); ERR_INPUT
   describes the fault. */
int groups_parse(struct groups *g, const char *text, struct err *err);
/* cell_of: by rank, its cell in its group, numbered from 0 without gaps. */
void groups_set_cells(struct groups *g, const int *cell_of);
void groups_copy(struct groups *to, const struct groups *from);
void groups_release(struct groups *g);

/* The rank of member j of group k. */
int groups_rank(const struct groups *g, int k, int j);
int groups_largest(const struct groups *g); /* max m_k */
int groups_cells(const struct groups *g, int k);
int groups_most_cells(const struct groups *g); /* of any group */
/*
 * The cell `steps` after that of rank src, in cyclic order of src's group.  Its carrier has
 * src's position, in proportion to the cells' sizes, so that a cell's ranks share the incoming
 * data; with steps = 0 it is src.
 */
struct groups_cell groups_cell_after(const struct groups *g, int src, int steps);
/*
 * Orders the groups so that each block of each level is contiguous, sorted by block numbers,
 * the highest level first: [count], owned by the caller.  block[(l - 2) * count + k] is the
 * block of group k at level l = 2 .. levels - 1.
 */
int *groups_by_block(const struct groups *g, int levels, const int *block);
int groups_equal(const struct groups *a, const struct groups *b); /* ignores cells and links */
/* "4x8" if sizes are equal, else "[3,2]" (without placement); `space` bytes at `text`. */
void groups_print(const struct groups *g, char *text, int space);

enum { GROUPS_RANKS_MAX = 1 << 20 }; /* largest number of ranks in a text */

#endif
