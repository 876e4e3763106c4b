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
 * step of one logical clock, and whether the receiver copies or adds.  No pointer, no
 * transport, no byte.  A row names both ends: a send without its receive cannot be written
 * down.
 *
 * The rule of execution (paro-method(7), HO-RING): a row waits for the earlier rows that wrote
 * what it reads or writes, or read what it writes.  A row of a step never touches what another
 * row of that step writes.  Reductions into one chunk happen in row order.
 */
enum schedule_op { SCHEDULE_COPY, SCHEDULE_ADD };

/*
 * src sends `chunk`; dst puts it in the place of its `into` (copy) or adds it onto that (add).
 * Nearly always into == chunk.  A local row, src == dst, moves between two chunks of one rank.
 * Rows of one lane, step, src and dst travel as one message.
 */
struct schedule_row {
    int lane, step, src, dst, chunk, into;
    enum schedule_op op;
};

/*
 * The phases of a collective, in the words of the layouts: a reduce-scatter inside the groups,
 * one across them, a gather across, a gather inside.  All four are an all-reduce, the last two
 * an all-gather; the others are conversions between layouts (layout/layout.h).  A broadcast
 * stands alone: what the root has, all have.
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
 * The vector is cut into segments, each segment into one part per group, each part into
 * subchunks: chunk = (segment * groups + part) * subchunks + c.  In group k rank
 * holder[segment * groups + k] holds the segment (its I shard); over all, part k of it belongs
 * to that rank (its G shard).
 *
 * Chunks from `chunks` on are scratch, empty at first: chunk (1 + p) * chunks + c is plane p's
 * room for chunk c, of the same length.  A generator that needs some says how many planes.
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
    int levels;       /* of the fabric; 0 to 2: no blocks */
    const int *block; /* [levels-2][groups], borrowed */
    int root;         /* of a broadcast */
};

/* Rows in order of step, with ties in one order that is the same on every rank. */
struct schedule {
    enum schedule_algo algo;
    unsigned phases;
    struct groups groups; /* owned */
    int segments;
    int *holder; /* owned */
    int subchunks;
    int chunks, lanes, steps;
    int planes;      /* of scratch chunks */
    int root;        /* of a broadcast */
    int gather_step; /* from here on sums are complete and only copied; steps: never */
    int barriers,
        barrier[4]; /* a row of step >= barrier waits for all the rank's rows before it */
    int64_t rows;
    struct schedule_row *row; /* owned */
};

/*
 * Generates.  rank >= 0: only the rows that name this rank at one end (their number grows with
 * the steps, not with the square of the ranks); rank < 0: all.  ERR_INPUT when the numbers do
 * not fit an int.
 */
int schedule_gen(const struct schedule_spec *spec, int rank, struct schedule *out,
                 struct err *err);
/* Returns what schedule_gen would return, without making the rows, which may be many. */
int schedule_check(const struct schedule_spec *spec, struct err *err);
void schedule_release(struct schedule *s);

/*
 * Proves all rows (rank < 0) right: simulates sets of contributions, and shares no code with
 * the generators.  ERR_MISMATCH names the first wrong row or place; ERR_INPUT when one chunk's
 * sets would take over 2 GiB.  Else memory and time follow the rows, not ranks x planes.
 */
int schedule_verify(const struct schedule *s, struct err *err);

/* Elements moved when chunk c has elems[c]: through each group's port, and inside groups. */
struct schedule_traffic {
    int64_t slow_out_max, slow_in_max; /* of the busiest group's port */
    int64_t slow_sum, fast_sum;        /* over all rows */
    int64_t fast_rank_max;             /* sent inside its group, by the rank that sends most */
};
void schedule_traffic(const struct schedule *s, const int64_t *elems,
                      struct schedule_traffic *out);

/* Text, paro-schedule(5).  4k ranks' rows fit; a file is not read without bound. */
enum { SCHEDULE_TEXT_MAX = 1 << 30 };
void schedule_print(const struct schedule *s, FILE *out);
void schedule_print_json(const struct schedule *s, FILE *out);
int schedule_read(struct schedule *s, const char *path, struct err *err); /* "-" is stdin */
/* From memory: text[bytes] is 0, the text is cut up in place, name stands before errors. */
int schedule_parse(struct schedule *s, char *text, int64_t bytes, const char *name,
                   struct err *err);

/* Name of phase 1 << i: "reduce-inside", "reduce-across", ... "broadcast". */
enum { SCHEDULE_PHASES = 5 };
extern const char *const schedule_phase_names[SCHEDULE_PHASES];
const char *schedule_phases_name(unsigned phases); /* "all-gather", ...; NULL when partial */
int schedule_phases_parse(const char *text, unsigned *out, struct err *err); /* allgather too */
const char *schedule_algo_name(enum schedule_algo algo); /* "ring", "two-level", ... */
const char *schedule_algo_text(enum schedule_algo algo); /* its description, one line */
int schedule_algo_flat(enum schedule_algo algo);         /* uses ranks only, no groups */
int schedule_algo_parse(const char *text, enum schedule_algo *out, struct err *err);

#endif
