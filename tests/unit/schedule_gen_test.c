/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every generator against the verifier: equal and ragged shapes, roots, levels, by-node
 * placement; one rank's rows against all rows; what ports and tiers carry and how many messages
 * there are against closed forms.
 */
#include "schedule_fixture.h"

#include <unistd.h>

static int is_long(void)
{
    const char *text = getenv("LONG");

    return text && *text;
}

static void verify_layout(const struct layout *l, const char *text, int subchunks)
{
    int n = l->groups.ranks, roots[] = {0, n / 2, n - 1};

    for (int a = 0; a < SCHEDULE_ALGOS; a++)
        for (int p = 0; p < PHASES; p++)
            for (int r = 0; r < (all_phases[p] == SCHEDULE_BROADCAST ? 3 : 1); r++) {
                struct schedule_spec spec =
                    spec_of(l, (enum schedule_algo)a, all_phases[p], subchunks);
                spec.root = roots[r];
                prove(&spec, text);
            }
}

static void verify_shape(const char *text, int subchunks)
{
    struct layout l;

    shape(&l, text);
    verify_layout(&l, text, subchunks);
    layout_release(&l);
}

static void test_equal_shapes(void **state)
{
    (void)state;
    char text[32];

    for (int n = 1; n <= 33; n++) {
        snprintf(text, sizeof text, "1x%d", n);
        verify_shape(text, 1);
        snprintf(text, sizeof text, "%dx1", n);
        verify_shape(text, 1);
        for (int g = 2; g <= n / 2; g++)
            if (n % g == 0) {
                snprintf(text, sizeof text, "%dx%d", g, n / g);
                verify_shape(text, 1 + n % 3);
            }
    }
}

static void test_ragged_shapes(void **state)
{
    static const char *const shapes[] = {
        "[3,2]",   "[2,3]",       "[4,4,3]", "[8,8,7]",     "[7,6,5,3]", "[1,5]",
        "[5,1,1]", "[1,2,3,4,5]", "[11,7]",  "[2,3,5,7,2]", "[13,1,13]", "[9,8,7,6,3]"};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int c = 1; c <= 3; c++)
            verify_shape(shapes[i], c);
    /* all member counts 1..3 in three groups */
    for (int i = 0; i < 27; i++) {
        char text[32];
        snprintf(text, sizeof text, "[%d,%d,%d]", 1 + i % 3, 1 + i / 3 % 3, 1 + i / 9);
        verify_shape(text, 2);
    }
}

static void test_by_node(void **state)
{
    int group_of[7] = {0, 1, 0, 1, 0, 2, 2};
    struct groups g;
    struct layout l;
    struct err err = {0};

    (void)state;
    assert_int_equal(groups_init_of(&g, 7, group_of, &err), 0);
    layout_init(&l, &g);
    verify_layout(&l, "by node", 2);
    layout_release(&l);
    groups_release(&g);
}

/* Every root there is. */
static void test_roots(void **state)
{
    static const char *const shapes[] = {"[3,2]", "2x4", "[1,5,2]", "1x7", "5x1"};

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        struct layout l;
        shape(&l, shapes[i]);
        for (int a = 0; a < SCHEDULE_ALGOS; a++)
            for (int root = 0; root < l.groups.ranks; root++) {
                struct schedule_spec spec =
                    spec_of(&l, (enum schedule_algo)a, SCHEDULE_BROADCAST, 2);
                spec.root = root;
                prove(&spec, shapes[i]);
            }
        layout_release(&l);
    }
}

/* Fabrics with levels: groups, and the block of each at level 2, 3, ... */
static const struct fabric {
    const char *shape;
    int levels;
    int block[3 * 12];
} fabrics[] = {
    {"4x2", 3, {0, 0, 1, 1}},
    {"6x2", 3, {0, 0, 1, 1, 2, 2}},
    {"6x1", 3, {0, 0, 0, 1, 1, 2}},      /* ragged blocks */
    {"[3,2,1,4,2]", 3, {0, 1, 1, 1, 1}}, /* and ragged groups */
    {"[2,2,3,1,2]", 3, {1, 0, 1, 0, 2}}, /* blocks by turns */
    {"[1,2,3]", 3, {0, 0, 0}},           /* one block */
    {"3x2", 3, {0, 1, 2}},               /* a block each */
    {"8x2", 4, {0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 0, 0, 1, 1, 1, 1}},
    {"[1,2,1,3,2,2,1]", 4, {0, 0, 1, 2, 2, 3, 3, 0, 0, 0, 1, 1, 1, 1}},
    {"12x1", 5, {0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 5, 5, 0, 0, 0, 0, 1, 1,
                 1, 1, 1, 2, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1}},
};

enum { FABRICS = sizeof fabrics / sizeof *fabrics };

static void test_levels(void **state)
{
    (void)state;
    for (size_t i = 0; i < FABRICS; i++) {
        struct layout l;
        shape(&l, fabrics[i].shape);
        for (int a = 0; a < SCHEDULE_ALGOS; a++)
            for (int p = 0; p < PHASES; p++)
                for (int c = 1; c <= 3; c++) {
                    struct schedule_spec spec =
                        spec_of(&l, (enum schedule_algo)a, all_phases[p], c);
                    spec.levels = fabrics[i].levels;
                    spec.block = fabrics[i].block;
                    spec.root = (int)i * 7 % l.groups.ranks;
                    prove(&spec, fabrics[i].shape);
                }
        layout_release(&l);
    }
}

/* Blocks that say nothing (all groups in one, or one each) change no row. */
static void test_levels_of_nothing(void **state)
{
    static const int one[5] = {0}, each[5] = {0, 1, 2, 3, 4};
    struct layout l;
    struct schedule plain, with;

    (void)state;
    shape(&l, "[3,2,2,1,4]");
    for (int b = 0; b < 2; b++) {
        struct schedule_spec spec = spec_of(&l, SCHEDULE_HO_RING, SCHEDULE_ALL_REDUCE, 2);
        gen_spec(&plain, &spec, -1);
        spec.levels = 3;
        spec.block = b ? each : one;
        gen_spec(&with, &spec, -1);
        assert_int_equal(plain.rows, with.rows);
        for (int64_t i = 0; i < plain.rows; i++) {
            with.row[i].step = plain.row[i].step; /* there is room for one rail more */
            assert_memory_equal(&plain.row[i], &with.row[i], sizeof plain.row[i]);
        }
        schedule_release(&plain);
        schedule_release(&with);
    }
    layout_release(&l);
}

/* One rank's rows are exactly the rows of the whole that name it, in the same order. */
static void one_rank(const struct schedule_spec *spec)
{
    struct schedule all, own;

    gen_spec(&all, spec, -1);
    for (int r = 0; r < spec->groups->ranks; r++) {
        int64_t at = 0;
        gen_spec(&own, spec, r);
        for (int64_t i = 0; i < all.rows; i++) {
            if (all.row[i].src != r && all.row[i].dst != r)
                continue;
            assert_true(at < own.rows);
            assert_memory_equal(&all.row[i], &own.row[at], sizeof own.row[at]);
            at++;
        }
        assert_int_equal(at, own.rows);
        assert_int_equal(own.steps, all.steps);
        assert_int_equal(own.planes, all.planes);
        assert_int_equal(own.gather_step, all.gather_step);
        schedule_release(&own);
    }
    schedule_release(&all);
}

static void test_one_rank(void **state)
{
    static const int blocks[4] = {0, 0, 1, 1};
    struct layout l;

    (void)state;
    shape(&l, "[4,3,2,2]");
    for (int a = 0; a < SCHEDULE_ALGOS; a++)
        for (int p = 0; p < PHASES; p++) {
            struct schedule_spec spec = spec_of(&l, (enum schedule_algo)a, all_phases[p], 2);
            spec.root = 5;
            one_rank(&spec);
            spec.levels = 3;
            spec.block = blocks;
            one_rank(&spec);
        }
    layout_release(&l);
}

/* The sums are complete at gather_step: from there on nothing is added, one step before it is.
 */
static void test_gather_step(void **state)
{
    struct layout l;

    (void)state;
    shape(&l, "[3,2,2]");
    for (int a = 0; a < SCHEDULE_ALGOS; a++)
        for (int p = 0; p < PHASES; p++) {
            struct schedule s;
            int last = -1;
            gen(&s, &l, (enum schedule_algo)a, all_phases[p], 2, -1);
            for (int64_t i = 0; i < s.rows; i++)
                if (s.row[i].op == SCHEDULE_ADD)
                    last = s.row[i].step;
            assert_true(last < s.gather_step || (last < 0 && s.gather_step == 0));
            if (all_phases[p] & SCHEDULE_REDUCE_SCATTER)
                for (int64_t i = 0; i < s.rows; i++)
                    assert_true(s.row[i].step >= s.gather_step || s.row[i].op == SCHEDULE_ADD ||
                                s.row[i].into >= s.chunks);
            schedule_release(&s);
        }
    layout_release(&l);
}

/*
 * Through a port, of M = n blocks: HO-Ring (g-1)/g M, ring (n-1)/n M (paro-method(7), HO-RING).
 */
static void test_traffic(void **state)
{
    static const int shapes[][2] = {{2, 2}, {2, 4}, {4, 2}, {4, 4}, {3, 5}};

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        int g = shapes[i][0], m = shapes[i][1], n = g * m;
        char text[16];
        struct layout l;
        struct schedule s;
        struct schedule_traffic t;
        snprintf(text, sizeof text, "%dx%d", g, m);
        shape(&l, text);
        int64_t *elems = mem_new((size_t)n, sizeof *elems);
        for (int c = 0; c < n; c++)
            elems[c] = 1;
        gen(&s, &l, SCHEDULE_HO_RING, SCHEDULE_ALL_GATHER, 1, -1);
        schedule_traffic(&s, elems, &t);
        assert_int_equal(t.slow_out_max, (g - 1) * m);
        assert_int_equal(t.slow_in_max, (g - 1) * m);
        assert_int_equal(t.fast_rank_max, g * (m - 1));
        schedule_release(&s);
        gen(&s, &l, SCHEDULE_RING, SCHEDULE_ALL_GATHER, 1, -1);
        schedule_traffic(&s, elems, &t);
        assert_int_equal(t.slow_out_max, n - 1);
        schedule_release(&s);
        /* Broadcast: every port carries M at most, each way, by either ring. */
        for (int a = SCHEDULE_RING; a <= SCHEDULE_HO_RING; a++) {
            struct schedule_spec spec =
                spec_of(&l, (enum schedule_algo)a, SCHEDULE_BROADCAST, 1);
            spec.root = n / 2;
            gen_spec(&s, &spec, -1);
            schedule_traffic(&s, elems, &t);
            assert_int_equal(t.slow_out_max, n);
            assert_int_equal(t.slow_in_max, n);
            assert_int_equal(t.slow_sum, n * (g - 1));
            schedule_release(&s);
        }
        layout_release(&l);
        mem_free(elems);
    }
}

/* Of one chunk: those beyond a power of two in and out, the others in twice as many rows. */
static int exchange_rows(int n)
{
    int bits = 0;

    while (2 << bits <= n)
        bits++;
    return 2 * (n - (1 << bits)) + 2 * bits * (1 << bits);
}

/*
 * Nothing travels that is there already: each rank but one receives each chunk once in a gather
 * and in a broadcast, sends it once in a reduction.  Recursive doubling exchanges whole vectors
 * instead, and adds each by a second row.
 */
static int rows_due(int algo, unsigned phases, const struct groups *g)
{
    if (phases != SCHEDULE_ALL_REDUCE)
        return g->ranks - 1;
    if (algo == SCHEDULE_DOUBLING)
        return exchange_rows(g->ranks);
    if (algo == SCHEDULE_TWO_LEVEL_DOUBLING)
        return 2 * (g->ranks - g->count) + exchange_rows(g->count);
    return 2 * (g->ranks - 1);
}

static void test_rows(void **state)
{
    static const char *const shapes[] = {"[3,2]", "4x4", "[7,6,5,3]", "1x13", "9x1"};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int a = 0; a < SCHEDULE_ALGOS; a++)
            for (int p = 0; p < WHOLE; p++) {
                struct layout l;
                struct schedule s;
                shape(&l, shapes[i]);
                struct schedule_spec spec =
                    spec_of(&l, (enum schedule_algo)a, all_phases[p], 2);
                spec.root = l.groups.ranks / 2;
                gen_spec(&s, &spec, -1);
                assert_int_equal(s.rows,
                                 (int64_t)s.chunks * rows_due(a, all_phases[p], &l.groups));
                schedule_release(&s);
                layout_release(&l);
            }
}

/* How often a chunk crosses from one block of a level (2 or more) to another. */
static int64_t crossings(const struct schedule *s, const struct fabric *f, int level)
{
    const int *block = f->block + (level - 2) * s->groups.count;
    int64_t n = 0;

    for (int64_t i = 0; i < s->rows; i++)
        n += block[s->groups.group_of[s->row[i].src]] !=
             block[s->groups.group_of[s->row[i].dst]];
    return n;
}

static int blocks_at(const struct fabric *f, int level, int groups)
{
    int most = 0;

    for (int k = 0; k < groups; k++)
        if (f->block[(level - 2) * groups + k] > most)
            most = f->block[(level - 2) * groups + k];
    return most + 1;
}

/* Each block of each level is entered once by each chunk that begins elsewhere. */
static void test_levels_traffic(void **state)
{
    static const struct {
        enum schedule_algo algo;
        unsigned phases;
    } cases[] = {{SCHEDULE_HO_RING, SCHEDULE_ALL_GATHER},
                 {SCHEDULE_HO_RING, SCHEDULE_BROADCAST},
                 {SCHEDULE_RING, SCHEDULE_BROADCAST}};

    (void)state;
    for (size_t i = 0; i < 3 * FABRICS; i++) {
        const struct fabric *f = &fabrics[i / 3];
        unsigned phases = cases[i % 3].phases;
        struct layout l;
        struct schedule s;
        struct schedule_traffic t;
        shape(&l, f->shape);
        int groups = l.groups.count;
        struct schedule_spec spec = spec_of(&l, cases[i % 3].algo, phases, 2);
        spec.levels = f->levels;
        spec.block = f->block;
        spec.root = l.groups.ranks / 2;
        gen_spec(&s, &spec, -1);
        for (int level = 2; level < f->levels; level++)
            assert_int_equal(crossings(&s, f, level),
                             (int64_t)s.chunks * (blocks_at(f, level, groups) - 1));
        /* A group takes in what it has not; nor does a broadcast leave one twice. */
        int64_t *elems = mem_new((size_t)s.chunks, sizeof *elems);
        for (int c = 0; c < s.chunks; c++)
            elems[c] = 1;
        schedule_traffic(&s, elems, &t);
        assert_int_equal(t.slow_sum, (int64_t)s.chunks * (groups - 1));
        if (phases == SCHEDULE_BROADCAST)
            assert_int_equal(t.slow_out_max, s.chunks);
        mem_free(elems);
        schedule_release(&s);
        layout_release(&l);
    }
}

/* Where blocks are equal, further levels load no group's port more than one ring does. */
static void test_levels_balance(void **state)
{
    static const int equal[] = {0, 1, 7};

    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct fabric *f = &fabrics[equal[i]];
        struct layout l;
        struct schedule s;
        struct schedule_traffic t;
        shape(&l, f->shape);
        int64_t *elems = mem_new((size_t)l.groups.ranks, sizeof *elems);
        for (int c = 0; c < l.groups.ranks; c++)
            elems[c] = 1;
        struct schedule_spec spec = spec_of(&l, SCHEDULE_HO_RING, SCHEDULE_ALL_GATHER, 1);
        spec.levels = f->levels;
        spec.block = f->block;
        gen_spec(&s, &spec, -1);
        schedule_traffic(&s, elems, &t);
        assert_int_equal(t.slow_out_max, (l.groups.count - 1) * l.segments);
        assert_int_equal(t.slow_in_max, (l.groups.count - 1) * l.segments);
        schedule_release(&s);
        mem_free(elems);
        layout_release(&l);
    }
}

/* Messages: rows of one lane, step, src and dst; the most that one rank sends. */
static int most_messages(const struct schedule *s)
{
    int *sent = mem_new((size_t)s->groups.ranks, sizeof *sent), most = 0;

    for (int64_t i = 0; i < s->rows; i++) {
        const struct schedule_row *row = &s->row[i];
        int again = row->src == row->dst;
        for (int64_t j = i - 1; j >= 0 && s->row[j].step == row->step && !again; j--)
            again = s->row[j].lane == row->lane && s->row[j].src == row->src &&
                    s->row[j].dst == row->dst;
        if (!again && ++sent[row->src] > most)
            most = sent[row->src];
    }
    mem_free(sent);
    return most;
}

static void test_messages(void **state)
{
    static const struct {
        const char *shape;
        enum schedule_algo algo;
        unsigned phases;
        int most;
    } cases[] = {
        {"1x16", SCHEDULE_DOUBLING, SCHEDULE_ALL_REDUCE, 4},
        {"4x4", SCHEDULE_DOUBLING, SCHEDULE_ALL_REDUCE, 4},
        {"4x8", SCHEDULE_DOUBLING, SCHEDULE_ALL_GATHER, 5},
        {"4x4", SCHEDULE_DOUBLING, SCHEDULE_REDUCE_SCATTER, 4},
        {"[3,2]", SCHEDULE_DOUBLING, SCHEDULE_ALL_REDUCE, 3}, /* two rounds, one folded out */
        {"1x13", SCHEDULE_BRUCK, SCHEDULE_ALL_GATHER, 4},
        {"[4,4,3]", SCHEDULE_BRUCK, SCHEDULE_ALL_GATHER, 4},
        {"4x8", SCHEDULE_BRUCK, SCHEDULE_ALL_REDUCE, 10},
        {"3x3", SCHEDULE_TREE, SCHEDULE_ALL_REDUCE, 4},
        {"3x3", SCHEDULE_TREE, SCHEDULE_BROADCAST, 4},
        {"2x3", SCHEDULE_DIRECT, SCHEDULE_ALL_GATHER, 5},
        {"2x3", SCHEDULE_DIRECT, SCHEDULE_BROADCAST, 5},
        /* the leader: two rounds over four groups, then three members */
        {"4x4", SCHEDULE_TWO_LEVEL_DOUBLING, SCHEDULE_ALL_REDUCE, 5},
        {"[4,4,3,4]", SCHEDULE_TWO_LEVEL_DOUBLING, SCHEDULE_ALL_REDUCE, 5},
        {"4x4", SCHEDULE_TWO_LEVEL_BRUCK, SCHEDULE_ALL_GATHER, 5},
        {"4x4", SCHEDULE_TWO_LEVEL_TREE, SCHEDULE_BROADCAST, 5},
        {"4x4", SCHEDULE_TWO_LEVEL_DIRECT, SCHEDULE_ALL_GATHER, 6},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct layout l;
        struct schedule s;
        shape(&l, cases[i].shape);
        gen(&s, &l, cases[i].algo, cases[i].phases, 1, -1);
        if (most_messages(&s) != cases[i].most)
            fail_msg("%s %s phases %u: a rank sends %d messages, expected %d", cases[i].shape,
                     schedule_algo_name(cases[i].algo), cases[i].phases, most_messages(&s),
                     cases[i].most);
        schedule_release(&s);
        layout_release(&l);
    }
}

/* More steps or chunks than an int counts are refused, not wrapped. */
static void test_too_many(void **state)
{
    struct layout l;
    struct schedule s;

    (void)state;
    shape(&l, "1000x2");
    for (int a = 0; a < SCHEDULE_ALGOS; a++)
        for (int p = 0; p < WHOLE; p++) {
            struct schedule_spec spec =
                spec_of(&l, (enum schedule_algo)a, all_phases[p], 1 << 21);
            struct err err = {0};
            assert_int_equal(schedule_gen(&spec, -1, &s, &err), -1);
            assert_int_equal(err.code, ERR_INPUT);
        }
    /* The chunks fit, their scratch does not. */
    struct schedule_spec spec = spec_of(&l, SCHEDULE_DOUBLING, SCHEDULE_ALL_REDUCE, 500000);
    struct err err = {0};
    assert_int_equal(schedule_gen(&spec, 0, &s, &err), -1);
    layout_release(&l);
}

/* Every algorithm on up to 512 ranks: a few always, the rest on demand. */
static void test_many_ranks(void **state)
{
    static const char *const always[] = {"16x32", "[64,63]"};
    static const char *const more[] = {"512x1",
                                       "1x512",
                                       "127x1",
                                       "1x251",
                                       "2x127",
                                       "509x1",
                                       "1x509",
                                       "64x8",
                                       "[255,257]",
                                       "[100,1,200]",
                                       "[8,8,7,8,8,8,8,8]",
                                       "[40,39,38,37,36]"};
    const char *const *shapes = is_long() ? more : always;
    size_t count = is_long() ? sizeof more / sizeof *more : 2;

    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct layout l;
        shape(&l, shapes[i]);
        for (int a = 0; a < SCHEDULE_ALGOS; a++)
            for (int p = 0; p < WHOLE; p++) {
                struct schedule_spec spec =
                    spec_of(&l, (enum schedule_algo)a, all_phases[p], 1);
                spec.root = l.groups.ranks / 3;
                prove(&spec, shapes[i]);
            }
        layout_release(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_shapes),   cmocka_unit_test(test_ragged_shapes),
        cmocka_unit_test(test_by_node),        cmocka_unit_test(test_roots),
        cmocka_unit_test(test_levels),         cmocka_unit_test(test_levels_of_nothing),
        cmocka_unit_test(test_one_rank),       cmocka_unit_test(test_gather_step),
        cmocka_unit_test(test_traffic),        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_levels_traffic), cmocka_unit_test(test_levels_balance),
        cmocka_unit_test(test_messages),       cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_many_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
