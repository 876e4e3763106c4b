/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker checked: the range grammar, and verdicts on fabrics whose faults are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/tick.h"
#include "health/health_parts.h"
#include "temp_fixture.h"

/* ---- ranges: the guidelines' own table, at the edges ---- */

static int alerts(const char *text, double v)
{
    struct health_range r;
    struct err err;

    assert_int_equal(health_range_parse(text, &r, &err), 0);
    return health_range_alerts(&r, v);
}

static void ranges(void **state)
{
    static const struct {
        const char *range;
        double v;
        int alert;
    } row[] = {
        {"10", -0.1, 1},   {"10", 0, 0},      {"10", 10, 0},     {"10", 10.1, 1},
        {"10:", 9.9, 1},   {"10:", 10, 0},    {"10:", 1e9, 0},   {"~:10", -1e9, 0},
        {"~:10", 10, 0},   {"~:10", 10.1, 1}, {"10:20", 9, 1},   {"10:20", 10, 0},
        {"10:20", 20, 0},  {"10:20", 21, 1},  {"@10:20", 9, 0},  {"@10:20", 10, 1},
        {"@10:20", 20, 1}, {"@10:20", 21, 0}, {"@10", 5, 1},     {"@10", 11, 0},
        {"-5:5", -5, 0},   {"-5:5", -6, 1},   {"1.5:2.5", 2, 0}, {":10", 5, 0},
        {":10", -1, 1},
    };
    static const char *const bad[] = {"",    "ten",  "20:10", "10:20:30", "@",  "~",
                                      "1 0", "10:~", "@@10",  "0x10",     "nan"};
    struct health_range r;
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (alerts(row[i].range, row[i].v) != row[i].alert)
            fail_msg("range %s, value %g", row[i].range, row[i].v);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (health_range_parse(bad[i], &r, &err) == 0)
            fail_msg("range '%s' was taken", bad[i]);
        assert_int_equal(err.code, ERR_INPUT);
    }
}

static void ranges_of_rates(void **state)
{
    static const char *const good[] = {"90:", "100:", "90:110", "@0:90", "@90", "0.001:"},
                             *const bad[] = {"90",  "100", "110",  "0:",    "~:",
                                             "@~:", "@",   "101:", "@100:", ":110"};
    struct health_range r;
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (health_range_parse_rate(good[i], &r, &err))
            fail_msg("range %s: %s", good[i], err.text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (health_range_parse_rate(bad[i], &r, &err) == 0)
            fail_msg("range '%s' was taken", bad[i]);
        assert_int_equal(err.code, ERR_INPUT);
    }
}

/* As it is printed it alerts as it does. */
static void percents_are_on_their_side(void **state)
{
    static const struct {
        double percent;
        const char *text;
    } row[] = {{95.4, "95 %"},   {95.6, "95.6 %"},   {95.96, "95.96 %"},
               {96, "96 %"},     {96.04, "96.04 %"}, {96.6, "97 %"},
               {24.9, "24.9 %"}, {25.01, "25.01 %"}, {24.9999, "24.9999 %"}};
    struct health_rules rules;
    struct units u;

    (void)state;
    health_rules_init(&rules);
    rules.crit = (struct health_range){25, 180, 0};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_string_equal(health_percent(&u, &rules, row[i].percent), row[i].text);
    for (double v = 20; v < 200; v += 0.0137) {
        double printed = strtod(health_percent(&u, &rules, v), NULL);
        assert_int_equal(health_range_alerts(&rules.warn, printed),
                         health_range_alerts(&rules.warn, v));
        assert_int_equal(health_range_alerts(&rules.crit, printed),
                         health_range_alerts(&rules.crit, v));
    }
}

/* ---- fabrics ---- */

struct fabric {
    int hosts;
    double out[64], in[64];      /* percent of 100 */
    int pair_src, pair_dst;      /* a slow pair, or -1 */
    double pair, noise, hiccups; /* percent; deviation of a sample; share of hiccups */
};

static struct fabric healthy(int hosts)
{
    struct fabric f = {.hosts = hosts, .pair_src = -1, .noise = 0.02, .hiccups = 0.02};

    for (int k = 0; k < hosts; k++)
        f.out[k] = f.in[k] = 100;
    return f;
}

/* The noise that the judge was designed for: 2 %, and in 2 % of samples 20 to 40 % less. */
static void more(const struct fabric *f, int rounds, int first, enum health_stage stage,
                 uint64_t seed, struct health_data *d)
{
    uint64_t at = 0;

    for (int i = 0; i < rounds; i++)
        for (int k = 0; k < f->hosts; k++) {
            int to = (k + 1 + i % (f->hosts - 1)) % f->hosts;
            double v = fmin(f->out[k], f->in[to]);
            if (k == f->pair_src && to == f->pair_dst)
                v = fmin(v, f->pair);
            v *= 1 + f->noise * rng_normal(seed, 1, at);
            if (rng_uniform(seed, 2, at) < f->hiccups)
                v *= 0.8 - 0.2 * rng_uniform(seed, 3, at);
            at++;
            HEALTH_ADD(&d->samples) = (struct health_sample){k, to, i + first, stage, v * 1e6};
        }
}

static void sample(const struct fabric *f, int rounds, uint64_t seed, struct health_data *d)
{
    static char name[64][16];
    static const char *host[64];

    for (int k = 0; k < f->hosts; k++) {
        snprintf(name[k], sizeof name[k], "node%d", k);
        host[k] = name[k];
    }
    health_data_init(d, f->hosts, host);
    more(f, rounds, 0, HEALTH_ROUNDS, seed, d);
    d->rounds = rounds;
}

static const struct health_range at_90 = {90, INFINITY, 0}, at_75 = {75, INFINITY, 0};

static struct health_verdict judge(const struct health_data *d,
                                   const struct health_baseline *baseline)
{
    struct health_rules rules;
    struct health_verdict v;
    struct err err;

    health_rules_init(&rules);
    rules.warn = at_90;
    rules.crit = at_75;
    rules.baseline = baseline;
    if (health_judge(d, &rules, &v, &err))
        fail_msg("%s", err.text);
    return v;
}

/* A second look by plain shifts, where somebody is suspected. */
static struct health_verdict check(const struct fabric *f, int rounds, uint64_t seed,
                                   const struct health_baseline *baseline)
{
    struct health_rules rules;
    struct health_plan plan;
    struct health_data d;
    struct err err;

    health_rules_init(&rules);
    rules.warn = at_90;
    rules.crit = at_75;
    rules.baseline = baseline;
    sample(f, rounds, seed, &d);
    if (health_plan(&d, &rules, &plan, &err))
        fail_msg("%s", err.text);
    if (plan.turns)
        more(f, 12, rounds, HEALTH_CONFIRM, seed + ((uint64_t)1 << 40), &d);
    health_plan_release(&plan);
    struct health_verdict v = judge(&d, baseline);
    health_data_release(&d);
    return v;
}

static void no_false_alarm(void **state)
{
    static const struct {
        int hosts, rounds, runs;
    } fleet[] = {{3, 20, 3000}, {8, 21, 3000}, {64, 15, 200}};
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof fleet / sizeof *fleet; i++) {
        struct fabric f = healthy(fleet[i].hosts);
        for (int run = 0; run < fleet[i].runs; run++) {
            struct health_verdict v = check(&f, fleet[i].rounds, (uint64_t)run, NULL);
            wrong += v.state != HEALTH_OK;
            health_verdict_release(&v);
        }
    }
    /* At most one false alarm in 1000 checks. */
    print_message("# false alarms: %d of 6200\n", wrong);
    assert_true(wrong <= 6);
}

/* Accuses exactly host k, of these directions. */
static int exactly(const struct health_verdict *v, int k, int out, int in)
{
    int right = v->findings == 1 && v->finding[0].host == k && v->finding[0].other == -1 &&
                v->finding[0].code == 301;

    for (int o = 0; o < v->hosts; o++) {
        right &= (v->port[o][HEALTH_OUT].state != HEALTH_OK) == (o == k && out);
        right &= (v->port[o][HEALTH_IN].state != HEALTH_OK) == (o == k && in);
    }
    return right;
}

static void slow_port_and_not_its_partners(void **state)
{
    static const struct {
        int hosts, rounds, out, in;
        double percent;
        enum health_state state;
    } row[] = {
        {3, 20, 1, 1, 50, HEALTH_CRITICAL},  {3, 20, 1, 0, 50, HEALTH_CRITICAL},
        {3, 20, 0, 1, 80, HEALTH_WARNING},   {4, 21, 1, 1, 50, HEALTH_CRITICAL},
        {8, 21, 1, 1, 70, HEALTH_CRITICAL},  {8, 21, 0, 1, 85, HEALTH_WARNING},
        {64, 15, 1, 0, 50, HEALTH_CRITICAL}, {64, 15, 0, 1, 85, HEALTH_WARNING},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int found = 0, runs = 100;
        for (int run = 0; run < runs; run++) {
            struct fabric f = healthy(row[i].hosts);
            int k = run % row[i].hosts;
            f.out[k] = row[i].out ? row[i].percent : 100;
            f.in[k] = row[i].in ? row[i].percent : 100;
            struct health_verdict v = check(&f, row[i].rounds, (uint64_t)run, NULL);
            found += exactly(&v, k, row[i].out, row[i].in) && v.state == row[i].state;
            health_verdict_release(&v);
        }
        print_message("# %d hosts, %g %%: %d of %d\n", row[i].hosts, row[i].percent, found,
                      runs);
        assert_true(found >= 98);
    }
}

/* Of what was ended early: a small deviation is not known, unless a second look was taken. */
static void ended_early(void **state)
{
    static const struct {
        double percent;
        enum health_part ended; /* in which of them */
        int again, code;
        enum health_state state;
    } row[] = {
        {80, HEALTH_PART_ROUNDS, 0, 303, HEALTH_UNKNOWN},
        {80, HEALTH_PART_LATENCY, 0, 303, HEALTH_UNKNOWN},
        {80, HEALTH_PART_CONFIRM, 12, 301, HEALTH_WARNING},
        {50, HEALTH_PART_ROUNDS, 0, 301, HEALTH_CRITICAL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int pair = 0; pair < 2; pair++) {
            struct fabric f = healthy(8);
            struct health_data d;
            f.noise = 0.001;
            f.hiccups = 0;
            f.out[2] = pair ? 100 : row[i].percent;
            f.pair_src = pair ? 2 : -1;
            f.pair_dst = 5;
            f.pair = row[i].percent;
            sample(&f, 28, i, &d);
            d.asked = 1u << row[i].ended;
            more(&f, row[i].again * 2, 28, HEALTH_CONFIRM, i, &d);
            struct health_verdict v = judge(&d, NULL);
            assert_int_equal(v.findings, 2); /* and that it was ended */
            int at = v.finding[0].code == 901;
            assert_int_equal(v.finding[!!at].host, 2);
            assert_int_equal(v.finding[!!at].state, row[i].state);
            assert_int_equal(v.finding[!!at].code,
                             row[i].code == 301 && pair ? 304 : row[i].code);
            assert_int_equal(v.port[2][HEALTH_OUT].state, pair ? HEALTH_OK : row[i].state);
            assert_int_equal(strstr(v.finding[!!at].text, ", not measured again") != NULL,
                             row[i].state == HEALTH_UNKNOWN);
            health_verdict_release(&v);
            health_data_release(&d);
        }
}

static void slow_pair(void **state)
{
    int found = 0;

    (void)state;
    for (int run = 0; run < 100; run++) {
        struct fabric f = healthy(run % 2 ? 3 : 6);
        f.pair_src = run % f.hosts;
        f.pair_dst = (run + 1 + run % 2) % f.hosts;
        f.pair = 50;
        struct health_verdict v = check(&f, 20, (uint64_t)run, NULL);
        found += v.findings == 1 && v.finding[0].host == f.pair_src &&
                 v.finding[0].other == f.pair_dst && v.state == HEALTH_CRITICAL;
        health_verdict_release(&v);
    }
    print_message("# pairs: %d of 100\n", found);
    assert_true(found >= 98);
}

/* ---- two hosts: the baseline, and the sender's queue ---- */

static void baseline_of(const struct health_data *d, struct health_baseline *b)
{
    char path[TEMP_PATH];
    struct err err;
    FILE *f = fdopen(temp_file(path, "paro-health"), "w");

    health_baseline_print(d, f);
    fclose(f);
    if (health_store_read(&health_baseline_store, path, b, &err))
        fail_msg("%s", err.text);
    unlink(path);
}

/* Both directions far above it, or only one of the two. */
static void two_hosts_and_a_stale_baseline(void **state)
{
    struct fabric was = healthy(2), is = healthy(2);
    struct health_baseline b;
    struct health_data d;

    (void)state;
    sample(&was, 40, 9, &d);
    baseline_of(&d, &b);
    health_data_release(&d);
    is.out[0] = is.in[0] = is.out[1] = is.in[1] = 200;
    struct health_verdict v = check(&is, 20, 1, &b);
    assert_int_equal(v.findings, 1);
    assert_int_equal(v.finding[0].code, 306);
    assert_int_equal(v.state, HEALTH_WARNING);
    assert_non_null(strstr(v.finding[0].text, "stale"));
    health_verdict_release(&v);
    is.out[0] = 100;
    v = check(&is, 20, 1, &b);
    assert_int_equal(v.findings, 0);
    health_verdict_release(&v);
    health_baseline_release(&b);
}

static void two_hosts(void **state)
{
    struct fabric good = healthy(2), f = healthy(2);
    struct health_baseline b;
    struct health_data d;

    (void)state;
    sample(&good, 40, 9, &d);
    baseline_of(&d, &b);
    health_data_release(&d);
    assert_true(b.port[0].Bps[HEALTH_OUT] > 97e6 && b.port[0].Bps[HEALTH_OUT] < 103e6);
    struct health_verdict v = check(&good, 20, 1, &b);
    assert_int_equal(v.state, HEALTH_OK);
    health_verdict_release(&v);

    /* Host 1 sends and receives at half its rate.  Its queue drains at what it sends (and 4 %
     * of headers); host 0's at the full rate. */
    f.out[1] = f.in[1] = 50;
    sample(&f, 20, 2, &d);
    v = judge(&d, &b); /* no kernel to ask: both ends, twice */
    assert_int_equal(v.findings, 2);
    assert_int_equal(v.finding[0].code, 302);
    assert_int_equal(v.state, HEALTH_CRITICAL);
    health_verdict_release(&v);
    d.host[0].drain_Bps = 104.5e6;
    d.host[1].drain_Bps = 52.2e6;
    v = judge(&d, &b);
    assert_true(exactly(&v, 1, 1, 1));
    health_verdict_release(&v);
    d.host[0].drain_Bps = 0; /* nothing ever waits there: not the narrow place */
    v = judge(&d, &b);
    assert_true(exactly(&v, 1, 1, 1));
    health_verdict_release(&v);
    health_data_release(&d);

    /* 0 sends slowly, and only that. */
    f = healthy(2);
    f.out[0] = 80;
    sample(&f, 20, 3, &d);
    d.host[0].drain_Bps = 83.6e6;
    d.host[1].drain_Bps = 104.5e6;
    v = judge(&d, &b);
    assert_true(exactly(&v, 0, 1, 0));
    assert_int_equal(v.state, HEALTH_WARNING);
    health_verdict_release(&v);
    health_data_release(&d);
    health_baseline_release(&b);
}

/* A baseline of so many hosts, 7 once more behind them if `twice`, as a file; freed by free. */
static char *baseline_text(int hosts, int twice, size_t *bytes)
{
    char *text = NULL, line[HEALTH_TAIL];
    FILE *f = open_memstream(&text, bytes);

    fputs("format: paro-baseline/2\nwhen_s: 0\npaths:\n  - path: 0\n    ratio: 1\nports:\n", f);
    for (int k = 0; k < hosts + twice; k++)
        fprintf(f,
                "  - host: n%05d\n    ranks: 1\n    out_Bps: 1\n    in_Bps: 1\n"
                "    out_spread: 0\n    in_spread: 0\n    latency_s: 0\n",
                k < hosts ? k : 7);
    fflush(f);
    health_store_tail(&health_baseline_store, text, (int64_t)*bytes, line);
    fputs(line, f);
    fclose(f);
    return text;
}

/* Processor seconds that such a baseline takes to be read, once right and once with 7 twice. */
static double parse_s(int hosts)
{
    char want[128], last[16];
    struct health_baseline b;
    struct err err;
    double took_s = 0;

    for (int twice = 0; twice < 2; twice++) {
        size_t bytes = 0;
        char *text = baseline_text(hosts, twice, &bytes);
        double start = tick_cpu_s();
        assert_int_equal(
            health_store_parse(&health_baseline_store, "b", text, (int64_t)bytes, &b, &err),
            -twice);
        took_s += tick_cpu_s() - start;
        if (!twice) {
            snprintf(last, sizeof last, "n%05d", hosts - 1);
            assert_int_equal(b.hosts, hosts);
            assert_string_equal(b.port[hosts - 1].host, last);
            health_baseline_release(&b);
        }
        free(text);
    }
    snprintf(want, sizeof want, "b:%d: 'host' is 'n00007' a second time", 7 * hosts + 7);
    assert_non_null(strstr(err.text, want));
    return took_s;
}

/* A host may stand once, wherever the other one is; thousands of them are no work. */
static void hosts_stand_once(void **state)
{
    (void)state;
    /* Sorted it took 2 seconds; each with each, 2 x 10^10 comparisons of names, twice: 100. */
    assert_true(parse_s(200000) < 15);
}

static void needs_something_to_compare(void **state)
{
    struct fabric f = healthy(2);
    struct health_rules rules;
    struct health_verdict v;
    struct health_data d;
    struct err err;

    (void)state;
    health_rules_init(&rules);
    sample(&f, 20, 1, &d);
    assert_int_equal(health_judge(&d, &rules, &v, &err), -1);
    assert_int_equal(err.code, ERR_INPUT);
    assert_non_null(strstr(err.text, "baseline"));
    health_data_release(&d);
}

static void same_data_same_words(void **state)
{
    struct fabric f = healthy(8);
    enum health_state is;
    struct err err;
    char *text[2];
    size_t bytes;

    (void)state;
    f.out[3] = 40;
    for (int i = 0; i < 2; i++) {
        struct health_options o;
        struct health_data d;
        FILE *out = open_memstream(&text[i], &bytes);
        health_options_init(&o);
        sample(&f, 21, 5, &d);
        assert_int_equal(health_speak(&d, &o, out, &is, &err), 0);
        assert_int_equal(is, HEALTH_CRITICAL);
        fclose(out);
        health_data_release(&d);
    }
    assert_string_equal(text[0], text[1]);
    assert_non_null(strstr(text[0], "HORING CRITICAL - node3 out "));
    assert_true(strchr(text[0], '|') - text[0] < 80);
    free(text[0]);
    free(text[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges),
        cmocka_unit_test(ranges_of_rates),
        cmocka_unit_test(percents_are_on_their_side),
        cmocka_unit_test(no_false_alarm),
        cmocka_unit_test(slow_port_and_not_its_partners),
        cmocka_unit_test(ended_early),
        cmocka_unit_test(slow_pair),
        cmocka_unit_test(two_hosts),
        cmocka_unit_test(two_hosts_and_a_stale_baseline),
        cmocka_unit_test(hosts_stand_once),
        cmocka_unit_test(needs_something_to_compare),
        cmocka_unit_test(same_data_same_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
