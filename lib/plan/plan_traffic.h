/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_TRAFFIC_H
#define PLAN_PLAN_TRAFFIC_H

#include "layout/layout.h"
#include "model/model.h"
#include "plan/plan.h"
#include "topo/topo.h"

/*
 * Traffic of each leg of a collective on a fabric, counted once for all 27 strategies: how many
 * elements each rank sends to each other, and how long the busiest link needs.  For a strategy
 * each leg runs a number of times (plan_price.c).  Internal to this floor.
 *
 * A leg runs over every unit of a set.  Rails are rings over the holders of a segment; inside a
 * group a holder sends to each member directly; the flat ring visits the ranks group by group.
 */
enum plan_set {
    PLAN_ALL,     /* all elements, at each visit of the forward */
    PLAN_AGAIN,   /* all elements, at each gather of the backward: not of kept units */
    PLAN_TRAINED, /* the trainable elements, once */
    PLAN_SETS
};

enum plan_leg {
    PLAN_INSIDE_REDUCE,
    PLAN_INSIDE_GATHER,
    PLAN_ACROSS_REDUCE, /* rails, pieces in the ratio of the groups: G shards */
    PLAN_ACROSS_GATHER,
    PLAN_EVEN_REDUCE, /* rails, equal pieces: the slices of an all-reduce */
    PLAN_EVEN_GATHER,
    PLAN_RING_REDUCE, /* flat ring: inside and across in one */
    PLAN_RING_GATHER,
    PLAN_LEGS
};

enum { PLAN_TIERS = PLAN_COMPUTE }; /* PLAN_SLOW, PLAN_FAST: between groups, inside them */

/* Units of one size. */
struct plan_span {
    int64_t elems[PLAN_SETS]; /* elements of one unit */
    int count[PLAN_SETS];     /* visits of such units; backward gathers; units */
    /* Seconds of one leg over one unit per byte of an element, without latencies, on the
       busiest link of each tier.  Both tiers work at the same time. */
    double slope[PLAN_TIERS][PLAN_SETS][PLAN_LEGS];
};

/*
 * A rank's share of one unit, in elements.  By letter: its trained part and its frozen part.
 * group_before, rank_before: of the trained part, the previous group's pieces in the rank's
 * segments, and the G shard of the previous rank of the flat ring; reductions send these
 * unchanged.  carried: segments of other ranks of its group that it adds up as carrier of its
 * cell.
 */
struct plan_share {
    int64_t trained[3], frozen[3], group_before, rank_before, carried;
};

enum { PLAN_OWNS = 4 };
enum plan_gauge { PLAN_PORT_OUT, PLAN_PORT_IN, PLAN_RANK_SLOW, PLAN_RANK_FAST, PLAN_GAUGES };

struct plan_traffic {
    struct layout layout;                      /* owned */
    const struct topo *topo;                   /* borrowed */
    int largest_group, least_group;            /* members */
    int most_cells;                            /* cells of the group with most */
    double inside_s, across_s;                 /* latency of one message on each tier */
    double inside_busy_s, across_busy_s;       /* that latency while all ranks compute; 0:
                                                  unknown */
    double inside_message_s, across_message_s; /* processor time of one message, at either
                                                  end */
    double inside_Bps;                         /* B': one rank's rate, all members sending */
    double *out_Bps, *in_Bps;                  /* [g] rate of a port: all rails together */
    double *flow_Bps; /* [g] rate of a flat ring's single flow through a port */
    int spans;
    struct plan_span *span; /* [spans] */
    int *span_of;           /* [visits] span of the unit of a forward visit */
    int visits;
    double product_flops;     /* products with weights in a token's forward, without
                                 attention's */
    double elems[PLAN_SETS];  /* Psi and Psi' */
    int kinds;                /* number of kinds of ranks; equal ones hold equal shares of each
                                 unit */
    struct plan_kind *kind;   /* [kinds] */
    struct plan_share *share; /* [kinds * spans] */
    /* Gauges: elements through each port, out and in, and sent by each rank, across and
       inside. */
    /* Points of gauge i are first[i] .. first[i + 1] - 1; equal ones are kept once. */
    int first[PLAN_GAUGES + 1];
    double (*point)[PLAN_SETS][PLAN_LEGS]; /* sums over the units */
    double (*unit)[PLAN_LEGS];             /* as point, for one unit: scratch */
    /* [n] shards of one vector: I; G; the previous group's part of the I shard; segments
       carried for others: scratch. */
    int64_t *own[PLAN_OWNS];
};

struct plan_kind {
    uint64_t hash; /* hash of its shares */
    int rank;      /* one rank of this kind */
};

/* Counts the traffic, given the settings' trainable, keep and moments.  A bare number of
   parameters is one unit, visited once. */
void plan_traffic_init(struct plan_traffic *t, const struct topo *topo,
                       const struct model *model, const struct plan_settings *s);
void plan_traffic_release(struct plan_traffic *t);

/* Returns the largest reading of a gauge, in elements, if each leg runs times[set][leg]
   times. */
double plan_traffic_largest(const struct plan_traffic *t, enum plan_gauge gauge,
                            double times[PLAN_SETS][PLAN_LEGS]);
/* Returns the elements of the set stored by a rank of a kind, 0 .. kinds - 1. */
int64_t plan_traffic_shard(const struct plan_traffic *t, enum plan_set set, enum letter letter,
                           int kind);

/* plan_price_all, given the traffic of the case's fabric and model. */
void plan_price_with(const struct plan_case *c, const struct plan_traffic *t,
                     struct plan_price out[PLAN_STRATEGIES]);
/*
 * Prices those strategies whose bit is set in `of`, without byte counts, which are expensive.
 * Exact are times and memory of the fastest that fits and of those equal to it.  For the
 * others, and for all that take longer than limit_s, the result is a lower bound that exceeds
 * the fastest or the limit.
 */
void plan_price_fastest(const struct plan_case *c, const struct plan_traffic *t, unsigned of,
                        double limit_s, struct plan_price out[PLAN_STRATEGIES]);
void plan_price_bytes(const struct plan_case *c, const struct plan_traffic *t,
                      struct plan_price *p);
/*
 * plan_search in parts: plan_search_traffic counts the traffic of each boundary and each value
 * of keep to be tried; plan_search_choose searches with it, and computes no checkpoint.
 */
enum { PLAN_KEEPS = 24 }; /* 0, 1, 2, 4, ... and PLAN_KEEP_ALL */
struct plan_traffic *plan_search_traffic(const struct plan_search *s); /* [boundaries][keeps] */
void plan_search_choose(struct plan_search *s, const struct plan_traffic *t);
void plan_search_drop(const struct plan_search *s, struct plan_traffic *t);
/* Returns the elements of a unit on the rank with most of it. */
double plan_shard_of(const struct plan_traffic *t, enum letter letter, double elems);
/* Bytes of the network's activations, reading parameters at rest, or gathered ones: [1]; and
   GPU memory of the kernels. */
struct plan_network {
    int64_t activations[2], kern;
};
struct plan_network plan_network_of(const struct plan_case *c);
/* Computes memory, and whether it fits. */
struct plan_cost;
void plan_footprint(const struct plan_cost *b, const struct plan_network *net,
                    struct plan_price *p);
/* Computes the checkpoint of the case in s->at.  Its time is that of the host with most
   ranks. */
struct plan_checkpoint plan_checkpoint(const struct plan_search *s,
                                       const struct plan_traffic *t);
/* Prints the keys of a price into the open object: one list for the plan and the listing. */
struct jout;
void plan_put_price(struct jout *j, const struct plan_price *p);
/* Prints the key "failures" of a price; nothing if failures are not priced. */
void plan_put_survival(struct jout *j, const struct plan_price *p);
/* Prints "micro_batch", "accum", "keep", "recompute". */
void plan_put_batch(struct jout *j, const struct plan_case *at);
void plan_put_checkpoint(struct jout *j, const struct plan_checkpoint *c);
/* Prints the name of a strategy by its index, null for -1. */
void plan_put_strategy(struct jout *j, const char *key, int index);
/* Prints "group_level"; nothing if the fabric has one boundary. */
void plan_put_level(struct jout *j, int level);
/* Prints "doubt", "memory_limit_bytes", the level, and "boundaries", each with its best or its
   smallest. */
void plan_put_limits(struct jout *j, const struct plan_search *s);
/* Returns whether it certainly fits: limit and activations are known. */
int plan_known_to_fit(const struct plan_case *c, const struct plan_price *p);
/* Prints null if the memory limit is unknown. */
void plan_put_feasible(struct jout *j, const struct plan_case *c, const struct plan_price *p);
/* Hosts of a fabric, and the ranks on the host with most.  Groups with equal host names share a
   host; a group without a name has its own. */
struct plan_hosts {
    int count, most;
};
struct plan_hosts plan_hosts_of(const struct topo *t);
/*
 * Bytes that a save writes on the rank that writes most, its G shard.  frozen: its frozen part
 * in f32, as local saves hold it in memory.
 */
struct plan_saved {
    double params, optimizer, frozen;
};
struct plan_saved plan_saved_of(const struct plan_case *c, const struct plan_traffic *t);
/* Returns step_s plus the step's part of the cost of saves and failures, if priced. */
double plan_price_gross_s(const struct plan_price *p);
/* Returns tokens/s, counting only steps that are not lost. */
double plan_useful_rate(const struct plan_price *p);
/* Returns whether a < b by more than the rounding of sums. */
int plan_price_less(double a, double b);
/* Returns whether a is preferred to b (struct plan_search); both fit. */
int plan_price_better(const struct plan_price *a, const struct plan_price *b);
/* Times that differ by less than this are equal within the accuracy of predictions: of the
   plans that were run every fourth was off by 5 % or more, and the best three were within 3 %
   (FIGURES.md). */
#define PLAN_TIE 0.01
/* Returns the fastest strategy of those searched that fit, or -1; the chosen one is it or close
   to it. */
int plan_fastest(const struct plan_search *s);
enum { PLAN_PREFERRED = 160 };
/* Writes one line if the chosen strategy is not the fastest, otherwise "". */
const char *plan_preferred(const struct plan_search *s, char text[PLAN_PREFERRED]);
/* Returns the state that uses most memory, and its bytes. */
const char *plan_memory_heaviest(const struct plan_memory *m, double *bytes);
/* Returns step time per sample of one rank, which compares batches of different sizes. */
double plan_sample_s(const struct plan_found *f);
/* Returns whether `now` is ahead of `kept`; if nothing fits, the one that needs least is. */
int plan_found_ahead(const struct plan_found *now, const struct plan_found *kept);
/* Title and row order of a table of the 27: feasible first, by time. */
void plan_list_title(const struct plan_search *s, FILE *out);
void plan_list_order(const struct plan_price list[PLAN_STRATEGIES],
                     const struct plan_price *order[PLAN_STRATEGIES]);

#endif
