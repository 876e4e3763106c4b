/* SPDX-License-Identifier: BSD-3-Clause */
/* Baselines: learnt, read, refused, and what is said against them. */
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
#include "health/health.h"
#include "fleet_fixture.h"
#include "temp_fixture.h"

/* All ports at `factor` of what they were. */
static struct health_data fabric(const char *spec, uint64_t seed, double factor)
{
    struct health_data d = data(spec, seed);

    for (int i = 0; i < d.samples.count; i++)
        d.samples.at[i].Bps *= factor;
    return d;
}

static char *learn_text(const struct health_data *d, size_t *bytes)
{
    struct health_baseline b = health_baseline_learn(d);
    char *text = store_text(&health_baseline_store, &b, bytes);

    health_baseline_release(&b);
    return text;
}

static struct health_baseline learn(const char *spec)
{
    struct health_data d = data(spec, 99);
    struct health_baseline b;
    struct err err;
    size_t bytes;
    char *text = learn_text(&d, &bytes);

    if (store_parse(&health_baseline_store, text, bytes, &b, &err))
        fail_msg("%s", err.text);
    free(text);
    health_data_release(&d);
    return b;
}

static struct health_verdict judge_with(const char *spec, uint64_t seed,
                                        const struct health_baseline *b)
{
    struct health_data d = data(spec, seed);
    struct health_rules with = rules;
    struct health_verdict v;
    struct err err;

    with.baseline = b;
    if (health_judge(&d, &with, &v, &err))
        fail_msg("%s: %s", spec, err.text);
    health_data_release(&d);
    return v;
}

/* 15 samples of 2 %: a median within 4 standard errors, 0.65 % each; a MAD of them within 4 of
 * 30 % of it. */
static void learns_what_is_there(void **state)
{
    struct health_baseline b = learn("20x2,leaf=5,far=0.8,in=3:50");

    (void)state;
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
}

static void compares_with_itself(void **state)
{
    struct health_baseline b = learn("8,port=2:80"); /* so it is, and so it was learnt */

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct health_verdict v = judge_with("8,port=2:80", seed, &b);
        assert_int_equal(v.findings, 0);
        assert_true(v.by_baseline && !v.percent_only);
        health_verdict_release(&v);
        v = judge_with("8,port=2:72", seed, &b);
        assert_int_equal(v.findings, 1);
        assert_int_equal(v.finding[0].host, 2);
        assert_non_null(strstr(v.finding[0].text, "of baseline"));
        assert_true(fabs(v.finding[0].percent - 90) < 3);
        health_verdict_release(&v);
    }
    health_baseline_release(&b);
}

static void a_shift_of_all_is_one_finding(void **state)
{
    struct health_baseline b = learn("16");
    struct health_data d = fabric("16,port=5:80", 1, 0.88);
    struct health_rules with = rules;
    struct health_verdict v;
    struct err err;

    (void)state;
    with.baseline = &b;
    assert_int_equal(health_judge(&d, &with, &v, &err), 0);
    assert_int_equal(v.findings, 2);
    assert_int_equal(v.finding[0].code, 301); /* and the one that is slow beside the others */
    assert_int_equal(v.finding[0].host, 5);
    assert_true(fabs(v.finding[0].percent - 0.88 * 80) < 3);
    assert_int_equal(v.finding[1].code, 306);
    assert_int_equal(v.finding[1].state, HEALTH_WARNING);
    assert_non_null(strstr(v.finding[1].text, "all 16 hosts are at 88 % of the baseline"));
    health_verdict_release(&v);
    health_data_release(&d);
    health_baseline_release(&b);
}

/* At twice of what was learned a port that lost half of its rate is as it was learned. */
static void a_baseline_that_all_exceed_is_stale(void **state)
{
    static const struct {
        const char *learned, *is;
        double factor;
        int slow; /* a host, or -1 */
        const char *text;
    } row[] = {
        {"16", "16", 2, -1, "all 16 hosts are at "},
        {"16", "16,in=5:50", 2, 5, "all 16 hosts are at "},
        {"3", "3", 1.5, -1, "all 3 hosts are at "},
        {"16", "16", 1.25, -1, NULL},
    };

    (void)state;
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        struct health_baseline b = learn(row[r].learned);
        struct health_rules with = rules;
        struct health_verdict v;
        struct err err;
        with.baseline = &b;
        struct health_data d = fabric(row[r].is, 1, row[r].factor);
        assert_int_equal(health_judge(&d, &with, &v, &err), 0);
        assert_int_equal(v.findings, (row[r].text != NULL) + (row[r].slow >= 0));
        if (row[r].text) {
            const struct health_finding *f = &v.finding[v.findings - 1];
            assert_int_equal(f->code, 306);
            assert_int_equal(f->state, HEALTH_WARNING);
            assert_non_null(strstr(f->text, row[r].text));
            assert_non_null(strstr(f->text, "stale (--accept-baseline or --learn)"));
            assert_true(fabs(f->percent / row[r].factor - 100) < 3);
        }
        if (row[r].slow >= 0) {
            assert_int_equal(v.finding[0].code, 301);
            assert_int_equal(v.finding[0].host, row[r].slow);
            assert_int_equal(v.finding[0].state, HEALTH_CRITICAL);
            assert_non_null(strstr(v.finding[0].text, "% of the others"));
        }
        health_verdict_release(&v);
        health_data_release(&d);
        health_baseline_release(&b);
    }
}

static void refused(const struct health_baseline *b, const char *spec, const char *words)
{
    struct health_data d = data(spec, 1);
    struct health_rules with = rules;
    struct health_verdict v;
    struct err err;

    with.baseline = b;
    assert_int_equal(health_judge(&d, &with, &v, &err), -1);
    assert_int_equal(err.code, ERR_MISMATCH);
    if (!strstr(err.text, words))
        fail_msg("%s", err.text);
    health_data_release(&d);
}

static void another_fabric_is_refused(void **state)
{
    struct health_baseline b = learn("8x2");

    (void)state;
    refused(&b, "9x2", "has no host 'node8'");
    refused(&b, "8x4", "has host 'node0' with 2 ranks, found 4");
    struct health_verdict v = judge_with("6x2", 1, &b); /* some of its hosts: fine */
    assert_int_equal(v.findings, 0);
    health_verdict_release(&v);
    health_baseline_release(&b);
}

static void half_of_a_file_is_refused(void **state)
{
    struct health_data d = data("4", 1);
    struct health_baseline b;
    struct err err;
    size_t bytes;
    char *text = learn_text(&d, &bytes);

    (void)state;
    for (size_t n = 0; n < bytes; n++) {
        assert_int_equal(store_parse(&health_baseline_store, text, n, &b, &err), -1);
        assert_int_equal(err.code, ERR_INPUT);
        assert_null(strchr(err.text, '\n'));
    }
    size_t digit = (size_t)(strstr(text, "out_Bps: ") - text) + 9;
    text[digit] = text[digit] == '1' ? '2' : '1'; /* mended by hand */
    assert_int_equal(store_parse(&health_baseline_store, text, bytes, &b, &err), -1);
    assert_non_null(strstr(err.text, "is damaged"));
    static const char old[] = "format: paro-baseline/1\nports: []\n";
    assert_int_equal(store_parse(&health_baseline_store, old, sizeof old - 1, &b, &err), -1);
    assert_non_null(strstr(err.text, "paro-baseline/1"));
    free(text);
    health_data_release(&d);
}

/* A key or a list that is there a second time, under a checksum that is right. */
static void what_is_there_twice_is_refused(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[600], tail[HEALTH_TAIL];
        struct health_baseline b;
        struct err err;
        health_store_tail(&health_baseline_store, row[i].text, (int64_t)strlen(row[i].text),
                          tail);
        int bytes = snprintf(text, sizeof text, "%s%s", row[i].text, tail);
        int rc = store_parse(&health_baseline_store, text, (size_t)bytes, &b, &err);
        assert_int_equal(rc, row[i].words ? -1 : 0);
        if (rc && !strstr(err.text, row[i].words))
            fail_msg("%s", err.text);
        if (rc == 0)
            health_baseline_release(&b);
    }
}

/* A level shifts by a decision. */
static void a_baseline_is_replaced_when_told_so(void **state)
{
    char dir[TEMP_PATH], path[TEMP_PATH + 20];
    struct health_data was = data("8", 1), is = data("8,out=3:70", 2);
    struct health_baseline b;
    struct err err;

    (void)state;
    temp_folder(dir, "paro-baseline");
    snprintf(path, sizeof path, "%s/baseline.yaml", dir);
    assert_int_equal(health_baseline_write(&was, path, 0, &err), 0);
    assert_int_equal(health_baseline_write(&is, path, 0, &err), -1);
    assert_int_equal(err.code, ERR_MISMATCH);
    assert_non_null(strstr(err.text, "node3 out, from 12."));
    assert_int_equal(health_store_read(&health_baseline_store, path, &b, &err), 0);
    assert_true(b.port[3].Bps[HEALTH_OUT] > 12e9);
    health_baseline_release(&b);
    assert_int_equal(health_baseline_write(&is, path, 1, &err), 0);
    assert_int_equal(health_store_read(&health_baseline_store, path, &b, &err), 0);
    assert_true(b.port[3].Bps[HEALTH_OUT] < 9.5e9);
    health_baseline_release(&b);
    /* What stands there and is none was not meant. */
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("127.0.0.1 localhost\n", f);
    fclose(f);
    assert_int_equal(health_baseline_write(&is, path, 1, &err), -1);
    assert_non_null(strstr(err.text, "is not a baseline"));
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    health_data_release(&was);
    health_data_release(&is);
}

/* On `out` nothing, and of a file that stands there nothing is lost. */
static void learns_into_a_file(void **state)
{
    char dir[TEMP_PATH], path[TEMP_PATH + 20], *text = NULL;
    struct health_data well = data("8", 1), faulty = data("8,out=3:70", 2);
    struct health_options o;
    enum health_state is;
    struct health_baseline b;
    struct err err;
    size_t bytes;

    (void)state;
    temp_folder(dir, "paro-learn");
    snprintf(path, sizeof path, "%s/baseline.yaml", dir);
    health_options_init(&o);
    o.learn = 1;
    o.baseline = path;
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(health_answer(&faulty, &o, out, &is, &err), -1);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(health_answer(&well, &o, out, &is, &err), 0);
    assert_int_equal(health_store_read(&health_baseline_store, path, &b, &err), 0);
    health_baseline_release(&b);
    assert_int_equal(health_answer(&well, &o, out, &is, &err), -1);
    assert_non_null(strstr(err.text, "expected --accept-baseline"));
    fclose(out);
    assert_int_equal(bytes, 0);
    free(text);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    health_data_release(&well);
    health_data_release(&faulty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_what_is_there),
        cmocka_unit_test(compares_with_itself),
        cmocka_unit_test(a_shift_of_all_is_one_finding),
        cmocka_unit_test(a_baseline_that_all_exceed_is_stale),
        cmocka_unit_test(another_fabric_is_refused),
        cmocka_unit_test(half_of_a_file_is_refused),
        cmocka_unit_test(what_is_there_twice_is_refused),
        cmocka_unit_test(a_baseline_is_replaced_when_told_so),
        cmocka_unit_test(learns_into_a_file),
    };

    health_rules_init(&rules);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
