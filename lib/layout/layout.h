/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LAYOUT_LAYOUT_H
#define LAYOUT_LAYOUT_H

#include <stdint.h>

#include "base/groups.h"
#include "schedule/schedule.h"

/*
 * Layouts: which elements of a vector (a unit's parameters, gradients or optimizer state) each
 * rank stores.  Under N every rank stores the whole vector.  Under I each group stores it once,
 * divided among its members.  Under G all ranks together store it once.  Source:
 * paro-method(7), PLACEMENT (after arXiv 2310.06003); equal and ragged groups use the same
 * arithmetic.
 *
 *   groups [3,2], cut at 1/3 1/2 2/3: segments e0 e1 e2 e3
 *       |   e0    |  e1 |  e2 |   e3    |
 *       |  (0,0)  |   (0,1)   |  (0,2)  |     I shards of group 0, (group, member)
 *       |     (1,0)     |     (1,1)     |     I shards of group 1
 *
 * The segments lie between the cuts of all groups' I shards.  Each segment is divided into one
 * piece per group; piece k belongs to the rank of group k that holds the segment.  A rank's
 * pieces are its G shard, which so lies inside its I shard.
 */
enum letter { LETTER_N, LETTER_I, LETTER_G };

char letter_char(enum letter letter);
int letter_parse(char c, enum letter *out); /* 'N' 'I' 'G' in either case: 0; otherwise -1 */

struct range {
    int64_t lo, hi; /* elements [lo, hi) */
};

struct layout {
    struct groups groups; /* owned copy */
    int segments;         /* E, at most ranks - groups + 1 */
    int largest;          /* members of the largest group */
    int grain;            /* cuts are rounded down to multiples of so many elements; 1 unless
                             the caller sets it after layout_init */
    int64_t *cut_num;     /* [E+1] segment e begins at cut_num[e] / cut_den[e] of the vector */
    int64_t *cut_den;
    int *holder;     /* [E*g] holder[e*g + k]: rank of group k whose I shard contains segment
                        e */
    int64_t *before; /* [g+1] members of the groups before k, the weights of G shards */
};

void layout_init(struct layout *l, const struct groups *groups);
void layout_release(struct layout *l);

/*
 * Returns the first element of piece k of segment e in a vector of `elems` elements; k = g
 * returns the segment's end.  even = 0: pieces in the ratio of the groups' members (G shards);
 * even = 1: equal pieces (the slices of an all-reduce, which load every port alike).  The cuts
 * are a partition for every elems, 0 .. 2^62 - 1, and monotonic in e and k.
 */
int64_t layout_cut(const struct layout *l, int64_t elems, int e, int k, int even);

/* Returns part i, 0 .. n - 1, of a range cut into n parts that differ by one element at
   most. */
struct range range_part(struct range r, int i, int n);
/*
 * Returns the range of chunk c when each piece is cut into `subchunks`: sub-chunk c % subchunks
 * of piece k of segment e, with c / subchunks = e * groups + k.  Schedules number their chunks
 * so (struct schedule_spec).
 */
struct range layout_chunk(const struct layout *l, int64_t elems, int even, int subchunks,
                          int c);

/*
 * Returns the `even` for a schedule.  1: an all-reduce across groups, whose slices nobody
 * keeps, so that equal ones may load every port alike.  0: the conversion begins or ends with G
 * shards, or the algorithm ignores groups and needs equal shares per rank, as G shards are.
 */
int layout_even(unsigned phases, enum schedule_algo algo);
/*
 * Returns the smallest number of sub-chunks, at most LAYOUT_SUBCHUNKS_MAX, that keeps each
 * sub-chunk of a vector of elems elements of elem_bytes at or below chunk_bytes; an even number
 * for groups that are cabled in a ring, so that half of them go each way.
 */
enum { LAYOUT_SUBCHUNKS_MAX = 1 << 14 };
int layout_subchunks(const struct layout *l, unsigned phases, enum schedule_algo algo,
                     int64_t elems, int elem_bytes, int64_t chunk_bytes);
/* The same from the longest piece, in elements; the result is at most `most`.  ring: of the
   groups. */
int layout_subchunks_of(int64_t longest, int elem_bytes, int64_t chunk_bytes, int ring,
                        int most);
/*
 * Returns the spec of an operation on a layout's segments; levels and block describe the fabric
 * as in struct schedule_spec.  The result borrows from l and block.
 */
struct schedule_spec layout_spec(const struct layout *l, int levels, const int *block,
                                 unsigned phases, enum schedule_algo algo, int subchunks);

/*
 * Writes the ranges that a rank stores under `letter`, ascending, merged, none empty, to out
 * [layout_ranges_max].  Returns their number.
 */
int layout_ranges(const struct layout *l, enum letter letter, int rank, int64_t elems,
                  struct range *out);
/* Returns the lowest rank that stores the same ranges under `letter`, whatever the vector's
   size. */
int layout_first(const struct layout *l, enum letter letter, int rank);
int layout_ranges_max(const struct layout *l); /* bound on the ranges of a vector or unit */
/* Returns the number of elements that a rank stores, the size of its packed shard: its ranges
   one after the other without gaps. */
int64_t layout_elems(const struct layout *l, enum letter letter, int rank, int64_t elems);
/*
 * As layout_ranges, for a unit whose first `trained` elements train and whose
 * others are frozen: two vectors, each divided by itself, the ranges of the trained one first.
 *
 *   [2,2], G, trained 8 of 12:  | trained: 0 2 1 3 | frozen: 0 2 1 3 |   rank of each quarter
 *   rank 2's ranges:                 [2, 4)            [9, 10)
 */
int layout_unit_ranges(const struct layout *l, enum letter letter, int rank, int64_t trained,
                       int64_t elems, struct range *out);
/* Returns the offset of element x in the packed shard, or -1 if no range contains x. */
int64_t layout_offset(const struct range *ranges, int n, int64_t x);

/*
 * Conversions between layouts, as sets of the phases of schedule/schedule.h that they need (the
 * tables t_syncg and t_syncp of paro-method(7), TRAFFIC); 0: nothing is transferred.
 *
 * layout_phases_sum: an accumulated gradient.  Under `from` it has been summed over no other
 * rank (N), the group (I) or all ranks (G); under `to` it is the sum over all ranks.
 */
unsigned layout_phases_sum(enum letter from, enum letter to);
/* One micro-step's gradient, complete and not summed on each rank, to an accumulator under
   `to`. */
unsigned layout_phases_micro(enum letter to);
/* A copy (parameters).  From a finer to a coarser letter it gathers; to a finer one it needs
   nothing, because each rank takes a slice of its own data. */
unsigned layout_phases_copy(enum letter from, enum letter to);
/* Removes the phases that transfer nothing: across if there is one group, inside if all groups
   have one member. */
unsigned layout_phases_trim(const struct layout *l, unsigned phases);

#endif
