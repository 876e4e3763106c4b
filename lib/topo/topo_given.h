/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_GIVEN_H
#define TOPO_TOPO_GIVEN_H

#include "topo/topo.h"

/* Figures of a fabric that the user gives as text, such as
   "inter=25GB/s/rank:12us,memory=80e9". */
struct topo_given_level {
    int has_rate, has_latency; /* whether the figure was given */
    int per_rank;              /* RATE/rank: every rank has a port of its own of this rate */
    double rate_Bps, latency_s;
};

enum { TOPO_GIVEN_OWN = 64 };

struct topo_given {
    struct topo_given_level level[TOPO_LEVELS_MAX];
    double nvlink_Bps, nic_Bps; /* rate of one link, for files that count links; 0: not given */
    int64_t memory_bytes;       /* 0: not given */
    double flops, flops_in[2];  /* in compute_type; in f32 and bf16 by name */
    double own_flops[TOPO_GIVEN_OWN]; /* of the ranks of a group; 0: not given */
    double ring_loss;                 /* for all levels between groups; 0: not given */
    int cabling;                      /* 1: switch, 2: ring; 0: not given */
    int has_device, has_type;
    enum topo_device device;
    enum dtype compute_type;
};

/*
 * Parses one word NAME=VALUE (the text is modified) for a fabric of `levels` levels.  NAME is
 * intra, inter, level2, ..., ring_loss, memory, flops, flopsK (of the ranks of group K),
 * flops_f32, flops_bf16, device, cabling or compute_type, and with `links` also nvlink or nic.
 * Each may be given once.
 */
int topo_given_word(struct topo_given *g, int levels, int links, char *word, struct err *err);
/* Parses the argument of --set: words separated by commas, for a fabric that is not known
   yet. */
int topo_given_parse(struct topo_given *g, const char *words, struct err *err);
/* Cuts the next word off a list at a comma outside brackets; NULL at the end. */
char *topo_given_next(char **at);

/* Replaces the figures of level l by those given: the level's rates, and at level 1 all
   ports. */
void topo_given_level(struct topo *t, int l, const struct topo_given_level *g);
/*
 * topo_given_apply replaces all figures of a fabric by those given; with `fill` only figures
 * that the fabric does not state (a rate of 0, a latency below 0).  ERR_INPUT, without `fill`,
 * for a level that the fabric does not have.  topo_given_rank applies only the figures that
 * belong to no single level: memory, flops, device, type and ring_loss.
 */
int topo_given_rank(struct topo *t, const struct topo_given *g, int fill, struct err *err);
int topo_given_apply(struct topo *t, const struct topo_given *g, int fill, struct err *err);

/* The unit with the largest port at level l: a rank, a group or a block. */
struct topo_unit {
    int ranks;
    double port_Bps; /* sum of the rates of its groups' ports; 0 below level 2 */
};
struct topo_unit topo_largest_unit(const struct topo *t, int l);

#endif
