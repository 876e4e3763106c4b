/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests tables: they give what pick_auto gives, return from their text, and refuse texts that
 * are no table.  Tests, too, what a schedule puts through the ports.
 */
#include "unit.h"

#include "pick/pick_table.h"
#include "words_fixture.h"

static char *print(const struct pick_table *t, enum pick_format format)
{
    FILE *f = unit_stream();

    pick_table_print(t, format, f);
    return unit_text(f);
}

/* In every format. */
static void same_texts(const struct pick_table *a, const struct pick_table *b)
{
    for (enum pick_format f = PICK_YAML; f <= PICK_TEXT; f++) {
        char *one = print(a, f), *two = print(b, f);
        assert_string_equal(one, two);
        free(one);
        free(two);
    }
}

static void check_rules(const struct topo *t, const struct pick_query *query,
                        const struct pick_table *table)
{
    for (int i = 0; i < table->rules; i++) {
        const struct pick_rule *r = &table->rule[i], *next = r + 1;
        int last = i + 1 == table->rules || next->phases != r->phases;
        assert_true(r->from_bytes < r->below_bytes);
        assert_true(last ? r->below_bytes == INT64_MAX : r->below_bytes == next->from_bytes);
        /* Neighbours with one choice are one rule. */
        assert_true(last || r->algo != next->algo || r->chunk_bytes != next->chunk_bytes);
        assert_ptr_equal(pick_find(table, r->phases, r->from_bytes), r);
        assert_ptr_equal(pick_find(table, r->phases, r->below_bytes - 1), r);
    }
    for (int o = 0; o < query->ops; o++)
        for (int64_t b = query->min_bytes; b <= query->max_bytes; b *= query->factor) {
            struct pick_answer a;
            const struct pick_rule *r = pick_find(table, query->op[o], b);
            assert_ok(pick_auto(t, query->op[o], b, &a, &err));
            assert_non_null(r);
            assert_int_equal(r->algo, a.best.algo);
            assert_true(r->chunk_bytes == a.best.chunk_bytes);
        }
}

TEST(tables_say_what_auto_says)
{
    static const char *const specs[] = {"2x2,inter=500mbit:50us,intra=1GB/s:5us",
                                        "[3,2],inter=25GB/s:12us", "1x3"};

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct topo t;
        struct pick_table table, back;
        struct pick_query query = {.min_bytes = 64, .max_bytes = 4 << 20, .factor = 4};
        assert_ok(topo_parse_synth(&t, specs[i], &err));
        pick_query_moves(&query, &t.groups);
        assert_ok(pick_table_make(&t, &query, &table, &err));
        check_rules(&t, &query, &table);
        assert_ok(pick_table_check(&table, &t.groups, &err));
        char *first = print(&table, PICK_YAML);
        assert_ok(pick_table_parse(&back, "t.yaml", first, &err));
        same_texts(&table, &back);
        assert_int_equal(back.rules, table.rules);
        free(first);
        pick_table_release(&back);
        pick_table_release(&table);
        topo_release(&t);
    }
}

/* From the boundary on the second choice is the faster one, and a step before it is not. */
TEST(boundaries_are_where_times_meet)
{
    struct topo t;
    struct pick_table table;
    struct pick_query query = {1, {SCHEDULE_ALL_GATHER}, 64, 16 << 20, 4};
    int seen = 0;

    assert_ok(topo_parse_synth(&t, "4x2,inter=500mbit:500us,intra=1GB/s:5us", &err));
    assert_ok(pick_table_make(&t, &query, &table, &err));
    for (int i = 1; i < table.rules; i++, seen++) {
        const struct pick_rule *a = &table.rule[i - 1], *b = &table.rule[i];
        double first, second;
        if (b->from_bytes == b->at_bytes)
            continue;
        assert_ok(
            pick_time(&t, a->phases, b->from_bytes, a->algo, a->chunk_bytes, &first, &err));
        assert_ok(
            pick_time(&t, a->phases, b->from_bytes, b->algo, b->chunk_bytes, &second, &err));
        assert_true(pick_weigh(b->algo, second) < pick_weigh(a->algo, first));
    }
    assert_true(seen > 0);
    pick_table_release(&table);
    topo_release(&t);
}

#define HEAD "format: paro-tuning/1\nmembers: [2, 2]\nrules:\n"
#define RULE(op, from, more, algo, chunk)                                                      \
    "  - op: " op "\n    from_bytes: " from "\n" more "    algo: " algo                        \
    "\n    chunk_bytes: " chunk "\n"
#define BELOW(n) "    below_bytes: " n "\n"
#define GOOD     RULE("all-gather", "0", "", "ring", "whole")

TEST(hostile_tables_are_refused)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "t.yaml"},
        {"format: paro-tuning/2\nmembers: [2]\nrules: []\n", "paro-tuning/2"},
        {"format: paro-tuning/1\nmembers: [2, 2]\nrules: []\n", "rules"},
        {"format: paro-tuning/1\nmembers: [2, 0]\nrules:\n" GOOD, "t.yaml:2: 'members[1]'"},
        {"format: paro-tuning/1\nmembers: [1048576, 1]\nrules:\n" GOOD, "t.yaml:2: 'members'"},
        {"format: paro-tuning/1\nrules:\n" GOOD, "'members' missing"},
        {HEAD GOOD "    colour: red\n", "t.yaml:8: 'rules[0].colour'"},
        {HEAD RULE("gather", "0", "", "ring", "whole"), "t.yaml:4: 'rules[0].op'"},
        {HEAD RULE("all-gather", "5", "", "ring", "whole"),
         "t.yaml:5: 'rules[0].from_bytes' 5 expected 0"},
        {HEAD RULE("all-gather", "-1", "", "ring", "whole"), "t.yaml:5: 'rules[0].from_bytes'"},
        {HEAD RULE("all-gather", "12abc", "", "ring", "whole"), "'rules[0].from_bytes'"},
        {HEAD RULE("all-gather", "0", BELOW("0"), "ring", "whole"),
         "t.yaml:6: 'rules[0].below_bytes'"},
        {HEAD RULE("all-gather", "0", BELOW("9"), "ring", "whole"),
         "t.yaml:6: 'rules[0].below_bytes'"},
        {HEAD RULE("all-gather", "0", BELOW("9"), "ring", "whole")
             RULE("all-gather", "10", "", "ring", "whole"),
         "t.yaml:10: 'rules[1].from_bytes' 10 expected 9"},
        {HEAD GOOD GOOD, "t.yaml:8: 'rules[1].op' 'all-gather' rules[0]"},
        {HEAD GOOD RULE("broadcast", "0", "", "ring", "whole") GOOD,
         "t.yaml:12: 'rules[2].op' 'all-gather' rules[0]"},
        {HEAD RULE("all-gather", "0", BELOW("9"), "ring", "whole")
             RULE("broadcast", "0", "", "ring", "whole"),
         "t.yaml:6: 'rules[0].below_bytes'"},
        {HEAD RULE("all-gather", "0", "", "fast", "whole"), "t.yaml:6: 'rules[0].algo'"},
        {HEAD RULE("all-gather", "0", "", "auto", "whole"), "t.yaml:6: 'rules[0].algo'"},
        {HEAD RULE("all-gather", "0", "", "ring", "0"), "t.yaml:7: 'rules[0].chunk_bytes'"},
        {HEAD RULE("all-gather", "0", "", "ring", "some"),
         "t.yaml:7: 'rules[0].chunk_bytes' 'some' expected number bytes 'whole'"},
        {HEAD GOOD "    at_bytes: 5\n", "t.yaml:8: 'rules[0].at_bytes' 'time_s'"},
        {HEAD GOOD "    time_s: 5\n", "t.yaml:8: 'rules[0].time_s' 'at_bytes'"},
        {HEAD GOOD "    runner_up: ring\n    runner_up_s: 1\n",
         "t.yaml:8: 'rules[0].runner_up' 'time_s'"},
        {HEAD GOOD "    timed: measured\n", "t.yaml:8: 'rules[0].timed' 'time_s'"},
        {HEAD GOOD "    at_bytes: 5\n    time_s: 1\n    timed: yes\n",
         "t.yaml:10: 'rules[0].timed' 'yes' expected simulated measured"},
        {HEAD GOOD "    at_bytes: 5\n    time_s: nan\n", "t.yaml:9: 'rules[0].time_s'"},
        {HEAD GOOD "    at_bytes: 5\n    time_s: 1\n    runner_up: auto\n    runner_up_s: 1\n",
         "t.yaml:10: 'rules[0].runner_up'"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pick_table t;
        err = (struct err){0};
        if (pick_table_parse(&t, "t.yaml", cases[i].text, &err) == 0)
            fail_msg("taken: %s", cases[i].text);
        assert_int_equal(err.code, ERR_INPUT);
        assert_words(err.text, cases[i].words);
    }
}

TEST(edited_tables_are_taken)
{
    static const char text[] = HEAD RULE("all-gather", "0", BELOW("65536"), "ring", "whole")
        RULE("all-gather", "65536", "", "ho-ring", "61440");
    struct pick_table t;
    struct groups other;

    assert_ok(pick_table_parse(&t, "t.yaml", text, &err));
    assert_int_equal(pick_find(&t, SCHEDULE_ALL_GATHER, 0)->algo, SCHEDULE_RING);
    assert_int_equal(pick_find(&t, SCHEDULE_ALL_GATHER, 65535)->algo, SCHEDULE_RING);
    assert_int_equal(pick_find(&t, SCHEDULE_ALL_GATHER, 65536)->algo, SCHEDULE_HO_RING);
    assert_int_equal(pick_find(&t, SCHEDULE_ALL_GATHER, INT64_MAX - 1)->chunk_bytes, 61440);
    assert_null(pick_find(&t, SCHEDULE_BROADCAST, 5));
    char *yaml = print(&t, PICK_YAML);
    assert_string_equal(yaml, text);
    free(yaml);
    assert_ok(groups_parse(&other, "[3,1]", &err));
    assert_refused(pick_table_check(&t, &other, &err), "groups 2x2 [3,1]");
    groups_release(&other);
    pick_table_release(&t);
}

static struct pick_answer answer_of(unsigned op, int64_t bytes, enum schedule_algo algo,
                                    double time_s)
{
    return (struct pick_answer){
        .phases = op,
        .bytes = bytes,
        .best = {.algo = algo, .chunk_bytes = PICK_CHUNK_USUAL, .time_s = time_s},
        .second = {.algo = SCHEDULE_TREE, .chunk_bytes = 4096, .time_s = 2 * time_s}};
}

#define MEASURED(at, time, other)                                                              \
    "    at_bytes: " at "\n    time_s: " time                                                  \
    "\n    timed: measured\n    runner_up: tree\n    runner_up_s: " other "\n"

/* Neighbours with one choice are one rule; between two the geometric mean of their sizes. */
TEST(measured_answers_become_rules)
{
    static const char want[] = HEAD RULE("all-gather", "0", BELOW("2048"), "bruck", "61440")
        MEASURED("256", "1", "2") RULE("all-gather", "2048", "", "ring", "61440")
            MEASURED("4096", "3", "6") RULE("broadcast", "0", "", "ring", "61440")
                MEASURED("256", "4", "8") RULE("gather-inside", "0", "", "ring", "whole");
    struct pick_answer list[] = {answer_of(SCHEDULE_ALL_GATHER, 256, SCHEDULE_BRUCK, 1),
                                 answer_of(SCHEDULE_ALL_GATHER, 1024, SCHEDULE_BRUCK, 2),
                                 answer_of(SCHEDULE_ALL_GATHER, 4096, SCHEDULE_RING, 3),
                                 answer_of(SCHEDULE_BROADCAST, 256, SCHEDULE_RING, 4)};
    struct pick_table table, more;
    struct groups groups;

    assert_ok(groups_parse(&groups, "2x2", &err));
    pick_table_measured(&groups, list, 4, &table);
    assert_ok(pick_table_parse(&more, "t.yaml",
                               HEAD RULE("gather-inside", "0", "", "ring", "whole"), &err));
    pick_table_append(&table, &more);
    pick_table_release(&more);
    char *yaml = print(&table, PICK_YAML);
    assert_string_equal(yaml, want);
    assert_ok(pick_table_parse(&more, "t.yaml", yaml, &err));
    same_texts(&table, &more);
    free(yaml);
    pick_table_release(&more);
    pick_table_release(&table);
    groups_release(&groups);
}

TEST(between_two_sizes_lies_their_mean)
{
    assert_int_equal(pick_between(256, 1024), 512);
    assert_int_equal(pick_between(INT64_C(1) << 40, INT64_C(1) << 48), INT64_C(1) << 44);
    assert_int_equal(pick_between(3, 12), 6);
    assert_int_equal(pick_between(10, 21), 15); /* 14.5 */
    for (int64_t lo = 1; lo < 200; lo++)
        for (int64_t hi = lo + 1; hi < 4 * lo + 3; hi++) {
            int64_t at = pick_between(lo, hi);
            assert_true(at > lo && at <= hi);
            assert_true(at * at >= lo * hi && (at - 1) * (at - 1) < lo * hi);
        }
    /* neighbours that no double tells apart */
    assert_int_equal(pick_between((INT64_C(1) << 60) + 1, (INT64_C(1) << 60) + 2),
                     (INT64_C(1) << 60) + 2);
}

/* The traffic of the ports, against the closed forms of paro-method(7), HO-RING.  Rounding of
   each chunk to 2^-42 of M; chunks below 2^12 here. */
static const double rounding = 0x1p-30;

static struct pick_traffic traffic(unsigned op, enum schedule_algo algo, const char *shape)
{
    struct pick_traffic t = {0};
    struct schedule s = {0};
    struct topo fabric = {0};

    assert_ok(topo_parse_shape(&fabric, shape, &err));
    const struct schedule_spec how = {.algo = algo, .phases = op, .subchunks = 3};
    assert_ok(pick_schedule_on(&how, &fabric, "schedule", PICK_ROWS_MAX, &s, &err));
    assert_ok(schedule_verify(&s, &err));
    pick_traffic(&s, &t);
    assert_true(t.by_layout);
    schedule_release(&s);
    topo_release(&fabric);
    return t;
}

static void equal(double have, double want)
{
    if (fabs(have - want) > rounding)
        fail_msg("%.9f, expected %.9f", have, want);
}

TEST(ring_puts_all_but_one_block_through)
{
    struct pick_traffic t = traffic(SCHEDULE_ALL_GATHER, SCHEDULE_RING, "4x8");
    equal(t.slow_out, 31.0 / 32);
    equal(t.slow_in, 31.0 / 32);
    equal(traffic(SCHEDULE_ALL_REDUCE, SCHEDULE_RING, "[3,2]").slow_out, 2 * 4.0 / 5);
}

TEST(ho_ring_reaches_the_cut_bound)
{
    equal(traffic(SCHEDULE_ALL_GATHER, SCHEDULE_HO_RING, "4x8").slow_out, 3.0 / 4);
    equal(traffic(SCHEDULE_REDUCE_SCATTER, SCHEDULE_HO_RING, "2x3").slow_in, 1.0 / 2);
    /* equal slices: 2 (g-1)/g, not 2 * 3/5 */
    equal(traffic(SCHEDULE_ALL_REDUCE, SCHEDULE_HO_RING, "[3,2]").slow_out, 1);
    /* max_k (1 - m_k/n) comes in to the smaller group */
    equal(traffic(SCHEDULE_ALL_GATHER, SCHEDULE_HO_RING, "[3,2]").slow_in, 3.0 / 5);
}

TEST(slices_are_even_only_in_between)
{
    assert_true(layout_even(SCHEDULE_ALL_REDUCE, SCHEDULE_HO_RING));
    assert_true(layout_even(SCHEDULE_ALL_REDUCE, SCHEDULE_TWO_LEVEL));
    assert_false(layout_even(SCHEDULE_ALL_REDUCE, SCHEDULE_RING));
    assert_false(layout_even(SCHEDULE_REDUCE_SCATTER, SCHEDULE_HO_RING));
    assert_false(layout_even(SCHEDULE_ALL_GATHER, SCHEDULE_HO_RING));
}
