/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_ANALYSIS_H
#define HEALTH_HEALTH_ANALYSIS_H

#include "health/health_ends.h"
#include "health/health_verdict.h"

/*
 * Inside health/: which ports and pairs are slow, or may be, by the rates of streams.  A
 * verdict names them (health_judge.c), a plan measures what is missing (health_plan.c).
 */
struct health_pair { /* one direction between two hosts, both of which are well */
    int src, dst;
    int n, low;         /* samples, and those that are low */
    int rounds, again;  /* of the rounds, of the confirmation */
    int need;           /* samples that accuse when all are low; those there are with them */
    double residual, z; /* percent of what the slower of its ends can do */
    double percent;     /* of what is expected, as a port's */
    int slow, suspect;
};

struct health_analysis {
    const struct health_data *d;
    const struct health_rules *rules;
    double (*want)[2]; /* [hosts] rate of a port, on the commonest path */
    double rate[HEALTH_PATHS];
    double (*spread)[2];    /* [hosts] of a sample, percent */
    double shift;           /* of a baseline: all ports are at this percent of it; else 100 */
    double stale;           /* so, and so far above it that it is of no use: what is expected is
                               what the ports reach now; else 0 */
    unsigned char *excused; /* [hosts] health_excused */
    struct health_ends ends; /* of d->samples, percent of what is expected */
    double low_share;        /* how often chance makes a sample low, an upper bound */
    int pairs;               /* that have low samples */
    struct health_pair *pair;
};

/* ERR_INPUT: too few hosts to compare; ERR_MISMATCH: the baseline is of another fabric. */
int health_analyse(struct health_analysis *l, const struct health_data *d,
                   const struct health_rules *rules, struct err *err);
void health_analysis_release(struct health_analysis *l);

/*
 * Of the samples: the rate on paths of each class, the median over ports of their own medians;
 * 0 where there are none.  Returns the commonest class.  `skip` [samples]: those that do not
 * count (a class all of whose samples are skipped keeps its rate), or NULL.
 */
int health_path_rates(const struct health_data *d, const unsigned char *skip,
                      double rate[HEALTH_PATHS]);

/*
 * Hosts whose link was down, or that fell silent: rates with them are no evidence against the
 * others.  Owned by the caller (mem_free), [hosts]; nobody is where there are but two.
 */
unsigned char *health_excused(const struct health_data *d);
/* What else is in the data (health_facts.c): links, silence, wrong words, time. */
void health_judge_facts(const struct health_data *d, const struct health_rules *rules,
                        struct health_verdict *v);
/* Ranks and those of their host; latencies; all hosts at once (health_other.c). */
void health_judge_ranks(const struct health_data *d, const struct health_rules *rules,
                        struct health_verdict *v);
void health_judge_latency(const struct health_data *d, const struct health_rules *rules,
                          struct health_verdict *v);
/* All at once are slow when they are so as often in a row. */
enum { HEALTH_COLLECTIVE_RUNS = 4 };
void health_judge_collective(const struct health_data *d, const struct health_rules *rules,
                             struct health_verdict *v);
/*
 * Hosts first .. first + count - 1 are to run a collective next: all of them, then the halves
 * of what was slow; 0: no more.  A function of the data alone.
 */
int health_bisect(const struct health_data *d, const struct health_rules *rules, int *first,
                  int *count);

#endif
