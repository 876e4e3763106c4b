/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_FIT_H
#define PROBE_PROBE_FIT_H

/* The line t(bytes) = alpha + beta bytes through measured times, and how well it is known. */
struct probe_fit {
    double alpha_s, beta_s;         /* of no byte; of each byte */
    double alpha_err_s, beta_err_s; /* half the widths of their 95 % intervals */
};

enum { PROBE_FIT_LEAST = 3, PROBE_FIT_MOST = 32 };

/*
 * n points (PROBE_FIT_LEAST to PROBE_FIT_MOST), times above 0, two different sizes at least.
 * Each time has the same relative error.
 */
void probe_fit_line(const double *bytes, const double *time_s, int n, struct probe_fit *out);

/*
 * Half the width of an interval around the median of v[n] that holds the median of what v is
 * drawn from: all n lie above it, or all below, with 2 / 2^n, so that least to most holds it with
 * 96.9 % of six.  The interval reaches from the median to the further of the two.
 */
double probe_fit_spread(const double *v, int n, double median);

#endif
