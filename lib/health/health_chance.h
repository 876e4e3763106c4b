/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_CHANCE_H
#define HEALTH_HEALTH_CHANCE_H

/* Inside health/: what chance does. */

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
