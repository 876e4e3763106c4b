/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fits a line to times, with its error bars; pure arithmetic.
 *
 * Weighted least squares (Press et al., Numerical Recipes, 15.2).  A time that is measured on a
 * shared machine is off by a part of itself, so a point weighs w = 1/t^2; with the sums
 *
 *     W = sum w    x' = sum w x / W    y' = sum w y / W    Q = sum w (x - x')^2
 *     beta = sum w (x - x') y / Q      alpha = y' - beta x'
 *     s^2 = sum w (y - alpha - beta x)^2 / (n - 2)         the relative error squared, unknown
 *     var beta = s^2 / Q               var alpha = s^2 (1/W + x'^2 / Q)
 *
 * and the half width is the 97.5 % quantile of Student's t with n - 2 degrees times the root.
 * Weights of measured times favour times that came out small; so the line is fitted again with
 * weights of its own times, PASSES in all (the second differs from the third by less than the
 * error squared).
 */
#include "probe/probe_fit.h"

#include <assert.h>
#include <math.h>

enum { PASSES = 3 };

/* Student's t, 97.5 %, for 1, 2, ... degrees of freedom. */
static const double student[] = {
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
};
_Static_assert(sizeof student / sizeof *student == PROBE_FIT_MOST - 2, "a value for each n");

static void fit_once(const double *x, const double *y, const double *w, int n,
                     struct probe_fit *f)
{
    double W = 0, mean_x = 0, mean_y = 0, Q = 0, xy = 0, left = 0;

    for (int i = 0; i < n; i++) {
        W += w[i];
        mean_x += w[i] * x[i];
        mean_y += w[i] * y[i];
    }
    mean_x /= W;
    mean_y /= W;
    for (int i = 0; i < n; i++) {
        Q += w[i] * (x[i] - mean_x) * (x[i] - mean_x);
        xy += w[i] * (x[i] - mean_x) * (y[i] - mean_y);
    }
    f->beta_s = xy / Q;
    f->alpha_s = mean_y - f->beta_s * mean_x;
    for (int i = 0; i < n; i++) {
        double r = y[i] - f->alpha_s - f->beta_s * x[i];
        left += w[i] * r * r;
    }
    double variance = left / (n - 2), t = student[n - 3];
    f->beta_err_s = t * sqrt(variance / Q);
    f->alpha_err_s = t * sqrt(variance * (1 / W + mean_x * mean_x / Q));
}

void probe_fit_line(const double *bytes, const double *time_s, int n, struct probe_fit *out)
{
    double w[PROBE_FIT_MOST];

    assert(n >= PROBE_FIT_LEAST && n <= PROBE_FIT_MOST);
    for (int i = 0; i < n; i++)
        w[i] = 1 / (time_s[i] * time_s[i]);
    fit_once(bytes, time_s, w, n, out);
    for (int pass = 1; pass < PASSES; pass++) {
        for (int i = 0; i < n; i++) {
            double t = out->alpha_s + out->beta_s * bytes[i];
            if (t > 0) /* a line through outliers may pass below zero: then use the measured
                          time */
                w[i] = 1 / (t * t);
        }
        fit_once(bytes, time_s, w, n, out);
    }
}

double probe_fit_spread(const double *v, int n, double median)
{
    double most = 0;

    for (int i = 0; i < n; i++)
        most = fmax(most, fabs(v[i] - median));
    return most;
}
