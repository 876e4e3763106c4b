/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests timelines: every message at both its ends, in its place and colour; what is too thin,
 * too much.
 */
#include "unit.h"

#include "topo_fixture.h"

#include "pick/pick.h"
#include "sim/sim_draw.h"
#include "xml_fixture.h"

struct scene {
    struct topo topo;
    struct schedule s;
    struct sim_times times;
    int64_t *bytes;
    struct sim_picture p;
};

/* Groups of a shape and room for rows, of one second each. */
static void scene_init(struct scene *c, const char *spec, int64_t rows)
{
    *c = (struct scene){.topo = read_synth(spec)};
    groups_copy(&c->s.groups, &c->topo.groups);
    c->s.phases = SCHEDULE_ALL_GATHER;
    c->s.segments = c->s.subchunks = 1;
    c->s.chunks = c->s.groups.count;
    c->s.lanes = 2;
    c->s.rows = rows;
    c->s.row = mem_new((size_t)rows + 1, sizeof *c->s.row);
    c->times.start_s = mem_new((size_t)rows + 1, sizeof(double));
    c->times.end_s = mem_new((size_t)rows + 1, sizeof(double));
    c->times.time_s = (double)rows;
    c->bytes = mem_new((size_t)c->s.chunks, sizeof *c->bytes);
    for (int i = 0; i < c->s.chunks; i++)
        c->bytes[i] = 1024;
    c->p = (struct sim_picture){&c->s, &c->topo, &c->times, c->bytes, NAN};
}

static void scene_row(struct scene *c, int i, struct schedule_row row, double start, double end)
{
    c->s.row[i] = row;
    c->times.start_s[i] = start;
    c->times.end_s[i] = end;
}

static void scene_release(struct scene *c)
{
    topo_release(&c->topo);
    schedule_release(&c->s);
    mem_free(c->times.start_s);
    mem_free(c->times.end_s);
    mem_free(c->bytes);
}

/* The picture's text, well-formed; owned by the caller. */
static char *draw(const struct scene *c)
{
    FILE *f = unit_stream();

    assert_ok(sim_draw(&c->p, f, &err));
    char *text = unit_text(f);
    xml_elements(text);
    return text;
}

/* The value behind `word` ("x") of the element that has a tooltip with `tip` in it. */
static const char *bar(const char *text, const char *tip, const char *word)
{
    const char *at = strstr(text, tip);
    char key[32];

    if (!at)
        fail_msg("no bar '%s' in\n%s", tip, text);
    while (strncmp(at, "<rect", 5))
        at--;
    snprintf(key, sizeof key, " %s=\"", word);
    return strstr(at, key) + strlen(key);
}

static double number(const char *text, const char *tip, const char *word)
{
    return strtod(bar(text, tip, word), NULL);
}

TEST(a_message_stands_at_both_ends)
{
    struct scene c;

    scene_init(&c, "2x2", 3);
    topo_set_host(&c.topo, 0, "a<b");
    scene_row(&c, 0, (struct schedule_row){0, 0, 0, 2, 0, 0, SCHEDULE_COPY}, 0, 1);
    scene_row(&c, 1, (struct schedule_row){0, 0, 0, 2, 1, 1, SCHEDULE_COPY}, 0, 1);
    scene_row(&c, 2, (struct schedule_row){1, 1, 2, 3, 1, 1, SCHEDULE_COPY}, 1, 3);
    char *text = draw(&c);
    assert_non_null(strstr(text, ">a&lt;b<"));
    assert_int_equal(unit_count(text, "<title>rank "), 4);
    /* Two rows, one message of two parts: grey. */
    const char *both = "rank 0 to 2, lane 0, step 0: 2.00 KiB (2 chunks), several shards";
    assert_memory_equal(bar(text, both, "fill"), "#777777", 7);
    assert_non_null(strstr(text, "rank 2 from 0, lane 0, step 0: 2.00 KiB"));
    const char *inside = "rank 2 to 3, lane 1, step 1: 1.00 KiB (1 chunk), shard of group 1";
    assert_memory_not_equal(bar(text, inside, "fill"), "#d55e00", 7); /* light */
    assert_true(number(text, inside, "x") > number(text, "rank 0 to 2", "x"));
    assert_true(number(text, inside, "height") > number(text, "rank 3 from 2", "height"));
    free(text);
    scene_release(&c);
}

TEST(overlapping_messages_lie_beside_each_other)
{
    struct scene c;

    scene_init(&c, "1x4", 3);
    for (int i = 0; i < 3; i++) /* two together, one after them */
        scene_row(&c, i, (struct schedule_row){0, i, 0, 1 + i, 0, 0, SCHEDULE_COPY},
                  i < 2 ? 0 : 2, i < 2 ? 2 : 4);
    char *text = draw(&c);
    double one = number(text, "rank 0 to 1", "y"), two = number(text, "rank 0 to 2", "y");
    double high = number(text, "rank 0 to 1", "height");
    assert_true(two >= one + high);
    assert_true(number(text, "rank 0 to 3", "y") == one);
    assert_true(number(text, "rank 0 to 3", "height") > 1.9 * high);
    free(text);
    scene_release(&c);
}

/* n messages of one lane, one after the other, of `parts` parts in turn. */
static void scene_train(struct scene *c, int n, int parts)
{
    scene_init(c, "2x1", n);
    for (int i = 0; i < n; i++)
        scene_row(c, i, (struct schedule_row){0, i, 0, 1, i % parts, i % parts, SCHEDULE_COPY},
                  i, i + 1);
}

TEST(what_is_too_thin_is_merged)
{
    struct scene c;

    for (int parts = 1; parts <= 2; parts++) {
        scene_train(&c, 100, parts);
        char *text = draw(&c);
        assert_int_equal(unit_count(text, "<title>rank 0 "), 100);
        free(text);
        scene_release(&c);

        /* 1060 pixels: no more bars than half pixels, none of the messages lost. */
        scene_train(&c, 40000, parts);
        text = draw(&c);
        int n = unit_count(text, "<title>rank 0 sends "), messages = 0;
        assert_in_range(n, parts, 2200);
        for (const char *p = text; (p = strstr(p, "<title>rank 0 sends ")); p++)
            messages += atoi(p + strlen("<title>rank 0 sends "));
        assert_int_equal(messages, 40000);
        free(text);
        scene_release(&c);
    }
}

TEST(the_bound_is_drawn_where_there_is_one)
{
    static const double none[] = {NAN, 0, INFINITY, -1};
    struct scene c;

    scene_train(&c, 4, 1);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        c.p.bound_s = none[i];
        char *text = draw(&c);
        assert_null(strstr(text, "stroke-dasharray"));
        assert_null(strstr(text, "cut bound"));
        free(text);
    }
    c.p.bound_s = 8; /* behind the end of the rows */
    char *text = draw(&c);
    assert_non_null(strstr(text, "stroke-dasharray"));
    assert_non_null(strstr(text, ">cut bound 8.00 s<"));
    assert_non_null(strstr(text, "2.000 of the cut bound"));
    free(text);
    scene_release(&c);
}

TEST(nothing_and_one_rank)
{
    struct scene c;

    scene_init(&c, "1x1", 0);
    char *text = draw(&c);
    assert_null(strstr(text, "<title>rank"));
    assert_null(strstr(text, "nan"));
    free(text);
    scene_release(&c);
    /* Empty chunks are not sent. */
    scene_train(&c, 4, 2);
    c.bytes[0] = 0;
    text = draw(&c);
    assert_int_equal(unit_count(text, "<title>rank 0"), 2);
    free(text);
    scene_release(&c);
}

TEST(too_much_is_refused)
{
    struct scene c;

    scene_init(&c, "1x9000", 0);
    FILE *f = unit_stream();
    assert_error(sim_draw(&c.p, f, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "a picture of 9000 ranks would be"));
    c.s.rows = INT64_C(1) << 40;
    assert_refused(sim_draw(&c.p, f, &err), "picture 1099511627776 rows expected 4194304");
    c.s.rows = 0;
    char *text = unit_text(f);
    assert_string_equal(text, "");
    free(text);
    scene_release(&c);
}

/* Drawings of the simulator's results, for every shape: bars of every rank, all inside the
   picture. */
TEST(simulated_schedules)
{
    static const char *const shapes[] = {"2x2", "4x2", "[3,2]", "[4,4,3]", "3x1", "1x5", "9x2"};
    const struct schedule_spec how = {
        .algo = SCHEDULE_HO_RING, .phases = SCHEDULE_ALL_REDUCE, .subchunks = 2};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct scene c = {.topo = read_synth(shapes[i])};
        assert_ok(pick_schedule_on(&how, &c.topo, "schedule", PICK_ROWS_MAX, &c.s, &err));
        c.bytes = mem_new((size_t)c.s.chunks, sizeof *c.bytes);
        for (int k = 0; k < c.s.chunks; k++)
            c.bytes[k] = 1 << 20;
        assert_ok(sim_rows(&c.s, &c.topo, c.bytes, 1, &c.times, &err));
        c.p = (struct sim_picture){&c.s, &c.topo, &c.times, c.bytes, c.times.time_s / 2};
        char *text = draw(&c);
        for (int r = 0; r < c.s.groups.ranks; r++) {
            char tip[48];
            snprintf(tip, sizeof tip, "<title>rank %d ", r);
            assert_true(c.s.groups.ranks == 1 || unit_count(text, tip) > 1);
        }
        for (const char *p = text; (p = strstr(p, "<rect x=\"")); p++) {
            double x = strtod(p + 9, NULL), w = strtod(strstr(p, "width=\"") + 7, NULL);
            assert_true(x >= 0 && x + w <= 1280);
        }
        free(text);
        topo_release(&c.topo);
        schedule_release(&c.s);
        sim_times_release(&c.times);
        mem_free(c.bytes);
    }
}
