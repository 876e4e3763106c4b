/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_EMIT_H
#define BENCH_BENCH_EMIT_H

#include <stddef.h>

#include "bench/bench.h"

/*
 * Measurements in the words of the library that was measured: the fastest of its algorithms at
 * each size, as the file or the text that configures it.
 */
enum bench_emit {
    BENCH_EMIT_NCCL_TUNER, /* CSV for the tuner plugin of NCCL's own examples */
    BENCH_EMIT_OMPI_TUNED, /* rules of Open MPI's tuned component, as text */
    BENCH_EMIT_OMPI_JSON,  /* the same in JSON, from Open MPI 6.0 on */
    BENCH_EMIT_UCC_TUNE,   /* UCC_TL_UCP_TUNE */
    BENCH_EMITS
};

/*
 * No world: rows of JSON Lines (as bench_read), of which the library's own are looked at.  At a
 * size where two or more of its settings were measured the one with the least median is taken.
 * Between two sizes with different ones the boundary is their geometric mean; outside the sizes
 * measured, and where nothing was compared, the library is left its own choice.  A line of talk
 * for what is left out.  ERR_INPUT: rows that were simulated, that differ in what the format
 * cannot tell apart, or no two to compare; ERR_MISMATCH: rows with wrong data.
 */
int bench_emit(enum bench_emit target, const char *const *file, int files,
               const struct bench_talk *talk, FILE *out, struct err *err);

/* ---- inside: what its files share ---- */

enum emit_coll { /* the collectives called, in the order of Open MPI's numbers */
                 EMIT_ALLGATHER,
                 EMIT_ALLGATHERV,
                 EMIT_ALLREDUCE,
                 EMIT_BCAST,
                 EMIT_REDUCE_SCATTER,
                 EMIT_REDUCE_SCATTER_BLOCK,
                 EMIT_COLLS
};

struct emit_way { /* one algorithm; name "", id 0: the library's own choice */
    char name[BENCH_SETTING_SPACE];
    int id; /* the library's number for it, where it has one */
};

struct emit_point { /* one size */
    int64_t size;   /* as the library counts it */
    int ways;       /* measured; below 2: not compared */
    struct emit_way way;
    const struct bench_row *best, *next; /* borrowed */
};

struct emit_range { /* neighbouring sizes with one way */
    int64_t lo, hi; /* inclusive */
    struct emit_way way;
    int points, first; /* how many, from which on */
};

struct emit_part { /* one call on one shape */
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
    struct emit_part *part; /* [parts], owned; by coll, then ranks, then groups */
    int parts;
    char left_out[512]; /* settings of rows that are none of the target's, in words */
};

struct emit_target {
    const char *name;
    int algo;            /* whose rows */
    int by_groups;       /* the format tells shapes apart by groups too, not by ranks alone */
    const char *library; /* prefix of the rows' library, where rows name it; or NULL */
    const char *wants, *how;
    /* 1 and *way when the row is of an algorithm that the format can name, else 0. */
    int (*way)(enum emit_coll coll, const struct bench_row *r, struct emit_way *way);
    int64_t (*size)(enum emit_coll coll, const struct bench_row *r);
    void (*print)(const struct emit *e, FILE *out);
};
const struct emit_target *emit_target(enum bench_emit target);

const char *emit_coll_name(enum emit_coll coll); /* "MPI_Allgather" */
/* A line that begins with '#', of at most 200 characters: what reads CSV has room for 255. */
void emit_comment(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
