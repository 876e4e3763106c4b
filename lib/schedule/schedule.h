/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCHEDULE_SCHEDULE_H
#define SCHEDULE_SCHEDULE_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/groups.h"
#include "schedule/schedule_algo.h"

/*
 * A collective as rows of plain numbers: who sends which chunk to whom, in which lane, at which
 * step of one logical clock, and whether the receiver copies or adds.  A schedule has no
 * pointers, transport or byte counts.  A row names sender and receiver, so a send without its
 * receive cannot be expressed.
 *
 * Execution (paro-method(7), HO-RING): a row waits for the earlier rows that wrote a chunk that
 * it reads or writes, or that read the chunk that it writes.  Within a step no row touches a
 * chunk that another row of that step writes.  Additions into one chunk happen in row order.  A
 * lane is a stream of messages of its own: one per segment between groups, one inside groups,
 * one for all other rows.
 */
enum schedule_op { SCHEDULE_COPY, SCHEDULE_ADD };

/*
 * Rank src sends its `chunk`; rank dst copies it to its chunk `into`, or adds it onto that.
 * Only scratch makes into differ from chunk.  A local row, src == dst, works between two chunks
 * of one rank.  Rows with equal lane, step, src and dst are sent as one message.
 */
struct schedule_row {
    int lane, step, src, dst, chunk, into;
    enum schedule_op op;
};

/*
 * The phases of a collective, as bits: reduce-scatter inside the groups, reduce-scatter across
 * them, all-gather across, all-gather inside.  They run in this order.  All four are an
 * all-reduce, the last two an all-gather; other subsets are conversions between layouts
 * (layout/layout.h).  A broadcast, from the root to all ranks, combines with no other phase.
 */
enum {
    SCHEDULE_REDUCE_INSIDE = 1,
    SCHEDULE_REDUCE_ACROSS = 2,
    SCHEDULE_GATHER_ACROSS = 4,
    SCHEDULE_GATHER_INSIDE = 8,
    SCHEDULE_REDUCE_SCATTER = 3,
    SCHEDULE_ALL_GATHER = 12,
    SCHEDULE_ALL_REDUCE = 15,
    SCHEDULE_BROADCAST = 16
};

/*
 * Input of schedule_gen.  The vector is cut into segments, each segment into one part per
 * group, each part into subchunks: chunk = (segment * groups + part) * subchunks + c.  In group
 * k rank holder[segment * groups + k] holds the segment (its I shard); part k of it is in that
 * rank's G shard.
 *
 * Chunk numbers from `chunks` on are scratch, empty at first: chunk (1 + p) * chunks + c is the
 * buffer of plane p for chunk c, of the same length.  The generator decides how many planes it
 * needs.
 *
 * Above the groups there may be more levels (racks, pods): block[(l - 2) * groups + k] is the
 * block of group k at level l = 2 .. levels - 1, as in struct topo.
 */
struct schedule_spec {
    enum schedule_algo algo;
    unsigned phases;
    const struct groups *groups; /* borrowed */
    int segments;
    const int *holder; /* [segments * groups], borrowed */
    int subchunks;
    int levels;       /* levels of the fabric; 0 to 2: no blocks */
    const int *block; /* [levels-2][groups], borrowed */
    int root;         /* root rank of a broadcast */
};

/* Rows are sorted by step; ties have the same order on every rank. */
struct schedule {
    enum schedule_algo algo;
    unsigned phases;
    struct groups groups; /* owned */
    int segments;
    int *holder; /* owned */
    int subchunks;
    int chunks, lanes, steps;
    int planes;      /* planes of scratch chunks */
    int root;        /* root rank of a broadcast */
    int gather_step; /* first step of the gather, which only copies complete sums; `steps`:
                        none */
    int barriers, barrier[4]; /* rows of step >= barrier[i] wait for all the rank's rows before
                                 it */
    int64_t rows;
    struct schedule_row *row; /* owned */
};

/*
 * Generates a schedule, which the caller releases.  rank >= 0: only the rows with this rank as
 * src or dst (their number grows with the steps, not with the square of the ranks); rank < 0:
 * all rows.  The spec is read, not kept.  ERR_INPUT if chunks or steps exceed an int.
 */
int schedule_gen(const struct schedule_spec *spec, int rank, struct schedule *out,
                 struct err *err);
/* Returns the result of schedule_gen without making the rows, which may be many. */
int schedule_check(const struct schedule_spec *spec, struct err *err);
void schedule_release(struct schedule *s);

/*
 * Proves a schedule with all rows (generated with rank < 0, or read) correct: simulates the set
 * of contributions that each chunk of each rank holds.  Shares no code with the generators.
 * ERR_MISMATCH names the first wrong row, or the rank and chunk that end wrong.  ERR_INPUT if
 * the sets of one chunk would take over 2 GiB. Memory and time grow with the rows, not with
 * ranks x planes.
 */
int schedule_verify(const struct schedule *s, struct err *err);

/* Elements sent if chunk c has elems[c], [chunks]: between groups (slow) and inside (fast). */
struct schedule_traffic {
    int64_t slow_out_max, slow_in_max; /* at the busiest group's port */
    int64_t slow_sum, fast_sum;        /* sums over all rows */
    int64_t fast_rank_max;             /* inside its group, by the rank that sends most */
};
void schedule_traffic(const struct schedule *s, const int64_t *elems,
                      struct schedule_traffic *out);

/* Text format, paro-schedule(5).  Larger files are rejected; all rows of 4k ranks fit. */
enum { SCHEDULE_TEXT_MAX = 1 << 30 };
void schedule_print(const struct schedule *s, FILE *out);
void schedule_print_json(const struct schedule *s, FILE *out);
int schedule_read(struct schedule *s, const char *path, struct err *err); /* "-" is stdin */
/* Parses text[bytes], where text[bytes] is 0; overwrites the text.  Errors begin with
   `name`. */
int schedule_parse(struct schedule *s, char *text, int64_t bytes, const char *name,
                   struct err *err);

/* Name of phase 1 << i: "reduce-inside", "reduce-across", ... "broadcast". */
enum { SCHEDULE_PHASES = 5 };
extern const char *const schedule_phase_names[SCHEDULE_PHASES];
const char *schedule_phases_name(unsigned phases); /* "all-gather", ...; NULL: no collective has
                                                      these phases */
/* also "allgather", ... */
int schedule_phases_parse(const char *text, unsigned *out, struct err *err);
const char *schedule_algo_name(enum schedule_algo algo); /* "ring", "two-level", ... */
const char *schedule_algo_text(enum schedule_algo algo); /* its description, one line */
int schedule_algo_flat(enum schedule_algo algo);         /* 1: ignores groups */
int schedule_algo_parse(const char *text, enum schedule_algo *out, struct err *err);

#endif
