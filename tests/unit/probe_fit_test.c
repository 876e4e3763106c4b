/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines through times: exact ones, noisy ones, and how often the interval holds the truth. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/stats.h"
#include "probe/probe_fit.h"

static const double alpha_s = 50e-6, beta_s = 1 / 59.8e6;

/* Sizes as they are measured: small, doubling; and large, evenly apart. */
static const double sizes[][6] = {
    {0, 256, 512, 1024, 2048, 4096},
    {1 << 20, 2 << 20, 3 << 20, 4 << 20, 5 << 20, 6 << 20},
    {0, 64, 4096, 262144, 1 << 20, 4 << 20},
};
enum { SETS = sizeof sizes / sizeof *sizes, POINTS = 6 };

/* What rounding leaves: 1e-15 of a time, a few times over; the slope's is that over the sizes'
 * distance. */
static void exact(void **state)
{
    (void)state;
    for (int s = 0; s < SETS; s++) {
        for (int n = PROBE_FIT_LEAST; n <= POINTS; n++) {
            double t[POINTS];
            struct probe_fit f;
            for (int i = 0; i < n; i++)
                t[i] = alpha_s + beta_s * sizes[s][i];
            probe_fit_line(sizes[s], t, n, &f);
            double off = 1e-13 * t[n - 1];
            assert_true(fabs(f.alpha_s - alpha_s) < off && f.alpha_err_s < off);
            assert_true(fabs(f.beta_s - beta_s) * sizes[s][n - 1] < off);
            assert_true(f.beta_err_s * sizes[s][n - 1] < off);
        }
    }
}

/* By hand, with equal weights (equal times but for the last digits): 1, 1, 1 + e over 0, 1, 2:
 * beta = e/2, alpha = 1 - e/6; residuals e/6, -e/3, e/6, so s^2 = e^2/6; Q = 2. */
static void by_hand(void **state)
{
    const double e = 1e-6, x[] = {0, 1, 2}, t[] = {1, 1, 1 + e};
    struct probe_fit f;

    (void)state;
    probe_fit_line(x, t, 3, &f);
    /* Weights differ by 2 e: the values by a part of e^2. */
    assert_true(fabs(f.beta_s - e / 2) < 1e-5 * e);
    assert_true(fabs(f.alpha_s - (1 - e / 6)) < 1e-5 * e);
    assert_true(fabs(f.beta_err_s - 12.706 * e / sqrt(12)) < 1e-5 * e);
    assert_true(fabs(f.alpha_err_s - 12.706 * e * sqrt(5.0 / 36)) < 1e-5 * e);
}

/*
 * 95 % of intervals hold the truth.  Of 4000 trials the share that does is off by 0.34 % (one
 * standard deviation); four of them, and what the weights' own noise adds (5 % errors: the square,
 * 0.25 %): 1.7 %.
 */
static void covers(void **state)
{
    enum { TRIALS = 4000 };

    (void)state;
    for (int s = 0; s < SETS; s++) {
        int alphas = 0, betas = 0;
        for (int k = 0; k < TRIALS; k++) {
            double t[POINTS];
            struct probe_fit f;
            for (int i = 0; i < POINTS; i++)
                t[i] = (alpha_s + beta_s * sizes[s][i]) *
                       (1 + 0.05 * rng_normal(7, (uint64_t)s, (uint64_t)(k * POINTS + i)));
            probe_fit_line(sizes[s], t, POINTS, &f);
            alphas += fabs(f.alpha_s - alpha_s) <= f.alpha_err_s;
            betas += fabs(f.beta_s - beta_s) <= f.beta_err_s;
        }
        assert_true(fabs(alphas / (double)TRIALS - 0.95) < 0.017);
        assert_true(fabs(betas / (double)TRIALS - 0.95) < 0.017);
    }
}

/* Six draws: least to most holds the median with 1 - 2 / 2^6 = 96.9 %; ours is wider, never
 * narrower.  One standard deviation of 4000 trials is 0.27 %. */
static void spread(void **state)
{
    enum { TRIALS = 4000, N = 6 };
    int held = 0;

    (void)state;
    for (int k = 0; k < TRIALS; k++) {
        double v[N], sorted[N];
        for (int i = 0; i < N; i++)
            v[i] = sorted[i] = rng_normal(9, 1, (uint64_t)(k * N + i));
        double median = stats_median(sorted, N), half = probe_fit_spread(v, N, median);
        held += fabs(median) <= half;
        assert_true(half >= (sorted[N - 1] - sorted[0]) / 2);
    }
    assert_true(held / (double)TRIALS > 1 - 2 / 64.0 - 4 * 0.0027);
    assert_true(probe_fit_spread((const double[]){1, 2, 9}, 3, 2) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(covers),
        cmocka_unit_test(spread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
