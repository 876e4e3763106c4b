/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests verdicts about made-up runs, whose truth is known (watch_fixture.h); clocks.
 * tests/bench/watch.sh counts right verdicts over many runs.
 */
#include "watch_fixture.h"
#include "watch_verdict_fixture.h"

static const struct made usual = LIST(.ranks = 8, .per_host = 2, .steps = 400, .noise = 0.03,
                                      .transient = 0.01, .who = 5, .seed = 3);

static void judge(const struct made *m)
{
    struct watch_rules rules;

    watch_rules_init(&rules);
    made_run(m, &w);
    watch_judge(&w, &rules, &v);
}

TEST(healthy_runs_accuse_nobody)
{
    for (int seed = 1; seed <= 20; seed++) {
        struct made m = usual;
        m.who = -1;
        m.seed = (uint64_t)seed;
        m.pairs = seed % 2;
        judge(&m);
        if (v.findings)
            fail_msg("seed %d: %s", seed, v.finding[0].text);
        assert_null(v.why);
        assert_int_equal(v.state, HEALTH_OK);
        release();
    }
}

/* No rank arrives late: a rank completes late, and as late is its next arrival. */
TEST(time_that_is_lost_inside_calls_is_nobodys_and_reported)
{
    struct made m = usual;

    m.inside_s = 4e-3; /* every second step, which takes 1.22 ms: 4 of 6.44 ms, less chance */
    judge(&m);
    if (!(fabs(v.finding[0].share - 4 / 6.44) < 0.05))
        fail_msg("%g, expected %g", v.finding[0].share, 4 / 6.44);
    assert_string_equal(w.host[v.finding[0].host].name, "node2");
    found(WATCH_UNSTEADY, -1, HEALTH_WARNING,
          " % of the time is lost inside calls, which end late on rank 5"
          " (node2): ");
    m.inside_s = 4e-3 / 20; /* 8 % of the time: as latencies differ */
    judge(&m);
    assert_int_equal(v.findings, 0);
    release();
}

TEST(a_slow_rank_is_named_and_by_how_much)
{
    static const double slow[] = {0.1, 0.2, 0.5};

    for (int i = 0; i < 3; i++) {
        struct made m = usual;
        m.slow = slow[i];
        judge(&m);
        /* The others' step: 1.1 ms of work, 0.12 ms of transfers, and how long the latest of
           seven takes over the mean: 1.35 deviations of 3 %; all of that noise, 5 %, is
           allowed. */
        double want = 100 * 1.1 * slow[i] / (1.1 + 0.12);
        if (fabs(v.finding[0].percent - want) > 5)
            fail_msg("%g %%, expected %g", v.finding[0].percent, want);
        found(WATCH_LATE, 5, slow[i] > 0.4 ? HEALTH_CRITICAL : HEALTH_WARNING,
              "rank 5 (node2) is ");
    }
}

TEST(two_ranks_are_enough_to_tell_which_is_slow)
{
    struct made m = usual;

    m.ranks = 2;
    m.per_host = 1;
    m.who = 1;
    m.slow = 0.2;
    judge(&m);
    found(WATCH_LATE, 1, HEALTH_WARNING, "rank 1 (node1)");
}

/* Rank 1 works for 19 ms more before each call; on a busy machine a call lasts for 1 to 30 ms,
   the same for six: by 61 % to 950 % of the rest is the rank late. */
TEST(a_rank_that_is_late_for_most_of_the_time_is_named_however_the_rest_varies)
{
    enum { RANKS = 4, CALLS = 120 };

    for (uint64_t seed = 1; seed <= 20; seed++) {
        double now = 0, call_s = 0;
        w = (struct watch){0};
        for (int r = 0; r < RANKS; r++)
            watch_process(&w, (uint64_t)r + 1, r, "node");
        for (int i = 0; i < CALLS; i++) {
            if (i % 6 == 0)
                call_s = 1e-3 * pow(30, rng_uniform(seed, 1, (uint64_t)i));
            for (int r = 0; r < RANKS; r++)
                watch_add(
                    &w, &(struct watch_call){
                            .process = r,
                            .comm = watch_comm(&w, 9, RANKS),
                            .member = r,
                            .op = METER_ALL_REDUCE,
                            .sequence = i + 1,
                            .arrived_ns = 1 + (int64_t)(1e9 * (now + (r == 1 ? 20e-3 : 1e-3))),
                            .completed_ns = 1 + (int64_t)(1e9 * (now + 20e-3 + call_s))});
            now += 20e-3 + call_s;
        }
        judge_calls();
        v.findings = v.findings ? 1 : 0; /* behind it: calls take long at times */
        found(WATCH_LATE, 1, HEALTH_CRITICAL, "rank 1 (node)");
    }
}

/* Ranks work while their calls are under way.  A step is 1 ms of work, a call, 0.25 ms, a call,
 * 0.25 ms, a call, and a wait for all three.  Calls of one communicator queue: one arrives when
 * the previous one is over.  Rank 2 works longer by `slow`, where the work is `hidden` only
 * after the first call, which then lasts for 1 ms.  With `recorded` the work is known. */
static void overlapping_calls(int comms, double slow, int recorded, int hidden)
{
    enum { RANKS = 4, STEPS = 400, CALLS = 3 };
    static const double work_s[CALLS] = {1e-3, 0.25e-3, 0.25e-3};
    double pushed[RANKS][CALLS], work[RANKS][CALLS], free_s[2] = {0}, now[RANKS] = {0};
    int calls[2] = {0};
    uint64_t at = 0;

    w = (struct watch){0};
    for (int r = 0; r < RANKS; r++)
        watch_process(&w, (uint64_t)r + 1, r, "node");
    for (int r = 0; r < RANKS; r++) { /* a call at the start, on a communicator of its own */
        struct watch_call c =
            LIST(.process = r, .comm = watch_comm(&w, 9, RANKS), .member = r,
                 .op = METER_BARRIER, .sequence = 1, .arrived_ns = 1, .completed_ns = 1000);
        watch_add(&w, &c);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int r = 0; r < RANKS; r++)
            for (int k = 0; k < CALLS; k++)
                pushed[r][k] = now[r] += work[r][k] = work_s[k] *
                                                      (r == 2 && k >= hidden ? 1 + slow : 1) *
                                                      (1 + 0.03 * rng_normal(1, 2, at++));
        for (int k = 0; k < CALLS; k++) {
            double last = 0, arrived[RANKS];
            int which = k % comms, sequence = ++calls[which];
            for (int r = 0; r < RANKS; r++) {
                arrived[r] = fmax(pushed[r][k], free_s[which] + 1e-6);
                last = fmax(last, arrived[r]);
            }
            free_s[which] = last + (hidden && k == 0 ? 1e-3 : 2e-5);
            for (int r = 0; r < RANKS; r++) {
                now[r] = fmax(now[r], free_s[which]);
                struct watch_call c =
                    LIST(.process = r, .comm = watch_comm(&w, 1 + (uint64_t)which, RANKS),
                         .member = r, .op = METER_REDUCE_SCATTER, .sequence = sequence,
                         .bytes = 4096 << k, .arrived_ns = (int64_t)(1e9 * arrived[r]),
                         .completed_ns = (int64_t)(1e9 * free_s[which]),
                         .work_ns = (int64_t)(1e9 * recorded * work[r][k]));
                watch_add(&w, &c);
            }
        }
    }
    judge_calls();
}

/* With two communicators the third call shows all of it, 0.75 of 1.5 ms.  With one the queue
 * hides the others' work after the first call, which is 0.5 ms late in 2.25 ms: 29 %. */
TEST(lateness_counts_once_in_overlapping_calls)
{
    static const double least[] = {20, 40}, most[] = {40, 60};

    for (int comms = 1; comms <= 2; comms++) {
        overlapping_calls(comms, 0, 0, 0);
        for (int r = 0; r < 4; r++)
            for (int b = 0; b < WATCH_BLOCKS; b++)
                if (!(fabs(v.late[r].block[b]) < 10))
                    fail_msg("rank %d, block %d: %g %%", r, b, v.late[r].block[b]);
        assert_int_equal(v.findings, 0);
        release();
        overlapping_calls(comms, 0.5, 0, 0);
        double percent = v.late[2].percent;
        if (!(percent > least[comms - 1] && percent < most[comms - 1]))
            fail_msg("%d communicators: %g %%", comms, percent);
        found(WATCH_LATE, 2, v.state, "rank 2 (node) is ");
    }
}

/* 0.75 of 1.5 ms of work; noise and transfers are a tenth of the others' step.  What hides
 * in a call, 0.25 ms of work in 1 ms, makes nothing longer. */
TEST(recorded_work_is_compared_but_not_what_nobody_waits_for)
{
    for (int comms = 1; comms <= 2; comms++) {
        overlapping_calls(comms, 0, 1, 0);
        assert_int_equal(v.findings, 0);
        release();
        overlapping_calls(comms, 0.5, 1, 0);
        if (!(v.late[2].percent > 45 && v.late[2].percent < 50))
            fail_msg("%d communicators: %g %%", comms, v.late[2].percent);
        found(WATCH_LATE, 2, v.state, "rank 2 (node) is ");
    }
    overlapping_calls(1, 0.5, 1, 1);
    assert_true(v.late[2].percent < 1);
    assert_int_equal(v.findings, 0);
    release();
}

TEST(a_pause_every_100_ms_is_a_limit)
{
    struct made m = usual;

    m.steps = 3000;
    m.pause_s = 0.02;
    judge(&m);
    assert_true(fabs(v.finding[0].period - 0.1) < 0.005);
    found(WATCH_PAUSED, 5, HEALTH_CRITICAL, "a limit of its processor");
}

TEST(a_stall_every_ten_steps_is_input)
{
    struct made m = usual;

    m.stall_every = 10;
    m.stall = 2;
    judge(&m);
    found(WATCH_PERIODIC, 5, HEALTH_WARNING, "by a stall every 10 steps: its input");
    m.more_every = 95;
    judge(&m);
    found(WATCH_PERIODIC, 5, HEALTH_WARNING, "by a stall every 10 steps: its input");
}

TEST(a_slow_link_is_told_from_a_slow_rank)
{
    struct made m = usual;

    m.ranks = 16;
    m.pairs = 1;
    m.link = 2;
    judge(&m); /* rank 5 is on node2; its pairs are node2 and node3, two of them */
    assert_int_equal(v.findings, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(v.finding[i].kind, WATCH_LINK);
        assert_non_null(
            strstr(v.finding[i].text, "node2 to node3 is slow: all-reduce of 4.00 MiB"));
    }
    release();
}

TEST(a_rank_slow_in_its_pair_is_not_its_partner)
{
    struct made m = usual;

    m.pairs = 1;
    m.slow = 0.3;
    judge(&m);
    found(WATCH_LATE, 5, HEALTH_WARNING, "rank 5 (node2)");
}

TEST(a_host_all_of_whose_ranks_are_slow_is_named_once)
{
    struct made m = usual;
    struct watch_rules rules;

    m.ranks = 16;
    m.per_host = 4;
    m.slow = 0.3;
    m.whole_host = 1;
    made_run(&m, &w);
    watch_rules_init(&rules);
    watch_judge(&w, &rules, &v);
    assert_int_equal(v.finding[0].host, 1);
    found(WATCH_LATE, -1, HEALTH_WARNING, "node1: all of its 4 ranks are 2");
    m.more = 2; /* of one of them */
    made_run(&m, &w);
    watch_judge(&w, &rules, &v);
    found(WATCH_LATE, -1, HEALTH_CRITICAL, "node1: all of its 4 ranks are ");
}

TEST(a_rank_that_never_arrives)
{
    struct made m = usual;

    m.hang_at = 120;
    judge(&m);
    found(WATCH_HUNG, 5, HEALTH_CRITICAL,
          "hung: ranks 0-4, 6-7 wait in all-reduce of 8 B 240 (for");
    judge(&m);
    found(WATCH_HUNG, 5, HEALTH_CRITICAL,
          "rank 5 (node2) never arrived, its last call was all-gather of 1.00 MiB 239");
}

TEST(a_wait_is_no_hang_before_its_time)
{
    struct made m = usual;
    struct watch_rules rules;

    m.hang_at = 120;
    made_run(&m, &w);
    watch_rules_init(&rules);
    rules.hang_s = 1e6;
    watch_judge(&w, &rules, &v);
    assert_int_equal(v.findings, 0);
    release();
}

TEST(a_rank_that_calls_something_else)
{
    struct made m = usual;

    m.mismatch_at = 120;
    judge(&m);
    found(WATCH_MISMATCH, 5, HEALTH_CRITICAL,
          "mismatch: call 240: rank 5 (node2) called broadcast of 8 B, the others all-reduce");
}

/* Host clocks are hours apart here: a wait is counted on one of them. */
TEST(a_wait_is_counted_on_one_clock)
{
    struct made m = usual;
    struct watch_rules rules;

    m.hang_at = 120;
    watch_rules_init(&rules);
    for (int late = 0; late < 2; late++) {
        made_run(&m, &w);
        w.now_s = w.end_s + (late ? 90 : 30);
        watch_judge(&w, &rules, &v);
        if (late)
            found(WATCH_HUNG, 5, HEALTH_CRITICAL, "(for 90");
        else
            assert_int_equal(v.findings, 0);
        if (!late)
            release();
    }
}

/* One row of `size` ranks on a host each, the calls of the ranks [from, size). */
static void one_row(int size, int from, int op, int64_t bytes, int odd, int odd_op,
                    int64_t odd_bytes)
{
    char host[32];

    w = (struct watch){0};
    for (int r = from; r < size; r++) {
        snprintf(host, sizeof host, "node%d", r);
        struct watch_call c =
            LIST(.process = watch_process(&w, (uint64_t)r + 1, r, host),
                 .comm = watch_comm(&w, 1, size), .member = r, .op = r == odd ? odd_op : op,
                 .sequence = 1, .bytes = r == odd ? odd_bytes : bytes, .arrived_ns = 1000,
                 .completed_ns = 2000);
        watch_add(&w, &c);
    }
    judge_calls();
}

TEST(a_mismatch_among_many_ranks_of_which_the_first_have_no_records)
{
    one_row(1200, 100, METER_ALL_REDUCE, 8, 1100, METER_BARRIER, 0);
    found(WATCH_MISMATCH, 1100, HEALTH_CRITICAL, "rank 1100 (node1100) called barrier, the");
}

TEST(sizes_that_may_differ_are_no_mismatch)
{
    one_row(4, 0, METER_GATHER, 8, 0, METER_GATHER, 32);
    assert_int_equal(v.findings, 0);
    release();
    one_row(4, 0, METER_ALL_TO_ALL, 8, 2, METER_ALL_TO_ALL, 16);
    assert_int_equal(v.findings, 0);
    release();
    one_row(4, 0, METER_ALL_REDUCE, 8, 2, METER_ALL_REDUCE, 16);
    found(WATCH_MISMATCH, 2, HEALTH_CRITICAL, "called all-reduce of 16 B, the others");
}

/* Four pairs on eight hosts: the last one's calls take `ratio` as long, with other bytes. */
static void four_pairs(int64_t bytes, int64_t last_bytes, double ratio)
{
    char host[32];

    w = (struct watch){0};
    for (int r = 0; r < 8; r++) {
        snprintf(host, sizeof host, "node%d", r);
        int process = watch_process(&w, (uint64_t)r + 1, r, host),
            comm = watch_comm(&w, 1 + (uint64_t)r / 2, 2);
        for (int i = 1; i <= 100; i++) {
            int64_t at = 1000000 * (int64_t)i, took = 100000 + 10 * (i * (r / 2 + 1) % 7);
            struct watch_call c =
                LIST(.process = process, .comm = comm, .member = r % 2,
                     .op = bytes ? METER_ALL_REDUCE : METER_BARRIER, .sequence = i,
                     .bytes = r / 2 == 3 ? last_bytes : bytes, .arrived_ns = at,
                     .completed_ns = at + (int64_t)((double)took * (r / 2 == 3 ? ratio : 1)));
            watch_add(&w, &c);
        }
    }
    judge_calls();
}

TEST(more_bytes_are_no_slow_link)
{
    four_pairs(4 << 20, 7 << 20, 1.75);
    assert_int_equal(v.findings, 0);
    release();
    four_pairs(4 << 20, 4 << 20, 1.75);
    found(WATCH_LINK, -1, HEALTH_WARNING, "all-reduce of 4.00 MiB takes 1.75 times");
    four_pairs(0, 0, 1.75);
    found(WATCH_LINK, -1, HEALTH_WARNING, "slow: barrier takes 1.75 times");
}

TEST(members_of_communicators_are_bounded)
{
    int comms = 0;

    while (comms < WATCH_COMMS_MAX &&
           watch_comm(&w, (uint64_t)comms + 1, WATCH_RANKS_MAX) == comms)
        comms++;
    assert_int_equal(comms, WATCH_MEMBERS_MAX / WATCH_RANKS_MAX);
    assert_int_equal(watch_comm(&w, 1, WATCH_RANKS_MAX), 0);
    watch_release(&w);
}

TEST(the_rank_in_the_largest_communicator_is_taken)
{
    int p = watch_process(&w, 1, 1, "a");

    watch_rank(&w, p, 1, 2);
    watch_rank(&w, p, 6, 8);
    watch_rank(&w, p, 0, 4);
    assert_int_equal(w.process[p].rank, 6);
    watch_release(&w);
}

TEST(too_few_calls_are_no_verdict)
{
    struct made m = usual;

    m.steps = 15;
    m.slow = 0.5;
    judge(&m);
    assert_int_equal(v.findings, 0);
    assert_int_equal(v.state, HEALTH_UNKNOWN);
    assert_non_null(strstr(v.why, "fewer than 40 calls"));
    release();
}

TEST(clocks_are_known_within_their_error)
{
    for (int slow = 0; slow < 2; slow++) {
        struct made m = usual;
        m.slow = slow * 0.5;
        judge(&m);
        for (int h = 1; h < w.hosts; h++) {
            double want = made_clock_s(&m, 2 * h) - made_clock_s(&m, 0);
            assert_true(w.host[h].error_s > 0 && w.host[h].error_s < 1e-3);
            assert_true(fabs(w.host[h].offset_s - want) <= w.host[h].error_s);
        }
        release();
    }
}
