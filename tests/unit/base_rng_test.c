/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests random numbers against the published answers and their moments; robust statistics by
 * hand.
 */
#include "unit.h"

#include "base/rng.h"
#include "base/stats.h"
#include "base/tick.h"

/* kat_vectors of the Random123 distribution, philox4x32 with 10 rounds: counter, key, answer.
 */
TEST(philox_known_answers)
{
    static const uint32_t kat[][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
         0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1},
    };

    for (size_t i = 0; i < 3; i++) {
        const uint32_t *c = kat[i], *k = kat[i] + 4;
        uint32_t out[4];
        rng_block((uint64_t)k[1] << 32 | k[0], (uint64_t)c[3] << 32 | c[2],
                  (uint64_t)c[1] << 32 | c[0], out);
        for (int w = 0; w < 4; w++)
            assert_int_equal(out[w], kat[i][6 + w]);
    }
    assert_true(rng_u64(0, 0, 0) == 0xe169c58d6627e8d5);
}

/* n samples of a variable with standard deviation s: the mean strays by s / sqrt(n), and six of
 * those are passed by one honest generator in 5e8.  The seed is fixed: the test is no lottery.
 */
TEST(uniform_moments)
{
    enum { N = 200000 };
    double sum = 0, square = 0;

    for (uint64_t i = 0; i < N; i++) {
        double u = rng_uniform(1, 2, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
        square += (u - 0.5) * (u - 0.5);
    }
    assert_true(fabs(sum / N - 0.5) < 6 * sqrt(1.0 / 12 / N));
    /* (u - 1/2)^2 has mean 1/12 and variance 1/80 - 1/144 = 1/180. */
    assert_true(fabs(square / N - 1.0 / 12) < 6 * sqrt(1.0 / 180 / N));
}

TEST(normal_moments)
{
    enum { N = 200000 };
    double m1 = 0, m2 = 0, m4 = 0;

    for (uint64_t i = 0; i < N; i++) {
        double x = rng_normal(3, 4, i);
        assert_true(fabs(x) <= 6);
        m1 += x;
        m2 += x * x;
        m4 += x * x * x * x;
    }
    assert_true(fabs(m1 / N) < 6 * sqrt(1.0 / N));
    /* Twelve uniforms: kurtosis 3 - 6/(5*12) = 2.9, so x^2 has variance 1.9. */
    assert_true(fabs(m2 / N - 1) < 6 * sqrt(1.9 / N));
    /* x^4 of a normal has variance 105 - 9; fewer tails make it smaller. */
    assert_true(fabs(m4 / N - 2.9) < 6 * sqrt(96.0 / N));
}

TEST(seeds_and_streams_differ)
{
    assert_true(rng_u64(1, 0, 0) != rng_u64(0, 1, 0));
    assert_true(rng_u64(0, 1, 0) != rng_u64(0, 0, 1));
    assert_true(rng_u64(5, 6, 7) == rng_u64(5, 6, 7));
    assert_true(rng_u64(0, 0, 0) != rng_u64(0, 0, UINT64_C(1) << 32));
    assert_true(rng_normal(1, 1, 0) != rng_normal(1, 1, 1));
    /* FNV-1a's published answers. */
    assert_true(rng_stream("") == 0xcbf29ce484222325);
    assert_true(rng_stream("a") == 0xaf63dc4c8601ec8c);
    assert_true(rng_stream("foobar") == 0x85944171f73967e8);
}

TEST(medians_and_percentiles)
{
    double one[] = {7}, odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, hundred[100];

    assert_true(stats_median(one, 1) == 7);
    assert_true(stats_median(odd, 3) == 2);
    assert_true(stats_median(even, 4) == 2.5);
    assert_true(stats_mad((const double[]){1, 2, 3, 4, 100}, 5, 3) == 1.4826);
    for (int i = 0; i < 100; i++)
        hundred[i] = 100 - i;
    /* Nearest rank: of 1..100 the p-th percentile is p, for every whole p. */
    for (int p = 1; p <= 100; p++)
        assert_true(stats_percentile(hundred, 100, p) == p);
    assert_true(stats_percentile(hundred, 100, 0.1) == 1);
    assert_true(stats_percentile(hundred, 100, 99.5) == 100);
}

TEST(clocks_run)
{
    double wall = tick_now_s(), cpu = tick_cpu_s();

    tick_sleep_s(0.02);
    assert_true(tick_now_s() - wall >= 0.02);
    assert_true(tick_cpu_s() - cpu < 0.02); /* sleeping is no work */
    tick_sleep_s(-1);
}
