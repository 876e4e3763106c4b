/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests baselines: learnt, read, refused, and the findings against them. */
#include "unit.h"

#include "base/tick.h"
#include "health/health.h"
#include "fleet_fixture.h"
#include "temp_fixture.h"

enum { RATIO_MOST = 1000 };

static char *learn_text(const struct health_data *d, size_t *bytes)
{
    struct health_baseline b = health_baseline_learn(d);
    char *text = store_text(&health_baseline_store, &b, bytes);

    health_baseline_release(&b);
    return text;
}

/* Learns a baseline in which ports slower than `below` have a thousandth of it. */
static struct health_baseline learn_slower(const char *spec, double below)
{
    struct health_data d = data(spec, 99);
    struct health_baseline b;
    size_t bytes;

    for (int i = 0; i < d.samples.count; i++)
        d.samples.at[i].Bps *= d.samples.at[i].Bps < below ? 1e-3 : 1;
    char *text = learn_text(&d, &bytes);
    assert_ok(store_parse(&health_baseline_store, text, bytes, &b));
    free(text);
    health_data_release(&d);
    return b;
}

static struct health_baseline learn(const char *spec)
{
    return learn_slower(spec, 0);
}

/* All ports at `factor` of what they are, and what is concluded with the baseline. */
static struct judged judged_with(const char *spec, uint64_t seed, double factor,
                                 const struct health_baseline *b)
{
    struct judged j = {.d = data(spec, seed)};

    for (int i = 0; i < j.d.samples.count; i++)
        j.d.samples.at[i].Bps *= factor;
    rules.baseline = b;
    rejudge(&j);
    rules.baseline = NULL;
    return j;
}

/* 15 samples of 2 %: a median within 4 standard errors, 0.65 % each; a MAD of them within 4 of
 * 30 % of it. */
TEST(learns_what_is_there)
{
    struct health_baseline b = learn("20x2,leaf=5,far=0.8,in=3:50");

    assert_int_equal(b.hosts, 20);
    for (int k = 0; k < 20; k++) {
        assert_int_equal(b.port[k].ranks, 2);
        for (int way = 0; way < 2; way++) {
            double want = 10e9 * (k == 3 && way == HEALTH_IN ? 0.5 : 1); /* 0.8: commonest */
            assert_true(fabs(b.port[k].Bps[way] / want - 1) < 0.026);
            assert_true(b.port[k].spread[way] > 0 && b.port[k].spread[way] < 0.044);
        }
        assert_true(b.port[k].latency_s > 15e-6 && b.port[k].latency_s < 30e-6);
    }
    assert_true(b.path_ratio[2] == 1 && fabs(b.path_ratio[1] - 1.25) < 0.03);
    assert_true(b.path_ratio[0] == 0 && b.path_ratio[3] == 0);
    health_baseline_release(&b);
    b = learn_slower("20x2,leaf=5,far=0.01", 1e9); /* further apart than a baseline can say */
    assert_true(b.path_ratio[2] == 1 && b.path_ratio[1] == RATIO_MOST);
    health_baseline_release(&b);
}

TEST(compares_with_itself)
{
    struct health_baseline b = learn("8,port=2:80"); /* so it is, and so it was learnt */

    for (uint64_t seed = 0; seed < 20; seed++) {
        struct judged j = judged_with("8,port=2:80", seed, 1, &b);
        assert_int_equal(j.v.findings, 0);
        assert_true(j.v.by_baseline && !j.v.percent_only);
        judged_release(&j);
        j = judged_with("8,port=2:72", seed, 1, &b);
        assert_int_equal(j.v.findings, 1);
        assert_int_equal(j.v.finding[0].host, 2);
        assert_non_null(strstr(j.v.finding[0].text, "of baseline"));
        assert_true(fabs(j.v.finding[0].percent - 90) < 3);
        judged_release(&j);
    }
    health_baseline_release(&b);
}

/* A change of all ports is one finding, and that of a port that is slow among them another.  At
   twice of what was learned a port that lost half of its rate is as it was learned: then the
   baseline is stale. */
TEST(a_shift_of_all_is_one_finding)
{
    static const char stale[] = "stale (--accept-baseline or --learn)",
                      shift[] = "88 % of the baseline (--accept-baseline if that is right)";
    static const struct {
        const char *learned, *is;
        double factor;
        int slow;       /* a host, or -1 */
        double percent; /* of it */
        enum health_state state;
        const char *by, *text, *more;
    } row[] = {
        {"16", "16,port=5:80", 0.88, 5, 70.4, HEALTH_CRITICAL, "% of baseline",
         "all 16 hosts are at ", shift},
        {"16", "16", 2, -1, 0, 0, "", "all 16 hosts are at ", stale},
        {"16", "16,in=5:50", 2, 5, 50, HEALTH_CRITICAL, "% of the others",
         "all 16 hosts are at ", stale},
        {"3", "3", 1.5, -1, 0, 0, "", "all 3 hosts are at ", stale},
        {"16", "16", 1.25, -1, 0, 0, "", NULL, NULL},
    };

    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        struct health_baseline b = learn(row[r].learned);
        struct judged j = judged_with(row[r].is, 1, row[r].factor, &b);
        assert_int_equal(j.v.findings, (row[r].text != NULL) + (row[r].slow >= 0));
        if (row[r].text) {
            const struct health_finding *f = &j.v.finding[j.v.findings - 1];
            assert_int_equal(f->code, 306);
            assert_int_equal(f->state, HEALTH_WARNING);
            assert_non_null(strstr(f->text, row[r].text));
            assert_non_null(strstr(f->text, row[r].more));
            assert_true(fabs(f->percent / row[r].factor - 100) < 3);
        }
        if (row[r].slow >= 0) {
            const struct health_finding *f = &j.v.finding[0];
            assert_int_equal(f->code, 301);
            assert_int_equal(f->host, row[r].slow);
            assert_int_equal(f->state, row[r].state);
            assert_non_null(strstr(f->text, row[r].by));
            assert_true(fabs(f->percent - row[r].percent) < 3);
        }
        judged_release(&j);
        health_baseline_release(&b);
    }
}

TEST(another_fabric_is_refused)
{
    static const char *const row[][2] = {{"9x2", "has no host 'node8'"},
                                         {"8x4", "has host 'node0' with 2 ranks, found 4"}};
    struct health_baseline b = learn("8x2");
    struct health_rules with = rules;
    struct health_verdict v;

    with.baseline = &b;
    for (int i = 0; i < 2; i++) {
        struct health_data d = data(row[i][0], 1);
        assert_error(health_judge(&d, &with, &v, &err), ERR_MISMATCH);
        if (!strstr(err.text, row[i][1]))
            fail_msg("%s", err.text);
        health_data_release(&d);
    }
    struct judged j = judged_with("6x2", 1, 1, &b); /* some of its hosts: fine */
    assert_int_equal(j.v.findings, 0);
    judged_release(&j);
    health_baseline_release(&b);
}

TEST(half_of_a_file_is_refused)
{
    static const char old[] = "format: paro-baseline/1\nports: []\n";
    struct health_data d = data("4", 1);
    struct health_baseline b;
    size_t bytes;
    char *text = learn_text(&d, &bytes);

    refuses_damage(&health_baseline_store, text, bytes, 1);
    size_t digit = (size_t)(strstr(text, "out_Bps: ") - text) + 9;
    text[digit] = text[digit] == '1' ? '2' : '1'; /* mended by hand */
    assert_says(store_parse(&health_baseline_store, text, bytes, &b), "is damaged");
    assert_says(store_parse(&health_baseline_store, old, sizeof old - 1, &b),
                "paro-baseline/1");
    free(text);
    health_data_release(&d);
}

/* Processor seconds that a baseline takes to be read, once right and once with host 7 twice. */
static double parse_s(int hosts)
{
    char want[128], last[16];
    struct health_baseline b;
    struct health_data d;
    double took_s = 0;

    snprintf(want, sizeof want, "file:%d: 'host' is 'node7' a second time", 7 * hosts);
    snprintf(last, sizeof last, "node%d", hosts - 1);
    health_data_init(&d, hosts, NULL);
    for (int twice = 0; twice < 2; twice++) {
        size_t bytes = 0;
        char *text = learn_text(&d, &bytes);
        double start = tick_cpu_s();
        assert_int_equal(store_parse(&health_baseline_store, text, bytes, &b), -twice);
        took_s += tick_cpu_s() - start;
        if (!twice) {
            assert_int_equal(b.hosts, hosts);
            assert_string_equal(b.port[hosts - 1].host, last);
            health_baseline_release(&b);
            memcpy(d.host[hosts - 1].name, "node7", 6);
        }
        free(text);
    }
    assert_non_null(strstr(err.text, want));
    health_data_release(&d);
    return took_s;
}

/* A host may stand once, wherever the other one is; thousands of them are no work. */
TEST(hosts_stand_once)
{
    /* Sorting 20 times as many takes 20 to 25 times as long; each with each, which were most of
       it at this size, 240 times.  The limit leaves a factor of 3 on both sides. */
    double once_s = parse_s(3000);
    assert_true(parse_s(60000) < 70 * once_s);
}

/* A key or a list that is there a second time, under a checksum that is right. */
TEST(what_is_there_twice_is_refused)
{
#define HEAD  "format: paro-baseline/2\nwhen_s: 0\n"
#define PATHS "paths:\n  - path: 0\n    ratio: 1\n"
#define PORT                                                                                   \
    "  - host: node0\n    ranks: 1\n    out_Bps: 1\n    in_Bps: 1\n    out_spread: 0\n"        \
    "    in_spread: 0\n    latency_s: 0\n"
    static const struct {
        const char *text, *words;
    } row[] = {
        {HEAD PATHS "ports:\n" PORT, NULL},
        {HEAD "when_s: 1\n" PATHS "ports:\n" PORT, "file:3: 'when_s' is given twice"},
        {HEAD PATHS "ports:\n" PORT "    ranks: 2\n",
         "file:14: 'ports[0].ranks' is given twice"},
        {HEAD PATHS "ports:\nports:\n" PORT, "file:7: 'ports' is given twice"},
        {HEAD "paths:\nports:\n" PORT PATHS, "file:12: 'paths' is given twice"},
    };
#undef HEAD
#undef PATHS
#undef PORT

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[600], tail[HEALTH_TAIL];
        struct health_baseline b;
        health_store_tail(&health_baseline_store, row[i].text, (int64_t)strlen(row[i].text),
                          tail);
        int bytes = snprintf(text, sizeof text, "%s%s", row[i].text, tail);
        int rc = store_parse(&health_baseline_store, text, (size_t)bytes, &b);
        assert_int_equal(rc, row[i].words ? -1 : 0);
        if (rc && !strstr(err.text, row[i].words))
            fail_msg("%s", err.text);
        if (rc == 0)
            health_baseline_release(&b);
    }
}

/* A level shifts by a decision; and of a faulty fabric there is no baseline.  On `out` nothing,
 * and of a file that stands there nothing is lost. */
UNIT_TEST(a_baseline_is_replaced_when_told_so, temp_enter, temp_leave)
{
    static const char path[] = "baseline.yaml";
    struct health_data was = data("8", 1), is = data("8,out=3:70", 2);
    struct health_options o;
    enum health_state found;
    struct health_baseline b;

    health_options_init(&o);
    o.learn = 1;
    o.baseline = path;
    FILE *out = unit_stream();
    assert_int_equal(health_answer(&is, &o, out, &found, &err), -1);
    assert_int_equal(access(path, F_OK), -1);
    assert_ok(health_answer(&was, &o, out, &found, &err));
    assert_says(health_answer(&was, &o, out, &found, &err), "expected --accept-baseline");
    char *text = unit_text(out);
    assert_string_equal(text, "");
    free(text);
    for (int accept = 0; accept < 2; accept++) {
        assert_int_equal(health_baseline_write(&is, path, accept, &err), accept - 1);
        assert_true(accept ||
                    (err.code == ERR_MISMATCH && strstr(err.text, "node3 out, from 12.")));
        assert_ok(health_store_read(&health_baseline_store, path, &b, &err));
        assert_true(accept ? b.port[3].Bps[HEALTH_OUT] < 9.5e9
                           : b.port[3].Bps[HEALTH_OUT] > 12e9);
        health_baseline_release(&b);
    }
    /* A file that is there and is no baseline was not meant. */
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("127.0.0.1 localhost\n", f);
    fclose(f);
    assert_says(health_baseline_write(&is, path, 1, &err), "is not a baseline");
    health_data_release(&was);
    health_data_release(&is);
}
