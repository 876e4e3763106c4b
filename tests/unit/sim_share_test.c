/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the simulator's rules one at a time, on a few messages whose times are worked out by
 * hand: what is shared and how, queues, places and barriers, the cut bound.
 */
#include "unit.h"

#include "sim/sim.h"
#include "topo_fixture.h"

/* Some ten terms, each rounded to 2^-53 of the whole. */
static const double ROUNDING = 0x1p-48;

static void same(double have, double want, const char *what)
{
    if (!(fabs(have - want) <= ROUNDING * want))
        fail_msg("%s: %.17g, expected %.17g", what, have, want);
}

/* One row for each message, all of step 0 and of a lane of their own. */
static void by_hand(struct schedule *s, const struct groups *g, int rows, const int (*ends)[2])
{
    *s = (struct schedule){.chunks = rows, .lanes = rows, .subchunks = 1, .rows = rows};
    groups_copy(&s->groups, g);
    s->row = mem_new((size_t)rows, sizeof *s->row);
    for (int i = 0; i < rows; i++)
        s->row[i] = (struct schedule_row){
            .lane = i, .src = ends[i][0], .dst = ends[i][1], .chunk = i, .into = i};
}

static struct sim_times times_of(const struct schedule *s, const struct topo *t,
                                 const int64_t *bytes)
{
    struct sim_times times;

    assert_ok(sim_rows(s, t, bytes, 1, &times, &err));
    return times;
}

/* Ports of 12 B/s out, group 1's of 2 B/s in; flows 0->1, 0->2, 0->2': the narrow port gives 2,
 * the rest shares 10.  24 bytes each: 0->2 are sent at 4.8 s, 0->1 at 12 s. */
TEST(ports_are_shared_max_min)
{
    static const int ends[][2] = {{0, 2}, {0, 4}, {1, 5}};
    const int64_t bytes[] = {24, 24, 24};
    struct topo t = read_synth("3x2,intra=100B/s:1s,inter=12B/s:3s");
    struct schedule s;

    t.port[1].in_Bps = 2;
    by_hand(&s, &t.groups, 3, ends);
    struct sim_times times = times_of(&s, &t, bytes);
    same(times.end_s[0], 12 + 3, "through the narrow port");
    same(times.end_s[1], 4.8 + 3, "beside it");
    same(times.end_s[2], 4.8 + 3, "beside it, from another rank");
    same(times.time_s, 15, "all");
    same(times.busy[1], 24.0 / 2 / 15, "the narrow port's share");
    sim_times_release(&times);
    /* One flow's own limit binds: 3 B/s each, 8 s. */
    t.level[1].flow_Bps = 3;
    t.level[1].member_Bps = 6;
    times = times_of(&s, &t, bytes);
    same(times.end_s[1], 8 + 3, "at its own limit");
    sim_times_release(&times);
    /* A rank's own way binds: 0's two flows share 4.5, the narrow one still gets 2. */
    t.level[1].flow_Bps = t.level[1].member_Bps = 4.5;
    times = times_of(&s, &t, bytes);
    same(times.end_s[1], 24 / 2.5 + 3, "on the rank's way");
    same(times.end_s[2], 24 / 4.5 + 3, "alone on its rank's way");
    sim_times_release(&times);
    schedule_release(&s);
    topo_release(&t);
}

/* Two members send inside, 100 B/s links, but 60 B/s each when both do; then one goes on alone.
 */
TEST(what_a_group_moves_is_shared)
{
    static const int ends[][2] = {{0, 1}, {1, 0}};
    const int64_t bytes[] = {120, 320};
    struct topo t = read_synth("2x2,intra=100B/s:1s,inter=12B/s:3s");
    struct schedule s;

    t.level[0].member_Bps = 60;
    by_hand(&s, &t.groups, 2, ends);
    struct sim_times times = times_of(&s, &t, bytes);
    same(times.end_s[0], 2 + 1, "both");
    same(times.end_s[1], 4 + 1, "one of them alone");
    same(times.start_s[1], 0, "start");
    sim_times_release(&times);
    schedule_release(&s);
    topo_release(&t);
}

/* Two blocks of two groups; blocks' ports are narrower than their groups' together. */
TEST(blocks_have_ports)
{
    static const int ends[][2] = {{0, 2}, {1, 3}, {1, 0}};
    const int64_t bytes[] = {40, 40, 40};
    struct topo t = read_synth("2x2x1,intra=100B/s:1s,inter=10B/s:3s,level2=8B/s:7s");
    struct schedule s;

    by_hand(&s, &t.groups, 3, ends);
    struct sim_times times = times_of(&s, &t, bytes);
    same(times.end_s[0], 10 + 7, "half of the block's port");
    same(times.end_s[1], 10 + 7, "the other half");
    same(times.end_s[2], 40 / 6.0 + 3, "the rest of its group's port");
    same(times.busy[2], 80 / 8.0 / 17, "the block's port");
    sim_times_release(&times);
    schedule_release(&s);
    topo_release(&t);
}

/* 0 -> 1 twice in one queue: the second is sent behind the first, and both latencies overlap;
 * an add into the place of the first lands after it; a barrier holds what is behind it. */
TEST(queues_places_and_barriers_hold)
{
    struct topo t = read_synth("2x4,intra=100B/s:5s,inter=12B/s:3s");
    const int64_t bytes[] = {100, 100, 0};
    struct schedule_row rows[] = {
        {.lane = 0, .step = 0, .src = 0, .dst = 1, .chunk = 0, .into = 0},
        {.lane = 0, .step = 1, .src = 0, .dst = 1, .chunk = 1, .into = 1},
        {.lane = 1, .step = 2, .src = 1, .dst = 2, .chunk = 1, .into = 1}, /* waits for it */
        {.lane = 2, .step = 3, .src = 1, .dst = 1, .chunk = 0, .into = 1}, /* and for its read
                                                                            */
        {.lane = 3, .step = 3, .src = 3, .dst = 2, .chunk = 2, .into = 2}, /* empty */
        {.lane = 3, .step = 4, .src = 3, .dst = 2, .chunk = 0, .into = 1},
    };
    struct schedule s = {.chunks = 3, .lanes = 4, .rows = 6, .row = rows, .groups = t.groups};
    struct sim_times times = times_of(&s, &t, bytes);

    same(times.end_s[0], 6, "first");
    same(times.start_s[1], 1, "the second is sent behind the first");
    same(times.end_s[1], 7, "latencies overlap");
    same(times.start_s[2], 7, "sent once written");
    same(times.end_s[2], 13, "from 1 to 2");
    same(times.end_s[3], 8, "a local row lands when its place was read");
    assert_true(times.end_s[4] == 0 && times.start_s[4] == 0);
    same(times.end_s[5], 13, "lands behind the write before it");
    sim_times_release(&times);
    s.barriers = 1;
    s.barrier[0] = 4; /* rank 3 has done nothing: it may send; rank 2 waits for row 2 */
    times = times_of(&s, &t, bytes);
    same(times.start_s[5], 0, "no barrier at the sender");
    same(times.end_s[5], 13, "the receiver's barrier");
    sim_times_release(&times);
    s.barrier[0] = 1; /* row 1 waits until row 0 is sent; 1 has received it then */
    times = times_of(&s, &t, bytes);
    same(times.start_s[1], 1, "the barrier at the sender");
    sim_times_release(&times);
    topo_release(&t);
}

TEST(errors_are_named)
{
    struct topo t = read_synth("2x2"), other = read_synth("[3,1]");
    struct sim_times times;
    const int64_t bytes[] = {8, 8};
    /* Two messages of one step: each must follow the other. */
    struct schedule_row rows[] = {{.lane = 0, .src = 0, .dst = 1, .chunk = 0, .into = 0},
                                  {.lane = 0, .src = 1, .dst = 2, .chunk = 0, .into = 0},
                                  {.lane = 0, .src = 0, .dst = 1, .chunk = 1, .into = 0}};
    struct schedule s = {.chunks = 2, .lanes = 1, .rows = 3, .row = rows, .groups = t.groups};

    assert_error(sim_rows(&s, &t, bytes, 0, &times, &err), ERR_MISMATCH);
    assert_words(err.text, "2 messages wait lane 0 step 0 rank 0 rank 1");
    assert_error(sim_rows(&s, &other, bytes, 0, &times, &err), ERR_MISMATCH);
    assert_words(err.text, "groups [3,1] expected 2x2");
    topo_release(&t);
    topo_release(&other);
}

/* Worked by hand from paro-method(7), CUT BOUND: a vector of 1000 bytes, ports of 100 B/s. */
TEST(cut_bound_by_hand)
{
    static const struct {
        const char *shape;
        unsigned op;
        int root, slow; /* slow: a group whose port passes out_Bps, in_Bps; 0: none */
        double out_Bps, in_Bps, want_s;
    } cases[] = {
        {"2x2", SCHEDULE_ALL_GATHER, 0, 0, 0, 0, 5},
        {"2x2", SCHEDULE_ALL_REDUCE, 0, 0, 0, 0, 10},
        {"[2,2,2]", SCHEDULE_ALL_GATHER, 0, 2, 50, 50, 1000 * 2 / 3.0 / 50},
        {"[2,2,2]", SCHEDULE_ALL_REDUCE, 0, 2, 50, 50, 20},
        {"[2,2,2]", SCHEDULE_BROADCAST, 0, 2, 50, 50, 20},
        {"[2,2,2]", SCHEDULE_BROADCAST, 0, 2, 400, 400, 10},
        {"[3,2]", SCHEDULE_ALL_GATHER, 0, 0, 0, 0, 6}, /* into the smaller */
        {"[3,2]", SCHEDULE_ALL_REDUCE, 0, 0, 0, 0, 10},
        {"[3,2]", SCHEDULE_BROADCAST, 0, 0, 0, 0, 10},
        /* A slow way out: of its own part, of other sums' parts; a receiver sends nothing. */
        {"[3,2]", SCHEDULE_ALL_GATHER, 0, 1, 10, 100, 40},
        {"[3,2]", SCHEDULE_REDUCE_SCATTER, 0, 1, 10, 100, 60},
        {"[3,2]", SCHEDULE_BROADCAST, 0, 1, 10, 100, 10},
        {"[3,2]", SCHEDULE_BROADCAST, 3, 1, 10, 100, 100},
        {"1x4", SCHEDULE_BROADCAST, 0, 0, 0, 0, 0},
        /* group 1 sends its own fourth at 10, and takes the others' three fourths at 100 */
        {"[3,1]", SCHEDULE_ALL_GATHER, 0, 1, 10, 100, 25},
        {"2x2x2", SCHEDULE_ALL_REDUCE, 0, 0, 0, 0, 20}, /* blocks, of 50 B/s */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char spec[64];
        snprintf(spec, sizeof spec, "%s,inter=100B/s:1us%s", cases[i].shape,
                 strcmp(cases[i].shape, "2x2x2") ? "" : ",level2=50B/s:1us");
        struct topo t = read_synth(spec);
        if (cases[i].slow)
            t.port[cases[i].slow] = (struct topo_port){cases[i].out_Bps, cases[i].in_Bps};
        same(sim_cut_bound_s(&t, cases[i].op, cases[i].root, 1000), cases[i].want_s, spec);
        topo_release(&t);
    }
}
