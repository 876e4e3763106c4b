/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_EMIT_H
#define BENCH_BENCH_EMIT_H

#include "bench/bench.h"

/*
 * Converts measurements to the configuration of the measured library: the fastest of its
 * algorithms at each size, as a file or a text.
 */
enum bench_emit {
    BENCH_EMIT_NCCL_TUNER, /* CSV for the tuner plugin of NCCL's own examples */
    BENCH_EMIT_OMPI_TUNED, /* rules of Open MPI's tuned component, as text */
    BENCH_EMIT_OMPI_JSON,  /* the same rules in JSON, from Open MPI 6.0 on */
    BENCH_EMIT_UCC_TUNE,   /* UCC_TL_UCP_TUNE */
    BENCH_EMITS
};

/*
 * Without a world: reads rows of JSON Lines (as bench_read) and uses those of the target
 * library.  At a size at which two or more of its settings were measured it takes the one with
 * the least median.  The boundary between two sizes with different settings is their geometric
 * mean; outside the measured sizes, and where nothing was compared, the library keeps its own
 * choice.  A line of talk reports omitted rows.  ERR_INPUT: rows that were simulated, that
 * differ in something that the format cannot express, or no two to compare; ERR_MISMATCH: rows
 * with wrong data.
 */
int bench_emit(enum bench_emit target, const char *const *file, int files,
               const struct bench_talk *talk, FILE *out, struct err *err);

/* ---- internal: shared by bench_emit*.c ---- */

enum emit_coll { /* collectives, in the order of Open MPI's numbers */
                 EMIT_ALLGATHER,
                 EMIT_ALLGATHERV,
                 EMIT_ALLREDUCE,
                 EMIT_BCAST,
                 EMIT_REDUCE_SCATTER,
                 EMIT_REDUCE_SCATTER_BLOCK,
                 EMIT_COLLS
};

struct emit_way { /* an algorithm; name "", id 0: the library's own choice */
    char name[BENCH_SETTING_SPACE];
    int id; /* the library's number for it, if any */
};

struct emit_point { /* choice at one size */
    int64_t size;   /* as the library counts it */
    int ways;       /* number measured; below 2: not compared */
    struct emit_way way;
    const struct bench_row *best, *next; /* borrowed */
};

struct emit_range { /* neighbouring sizes with one way */
    int64_t lo, hi; /* neighbouring sizes with one choice; both inclusive */
    struct emit_way way;
    int points, first; /* number of points, and the first one's index */
};

struct emit_part { /* a call on one shape */
    enum emit_coll coll;
    int ranks, groups;
    const struct bench_row *row; /* the first, borrowed */
    char library[BENCH_FACT_SPACE], since[BENCH_FACT_SPACE], until[BENCH_FACT_SPACE];
    struct emit_point *point; /* [points], owned */
    int points;
    struct emit_range *range; /* [ranges], owned */
    int ranges;
};

struct emit {
    struct emit_part *part; /* [parts], owned; sorted by coll, ranks, groups */
    int parts;
    char left_out[512]; /* labels of rows that the target cannot use */
};

struct emit_target {
    const char *name;
    int algo;            /* algorithm of the rows to use */
    int by_groups;       /* 1: the format distinguishes shapes by groups too, not only by
                            ranks */
    const char *library; /* prefix of `library` in the rows, if they have one; or NULL */
    const char *wants, *how;
    /* Returns 1 and *way if the format can name the row's algorithm; otherwise 0. */
    int (*way)(enum emit_coll coll, const struct bench_row *r, struct emit_way *way);
    int64_t (*size)(enum emit_coll coll, const struct bench_row *r);
    void (*print)(const struct emit *e, FILE *out);
};
const struct emit_target *emit_target(enum bench_emit target);

const char *emit_coll_name(enum emit_coll coll); /* "MPI_Allgather" */
/* Writes a line that begins with '#', of at most 200 characters: CSV readers have space for
   255. */
void emit_comment(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
