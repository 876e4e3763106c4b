/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_STATS_H
#define BASE_STATS_H

/* Each function sorts v[n] in place, ascending; n >= 1. */
void stats_sort(double *v, int n);                   /* n >= 0 */
double stats_median(double *v, int n);               /* mean of the middle two if n is even */
double stats_percentile(double *v, int n, double p); /* nearest rank, p in (0, 100] */
/* Median of |v - median|, times 1.4826: the standard deviation of a normal sample. */
double stats_mad(const double *v, int n, double median);

#endif
