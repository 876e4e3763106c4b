/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_PARTS_H
#define BENCH_BENCH_PARTS_H

/* Inside bench/: what its files share. */
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

struct bench_sink { /* where rows go, on rank 0 alone */
    const struct bench_options *o;
    FILE *file;
    struct bench_result *result; /* borrowed, filled */
    struct io_out plot;          /* path NULL: none */
    size_t space;
    int headed; /* CSV of --overlap: its header is out */
};
/* ERR_* when the plot cannot be made, before anything is measured. */
int bench_sink_open(struct bench_sink *s, const struct bench_options *o, FILE *file,
                    struct bench_result *result, struct err *err);
void bench_sink_row(struct bench_sink *s, const struct bench_row *r); /* prints and keeps */
/* rc of what came before: the plot is written, and the floor judged, only when it is 0. */
int bench_sink_close(struct bench_sink *s, int rc, struct err *err);

struct bench {           /* one call of bench_run */
    struct world *world; /* borrowed, as is o */
    const struct bench_options *o;
    struct bench_sink sink;
    struct topo topo; /* rank 0's; levels 0: none was given */
    struct groups groups;
    char shape[256];         /* of the groups */
    int levels, *block;      /* of the topology, on every rank; block owned */
    struct pick_table table; /* the table of auto; rules 0: not used */
    struct coll coll;
    struct stream *stream;
    struct topo ports; /* where no topology was given: those that were measured */
    char *in, *out;    /* whole vectors, shared by the algorithms */
    char *native_in;   /* one rank's block of MPI's all-gather */
    /* With a GPU in and out are its memory; data is made and checked on the host. */
    struct device *device; /* owned; NULL: the processor */
    struct device_queue *queue;
    enum coll_transport transport;
    char *host_in, *host_out; /* else the same as in and out */
    int64_t wrong;
    struct bench_tune *tune; /* borrowed, or NULL */
};

/*
 * The data of a run: small whole numbers, exact in every type and in every order of reducing.
 * Element x is code[h(x)] (gather), or from giver i code_i[h(x)] (reduction), h a hash.
 */
struct bench_data {
    enum dtype type;
    int values;         /* how many different ones */
    uint64_t mine[256]; /* bits of this giver's element, by hash */
    uint64_t want[256]; /* bits of the result, by hash */
};
/* giver of givers: who adds what.  redop DTYPE_OPS: nothing is reduced, all give the same. */
void bench_data_init(struct bench_data *d, enum dtype_op redop, enum dtype type, int giver,
                     int givers);
/* Elements [lo, hi) of the vector into p. */
void bench_data_fill(const struct bench_data *d, void *p, int64_t lo, int64_t hi);
/* How many of the elements [lo, hi) at p are not the result. */
int64_t bench_data_wrong(const struct bench_data *d, const void *p, int64_t lo, int64_t hi);

/* bench_device.c: where the buffers are. */
/* Collective: o->device and o->transport, and which algorithms go with them. */
int bench_device_open(struct bench *b, struct err *err);
/* Once b->coll is open: in and out, of the GPU where there is one. */
int bench_device_buffers(struct bench *b, int64_t space, struct err *err);
void bench_device_close(struct bench *b); /* before the coll is closed */
/* The GPU has what the host has made, and the other way round; nothing on the processor. */
int bench_device_copy(struct bench *b, void *to, const void *from, int64_t bytes,
                      struct err *err);

/* The operation that is run: a whole one, or a part of one, with data that is known
   beforehand. */
struct bench_move_spec {
    int algo;
    unsigned op, phases; /* the operation, and of it what is moved */
    enum letter from, to;
    enum dtype_op redop; /* DTYPE_OPS: nothing is reduced */
    int giver, givers;   /* this rank among those that give to one element */
    int64_t elems, chunk_bytes;
};
struct bench_move {
    struct bench_move_spec spec;
    struct coll_handle ours;
    struct exec_native *native; /* both NULL: ours */
    struct exec_nccl_native *nccl;
    struct bench_data data;
    char *in;                   /* borrowed */
    struct range *gives, *gets; /* of the vector, owned */
    int give, get;              /* how many */
    int64_t wrong;              /* so far, on this rank */
};
/* Collective, as coll_prepare. */
int bench_move_open(struct bench *b, const struct bench_move_spec *spec, struct bench_move *m,
                    struct err *err);
void bench_move_close(struct bench_move *m, int in_order); /* in_order 0: after ERR_PEER */
int bench_move_run(struct bench *b, struct bench_move *m, struct err *err);
/* Fills `in`, runs into memory that holds nothing of an earlier run, counts m->wrong. */
int bench_move_check(struct bench *b, struct bench_move *m, struct err *err);

/*
 * A contestant in a case: one move, or two that are timed as one.  The moves are opened by the
 * caller; a contest that is all zero is closed for nothing.
 */
struct bench_contest {
    struct bench_move move[2];
    int moves;
    double *seconds; /* [iters], owned: of the slowest rank in each iteration */
    int64_t wrong;   /* of all ranks */
};
/* Which contest runs at place `at` of an iteration; warm-ups have numbers below 0. */
int bench_round(int iteration, int at, int contests);
/* Collective: all contests checked, timed in turns, checked; seconds and wrong on every rank.
 */
int bench_rounds(struct bench *b, struct bench_contest *c, int contests, struct err *err);
/* A contest of one move, a whole vector.  Collective, as coll_prepare. */
int bench_contest_open(struct bench *b, unsigned op, int algo, int64_t elems,
                       int64_t chunk_bytes, struct bench_contest *c, struct err *err);
extern const struct bench_row bench_unknown_row;
/* A row of a whole vector on groups with these ports: no times yet, and its cut bound. */
struct bench_row bench_row_of(const struct bench_options *o, const struct topo *t, unsigned op,
                              int algo, int64_t elems);
void bench_contest_close(struct bench_contest *c, int in_order);
void bench_marks(double *seconds, int n, double *marks); /* [BENCH_MARKS]; sorts */

/*
 * The rate of each group's port, by all members of a group sending to the next group, in a ring
 * over the groups, all at the same time: t->port, alike both ways, 0 of one group, and t->doubt
 * where others had the processors.  The same on all ranks; before the coll is opened.
 */
int bench_port_measure(struct world *world, struct topo *t, struct err *err);
/* Seconds of one of `laps` laps of so many bytes into a rank. */
double bench_port_lap_s(const struct probe_result *got, double bytes, int laps);

/*
 * c->algo and c->chunk_bytes given (auto: chosen here): c->time_s by the simulator, of
 * operation op from root 0.
 */
int bench_predict(const struct topo *t, unsigned op, int64_t bytes, struct pick_choice *c,
                  struct err *err);
/* Returns the chunk size that a coll_spec's chunk_bytes means, at most the vector's. */
int64_t bench_chunk_bytes(int64_t chunk_bytes, int64_t bytes);

/* bench_read.c: rows of JSON Lines. */
struct bench_rows {
    struct bench_row *row; /* [rows], owned: mem_free; also after an error */
    size_t space;          /* rows that fit */
    int rows;
};
/* A file's lines, added to those that are there; `file` is its name, or "-". */
int bench_read_lines(const char *file, const char *text, struct bench_rows *all,
                     struct err *err);
/* The rows of files, "-" being standard input; one at least. */
int bench_read_files(const char *const *file, int files, struct bench_rows *all,
                     struct err *err);
/* Checks a row's text about where it was measured: printable, without '"', ',' or '\\'. */
int bench_check_fact(const char *text, struct err *err);

/* Lines that begin with '#', in text alone: the columns and their units. */
void bench_print_columns(const struct bench_options *o, FILE *out);
void bench_print_ports(const char *from, const struct topo *t, FILE *out);
/* first: the header of CSV goes before it. */
void bench_print_row(const struct bench_options *o, const struct bench_row *r, int first,
                     FILE *out);

/* A row as programs read it, with the rates that its times give. */
struct bench_line {
    struct bench_row row;
    double algbw_Bps, busbw_Bps, limit_fraction;
};
extern const struct record bench_line_record[];
const char *bench_redop_name(enum dtype_op op); /* DTYPE_OPS: "none" */
/* JSON or CSV; in CSV `first` puts the names of the columns before it. */
void bench_put_line(enum bench_format format, const struct record *f, const void *line,
                    int first, FILE *out);

/* The size after one: past max_bytes at the end; after 0 comes one element. */
int64_t bench_next_bytes(const struct bench_options *o, int64_t bytes);

/* One operation at one size by every algorithm asked for; rank 0 prints a row for each. */
int bench_case(struct bench *b, unsigned op, int64_t elems, struct err *err);
/* The same with the parts beside the whole. */
int bench_overlap_case(struct bench *b, unsigned op, int64_t elems, struct err *err);
void bench_overlap_head(FILE *out);

/* bench_tune.c: how a choice is made from measured times, and what becomes of the choices. */

/*
 * Rounds of a contest, of which one takes round_s, all turns together: as many as 2 s hold,
 * from 5 to 200.  Five are the fewest that distinguish anything (bench_tune_choose), and the
 * first five measure round_s; two hundred distinguish one that is slower in 6 of 10.
 */
enum { BENCH_TUNE_LEAST = 5, BENCH_TUNE_MOST = 200 };
int bench_tune_rounds(double round_s);

struct bench_entry { /* of a contest */
    struct pick_choice choice;
    double predicted_s;    /* weighed, pick_weigh */
    const double *seconds; /* [rounds], borrowed */
    double median_s;       /* set by bench_tune_choose */
};
/*
 * Chunks of 60 to 512 KiB are within 2 % when measured (paro-method(7), HO-RING): less than
 * that does not outlast the launch.
 */
#define BENCH_TUNE_SAME 0.02
/*
 * Which entry is taken: that with the least predicted time among the fastest and those that do
 * not differ from it; ties go to what stands first.  The fastest is that with the least median.
 * Another one differs from it if its median is more than BENCH_TUNE_SAME above, and it was no
 * slower in so few of the rounds that a fair coin falls so seldom, once in 32 times (five of
 * five) or less: the sign test, which is independent of the distribution of times.
 */
int bench_tune_choose(struct bench_entry *e, int entries, int rounds);
/* The least median of another algorithm than that of entry `won`; -1: there is none. */
int bench_tune_second(const struct bench_entry *e, int entries, int won);

/*
 * "all-gather of 1 MiB: ring 2 ms, ho-ring 1.9 ms (0.95x, within noise)": the choice, and the
 * runner-up, which is faster only where the two do not differ.
 */
void bench_tune_describe(const struct pick_answer *a, FILE *out);

struct bench_tune {         /* one call of bench_tune */
    struct bench_options o; /* with the iterations of the size that is measured */
    int iters;              /* asked for; 0: bench_tune_rounds */
    int moves;              /* with rules for a trainer's moves */
    struct bench_talk talk;
    struct pick_answer *answer; /* rank 0's, owned */
    size_t space;
    int answers;
};
/* One operation at one size: rank 0 keeps the answer. */
int bench_tune_case(struct bench *b, unsigned op, int64_t elems, struct err *err);
/* On rank 0: the table, printed. */
int bench_tune_print(struct bench *b, struct err *err);

#endif
