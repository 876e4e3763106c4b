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
 * The groups a plan may have: the fabric as it is for groups that end at each of the boundaries
 * to be searched (topo/topo_boundary.h).  A fabric of two levels has one.
 */
enum { PLAN_BOUNDARY_AUTO = -1, PLAN_BOUNDARIES = TOPO_LEVELS_MAX - 1 };

struct plan_boundaries {
    const struct topo *whole; /* borrowed */
    int asked;                /* a boundary, or PLAN_BOUNDARY_AUTO */
    int count;                /* 1 at least */
    int level[PLAN_BOUNDARIES];
    struct topo topo[PLAN_BOUNDARIES]; /* owned */
};

/*
 * The one that is asked for, or all that differ; the inmost where none is worth a look.
 * ERR_MISMATCH for one that the fabric has not.
 */
int plan_boundaries_init(struct plan_boundaries *b, const struct topo *whole, int asked,
                         struct err *err);
void plan_boundaries_release(struct plan_boundaries *b);

/*
 * Bytes that a run writes when it saves (paro-checkpoint(5)): for each element the parameter,
 * in the type of the model's own files, and 12 bytes of optimizer state where it is trained.
 * Each block is written once, by the rank that has it when all hold one copy together, so that
 * this is the same under every strategy.  Headers and the manifest are not counted: some
 * hundred bytes for each unit of each rank.
 */
struct plan_checkpoint {
    double bytes, rank_bytes; /* of all ranks; of the rank that writes most */
    double s;                 /* 0 where no rate of storage is known */
};

/* The best of one boundary; strategies as in plan_search. */
struct plan_found {
    int best, closest;
    int micro_batch, accum, layered;
    int64_t sequences;           /* of a step */
    double step_s, tokens_per_s; /* of the best */
    double gross_s;              /* step_s with what failures cost */
    double total_bytes;          /* memory of the best, or of the closest */
};

/*
 * The best feasible one: the least step time per sample, over goodput where failures are
 * priced; ties: less memory, fewer slow bytes, the order of the list.  Among equal ones under
 * several boundaries the inmost.
 */
struct plan_search {
    struct plan_case at; /* as given; `auto` ones, and the fabric of `groups`, as found */
    /* Where groups may end, borrowed; NULL: at.topo's own, and no other. */
    const struct plan_boundaries *groups;
    int boundary;                             /* found: number in `groups` */
    struct plan_found found[PLAN_BOUNDARIES]; /* of each of `groups`; of the one without */
    int auto_batch;     /* search divisors of a rank's part of at.global_batch (the largest), or
                       powers of two to PLAN_SEARCH_MAX */
    int auto_accum;     /* with at.global_batch: it follows */
    int auto_keep;      /* search 0, powers of two, and all */
    int auto_recompute; /* search without and with it */
    int auto_layered;   /* search powers of two, and all */
    int auto_type;      /* search the types of products that the fabric has rates of */
    int fixed;          /* 1: only `strategy` */
    struct plan_strategy strategy;
    struct plan_price list[PLAN_STRATEGIES];
    int best;           /* index, or -1: nothing fits */
    int closest;        /* where nothing fits: the one that needs least */
    double storage_Bps; /* of what writes checkpoints, of each host; 0 where unknown */
    int storage_all;    /* it is that of all hosts together */
    struct plan_checkpoint checkpoint;
};

enum { PLAN_SEARCH_MAX = 64 };

/* ERR_INPUT: auto_batch without activations; global_batch below the number of ranks; too many
   bytes to be counted. */
int plan_search(struct plan_search *s, struct err *err);
/* The part of storage_Bps that a host has. */
double plan_search_storage(const struct plan_search *s);
/* Whether strategy i of the list is searched: all are, or only `strategy`. */
int plan_search_allows(const struct plan_search *s, int i);
/* Where the groups found end: a boundary, or -1 where the fabric has but one. */
int plan_search_level(const struct plan_search *s);
/* The fabric with all its levels. */
const struct topo *plan_search_whole(const struct plan_search *s);
/* The list as a table for people (by time, feasible first) or as paro.plan.list/1; advice:
   looked at where nothing fits (plan/plan_fit.h). */
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
    enum schedule_algo algo; /* of global collectives: ring, two-level or ho-ring */
    struct groups groups;    /* owned */
    int group_level;         /* where they end (topo_boundary.h); -1 where that is not told */
    char **host;             /* [groups.count], owned, "" where unknown */
    struct model model;      /* owned */
    union {                  /* as they are priced; rates_of is of `price` */
        struct plan_settings settings;
        struct {
            PLAN_SETTINGS
        };
    };
    struct plan_price price;           /* predicted */
    char doubt[TOPO_SOURCE_BYTES];     /* the fabric's (topo.h) */
    struct plan_checkpoint checkpoint; /* 0: unknown */
    char *fabric; /* owned: the topology that it was priced on, as text; NULL: unknown */
};

/* Fills p from the best of a search; *model is moved into the plan, and empty afterwards. */
void plan_init(struct plan *p, const struct plan_search *s, struct model *model);
int plan_read(struct plan *p, const char *path, struct err *err); /* "-" is stdin */
int plan_parse(struct plan *p, const char *name, const char *text, int64_t bytes,
               struct err *err);
void plan_print(const struct plan *p, FILE *out);
void plan_print_json(const struct plan *p, FILE *out); /* paro.plan/1, the same keys */
void plan_release(struct plan *p);
/* The fabric that the plan was priced on; ERR_ABSENT where that is unknown. */
int plan_fabric(const struct plan *p, struct topo *out, struct err *err);
/*
 * A step under a strategy's letters: the conversion of each lane, the shape of its rows, but
 * for shape.trains, and of its memory, but for space.unit, .units and .tied.
 */
struct plan_step {
    struct plan_lane {
        enum letter from, to;
        unsigned phases;  /* of the letters, on groups of any shape */
        unsigned trimmed; /* those that transfer anything on these groups */
        int coded;        /* its traffic between groups is coded */
    } lane[STEP_COMPUTE];
    struct step_shape shape;
    struct step_space space;
};
struct plan_step plan_step_of(const struct model *m, const struct plan_settings *s,
                              struct plan_strategy letters, const struct layout *l);
/* The plan's settings, to be priced on a fabric of its groups. */
void plan_case_of(const struct plan *p, const struct topo *topo, struct plan_case *out);
/* ERR_INPUT where a rank may have more bytes than can be counted, of its states and of the
   activations of so many sequences. */
int plan_check_bytes(const struct model *m, int64_t micro_batch, int seq, struct err *err);
/* Bytes of a rank under each of n strategies, were it run on that device: all else is the
   plan's. */
void plan_totals_on(const struct plan *p, enum device_kind device,
                    const struct plan_strategy *strategy, int n, double *bytes);
/* Bytes of its buffers that are accumulators of collectives; those of a GPU are over NCCL. */
double plan_sums_on(const struct plan *p, enum device_kind device);

#endif
