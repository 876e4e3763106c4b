/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_PARTS_H
#define BENCH_BENCH_PARTS_H

/* Internal to bench/: shared by its files. */
#include "base/io.h"
#include "value/value_record.h"
#include "bench/bench.h"
#include "coll/coll.h"
#include "exec/exec_mpi_native.h"
#include "exec/exec_nccl_native.h"
#include "pick/pick_table.h"
#include "probe/probe.h"
#include "sim/sim.h"
#include "topo/topo.h"

struct bench_sink { /* destination of rows, on rank 0 only */
    const struct bench_options *o;
    FILE *file;
    struct bench_result *result; /* borrowed, filled */
    struct io_out plot;          /* path NULL: none */
    size_t space;
    int headed; /* 1: the CSV header of --overlap has been printed */
};
/* Opens the sink; fails before any measurement if the plot cannot be written. */
int bench_sink_open(struct bench_sink *s, const struct bench_options *o, FILE *file,
                    struct bench_result *result, struct err *err);
/* prints and keeps a row */
void bench_sink_row(struct bench_sink *s, const struct bench_row *r);
/* Writes the plot and checks the floor, if rc is 0; returns rc of the preceding work. */
int bench_sink_close(struct bench_sink *s, int rc, struct err *err);

struct bench {           /* one call of bench_run */
    struct world *world; /* borrowed, as is o */
    const struct bench_options *o;
    struct bench_sink sink;
    struct topo topo; /* rank 0's; levels 0: not given */
    struct groups groups;
    char shape[256];         /* sizes of the groups, as text */
    int levels, *block;      /* the topology's, on every rank; block owned */
    struct pick_table table; /* for auto; rules 0: not used */
    struct coll coll;
    struct stream *stream;
    struct topo ports; /* without a topology: the measured ports */
    char *in, *out;    /* whole vectors, shared by the algorithms */
    char *native_in;   /* one rank's block of MPI's all-gather */
    /* With a GPU in and out are GPU memory; data is made and checked on the host. */
    struct device *device; /* owned; NULL: the CPU */
    struct device_queue *queue;
    enum coll_transport transport;
    char *host_in, *host_out; /* without a GPU equal to in and out */
    int64_t wrong;
    struct bench_tune *tune; /* borrowed, or NULL */
};

/*
 * Data of a run: small integers, exact in every type and in any order of reduction.  Element x
 * is code[h(x)] (gather), or from contributor i code_i[h(x)] (reduction), h a hash.
 */
struct bench_data {
    enum dtype type;
    int values;         /* number of different values */
    uint64_t mine[256]; /* bits of this rank's element, by hash */
    uint64_t want[256]; /* bits of the result, by hash */
};
/* giver: this rank's index among the givers, who contribute to one element.  redop DTYPE_OPS:
   no reduction, all have equal data. */
void bench_data_init(struct bench_data *d, enum dtype_op redop, enum dtype type, int giver,
                     int givers);
/* Writes elements [lo, hi) of the vector to p. */
void bench_data_fill(const struct bench_data *d, void *p, int64_t lo, int64_t hi);
/* Returns how many of the elements [lo, hi) at p differ from the result. */
int64_t bench_data_wrong(const struct bench_data *d, const void *p, int64_t lo, int64_t hi);

/* bench_device.c: location of the buffers. */
/* Collective: opens o->device and o->transport, and checks the algorithms that they support. */
int bench_device_open(struct bench *b, struct err *err);
/* Allocates in and out, on the GPU if there is one; b->coll must be open. */
int bench_device_buffers(struct bench *b, int64_t space, struct err *err);
void bench_device_close(struct bench *b); /* before the coll is closed */
/* Copies between host and GPU, either way; does nothing on the CPU. */
int bench_device_copy(struct bench *b, void *to, const void *from, int64_t bytes,
                      struct err *err);

/* An operation to run: a whole one, or a part of one, with data known in advance. */
struct bench_move_spec {
    int algo;
    unsigned op, phases; /* the operation, and its phases to run */
    enum letter from, to;
    enum dtype_op redop; /* DTYPE_OPS: no reduction */
    int giver, givers;   /* this rank's index, and number of the contributors to one element */
    int64_t elems, chunk_bytes;
};
struct bench_move {
    struct bench_move_spec spec;
    struct coll_handle ours;
    struct exec_native *native; /* this and the next NULL: paro's own */
    struct exec_nccl_native *nccl;
    struct bench_data data;
    char *in;                   /* borrowed */
    struct range *gives, *gets; /* ranges of the vector, owned */
    int give, get;              /* their numbers */
    int64_t wrong;              /* wrong elements so far, on this rank */
};
/* Collective, like coll_prepare. */
int bench_move_open(struct bench *b, const struct bench_move_spec *spec, struct bench_move *m,
                    struct err *err);
void bench_move_close(struct bench_move *m, int in_order); /* in_order 0: after ERR_PEER */
int bench_move_run(struct bench *b, struct bench_move *m, struct err *err);
/* Fills `in`, runs into memory without data of an earlier run, and adds to m->wrong. */
int bench_move_check(struct bench *b, struct bench_move *m, struct err *err);

/*
 * A contestant in a case: one move, or two that are timed as one.  The caller opens the moves;
 * closing a contest that is all zero does nothing.
 */
struct bench_contest {
    struct bench_move move[2];
    int moves;
    double *seconds; /* [iters], owned: the slowest rank's time in each iteration */
    int64_t wrong;   /* sum over all ranks */
};
/* Returns the contest at position `at` of an iteration; warm-ups have negative numbers. */
int bench_round(int iteration, int at, int contests);
/* Collective: checks all contests, times them alternately, and checks again; sets seconds and
   wrong on every rank. */
int bench_rounds(struct bench *b, struct bench_contest *c, int contests, struct err *err);
/* Opens a contest of one move, a whole vector.  Collective, like coll_prepare. */
int bench_contest_open(struct bench *b, unsigned op, int algo, int64_t elems,
                       int64_t chunk_bytes, struct bench_contest *c, struct err *err);
extern const struct bench_row bench_unknown_row;
/* Returns a row for a whole vector on groups with these ports: no times yet, and its cut
   bound. */
struct bench_row bench_row_of(const struct bench_options *o, const struct topo *t, unsigned op,
                              int algo, int64_t elems);
void bench_contest_close(struct bench_contest *c, int in_order);
void bench_marks(double *seconds, int n, double *marks); /* computes [BENCH_MARKS]; sorts
                                                            seconds */

/*
 * Measures the rate of each group's port: all members of a group send to the next group, in a
 * ring over the groups, all at once.  Sets t->port, equal in both directions, 0 for one group,
 * and t->doubt if other processes had the processors.  Equal on all ranks; call it before the
 * coll is opened.
 */
int bench_port_measure(struct world *world, struct topo *t, struct err *err);
/* Returns the seconds of one of `laps` laps of `bytes` into a rank. */
double bench_port_lap_s(const struct probe_result *got, double bytes, int laps);

/*
 * Simulates operation op from root 0 with c->algo and c->chunk_bytes (auto: chosen here); sets
 * c->time_s.
 */
int bench_predict(const struct topo *t, unsigned op, int64_t bytes, struct pick_choice *c,
                  struct err *err);
/* Returns the chunk size that a coll_spec's chunk_bytes denotes, at most the vector's. */
int64_t bench_chunk_bytes(int64_t chunk_bytes, int64_t bytes);

/* bench_read.c: rows of JSON Lines. */
struct bench_rows {
    struct bench_row *row; /* [rows], owned: mem_free, after an error too */
    size_t space;          /* allocated rows */
    int rows;
};
/* Appends a file's lines; `file` is its name, or "-". */
int bench_read_lines(const char *file, const char *text, struct bench_rows *all,
                     struct err *err);
/* Reads the rows of files, "-" being standard input; one at least. */
int bench_read_files(const char *const *file, int files, struct bench_rows *all,
                     struct err *err);
/* Checks the text of a row's host, library or time: printable, without '"', ',' or '\\'. */
int bench_check_fact(const char *text, struct err *err);

/* Print lines that begin with '#', only for text: the columns with their units; the ports. */
void bench_print_columns(const struct bench_options *o, FILE *out);
void bench_print_ports(const char *from, const struct topo *t, FILE *out);
/* first: print the CSV header before it. */
void bench_print_row(const struct bench_options *o, const struct bench_row *r, int first,
                     FILE *out);

/* A row as programs read it, with rates computed from its times. */
struct bench_line {
    struct bench_row row;
    double algbw_Bps, busbw_Bps, limit_fraction;
};
extern const struct record bench_line_record[];
const char *bench_redop_name(enum dtype_op op); /* DTYPE_OPS: "none" */
/* Prints JSON or CSV; with `first` CSV begins with the names of the columns. */
void bench_put_line(enum bench_format format, const struct record *f, const void *line,
                    int first, FILE *out);

/* Returns the size after `bytes`: past max_bytes at the end; after 0 one element. */
int64_t bench_next_bytes(const struct bench_options *o, int64_t bytes);

/* Measures one operation at one size by every requested algorithm; rank 0 prints a row each. */
int bench_case(struct bench *b, unsigned op, int64_t elems, struct err *err);
/* The same for the parts and the whole. */
int bench_overlap_case(struct bench *b, unsigned op, int64_t elems, struct err *err);
void bench_overlap_head(FILE *out);

/* bench_tune.c: choices from measured times, and the table of choices. */

/*
 * Returns the number of rounds of a contest, one of which takes round_s for all contestants: as
 * many as fit 2 s, from 5 to 200.  Five are the fewest that can distinguish anything
 * (bench_tune_choose), and the first five measure round_s; two hundred distinguish a contestant
 * that is slower in 6 of 10.
 */
enum { BENCH_TUNE_LEAST = 5, BENCH_TUNE_MOST = 200 };
int bench_tune_rounds(double round_s);

struct bench_entry { /* one contestant */
    struct pick_choice choice;
    double predicted_s;    /* weighted by pick_weigh */
    const double *seconds; /* [rounds], borrowed */
    double median_s;       /* set by bench_tune_choose */
};
/*
 * Chunks of 60 to 512 KiB are within 2 % when measured (paro-method(7), HO-RING): a smaller
 * difference does not outlast the launch.
 */
#define BENCH_TUNE_SAME 0.02
/*
 * Chooses an entry: the one with the least predicted time among the fastest and those not
 * distinguishable from it; ties go to the first.  The fastest has the least median.  Another
 * one is distinguishable if its median is more than BENCH_TUNE_SAME above, and it was no slower
 * in so few of the rounds that a fair coin does that once in 32 times or less (five of five):
 * the sign test, which is independent of the distribution of times.
 */
int bench_tune_choose(struct bench_entry *e, int entries, int rounds);
/* Returns the entry with the least median among other algorithms than that of `won`; -1:
   none. */
int bench_tune_second(const struct bench_entry *e, int entries, int won);

/*
 * Prints "all-gather of 1 MiB: ring 2 ms, ho-ring 1.9 ms (0.95x, within noise)": the choice,
 * and the runner-up, which is faster only if the two are not distinguishable.
 */
void bench_tune_describe(const struct pick_answer *a, FILE *out);

struct bench_tune {         /* one call of bench_tune */
    struct bench_options o; /* with the iterations of the current size */
    int iters;              /* as requested; 0: bench_tune_rounds */
    int moves;              /* 1: add rules for a trainer's moves */
    struct bench_talk talk;
    struct pick_answer *answer; /* rank 0's, owned */
    size_t space;
    int answers;
};
/* Measures one operation at one size: rank 0 keeps the answer. */
int bench_tune_case(struct bench *b, unsigned op, int64_t elems, struct err *err);
/* Prints the table on rank 0. */
int bench_tune_print(struct bench *b, struct err *err);

#endif
