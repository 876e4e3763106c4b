/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LAYOUT_LAYOUT_H
#define LAYOUT_LAYOUT_H

#include <stdint.h>

#include "base/groups.h"
#include "schedule/schedule.h"

/*
 * Where each element of a vector (a unit's parameters, gradients or optimizer state) lives.
 * N: every rank has all.  I: each group has all, its members a part each.  G: all ranks
 * together have one copy.  Source: paro-method(7), PLACEMENT (after arXiv 2310.06003),
 * equal and ragged groups by the same arithmetic.
 *
 *   groups [3,2], cut at 1/3 1/2 2/3: segments e0 e1 e2 e3
 *       |   e0    |  e1 |  e2 |   e3    |
 *       |  (0,0)  |   (0,1)   |  (0,2)  |     I shards of group 0
 *       |     (1,0)     |     (1,1)     |     I shards of group 1
 *   each segment is cut into one piece per group; piece k belongs to the rank of group k
 *   that holds the segment: the pieces of a rank are its G shard, inside its I shard.
 */
enum letter { LETTER_N, LETTER_I, LETTER_G };

char letter_char(enum letter letter);
int letter_parse(char c, enum letter *out); /* 'N' 'I' 'G', either case; -1 otherwise */

struct range {
    int64_t lo, hi; /* elements [lo, hi) */
};

struct layout {
    struct groups groups; /* owned copy */
    int segments;         /* E: at most n - g + 1 */
    int largest;          /* members of the largest group */
    int64_t *cut_num;     /* [E+1] the cut before segment e is cut_num[e] / cut_den[e] */
    int64_t *cut_den;
    int *holder;     /* [E*g] holder[e*g + k]: the rank of group k that holds segment e */
    int64_t *before; /* [g+1] members in the groups before k: cumulative weights of G shards */
};

void layout_init(struct layout *l, const struct groups *groups);
void layout_release(struct layout *l);

/*
 * Start of piece k (0..g; g is the end) of segment e in a vector of `elems`.  even = 0: pieces
 * in the ratio of the groups' members (G shards); even = 1: equal pieces (slices of an
 * all-reduce, which load every port alike).  A partition for every elems >= 0, monotonic.
 */
int64_t layout_cut(const struct layout *l, int64_t elems, int e, int k, int even);

/* Part i of n of a range: as equal as whole elements are. */
struct range range_part(struct range r, int i, int n);
/*
 * Chunk c of a vector whose pieces are cut into `subchunks` each: sub-chunk c % subchunks of
 * piece k of segment e, where c / subchunks is e * groups + k.  The order of a schedule's
 * chunks.
 */
struct range layout_chunk(const struct layout *l, int64_t elems, int even, int subchunks,
                          int c);

/*
 * The `even` of a schedule.  1: slices of an all-reduce belong to nobody in between, and cut
 * equally they load every port alike.  0: the cuts of G shards, where one begins or ends the
 * conversion, or the algorithm uses no groups and needs equal shares of the ranks, which those
 * are.
 */
int layout_even(unsigned phases, enum schedule_algo algo);
/*
 * Sub-chunks of each piece so that none is above chunk_bytes (as long as that takes no more
 * than LAYOUT_SUBCHUNKS_MAX), in a vector of elems elements of elem_bytes.
 */
enum { LAYOUT_SUBCHUNKS_MAX = 1 << 14 };
int layout_subchunks(const struct layout *l, unsigned phases, enum schedule_algo algo,
                     int64_t elems, int elem_bytes, int64_t chunk_bytes);
/* The same from the elements of the longest piece; most: of sub-chunks. */
int layout_subchunks_of(int64_t longest, int elem_bytes, int64_t chunk_bytes, int most);
/*
 * An operation on a layout's segments; levels and block of the fabric, as in schedule_spec.
 * All that it points to stays the layout's and the caller's.
 */
struct schedule_spec layout_spec(const struct layout *l, int levels, const int *block,
                                 unsigned phases, enum schedule_algo algo, int subchunks);

/*
 * The ranges rank holds under `letter`, ascending, merged, none empty; at most
 * layout_ranges_max. Returns their number.
 */
int layout_ranges(const struct layout *l, enum letter letter, int rank, int64_t elems,
                  struct range *out);
/* The lowest rank that holds the very same ranges, of a vector of any size. */
int layout_first(const struct layout *l, enum letter letter, int rank);
int layout_ranges_max(const struct layout *l); /* room that suffices, for a unit's too */
/* Elements rank holds: the size of its packed shard (its ranges one after the other). */
int64_t layout_elems(const struct layout *l, enum letter letter, int rank, int64_t elems);
/*
 * The same of a unit whose first `trained` elements train and whose others do not: two vectors,
 * each shared out by itself, the second one's ranges behind the first's.
 *
 *   [2,2], G, trained 8 of 12:  | trained: 0 2 1 3 | frozen: 0 2 1 3 |   rank of each quarter
 *   rank 2's ranges:                 [2, 4)            [9, 10)
 */
int layout_unit_ranges(const struct layout *l, enum letter letter, int rank, int64_t trained,
                       int64_t elems, struct range *out);
int64_t layout_unit_elems(const struct layout *l, enum letter letter, int rank, int64_t trained,
                          int64_t elems);
/* Offset in the packed shard of element x, or -1 when the ranges have it not. */
int64_t layout_offset(const struct range *ranges, int n, int64_t x);

/*
 * The phases that it takes to go from one layout to another (schedule/schedule.h; the tables
 * t_syncg and t_syncp of paro-method(7), TRAFFIC).
 *
 * A gradient: under `from` it is summed as far as from says (N: not at all, I: inside the
 * group, G: over all); under `to` it is complete, and lies as to says.
 */
unsigned layout_phases_sum(enum letter from, enum letter to);
/* A gradient of one micro-step, unsummed and whole on each rank, to an accumulator of letter
 * to. */
unsigned layout_phases_micro(enum letter to);
/* A copy (parameters): finer to coarser gathers, coarser to finer is local slicing. */
unsigned layout_phases_copy(enum letter from, enum letter to);
/* Without those that transfer nothing: across a single group, inside groups of one. */
unsigned layout_phases_trim(const struct layout *l, unsigned phases);

#endif
