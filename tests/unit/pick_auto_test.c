/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests choices against an enumeration of every candidate, and fabrics where the best is known.
 */
#include "unit.h"

#include "pick/pick_auto.h"
#include "sim/sim.h"
#include "words_fixture.h"

static const int64_t chunks[] = {4 << 10,          8 << 10,   16 << 10,  32 << 10,
                                 PICK_CHUNK_USUAL, 128 << 10, 256 << 10, 512 << 10,
                                 1 << 20,          2 << 20,   4 << 20,   PICK_CHUNK_WHOLE};
static const unsigned ops[] = {
    SCHEDULE_ALL_GATHER,    SCHEDULE_REDUCE_SCATTER,
    SCHEDULE_ALL_REDUCE,    SCHEDULE_BROADCAST,
    SCHEDULE_GATHER_INSIDE, SCHEDULE_REDUCE_ACROSS | SCHEDULE_GATHER_ACROSS};
enum { CHUNKS = sizeof chunks / sizeof *chunks, OPS = sizeof ops / sizeof *ops };

static void synth(struct topo *t, const char *spec)
{
    assert_ok(topo_parse_synth(t, spec, &err));
}

static double least_of(const struct topo *t, unsigned op, int64_t bytes, int algo)
{
    double least = INFINITY, s;

    /* Where messages cost nothing, none below the usual chunk is tried. */
    for (int i = t->level[0].message_s > 0 ? 0 : 4; i < CHUNKS; i++)
        if (pick_time(t, op, bytes, (enum schedule_algo)algo, chunks[i], &s, &err) == 0)
            least = fmin(least, s);
    return least;
}

/* The most that a choice may lose: a chunk below the usual one has to gain twice. */
static double loss(const struct topo *t)
{
    return pick_messages_cost(t) ? (1 + PICK_GAIN) * (1 + PICK_GAIN) : 1 + PICK_GAIN;
}

/* best and second against all algorithms with all chunks. */
static void compare(const struct topo *t, const char *spec, unsigned op, int64_t bytes)
{
    double best = INFINITY, other = INFINITY, again = 0;
    struct pick_answer a;

    if (pick_auto(t, op, bytes, &a, &err))
        fail_msg("%s: %s", spec, err.text);
    for (int i = 0; i < SCHEDULE_ALGOS; i++) {
        double s = pick_weigh((enum schedule_algo)i, least_of(t, op, bytes, i));
        best = fmin(best, s);
        if (i != (int)a.best.algo)
            other = fmin(other, s);
    }
    assert_ok(pick_time(t, op, bytes, a.best.algo, a.best.chunk_bytes, &again, &err));
    assert_true(again == a.best.time_s);
    double have = pick_weigh(a.best.algo, a.best.time_s);
    double next = pick_weigh(a.second.algo, a.second.time_s);
    if (have > best * loss(t) || have < best)
        fail_msg("%s, op %u, %lld bytes: %s takes %g s, the best candidate %g", spec, op,
                 (long long)bytes, schedule_algo_name(a.best.algo), a.best.time_s, best);
    if (next > other * loss(t) || next < other)
        fail_msg("%s, op %u, %lld bytes: runner-up %s takes %g s, the best other %g", spec, op,
                 (long long)bytes, schedule_algo_name(a.second.algo), a.second.time_s, other);
}

TEST(the_choice_has_the_least_time)
{
    static const char *const specs[] = {"2x2,inter=500mbit:50us,intra=1GB/s:5us",
                                        "[3,2],inter=500mbit:50us,intra=1GB/s:5us",
                                        "4x2,inter=25GB/s:12us,intra=200GB/s:3us",
                                        "3x1,inter=1GB/s:20us",
                                        "1x5,intra=10GB/s:2us",
                                        "2x2x2,inter=1GB/s:20us,level2=1GB/s:90us"};
    static const int64_t sizes[] = {1, 4000, 100003, 3 << 20};

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct topo t;
        synth(&t, specs[i]);
        for (int known = 0; known < 2; known++) {
            for (int l = 0; known && l < t.levels; l++)
                t.level[l].message_s = t.level[l].latency_s / 4;
            for (int o = 0; o < OPS; o++)
                for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b++)
                    compare(&t, specs[i], ops[o], sizes[b]);
        }
        topo_release(&t);
    }
}

TEST(without_latency_ho_ring)
{
    struct topo t;
    struct pick_answer a;

    synth(&t, "4x2,inter=1GB/s:0,intra=10GB/s:0");
    for (int o = 0; o < 3; o++) {
        assert_ok(pick_auto(&t, ops[o], 64 << 20, &a, &err));
        assert_string_equal(schedule_algo_name(a.best.algo), "ho-ring");
    }
    topo_release(&t);
}

TEST(with_latency_alone_few_rounds)
{
    struct topo t;
    struct pick_answer a;

    synth(&t, "4x4,inter=25GB/s:10ms,intra=200GB/s:1ms");
    for (int o = 0; o < 4; o++) {
        assert_ok(pick_auto(&t, ops[o], 64, &a, &err));
        assert_true(a.best.algo > SCHEDULE_HO_RING);
        /* Not the g - 1 hops of rings, nor below the one that no algorithm can do without. */
        assert_true(a.best.time_s >= 10e-3 && a.best.time_s < 3 * 10e-3);
    }
    topo_release(&t);
}

/* More chunks than are simulated: what coarser cuts tell is where they would be. */
TEST(coarser_cuts_tell_finer_ones)
{
    enum { BYTES = 64 << 20, PARTS = 18 };
    struct topo t;
    struct layout l;
    double told = 0, whole = 0;

    synth(&t, "[4,4,3],inter=1GB/s:20us,intra=10GB/s:2us");
    layout_init(&l, &t.groups);
    assert_int_equal(l.segments * l.groups.count, PARTS);
    int n =
        layout_subchunks(&l, SCHEDULE_ALL_GATHER, SCHEDULE_RING, BYTES, 1, PICK_CHUNK_USUAL);
    assert_true((double)PARTS * n * (l.groups.ranks - 1) > PICK_WORK);
    int64_t *bytes = mem_new((size_t)PARTS * (size_t)n, sizeof *bytes);
    for (int i = 0; i < PARTS; i++) {
        int64_t part =
            layout_cut(&l, BYTES, i / 3, i % 3 + 1, 0) - layout_cut(&l, BYTES, i / 3, i % 3, 0);
        for (int c = 0; c < n; c++)
            bytes[i * n + c] = part * (c + 1) / n - part * c / n;
    }
    for (int i = 0; i < 2; i++) {
        struct sim_times times;
        struct schedule_spec spec =
            LIST(.algo = i ? SCHEDULE_RING : SCHEDULE_HO_RING,
                 .phases = i ? SCHEDULE_BROADCAST : SCHEDULE_ALL_GATHER, .groups = &l.groups,
                 .segments = l.segments, .holder = l.holder, .subchunks = n);
        assert_ok(sim_spec(&spec, &t, bytes, &times, &err));
        whole = times.time_s;
        assert_ok(pick_time(&t, spec.phases, BYTES, spec.algo, PICK_CHUNK_USUAL, &told, &err));
        /* A smaller difference decides nothing. */
        if (fabs(told - whole) > whole * PICK_GAIN)
            fail_msg("%s: %g s as told, %g s", schedule_algo_name(spec.algo), told, whole);
    }
    mem_free(bytes);
    layout_release(&l);
    topo_release(&t);
}

static double weighed(const struct pick_choice *c)
{
    return pick_weigh(c->algo, c->time_s);
}

/* In the list are the best, ho-ring, and nobody who is too slow; out of it nobody too fast. */
static void check_shortlist(const struct topo *t, unsigned op, int64_t bytes)
{
    struct pick_choice list[PICK_SHORT_MAX];
    struct pick_answer a;
    int count = 0, ho = 0, in[SCHEDULE_ALGOS] = {0};

    assert_ok(pick_shortlist(t, op, bytes, list, &count, &err));
    assert_in_range(count, 1, PICK_SHORT_MAX);
    for (int i = 0; i < count; i++) {
        double again = 0;
        assert_ok(pick_time(t, op, bytes, list[i].algo, list[i].chunk_bytes, &again, &err));
        assert_true(again == list[i].time_s);
        ho |= list[i].algo == SCHEDULE_HO_RING;
        in[list[i].algo]++;
        assert_in_range(in[list[i].algo], 1, 2);
        /* ho-ring alone may stand behind its place */
        if (i + 1 < count || list[i].algo != SCHEDULE_HO_RING) {
            assert_true(weighed(&list[i]) <= PICK_TRUST * weighed(&list[0]));
            assert_true(!i || weighed(&list[i]) >= weighed(&list[i - 1]) * (1 - 1e-9));
        }
    }
    assert_true(ho);
    assert_ok(pick_auto(t, op, bytes, &a, &err));
    assert_int_equal(list[0].algo, a.best.algo);
    assert_true(list[0].chunk_bytes == a.best.chunk_bytes);
    double most =
        count < PICK_SHORT_MAX ? PICK_TRUST * weighed(&list[0]) : weighed(&list[count - 2]);
    for (int i = 0; i < SCHEDULE_ALGOS; i++) {
        double least = pick_weigh((enum schedule_algo)i, least_of(t, op, bytes, i));
        assert_true(in[i] || least >= most / (1 + PICK_GAIN) * (1 - 1e-9));
    }
}

TEST(a_shortlist_has_all_that_may_be_fastest)
{
    static const char *const specs[] = {"2x2,inter=500mbit:50us,intra=1GB/s:5us", "1x3",
                                        "[3,2],inter=25GB/s:12us",
                                        "4x4,inter=500mbit:300us,intra=1GB/s:20us"};
    static const int64_t sizes[] = {256, 100003, 4 << 20};

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct topo t;
        synth(&t, specs[i]);
        for (int op = 0; op < 4; op++)
            for (int s = 0; s < 3; s++)
                check_shortlist(&t, ops[op], sizes[s]);
        topo_release(&t);
    }
}

TEST(operations_have_names)
{
    struct pick_query query;

    for (unsigned p = 1; p <= SCHEDULE_BROADCAST; p++) {
        struct pick_word word;
        unsigned back = 0;
        assert_ok(pick_phases_parse(pick_phases_name(p, &word), &back, &err));
        assert_int_equal(back, p);
    }
    assert_ok(pick_query_parse(&query, "broadcast,reduce-inside+gather-inside", &err));
    assert_int_equal(query.ops, 2);
    assert_int_equal(query.op[1], 9);
    assert_refused(pick_query_parse(&query, "broadcast,all-gather,broadcast", &err),
                   "'broadcast' twice expected once");
    static const char *const wrong[] = {"",
                                        "gather",
                                        "all-gather,",
                                        "gather-inside+",
                                        "gather-inside+gather-inside",
                                        "broadcast+gather-inside"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_says(pick_query_parse(&query, wrong[i], &err), "expected all-gather");
    }
}

/* Every conversion between layouts on these groups is asked for. */
TEST(moves_are_all_asked_for)
{
    static const char *const shapes[] = {"3x2", "1x4", "4x1", "1x1"};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct groups g;
        struct layout l;
        struct pick_query query = {0};
        assert_ok(groups_parse(&g, shapes[i], &err));
        layout_init(&l, &g);
        pick_query_moves(&query, &g);
        for (int from = 0; from < 3; from++)
            for (int to = 0; to < 3; to++) {
                unsigned want = layout_phases_trim(
                    &l, layout_phases_sum((enum letter)from, (enum letter)to));
                int there = 0;
                if (!want)
                    continue;
                for (int k = 0; k < query.ops; k++)
                    there += query.op[k] == want;
                assert_int_equal(there, 1);
            }
        layout_release(&l);
        groups_release(&g);
    }
}
