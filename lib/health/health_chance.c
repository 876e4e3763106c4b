/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the normal, Student's and the binomial distribution as far as verdicts need them. */
#include "health/health_chance.h"

#include <math.h>

double health_normal_z(double q)
{
    double lo = 0, hi = 40;

    for (int i = 0; i < 60; i++) {
        double z = (lo + hi) / 2;
        if (erfc(z / sqrt(2)) / 2 > q)
            lo = z;
        else
            hi = z;
    }
    return (lo + hi) / 2;
}

double health_student_z(double q, double freedom)
{
    double z = health_normal_z(q);

    return z * (1 + (z * z + 1) / (4 * freedom));
}

double health_binomial_above(int n, int k, double p)
{
    double sum = 0;

    if (k <= 0 || p >= 1)
        return k <= n;
    if (p <= 0)
        return 0;
    for (int i = n; i >= k; i--)
        sum += exp(lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) + i * log(p) +
                   (n - i) * log1p(-p));
    return fmin(1, sum);
}

double health_accusing_z(double tests, double residuals)
{
    return health_student_z(HEALTH_ALARMS / fmax(1, tests), fmax(1, 0.37 * residuals));
}

double health_median_error(double sigma, int n)
{
    return sqrt(acos(-1) / 2) * sigma / sqrt(n);
}

double health_deviation(double own, int n, double pooled)
{
    return own > pooled * (1 + 3 * 1.17 / sqrt(n)) ? own : pooled;
}
