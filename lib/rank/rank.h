/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_RANK_H
#define RANK_RANK_H

#include <stdio.h>

#include "base/err.h"
#include "rank/rank_read.h"

/*
 * Predicts which run will end best, from its log so far: reads runs, scores them at one budget,
 * and sorts them; a lower score is better.
 */
enum { RANK_RUNS_MAX = 4096 };

struct rank_options {
    const char *const *log; /* [logs], borrowed */
    int logs;
    struct rank_score how;
    int64_t per_epoch;
    int64_t epochs;  /* the budget T; 0: not given */
    double fraction; /* or a fraction of the epochs that all runs have, above 0 to 1; 0: not
                        given */
    double noise;    /* standard deviation of a score from seed to seed */
    const char *regex, *finals, *plot; /* NULL: none */
    int64_t stop_below;                /* stop the first run if its rank is beyond this; 0:
                                          no */
    double stop_share;                 /* the same as a share of the runs; 0: no */
    int force, json;
};

struct rank_place { /* a run's place in the ranking */
    const struct rank_run *run;
    double score, loss; /* at its budget; of the budget's last epoch */
    int64_t epochs;     /* its budget; 0: not compared */
    int best, worst;    /* range of its possible ranks, from 1; 0: not compared */
};

struct rank_tau { /* how well scores at a budget predicted the final order */
    int64_t epochs;
    double spearman, kendall; /* NAN: all scores, or all finals, are equal */
};

struct rank_result {
    const struct rank_options *o;
    struct rank_run *run;     /* [o->logs], as given */
    struct rank_place *place; /* [o->logs], the best first */
    int ranked;               /* number of compared runs, which come first */
    int64_t epochs;           /* the budget; if runs were forced, the least one */
    int forced;               /* budgets differ */
    int share;                /* with o->stop_*: number of runs that may continue */
    int stop;                 /* 1: the first run should stop */
    struct rank_tau *tau;     /* [taus] for o->finals */
    int taus;
};

/* Reads, ranks, prints and draws; *stop as above. */
int rank_report(const struct rank_options *o, FILE *out, int *stop, struct err *err);

/* rank_order.c: ranks result->run; ERR_MISMATCH if runs cannot be compared. */
int rank_order(struct rank_result *r, struct err *err);

/* Names in order, with their original positions; owned by the caller (mem_free). */
struct rank_name {
    const char *name; /* borrowed */
    int at;
};
struct rank_name *rank_names_new(const char *const *name, int n);
/* Returns the original position of `name`; -1: not found. */
int rank_names_find(const struct rank_name *names, int n, const char *name);

/* rank_finals.c: reads the runs' final values into value [o->logs], in the order of the
   logs. */
int rank_finals_read(const struct rank_options *o, double *value, struct err *err);
/* Fills result->tau. */
void rank_finals_hold(struct rank_result *r, const double *value);
/*
 * Rank correlations: ties have the mean of their ranks (Spearman's rho), or count as neither
 * order (Kendall's tau-b).  x and y have no NAN.  Return NAN if all values of one are equal.
 */
double rank_spearman(const double *x, const double *y, int n);
double rank_kendall(const double *x, const double *y, int n);

void rank_print(const struct rank_result *r, FILE *out);
void rank_print_json(const struct rank_result *r, FILE *out);
void rank_plot(const struct rank_result *r, FILE *out);

#endif
