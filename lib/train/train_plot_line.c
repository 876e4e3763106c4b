/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a long row of numbers becomes a line that is short, or smooth. */
#include <math.h>

#include "train/train_plot.h"

/* The points lo .. hi - 1 of one pixel. */
static int thin_pixel(const double *y, int lo, int hi, int *keep)
{
    int least = -1, greatest = -1, none = -1, n = 0;

    for (int i = lo; i < hi; i++) {
        if (!isfinite(y[i])) {
            none = none < 0 ? i : none;
            continue;
        }
        least = least < 0 || y[i] < y[least] ? i : least;
        greatest = greatest < 0 || y[i] > y[greatest] ? i : greatest;
    }
    for (int i = lo; i < hi; i++)
        if (i == lo || i == hi - 1 || i == least || i == greatest || i == none)
            keep[n++] = i;
    return n;
}

int train_plot_thin(const double *x, const double *y, int n, double width, int *keep)
{
    int kept = 0;

    for (int lo = 0, hi; lo < n; lo = hi) {
        double pixel = floor((x[lo] - x[0]) / width);
        for (hi = lo + 1; hi < n && floor((x[hi] - x[0]) / width) <= pixel;)
            hi++;
        kept += thin_pixel(y, lo, hi, keep + kept);
    }
    return kept;
}

double train_plot_mean(const double *y, int n, int i, int half)
{
    int lo = i > half ? i - half : 0, hi = i + half < n ? i + half : n - 1, count = 0;
    double sum = 0;

    if (!isfinite(y[i]))
        return NAN;
    for (int k = lo; k <= hi; k++)
        if (isfinite(y[k])) {
            sum += y[k];
            count++;
        }
    return sum / count;
}
