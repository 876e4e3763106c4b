/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_PARTS_H
#define BENCH_BENCH_PARTS_H

/* Inside bench/: what its files share. */
#include "bench/bench.h"
#include "coll/coll.h"
#include "topo/topo.h"

struct bench {           /* one call of bench_run */
    struct world *world; /* borrowed, as are o and file */
    const struct bench_options *o;
    FILE *file;
    struct topo topo; /* rank 0's; levels 0: none was given */
    struct groups groups;
    char shape[256]; /* of the groups */
    struct coll coll;
    struct stream *stream;
    double *port_Bps; /* [groups]; rank 0's */
    char *in, *out;   /* whole vectors, shared by the algorithms */
    char *native_in;  /* one rank's block of MPI's all-gather */
    int64_t wrong;
};

/*
 * The data of a run: small whole numbers, exact in every type and in every order of summing.
 * Element x is code[h(x)] (gather), or on rank r code[(h(x) + r) mod values] (sum), h a hash.
 */
struct bench_data {
    enum dtype type;
    int ranks, rank, sum;
    int values;         /* how many different ones */
    uint64_t mine[256]; /* bits of this rank's element, by hash */
    uint64_t want[256]; /* bits of the result, by hash */
};
void bench_data_init(struct bench_data *d, int sum, enum dtype type, int rank, int ranks);
/* Elements [lo, hi) of the vector into p. */
void bench_data_fill(const struct bench_data *d, void *p, int64_t lo, int64_t hi);
/* How many of the elements [lo, hi) at p are not the result. */
int64_t bench_data_wrong(const struct bench_data *d, const void *p, int64_t lo, int64_t hi);

/*
 * The rate of each group's port, by all members of a group sending to the next group, in a ring
 * over the groups, all at the same time: port_Bps[groups].  Rank 0 and the others get the same.
 */
enum { BENCH_PORT_ROOM = 4 << 20 }; /* bytes of in and of out that it wants */
int bench_port_measure(struct coll *c, void *in, void *out, double *port_Bps, struct err *err);

/* Predicted by the closed forms of paro.md section 5. */
double bench_model_s(const struct topo *t, const struct coll_handle *h, int subchunks);

void bench_print_head(const struct bench *b);
void bench_print_row(const struct bench *b, const struct bench_row *r);

/* One operation at one size by every algorithm asked for; rank 0 prints a row for each. */
int bench_case(struct bench *b, unsigned op, int64_t elems, struct err *err);

#endif
