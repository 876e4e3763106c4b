/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_TRAFFIC_H
#define PLAN_PLAN_TRAFFIC_H

#include "layout/layout.h"
#include "model/model.h"
#include "plan/plan.h"
#include "topo/topo.h"

/*
 * Traffic of each leg of a collective on a fabric, counted once for all 27 strategies: which
 * rank sends how many elements to which, and how long the busiest link needs.  A strategy is
 * then a number of times each leg runs (plan_price.c).  Inside this floor only.
 *
 * A leg runs over every unit of a set.  Rails are rings over the holders of a segment; inside a
 * group a holder sends to each member directly; the flat ring takes the ranks group by group.
 */
enum plan_set {
    PLAN_ALL,     /* all elements, as often as the forward visits them */
    PLAN_AGAIN,   /* all elements, as often as the backward gathers them: not what is kept */
    PLAN_TRAINED, /* the trainable ones, once */
    PLAN_SETS
};

enum plan_leg {
    PLAN_INSIDE_REDUCE,
    PLAN_INSIDE_GATHER,
    PLAN_ACROSS_REDUCE, /* rails, pieces in the ratio of the groups: G shards */
    PLAN_ACROSS_GATHER,
    PLAN_EVEN_REDUCE, /* rails, equal pieces: the slices of an all-reduce */
    PLAN_EVEN_GATHER,
    PLAN_RING_REDUCE, /* the flat ring: inside and across in one */
    PLAN_RING_GATHER,
    PLAN_LEGS
};

enum { PLAN_TIERS = PLAN_COMPUTE }; /* PLAN_SLOW, PLAN_FAST: between groups, inside them */

/* Units of one size. */
struct plan_span {
    int64_t elems[PLAN_SETS]; /* of one unit */
    int count[PLAN_SETS];     /* visits of such units, those not kept, such units */
    /* Seconds of one leg over one unit per byte of an element, without latencies: of the
       busiest link on either tier, which take their time side by side. */
    double slope[PLAN_TIERS][PLAN_SETS][PLAN_LEGS];
};

/*
 * A rank's share of one unit, in elements, by letter: of the part that trains and of the part
 * that does not.  And of the former's pieces in its own segments that of the group before, and
 * the G shard of the rank before in the flat ring: in reductions they leave as they came.
 * carried: segments of others of its group that it adds up as carrier of its cell.
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
    int most_cells;                            /* of a group */
    double inside_s, across_s;                 /* latency of one message on either tier */
    double inside_busy_s, across_busy_s;       /* the same while all ranks compute; or 0 */
    double inside_message_s, across_message_s; /* of a processor, at either end of one */
    double inside_Bps;                         /* B': one rank's, all members sending */
    double *out_Bps, *in_Bps;                  /* [g] of a port: all rails together */
    double *flow_Bps; /* [g] of the one flow of a flat ring through a port */
    int spans;
    struct plan_span *span; /* [spans] */
    int *span_of;           /* [visits] of the forward: which span its unit belongs to */
    int visits;
    double product_flops;     /* of a token's forward, without the attention's: products with
                                   weights */
    double elems[PLAN_SETS];  /* Psi and Psi' */
    int kinds;                /* of ranks: they hold the same of each unit */
    struct plan_kind *kind;   /* [kinds] */
    struct plan_share *share; /* [kinds * spans] */
    /* Elements through each port, out and in, and sent by each rank, across and inside. */
    /* Points of gauge i: first[i] .. first[i + 1], one of those that are alike. */
    int first[PLAN_GAUGES + 1];
    double (*point)[PLAN_SETS][PLAN_LEGS]; /* sums over the units */
    double (*unit)[PLAN_LEGS];             /* the same for one unit: scratch */
    /* [n] of one vector: its shards, I and G, of the former that of the group before, and the
       segments carried for others: scratch */
    int64_t *own[PLAN_OWNS];
};

struct plan_kind {
    uint64_t hash; /* of what it holds */
    int rank;      /* one of them */
};

/* trainable, keep: as PLAN_SETTINGS; a bare number of parameters is one unit, visited once. */
void plan_traffic_init(struct plan_traffic *t, const struct topo *topo,
                       const struct model *model, int64_t trainable, int keep);
void plan_traffic_release(struct plan_traffic *t);

/* The largest reading of a gauge, in elements, when each leg runs times[set][leg] times. */
double plan_traffic_largest(const struct plan_traffic *t, enum plan_gauge gauge,
                            double times[PLAN_SETS][PLAN_LEGS]);
/* Elements of the set at rest on a rank of a kind, 0 .. kinds - 1. */
int64_t plan_traffic_shard(const struct plan_traffic *t, enum plan_set set, enum letter letter,
                           int kind);

/* plan_price_all with a tally of the case's fabric and model at hand. */
void plan_price_with(const struct plan_case *c, const struct plan_traffic *t,
                     struct plan_price out[PLAN_STRATEGIES]);
/*
 * Times and memory of the fastest that fits, of the strategies whose bit is set in `of`, and of
 * those that are as fast.  For the others, and all that take longer than limit_s, the result is
 * a lower bound that exceeds the fastest or the limit.  Without bytes, which are dear.
 */
void plan_price_fastest(const struct plan_case *c, const struct plan_traffic *t, unsigned of,
                        double limit_s, struct plan_price out[PLAN_STRATEGIES]);
void plan_price_bytes(const struct plan_case *c, const struct plan_traffic *t,
                      struct plan_price *p);
/*
 * plan_search, which has been found to have a measure, with a tally for each boundary and each
 * number of uses kept that it tries.
 */
enum { PLAN_KEEPS = 24 }; /* 0, 1, 2, 4, ... and all of PLAN_KEEP_ALL */
struct plan_traffic *plan_search_traffic(const struct plan_search *s); /* [boundaries][keeps] */
/* The same without the checkpoint. */
void plan_search_choose(struct plan_search *s, const struct plan_traffic *t);
void plan_search_drop(const struct plan_search *s, struct plan_traffic *t);
/* Elements of a unit on the rank that has most of it. */
double plan_shard_of(const struct plan_traffic *t, enum letter letter, double elems);
/* Bytes of the network: of what it reads where it is at rest, [1]: where it is gathered; and
   what kernels have of a GPU's memory. */
struct plan_network {
    int64_t activations[2], kern;
};
struct plan_network plan_network_of(const struct plan_case *c);
/* Memory, and whether it fits. */
struct plan_cost;
void plan_footprint(const struct plan_cost *b, const struct plan_network *net,
                    struct plan_price *p);
/* The checkpoint of the case in s->at.  Its time is that of the host with most ranks. */
struct plan_checkpoint plan_checkpoint(const struct plan_search *s,
                                       const struct plan_traffic *t);
/* The keys of a price, in the object that is open: one list for the plan and the listing. */
struct jout;
void plan_put_price(struct jout *j, const struct plan_price *p);
/* The key "failures" of a price; nothing where failures are not priced. */
void plan_put_survival(struct jout *j, const struct plan_price *p);
/* "micro_batch", "accum", "keep", "recompute". */
void plan_put_batch(struct jout *j, const struct plan_case *at);
void plan_put_checkpoint(struct jout *j, const struct plan_checkpoint *c);
/* The name of a strategy by its place in the list, null for -1. */
void plan_put_strategy(struct jout *j, const char *key, int index);
/* "group_level", nothing where the fabric has one boundary. */
void plan_put_level(struct jout *j, int level);
/* "doubt", "memory_limit_bytes", the level, "boundaries": of each its best or the smallest. */
void plan_put_limits(struct jout *j, const struct plan_search *s);
/* Whether it fits for sure: the limit is known, and the activations are. */
int plan_known_to_fit(const struct plan_case *c, const struct plan_price *p);
/* null where no memory is known that it could fit into. */
void plan_put_feasible(struct jout *j, const struct plan_case *c, const struct plan_price *p);
/* Hosts of a fabric: groups of the same host are together on it, one without a host's name has
   a host of its own; and the ranks on the one that has most. */
struct plan_hosts {
    int count, most;
};
struct plan_hosts plan_hosts_of(const struct topo *t);
/*
 * Bytes that a save writes on the rank that writes most, its G shard.  frozen: its frozen part,
 * in f32, as local saves have it in memory.
 */
struct plan_saved {
    double params, optimizer, frozen;
};
struct plan_saved plan_saved_of(const struct plan_case *c, const struct plan_traffic *t);
/* step_s, with a step's part of what saves and failures cost where they are priced. */
double plan_price_gross_s(const struct plan_price *p);
/* a < b by more than the rounding of sums. */
int plan_price_less(double a, double b);
/* Is a to be chosen before b (struct plan_search)?  Of those that fit. */
int plan_price_better(const struct plan_price *a, const struct plan_price *b);
/* Times that differ by less are equal as far as predictions go: where plans were run, every
   fourth was off by 5 % and more, and the best three were within 3 % (FIGURES.md). */
#define PLAN_TIE 0.01
/* The fastest of those that fit and are searched, or -1; chosen is one of those near it. */
int plan_fastest(const struct plan_search *s);
enum { PLAN_PREFERRED = 160 };
/* One line where the chosen one is not the fastest, or "". */
const char *plan_preferred(const struct plan_search *s, char text[PLAN_PREFERRED]);
/* The state that takes the most, and its bytes. */
const char *plan_memory_heaviest(const struct plan_memory *m, double *bytes);
/* Step time per sample of one rank: what compares batches of different sizes. */
double plan_sample_s(const struct plan_found *f);
/* Is `now` ahead of `kept`?  Where nothing fits, what needs least is. */
int plan_found_ahead(const struct plan_found *now, const struct plan_found *kept);
/* How a table of the 27 begins, and the order of its rows: feasible first, by time. */
void plan_list_title(const struct plan_search *s, FILE *out);
void plan_list_order(const struct plan_price list[PLAN_STRATEGIES],
                     const struct plan_price *order[PLAN_STRATEGIES]);

#endif
