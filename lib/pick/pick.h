/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PICK_PICK_H
#define PICK_PICK_H

#include "layout/layout.h"
#include "schedule/schedule.h"
#include "topo/topo.h"

/*
 * Where layouts and schedules meet: which algorithm, in how many sub-chunks, cut where.  A
 * floor without MPI, so that a schedule can be printed and proven where no MPI is.
 */

/* 28 bytes a row, and as much again while they are put in order: 1.75 GiB. */
enum { PICK_ROWS_MAX = 1 << 25 };
/*
 * All ranks' rows on a fabric, with its levels, of how->phases by how->algo in how->subchunks,
 * from how->root.  ERR_INPUT for more than `most` rows of what is called `what`.
 */
int pick_schedule_on(const struct schedule_spec *how, const struct topo *t, const char *what,
                     int most, struct schedule *out, struct err *err);

/*
 * out[s->chunks]: elements of each chunk, of a vector of elems <= 2^42 (the rows of s are not
 * looked at).  Returns 1: its segments are those of the layouts, and the layouts' cuts hold; 0:
 * others, all chunks taken as equal.
 */
int pick_chunk_elems(const struct schedule *s, int64_t elems, int64_t *out);

/* Traffic of a schedule through ports and inside groups, as fractions of the whole vector M. */
struct pick_traffic {
    double slow_out, slow_in; /* the busiest port, each way */
    double fast_rank;         /* sent inside its group, by the rank that sends most */
    int by_layout; /* 1: segments are those of the layouts; 0: others, all chunks taken as equal
                    */
};
void pick_traffic(const struct schedule *s, struct pick_traffic *out);

/* An operation and an algorithm in words; 'auto' is none here. */
int pick_parse(const char *op, const char *algo, unsigned *phases, enum schedule_algo *out,
               struct err *err);
/* ERR_INPUT unless 0 <= root < ranks. */
int pick_check_root(int root, int ranks, struct err *err);

#endif
