/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests what failures leave of a run.  The formula against a simulation of nodes that fail one
 * by one, against Daly's where there is one kind of save, and against counting where all copies
 * are lost; the intervals against all others; what copies cost against sums by hand.
 */
#include "unit.h"

#include "goodput_fixture.h"
#include "plan_fixture.h"

static int is_lost(unsigned set, int nodes, int ring, int copies)
{
    for (int i = 0; i < nodes; i++) {
        int have = 0;
        for (int c = 0; c <= copies; c++)
            have += !(set >> (i / ring * ring + (i % ring + c) % ring) & 1);
        if (!have)
            return 1;
    }
    return 0;
}

TEST(losses_are_those_of_all_subsets)
{
    static const int rings[][2] = {{1, 1}, {2, 2},  {3, 3},  {7, 7}, {12, 12},
                                   {8, 4}, {12, 3}, {10, 2}, {4, 1}};
    double l[13];

    for (size_t n = 0; n < sizeof rings / sizeof *rings; n++)
        for (int copies = 0; copies < rings[n][1]; copies++) {
            int nodes = rings[n][0], all[13] = {0}, lost[13] = {0};
            for (unsigned set = 0; set < 1U << nodes; set++) {
                all[__builtin_popcount(set)]++;
                lost[__builtin_popcount(set)] += is_lost(set, nodes, rings[n][1], copies);
            }
            plan_losses(nodes, rings[n][1], copies, nodes, l);
            for (int k = 0; k <= nodes; k++) {
                double share = (double)lost[k] / all[k];
                /* Sums of whole numbers, of which the largest is some 1e3 times the result. */
                assert_true(fabs(l[k] - share) <= 1e-12);
            }
        }
}

TEST(losses_of_many_nodes)
{
    double l[5];

    /* The second of two is next to the first: 2 of 2047; three in a row: 2048 of all sets. */
    plan_losses(2048, 2048, 1, 4, l);
    assert_true(fabs(l[2] - 2.0 / 2047) < 1e-12);
    plan_losses(2048, 2048, 2, 4, l);
    assert_true(l[2] == 0);
    assert_true(fabs(l[3] - 2048 / (2048.0 * 2047 * 2046 / 6)) < 1e-12);
}

static const struct plan_survival one_level = {
    .mtbf_s = 400, .nodes = 5, .ring = 5, .pause_s = 2, .restart_s = 30};

TEST(one_kind_of_save_is_dalys_formula)
{
    struct plan_survival s = one_level;
    double job_s = s.mtbf_s / s.nodes, work_s = 7 * 1.5;

    plan_goodput(&s, 1.5, 7, 1);
    double daly_s = job_s * exp(s.restart_s / job_s) * expm1((work_s + s.pause_s) / job_s);
    assert_true(fabs(s.goodput * daly_s / work_s - 1) < 1e-12);
}

TEST(without_failures_saves_alone_cost)
{
    struct plan_survival s = one_level;

    s.mtbf_s = INFINITY;
    plan_goodput(&s, 1.5, 7, 1);
    assert_true(fabs(s.goodput - 10.5 / 12.5) < 1e-15);
    assert_true(s.lost_share == 0);
    s.copies = 1;
    s.local_pause_s = 0.5;
    plan_goodput(&s, 1.5, 7, 3);
    assert_true(fabs(s.goodput - 31.5 / (31.5 + 3 * 0.5 + 2)) < 1e-15);
    /* Nearly none: the same, but for one failure in 1e12 steps. */
    s.mtbf_s = 1e15;
    double without = s.goodput;
    plan_goodput(&s, 1.5, 7, 3);
    assert_true(s.goodput < without && s.goodput > without * (1 - 1e-9));
}

/* A segment that never passes has a goodput of 0, and no number that is none. */
TEST(no_segment_passes)
{
    struct plan_survival s = one_level;

    s.mtbf_s = 1e-3;
    plan_goodput(&s, 1.5, 7, 1);
    assert_true(s.goodput == 0);
    s.copies = 2;
    plan_goodput(&s, 1.5, 1000, 1000);
    assert_true(s.goodput == 0);
}

/* Periods are independent and of one distribution, so their mean differs from the expected one
 * by more than five standard errors once in some millions of seeds; the seed is fixed. */
static void expect_simulated(struct plan_survival s, double step_s, int every, int saves,
                             int periods)
{
    struct sim_run r;
    double error, work_s = step_s * every * saves;

    plan_goodput(&s, step_s, every, saves);
    sim_init(&r, &s, 31);
    for (int i = 0; i < periods; i++)
        sim_period(&r, step_s, every, saves);
    double mean = sim_mean(&r, &r.seconds, &error), period_s = work_s / s.goodput;
    if (!(fabs(mean - period_s) <= 5 * error) || !(error < 0.02 * mean))
        fail_msg("%d nodes, ring %d, copies %d: %.6g s a period, simulated %.6g +- %.2g",
                 s.nodes, s.ring, s.copies, period_s, mean, error);
    double shared = sim_mean(&r, &r.shared, &error),
           expected = s.lost_share * period_s * s.nodes / s.mtbf_s;
    if (!(fabs(shared - expected) <= 5 * error))
        fail_msg("%d nodes, ring %d, copies %d: %.6g shared restarts, simulated %.6g +- %.2g",
                 s.nodes, s.ring, s.copies, expected, shared, error);
    sim_release(&r);
}

TEST(the_formula_is_what_a_simulation_gives)
{
    struct plan_survival s =
        LIST(.mtbf_s = 600, .nodes = 6, .ring = 6, .copies = 1, .local_pause_s = 0.3,
             .pause_s = 2, .local_restart_s = 8, .restart_s = 40);

    expect_simulated(one_level, 1.5, 7, 1, 100000);
    expect_simulated(s, 1, 10, 1, 100000);
    expect_simulated(s, 1, 10, 8, 100000);
    s.mtbf_s = 120; /* often three and more before a save is complete again */
    expect_simulated(s, 1, 5, 4, 100000);
    expect_simulated((struct plan_survival)LIST(.mtbf_s = 72, .nodes = 12, .ring = 12,
                                                .copies = 2, .local_pause_s = 0.3, .pause_s = 1,
                                                .local_restart_s = 4, .restart_s = 8),
                     1, 2, 4, 100000);
    s.copies = 2;
    s.mtbf_s = 200;
    expect_simulated(s, 1, 5, 8, 100000);
    s.nodes = s.ring = 2; /* a failure hits the other node or a spare */
    s.copies = 1;
    s.mtbf_s = 60;
    expect_simulated(s, 1, 5, 4, 100000);
    s.nodes = 8; /* two rings of four, four of two */
    s.mtbf_s = 400;
    s.ring = 4;
    expect_simulated(s, 1, 5, 6, 100000);
    s.ring = 2;
    expect_simulated(s, 1, 5, 6, 100000);
    s.nodes = s.ring = 64;
    s.mtbf_s = 5000;
    expect_simulated(s, 1, 6, 6, 100000);
}

TEST(no_other_intervals_are_better)
{
    static const double mtbf_s[] = {50, 500, 5000}, pause_s[] = {0, 0.2, 5};

    for (int i = 0; i < 3 * 3 * 3; i++) {
        struct plan_survival s =
            LIST(.mtbf_s = 4 * mtbf_s[i % 3], .nodes = 4, .ring = 4, .copies = i / 9,
                 .local_pause_s = pause_s[i / 3 % 3] / 4, .pause_s = pause_s[i / 3 % 3],
                 .local_restart_s = 4, .restart_s = 20);
        plan_intervals(&s, 1, 2, 7);
        struct plan_survival best = s, t = s;
        assert_true(s.save_every >= 7 && (!s.copies || s.local_every >= 2));
        for (int every = s.copies ? 2 : 7; every < 200; every++)
            for (int saves = 1; saves <= (s.copies ? 60 : 1); saves++) {
                plan_goodput(&t, 1, every, saves);
                if (every * saves >= 7 && t.goodput > best.goodput) {
                    best = t;
                    best.local_every = every;
                    best.save_every = every * saves;
                }
            }
        if (best.goodput > s.goodput * (1 + 1e-12))
            fail_msg("case %d: every %d and %d steps: %.9g, but every %d and %d: %.9g", i,
                     s.local_every, s.save_every, s.goodput, best.local_every, best.save_every,
                     best.goodput);
    }
}

enum { NODES = 4, EACH = 2, COPIES = 2 };

static void priced_in(double memory_bytes, double storage_Bps, double mtbf_s, int nodes,
                      int copies, struct plan_price list[PLAN_STRATEGIES])
{
    struct model m = bare(1e6);
    struct topo t;

    make_topo(&t, "4x2", 1e9, 1e8);
    struct plan_case c = table_case(&t, &m, 1, 1);
    c.memory_bytes = memory_bytes;
    c.failures = (struct plan_failures)LIST(.mtbf_s = mtbf_s, .restart_s = 60,
                                            .storage_Bps = storage_Bps, .local_Bps = 2e9,
                                            .copies = copies, .nodes = nodes,
                                            .node_ranks = NODES * EACH / nodes);
    plan_price_all(&c, list);
    drop_topo(&t);
}

static void priced(double mtbf_s, int nodes, int copies,
                   struct plan_price list[PLAN_STRATEGIES])
{
    priced_in(0, 1e8, mtbf_s, nodes, copies, list);
}

static void expect_near(double have, double must)
{
    if (!(fabs(have - must) <= 1e-9 * must))
        fail_msg("%.12g, expected %.12g", have, must);
}

TEST(copies_are_sent_of_what_no_other_group_has)
{
    static const struct {
        const char *strategy;
        int sent; /* bytes of an element: 12 of the optimizer, the master among them */
    } cases[] = {{"GGG", 12}, {"NNG", 12}, {"IIG", 12}, {"GNN", 0}, {"NNI", 0}, {"INN", 0}};
    struct plan_price list[PLAN_STRATEGIES];

    priced(1e6, NODES, COPIES, list);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct plan_price *p = &list[index_of(cases[i].strategy)];
        const struct plan_survival *s = &p->survival;
        double elems = 1e6 / (NODES * EACH), each = 14 * elems, sent = cases[i].sent * elems;
        double idle = 1 - p->slow_bytes / 1e8 / p->step_s;
        double store =
            fmax(3 * EACH * each / 2e9, sent ? COPIES * EACH * sent / 1e8 / idle : 0);
        assert_int_equal(s->copies, COPIES);
        expect_near(s->copy_bytes, 2 * (1 + COPIES) * each);
        expect_near(1 + s->copy_slow_bytes, 1 + COPIES * EACH * sent);
        expect_near(s->local_pause_s, (each + COPIES * (each - sent)) / 8e9 + 0.01 * store);
        expect_near(s->pause_s, each / 8e9 + 0.01 * EACH * each / 1e8);
        expect_near(s->local_restart_s, 60 + store + EACH * each / 1e8);
        expect_near(s->restart_s, 60 + 2 * EACH * each / 1e8);
        /* A save is stored before the next one begins. */
        assert_true(s->local_every * p->step_s >= store);
        assert_true(s->save_every * p->step_s >= EACH * each / 1e8);
        struct plan_survival again = *s;
        plan_goodput(&again, p->step_s, s->local_every, s->save_every / s->local_every);
        assert_true(again.goodput == s->goodput && s->save_every % s->local_every == 0);
    }
}

/* 12 bytes of each trained element of a rank's shard, and of each copy that it writes. */
TEST(copies_take_memory)
{
    const double one = 12 * 1e6 / (NODES * EACH);
    struct plan_price none[PLAN_STRATEGIES], list[PLAN_STRATEGIES];

    priced(1e6, NODES, 0, none);
    priced(1e6, NODES, COPIES, list);
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        assert_true(list[i].survival.copies == COPIES);
        expect_near(list[i].memory.total, none[i].memory.total + (1 + COPIES) * one);
        expect_near(list[i].memory.buffers, none[i].memory.buffers + (1 + COPIES) * one);
    }
    for (int less = 0; less < 2; less++) { /* by a byte, for one copy, and a slow folder */
        const struct plan_price *p = &list[index_of("NNN")];
        double limit = none[index_of("NNN")].memory.total + 2 * one - less;
        priced_in(limit, 1e4, 1e4, NODES, 1, list);
        assert_int_equal(p->feasible, !less);
        priced_in(limit, 1e4, 1e4, NODES, PLAN_COPIES_AUTO, list);
        assert_true(p->feasible && p->survival.copies == !less);
    }
}

/* One more copy has to gain 0.01 %, whatever that is of. */
TEST(copies_that_gain_nothing_are_not_made)
{
    static const double mtbf_s[] = {1e3, 1e4, 1e5, 1e6, 1e7};
    struct plan_price list[PLAN_STRATEGIES], with[NODES][PLAN_STRATEGIES];
    int spared = 0;

    for (size_t m = 0; m < sizeof mtbf_s / sizeof *mtbf_s; m++) {
        priced(mtbf_s[m], NODES, PLAN_COPIES_AUTO, list);
        for (int copies = 0; copies < NODES; copies++)
            priced(mtbf_s[m], NODES, copies, with[copies]);
        for (int i = 0; i < PLAN_STRATEGIES; i++) {
            int best = 0, most = 0;
            for (int copies = 1; copies < NODES; copies++) {
                double now = with[copies][i].survival.goodput;
                best = now > 1.0001 * with[best][i].survival.goodput ? copies : best;
                most = now > with[most][i].survival.goodput ? copies : most;
            }
            assert_int_equal(list[i].survival.copies, best);
            assert_true(list[i].survival.goodput == with[best][i].survival.goodput);
            spared += most > best;
        }
    }
    assert_true(spared > 0);
}

/* Groups of one host fail together: four groups on two hosts have one other host each. */
TEST(copies_are_on_other_nodes)
{
    struct plan_price list[PLAN_STRATEGIES];

    priced(1e6, 2, 1, list);
    assert_true(list->survival.goodput > 0.9 && list->survival.ring == 2);
    priced(1e6, 2, 2, list);
    assert_true(list->survival.goodput == 0);
}

/* Where all of a step goes through the ports they have no time for copies: the best strategy is
   then one whose states other groups have. */
TEST(the_choice_counts_failures)
{
    struct model m = bare(1e6);
    struct plan_search s;
    struct topo t;

    make_topo(&t, "4x2", 1e15, 1e8);
    for (int failures = 0; failures < 2; failures++) {
        s = (struct plan_search){.at = table_case(&t, &m, 1, 1)};
        s.at.failures.mtbf_s = failures ? 1e5 : 0;
        s.at.failures.storage_Bps = s.at.failures.local_Bps = 1e9;
        s.at.failures.copies = 1;
        assert_ok(plan_search(&s, &err));
        struct plan_strategy best = s.list[s.best].strategy;
        assert_int_equal(best.optimizer == LETTER_G, !failures);
        assert_int_equal(s.list[s.best].survival.goodput > 0.9, failures);
    }
    s.at.failures.copies = 4;
    assert_int_equal(plan_search(&s, &err), -1);
    assert_string_equal(err.text,
                        "--copies: 4, expected fewer than the groups, of which there are 4");
    drop_topo(&t);
}
