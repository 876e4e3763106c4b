/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests how micro-batches are dealt to the ranks: the least time against all distributions, the
 * numbers against cards that are dealt in rounds, the price against the time of each rank.
 */
#include "unit.h"

#include "base/rng.h"
#include "plan/plan_deal.h"
#include "plan_fixture.h"

enum { RANKS = 5 };

struct best {
    const double *rate;
    int ranks, most;
    double time;
};

/* All ways to give `left` to ranks r, r + 1, ... */
static void try_all(struct best *b, int r, int left, double time, int most)
{
    if (r == b->ranks) {
        int ahead = time < b->time * (1 - 1e-9);
        if (left == 0 && (ahead || (time <= b->time * (1 + 1e-9) && most < b->most)))
            *b = (struct best){b->rate, b->ranks, most, ahead ? time : b->time};
        return;
    }
    for (int n = 0; n <= left; n++)
        try_all(b, r + 1, left - n, fmax(time, n / b->rate[r]), n > most ? n : most);
}

TEST(least_time)
{
    static const double rates[] = {1, 1, 0.5, 0.1, 1 / 3.0, 0.7, 3, 1e10};

    for (int i = 0; i < 400; i++) {
        int ranks = 1 + i % RANKS, micros = (int)(rng_u64(1, (uint64_t)i, 0) % 10), sum = 0;
        double rate[RANKS], time = 0;
        int count[RANKS], most = 0;
        for (int r = 0; r < ranks; r++)
            rate[r] = rates[rng_u64(2, (uint64_t)i, (uint64_t)r) % (i % 2 ? 8 : 4)];
        plan_deal(rate, ranks, micros, count);
        for (int r = 0; r < ranks; r++) {
            assert_true(count[r] >= 0);
            sum += count[r];
            time = fmax(time, count[r] / rate[r]);
            most = count[r] > most ? count[r] : most;
        }
        struct best best = {rate, ranks, 99, INFINITY};
        try_all(&best, 0, micros, 0, 0);
        assert_int_equal(sum, micros);
        if (time > best.time * (1 + 1e-9) || most != best.most)
            fail_msg("case %d: time %g, at most %d, expected %g and %d", i, time, most,
                     best.time, best.most);
    }
}

TEST(equal_rates)
{
    static const double rate[] = {0.3, 0.3, 0.3, 0.3};
    int count[4], equal[4];

    for (int micros = 0; micros < 40; micros++) {
        plan_deal(rate, 4, micros, count);
        plan_deal(NULL, 4, micros, equal);
        assert_memory_equal(count, equal, sizeof count);
        assert_int_equal(count[0], (micros + 3) / 4);
        assert_int_equal(count[3], micros / 4);
    }
}

/* Deals cards in rounds, and into as many micro-steps as the rank with most needs. */
TEST(numbers)
{
    static const int counts[][RANKS] = {
        {3, 1, 2}, {1, 0, 5, 2, 2}, {4, 4, 4, 4, 4}, {0, 0, 7}, {1}};
    static const int ranks[] = {3, 5, 5, 3, 1};

    for (int i = 0; i < 5; i++)
        for (int layered = 1; layered < 4; layered++) {
            struct plan_settings s = {.micro_batch = 2, .counts = counts[i]};
            int64_t number = 0;
            for (int r = 0; r < ranks[i]; r++) {
                s.global_batch += 2 * counts[i][r];
                s.accum = counts[i][r] > s.accum ? counts[i][r] : s.accum;
            }
            s.global_batch--; /* the last has one sequence */
            s.layered = layered;
            for (int k = 0; k < s.accum; k++)
                for (int r = 0; r < ranks[i]; r++)
                    if (counts[i][r] > k)
                        assert_int_equal(plan_micro_number(&s, ranks[i], r, k), number++);
            assert_int_equal(number, plan_micro_batches(&s, ranks[i]));
            int steps = plan_micro_steps(&s);
            for (int r = 0; r < ranks[i]; r++) {
                int n = plan_count_of(&s, ranks[i], r);
                assert_int_equal(plan_count_before(&s, n, 0), 0);
                assert_int_equal(plan_count_before(&s, n, steps), n);
                for (int at = 0; at < steps; at++) {
                    int here = plan_count_before(&s, n, at + 1) - plan_count_before(&s, n, at);
                    assert_true(here <= plan_layered(&s));
                    assert_true(here == n / steps || here == n / steps + 1);
                }
            }
        }
}

/* Ranks that share nothing end when the slowest does; ranks that meet wait in each
   micro-step. */
TEST(price)
{
    static const int counts[] = {4, 4, 2, 2}, shared[] = {4, 2, 2, 2};
    struct topo t;
    struct plan_case c;
    struct model m = bare(1e6);

    make_topo(&t, "2x2", 1e12, 1e12);
    t.flops = 1e10;
    topo_set_rank_flops(&t, 2, 0.4e10);
    topo_set_rank_flops(&t, 3, 0.5e10);
    plan_case_init(&c, &t, &m);
    c.global_batch = 12;
    c.accum = 4;
    c.counts = counts;
    plan_case_pace(&c);
    /* Rank 2: 2 micro-batches of 2.5, in micro-steps 0 and 2 of 4; rank 0: 4 of 1. */
    assert_true(fabs(c.pace[PLAN_ALONE] - 5 / 4.0) < 1e-12);
    assert_true(fabs(c.pace[PLAN_IN_GROUP] - 5 / 4.0) < 1e-12);
    assert_true(fabs(c.pace[PLAN_WITH_ALL] - (2.5 + 1 + 2.5 + 1) / 4) < 1e-12);
    assert_true(fabs(c.slowest - 2.5) < 1e-12);
    c.layered = 2; /* two micro-steps: 2 of 1 with 1 of 2.5 */
    plan_case_pace(&c);
    assert_true(fabs(c.pace[PLAN_WITH_ALL] - 2.5) < 1e-12);
    /* 10 micro-batches by the rates. */
    c.layered = 1;
    c.counts = NULL;
    c.global_batch = 10;
    plan_case_deal(&c);
    assert_int_equal(c.accum, 4);
    plan_case_pace(&c);
    assert_true(c.pace[PLAN_ALONE] * 4 < 5 + 1e-9);
    t.rank_flops[2] = t.rank_flops[3] = 1e10;
    int equal, *dealt = plan_case_counts(&c, &equal);
    assert_true(equal);
    mem_free(dealt);
    c.counts = shared;
    plan_case_pace(&c);
    assert_true(fabs(c.pace[PLAN_WITH_ALL] - 1) < 1e-12);
    mem_free(t.rank_flops);
    drop_topo(&t);
}
