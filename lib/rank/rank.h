/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_RANK_H
#define RANK_RANK_H

#include <stdio.h>

#include "base/err.h"
#include "rank/rank_read.h"

/*
 * Predicts which run will end best, from its log so far: runs are read, scored at one budget,
 * and put in order; a lower score is better.
 */
enum { RANK_RUNS_MAX = 4096 };

struct rank_options {
    const char *const *log; /* [logs], borrowed */
    int logs;
    struct rank_score how;
    int64_t per_epoch;
    int64_t epochs;  /* the budget T; 0: not given */
    double fraction; /* or of what all runs have, above 0 to 1; 0: not given */
    double noise;    /* the standard deviation of a score from seed to seed */
    const char *regex, *finals, *plot; /* NULL: none */
    int64_t stop_below;                /* the first run is out if its rank is beyond; 0: no */
    double stop_share;                 /* the same as a share of the runs; 0: no */
    int force, json;
};

struct rank_place { /* of a run */
    const struct rank_run *run;
    double score, loss; /* of its budget, and of the last epoch in it */
    int64_t epochs;     /* of its budget; 0: not in the race */
    int best, worst;    /* its rank is one of these, from 1 on; 0: not in the race */
};

struct rank_tau { /* how well scores of a budget foretold what came in the end */
    int64_t epochs;
    double spearman, kendall; /* NAN: all scores, or all ends, are alike */
};

struct rank_result {
    const struct rank_options *o;
    struct rank_run *run;     /* [o->logs], as given */
    struct rank_place *place; /* [o->logs], the best first */
    int ranked;               /* of these, those in the race: the first */
    int64_t epochs;           /* the budget; where runs were forced, the least of theirs */
    int forced;               /* budgets differ */
    int share;                /* with o->stop_*: as many may go on */
    int stop;                 /* the first run is out of the race */
    struct rank_tau *tau;     /* [taus] of o->finals */
    int taus;
};

/* Reads, ranks, prints and draws; *stop as above. */
int rank_report(const struct rank_options *o, FILE *out, int *stop, struct err *err);

/* rank_order.c: result->run is there; ERR_MISMATCH where runs cannot be compared. */
int rank_order(struct rank_result *r, struct err *err);

/* Names in order, and where they stood; owned by the caller (mem_free). */
struct rank_name {
    const char *name; /* borrowed */
    int at;
};
struct rank_name *rank_names_new(const char *const *name, int n);
/* Where `name` stood; -1: nowhere. */
int rank_names_find(const struct rank_name *names, int n, const char *name);

/* rank_finals.c: what the runs came to, in the order of the logs; value is [o->logs]. */
int rank_finals_read(const struct rank_options *o, double *value, struct err *err);
/* Fills result->tau. */
void rank_finals_hold(struct rank_result *r, const double *value);
/*
 * Correlations of ranks, ties having the mean of their ranks (Spearman's rho), or in neither
 * order (Kendall's tau-b).  x and y have no NAN.  NAN where one of them is all alike.
 */
double rank_spearman(const double *x, const double *y, int n);
double rank_kendall(const double *x, const double *y, int n);

void rank_print(const struct rank_result *r, FILE *out);
void rank_print_json(const struct rank_result *r, FILE *out);
void rank_plot(const struct rank_result *r, FILE *out);

#endif
