/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_ANALYSIS_H
#define HEALTH_HEALTH_ANALYSIS_H

#include "health/health_verdict.h"

/* ---- ends of streams (health_ends.c) ---- */

/*
 * Inside health/: which ends of streams are slow.  A stream is as fast as the slower of its two
 * ends; an end is a port's direction, a rank's, or (with one way alone) a host to which the
 * latency may be long.  Values are percent of what is
 * expected of the stream; low is bad.
 */
struct health_end {
    int n; /* samples that count: those of ends that are slow do not */
    double median;
    double sigma; /* the standard error of that median, percent */
    double own;   /* the deviation of one sample */
    double z;     /* of the median, from 100 */
    double best;  /* as the best quarter of its partners sees it */
    int partners, saw;
    int again; /* samples of the confirmation, and their median */
    double again_median;
    int slow, confirmed;
    int suspect; /* not slow, and it may be */
    int denied;  /* would be slow, but is not by the confirmation */
    const char
        *pardon; /* static: why it is not slow outside the range; NULL: it is not there */
};

struct health_ends {
    /* Set by the caller. */
    int ends, ways;
    int few;                      /* an end counts with its best partners */
    const double (*spread)[2];    /* [ends] least deviation of a sample, percent; NULL: 0 */
    const unsigned char *excused; /* [ends] rates with it are no evidence against others;
                                     borrowed, NULL: none is */
    int (*alerts)(const void *rules, double percent);
    const void *rules;
    /* Samples, by health_ends_add; owned. */
    int samples;
    size_t sample_space;
    struct health_ends_sample {
        int end[2]; /* source, destination */
        double value;
        int again; /* of the confirmation */
    } * sample;
    /* Results. */
    double pooled; /* deviation of one sample, all ends together */
    double z;      /* that accuses */
    int least;     /* samples that accuse */
    struct health_end (*end)[2];
    /* Inside. */
    int *first[2]; /* [ends + 1] where the end's places begin */
    int *place[2]; /* samples */
    struct health_met *met;
    double *space; /* [samples] */
    double peers[2];
};

enum {
    HEALTH_AGAIN = 12,      /* samples of a confirmation */
    HEALTH_AGAIN_LEAST = 6, /* fewer confirm nothing and deny nothing */
};
/* Percent: what one and the same healthy port differs by from run to run at least (measured).
 */
#define HEALTH_SIGMA_LEAST 0.5

/* With one way alone the sample is there from either end. */
void health_ends_add(struct health_ends *e, int src, int dst, double value, int again);
/* Fills end and the rest of the results. */
void health_ends_judge(struct health_ends *e);
void health_ends_release(struct health_ends *e);
/* Only the index, for the three below. */
void health_ends_index(struct health_ends *e);
/*
 * Returns the median of an end's samples (those that count), or where ends are few the upper
 * quartile over the partners of the median with each.  *n of them; 0: NaN.
 */
double health_ends_level(struct health_ends *e, int k, int way, int *n);
/* The median (p 50), or a lower percentile, of the levels of all ends; 0: there are none. */
double health_ends_percentile(struct health_ends *e, double p);
/* The robust deviation of one sample of the end, from its median, or where pairs have samples
 * enough, from those with each partner. */
double health_ends_deviation(struct health_ends *e, int k, int way);

/* ---- what chance does ---- */

/* The share of runs on a healthy fabric that may accuse somebody of one kind of fault. */
#define HEALTH_ALARMS 1e-4

/* z above which a standard normal value lies with probability q, 0 < q <= 0.5. */
double health_normal_z(double q);
/*
 * The same where the standard deviation is itself an estimate from `freedom` independent
 * residuals (Student's t by its expansion of Cornish and Fisher, first term).
 */
double health_student_z(double q, double freedom);
/* Probability of k or more successes among n, each with probability p. */
double health_binomial_above(int n, int k, double p);

/*
 * The z that accuses: HEALTH_ALARMS over `tests` tests at once (Bonferroni), the deviation
 * being a MAD of `residuals` values, which is worth 37 % of them (its efficiency).
 */
double health_accusing_z(double tests, double residuals);

/*
 * The standard error of a median of n values of deviation sigma: sqrt(pi / 2) sigma / sqrt(n).
 */
double health_median_error(double sigma, int n);

/*
 * `own`, a MAD of n values, unless it may well be `pooled` by chance (then that, which is known
 * much better): a MAD of n normal values has a relative error of 1.17 / sqrt(n), and three of
 * these are allowed.
 */
double health_deviation(double own, int n, double pooled);

/* ---- ports and pairs (health_analysis.c) ---- */

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
 * From the samples: the rate on paths of each class, the median over ports of their own
 * medians; 0 where there are none.  Returns the commonest class.  `skip` [samples]: those that
 * do not count (a class all of whose samples are skipped keeps its rate), or NULL.
 */
int health_path_rates(const struct health_data *d, const unsigned char *skip,
                      double rate[HEALTH_PATHS]);

/*
 * Hosts whose link was down, or that fell silent: rates with them are no evidence against the
 * others.  Owned by the caller (mem_free), [hosts]; nobody is where there are but two.
 */
unsigned char *health_excused(const struct health_data *d);
/* Judges the other data (health_facts.c): links, silence, wrong words, time. */
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
