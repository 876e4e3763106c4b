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
 * Times collectives in comparison with each other and with the cut bound
 * (paro-method(7), CUT BOUND).  Several algorithms alternate within each iteration, so that a
 * neighbour's load affects all alike.  Data is checked for every size, before and after the
 * timed runs.
 *
 * An algorithm is one of enum schedule_algo, SCHEDULE_AUTO included, or the MPI library's own,
 * or on a GPU NCCL's own.
 */
enum { BENCH_MPI = -1, BENCH_NCCL = -2 }; /* paro's own: 0 and above */
enum { BENCH_OPS_MAX = 4, BENCH_ALGOS_MAX = SCHEDULE_AUTO + 3, BENCH_SETTING_SPACE = 32 };
enum { BENCH_FACT_SPACE = 64 };
enum bench_format { BENCH_TEXT, BENCH_JSON, BENCH_CSV, BENCH_SVG }; /* SVG: all rows in one */

struct bench_options {
    int ops;
    int op[BENCH_OPS_MAX]; /* SCHEDULE_ALL_GATHER, ... */
    int algos;
    int algo[BENCH_ALGOS_MAX];
    int64_t min_bytes, max_bytes; /* sizes of the whole vector M */
    int factor, iters, warmup;
    enum dtype type;
    enum dtype_op redop;
    int root;                           /* root rank of a broadcast */
    int64_t chunk_bytes, window_bytes;  /* 0: the library's choice */
    const char *topo;                   /* fabric given by -i; NULL: ports are measured */
    const char *device;                 /* holds the buffers; operand of device_open; NULL:
                                           cpu */
    const char *transport;              /* for a GPU; NULL: auto */
    const char *tuning;                 /* table that auto reads; NULL: auto simulates */
    const char *shape;                  /* groups; NULL: by host */
    const char *setting, *nccl_setting; /* configuration of MPI and NCCL, or NULL: not stated */
    enum bench_format format;
    int percentiles;  /* 1: print them as columns in text */
    const char *plot; /* SVG file to write, "-" with BENCH_SVG; or NULL */
    int force;        /* plot may replace a file */
    double floor;     /* least acceptable limit_fraction; below 0: not requested */
};

/* Sets defaults: all ops, ho-ring, ring and mpi, 32 MiB, 20 iterations after 5, sums of f32. */
void bench_options_init(struct bench_options *o);
/* Parse lists such as "all-gather,all-reduce" and "ring,mpi"; a repeated word is an error. */
int bench_parse_ops(const char *text, struct bench_options *o, struct err *err);
int bench_parse_algos(const char *text, struct bench_options *o, struct err *err);
/* Parses "f32" "bf16" "f16" "f64" "i32" "u8", or names of nccl-tests: "float", "half", ... */
int bench_parse_type(const char *text, enum dtype *type, struct err *err);
/* Parses a word of 1 to BENCH_SETTING_SPACE - 1 letters, digits, '-', '_', '.', '+', '/'. */
int bench_parse_setting(const char *text, const char **out, struct err *err);
int bench_algo_parse(const char *text, int *algo, struct err *err);
const char *bench_algo_name(int algo);

enum bench_mark { /* statistics over iterations, each of whose times is its slowest rank's */
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

struct bench_row { /* one line of output; NAN: unknown */
    unsigned op;
    int algo;
    enum schedule_algo chosen; /* choice of auto; SCHEDULE_AUTO: none */
    int64_t chosen_chunk_bytes;
    char setting[BENCH_SETTING_SPACE]; /* configuration of mpi or nccl, or "" */
    /* "Open MPI v4.1.4" (of mpi); the first rank's host; "2026-01-31T12:00:00Z"; "": unknown */
    char library[BENCH_FACT_SPACE], host[BENCH_FACT_SPACE], when[BENCH_FACT_SPACE];
    char shape[256]; /* "4x2" */
    int ranks, root; /* root -1: not a broadcast */
    enum dtype type;
    enum dtype_op redop; /* DTYPE_OPS: no reduction */
    int simulated;       /* 1: predicted times, nothing ran */
    int launches;        /* number of launches of which this is the best */
    int64_t elems, bytes;
    int64_t wrong;                          /* wrong elements; -1: not checked */
    double time_s[BENCH_MARKS];             /* in one launch */
    double ratio_p25, ratio_mid, ratio_p75; /* time relative to mpi's, paired by iteration */
    int64_t slow_bytes;                     /* -1: unknown (mpi) */
    double limit_s;                         /* cut bound; NAN: one group */
    double predicted_s;                     /* NAN: no topology, or mpi */
    double load;                            /* load average over the last minute */
};
double bench_algbw_Bps(const struct bench_row *r); /* M over the median time; 0 if there is
                                                      none */
/* algbw times (n-1)/n; all-reduce: twice that; broadcast: algbw; as in nccl-tests. */
double bench_busbw_Bps(const struct bench_row *r);
double bench_limit_fraction(const struct bench_row *r);
/* Writes "ho-ring", "auto:bruck", "mpi:han" to text [space] and returns it. */
const char *bench_label(const struct bench_row *r, char *text, int space);

/* The result on rank 0 (other ranks have no rows); released by the caller. */
struct bench_result {
    struct bench_row *row; /* [rows], owned */
    int rows;
    int64_t wrong;                 /* wrong elements on all ranks; equal on every rank */
    char below[640];               /* "", or a description of the worst row below the floor */
    char doubt[TOPO_SOURCE_BYTES]; /* the fabric's, on rank 0 */
};
void bench_result_release(struct bench_result *r);

/*
 * Collective over the world.  Rank 0 prints each row as it is ready; a row is written
 * completely or not at all.  Ends early, returning 0, if `out` cannot be written to (the caller
 * checks ferror).  Errors are equal on every rank, except for ERR_PEER.
 */
int bench_run(struct world *world, const struct bench_options *o, FILE *out,
              struct bench_result *result, struct err *err);
/*
 * Collective over the world: measures how much of the work inside groups overlaps with the work
 * across them.  Times by ho-ring the conversions that do only one of the two
 * (paro-method(7), TRAFFIC: I to N, G to I, ...), and the whole operation by each algorithm;
 * their data is checked like any other.
 */
int bench_overlap(struct world *world, const struct bench_options *o, FILE *out,
                  struct bench_result *result, struct err *err);
/*
 * Collective over the world: makes a table of the fastest choices by measurement
 * (pick_table.h), which rank 0 prints as YAML or JSON at the end; on rank 0 a line of talk for
 * each size.  Covers o's operations, sizes, type, reduction and root; with `moves` it adds
 * simulated rules for a trainer's other operations.  doubt: the fabric's, on rank 0. iters 0:
 * chosen as in bench_parts.h.  ERR_MISMATCH: wrong data.
 */
struct bench_talk {
    void (*say)(void *with, const char *line);
    void *with;
};
int bench_tune(struct world *world, const struct bench_options *o, int moves,
               const struct bench_talk *talk, char doubt[TOPO_SOURCE_BYTES], FILE *out,
               struct err *err);
/* Without a world: makes rows with the times that sim/ predicts on o->topo.  mpi is
   rejected. */
int bench_simulate(const struct bench_options *o, FILE *out, struct bench_result *result,
                   struct err *err);
/*
 * Without a world: reads rows of JSON Lines that bench_run wrote, from files or "-".  Of
 * several rows with equal operation, algorithm, setting, size, type, root and shape it keeps
 * the one with the least median, with the wrong elements and launches of all.  ERR_INPUT names
 * file and line.
 */
int bench_read(const struct bench_options *o, const char *const *file, int files, FILE *out,
               struct bench_result *result, struct err *err);

/*
 * Draws rows, in any order, as one SVG: for each operation, in order of first appearance, its
 * time and its busbw over the size, a line per algorithm (and per setting of the MPI library),
 * the cut bound dashed if rows have one; each shape and type in charts of its own.  Shape,
 * ranks, type and load average come from the rows; `title` is the heading.  Rows without a time
 * above 0 are omitted.  Errors stay with the FILE (ferror).
 */
void bench_plot(const struct bench_row *rows, int n, const char *title, FILE *out);

#endif
