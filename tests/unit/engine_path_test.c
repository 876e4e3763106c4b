/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The critical path: small steps whose answers are worked out by hand in the comments, then
 * random ones, whose times a little simulator makes from durations and delays that it knows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine_trace.h"

/* Times by hand are multiples of 1/8 below 64: sums of them are exact. */
static struct engine_event compute(enum engine_event_kind kind, double start, double end)
{
    return (struct engine_event){.kind = kind,
                                 .lane = ENGINE_LANE_COMPUTE,
                                 .cause = -1,
                                 .behind = -1,
                                 .start_s = start,
                                 .end_s = end};
}

static struct engine_event waited(int cause, double start, double end)
{
    struct engine_event v = compute(ENGINE_WAITED, start, end);

    v.cause = cause;
    return v;
}

static struct engine_event moved(enum engine_event_kind kind, int cause, double pushed,
                                 double start, double end)
{
    static const int lanes[ENGINE_EVENT_KINDS] = {[ENGINE_GATHERED] = ENGINE_LANE_GATHERS,
                                                  [ENGINE_REDUCED] = ENGINE_LANE_REDUCES,
                                                  [ENGINE_CONVERTED] = ENGINE_LANE_BOUNDARIES,
                                                  [ENGINE_SYNCED] = ENGINE_LANE_SYNCS};

    return (struct engine_event){.kind = kind,
                                 .lane = lanes[kind],
                                 .cause = cause,
                                 .behind = -1,
                                 .pushed_s = pushed,
                                 .start_s = start,
                                 .end_s = end};
}

static struct engine_event moved_behind(enum engine_event_kind kind, int behind, int cause,
                                        double pushed, double start, double end)
{
    struct engine_event v = moved(kind, cause, pushed, start, end);

    v.behind = behind;
    return v;
}

struct answer {
    int parts;
    struct engine_path_part part[16];
    double sum[ENGINE_PATH_SUMS], longest;
};

static void check(const struct engine_event *event, int count, double start, double end,
                  const struct answer *want)
{
    struct engine_path p;

    engine_path_init(&p, event, count, start, end);
    assert_int_equal(p.parts, want->parts);
    for (int i = 0; i < p.parts; i++) {
        assert_int_equal(p.part[i].event, want->part[i].event);
        assert_true(p.part[i].start_s == want->part[i].start_s);
        assert_true(p.part[i].end_s == want->part[i].end_s);
    }
    for (int s = 0; s < ENGINE_PATH_SUMS; s++)
        assert_true(p.sum_s[s] == want->sum[s]);
    assert_true(p.longest_s == want->longest);
    engine_path_release(&p);
}

/* Nothing but computing: all of it is the path, and what is left at the end is a gap. */
static void one_lane(void **state)
{
    const struct engine_event v[] = {compute(ENGINE_BEGAN, 0, 2), compute(ENGINE_FORWARD, 2, 7),
                                     compute(ENGINE_AGREE, 7, 9)};
    const struct answer want = {
        .parts = 4,
        .part = {{0, 0, 2}, {1, 2, 7}, {2, 7, 9}, {-1, 9, 10}},
        .sum = {[ENGINE_PATH_COMPUTE] = 7, [ENGINE_PATH_AGREEMENT] = 2, [ENGINE_PATH_GAPS] = 1},
        .longest = 9};
    const struct answer nothing = {
        .parts = 1, .part = {{-1, 0, 10}}, .sum = {[ENGINE_PATH_GAPS] = 10}};

    (void)state;
    check(v, 3, 0, 10, &want);
    check(NULL, 0, 0, 10, &nothing);
}

/*
 *     gathers     [g0 1.5-4] [g1 4.5-8]           both pushed at 1
 *     compute  b 0-1, wait -4.25, F0 -6, wait -8.5, F1 -10
 *
 * Back from 10: F1 from 8.5; g1 ended at 8, half a second before; g0 had the stream until 4, so
 * that g1 was held up by it; g0 was pushed behind b and began half a second later.  Computing
 * 1 + 1.5, gathers 2.5 + 3.5, gaps 1.5.  F0 is not on it.  Without gaps: b 1, g0 3.5, g1 7, F1
 * 8.5.
 */
static void gathers_in_order(void **state)
{
    const struct engine_event v[] = {
        compute(ENGINE_BEGAN, 0, 1),          moved(ENGINE_GATHERED, 0, 1, 1.5, 4),
        moved(ENGINE_GATHERED, 0, 1, 4.5, 8), waited(1, 1, 4.25),
        compute(ENGINE_FORWARD, 4.25, 6),     waited(2, 6, 8.5),
        compute(ENGINE_FORWARD, 8.5, 10)};
    const struct answer want = {
        .parts = 7,
        .part = {{0, 0, 1},
                 {-1, 1, 1.5},
                 {1, 1.5, 4},
                 {-1, 4, 4.5},
                 {2, 4.5, 8},
                 {-1, 8, 8.5},
                 {6, 8.5, 10}},
        .sum =
            {[ENGINE_PATH_COMPUTE] = 2.5, [ENGINE_PATH_GATHERS] = 6, [ENGINE_PATH_GAPS] = 1.5},
        .longest = 8.5};

    (void)state;
    check(v, 7, 0, 10, &want);
}

/*
 * A stream that slept from 1 to 5 makes the gather the last to come; without gaps the reduction
 * is: b 1, r 7.5, F 7.75, and then the last computation, 2, whose gather was there at 4.
 */
static void longest_is_elsewhere(void **state)
{
    const struct engine_event v[] = {
        compute(ENGINE_BEGAN, 0, 1),         moved(ENGINE_GATHERED, 0, 1, 5, 8),
        moved(ENGINE_REDUCED, 0, 1, 1, 7.5), waited(2, 1, 7.5),
        compute(ENGINE_ADDED, 7.5, 7.75),    waited(1, 7.75, 8),
        compute(ENGINE_BACKWARD, 8, 10)};
    const struct answer want = {
        .parts = 4,
        .part = {{0, 0, 1}, {-1, 1, 5}, {1, 5, 8}, {6, 8, 10}},
        .sum = {[ENGINE_PATH_COMPUTE] = 3, [ENGINE_PATH_GATHERS] = 3, [ENGINE_PATH_GAPS] = 4},
        .longest = 9.75};

    (void)state;
    check(v, 7, 0, 10, &want);
}

/*
 * Pushed at 1, while the computation behind which it was pushed went on until 4: only its first
 * second is on the path.  Without the quarter of a second until the stream took it up: 7.75.
 */
static void pushed_amidst(void **state)
{
    const struct engine_event v[] = {compute(ENGINE_ADDED, 0, 4),
                                     moved(ENGINE_CONVERTED, 0, 1, 1.25, 6), waited(1, 4, 6),
                                     compute(ENGINE_UPDATE, 6, 8)};
    const struct answer want = {.parts = 4,
                                .part = {{0, 0, 1}, {-1, 1, 1.25}, {1, 1.25, 6}, {3, 6, 8}},
                                .sum = {[ENGINE_PATH_COMPUTE] = 3,
                                        [ENGINE_PATH_REDUCES] = 4.75,
                                        [ENGINE_PATH_GAPS] = 0.25},
                                .longest = 7.75};

    (void)state;
    check(v, 4, 0, 8, &want);
}

/*
 * Two streams: the boundary was pushed at 2 and waits for its reduction, until 5, and then a
 * quarter; the one before it in its own stream was there at 4.  Without gaps: a 1, r 1 to 5, b2
 * 5 to 7, U 8.  A gather whose sync was there before it was pushed is held up by its cause.
 */
static void behind_another(void **state)
{
    const struct engine_event v[] = {compute(ENGINE_ADDED, 0, 1),
                                     moved(ENGINE_REDUCED, 0, 1, 1, 5),
                                     moved(ENGINE_CONVERTED, 0, 1, 1, 4),
                                     compute(ENGINE_ADDED, 1, 2),
                                     moved_behind(ENGINE_CONVERTED, 1, 3, 2, 5.25, 7.25),
                                     waited(4, 2, 7.25),
                                     compute(ENGINE_UPDATE, 7.25, 8.25)};
    const struct answer want = {
        .parts = 5,
        .part = {{0, 0, 1}, {1, 1, 5}, {-1, 5, 5.25}, {4, 5.25, 7.25}, {6, 7.25, 8.25}},
        .sum =
            {[ENGINE_PATH_COMPUTE] = 2, [ENGINE_PATH_REDUCES] = 6, [ENGINE_PATH_GAPS] = 0.25},
        .longest = 8};
    const struct engine_event w[] = {compute(ENGINE_UPDATE, 0, 1),
                                     moved(ENGINE_SYNCED, 0, 1, 1, 2),
                                     compute(ENGINE_BEGAN, 1, 3),
                                     moved_behind(ENGINE_GATHERED, 1, 2, 3, 3.5, 5),
                                     waited(3, 3, 5),
                                     compute(ENGINE_FORWARD, 5, 6)};
    const struct answer there = {
        .parts = 5,
        .part = {{0, 0, 1}, {2, 1, 3}, {-1, 3, 3.5}, {3, 3.5, 5}, {5, 5, 6}},
        .sum =
            {[ENGINE_PATH_COMPUTE] = 4, [ENGINE_PATH_GATHERS] = 1.5, [ENGINE_PATH_GAPS] = 0.5},
        .longest = 5.5};

    (void)state;
    check(v, 7, 0, 8.25, &want);
    check(w, 6, 0, 6, &there);
}

/*
 * The window is 10 to 20.  Two syncs were pushed by the step before; the second one has a part
 * of 3 in the window, and is waited for until 13.5.  Without gaps F begins at 3.  What was
 * there when it was asked for (the wait of no length) holds nobody up, and a wait for what is
 * not known is a gap: of 1, which the longest path leaves out.
 */
static void clipped(void **state)
{
    const struct engine_event v[] = {compute(ENGINE_UPDATE, 5, 9),
                                     moved(ENGINE_SYNCED, 0, 7, 7, 9),
                                     moved(ENGINE_SYNCED, 0, 9, 9, 13),
                                     compute(ENGINE_BEGAN, 10, 11),
                                     waited(1, 11, 11),
                                     waited(2, 11, 13.5),
                                     compute(ENGINE_FORWARD, 13.5, 17),
                                     waited(-1, 17, 18),
                                     compute(ENGINE_BACKWARD, 18, 20)};
    const struct answer want = {
        .parts = 5,
        .part = {{2, 10, 13}, {-1, 13, 13.5}, {6, 13.5, 17}, {-1, 17, 18}, {8, 18, 20}},
        .sum = {[ENGINE_PATH_COMPUTE] = 5.5, [ENGINE_PATH_SYNCS] = 3, [ENGINE_PATH_GAPS] = 1.5},
        .longest = 8.5};

    (void)state;
    check(v, 9, 10, 20, &want);
}

/* A step by simulation: who waits for whom is drawn at random, times follow. */
struct made {
    struct engine_event event[400];
    int count, last[ENGINE_LANES];
    double free_s[ENGINE_LANES];
    uint64_t seed, drawn;
    double delay_s; /* at most, before anybody begins */
};

static double upto(struct made *m, double most)
{
    return most * rng_uniform(m->seed, 0, m->drawn++);
}

static void make_compute(struct made *m)
{
    int lane = upto(m, 1) < 0.5 ? ENGINE_LANE_GATHERS : ENGINE_LANE_REDUCES;
    double now = m->free_s[ENGINE_LANE_COMPUTE];

    if (m->last[lane] >= 0 && upto(m, 1) < 0.6) {
        /* any conversion of the lane, there or not */
        int cause = m->last[lane];
        while (upto(m, 1) < 0.3) {
            int before = cause - 1;
            while (before >= 0 && m->event[before].lane != lane)
                before--;
            cause = before >= 0 ? before : cause;
        }
        double end = m->event[cause].end_s;
        end = end > now ? end + upto(m, m->delay_s) : now;
        m->event[m->count++] = waited(cause, now, end);
        now = end;
    }
    m->last[ENGINE_LANE_COMPUTE] = m->count;
    m->free_s[ENGINE_LANE_COMPUTE] = now + 0.01 + upto(m, 1);
    m->event[m->count++] = compute(ENGINE_FORWARD, now, m->free_s[ENGINE_LANE_COMPUTE]);
}

/* Pushed behind the last computation, or amidst it. */
static void make_move(struct made *m)
{
    int lane = upto(m, 1) < 0.5 ? ENGINE_LANE_GATHERS : ENGINE_LANE_REDUCES;
    int cause = m->last[ENGINE_LANE_COMPUTE];
    const struct engine_event *c = &m->event[cause];
    double pushed =
        upto(m, 1) < 0.5 ? c->end_s : c->start_s + upto(m, 1) * (c->end_s - c->start_s);
    int other = ENGINE_LANE_GATHERS + ENGINE_LANE_REDUCES - lane;
    int behind = upto(m, 1) < 0.3 ? m->last[other] : -1;
    double ready = behind >= 0 ? m->event[behind].end_s : 0;
    double start = fmax(fmax(pushed, ready), m->free_s[lane]) + upto(m, m->delay_s);

    m->free_s[lane] = start + 0.01 + upto(m, 2);
    m->last[lane] = m->count;
    m->event[m->count++] =
        moved_behind(lane == ENGINE_LANE_GATHERS ? ENGINE_GATHERED : ENGINE_REDUCED, behind,
                     cause, pushed, start, m->free_s[lane]);
}

static void make(struct made *m, uint64_t seed, double delay_s)
{
    *m = (struct made){.last = {-1, -1, -1, -1, -1}, .seed = seed, .delay_s = delay_s};
    make_compute(m);
    while (m->count < 300)
        if (upto(m, 1) < 0.5)
            make_move(m);
        else
            make_compute(m);
    make_compute(m);
}

/*
 * Whatever happened: the parts follow each other and fill the window, the longest path is no
 * longer than it and no shorter than the parts that are no gaps; without delays there is no gap
 * and the longest path is the step.  Sums of 300 times below 1000, twice: off by 600 x 1000 x
 * 2^-53 < 1e-10 at most.
 */
static void random_steps(void **state)
{
    static struct made m;
    const double off = 1e-10;

    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct engine_path p;
        int late = seed % 2;
        make(&m, seed, late ? 0.5 : 0);
        double end_s = m.free_s[ENGINE_LANE_COMPUTE], at_s = 0, sum_s = 0;
        engine_path_init(&p, m.event, m.count, 0, end_s);
        for (int i = 0; i < p.parts; i++) {
            assert_true(p.part[i].start_s == at_s && p.part[i].end_s > at_s);
            at_s = p.part[i].end_s;
        }
        assert_true(at_s == end_s);
        for (int s = 0; s < ENGINE_PATH_SUMS; s++)
            sum_s += p.sum_s[s];
        assert_true(fabs(sum_s - end_s) < off);
        assert_true(p.longest_s < end_s + off);
        assert_true(p.longest_s > end_s - p.sum_s[ENGINE_PATH_GAPS] - off);
        assert_true(late ? p.sum_s[ENGINE_PATH_GAPS] > 0
                         : p.sum_s[ENGINE_PATH_GAPS] < off && fabs(p.longest_s - end_s) < off);
        engine_path_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_lane),
                                       cmocka_unit_test(gathers_in_order),
                                       cmocka_unit_test(longest_is_elsewhere),
                                       cmocka_unit_test(pushed_amidst),
                                       cmocka_unit_test(behind_another),
                                       cmocka_unit_test(clipped),
                                       cmocka_unit_test(random_steps)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
