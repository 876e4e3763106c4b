/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests paro-rank's library: lines of logs, epochs of runs that were resumed, scores, ranks.
 * Second opinions: strtod, losses kept step by step, sums written out, tables worked by hand.
 */
#include "unit.h"

#include <float.h>

#include "base/rng.h"
#include "rank/rank.h"
#include "rank/rank_line.h"
#include "rank_fixture.h"

struct line {
    const char *text;
    enum rank_said said;
    int64_t step;
    double loss;
    int64_t planned;
};

/* With tokens the strict reader sees every line of JSON. */
static enum rank_said read_line(const char *line, int tokens, struct rank_point *pt)
{
    size_t n = strlen(line);
    char *text = mem_new(n + 1, 1);

    memcpy(text, line, n);
    text[n] = '\n';
    enum rank_said said = rank_line(text, (int64_t)n, tokens, pt);
    mem_free(text);
    return said;
}

TEST(known_lines_are_read)
{
    static const struct line lines[] = {
        {"{\"step\":7,\"loss\":2.5,\"lr\":1}", RANK_LOSS, 7, 2.5, 0},
        {"{\"step\":7,\"loss\":2.5}", RANK_LOSS, 7, 2.5, 0},
        {"{\"step\":7,\"loss\":null,\"skipped\":true}", RANK_LOSS, 7, NAN, 0},
        {"{\"step\": 7, \"loss\": NaN, \"x\": NaN, \"y\": -Infinity}", RANK_LOSS, 7, NAN, 0},
        {"{\"step\":7,\"loss\":-Infinity}", RANK_LOSS, 7, -INFINITY, 0},
        {" {\"step\":7,\"loss\":1}", RANK_NOTHING, 0, 0, 0},
        {"{\"loss\": 3e-1, \"a\": {\"loss\": 9}, \"step\": 8}", RANK_LOSS, 8, 0.3, 0},
        {"{\"step\":7,\"eval_loss\":2.5}", RANK_NOTHING, 0, 0, 0},
        {"{\"step\":-7,\"loss\":2.5}", RANK_NOTHING, 0, 0, 0},
        {"{\"step\":7.5,\"loss\":2.5}", RANK_NOTHING, 0, 0, 0},
        {"{\"step\":9007199254740993,\"loss\":2.5}", RANK_NOTHING, 0, 0, 0},
        {"{\"step\":9007199254740992,\"loss\":2.5}", RANK_LOSS, RANK_STEP_MAX, 2.5, 0},
        {"{\"step\":7,\"loss\":\"2.5\"}", RANK_NOTHING, 0, 0, 0},
        {"{\"step\":7,\"lo", RANK_BROKEN, 0, 0, 0},
        {"{\"step\":7,\"lo{\"step\":5,\"loss\":1}", RANK_BROKEN, 0, 0, 0},
        /* Written over behind the loss, in a key, in a value; braces of its own are none. */
        {"{\"step\":2,\"loss\":9,\"g{\"step\":2,\"loss\":2,\"g\":1}", RANK_BROKEN, 0, 0, 0},
        {"{\"step\":2,\"loss\":9,\"g\":1{\"step\":2,\"loss\":2}", RANK_BROKEN, 0, 0, 0},
        {"{\"step\":2,\"loss\":9,{\"step\":2,\"loss\":2,\"g\":1}", RANK_BROKEN, 0, 0, 0},
        {"{\"step\":2,\"loss\":9{\"step\":2,\"loss\":2,\"g\":1}", RANK_BROKEN, 0, 0, 0},
        {"{\"step\":2,\"loss\":1,\"a\":{\"b\":\"{\"}}", RANK_LOSS, 2, 1, 0},
        {"{\"step\":7,\"loss\":2.5e}", RANK_BROKEN, 0, 0, 0},
        {"s:0 trl:11.0319 lr:0.000001 norm:15.33", RANK_LOSS, 0, 11.0319, 0},
        {"s:250 tel:6.4569", RANK_NOTHING, 0, 0, 0},
        {"s:250 eval:0.2588", RANK_NOTHING, 0, 0, 0},
        {"s:250 trl:-nan lr:0", RANK_LOSS, 250, NAN, 0},
        {"s:250 trl:", RANK_BROKEN, 0, 0, 0},
        {"step:5/1750 train_loss:10.2511 train_time:1112ms", RANK_LOSS, 5, 10.2511, 1750},
        {"step:5/1750 val_loss:10.2511 train_time:1112ms", RANK_NOTHING, 0, 0, 0},
        {"step:5/1750 train_time:1112ms step_avg:150ms", RANK_NOTHING, 0, 0, 0},
        {"step:5 train_loss:.5", RANK_LOSS, 5, 0.5, 0},
        {"step    1/19560 | loss 11.006160 (+nanz)| norm 15.3", RANK_LOSS, 1, 11.00616, 19560},
        {"step   12/74 | train loss 5.500000 | norm 1", RANK_LOSS, 12, 5.5, 74},
        {"step 3: train loss 4.061496 (took 9.3 ms)", RANK_LOSS, 3, 4.061496, 0},
        {"step 3/9 | val loss 4.06", RANK_NOTHING, 0, 0, 0},
        {"step 3 of 9", RANK_NOTHING, 0, 0, 0},
        {"val loss 4.51", RANK_NOTHING, 0, 0, 0},
        {"", RANK_NOTHING, 0, 0, 0},
        {"s", RANK_NOTHING, 0, 0, 0},
        {"s:1 trl:1.5x", RANK_BROKEN, 0, 0, 0},
        {"s:1 trl:1.2.3", RANK_BROKEN, 0, 0, 0},
        {"s:1 trl:1,5", RANK_BROKEN, 0, 0, 0},
        {"s:1 trl:1.25,5", RANK_BROKEN, 0, 0, 0},
        {"s:1 trl:1.25, 5", RANK_LOSS, 1, 1.25, 0},
        {"step:5/9 train_loss:1,5 train_time:1ms", RANK_BROKEN, 0, 0, 0},
        {"step 5/9 | train loss 1,5 | norm 1", RANK_BROKEN, 0, 0, 0},
        {"{\"step\":7,\"loss\":2,5}", RANK_BROKEN, 0, 0, 0},
        {"s:123456789012345678 trl:1", RANK_NOTHING, 0, 0, 0},
    };

    for (size_t i = 0; i < 2 * (sizeof lines / sizeof *lines); i++) {
        const struct line *l = &lines[i / 2];
        struct rank_point pt;
        enum rank_said said = read_line(l->text, i % 2, &pt);
        int same =
            said == l->said &&
            (said != RANK_LOSS || (pt.step == l->step && pt.planned == l->planned &&
                                   (pt.loss == l->loss || (isnan(pt.loss) && isnan(l->loss)))));
        if (!same)
            fail_msg("'%s': %d, step %" PRId64 ", loss %g, of %" PRId64, l->text, (int)said,
                     pt.step, pt.loss, pt.planned);
    }
}

static double uniform(uint64_t stream, uint64_t i)
{
    return (double)(rng_u64(7, stream, i) >> 11) * 0x1p-53;
}

/* end: how many bytes the number has; 0: it is none, whatever strtod says. */
TEST(numbers_are_decimals)
{
    static const struct {
        const char *text;
        int end;
    } cases[] = {{"1", 1},      {"-2.5,", 4}, {"+.5 ", 3},  {"1.", 2},    {"007", 3},
                 {"1e-400", 6}, {"9e999", 5}, {"-inf|", 4}, {"NaN", 3},   {"infinity", 8},
                 {"", 0},       {".", 0},     {" 1", 0},    {"0x1p3", 0}, {"nan(1)", 0},
                 {"1e", 0},     {"1e+", 0},   {"1.2.3", 0}, {"+-5", 0},   {"e5", 0},
                 {"1x", 0},     {"nano", 0},  {"null", 0},  {"--1", 0}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i].text;
        double got = 0, want = strtod(text, NULL);
        const char *end = rank_line_number(text, &got);
        if ((end ? end - text : 0) != cases[i].end || (end && got != want && !isnan(want)))
            fail_msg("'%s' is %.17g of %td bytes", text, got, end ? end - text : 0);
    }
}

enum { STEPS = 400 };

/* The result of a run where every step's loss is kept: a step voids all behind it. */
struct kept {
    double loss[STEPS];
    int has[STEPS];
    int last;
};

static void keep(struct kept *k, int step, double loss)
{
    for (int s = step; s < STEPS; s++)
        k->has[s] = 0;
    k->loss[step] = loss;
    k->has[step] = 1;
    k->last = step;
}

/* The mean (or last) of each whole epoch, those without a loss as the next one; how many. */
static int epochs_of(const struct kept *k, int per_epoch, int last_step, double *mean)
{
    int from = 0, n = 0, whole = 0;

    while (!k->has[from])
        from++;
    from = from > 0;
    for (int a = from; a <= k->last; a += per_epoch, n++) {
        double sum = 0;
        int count = 0, done = 0;
        for (int s = a; s < a + per_epoch && s < STEPS; s++)
            if (k->has[s]) {
                sum = last_step ? k->loss[s] : sum + k->loss[s];
                count++;
            }
        for (int s = a + per_epoch - 1; s < STEPS; s++)
            done |= k->has[s];
        mean[n] = count && done ? sum / (last_step ? 1 : count) : NAN;
        whole = count && done ? n + 1 : whole;
    }
    for (int e = whole - 2; e >= 0; e--)
        if (isnan(mean[e]))
            mean[e] = mean[e + 1];
    return whole;
}

static double naive(const struct rank_score *how, const double *l, int T)
{
    double sum = 0, ema = l[0];

    if (how->method == RANK_LAST)
        return l[T - 1];
    for (int e = 1; e <= T; e++) {
        double weight = how->method == RANK_TSE_EMA ? pow(how->gamma, T - e)
                        : how->method == RANK_TSE_E ? e > T - how->e
                                                    : 1;
        sum += weight * l[e - 1];
        ema = e > 1 ? 0.1 * ema + 0.9 * l[e - 1] : ema;
    }
    return how->method == RANK_EMA_CODE ? ema : how->method == RANK_SOTL ? sum / T : sum;
}

static void check_scores(const struct rank_curve *c, const double *mean, int whole, uint64_t at)
{
    static const struct rank_score hows[] = {
        {RANK_TSE, 1, 0},      {RANK_TSE_E, 3, 0},   {RANK_TSE_EMA, 1, 0.9},
        {RANK_TSE_EMA, 1, 1},  {RANK_TSE_EMA, 1, 0}, {RANK_TSE_EMA, 1, 0.999},
        {RANK_EMA_CODE, 1, 0}, {RANK_SOTL, 1, 0},    {RANK_LAST, 1, 0}};

    if (rank_curve_epochs(c) != whole)
        fail_msg("case %" PRIu64 ": %" PRId64 " epochs, not %d", at, rank_curve_epochs(c),
                 whole);
    for (size_t h = 0; h < sizeof hows / sizeof *hows; h++)
        for (int t = 1; t <= whole; t++) {
            double got = rank_curve_score(c, &hows[h], t), want = naive(&hows[h], mean, t);
            /* t terms below 8 on either side, each in a sum of at most 8 t, an error of half an
             * ulp of it for each of some four operations; 1 - gamma^k over 1 - gamma loses up
             * to 1 / (1 - 0.999) of that. */
            double bound = 8.0 * t * t * 4 * DBL_EPSILON * 1000;
            if (!(fabs(got - want) <= bound))
                fail_msg("case %" PRIu64 ", method %zu, T %d: %.17g, not %.17g", at, h, t, got,
                         want);
        }
}

/* Gaps, steps that restart anywhere, logs that begin late. */
TEST(epochs_are_those_of_losses_kept)
{
    static const int sizes[] = {1, 2, 3, 7, 50};

    for (uint64_t at = 0; at < 4000; at++) {
        struct kept k = {.last = -1};
        struct rank_curve c;
        double mean[STEPS];
        int per_epoch = sizes[at % 5], last_step = at / 5 % 2 == 1, lines = 3 + (int)(at % 90);
        int step = (int)(uniform(10, at) * 4);
        rank_curve_init(&c, per_epoch, last_step, NULL);
        for (int i = 0; i < lines && step < STEPS; i++) {
            double loss = floor(uniform(11 + at, (uint64_t)i) * 64) / 8; /* sums are exact */
            assert_ok(rank_curve_add(&c, step, loss, &err));
            keep(&k, step, loss);
            double way = uniform(100000 + at, (uint64_t)i);
            step = way < 0.1   ? (int)(way * 10 * (step + 1))
                   : way < 0.3 ? step + 1 + (int)((way - 0.1) * 40)
                               : step + 1;
        }
        assert_ok(rank_curve_end(&c, &err));
        assert_int_equal(c.last, k.last);
        assert_int_equal(c.blind, 0);
        int whole = epochs_of(&k, per_epoch, last_step, mean);
        check_scores(&c, mean, whole, at);
        rank_curve_release(&c);
    }
}

/* Log lines: gaps, steps that restart, most of them near, some anywhere. */
static int draw_lines(uint64_t at, int64_t *step, double *loss)
{
    int lines = 20 + (int)(at % 90), n = 0;
    int64_t s = (int64_t)(uniform(20, at) * 3);

    for (; n < lines && s < STEPS; n++) {
        step[n] = s;
        loss[n] = floor(uniform(21 + at, (uint64_t)n) * 1e6) / 1e5;
        double way = uniform(200000 + at, (uint64_t)n), far = uniform(400000 + at, (uint64_t)n);
        int64_t back = (int64_t)(far * (n % 4 ? 5 : (double)s + 1));
        s = way < 0.05 && back <= s ? s - back : way < 0.2 ? s + 1 + (int64_t)(far * 4) : s + 1;
    }
    return n;
}

static void feed(struct rank_curve *c, const int64_t *step, const double *loss, int n)
{
    for (int i = 0; i < n; i++)
        assert_ok(rank_curve_add(c, step[i], loss[i], &err));
    assert_ok(rank_curve_end(c, &err));
}

/* Losses given up are in the score, bit for bit, or said to be lost. */
TEST(a_curve_keeps_what_will_be_asked)
{
    static const struct rank_score hows[] = {
        {RANK_TSE, 1, 0},      {RANK_TSE_E, 1, 0}, {RANK_TSE_E, 5, 0}, {RANK_TSE_EMA, 1, 0.9},
        {RANK_EMA_CODE, 1, 0}, {RANK_SOTL, 1, 0},  {RANK_LAST, 1, 0}};
    int64_t step[STEPS], given_up = 0, lost = 0, compared = 0;
    double loss[STEPS];

    for (uint64_t at = 0; at < 20000; at++) {
        const struct rank_score *how = &hows[at % 7];
        int64_t per_epoch = at / 7 % 3 == 2 ? 3 : 1;
        struct rank_query query = {*how, (int64_t)(at / 21 % 4) * 9,
                                   1 + (int64_t)(at / 84 % 3) * 4};
        int last_step = how->method == RANK_LAST, n = draw_lines(at, step, loss);
        struct rank_curve all, some;
        rank_curve_init(&all, per_epoch, last_step, NULL);
        rank_curve_init(&some, per_epoch, last_step, &query);
        feed(&all, step, loss, n);
        feed(&some, step, loss, n);
        int64_t T = rank_curve_epochs(&all);
        T = query.T && query.T < T ? query.T : T;
        lost += some.lost;
        given_up += some.base > 0;
        if (!some.lost && T > 0) {
            double got = rank_curve_score(&some, how, T), want = rank_curve_score(&all, how, T);
            compared += some.base > 0;
            if (got != want || rank_curve_loss(&some, T) != rank_curve_loss(&all, T) ||
                rank_curve_epochs(&some) != rank_curve_epochs(&all) || some.bad != all.bad ||
                some.back != all.back || some.first != all.first || some.last != all.last ||
                (int64_t)some.space > 2 * (2 * (query.kept + how->e) + 64))
                fail_msg("case %" PRIu64 ": %.17g, not %.17g", at, got, want);
        }
        rank_curve_release(&all);
        rank_curve_release(&some);
    }
    /* A third of the cases or more give up epochs, and are compared; some lose them. */
    assert_true(given_up > 6000 && compared > 6000 && lost > 500);

    /* A run that begins again lacks nothing. */
    const struct rank_query one = {hows[0], 0, 1};
    struct rank_curve c;
    rank_curve_init(&c, 1, 0, &one);
    for (int s = 2; s < 9; s++)
        rank_curve_add(&c, s, 1, &err);
    rank_curve_add(&c, 3, 1, &err);
    assert_true(c.lost);
    rank_curve_add(&c, 1, 4, &err);
    rank_curve_end(&c, &err);
    assert_true(!c.lost && rank_curve_score(&c, hows, 1) == 4);
    rank_curve_release(&c);
}

/* A way back that is longer than what is kept of lines: the epoch is of what follows. */
TEST(far_ways_back_are_told)
{
    const int64_t size = 3 * CURVE_BACK;
    struct rank_score how = {RANK_TSE, 1, 0};
    struct rank_curve c;

    for (int far = 0; far < 2; far++) {
        int64_t back = size + (far ? 10 : size - CURVE_BACK + 10);
        rank_curve_init(&c, size, 0, NULL);
        for (int64_t s = 1; s <= 2 * size; s++)
            rank_curve_add(&c, s, s <= size ? 4 : 2, &err);
        for (int64_t s = back; s <= 2 * size; s++)
            rank_curve_add(&c, s, 1, &err);
        assert_ok(rank_curve_end(&c, &err));
        assert_int_equal(c.blind, far);
        assert_int_equal(rank_curve_epochs(&c), 2);
        double kept = (double)(back - size - 1) / (double)size;
        double want = far ? 1 : 2 * kept + (1 - kept);
        assert_true(fabs(rank_curve_score(&c, &how, 2) - 4 - want) < 1e-12);
        rank_curve_release(&c);
    }
    /* Twice over what is kept, then within it: what was written over is not taken for it. */
    rank_curve_init(&c, size, 0, NULL);
    for (int64_t s = 1; s <= size; s++)
        rank_curve_add(&c, s, 4, &err);
    rank_curve_add(&c, size - CURVE_BACK / 2, 4, &err);
    rank_curve_add(&c, size - CURVE_BACK - 100, 4, &err);
    assert_int_equal(c.blind, 1);
    rank_curve_release(&c);
}

/* Runs of one log each, ranked. */
static int order(struct rank_result *r, const struct rank_options *o, const char *const *text)
{
    const struct rank_reading how = {.per_epoch = o->per_epoch};

    *r = (struct rank_result){.o = o};
    r->run = mem_new((size_t)o->logs, sizeof *r->run);
    r->place = mem_new((size_t)o->logs, sizeof *r->place);
    for (int i = 0; i < o->logs; i++) {
        r->run[i].name = o->log[i];
        assert_ok(rank_read_text(&r->run[i], text[i], strlen(text[i]), &how, &err));
    }
    return rank_order(r, &err);
}

static void drop(struct rank_result *r)
{
    for (int i = 0; i < r->o->logs; i++)
        rank_run_release(&r->run[i]);
    mem_free(r->run);
    mem_free(r->place);
}

static const char *const names[] = {"a", "b", "c", "d"};

TEST(close_scores_share_a_rank)
{
    static const char *const text[] = {"s:1 trl:1.5\n", "s:1 trl:nan\n", "s:1 trl:1\n",
                                       "s:1 trl:1.25\n"};
    struct rank_options o = {
        .log = names, .logs = 4, .how = {RANK_TSE, 1, 1}, .per_epoch = 1, .noise = 0.15};
    struct rank_result r;
    static const struct {
        double noise;
        int best[4], worst[4]; /* of c d a b, as they come */
    } want[] = {{0, {1, 2, 3, 4}, {1, 2, 3, 4}},
                {0.12, {1, 2, 3, 4}, {1, 2, 3, 4}},
                {0.125, {1, 2, 3, 4}, {1, 2, 3, 4}},  /* at twice the noise they differ */
                {0.126, {1, 1, 1, 4}, {3, 3, 3, 4}}}; /* c and a by way of d */

    for (size_t w = 0; w < sizeof want / sizeof *want; w++) {
        o.noise = want[w].noise;
        assert_ok(order(&r, &o, text));
        for (int i = 0; i < 4; i++) {
            assert_int_equal(*r.place[i].run->name, "cdab"[i]);
            assert_int_equal(r.place[i].best, want[w].best[i]);
            assert_int_equal(r.place[i].worst, want[w].worst[i]);
        }
        drop(&r);
    }
}

TEST(runs_that_are_unlike_are_refused)
{
    static const struct {
        const char *text[2], *why;
    } cases[] = {
        {{"s:1 trl:1\ns:2 trl:1\n", "s:1 trl:1\n"}, "'b' has 1 epoch, expected 2"},
        {{"s:1 trl:1\ns:2 trl:1\n", "s:2 trl:1\n"},
         "'a' begins with step 1 and 'b' with 2, expected"},
        {{"step:1/5 train_loss:1\n", "step:1/6 train_loss:1\n"},
         "'a' is a run of 5 steps and 'b' of 6, expected"},
        {{"{\"step\":1,\"loss\":1,\"tokens\":5}\n", "{\"step\":1,\"loss\":1,\"tokens\":6}\n"},
         "'a' has 5 tokens and one of 'b' 6, expected"},
    };
    struct rank_options o = {.log = names, .logs = 2, .how = {RANK_TSE, 1, 1}, .per_epoch = 1};
    struct rank_result r;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        o.force = 0;
        assert_error(order(&r, &o, cases[i].text), ERR_MISMATCH);
        assert_non_null(strstr(err.text, cases[i].why));
        assert_non_null(strstr(err.text, "--force)"));
        drop(&r);
        o.force = 1;
        assert_ok(order(&r, &o, cases[i].text));
        drop(&r);
    }
}

/* Spearman: ten pairs of the textbooks, -29/165; ties by hand. */
TEST(correlations_of_tables)
{
    static const double x[] = {106, 100, 86, 101, 99, 103, 97, 113, 112, 110};
    static const double y[] = {7, 27, 2, 50, 28, 29, 20, 12, 6, 17};
    /* Ranks 1 2.5 2.5 4 and 1 2 3 4: 4.5 / sqrt(4.5 * 5); five pairs agree, one is tied in the
     * first: 5 / sqrt(5 * 6). */
    static const double tied[] = {1, 2, 2, 3}, plain[] = {1, 2, 3, 4}, flat[] = {5, 5, 5, 5};
    static const double down[] = {9, INFINITY, -1, INFINITY}, half[] = {2, 1, 3, 1};

    /* A handful of operations on numbers below 100. */
    assert_true(fabs(rank_spearman(x, y, 10) + 29.0 / 165) < 1e-13);
    /* 18 of 45 pairs agree and 27 do not. */
    assert_true(fabs(rank_kendall(x, y, 10) + 5.0 / 45) < 1e-13);
    assert_true(fabs(rank_spearman(tied, plain, 4) - 4.5 / sqrt(22.5)) < 1e-13);
    assert_true(fabs(rank_kendall(tied, plain, 4) - 5 / sqrt(30)) < 1e-13);
    assert_true(rank_spearman(plain, plain, 4) == 1 && rank_kendall(plain, plain, 4) == 1);
    assert_true(fabs(rank_spearman(down, half, 4) + 1) < 1e-13);
    assert_true(fabs(rank_kendall(down, half, 4) + 1) < 1e-13);
    assert_true(isnan(rank_spearman(flat, plain, 4)) && isnan(rank_kendall(flat, plain, 4)));
    assert_true(isnan(rank_spearman(plain, plain, 1)) && isnan(rank_kendall(plain, plain, 1)));
}
