/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the checker: the range grammar, and verdicts on fabrics whose faults are known. */
#include "unit.h"

#include "health/health_analysis.h"
#include "health/health_parts.h"
#include "fleet_fixture.h"

/* ---- ranges: the guidelines' own table, at the edges ---- */

static int alerts(const char *text, double v)
{
    struct health_range r;

    assert_ok(health_range_parse(text, &r, &err));
    return health_range_alerts(&r, v);
}

TEST(ranges)
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

    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (alerts(row[i].range, row[i].v) != row[i].alert)
            fail_msg("range %s, value %g", row[i].range, row[i].v);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (health_range_parse(bad[i], &r, &err) == 0)
            fail_msg("range '%s' was taken", bad[i]);
        assert_int_equal(err.code, ERR_INPUT);
    }
}

TEST(ranges_of_rates)
{
    static const char *const good[] = {"90:", "100:", "90:110", "@0:90", "@90", "0.001:"},
                             *const bad[] = {"90",  "100", "110",  "0:",    "~:",
                                             "@~:", "@",   "101:", "@100:", ":110"};
    struct health_range r;

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
TEST(percents_are_on_their_side)
{
    static const struct {
        double percent;
        const char *text;
    } row[] = {{95.4, "95 %"},   {95.6, "95.6 %"},   {95.96, "95.96 %"},
               {96, "96 %"},     {96.04, "96.04 %"}, {96.6, "97 %"},
               {24.9, "24.9 %"}, {25.01, "25.01 %"}, {24.9999, "24.9999 %"}};
    struct health_rules narrow;
    struct units u;

    health_rules_init(&narrow);
    narrow.crit = (struct health_range){25, 180, 0};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_string_equal(health_percent(&u, &narrow, row[i].percent), row[i].text);
    for (double v = 20; v < 200; v += 0.0137) {
        double printed = strtod(health_percent(&u, &narrow, v), NULL);
        assert_int_equal(health_range_alerts(&narrow.warn, printed),
                         health_range_alerts(&narrow.warn, v));
        assert_int_equal(health_range_alerts(&narrow.crit, printed),
                         health_range_alerts(&narrow.crit, v));
    }
}

/* ---- fabrics whose faults are known ---- */

static int warn_below_90(void **state)
{
    (void)state;
    rules.warn.start = 90;
    return 0;
}

static int usual_rules(void **state)
{
    (void)state;
    health_rules_init(&rules);
    return 0;
}

#define TEST_BELOW_90(name) UNIT_TEST(name, warn_below_90, usual_rules)

TEST_BELOW_90(no_false_alarm)
{
    static const struct {
        const char *spec;
        int runs;
    } fleets[] = {{"3", 3000}, {"8", 3000}, {"64", 200}};
    int wrong = 0;

    for (size_t i = 0; i < sizeof fleets / sizeof *fleets; i++)
        for (int run = 0; run < fleets[i].runs; run++) {
            struct judged j = judged(fleets[i].spec, (uint64_t)run);
            wrong += j.v.state != HEALTH_OK;
            judged_release(&j);
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

TEST_BELOW_90(whoever_is_slow_and_not_its_partners)
{
    static const struct {
        int hosts;
        const char *fault;
        double percent;
        int out, in;
        enum health_state state;
    } row[] = {
        {3, "port", 50, 1, 1, HEALTH_CRITICAL}, {3, "out", 50, 1, 0, HEALTH_CRITICAL},
        {3, "in", 80, 0, 1, HEALTH_WARNING},    {4, "port", 50, 1, 1, HEALTH_CRITICAL},
        {8, "port", 70, 1, 1, HEALTH_CRITICAL}, {8, "in", 85, 0, 1, HEALTH_WARNING},
        {64, "out", 50, 1, 0, HEALTH_CRITICAL}, {64, "in", 85, 0, 1, HEALTH_WARNING},
        {3, "pair", 50, 0, 0, HEALTH_CRITICAL}, {6, "pair", 50, 0, 0, HEALTH_CRITICAL},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int found = 0, runs = 100, pair = !row[i].out && !row[i].in;
        for (int run = 0; run < runs; run++) {
            int k = run % row[i].hosts, other = (k + 1 + run % 2) % row[i].hosts;
            char spec[64], second[16] = "";
            if (pair)
                snprintf(second, sizeof second, "-%d", other);
            snprintf(spec, sizeof spec, "%d,%s=%d%s:%g", row[i].hosts, row[i].fault, k, second,
                     row[i].percent);
            struct judged j = judged(spec, (uint64_t)run);
            found += j.v.state == row[i].state &&
                     (pair ? j.v.findings == 1 && j.v.finding[0].host == k &&
                                 j.v.finding[0].other == other
                           : exactly(&j.v, k, row[i].out, row[i].in));
            judged_release(&j);
        }
        print_message("# %d hosts, %s: %d of %d\n", row[i].hosts, row[i].fault, found, runs);
        assert_true(found >= 98);
    }
}

/* After an early end a small deviation is not known, unless it was measured again. */
TEST_BELOW_90(ended_early)
{
    static const struct {
        double percent;
        enum health_part ended; /* in which of them */
        int again, code;
        enum health_state state;
    } row[] = {
        {80, HEALTH_PART_ROUNDS, 0, 303, HEALTH_UNKNOWN},
        {80, HEALTH_PART_LATENCY, 0, 303, HEALTH_UNKNOWN},
        {80, HEALTH_PART_CONFIRM, 1, 301, HEALTH_WARNING},
        {50, HEALTH_PART_ROUNDS, 0, 301, HEALTH_CRITICAL},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int pair = 0; pair < 2; pair++) {
            char spec[64];
            int kept = 0;
            snprintf(spec, sizeof spec, "8,noise=0.001,transients=0,%s=2%s:%g",
                     pair ? "pair" : "out", pair ? "-5" : "", row[i].percent);
            struct judged j = {.d = data(spec, i)};
            for (int s = 0; s < j.d.samples.count; s++)
                if (j.d.samples.at[s].stage == HEALTH_ROUNDS || row[i].again)
                    j.d.samples.at[kept++] = j.d.samples.at[s];
            j.d.samples.count = kept;
            j.d.requested = 1u << row[i].ended;
            j.d.done = 0;
            rejudge(&j);
            assert_int_equal(j.v.findings, 2); /* and that it was ended */
            const struct health_finding *f = &j.v.finding[j.v.finding[0].code == 901];
            assert_int_equal(f->host, 2);
            assert_int_equal(f->state, row[i].state);
            assert_int_equal(f->code, row[i].code == 301 && pair ? 304 : row[i].code);
            assert_int_equal(j.v.port[2][HEALTH_OUT].state, pair ? HEALTH_OK : row[i].state);
            assert_int_equal(strstr(f->text, ", not measured again") != NULL,
                             row[i].state == HEALTH_UNKNOWN);
            judged_release(&j);
        }
}

/* ---- two hosts: the baseline, and the sender's queue ---- */

static void learn_two_hosts(struct health_baseline *b)
{
    struct health_expected port[2] = {
        {.host = "node0", .ranks = 1, .Bps = {12.5e9, 12.5e9}, .spread = {0.02, 0.02}}};
    struct health_baseline by_hand = {.hosts = 2, .port = port, .path_ratio = {1}};

    port[1] = port[0];
    snprintf(port[1].host, sizeof port[1].host, "node1");
    rules.baseline = &by_hand;
    struct health_data d = data("2", 9);
    *b = health_baseline_learn(&d);
    rules.baseline = b;
    health_data_release(&d);
}

TEST_BELOW_90(two_hosts)
{
    static const struct {
        const char *spec;
        double drain[2]; /* of the full rate; -1: no kernel to ask */
        int findings, code, host, out, in;
        enum health_state state;
    } row[] = {
        {"2", {-1, -1}, 0, 0, 0, 0, 0, HEALTH_OK},
        /* Both ends, twice. */
        {"2,port=1:50", {-1, -1}, 2, 302, 0, 0, 0, HEALTH_CRITICAL},
        /* Its queue drains at what it sends (and 4 % of headers); host 0's at the full rate. */
        {"2,port=1:50", {1.045, 0.522}, 1, 301, 1, 1, 1, HEALTH_CRITICAL},
        /* A busy machine, which keeps the port from being full all the time. */
        {"2,port=1:45", {1.045, 0.522}, 1, 301, 1, 1, 1, HEALTH_CRITICAL},
        /* Nothing ever waits at host 0: not the narrow place. */
        {"2,port=1:50", {0, 0.522}, 1, 301, 1, 1, 1, HEALTH_CRITICAL},
        {"2,out=0:80", {0.836, 1.045}, 1, 301, 0, 1, 0, HEALTH_WARNING},
        /* Both directions far above it, or only one of the two. */
        {"2,port=0:200,port=1:200", {-1, -1}, 1, 306, -1, 0, 0, HEALTH_WARNING},
        {"2,in=0:200,port=1:200", {-1, -1}, 0, 0, 0, 0, 0, HEALTH_OK},
    };
    struct health_baseline b;

    learn_two_hosts(&b);
    assert_true(fabs(b.port[0].Bps[HEALTH_OUT] / 12.5e9 - 1) < 0.03);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct judged j = {.d = data(row[i].spec, i)};
        for (int k = 0; k < 2; k++)
            j.d.host[k].drain_Bps = row[i].drain[k] < 0 ? -1 : row[i].drain[k] * 12.5e9;
        rejudge(&j);
        if (j.v.findings != row[i].findings || j.v.state != row[i].state ||
            (j.v.findings &&
             (j.v.finding[0].code != row[i].code || j.v.finding[0].host != row[i].host)) ||
            (row[i].code == 301 && !exactly(&j.v, row[i].host, row[i].out, row[i].in)))
            fail_msg("row %zu: %d findings, %s", i, j.v.findings,
                     j.v.findings ? j.v.finding[0].text : "");
        if (row[i].code == 306)
            assert_non_null(strstr(j.v.finding[0].text, "stale"));
        judged_release(&j);
    }
    /* Without the baseline there is nothing to compare with. */
    struct health_data d = data("2", 1);
    struct health_verdict v;
    rules.baseline = NULL;
    assert_error(health_judge(&d, &rules, &v, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, "baseline"));
    health_data_release(&d);
    health_baseline_release(&b);
}

/* ---- few hosts, two faults at once ---- */

/* With three partners one of them is a third of a port's samples, and the median of a port at
 * 98 % then the lower quarter of the others: often under 96. */
TEST(one_pair_of_few_is_no_port)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct judged j = judged("4,noise=0.01,out=0:98,pair=0-2:80", seed);
        int pair = 0;
        for (int i = 0; i < j.v.findings; i++) {
            const struct health_finding *f = &j.v.finding[i];
            if (f->code == 301)
                fail_msg("seed %d: %s", (int)seed, f->text);
            pair += f->code == 304 && f->host == 0 && f->other == 2;
        }
        assert_int_equal(pair, 1);
        judged_release(&j);
    }
}

/* A slow pair of a host whose link fails is that host's; another that is slow is still
   named. */
TEST(hosts_whose_link_fails_are_alone)
{
    static const char *const spec[] = {"4,flap=1,pair=0-1:80", "4,cut=1,pair=0-1:80",
                                       "8,flap=1,pair=0-1:80,out=5:80"};

    for (size_t i = 0; i < sizeof spec / sizeof *spec; i++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct judged j = judged(spec[i], seed);
            int link = 0, port = 0;
            for (int n = 0; n < j.v.findings; n++) {
                const struct health_finding *f = &j.v.finding[n];
                int known = f->host == 1 || (i == 2 && f->host == 5 && f->code == 301) ||
                            f->state == HEALTH_UNKNOWN; /* of a cut: what was not finished */
                if (!known || f->code == 304)
                    fail_msg("%s, seed %d: HC-%d %s", spec[i], (int)seed, f->code, f->text);
                link += f->host == 1 && (f->code == 202 || f->code == 205);
                port += f->host == 5;
            }
            assert_int_equal(link, 1);
            assert_int_equal(port, i == 2);
            judged_release(&j);
        }
}

/* A check that was ended early: two streams that were cut short are no slow port. */
TEST(few_samples_accuse_nobody)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct judged j = {.d = data("8", seed)};
        for (int i = 0, n = 0; i < j.d.samples.count; i++)
            if (j.d.samples.at[i].src == 3)
                j.d.samples.at[i].Bps *= n++ < 2 ? 0.7 : 1;
        int kept = 0, of_3 = 0;
        for (int i = 0; i < j.d.samples.count; i++)
            if (j.d.samples.at[i].src != 3 || of_3++ < 2)
                j.d.samples.at[kept++] = j.d.samples.at[i];
        j.d.samples.count = kept;
        rejudge(&j);
        for (int i = 0; i < j.v.findings; i++)
            if (j.v.finding[i].state != HEALTH_UNKNOWN)
                fail_msg("seed %d: HC-%d %s", (int)seed, j.v.finding[i].code,
                         j.v.finding[i].text);
        judged_release(&j);
    }
}

/* ---- which hosts run a collective next ---- */

/* A set is slow when it has all hosts of the part that is slow together. */
enum { HOSTS_MOST = 40 };

/* Runs until nothing is next; how many sets ran, and the smallest slow one in *first. */
static int run(int hosts, int lo, int hi, int *first, int *count)
{
    struct health_data d;
    int at = 0, n = 0, sets = 0;

    health_data_init(&d, hosts, NULL);
    *count = 0;
    while (health_bisect(&d, &rules, &at, &n)) {
        assert_true(at >= 0 && n >= 2 && at + n <= hosts);
        int slow = at <= lo && at + n >= hi, before = 0;
        for (int i = 0; i < d.collectives.count; i++)
            before += d.collectives.at[i].first == at && d.collectives.at[i].count == n;
        assert_true(before < (slow ? 4 : 1)); /* nothing twice but what is slow */
        sets += before == 0;
        if (slow && (*count == 0 || n < *count)) {
            *first = at;
            *count = n;
        }
        HEALTH_ADD(&d.collectives) = (struct health_collective){at, n, slow ? 2 : 1, 1};
    }
    health_data_release(&d);
    return sets;
}

TEST(what_is_fine_is_not_halved)
{
    int first, count;

    for (int hosts = 3; hosts <= HOSTS_MOST; hosts++) {
        assert_int_equal(run(hosts, hosts, hosts + 1, &first, &count), 1);
        assert_int_equal(count, 0);
    }
}

/* A moment's slowness is not halved, whichever of the looks it was fine in. */
TEST(one_look_is_not_enough)
{
    for (int fine = 0; fine <= 4; fine++) {
        struct health_data d;
        int at, n, looks = 0;
        health_data_init(&d, 4, NULL);
        while (health_bisect(&d, &rules, &at, &n) && n == 4)
            HEALTH_ADD(&d.collectives) =
                (struct health_collective){at, n, looks++ == fine ? 1 : 2, 1};
        assert_int_equal(looks, fine < 4 ? fine + 1 : 4);
        assert_int_equal(n, fine < 4 ? 4 : 2);
        health_data_release(&d);
    }
}

/* The halves of what is slow, until both halves of it are fine: two runs a level. */
TEST(the_smallest_slow_half_is_found)
{
    int first = 0, count = 0;

    for (int hosts = 4; hosts <= HOSTS_MOST; hosts++)
        for (int lo = 0; lo < hosts; lo++)
            for (int hi = lo + 2; hi <= hosts; hi++) {
                int want = 0, n = hosts, levels = 0;
                while (n >= 4) { /* descend by hand */
                    int half = n / 2;
                    levels++;
                    if (lo >= want && hi <= want + half) {
                        n = half;
                    } else if (lo >= want + half && hi <= want + n) {
                        want += half;
                        n -= half;
                    } else {
                        break;
                    }
                }
                assert_int_equal(run(hosts, lo, hi, &first, &count), 1 + 2 * levels);
                assert_int_equal(first, want);
                assert_int_equal(count, n);
            }
}

TEST_BELOW_90(same_data_same_words)
{
    enum health_state is;
    char *text[2];
    size_t bytes;

    for (int i = 0; i < 2; i++) {
        struct health_options o;
        struct health_data d = data("8,out=3:40", 5);
        FILE *out = open_memstream(&text[i], &bytes);
        health_options_init(&o);
        assert_ok(health_answer(&d, &o, out, &is, &err));
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
