/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdint.h>
#include <stdio.h>

#include "base/groups.h"
#include "plan/plan_price.h"
#include "step/step_place.h"
#include "topo/topo_boundary.h"

/*
 * Candidates for the groups of a plan: the fabric regrouped so that groups end at each boundary
 * to be searched (topo/topo_boundary.h).  A fabric of two levels has one.
 */
enum { PLAN_BOUNDARY_AUTO = -1, PLAN_BOUNDARIES = TOPO_LEVELS_MAX - 1 };

struct plan_boundaries {
    const struct topo *whole; /* borrowed */
    int requested;            /* a boundary, or PLAN_BOUNDARY_AUTO */
    int count;                /* 1 at least */
    int level[PLAN_BOUNDARIES];
    struct topo topo[PLAN_BOUNDARIES]; /* owned */
};

/*
 * Lists the requested boundary, or all boundaries that differ (if none is worth searching, the
 * inmost).  ERR_MISMATCH if the fabric lacks the requested one.
 */
int plan_boundaries_init(struct plan_boundaries *b, const struct topo *whole, int requested,
                         struct err *err);
void plan_boundaries_release(struct plan_boundaries *b);

/*
 * Bytes that a run writes when it saves (paro-checkpoint(5)): for each element the parameter,
 * in the type of the model's own files, and 12 bytes of optimizer state if it is trained.  Each
 * block is written once, by the rank whose G shard it is, so the number is the same under every
 * strategy.  Headers and the manifest, some hundred bytes for each unit of each rank, are not
 * counted.
 */
struct plan_checkpoint {
    double bytes, rank_bytes; /* all ranks; the rank that writes most */
    double s;                 /* seconds; 0: storage rate unknown */
};

/* Best result of one boundary; strategies are indices as in plan_search. */
struct plan_found {
    int best, closest;
    int micro_batch, accum, layered;
    int64_t sequences;           /* per step */
    double step_s, tokens_per_s; /* the best strategy's */
    double gross_s;              /* step_s including the cost of failures */
    double total_bytes;          /* memory of the best strategy, or of the closest */
};

/*
 * A search for the best feasible strategy: the one with the least step time per sample, divided
 * by goodput if failures are priced.  Ties: less memory, then fewer slow bytes, then the order
 * of the list.  Between equal ones of several boundaries the inmost wins.
 */
struct plan_search {
    struct plan_case at; /* input; `auto` settings and the topo of `groups` become the ones
                            found */
    /* Candidate boundaries, borrowed; NULL: at.topo's groups only. */
    const struct plan_boundaries *groups;
    int boundary;                             /* result: index in `groups` */
    struct plan_found found[PLAN_BOUNDARIES]; /* by index in `groups`; [0] if that is NULL */
    int auto_batch;     /* search divisors of a rank's largest share of at.global_batch, or
                           powers of two up to PLAN_SEARCH_MAX */
    int auto_accum;     /* with at.global_batch: derive accum from it */
    int auto_keep;      /* search 0, powers of two, and PLAN_KEEP_ALL */
    int auto_recompute; /* search both values */
    int auto_layered;   /* search powers of two and all */
    int auto_type;      /* search the compute types that the fabric has rates for */
    int fixed;          /* 1: search `strategy` only */
    struct plan_strategy strategy;
    struct plan_price list[PLAN_STRATEGIES];
    int best;           /* index in list; -1: nothing fits */
    int closest;        /* the strategy that needs least memory, for when nothing fits */
    double storage_Bps; /* rate of writing checkpoints, per host; 0: unknown */
    int storage_all;    /* 1: storage_Bps is the rate of all hosts together */
    struct plan_checkpoint checkpoint;
};

enum { PLAN_SEARCH_MAX = 64 };

/* Runs the search.  ERR_INPUT: auto_batch for a model without activations; global_batch below
   the number of ranks; byte counts of 2^62 or more. */
int plan_search(struct plan_search *s, struct err *err);
/* Returns a host's part of storage_Bps. */
double plan_search_storage(const struct plan_search *s);
/* Returns whether strategy i of the list is searched: `strategy` only, if fixed. */
int plan_search_allows(const struct plan_search *s, int i);
/* Returns the boundary found, or -1 if the fabric has only one. */
int plan_search_level(const struct plan_search *s);
/* Returns the fabric with all its levels. */
const struct topo *plan_search_whole(const struct plan_search *s);
/* Prints the list as a table for people (by time, feasible first) or as paro.plan.list/1.
   advice: used if nothing fits (plan/plan_fit.h). */
void plan_search_print(const struct plan_search *s, FILE *out);
struct plan_advice;
void plan_search_print_json(const struct plan_search *s, const struct plan_advice *advice,
                            FILE *out);

/*
 * A plan: everything paro-shard and paro-train need to know (paro-plan(5)).  It carries the
 * model's config and the fabric's shape, so that no other file is needed.
 */
struct plan {
    struct plan_strategy strategy;
    enum schedule_algo algo; /* for global collectives: ring, two-level or ho-ring */
    struct groups groups;    /* owned */
    int group_level;         /* boundary where they end (topo_boundary.h); -1: unknown */
    char **host;             /* [groups.count], owned, "" where unknown */
    struct model model;      /* owned */
    union {                  /* as priced; rates_of belongs to `price` */
        struct plan_settings settings;
        struct {
            PLAN_SETTINGS
        };
    };
    struct plan_price price;           /* predicted */
    char doubt[TOPO_SOURCE_BYTES];     /* doubts about the fabric's figures (topo.h) */
    struct plan_checkpoint checkpoint; /* 0: unknown */
    int *own_counts;                   /* owned: `counts`, or NULL */
    char *fabric; /* owned: text of the topology it was priced on; NULL: unknown */
};

/* Fills p from the best of a search.  Moves *model into the plan and leaves it empty. */
void plan_init(struct plan *p, const struct plan_search *s, struct model *model);
int plan_read(struct plan *p, const char *path, struct err *err); /* "-" is stdin */
int plan_parse(struct plan *p, const char *name, const char *text, int64_t bytes,
               struct err *err);
void plan_print(const struct plan *p, FILE *out);
void plan_print_json(const struct plan *p, FILE *out); /* paro.plan/1, with the keys of the
                                                          YAML */
void plan_release(struct plan *p);
/* Copies out the fabric that the plan was priced on; ERR_ABSENT if that is unknown. */
int plan_fabric(const struct plan *p, struct topo *out, struct err *err);
/*
 * A step under a strategy: the conversion of each lane; the shape of its rows, without
 * shape.trains; the sizes for its memory, without space.unit, .units and .tied.
 */
struct plan_step {
    struct plan_lane {
        enum letter from, to;
        unsigned phases;     /* phases that convert from -> to, for groups of any shape */
        unsigned trimmed;    /* without phases that transfer nothing on these groups */
        enum dtype type;     /* of what it sends */
        enum exec_code code; /* of that between groups */
    } lane[STEP_COMPUTE];
    struct step_shape shape;
    struct step_space space;
};
struct plan_step plan_step_of(const struct model *m, const struct plan_settings *s,
                              struct plan_strategy letters, const struct layout *l);
/* Makes a case of the plan's settings for a fabric with the plan's groups; borrows both. */
void plan_case_of(const struct plan *p, const struct topo *topo, struct plan_case *out);
/* ERR_INPUT if a rank's states plus the activations of a micro-batch may take 2^62 bytes or
   more. */
int plan_check_bytes(const struct model *m, int64_t micro_batch, int seq, struct err *err);
/* Writes to bytes[n] the memory of a rank under each of n strategies on `device`; everything
   else is as in the plan. */
void plan_totals_on(const struct plan *p, enum device_kind device,
                    const struct plan_strategy *strategy, int n, double *bytes);
/* Returns the bytes of a rank's buffers that are accumulators of collectives (on a GPU: with
   NCCL). */
double plan_sums_on(const struct plan *p, enum device_kind device);

#endif
