/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the report of a step: from a rank's text back to its times, as JSON, as a picture. */
#include "unit.h"

#include "value/value_tree.h"
#include "train/train_trace.h"
#include "xml_fixture.h"

static struct model_unit units[] = {{.name = "embed"}, {.name = "layers.0"}, {.name = "head"}};

struct scene {
    struct plan plan;
    struct train_trace trace;
    char **text;
    const char **host;
};

static void scene_init(struct scene *s, const char *shape)
{
    *s = (struct scene){0};
    assert_ok(groups_parse(&s->plan.groups, shape, &err));
    s->plan.strategy = plan_strategy_at(PLAN_STRATEGIES - 1); /* GGG */
    s->plan.model.units = 3;
    s->plan.model.unit = units;
    s->text = mem_new((size_t)s->plan.groups.ranks, sizeof *s->text);
    s->host = mem_new((size_t)s->plan.groups.ranks, sizeof *s->host);
    for (int r = 0; r < s->plan.groups.ranks; r++)
        s->host[r] = "node<&\">";
}

static void scene_release(struct scene *s)
{
    train_trace_release(&s->trace);
    for (int r = 0; r < s->plan.groups.ranks; r++)
        mem_free(s->text[r]);
    mem_free(s->text);
    mem_free(s->host);
    groups_release(&s->plan.groups);
}

/* A step from 100 s to 100.010 s, of a clock that began elsewhere.  Kept are: a sync of the
 * step before, in the window from its beginning to 2 ms; what ran in it; and a sync that
 * reaches across the end. */
#define AT(ms) (100 + (ms)*1e-3)
#define RAN(...)                                                                               \
    {                                                                                          \
        1, __VA_ARGS__                                                                         \
    }
static struct step_row row[] = {{STEP_COMPUTE, STEP_BEGIN, -1, -1, 0, -1, {-1, -1}},
                                {STEP_GATHER, STEP_TRANSFER, 1, 1, 0, 0, {0, 6}},
                                {STEP_COMPUTE, STEP_FORWARD, 1, 1, 0, 0, {1, -1}},
                                {STEP_COMPUTE, STEP_AGREE, -1, -1, -1, -1, {-1, -1}},
                                {STEP_COMPUTE, STEP_UPDATE, 0, -1, -1, -1, {-1, -1}},
                                {STEP_SYNC, STEP_TRANSFER, 0, -1, -1, -1, {4, -1}},
                                {STEP_SYNC, STEP_TRANSFER, 1, -1, -1, -1, {4, -1}}};
enum { ROWS = sizeof row / sizeof *row };
static const struct step rows = {.row = row, .rows = ROWS};
static const struct step_time ran[2 * ROWS] = {
    [4] = RAN(AT(-5), AT(-5), AT(-3), 0, 0),      [5] = RAN(AT(-3), AT(-3), AT(-1), 7, 8),
    [6] = RAN(AT(-2), AT(-1), AT(2), 7, 8),       [ROWS] = RAN(AT(0), AT(0), AT(1), 0, 0),
    [ROWS + 1] = RAN(AT(1), AT(2), AT(4), 9, 10), [ROWS + 2] = RAN(AT(1), AT(5), AT(7), 0, 0),
    [ROWS + 3] = RAN(AT(7), AT(7), AT(10), 0, 0), [ROWS + 5] = RAN(AT(8), AT(9), AT(12), 7, 8),
    [ROWS + 6] = RAN(AT(8), AT(12), AT(14), 7, 8)};

static void one_rank(struct scene *s)
{
    scene_init(s, "1x1");
    s->text[0] = train_trace_text(&rows, ran, AT(0), AT(10));
    train_trace_init(&s->trace, &s->plan, &rows, 3, s->text, s->host);
}

/* Times come back within the ns that they are told in. */
TEST(there_and_back)
{
    static const int kept[] = {6, ROWS, ROWS + 1, ROWS + 2, ROWS + 3, ROWS + 5};
    struct scene s;
    int count = 0;

    one_rank(&s);
    const struct train_trace_rank *r = &s.trace.rank[0];
    assert_true(fabs(r->step_s - 0.010) <= 1e-9);
    for (int i = 0; i < 2 * ROWS; i++)
        count += r->time[i].ran;
    assert_int_equal(count, 6);
    for (int i = 0; i < count; i++) {
        const struct step_time *v = &r->time[kept[i]], *w = &ran[kept[i]];
        assert_true(v->ran);
        assert_true(fabs(v->issued_s - (w->issued_s - 100)) <= 1e-9);
        assert_true(fabs(v->start_s - (w->start_s - 100)) <= 1e-9);
        assert_true(fabs(v->end_s - (w->end_s - 100)) <= 1e-9);
        assert_true(v->slow_bytes == w->slow_bytes && v->fast_bytes == w->fast_bytes);
    }
    /* 1 + 2, 4 and 3 ms; on the path: the sync 2, the gather 2, the forward 2, the agreement 3,
       and 1 between the gather's end and the forward. */
    assert_true(fabs(r->compute_s - 0.003) < 1e-8 && fabs(r->exposed_s - 0.004) < 1e-8 &&
                fabs(r->idle_s - 0.003) < 1e-8);
    assert_true(fabs(r->path.sum_s[STEP_PATH_SYNC] - 0.002) < 1e-8 &&
                fabs(r->path.sum_s[STEP_PATH_GAP] - 0.001) < 1e-8 &&
                fabs(r->path.longest_s - 0.009) < 1e-8);
    scene_release(&s);
}

static char *told(const struct train_trace *t, void (*tell)(const struct train_trace *, FILE *))
{
    FILE *f = unit_stream();

    tell(t, f);
    return unit_text(f);
}

TEST(line)
{
    struct scene s;

    one_rank(&s);
    char *text = told(&s.trace, train_trace_line);
    assert_string_equal(text,
                        "critical path of step 3: 0.009 s of 0.01 s (1.11): compute 20 %, "
                        "gathers 20 %, reduces 0 %, syncs 20 %, agreement 30 %, gaps 10 %");
    mem_free(text);
    scene_release(&s);
}

static const char *text_of(const struct tree_node *v, const char *key)
{
    const char *text = tree_string(tree_get(v, key));

    return text ? text : "";
}

static double num_of(const struct tree_node *v, const char *key)
{
    double d = 0;

    tree_is_number(tree_get(v, key), &d);
    return d;
}

TEST(json)
{
    static const char *const names[] = {"sync layers.0",    "begin", "gather layers.0", "wait",
                                        "forward layers.0", "agree", "sync embed"};
    static const double ts[] = {0, 0, 2000, 1000, 5000, 7000, 9000},
                        dur[] = {2000, 1000, 2000, 4000, 2000, 3000, 1000};
    enum { NAMES = 1 + STEP_LANES }; /* of the process and its threads */
    struct scene s;
    struct tree doc;
    size_t i = 0;

    one_rank(&s);
    char *text = told(&s.trace, train_trace_json);
    /* The text that readers look for at the very beginning. */
    assert_memory_equal(text, "{\"traceEvents\":[", 16);
    assert_ok(tree_parse_json(&doc, "t", 1, text, (int64_t)strlen(text), &err));
    const struct tree_node *events = tree_get(doc.root, "traceEvents"), *v = events->child;
    assert_int_equal(tree_count(events, TREE_LIST), NAMES + 7);
    assert_string_equal(text_of(tree_get(v, "args"), "name"), "rank 0 (node<&\">)");
    for (; v; v = v->next, i++) {
        const struct tree_node *args = tree_get(v, "args");
        assert_string_equal(text_of(v, "ph"), i < NAMES ? "M" : "X");
        if (i < NAMES)
            continue;
        size_t k = i - NAMES;
        assert_string_equal(text_of(v, "name"), names[k]);
        assert_true(num_of(v, "ts") == ts[k] && num_of(v, "dur") == dur[k]);
        int clipped = k == 0 || k == 6;
        assert_int_equal(tree_is(tree_get(args, "clipped"), "true"), clipped);
        if (k == 3)
            assert_string_equal(text_of(args, "cause"), "gather layers.0, micro-step 0");
        if (k == 2)
            assert_string_equal(text_of(args, "behind"), "sync layers.0");
        if (k == 2)
            assert_true(num_of(args, "slow_bytes") == 9 && num_of(args, "fast_bytes") == 10 &&
                        num_of(args, "critical_us") == 2000 && num_of(v, "tid") == 1);
    }
    v = tree_get(tree_get(doc.root, "otherData"), "ranks")->child;
    assert_true(fabs(num_of(v, "critical_path_s") - 0.009) < 1e-8);
    tree_release(&doc);
    mem_free(text);
    scene_release(&s);
}

static int count_of(const char *text, const char *what)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, what)); at++)
        n++;
    return n;
}

static void draw(const struct train_trace *t, FILE *out)
{
    assert_ok(train_trace_draw(t, out, &err));
}

TEST(picture)
{
    struct scene s;

    one_rank(&s);
    char *text = told(&s.trace, draw);
    assert_true(xml_elements(text) > 0);
    /* A bar with a tooltip for each of the seven.  Three outlines for the path: of the sync,
       of the gather, and, behind the gap of 1 ms, of forward and agreement in one. */
    assert_int_equal(count_of(text, "<title>rank 0: "), 7);
    const char *path = strstr(text, "class=\"path\"");
    assert_non_null(path);
    assert_int_equal(count_of(path, "<rect"), 3);
    assert_non_null(strstr(text, ">layers.0</text>"));
    assert_non_null(strstr(text, "node&lt;&amp;&quot;"));
    assert_non_null(strstr(text, ">10 ms</text>"));
    assert_non_null(
        strstr(text, "step 10.0 ms = compute 3.00 ms + exposed 4.00 ms + idle 3.00 ms"));
    assert_non_null(strstr(text, "critical path 9.00 ms, the step is 1.11 times that"));
    assert_non_null(strstr(text, ">no prediction: "));
    mem_free(text);
    /* The predicted step, of twice the time, stands above. */
    struct plan_piece piece[] = {{STEP_COMPUTE, STEP_FORWARD, 1, 0, 0, 0.01},
                                 {STEP_COMPUTE, STEP_UPDATE, 2, -1, 0.018, 0.02}};
    struct plan_timeline line = {.step_s = 0.02, .piece = piece, .pieces = 2, .micros = 1};
    s.trace.predicted = &line;
    text = told(&s.trace, draw);
    assert_int_equal(count_of(text, "<title>rank 0: "), 7);
    assert_int_equal(count_of(text, "<title>predicted: "), 2);
    assert_non_null(strstr(text, "<title>predicted: update head: 2.00 ms, starts at 18.0 ms"));
    assert_non_null(strstr(text, ">predicted: step 20.0 ms"));
    assert_non_null(strstr(text, ">20 ms</text>"));
    assert_true(strstr(text, ">predicted</text>") < strstr(text, ">rank 0</text>"));
    mem_free(text);
    scene_release(&s);
}

static void check_drawn(const char *shape, int slowest, const char *want)
{
    struct scene s;
    int drawn[TRAIN_TRACE_DRAWN];
    char text[64] = "";

    scene_init(&s, shape);
    s.trace =
        (struct train_trace){.plan = &s.plan, .ranks = s.plan.groups.ranks, .slowest = slowest};
    int n = train_trace_drawn(&s.trace, drawn);
    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", drawn[i]);
    assert_string_equal(text, want);
    s.trace.ranks = 0;
    scene_release(&s);
}

TEST(who_is_drawn)
{
    check_drawn("1x1", 0, "0 ");
    check_drawn("2x4", 7, "0 1 2 3 4 5 6 7 ");
    check_drawn("[3,6]", 4, "0 3 4 ");
    check_drawn("4x4", 8, "0 4 8 12 ");
    check_drawn("4x4", 9, "0 4 8 9 12 ");
    check_drawn("10x2", 19, "0 2 4 6 8 10 12 19 ");
    check_drawn("10x2", 18, "0 2 4 6 8 10 12 18 ");
    check_drawn("10x2", 3, "0 2 3 4 6 8 10 12 ");
    check_drawn("10x2", 0, "0 2 4 6 8 10 12 14 ");
}

/* More bars than pixels: they are joined, at most two a pixel, and none is lost. */
TEST(very_many)
{
    enum { MANY = 30000 };
    struct step many = {.row = mem_new(MANY, sizeof *many.row), .rows = MANY};
    struct step_time *v = mem_new((size_t)2 * MANY, sizeof *v);
    struct scene s;

    for (int i = 0; i < MANY; i++) {
        many.row[i] = (struct step_row)LIST(.lane = STEP_COMPUTE,
                                            .kind = i % 3 ? STEP_FORWARD : STEP_BACKWARD,
                                            .unit = 1, .micro = i, .after = {-1, -1});
        v[MANY + i] = (struct step_time)RAN(i, i, i + 1, 0, 0);
    }
    scene_init(&s, "2x1");
    for (int r = 0; r < 2; r++)
        s.text[r] = train_trace_text(&many, v, 0, MANY);
    train_trace_init(&s.trace, &s.plan, &many, 3, s.text, s.host);
    char *text = told(&s.trace, draw);
    int bars = count_of(text, "<title>rank "), more = 0;
    assert_in_range(bars, 2, 2 * 2200);
    for (const char *at = text; (at = strstr(at, " and ")); at++)
        more += atoi(at + strlen(" and "));
    assert_int_equal(bars + more, 2 * MANY);
    mem_free(text);
    scene_release(&s);
    mem_free(v);
    mem_free(many.row);
}
