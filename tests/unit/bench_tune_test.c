/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests which of the measured entries is taken, and after how many rounds. */
#include "unit.h"

#include "bench/bench_parts.h"

enum { ROUNDS = 20, ENTRIES = 3 };

struct contest {
    struct bench_entry e[ENTRIES];
    double seconds[ENTRIES][ROUNDS];
};

/* ring, ho-ring and tree, predicted 1, 2 and 3 s; all measured at 1 s in every round. */
static void begin(struct contest *c)
{
    static const enum schedule_algo algo[] = {SCHEDULE_RING, SCHEDULE_HO_RING, SCHEDULE_TREE};

    for (int i = 0; i < ENTRIES; i++) {
        c->e[i] = (struct bench_entry){
            .choice = {.algo = algo[i]}, .predicted_s = i + 1, .seconds = c->seconds[i]};
        for (int k = 0; k < ROUNDS; k++)
            c->seconds[i][k] = 1;
    }
}

static void all_rounds(struct contest *c, int entry, double seconds)
{
    for (int k = 0; k < ROUNDS; k++)
        c->seconds[entry][k] = seconds;
}

TEST(the_fastest_wins_whatever_was_predicted)
{
    struct contest c;

    for (int entry = 0; entry < ENTRIES; entry++) {
        begin(&c);
        all_rounds(&c, entry, 0.5);
        assert_int_equal(bench_tune_choose(c.e, ENTRIES, ROUNDS), entry);
        assert_true(c.e[entry].median_s == 0.5);
        assert_true(c.e[(entry + 1) % ENTRIES].median_s == 1);
    }
}

TEST(among_equals_the_prediction_decides)
{
    struct contest c;

    begin(&c);
    assert_int_equal(bench_tune_choose(c.e, ENTRIES, ROUNDS), 0);
    c.e[0].predicted_s = 9;
    assert_int_equal(bench_tune_choose(c.e, ENTRIES, ROUNDS), 1);
    /* a gain of less than 2 % is none, and one of more is one */
    all_rounds(&c, 2, 1 / 1.019);
    assert_int_equal(bench_tune_choose(c.e, ENTRIES, ROUNDS), 1);
    all_rounds(&c, 2, 1 / 1.021);
    assert_int_equal(bench_tune_choose(c.e, ENTRIES, ROUNDS), 2);
    /* predicted alike: the one that stands first */
    begin(&c);
    c.e[1].predicted_s = 1;
    assert_int_equal(bench_tune_choose(c.e, ENTRIES, ROUNDS), 0);
}

/* In 20 throws of a coin 5 heads or fewer come once in 48 times, 6 or fewer once in 17: the
   limit is once in 32. */
TEST(noise_is_told_by_the_rounds_that_were_won)
{
    struct contest c;

    for (int won = 0; won <= 9; won++) {
        begin(&c);
        all_rounds(&c, 1, 0.8); /* the least median, and the worse prediction */
        for (int k = 0; k < won; k++)
            c.seconds[1][2 * k] = 5;
        assert_int_equal(bench_tune_choose(c.e, 2, ROUNDS), won <= 5 ? 1 : 0);
    }
    /* five rounds: all of them, or nothing is told */
    begin(&c);
    all_rounds(&c, 1, 0.8);
    assert_int_equal(bench_tune_choose(c.e, 2, 5), 1);
    c.seconds[1][3] = 5;
    assert_int_equal(bench_tune_choose(c.e, 2, 5), 0);
    assert_int_equal(bench_tune_choose(c.e, 2, 4), 0);
}

TEST(the_runner_up_is_another_algorithm)
{
    struct contest c;

    begin(&c);
    c.e[1].choice.algo = SCHEDULE_RING;
    all_rounds(&c, 1, 1.1);
    all_rounds(&c, 2, 1.5);
    assert_int_equal(bench_tune_choose(c.e, ENTRIES, ROUNDS), 0);
    assert_int_equal(bench_tune_second(c.e, ENTRIES, 0), 2);
    assert_int_equal(bench_tune_second(c.e, ENTRIES, 2), 0);
    assert_int_equal(bench_tune_second(c.e, 2, 0), -1);
}

TEST(a_faster_runner_up_is_within_noise)
{
    struct pick_answer a = {.phases = SCHEDULE_ALL_GATHER,
                            .bytes = 1 << 20,
                            .best = {SCHEDULE_RING, PICK_CHUNK_WHOLE, 2e-3},
                            .second = {SCHEDULE_HO_RING, PICK_CHUNK_WHOLE, 1.9e-3}};

    for (int faster = 1; faster >= 0; faster--) {
        char text[128] = "";
        FILE *out = fmemopen(text, sizeof text, "w");
        a.second.time_s = faster ? 1.9e-3 : 2.1e-3;
        bench_tune_describe(&a, out);
        fclose(out);
        assert_int_equal(strstr(text, "(0.95x, within noise)") != NULL, faster);
        assert_int_equal(strstr(text, "(1.05x)") != NULL, !faster);
    }
}

TEST(rounds_fill_two_seconds)
{
    assert_int_equal(bench_tune_rounds(0), 200);
    assert_int_equal(bench_tune_rounds(1e-3), 200);
    assert_int_equal(bench_tune_rounds(0.125), 16);
    assert_int_equal(bench_tune_rounds(0.4), 5);
    assert_int_equal(bench_tune_rounds(60), 5);
}

/* Each of two follows itself as often as the other; none is left out of an iteration. */
TEST(turns_are_reversed_every_other_time)
{
    int follows[2][2] = {{0}}, last = bench_round(-1, 1, 2);

    for (int i = 0; i < 8; i++)
        for (int at = 0; at < 2; at++) {
            int now = bench_round(i, at, 2);
            follows[now][last]++;
            last = now;
        }
    for (int i = 0; i < 4; i++)
        assert_int_equal(follows[i / 2][i % 2], 4);
    assert_int_equal(bench_round(0, 1, 5) + bench_round(1, 1, 5), 4);
}
