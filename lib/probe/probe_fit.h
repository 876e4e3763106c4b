/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_FIT_H
#define PROBE_PROBE_FIT_H

/* The line t(bytes) = alpha + beta bytes through measured times, with its error. */
struct probe_fit {
    double alpha_s, beta_s;         /* time of an empty message; time per byte */
    double alpha_err_s, beta_err_s; /* half widths of their 95 % intervals */
};

enum { PROBE_FIT_LEAST = 3, PROBE_FIT_MOST = 32 };

/*
 * Fits n points (PROBE_FIT_LEAST to PROBE_FIT_MOST) with times above 0 and at least two
 * different sizes.  Assumes that each time has the same relative error.
 */
void probe_fit_line(const double *bytes, const double *time_s, int n, struct probe_fit *out);

/*
 * Returns the half width of an interval around the median of v[n] that contains the median of
 * v's distribution: all n lie above it, or all below, with probability 2 / 2^n, so that least
 * to most of six contains it with 96.9 %.  The interval reaches from the median to the further
 * of the two.
 */
double probe_fit_spread(const double *v, int n, double median);

#endif
