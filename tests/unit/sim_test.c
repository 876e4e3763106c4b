/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests simulated times against closed forms (paro-method(7), HO-RING), the cut bound, and each
 * other: the few ranks that stand for all against all of them.
 */
#include "unit.h"

#include "base/rng.h"
#include "layout/layout.h"
#include "sim/sim.h"
#include "topo_fixture.h"

/* A time is a sum of at most some thousand terms, each rounded to 2^-53 of the time itself:
 * 2^12 of them stay within 2^-40. */
static const double ROUNDING = 0x1p-40;

struct bed {
    struct topo t;
    struct layout l;
    struct schedule_spec spec;
    int64_t *bytes;
};

/* A fabric, and a vector of M bytes in the chunks of an algorithm on it. */
static void set_up(struct bed *b, const char *synth, unsigned phases, enum schedule_algo algo,
                   int subchunks, int64_t bytes)
{
    *b = (struct bed){.t = read_synth(synth)};
    layout_init(&b->l, &b->t.groups);
    int g = b->l.groups.count;
    b->spec = (struct schedule_spec)LIST(.algo = algo, .phases = phases, .groups = &b->l.groups,
                                         .segments = b->l.segments, .holder = b->l.holder,
                                         .subchunks = subchunks, .levels = b->t.levels,
                                         .block = b->t.block);
    b->bytes = mem_new((size_t)b->l.segments * (size_t)g * (size_t)subchunks, sizeof(int64_t));
    int even = phases == SCHEDULE_ALL_REDUCE && algo != SCHEDULE_RING;
    for (int c = 0; c < b->l.segments * g * subchunks; c++) {
        struct range r = layout_chunk(&b->l, bytes, even, subchunks, c);
        b->bytes[c] = r.hi - r.lo;
    }
}

static void tear_down(struct bed *b)
{
    topo_release(&b->t);
    layout_release(&b->l);
    mem_free(b->bytes);
}

/* All rows; in the schedule's own order too when `s` is wanted (then the caller's). */
static struct sim_times all_rows(const struct bed *b, struct schedule *s, int every_row)
{
    struct schedule own = {0};
    struct sim_times times = {0};

    assert_ok(schedule_gen(&b->spec, -1, &own, &err) ||
              sim_rows(&own, &b->t, b->bytes, every_row, &times, &err));
    if (s)
        *s = own;
    else
        schedule_release(&own);
    return times;
}

static double spec_s(const struct bed *b)
{
    struct sim_times times;

    assert_ok(sim_spec(&b->spec, &b->t, b->bytes, &times, &err));
    return times.time_s;
}

static void same(double have, double want, const char *what)
{
    if (!(fabs(have - want) <= ROUNDING * want))
        fail_msg("%s: %.17g, expected %.17g", what, have, want);
}

/* Four ranks that send each other a block, each in a group of its own: the processor is through
 * with what it sends after 3 o; what comes in follows, o each, the last not before it was sent
 * (3 o), has come (alpha + q/B) and was taken (o). */
TEST(processors_take_messages_in_turn)
{
    static const double alphas[] = {0, 1e-6, 10e-6, 200e-6};
    const double o = 10e-6, B = 1e9;

    for (int i = 0; i < 4; i++) {
        struct bed b;
        char text[64];
        snprintf(text, sizeof text, "4x1,inter=1GB/s:%.17gs", alphas[i]);
        set_up(&b, text, SCHEDULE_ALL_GATHER, SCHEDULE_DIRECT, 1, 4);
        b.t.level[1].message_s = o;
        double comes = 3 * o + alphas[i] + 1 / B + o, taken = 6 * o;
        same(all_rows(&b, NULL, 0).time_s, comes > taken ? comes : taken, text);
        same(spec_s(&b), comes > taken ? comes : taken, text);
        tear_down(&b);
    }
}

struct fabric {
    int g, m;
    double in_Bps, in_s, out_Bps, out_s; /* out_Bps: of a rank, B = R/m */
};

static const struct fabric fabrics[] = {
    {2, 2, 800e6, 4e-6, 30e6, 50e-6},
    {4, 8, 200e9, 3e-6, 3e9, 12e-6},
    {3, 5, 10e9, 1e-6, 9e9, 2e-6},
    {5, 4, 1e9, 1e-6, 2e9, 3e-6}, /* the inside is the slower */
    {6, 1, 1e9, 1e-6, 1e9, 1e-5},
    {1, 7, 1e9, 2e-6, 1e9, 1e-5},
    {2, 3, 1e9, 5e-3, 1e9, 1e-7},
    {7, 3, 1e9, 0, 1e8, 0},
};

enum { FABRICS = sizeof fabrics / sizeof *fabrics, BLOCK = 5040 };

/* A vector of one block of BLOCK bytes for each rank. */
static void on_fabric(struct bed *b, const struct fabric *f, unsigned phases,
                      enum schedule_algo algo)
{
    char shape[32], text[200];

    if (f->g > 1)
        snprintf(shape, sizeof shape, "%dx%d", f->g, f->m);
    else
        snprintf(shape, sizeof shape, "[%d]", f->m);
    snprintf(text, sizeof text, "%s,intra=%.17gB/s:%.17gs,inter=%.17gB/s:%.17gs", shape,
             f->in_Bps, f->in_s, f->out_Bps * f->m, f->out_s);
    set_up(b, text, phases, algo, 1, (int64_t)BLOCK * f->g * f->m);
}

/*
 * Inside "direct": the m - 1 messages of a holder leave side by side, so that a batch pays the
 * latency once, where m - 1 steps of a ring would pay it each: x stands for (m-1) tau_i, and
 * alpha_i comes but once behind the last.
 *   HO-Ring      alpha_i + x + (g-1) max(tau_e, x)       x = (m-1) q/B'
 *   two-level    alpha_i + g x + (g-1) tau_e
 */
TEST(direct_inside_closed_forms)
{
    const unsigned ops[] = {SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER, SCHEDULE_ALL_REDUCE};

    for (int i = 0; i < FABRICS; i++) {
        const struct fabric *f = &fabrics[i];
        double x = (f->m - 1) * BLOCK / f->in_Bps, tau_e = f->out_s + BLOCK / f->out_Bps;
        double alpha = f->m > 1 ? f->in_s : 0;
        double ho = alpha + x + (f->g - 1) * fmax(tau_e, x);
        double two = alpha + f->g * x + (f->g - 1) * tau_e;
        for (int o = 0; o < 3; o++) {
            struct bed b;
            int halves = ops[o] == SCHEDULE_ALL_REDUCE ? 2 : 1;
            on_fabric(&b, f, ops[o], SCHEDULE_HO_RING);
            same(all_rows(&b, NULL, 0).time_s, halves * ho, "ho-ring");
            same(spec_s(&b), halves * ho, "ho-ring, turned");
            tear_down(&b);
            on_fabric(&b, f, ops[o], SCHEDULE_TWO_LEVEL);
            same(all_rows(&b, NULL, 0).time_s, halves * two, "two-level");
            same(spec_s(&b), halves * two, "two-level, turned");
            tear_down(&b);
        }
    }
}

/*
 * Four groups cabled in a ring, links of R, ports of 2 R, and a vector of M bytes: HO-Ring
 * gathers in 3/4 M / 2R, half each way, and in one way round, as the flat ring does, in twice
 * that.  Sent directly, each group's part passes 1 link to the next, 2 to the opposite and 1 to
 * the one before, and the opposite ones' are sent the same way round: 1 + 2 parts of M/4 for
 * each link that way, 1 for the other.
 */
TEST(links_of_a_ring)
{
    static const struct {
        enum schedule_algo algo;
        double links; /* M / 4R */
    } want[] = {{SCHEDULE_HO_RING, 1.5}, {SCHEDULE_RING, 3}, {SCHEDULE_DIRECT, 3}};
    const double R = 1e9, M = 64e6;

    for (int i = 0; i < 3; i++) {
        struct bed b;
        set_up(&b, "4x1,intra=1TB/s:0s,inter=2GB/s:0s,cabling=ring", SCHEDULE_ALL_GATHER,
               want[i].algo, want[i].algo == SCHEDULE_HO_RING ? 2 : 1, (int64_t)M);
        same(all_rows(&b, NULL, 0).time_s, want[i].links * M / 4 / R, "ring of cables");
        same(spec_s(&b), want[i].links * M / 4 / R, "ring of cables, not turned");
        for (int chunk = 1; chunk <= 8;
             chunk++) /* pieces of 8 elements, half of them each way */
            assert_int_equal(
                layout_subchunks(&b.l, SCHEDULE_ALL_GATHER, want[i].algo, 32, 1, chunk),
                (8 + chunk - 1) / chunk + (8 + chunk - 1) / chunk % 2);
        tear_down(&b);
    }
}

/* A flat ring is a chain of links: message t of link l waits for message t of link l itself
 * less one, to be sent, and for message t - 1 of link l - 1, to arrive.  Written as that
 * recurrence: no queue, no event, no rate. */
static double ring_s(const struct fabric *f, int hops)
{
    int n = f->g * f->m;
    double *starts = mem_new((size_t)n, sizeof *starts), last = 0;

    for (int t = 0; t < hops; t++) {
        double *next = mem_new((size_t)n, sizeof *next);
        for (int l = 0; l < n; l++) {
            int before = (l + n - 1) % n;
            int slow = f->g > 1 && (l + 1) % f->m == 0;
            int slow_before = f->g > 1 && (before + 1) % f->m == 0;
            double wire = BLOCK / (slow ? f->out_Bps * f->m : f->in_Bps);
            double hop = slow_before ? f->out_s + BLOCK / (f->out_Bps * f->m)
                                     : f->in_s + BLOCK / f->in_Bps;
            next[l] = t ? fmax(starts[l] + wire, starts[before] + hop) : 0;
            last = fmax(last, next[l] + wire + (slow ? f->out_s : f->in_s));
        }
        mem_free(starts);
        starts = next;
    }
    mem_free(starts);
    return last;
}

TEST(ring_closed_forms)
{
    for (int i = 0; i < FABRICS; i++) {
        const struct fabric *f = &fabrics[i];
        int n = f->g * f->m;
        double tau_i = f->in_s + BLOCK / f->in_Bps;
        double tau_e = f->g > 1 ? f->out_s + BLOCK / (f->out_Bps * f->m) : 0;
        double form = (n - 1) * fmax(f->m > 1 ? tau_i : 0, tau_e);
        struct bed b;
        on_fabric(&b, f, SCHEDULE_ALL_GATHER, SCHEDULE_RING);
        double have = all_rows(&b, NULL, 0).time_s;
        same(have, ring_s(f, n - 1), "ring, recurrence");
        same(spec_s(&b), have, "ring, turned");
        /* The form lets all hops begin together: it holds where one kind of hop is all, or
         * nothing but rates. */
        if (f->m == 1 || f->g == 1 || (f->in_s == 0 && f->out_s == 0))
            same(have, form, "ring, closed form");
        else
            assert_true(have <= form * (1 + ROUNDING));
        tear_down(&b);
        on_fabric(&b, f, SCHEDULE_REDUCE_SCATTER, SCHEDULE_RING);
        same(all_rows(&b, NULL, 0).time_s, ring_s(f, n - 1), "ring, the other way round");
        tear_down(&b);
        /* The halves run in opposite directions and share links where they meet, but not where
         * all hops are alike and end together. */
        on_fabric(&b, f, SCHEDULE_ALL_REDUCE, SCHEDULE_RING);
        if (f->m == 1 || f->g == 1)
            same(all_rows(&b, NULL, 0).time_s, 2 * form, "ring all-reduce");
        tear_down(&b);
    }
}

/* Without latencies, inside a thousand times faster: the flat ring joins all n ranks and waits
 * for its hops between groups, rails join g. */
TEST(rings_lose_by_the_ranks_they_join)
{
    static const int shapes[][2] = {{2, 2}, {4, 1}, {4, 8}, {3, 5}};
    const double loss = 0.01, R = 1e9, in = 1e12, q = BLOCK;

    for (int i = 0; i < 4; i++) {
        int g = shapes[i][0], m = shapes[i][1], n = g * m;
        double flat = 1 + loss * (n - 2), rail = 1 + loss * (g - 2), x = (m - 1) * q / in;
        struct fabric f = {g, m, in, 0, R / m, 0};
        struct bed b;
        on_fabric(&b, &f, SCHEDULE_ALL_GATHER, SCHEDULE_RING);
        b.t.level[1].ring_loss = loss;
        same(all_rows(&b, NULL, 0).time_s, (n - 1) * q / R * flat, "flat ring");
        same(spec_s(&b), (n - 1) * q / R * flat, "flat ring, turned");
        tear_down(&b);
        on_fabric(&b, &f, SCHEDULE_REDUCE_SCATTER, SCHEDULE_HO_RING);
        b.t.level[1].ring_loss = loss;
        same(all_rows(&b, NULL, 0).time_s, x + (g - 1) * q * m / R * rail, "rails");
        same(spec_s(&b), x + (g - 1) * q * m / R * rail, "rails, turned");
        tear_down(&b);
        /* Partners at other distances are no ring. */
        on_fabric(&b, &f, SCHEDULE_ALL_GATHER, SCHEDULE_DIRECT);
        double before = spec_s(&b);
        b.t.level[0].ring_loss = b.t.level[1].ring_loss = loss;
        if (n > g)
            same(spec_s(&b), before, "direct");
        tear_down(&b);
    }
}

/* The next of a row of random numbers, spread evenly over the powers of ten. */
static double rate(uint64_t *next, double lo, double hi)
{
    return lo * pow(hi / lo, rng_uniform(7, 0, (*next)++));
}

TEST(never_faster_than_the_cut_bound)
{
    static const char *const shapes[] = {"2x2",   "3x4",     "[3,2]", "[4,4,3]",
                                         "2x2x2", "2x[3,1]", "1x5",   "5x1"};
    const unsigned ops[] = {SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER, SCHEDULE_ALL_REDUCE,
                            SCHEDULE_BROADCAST};
    uint64_t rng = 0;
    int tried = 0;

    for (int i = 0; i < 8 * 4 * SCHEDULE_ALGOS * 3; i++) {
        int64_t bytes = (int64_t)rate(&rng, 1e3, 1e7);
        unsigned op = ops[i / 8 % 4];
        int chunks = 1 + 3 * (i / 32 / SCHEDULE_ALGOS);
        struct bed b;
        set_up(&b, shapes[i % 8], op, (enum schedule_algo)(i / 32 % SCHEDULE_ALGOS), chunks,
               bytes);
        b.spec.root = i % b.t.groups.ranks;
        for (int l = 0; l < b.t.levels; l++) {
            b.t.level[l].latency_s = rate(&rng, 1e-7, 1e-4);
            b.t.level[l].port_Bps = rate(&rng, 1e8, 1e10);
            b.t.level[l].flow_Bps = b.t.level[l].port_Bps * rate(&rng, .3, 1);
            b.t.level[l].member_Bps = b.t.level[l].flow_Bps * rate(&rng, .3, 1);
        }
        for (int k = 0; k < b.t.groups.count; k++)
            b.t.port[k] = (struct topo_port){rate(&rng, 1e8, 1e10), rate(&rng, 1e8, 1e10)};
        double bound = sim_cut_bound_s(&b.t, op, b.spec.root, (double)bytes);
        struct sim_times times = all_rows(&b, NULL, 0);
        /* Cuts are rounded down to bytes: a group's share is short by a byte for each chunk. */
        double slack = b.l.segments * b.l.groups.count * chunks / 1e8;
        if (times.time_s < bound * (1 - ROUNDING) - slack)
            fail_msg("%s %s %s: %g s, below the bound of %g", shapes[i % 8],
                     schedule_phases_name(op), schedule_algo_name(b.spec.algo), times.time_s,
                     bound);
        for (int l = 0; l < b.t.levels; l++)
            assert_true(times.busy[l] <= 1 + ROUNDING);
        tried += bound > 0;
        tear_down(&b);
    }
    assert_true(tried > 100);
}

TEST(few_ranks_stand_for_all)
{
    static const char *const fabric[] = {"2x2",
                                         "4x3,intra=1GB/s:2us,inter=1GB/s:9us",
                                         "7x1",
                                         "3x[3,2],level2=30GB/s:30us",
                                         "2x3x2,level2=20GB/s:40us",
                                         "5x4,inter=3GB/s/rank:8us",
                                         "[8]",
                                         "4x2,intra=1GB/s:2us,inter=1GB/s:9us",
                                         "8x1",
                                         "4x2x2,level2=20GB/s:40us",
                                         "[3,3,2]"};
    const unsigned ops[] = {SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER, SCHEDULE_ALL_REDUCE,
                            SCHEDULE_REDUCE_ACROSS, SCHEDULE_GATHER_INSIDE};

    for (int i = 0; i < 11 * 5 * SCHEDULE_ALGOS * 2; i++) {
        struct bed b;
        /* 2520 bytes for each of 60 pieces: all cuts are whole. */
        set_up(&b, fabric[i % 11], ops[i / 11 % 5],
               (enum schedule_algo)(i / 55 % SCHEDULE_ALGOS), 1 + i / 55 / SCHEDULE_ALGOS * 2,
               2520 * 60);
        b.t.level[1].message_s = i % 2 * 7e-6;
        double have = spec_s(&b), want = all_rows(&b, NULL, 0).time_s;
        same(have, want, fabric[i % 11]);
        tear_down(&b);
    }
}

/* Cuts that are not whole: the mean of the images is off by ROUNDING_BYTES at most on each
 * message, and a time is a chain of at most steps messages on the narrowest way. */
TEST(rounding_of_cuts_is_out_of_sight)
{
    struct bed b;

    set_up(&b, "4x3,intra=1GB/s:2us,inter=1GB/s:9us", SCHEDULE_ALL_REDUCE, SCHEDULE_HO_RING, 2,
           1000003);
    struct schedule s;
    double want = all_rows(&b, &s, 0).time_s;
    assert_true(fabs(spec_s(&b) - want) <= s.steps * 16 / (1e9 / 3));
    assert_true(spec_s(&b) != want);
    schedule_release(&s);
    tear_down(&b);
}

/* Where no port is shared (an all-reduce's halves do share links), every wait is a maximum of
 * sums: a slower port never helps. */
TEST(a_slower_port_never_makes_a_ring_faster)
{
    uint64_t rng = 0;

    for (int i = 0; i < 60; i++) {
        struct bed b;
        set_up(&b, i % 2 ? "3x2" : "[3,2]",
               i % 3 ? SCHEDULE_REDUCE_SCATTER : SCHEDULE_ALL_GATHER, SCHEDULE_RING, 1 + i % 4,
               1 << 20);
        for (int k = 0; k < b.t.groups.count; k++)
            b.t.port[k] = (struct topo_port){rate(&rng, 1e8, 1e10), rate(&rng, 1e8, 1e10)};
        double before = all_rows(&b, NULL, 0).time_s;
        b.t.port[i % b.t.groups.count].out_Bps *= rate(&rng, .1, 1);
        double after = all_rows(&b, NULL, 0).time_s;
        assert_true(after >= before * (1 - ROUNDING));
        tear_down(&b);
    }
}

/* The bytes through the ports are those that the rows carry, and no message beats its latency
   and rate. */
TEST(bytes_are_conserved)
{
    for (int algo = 0; algo < SCHEDULE_ALGOS; algo++) {
        struct bed b;
        struct schedule s;
        struct schedule_traffic traffic;
        set_up(&b, "[4,4,3],intra=1GB/s:2us,inter=100MB/s:9us", SCHEDULE_ALL_REDUCE,
               (enum schedule_algo)algo, 3, 1234567);
        struct sim_times times = all_rows(&b, &s, 1);
        schedule_traffic(&s, b.bytes, &traffic);
        int64_t most = traffic.slow_out_max > traffic.slow_in_max ? traffic.slow_out_max
                                                                  : traffic.slow_in_max;
        same(times.busy[1] * times.time_s * 1e8, (double)most, "bytes of the busiest port");
        double last = 0;
        for (int64_t i = 0; i < s.rows; i++) {
            const struct schedule_row *r = &s.row[i];
            int slow = s.groups.group_of[r->src] != s.groups.group_of[r->dst];
            if (r->src == r->dst) {
                assert_true(times.end_s[i] >= times.start_s[i]);
                continue;
            }
            double least = slow ? 9e-6 + (double)b.bytes[r->chunk] / 1e8
                                : 2e-6 + (double)b.bytes[r->chunk] / 1e9;
            assert_true(times.end_s[i] - times.start_s[i] >= least - ROUNDING * times.time_s);
            last = fmax(last, times.end_s[i]);
        }
        assert_true(last == times.time_s);
        sim_times_release(&times);
        schedule_release(&s);
        tear_down(&b);
    }
}

TEST(nothing_to_move_takes_no_time)
{
    struct bed b;

    set_up(&b, "2x3", SCHEDULE_ALL_REDUCE, SCHEDULE_HO_RING, 1, 0);
    assert_true(spec_s(&b) == 0);
    tear_down(&b);
    /* One byte in 4 x 3 chunks: the rows of eleven are left out, here as there. */
    set_up(&b, "4x3", SCHEDULE_ALL_GATHER, SCHEDULE_HO_RING, 1, 1);
    double have = spec_s(&b), want = all_rows(&b, NULL, 0).time_s;
    assert_true(have > 0 && have == want);
    tear_down(&b);
    set_up(&b, "1x1", SCHEDULE_ALL_GATHER, SCHEDULE_RING, 1, 1000);
    assert_true(spec_s(&b) == 0);
    tear_down(&b);
}

TEST(too_many_rows_are_refused)
{
    struct bed b;
    set_up(&b, "[2049,2048]", SCHEDULE_ALL_REDUCE, SCHEDULE_HO_RING, 1, 1 << 30);
    struct sim_times times;

    assert_error(sim_spec(&b.spec, &b.t, b.bytes, &times, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "every rank is simulated"));
    tear_down(&b);
}

/* 2048 groups of 8: the closed form at a size where no list of all rows exists. */
TEST(sixteen_thousand_ranks)
{
    struct fabric f = {2048, 8, 200e9, 3e-6, 25e9 / 8, 12e-6};
    struct bed b;

    on_fabric(&b, &f, SCHEDULE_ALL_REDUCE, SCHEDULE_HO_RING);
    double x = 7 * BLOCK / f.in_Bps, tau_e = f.out_s + BLOCK / f.out_Bps;
    same(spec_s(&b), 2 * (f.in_s + x + 2047 * fmax(tau_e, x)), "2048x8");
    tear_down(&b);
    /* So short a vector that most chunks are empty: each of the others still makes all hops. */
    set_up(&b, "2048x8,inter=25GB/s:12us", SCHEDULE_ALL_REDUCE, SCHEDULE_HO_RING, 1, 1000);
    double seconds = spec_s(&b);
    assert_true(seconds >= 2 * 2047 * 12e-6 && seconds <= 2 * 2047 * 12.1e-6);
    tear_down(&b);
    /* Partners by bits: no turn has them, and all their rows are too many. */
    f.g = 512;
    on_fabric(&b, &f, SCHEDULE_ALL_REDUCE, SCHEDULE_DOUBLING);
    double bound = sim_cut_bound_s(&b.t, SCHEDULE_ALL_REDUCE, 0, 4096.0 * BLOCK);
    assert_true(spec_s(&b) > bound);
    tear_down(&b);
}
