/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_PARTS_H
#define BENCH_BENCH_PARTS_H

/* Inside bench/: what its files share. */
#include "base/io.h"
#include "bench/bench.h"
#include "coll/coll.h"
#include "exec/exec_mpi_native.h"
#include "exec/exec_nccl_native.h"
#include "pick/pick_table.h"
#include "sim/sim.h"
#include "topo/topo.h"

struct bench_sink { /* where rows go, on rank 0 alone */
    const struct bench_options *o;
    FILE *file;
    struct bench_result *result; /* borrowed, filled */
    struct io_out plot;          /* path NULL: none */
    size_t room;
    int headed; /* CSV: its header is out */
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
    struct pick_table table; /* what auto takes; rules 0: not asked for */
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
int bench_device_buffers(struct bench *b, int64_t room, struct err *err);
void bench_device_close(struct bench *b); /* before the coll is closed */
/* The GPU has what the host has made, and the other way round; nothing on the processor. */
int bench_device_copy(struct bench *b, void *to, const void *from, int64_t bytes,
                      struct err *err);

/* What is moved: a whole operation, or a part of one, with data that is known beforehand. */
struct bench_move_spec {
    int algo;
    unsigned op;               /* what a native one is called by */
    struct layout_moves moves; /* as in struct coll_spec */
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
void bench_move_whole(const struct bench *b, unsigned op, int algo, int64_t elems,
                      struct bench_move_spec *out);
/* Collective, as coll_prepare. */
int bench_move_open(struct bench *b, const struct bench_move_spec *spec, struct bench_move *m,
                    struct err *err);
void bench_move_close(struct bench_move *m, int in_order); /* in_order 0: after ERR_PEER */
int bench_move_run(struct bench *b, struct bench_move *m, struct err *err);
/* Fills `in`, runs into memory that holds nothing of an earlier run, counts m->wrong. */
int bench_move_check(struct bench *b, struct bench_move *m, struct err *err);

/*
 * What takes part in a case: one move, or two that are timed as one.  The moves are opened by
 * the caller; a contest that is all zero is closed for nothing.
 */
struct bench_contest {
    struct bench_move move[2];
    int moves;
    double *seconds; /* [iters], owned: of the slowest rank in each iteration */
    int64_t wrong;   /* of all ranks */
};
/* Collective: all contests checked, timed in turns, checked; seconds and wrong on every rank.
 */
int bench_turns(struct bench *b, struct bench_contest *c, int contests, struct err *err);
/* A row of a whole vector on groups with these ports: no times yet, and its cut bound. */
struct bench_row bench_row_of(const struct bench_options *o, const struct topo *t, unsigned op,
                              int algo, int64_t elems);
void bench_contest_close(struct bench_contest *c, int in_order);
void bench_marks(double *seconds, int n, double *marks); /* [BENCH_MARKS]; sorts */

/*
 * The rate of each group's port, by all members of a group sending to the next group, in a ring
 * over the groups, all at the same time: port[groups], alike both ways.  The same on all ranks.
 */
enum { BENCH_PORT_ROOM = 4 << 20 }; /* bytes of in and of out that it wants */
int bench_port_measure(struct coll *c, void *in, void *out, struct topo_port *port,
                       struct err *err);

/*
 * c->algo and c->chunk_bytes given (auto: chosen here): c->time_s by the simulator, of
 * operation op from root 0.
 */
int bench_predict(const struct topo *t, unsigned op, int64_t bytes, struct pick_choice *c,
                  struct err *err);
/* What a coll_spec's chunk_bytes means, no longer than the vector. */
int64_t bench_chunk_bytes(int64_t chunk_bytes, int64_t bytes);

const char *bench_mark_name(int mark); /* "min", "p10", ... */
/* Lines that begin with '#', in text alone: the columns and their units. */
void bench_print_columns(const struct bench_options *o, FILE *out);
void bench_print_ports(const char *from, const struct topo *t, FILE *out);
void bench_print_csv_head(FILE *out);
void bench_print_row(const struct bench_options *o, const struct bench_row *r, FILE *out);

/* The size after one: past max_bytes at the end; after 0 comes one element. */
int64_t bench_next_bytes(const struct bench_options *o, int64_t bytes);

/* One operation at one size by every algorithm asked for; rank 0 prints a row for each. */
int bench_case(struct bench *b, unsigned op, int64_t elems, struct err *err);
/* The same with the parts beside the whole. */
int bench_overlap_case(struct bench *b, unsigned op, int64_t elems, struct err *err);
void bench_overlap_head(const struct bench *b);

#endif
