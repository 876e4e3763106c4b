/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_ANALYSIS_H
#define HEALTH_HEALTH_ANALYSIS_H

#include "health/health_verdict.h"

/* ---- ends of streams (health_ends.c) ---- */

/*
 * Internal to health/: finds the ends of streams that are slow.  A stream is as fast as the
 * slower of its two ends.  An end is a port's direction, a rank's, or (with one way only) a
 * host with its latency.  Values are percent of the stream's expectation; low is bad.
 */
struct health_end {
    int n; /* samples that count: those shared with slow ends do not */
    double median;
    double sigma; /* standard error of the median, percent */
    double own;   /* deviation of one sample */
    double z;     /* distance of the median from 100, in standard errors */
    double best;  /* value seen by the best quarter of its partners */
    int partners, saw;
    int again; /* number of samples in the confirmation, and their median */
    double again_median;
    int slow, confirmed;
    int suspect; /* 1: not slow, but may turn out slow */
    int denied;  /* 1: slow, except that the confirmation contradicts */
    const char
        *pardon; /* static: why it is not slow although outside the range; NULL: inside */
};

struct health_ends {
    /* Set by the caller. */
    int ends, ways;
    int few;                      /* 1: few ends; each counts with its best partners */
    const double (*spread)[2];    /* [ends] minimal deviation of a sample, percent; NULL: 0 */
    const unsigned char *excused; /* [ends] 1: samples with it are no evidence against others;
                                     borrowed, NULL: none */
    int (*alerts)(const void *rules, double percent);
    const void *rules;
    /* Samples, added by health_ends_add; owned. */
    int samples;
    size_t sample_space;
    struct health_ends_sample {
        int end[2]; /* source, destination */
        double value;
        int again; /* 1: from the confirmation */
    } * sample;
    /* Results. */
    double pooled; /* deviation of one sample, over all ends */
    double z;      /* z from which an end is accused */
    int least;     /* samples from which an end is accused */
    struct health_end (*end)[2];
    /* Internal. */
    int *first[2]; /* [ends + 1] start of the end's entries in place */
    int *place[2]; /* indices of samples, by end */
    struct health_exchanges *met;
    double *space; /* [samples] scratch */
    double peers[2];
};

enum {
    HEALTH_AGAIN = 12,      /* samples of a confirmation */
    HEALTH_AGAIN_LEAST = 6, /* with fewer it neither confirms nor contradicts */
};
/* Percent: minimal difference of one healthy port from run to run (measured). */
#define HEALTH_SIGMA_LEAST 0.5

/* Adds a sample.  With one way only it counts for both ends. */
void health_ends_add(struct health_ends *e, int src, int dst, double value, int again);
/* Judges all ends: fills end and the other results. */
void health_ends_judge(struct health_ends *e);
void health_ends_release(struct health_ends *e);
/* Builds the index that the three functions below need. */
void health_ends_index(struct health_ends *e);
/*
 * Returns the median of an end's samples that count, or, with few ends, the upper quartile over
 * its partners of the median with each.  Sets *n to their number; 0: returns NaN.
 */
double health_ends_level(struct health_ends *e, int k, int way, int *n);
/* Returns the median (p 50), or a lower percentile, of the levels of all ends; 0 if there are
   none. */
double health_ends_percentile(struct health_ends *e, double p);
/* Returns the robust deviation of one sample of an end from its median, or, with enough samples
   per pair, from the median with each partner. */
double health_ends_deviation(struct health_ends *e, int k, int way);

/* ---- statistics ---- */

/* Share of runs on a healthy fabric that may accuse anybody of one kind of fault. */
#define HEALTH_ALARMS 1e-4

/* Returns the z that a standard normal value exceeds with probability q, 0 < q <= 0.5. */
double health_normal_z(double q);
/*
 * As above for a standard deviation that is itself estimated from `freedom` independent
 * residuals (Student's t by its expansion of Cornish and Fisher, first term).
 */
double health_student_z(double q, double freedom);
/* Returns the probability of k or more successes among n, each with probability p. */
double health_binomial_above(int n, int k, double p);

/*
 * Returns the z that accuses: HEALTH_ALARMS over `tests` simultaneous tests (Bonferroni), if
 * the deviation is a MAD of `residuals` values, which is worth 37 % of them (its efficiency).
 */
double health_accusing_z(double tests, double residuals);

/*
 * Returns the standard error of a median of n values of deviation sigma: sqrt(pi / 2) sigma /
 * sqrt(n).
 */
double health_median_error(double sigma, int n);

/*
 * Returns `own`, a MAD of n values, or `pooled`, which is known much better, if chance explains
 * the difference: a MAD of n normal values has a relative error of 1.17 / sqrt(n), of which
 * three are allowed.
 */
double health_deviation(double own, int n, double pooled);

/* ---- ports and pairs (health_analysis.c) ---- */

/*
 * Internal to health/: finds ports and pairs that are slow, or may be, by the rates of streams.
 * A verdict names them (health_judge.c), a plan measures the missing samples (health_plan.c).
 */
struct health_pair { /* one direction between two hosts, both healthy */
    int src, dst;
    int n, low;         /* samples, and low ones among them */
    int rounds, again;  /* samples from the rounds, from the confirmation */
    int need;           /* samples that accuse if all are low, present ones included */
    double residual, z; /* percent of the rate of its slower end */
    double percent;     /* percent of the expected rate, as a port's */
    int slow, suspect;
};

struct health_analysis {
    const struct health_data *d;
    const struct health_rules *rules;
    double (*want)[2]; /* [hosts] expected rate of a port, on the most common path */
    double rate[HEALTH_PATHS];
    double (*spread)[2];     /* [hosts] deviation of a sample, percent */
    double shift;            /* percent of the baseline at which all ports are; else 100 */
    double stale;            /* as shift, if so far above that the baseline is useless and the
                                expectation is the ports' present rate; else 0 */
    unsigned char *excused;  /* [hosts] from health_excused */
    struct health_ends ends; /* ends of d->samples, percent of the expected rate */
    double low_share;        /* probability that chance makes a sample low, an upper bound */
    int pairs;               /* pairs with low samples */
    struct health_pair *pair;
};

/* Analyses d.  ERR_INPUT: too few hosts to compare; ERR_MISMATCH: the baseline is another
   fabric's. */
int health_analyse(struct health_analysis *l, const struct health_data *d,
                   const struct health_rules *rules, struct err *err);
void health_analysis_release(struct health_analysis *l);

/*
 * Computes from the samples the rate on paths of each class: the median over ports of their own
 * medians; 0 for a class without samples.  Returns the most common class.  skip: [samples] 1:
 * ignore the sample (a class whose samples are all ignored keeps its rate); NULL: none.
 */
int health_path_rates(const struct health_data *d, const unsigned char *skip,
                      double rate[HEALTH_PATHS]);

/*
 * Returns [hosts], owned by the caller (mem_free): 1 for hosts whose link was down or that
 * became silent, so that rates with them are no evidence against others.  All 0 if there are
 * only two hosts.
 */
unsigned char *health_excused(const struct health_data *d);
/* Judges the other data (health_facts.c): links, silence, wrong words, stalls. */
void health_judge_facts(const struct health_data *d, const struct health_rules *rules,
                        struct health_verdict *v);
/* Judge ranks against those of their host; latencies; all hosts at once (health_other.c). */
void health_judge_ranks(const struct health_data *d, const struct health_rules *rules,
                        struct health_verdict *v);
void health_judge_latency(const struct health_data *d, const struct health_rules *rules,
                          struct health_verdict *v);
/* Runs in a row that must be slow before all hosts at once are reported as slow. */
enum { HEALTH_COLLECTIVE_RUNS = 4 };
void health_judge_collective(const struct health_data *d, const struct health_rules *rules,
                             struct health_verdict *v);
/*
 * Returns 1 if hosts first .. first + count - 1 are to run a collective next: all hosts, then
 * the halves of a slow range; 0: nothing left.  Depends on the data alone.
 */
int health_bisect(const struct health_data *d, const struct health_rules *rules, int *first,
                  int *count);

#endif
