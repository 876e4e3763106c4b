/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the critical path: small steps whose answers are worked out by hand in the comments,
 * then generated ones, whose times a little simulator makes from durations and delays that it
 * knows.
 */
#include "unit.h"

#include "base/rng.h"
#include "step/step_path.h"

/* Times by hand are multiples of 1/8 below 64: sums of them are exact. */
enum { MOST = 8 };
struct answer {
    int parts;
    struct step_part
        part[MOST]; /* nodes of the second step count from 0, of the first -2 - row */
    double sum[STEP_PATH_SUMS], longest;
};

/* Rows of one step; the step before has run those whose time is in `before`. */
static void check(const struct step_row *row, int rows, const struct step_time *before,
                  const struct step_time *now, double start, double end,
                  const struct answer *want)
{
    struct step s = {.row = (struct step_row *)(uintptr_t)row, .rows = rows};
    struct step_time time[2 * MOST] = {{0}};
    struct step_path p;

    for (int i = 0; i < rows; i++) {
        time[rows + i] = now[i];
        if (before)
            time[i] = before[i];
    }
    step_path_init(&p, &s, time, start, end);
    assert_int_equal(p.parts, want->parts);
    for (int i = 0; i < p.parts; i++) {
        int node = want->part[i].node;
        assert_int_equal(p.part[i].node, node < -1 ? -2 - node : node < 0 ? -1 : rows + node);
        assert_true(p.part[i].start_s == want->part[i].start_s);
        assert_true(p.part[i].end_s == want->part[i].end_s);
    }
    for (int k = 0; k < STEP_PATH_SUMS; k++)
        assert_true(p.sum_s[k] == want->sum[k]);
    assert_true(p.longest_s == want->longest);
    step_path_release(&p);
}

#define COMPUTE(what, ...)                                                                     \
    {                                                                                          \
        .lane = STEP_COMPUTE, .kind = (what), .after = { __VA_ARGS__ }                         \
    }
#define TRANSFER(on, ...)                                                                      \
    {                                                                                          \
        .lane = (on), .kind = STEP_TRANSFER, .after = { __VA_ARGS__ }                          \
    }
#define RAN(...)                                                                               \
    {                                                                                          \
        1, __VA_ARGS__, 0, 0                                                                   \
    }

/* Nothing but computing: all of it is the path, and what is left at the end is a gap. */
TEST(one_lane)
{
    const struct step_row row[] = {COMPUTE(STEP_BEGIN, -1, -1), COMPUTE(STEP_FORWARD, -1, -1),
                                   COMPUTE(STEP_AGREE, -1, -1)};
    const struct step_time now[] = {RAN(0, 0, 2), RAN(2, 2, 7), RAN(7, 7, 9)};
    const struct answer want = {
        .parts = 4,
        .part = {{0, 0, 2}, {1, 2, 7}, {2, 7, 9}, {-1, 9, 10}},
        .sum = {[STEP_PATH_COMPUTE] = 7, [STEP_PATH_AGREE] = 2, [STEP_PATH_GAP] = 1},
        .longest = 9};

    check(row, 3, NULL, now, 0, 10, &want);
}

/*
 *     gather      [g0 1.5-4] [g1 4.5-8]           both issued at 1
 *     compute  b 0-1, wait -4.25, F0 -6, wait -8.5, F1 -10
 *
 * Back from 10: F1 from 8.5; g1 ended at 8, half a second before; g0 had the stream until 4, so
 * that g1 was held up by it; g0 was issued behind b and began half a second later.  Computing
 * 1 + 1.5, gathers 2.5 + 3.5, gaps 1.5.  F0 is not on it.  Without gaps: b 1, g0 3.5, g1 7, F1
 * 8.5.
 */
TEST(gathers_in_order)
{
    const struct step_row row[] = {COMPUTE(STEP_BEGIN, -1, -1), TRANSFER(STEP_GATHER, 0, -1),
                                   TRANSFER(STEP_GATHER, 0, -1), COMPUTE(STEP_FORWARD, 1, -1),
                                   COMPUTE(STEP_FORWARD, 2, -1)};
    const struct step_time now[] = {RAN(0, 0, 1), RAN(1, 1.5, 4), RAN(1, 4.5, 8),
                                    RAN(1, 4.25, 6), RAN(6, 8.5, 10)};
    const struct answer want = {
        .parts = 7,
        .part = {{0, 0, 1},
                 {-1, 1, 1.5},
                 {1, 1.5, 4},
                 {-1, 4, 4.5},
                 {2, 4.5, 8},
                 {-1, 8, 8.5},
                 {4, 8.5, 10}},
        .sum = {[STEP_PATH_COMPUTE] = 2.5, [STEP_PATH_GATHER] = 6, [STEP_PATH_GAP] = 1.5},
        .longest = 8.5};

    check(row, 5, NULL, now, 0, 10, &want);
}

/* A stream that slept from 1 to 5 makes the gather the last to come; without gaps the reduction
 * is: b 1, r 7.5, F 7.75, and then the last computation, 2, whose gather was there at 4. */
TEST(longest_is_elsewhere)
{
    const struct step_row row[] = {
        COMPUTE(STEP_BEGIN, -1, -1), TRANSFER(STEP_GATHER, 0, -1), TRANSFER(STEP_REDUCE, 0, -1),
        COMPUTE(STEP_ACCUMULATE, 2, -1), COMPUTE(STEP_BACKWARD, 1, -1)};
    const struct step_time now[] = {RAN(0, 0, 1), RAN(1, 5, 8), RAN(1, 1, 7.5),
                                    RAN(1, 7.5, 7.75), RAN(7.75, 8, 10)};
    const struct answer want = {
        .parts = 4,
        .part = {{0, 0, 1}, {-1, 1, 5}, {1, 5, 8}, {4, 8, 10}},
        .sum = {[STEP_PATH_COMPUTE] = 3, [STEP_PATH_GATHER] = 3, [STEP_PATH_GAP] = 4},
        .longest = 9.75};

    check(row, 5, NULL, now, 0, 10, &want);
}

/* Two streams: the second conversion was issued at 2 and waits for its reduction, until 5, and
 * then a quarter; the one before it in its own stream was there at 4.  Without gaps: a 1, r 1
 * to 5, c2 5 to 7, U 8. */
TEST(behind_another)
{
    const struct step_row row[] = {
        COMPUTE(STEP_ACCUMULATE, -1, -1), TRANSFER(STEP_REDUCE, 0, -1),
        TRANSFER(STEP_CONVERT, 0, -1),    COMPUTE(STEP_ACCUMULATE, -1, -1),
        TRANSFER(STEP_CONVERT, 3, 1),     COMPUTE(STEP_UPDATE, 4, -1)};
    const struct step_time now[] = {RAN(0, 0, 1), RAN(1, 1, 5),       RAN(1, 1, 4),
                                    RAN(1, 1, 2), RAN(2, 5.25, 7.25), RAN(2, 7.25, 8.25)};
    const struct answer want = {
        .parts = 5,
        .part = {{0, 0, 1}, {1, 1, 5}, {-1, 5, 5.25}, {4, 5.25, 7.25}, {5, 7.25, 8.25}},
        .sum = {[STEP_PATH_COMPUTE] = 2, [STEP_PATH_REDUCE] = 6, [STEP_PATH_GAP] = 0.25},
        .longest = 8};

    check(row, 6, NULL, now, 0, 8.25, &want);
}

/* The window is 10 to 20.  The step before issued two syncs; the second one has a part of 3 in
 * the window, and is waited for until 13.5.  Without gaps F begins at 3.  The backward waits a
 * second for what is not kept: a gap, which the longest path leaves out. */
TEST(clipped)
{
    const struct step_row row[] = {COMPUTE(STEP_BEGIN, -1, -1),    COMPUTE(STEP_FORWARD, 5, -1),
                                   COMPUTE(STEP_BACKWARD, -1, -1), COMPUTE(STEP_UPDATE, -1, -1),
                                   TRANSFER(STEP_SYNC, 3, -1),     TRANSFER(STEP_SYNC, 3, -1)};
    const struct step_time before[] = {
        [3] = RAN(5, 5, 9), [4] = RAN(7, 7, 9), [5] = RAN(9, 9, 13)};
    const struct step_time now[] = {
        RAN(10, 10, 11), RAN(11, 13.5, 17), RAN(17, 18, 20), {0}, {0}, {0}};
    const struct answer want = {
        .parts = 5,
        .part = {{-7, 10, 13}, {-1, 13, 13.5}, {1, 13.5, 17}, {-1, 17, 18}, {2, 18, 20}},
        .sum = {[STEP_PATH_COMPUTE] = 5.5, [STEP_PATH_SYNC] = 3, [STEP_PATH_GAP] = 1.5},
        .longest = 8.5};

    check(row, 6, before, now, 10, 20, &want);
}

/* The first row of the step before, of which a second is in the window, is no gap. */
TEST(the_first_row)
{
    const struct step_row row[] = {COMPUTE(STEP_UPDATE, -1, -1), COMPUTE(STEP_FORWARD, 2, -1),
                                   TRANSFER(STEP_SYNC, 0, -1)};
    const struct step_time before[] = {RAN(9, 9, 11), {0}, RAN(11, 11, 13)};
    const struct step_time now[] = {{0}, RAN(11, 13, 20), {0}};
    const struct answer want = {.parts = 3,
                                .part = {{-2, 10, 11}, {-4, 11, 13}, {1, 13, 20}},
                                .sum = {[STEP_PATH_COMPUTE] = 8, [STEP_PATH_SYNC] = 2},
                                .longest = 10};

    check(row, 3, before, now, 10, 20, &want);
}

/* A lane of one row: it waits for its own end in the step before, not for who issued it. */
TEST(behind_itself)
{
    const struct step_row row[] = {COMPUTE(STEP_UPDATE, -1, -1)};
    const struct step_time before[] = {RAN(9, 9, 12)}, now[] = {RAN(10, 12, 15)};
    const struct answer want = {.parts = 2,
                                .part = {{-2, 10, 12}, {0, 12, 15}},
                                .sum = {[STEP_PATH_COMPUTE] = 5},
                                .longest = 5};

    check(row, 1, before, now, 10, 15, &want);
}

/* Simulates two steps: each row begins as soon as it can and a delay later.  Returns when the
   first ends. */
static double make(const struct step *s, struct step_time *time, uint64_t seed, double delay_s)
{
    double end_s[STEP_LANES] = {0}, first_s = 0;
    uint64_t drawn = 0;

    for (int i = 0; i < 2 * s->rows; i++) {
        struct step_time *t = &time[i];
        int lane = s->row[i % s->rows].lane, waits = lane != STEP_COMPUTE;
        t->ran = 1;
        t->issued_s = t->start_s = end_s[STEP_COMPUTE];
        for (int k = 0; k <= STEP_AFTERS; k++) {
            int at = k < STEP_AFTERS ? step_after(s, i, k) : -1;
            double ready_s = at >= 0 ? time[at].end_s : k < STEP_AFTERS ? 0 : end_s[lane];
            waits |= ready_s > t->start_s;
            t->start_s = fmax(t->start_s, ready_s);
        }
        t->start_s += waits ? delay_s * rng_uniform(seed, 0, drawn++) : 0;
        t->end_s = end_s[lane] = t->start_s + 0.01 + rng_uniform(seed, 1, drawn++);
        if (i < s->rows && lane == STEP_COMPUTE)
            first_s = t->end_s;
    }
    return first_s;
}

/* Whatever happened: the parts follow each other and fill the window, the longest path is no
 * longer than it and no shorter than the parts that are no gaps; without delays there is no gap
 * and the longest path is the step.  Sums of 300 times below 1000, twice: off by 600 x 1000 x
 * 2^-53 < 1e-10 at most. */
static void check_random(const struct step *s, uint64_t seed, int late)
{
    struct step_time *time = mem_new(2 * (size_t)s->rows, sizeof *time);
    const double off = 1e-10;
    double at_s = make(s, time, seed, late ? 0.5 : 0), start_s = at_s, sum_s = 0, end_s = 0;
    struct step_path p;

    for (int i = s->rows; i < 2 * s->rows; i++)
        if (s->row[i - s->rows].lane == STEP_COMPUTE)
            end_s = time[i].end_s;
    step_path_init(&p, s, time, start_s, end_s);
    for (int i = 0; i < p.parts; i++) {
        assert_true(p.part[i].start_s == at_s && p.part[i].end_s > at_s);
        at_s = p.part[i].end_s;
    }
    assert_true(at_s == end_s);
    for (int k = 0; k < STEP_PATH_SUMS; k++)
        sum_s += p.sum_s[k];
    assert_true(fabs(sum_s - (end_s - start_s)) < off);
    assert_true(p.longest_s < end_s - start_s + off);
    assert_true(p.longest_s > end_s - start_s - p.sum_s[STEP_PATH_GAP] - off);
    if (!late)
        assert_true(p.sum_s[STEP_PATH_GAP] < off && p.longest_s > end_s - start_s - off);
    step_path_release(&p);
    mem_free(time);
}

TEST(random_steps)
{
    static const char trains[] = {1, 1, 1, 1};

    for (uint64_t seed = 0; seed < 400; seed++) {
        struct step s;
        struct step_shape shape = LIST(.units = 4, .visits = 4 + seed % 2, .trains = trains,
                                       .micros = 1 + seed / 16 % 3, .prefetch = seed / 48 % 3,
                                       .keep = seed / 144 % 3, .buckets = 1 + seed % 2);
        for (int l = 0; l < STEP_COMPUTE; l++)
            shape.has[l] = seed >> l & 1;
        step_gen(&s, &shape);
        check_random(&s, seed, 0);
        check_random(&s, seed, 1);
        step_release(&s);
    }
}
