/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_KERN_FIXTURE_H
#define TESTS_UNIT_KERN_FIXTURE_H

/*
 * Provides what the tests of kernels share.  EPS = 2^-24 is the error of one rounding to f32; a
 * sum of n terms taken in any order is off by at most n EPS times the sum of the terms'
 * magnitudes (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 4.2).
 * Bounds are to first order in EPS.  After unit.h.
 */
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"

#define EPS 0x1p-24

/* n normal numbers times scale, the same on every call with the same stream. */
static inline float *normal(uint64_t stream, int64_t n, double scale)
{
    float *x = mem_new((size_t)n, sizeof *x);

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(scale * rng_normal(1, stream, (uint64_t)i));
    return x;
}

static inline double *wide(const float *x, int64_t n)
{
    double *y = mem_new((size_t)n, sizeof *y);

    for (int64_t i = 0; i < n; i++)
        y[i] = (double)x[i];
    return y;
}

static inline double largest(const float *x, int64_t n)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

static inline void assert_near(double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("%.9g, expected %.9g within %.3g: off by %.3g", got, want, bound, got - want);
}

/* d f / d x[i] by the five-point rule; h = 2^-11 makes its error h^4 f'''''/30 2e-15 of
 * that derivative, and that of rounding 2^-52 |f| / h, below 1e-12 |f|: nothing beside
 * EPS = 6e-8. */
static inline double slope(double (*f)(const void *), const void *at, double *x)
{
    const double h = 0x1p-11;
    double x0 = *x, f1, f2, f3, f4;

    *x = x0 + 2 * h, f1 = f(at);
    *x = x0 + h, f2 = f(at);
    *x = x0 - h, f3 = f(at);
    *x = x0 - 2 * h, f4 = f(at);
    *x = x0;
    return (8 * (f2 - f3) - (f1 - f4)) / (12 * h);
}

#endif
