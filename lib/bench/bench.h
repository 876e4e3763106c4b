/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdint.h>
#include <stdio.h>

#include "base/dtype.h"
#include "base/err.h"
#include "world/world.h"

/*
 * Times collectives beside each other and beside the cut bound of paro.md section 5.  Several
 * algorithms take turns within each iteration, so that a neighbour's load falls on all alike.
 * Data is checked on every size, before and after the timed runs.
 */
enum bench_algo { BENCH_RING, BENCH_TWO_LEVEL, BENCH_HO_RING, BENCH_MPI };

enum { BENCH_OPS_MAX = 3, BENCH_ALGOS_MAX = 4 };

struct bench_options {
    int ops;
    unsigned op[BENCH_OPS_MAX]; /* SCHEDULE_ALL_GATHER, ... */
    int algos;
    enum bench_algo algo[BENCH_ALGOS_MAX];
    int64_t min_bytes, max_bytes; /* of the whole vector M */
    int factor, iters, warmup;
    enum dtype type;
    int64_t chunk_bytes, window_bytes; /* 0: the library's own choice */
    const char *topo;                  /* what -i says, or NULL: ports are measured */
    const char *shape;                 /* groups, or NULL: by host */
    int json;
};

/* Defaults: all ops, ho-ring, ring and mpi, 32 MiB, 20 iterations after 5, f32. */
void bench_options_init(struct bench_options *o);
/* Lists such as "all-gather,all-reduce" and "ring,mpi": no word twice. */
int bench_parse_ops(struct bench_options *o, const char *text, struct err *err);
int bench_parse_algos(struct bench_options *o, const char *text, struct err *err);
/* "f32" "bf16" "f16" "f64" "i32", or in the words of nccl-tests: "float", "half", ... */
int bench_parse_type(struct bench_options *o, const char *text, struct err *err);
const char *bench_algo_name(enum bench_algo algo);

struct bench_row { /* one line of output */
    unsigned op;
    enum bench_algo algo;
    const char *shape; /* "4x2" */
    int ranks;
    enum dtype type;
    int64_t elems, bytes, wrong;
    double min_s, median_s, max_s; /* over the iterations, of the slowest rank in each */
    int64_t slow_bytes;            /* -1: not known (mpi) */
    double limit_s;                /* cut bound; NAN with one group */
    double predicted_s;            /* NAN without a topology, or for mpi */
    double load;                   /* load average over the last minute */
};
double bench_algbw_Bps(const struct bench_row *r);
double bench_busbw_Bps(const struct bench_row *r); /* algbw (n-1)/n; all-reduce: twice */

/*
 * Collective over the world.  Rank 0 prints, row by row; a row is written whole or not at all.
 * Ends early, with 0, when `out` cannot be written to (the caller finds ferror).  *wrong:
 * elements that were wrong on any rank.  Errors are the same on every rank, but for ERR_PEER.
 */
int bench_run(struct world *world, const struct bench_options *o, FILE *out, int64_t *wrong,
              struct err *err);

#endif
