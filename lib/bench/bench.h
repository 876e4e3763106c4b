/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdint.h>
#include <stdio.h>

#include "base/dtype.h"
#include "base/err.h"
#include "schedule/schedule.h"
#include "topo/topo.h"
#include "world/world.h"

/*
 * Times collectives beside each other and beside the cut bound of paro-method(7), CUT BOUND.
 * Several algorithms take turns within each iteration, so that a neighbour's load falls on all
 * alike.  Data is checked on every size, before and after the timed runs.
 *
 * An algorithm is one of enum schedule_algo, SCHEDULE_AUTO included, or the MPI library's own,
 * or on a GPU NCCL's own.
 */
enum { BENCH_MPI = -1, BENCH_NCCL = -2 }; /* ours: 0 and above */
enum { BENCH_OPS_MAX = 4, BENCH_ALGOS_MAX = SCHEDULE_AUTO + 3, BENCH_SETTING_SPACE = 32 };
enum { BENCH_FACT_SPACE = 64 };
enum bench_format { BENCH_TEXT, BENCH_JSON, BENCH_CSV, BENCH_SVG }; /* SVG: of all rows */

struct bench_options {
    int ops;
    int op[BENCH_OPS_MAX]; /* SCHEDULE_ALL_GATHER, ... */
    int algos;
    int algo[BENCH_ALGOS_MAX];
    int64_t min_bytes, max_bytes; /* of the whole vector M */
    int factor, iters, warmup;
    enum dtype type;
    enum dtype_op redop;
    int root;                           /* of a broadcast */
    int64_t chunk_bytes, window_bytes;  /* 0: the library's own choice */
    const char *topo;                   /* the fabric of -i, or NULL: ports are measured */
    const char *device;                 /* of the buffers, as device_open; NULL: cpu */
    const char *transport;              /* of a GPU's; NULL: auto */
    const char *tuning;                 /* a table for auto to read, or NULL: simulated */
    const char *shape;                  /* groups, or NULL: by host */
    const char *setting, *nccl_setting; /* how MPI, and NCCL, were set, or NULL: not told */
    enum bench_format format;
    int percentiles;  /* columns for them in text */
    const char *plot; /* an SVG file to write, "-" with BENCH_SVG, or NULL */
    int force;        /* plot may replace a file */
    double floor;     /* least limit_fraction that is good enough; below 0: not asked */
};

/* Defaults: all ops, ho-ring, ring and mpi, 32 MiB, 20 iterations after 5, sums of f32. */
void bench_options_init(struct bench_options *o);
/* Lists such as "all-gather,all-reduce" and "ring,mpi": no word twice. */
int bench_parse_ops(const char *text, struct bench_options *o, struct err *err);
int bench_parse_algos(const char *text, struct bench_options *o, struct err *err);
/* "f32" "bf16" "f16" "f64" "i32" "u8", or in the words of nccl-tests: "float", "half", ... */
int bench_parse_type(const char *text, enum dtype *type, struct err *err);
/* A word of 1 to BENCH_SETTING_SPACE - 1 letters, digits, '-', '_', '.', '+', '/'. */
int bench_parse_setting(const char *text, const char **out, struct err *err);
int bench_algo_parse(const char *text, int *algo, struct err *err);
const char *bench_algo_name(int algo);

enum bench_mark { /* of the iterations' times, that of the slowest rank in each */
                  BENCH_MIN,
                  BENCH_P10,
                  BENCH_P25,
                  BENCH_MEDIAN,
                  BENCH_P75,
                  BENCH_P90,
                  BENCH_P99,
                  BENCH_MAX,
                  BENCH_MARKS
};

struct bench_row { /* one line of output; NAN: not known */
    unsigned op;
    int algo;
    enum schedule_algo chosen; /* the choice of auto; SCHEDULE_AUTO where there was none */
    int64_t chosen_chunk_bytes;
    char setting[BENCH_SETTING_SPACE]; /* of mpi and nccl: "" or how it was set */
    /* "Open MPI v4.1.4" (of mpi); the first rank's; "2026-01-31T12:00:00Z"; "": not known */
    char library[BENCH_FACT_SPACE], host[BENCH_FACT_SPACE], when[BENCH_FACT_SPACE];
    char shape[256]; /* "4x2" */
    int ranks, root; /* root -1: not a broadcast */
    enum dtype type;
    enum dtype_op redop; /* DTYPE_OPS: nothing is reduced */
    int simulated;       /* times are those predicted, nothing ran */
    int launches;        /* of how many this is the best */
    int64_t elems, bytes;
    int64_t wrong;                          /* elements; -1: not checked */
    double time_s[BENCH_MARKS];             /* of one launch */
    double ratio_p25, ratio_mid, ratio_p75; /* time over mpi's, iteration by iteration */
    int64_t slow_bytes;                     /* -1: not known (mpi) */
    double limit_s;                         /* cut bound; NAN with one group */
    double predicted_s;                     /* NAN without a topology, or for mpi */
    double load;                            /* load average over the last minute */
};
double bench_algbw_Bps(const struct bench_row *r); /* M over the median; 0 for nothing */
/* algbw times (n-1)/n; all-reduce: twice that; broadcast: algbw itself, as in nccl-tests. */
double bench_busbw_Bps(const struct bench_row *r);
double bench_limit_fraction(const struct bench_row *r);
/* "ho-ring", "auto:bruck", "mpi:han" into text (of `room` bytes), which is returned. */
const char *bench_label(const struct bench_row *r, char *text, int space);

/* The result, for rank 0 (the others have no rows); released by the caller. */
struct bench_result {
    struct bench_row *row; /* [rows], owned */
    int rows;
    int64_t wrong;                 /* elements, on any rank; the same on every rank */
    char below[640];               /* "" or the worst row under the floor, in words */
    char doubt[TOPO_SOURCE_BYTES]; /* the fabric's, on rank 0 */
};
void bench_result_release(struct bench_result *r);

/*
 * Collective over the world.  Rank 0 prints, row by row; a row is written whole or not at all.
 * Ends early, with 0, when `out` cannot be written to (the caller finds ferror).  Errors are
 * the same on every rank, but for ERR_PEER.
 */
int bench_run(struct world *world, const struct bench_options *o, FILE *out,
              struct bench_result *result, struct err *err);
/*
 * Collective over the world: how much of the work inside groups hides behind that across them.
 * Times the conversions that are each alone (paro-method(7), TRAFFIC: I to N, G to I, ...) by
 * ho-ring, and the whole by each algorithm; their data is checked like any other's.
 */
int bench_overlap(struct world *world, const struct bench_options *o, FILE *out,
                  struct bench_result *result, struct err *err);
/*
 * Collective over the world: a table of what is fastest when measured (pick_table.h), printed
 * by rank 0 as YAML or JSON once all is measured; a line of talk on rank 0 for each size.  For
 * o's operations, sizes, type, reduction and root; moves: with simulated rules for what else a
 * trainer moves.  doubt: the fabric's, on rank 0.  iters 0: bench_parts.h says how many.  Wrong
 * data is ERR_MISMATCH.
 */
struct bench_talk {
    void (*say)(void *with, const char *line);
    void *with;
};
int bench_tune(struct world *world, const struct bench_options *o, int moves,
               const struct bench_talk *talk, char doubt[TOPO_SOURCE_BYTES], FILE *out,
               struct err *err);
/* No world: the same rows with the times that sim/ predicts on o->topo.  mpi is refused. */
int bench_simulate(const struct bench_options *o, FILE *out, struct bench_result *result,
                   struct err *err);
/*
 * No world: rows of JSON Lines that bench_run wrote, files or "-".  Among several rows of one
 * operation, algorithm, setting, size, type, root and shape the one with the least median
 * stays, with all's wrong elements and launches.  ERR_INPUT names file and line.
 */
int bench_read(const struct bench_options *o, const char *const *file, int files, FILE *out,
               struct bench_result *result, struct err *err);

/*
 * Draws rows, in any order, as one SVG: for each operation, in the order they first come, its
 * time over the size and its busbw over the size, a line per algorithm (and per setting of the
 * MPI library), the cut bound dashed where rows have one; each shape and type apart.  Shape,
 * ranks, type and load average come from the rows; `title` stands above them.  Rows without a
 * time above 0 are left out.  Errors stay with the FILE (ferror).
 */
void bench_plot(const struct bench_row *rows, int n, const char *title, FILE *out);

#endif
