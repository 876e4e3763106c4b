/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PICK_PICK_H
#define PICK_PICK_H

#include "layout/layout.h"
#include "schedule/schedule.h"
#include "topo/topo.h"

/*
 * Connects layouts and schedules: which algorithm, how many sub-chunks, which cuts.  A floor
 * without MPI, so that a schedule can be printed and proven without MPI.
 */

/* 28 bytes a row, and as much again for sorting: 1.75 GiB. */
enum { PICK_ROWS_MAX = 1 << 25 };
/*
 * Generates all ranks' rows on a fabric, with its levels: how->phases by how->algo in
 * how->subchunks, from how->root.  ERR_INPUT for more than `most` rows; `what` names the
 * schedule in the message.
 */
int pick_schedule_on(const struct schedule_spec *how, const struct topo *t, const char *what,
                     int most, struct schedule *out, struct err *err);

/*
 * Computes out[s->chunks]: elements of each chunk, of a vector of elems <= 2^42 (the rows of s
 * are not read).  Returns 1: the segments of s are those of the layouts, whose cuts apply; 0:
 * others, all chunks are taken as equal.
 */
int pick_chunk_elems(const struct schedule *s, int64_t elems, int64_t *out);

/* Traffic of a schedule through ports and inside groups, as fractions of the whole vector M. */
struct pick_traffic {
    double slow_out, slow_in; /* the busiest port, each direction */
    double fast_rank;         /* sent inside its group, by the rank that sends most */
    int by_layout;            /* as pick_chunk_elems returns */
};
void pick_traffic(const struct schedule *s, struct pick_traffic *out);

/* Parses the names of an operation and an algorithm; 'auto' is rejected. */
int pick_parse(const char *op, const char *algo, unsigned *phases, enum schedule_algo *out,
               struct err *err);
/* ERR_INPUT unless 0 <= root < ranks. */
int pick_check_root(int root, int ranks, struct err *err);

#endif
