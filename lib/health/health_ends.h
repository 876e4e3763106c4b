/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_ENDS_H
#define HEALTH_HEALTH_ENDS_H

#include <stddef.h>

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
    double best;  /* what the best quarter of its partners see */
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
    size_t sample_room;
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
    double *room; /* [samples] */
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
 * Of the samples of an end (those that count): the median, or where ends are few the upper
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

#endif
