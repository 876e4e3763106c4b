/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes robust summaries of a sample. */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

static int stats_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Verdicts on thousands of ports sort as many short lists: insertion sort, without calls. */
void stats_sort(double *v, int n)
{
    enum { SHORT = 48 };

    if (n > SHORT) {
        qsort(v, (size_t)n, sizeof *v, stats_by_value);
        return;
    }
    for (int i = 1; i < n; i++) {
        double x = v[i];
        int at = i;
        for (; at > 0 && v[at - 1] > x; at--)
            v[at] = v[at - 1];
        v[at] = x;
    }
}

double stats_median(double *v, int n)
{
    stats_sort(v, n);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

double stats_percentile(double *v, int n, double p)
{
    stats_sort(v, n);
    int i = (int)ceil(p * n / 100) - 1;
    return v[i < 0 ? 0 : i >= n ? n - 1 : i];
}

double stats_mad(const double *v, int n, double median)
{
    double *gap = mem_new((size_t)n, sizeof *gap);

    for (int i = 0; i < n; i++)
        gap[i] = fabs(v[i] - median);
    double mad = 1.4826 * stats_median(gap, n);
    mem_free(gap);
    return mad;
}
