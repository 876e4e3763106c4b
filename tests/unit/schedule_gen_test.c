/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests every generator against the verifier: equal and ragged shapes, roots, levels, by-node
 * placement; one rank's rows against all rows; what ports and tiers carry and how many messages
 * there are against closed forms.
 */
#include "unit.h"

#include "schedule_fixture.h"

static int is_long(void)
{
    const char *text = getenv("LONG");

    return text && *text;
}

/* A broadcast from the first, a middle and the last rank. */
static void prove_roots(struct schedule_spec *spec, const char *text)
{
    int n = spec->groups->ranks, roots[] = {0, n / 2, n - 1};

    for (int r = 0; r < (spec->phases == SCHEDULE_BROADCAST ? 3 : 1); r++) {
        spec->root = roots[r];
        prove(spec, text);
    }
}

static void verify_shape(const char *text, int subchunks)
{
    each_spec(text, PHASES, subchunks, prove_roots);
}

TEST(test_equal_shapes)
{
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

TEST(test_ragged_shapes)
{
    static const char *const shapes[] = {
        "[3,2]",   "[2,3]",       "[4,4,3]", "[8,8,7]",     "[7,6,5,3]", "[1,5]",
        "[5,1,1]", "[1,2,3,4,5]", "[11,7]",  "[2,3,5,7,2]", "[13,1,13]", "[9,8,7,6,3]"};

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

/* Ranks by node instead of by slot. */
static void prove_by_node(struct schedule_spec *spec, const char *text)
{
    static const int group_of[7] = {0, 1, 0, 1, 0, 2, 2};
    struct groups g;
    struct layout l;

    assert_ok(groups_init_of(&g, 7, group_of, &err));
    layout_init(&l, &g);
    spec->groups = &l.groups;
    spec->segments = l.segments;
    spec->holder = l.holder;
    prove_roots(spec, text);
    layout_release(&l);
    groups_release(&g);
}

TEST(test_by_node)
{
    each_spec("[3,2,2]", PHASES, 2, prove_by_node);
}

/* A group of cells {0 1} {2 3}, ranks and segments alike: from its holder a segment goes to the
 * rank at the same place in the other cell, and from these to their neighbours. */
TEST(test_cells)
{
    static const int want[][3] = {{0, 2, 0}, {0, 1, 0}, {2, 3, 0}, {1, 3, 1},
                                  {1, 0, 1}, {3, 2, 1}, {2, 0, 2}, {2, 3, 2},
                                  {0, 1, 2}, {3, 1, 3}, {3, 2, 3}, {1, 0, 3}};
    struct groups g;
    struct layout l;
    struct schedule s;

    assert_ok(groups_parse(&g, "[2+2]", &err));
    layout_init(&l, &g);
    struct schedule_spec spec = {.algo = SCHEDULE_HO_RING,
                                 .phases = SCHEDULE_GATHER_INSIDE,
                                 .groups = &g,
                                 .segments = l.segments,
                                 .holder = l.holder,
                                 .subchunks = 1};
    assert_ok(schedule_gen(&spec, -1, &s, &err));
    assert_int_equal(s.rows, 12);
    for (int i = 0; i < 12; i++) {
        int found = 0;
        for (int w = 0; w < 12; w++)
            found += s.row[i].src == want[w][0] && s.row[i].dst == want[w][1] &&
                     s.row[i].chunk == want[w][2];
        assert_int_equal(found, 1);
    }
    schedule_release(&s);
    layout_release(&l);
    groups_release(&g);
}

/* Every root there is. */
static void prove_all_roots(struct schedule_spec *spec, const char *text)
{
    for (; spec->phases == SCHEDULE_BROADCAST && spec->root < spec->groups->ranks; spec->root++)
        prove(spec, text);
}

TEST(test_roots)
{
    static const char *const shapes[] = {"[3,2]",   "2x4",     "[1,5,2]",  "1x7",
                                         "5x1",     "[2+2]",   "[2+1,3]",  "[3+2,2+1+1]",
                                         "[1+1,4]", "[1+3,1]", "[2+2,1+2]"};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        each_spec(shapes[i], WHOLE, 2, prove_all_roots);
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

/* On the fabric of this shape. */
static void on_fabric(struct schedule_spec *spec, const struct fabric *f)
{
    spec->levels = f->levels;
    spec->block = f->block;
}

static void prove_levels(struct schedule_spec *spec, const char *text)
{
    const struct fabric *f = fabrics;

    while (strcmp(f->shape, text))
        f++;
    on_fabric(spec, f);
    spec->root = (int)(f - fabrics) * 7 % spec->groups->ranks;
    prove(spec, text);
}

TEST(test_levels)
{
    for (size_t i = 0; i < FABRICS; i++)
        for (int c = 1; c <= 3; c++)
            each_spec(fabrics[i].shape, PHASES, c, prove_levels);
}

/* Blocks that say nothing (all groups in one, or one each) change no row. */
TEST(test_levels_of_nothing)
{
    static const int one[5] = {0}, each[5] = {0, 1, 2, 3, 4};
    struct layout l;
    struct schedule plain, with;

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
static void one_rank(struct schedule_spec *spec, const char *text)
{
    static const int blocks[4] = {0, 0, 1, 1};
    struct schedule all, own;

    spec->root = 5;
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
    if (spec->levels)
        return;
    spec->levels = 3;
    spec->block = blocks;
    one_rank(spec, text);
}

TEST(test_one_rank)
{
    each_spec("[4,3,2,2]", PHASES, 2, one_rank);
}

/* The last step has rows; a ring has as many steps as its rails may need. */
static void last_step(struct schedule_spec *spec, const char *text)
{
    struct schedule s;
    int last = -1;

    if (spec->algo == SCHEDULE_RING || spec->algo == SCHEDULE_TWO_LEVEL ||
        spec->algo == SCHEDULE_HO_RING)
        return;
    gen_spec(&s, spec, -1);
    for (int64_t i = 0; i < s.rows; i++)
        last = s.row[i].step > last ? s.row[i].step : last;
    if (last + 1 != s.steps)
        fail_msg("%s: %d steps, the last with rows is %d", text, s.steps, last);
    schedule_release(&s);
}

TEST(test_last_step)
{
    each_spec("[3,2,2]", PHASES, 2, last_step);
    each_spec("1x5", PHASES, 1, last_step);
    each_spec("[2,2]", PHASES, 1, last_step);
}

/* The sums are complete at gather_step: from there on nothing is added, before it all is. */
static void gather_step(struct schedule_spec *spec, const char *text)
{
    struct schedule s;
    int last = -1;

    (void)text;
    gen_spec(&s, spec, -1);
    for (int64_t i = 0; i < s.rows; i++) {
        if (s.row[i].op == SCHEDULE_ADD)
            last = s.row[i].step;
        assert_true(!(spec->phases & SCHEDULE_REDUCE_SCATTER) ||
                    s.row[i].step >= s.gather_step || s.row[i].op == SCHEDULE_ADD ||
                    s.row[i].into >= s.chunks);
    }
    assert_true(last < s.gather_step || (last < 0 && s.gather_step == 0));
    schedule_release(&s);
}

TEST(test_gather_step)
{
    each_spec("[3,2,2]", PHASES, 2, gather_step);
}

/* The traffic of the rows of a spec, each chunk being one element; returns its chunks. */
static int64_t traffic_of(const struct schedule_spec *spec, struct schedule_traffic *t)
{
    struct schedule s;

    gen_spec(&s, spec, -1);
    int64_t chunks = s.chunks, *elems = mem_new((size_t)chunks, sizeof *elems);
    for (int c = 0; c < chunks; c++)
        elems[c] = 1;
    schedule_traffic(&s, elems, t);
    mem_free(elems);
    schedule_release(&s);
    return chunks;
}

/*
 * Through a port, of M = n blocks: HO-Ring (g-1)/g M, ring (n-1)/n M (paro-method(7), HO-RING).
 */
TEST(test_traffic)
{
    static const int shapes[][2] = {{2, 2}, {2, 4}, {4, 2}, {4, 4}, {3, 5}};

    for (size_t i = 0; i < 5; i++) {
        int g = shapes[i][0], m = shapes[i][1], n = g * m;
        char text[16];
        struct layout l;
        struct schedule_traffic t;
        snprintf(text, sizeof text, "%dx%d", g, m);
        shape(&l, text);
        struct schedule_spec spec = spec_of(&l, SCHEDULE_HO_RING, SCHEDULE_ALL_GATHER, 1);
        assert_int_equal(traffic_of(&spec, &t), n);
        assert_int_equal(t.slow_out_max, (g - 1) * m);
        assert_int_equal(t.slow_in_max, (g - 1) * m);
        assert_int_equal(t.fast_rank_max, g * (m - 1));
        spec.algo = SCHEDULE_RING;
        traffic_of(&spec, &t);
        assert_int_equal(t.slow_out_max, n - 1);
        /* Broadcast: every port carries M at most, each way, by either ring. */
        spec.phases = SCHEDULE_BROADCAST;
        spec.root = n / 2;
        for (int a = SCHEDULE_RING; a <= SCHEDULE_HO_RING; a++) {
            spec.algo = (enum schedule_algo)a;
            traffic_of(&spec, &t);
            assert_int_equal(t.slow_out_max, n);
            assert_int_equal(t.slow_in_max, n);
            assert_int_equal(t.slow_sum, n * (g - 1));
        }
        layout_release(&l);
    }
}

/* The rows of one chunk: ranks beyond a power of two in and out, the others in twice as many
   rows. */
static int exchange_rows(int n)
{
    int bits = 0;

    while (2 << bits <= n)
        bits++;
    return 2 * (n - (1 << bits)) + 2 * bits * (1 << bits);
}

/* Nothing travels that is there already: each rank but one receives each chunk once in a gather
 * and in a broadcast, sends it once in a reduction.  Recursive doubling exchanges whole vectors
 * instead, and adds each by a second row. */
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

static void count_rows(struct schedule_spec *spec, const char *text)
{
    struct schedule s;

    (void)text;
    spec->root = spec->groups->ranks / 2;
    gen_spec(&s, spec, -1);
    assert_int_equal(s.rows,
                     (int64_t)s.chunks * rows_due((int)spec->algo, spec->phases, spec->groups));
    schedule_release(&s);
}

TEST(test_rows)
{
    static const char *const shapes[] = {"[3,2]", "4x4", "[7,6,5,3]", "1x13", "9x1"};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        each_spec(shapes[i], WHOLE, 2, count_rows);
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

/* Each block of each level is entered once by each chunk that begins elsewhere.  A group takes
 * in what it has not; nor does a broadcast leave one twice.  Where blocks are equal, further
 * levels load no group's port more than one ring does. */
TEST(test_levels_traffic)
{
    static const struct {
        enum schedule_algo algo;
        unsigned phases;
    } cases[] = {{SCHEDULE_HO_RING, SCHEDULE_ALL_GATHER},
                 {SCHEDULE_HO_RING, SCHEDULE_BROADCAST},
                 {SCHEDULE_RING, SCHEDULE_BROADCAST}};

    for (size_t i = 0; i < 3 * FABRICS; i++) {
        const struct fabric *f = &fabrics[i / 3];
        unsigned phases = cases[i % 3].phases;
        struct layout l;
        struct schedule s;
        struct schedule_traffic t;
        shape(&l, f->shape);
        int groups = l.groups.count, is_equal = i / 3 < 2 || i / 3 == 7;
        struct schedule_spec spec = spec_of(&l, cases[i % 3].algo, phases, 2);
        on_fabric(&spec, f);
        spec.root = l.groups.ranks / 2;
        gen_spec(&s, &spec, -1);
        for (int level = 2; level < f->levels; level++)
            assert_int_equal(crossings(&s, f, level),
                             (int64_t)s.chunks * (blocks_at(f, level, groups) - 1));
        int64_t chunks = traffic_of(&spec, &t);
        assert_int_equal(t.slow_sum, chunks * (groups - 1));
        if (phases == SCHEDULE_BROADCAST)
            assert_int_equal(t.slow_out_max, chunks);
        else if (is_equal)
            assert_true(t.slow_out_max == 2 * (groups - 1) * l.segments &&
                        t.slow_in_max == t.slow_out_max);
        schedule_release(&s);
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

TEST(test_messages)
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

/* Whatever is reduced or gathered, a port receives from one other: TCP slows down where two
 * senders meet. */
TEST(test_one_way)
{
    static const char *const shapes[] = {"3x2", "[4,4,3]", "5x3", "[1,2,3,4]"};
    static const enum schedule_algo algos[] = {SCHEDULE_RING, SCHEDULE_TWO_LEVEL,
                                               SCHEDULE_HO_RING};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int from[8], crossed = 0;
        struct groups g;
        struct layout l;
        assert_ok(groups_parse(&g, shapes[i], &err));
        layout_init(&l, &g);
        memset(from, -1, sizeof from);
        for (int n = 0; n < 3 * PHASES; n++) {
            struct schedule s;
            if (all_phases[n / 3] == SCHEDULE_BROADCAST)
                continue;
            gen(&s, &l, algos[n % 3], all_phases[n / 3], 2, -1);
            for (int r = 0; r < s.rows; r++) {
                int a = g.group_of[s.row[r].src], b = g.group_of[s.row[r].dst];
                if (a == b)
                    continue;
                crossed++;
                assert_true(from[b] == -1 || from[b] == a);
                from[b] = a;
            }
            schedule_release(&s);
        }
        assert_true(crossed > 0);
        layout_release(&l);
        groups_release(&g);
    }
}

/* More steps or chunks than an int counts are refused, not wrapped. */
static void too_many(struct schedule_spec *spec, const char *text)
{
    struct schedule s;

    (void)text;
    assert_error(schedule_gen(spec, -1, &s, &err), ERR_INPUT);
    /* The chunks fit, their scratch does not. */
    spec->subchunks = 500000;
    if (spec->algo == SCHEDULE_DOUBLING && spec->phases == SCHEDULE_ALL_REDUCE)
        assert_int_equal(schedule_gen(spec, 0, &s, &err), -1);
}

TEST(test_too_many)
{
    each_spec("1000x2", WHOLE, 1 << 21, too_many);
}

static void prove_third(struct schedule_spec *spec, const char *text)
{
    spec->root = spec->groups->ranks / 3;
    prove(spec, text);
}

/* Every algorithm on up to 512 ranks: a few always, the rest on demand. */
TEST(test_many_ranks)
{
    static char always[] = "16x32 [64,63]";
    static char more[] = "512x1 1x512 127x1 1x251 2x127 509x1 1x509 64x8 [255,257] [100,1,200]"
                         " [8,8,7,8,8,8,8,8] [40,39,38,37,36]";

    for (char *rest = is_long() ? more : always, *text; (text = strsep(&rest, " "));)
        each_spec(text, WHOLE, 1, prove_third);
}
