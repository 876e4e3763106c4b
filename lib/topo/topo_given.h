/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_GIVEN_H
#define TOPO_TOPO_GIVEN_H

#include "topo/topo.h"

/* The figures of a fabric given by words as "inter=25GB/s/rank:12us,memory=80e9". */
struct topo_given_level {
    int has_rate, has_latency; /* given or not */
    int per_rank;              /* every rank has a port of its own of that rate */
    double rate_Bps, latency_s;
};

struct topo_given {
    struct topo_given_level level[TOPO_LEVELS_MAX];
    double nvlink_Bps, nic_Bps; /* of one link, where a file counts them; 0: not given */
    int64_t memory_bytes;       /* 0: not given */
    double flops, flops_in[2];  /* of compute_type; of f32 and bf16 by name */
    double ring_loss;           /* of the levels between groups; 0: not given */
    int has_device, has_type;
    enum topo_device device;
    enum dtype compute_type;
};

/*
 * One word NAME=VALUE (the text is cut), of a fabric of so many levels: intra, inter, level2,
 * ..., ring_loss, memory, flops, flops_f32, flops_bf16, device, compute_type, and with `links`
 * also nvlink and nic.  Each may be given once.
 */
int topo_given_word(struct topo_given *g, int levels, int links, char *word, struct err *err);
/* Words with commas between them, of a fabric that is not known yet: what --set takes. */
int topo_given_parse(struct topo_given *g, const char *words, struct err *err);
/* The next word of a list, cut at a comma outside brackets; NULL behind the last. */
char *topo_given_next(char **at);

/* Replaces the figures of level l by those given: the level's rates, at level 1 all ports. */
void topo_given_level(struct topo *t, int l, const struct topo_given_level *g);
/*
 * The same for all of a fabric; with `fill` only where it states nothing (a rate of 0, a
 * latency below 0).  ERR_INPUT, without `fill`, for a level that it has not.  ..._rank: only
 * what is said of each rank.
 */
int topo_given_rank(struct topo *t, const struct topo_given *g, int fill, struct err *err);
int topo_given_apply(struct topo *t, const struct topo_given *g, int fill, struct err *err);

/* The unit behind the largest port of level l: a rank, a group, a block. */
struct topo_unit {
    int ranks;
    double port_Bps; /* rate of the ports of its groups together; 0 below level 2 */
};
struct topo_unit topo_largest_unit(const struct topo *t, int l);

#endif
