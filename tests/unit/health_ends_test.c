/* SPDX-License-Identifier: BSD-3-Clause */
/* Which end of a slow stream is named, where little is known: few hosts, two faults at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fleet_fixture.h"
#include "health/health_analysis.h"

/*
 * With three partners one of them is a third of a port's samples, and the median of a port at
 * 98 % then the lower quarter of the others: often under 96.
 */
static void one_pair_of_few_is_no_port(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct health_data d = data("4,noise=0.01,out=0:98,pair=0-2:80", seed);
        struct health_verdict v = judge(&d);
        int pair = 0;
        for (int i = 0; i < v.findings; i++) {
            const struct health_finding *f = &v.finding[i];
            if (f->code == 301)
                fail_msg("seed %d: %s", (int)seed, f->text);
            pair += f->code == 304 && f->host == 0 && f->other == 2;
        }
        assert_int_equal(pair, 1);
        health_verdict_release(&v);
        health_data_release(&d);
    }
}

/* What is slow with a host whose link fails is that host's; another that is slow is still
 * named. */
static void hosts_whose_link_fails_are_alone(void **state)
{
    static const char *const spec[] = {"4,flap=1,pair=0-1:80", "4,cut=1,pair=0-1:80",
                                       "8,flap=1,pair=0-1:80,out=5:80"};

    (void)state;
    for (size_t i = 0; i < sizeof spec / sizeof *spec; i++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct health_data d = data(spec[i], seed);
            struct health_verdict v = judge(&d);
            int link = 0, port = 0;
            for (int n = 0; n < v.findings; n++) {
                const struct health_finding *f = &v.finding[n];
                int known = f->host == 1 || (i == 2 && f->host == 5 && f->code == 301) ||
                            f->state == HEALTH_UNKNOWN; /* of a cut: what was not finished */
                if (!known || f->code == 304)
                    fail_msg("%s, seed %d: HC-%d %s", spec[i], (int)seed, f->code, f->text);
                link += f->host == 1 && (f->code == 202 || f->code == 205);
                port += f->host == 5;
            }
            assert_int_equal(link, 1);
            assert_int_equal(port, i == 2);
            health_verdict_release(&v);
            health_data_release(&d);
        }
}

/* A check that was ended early: two streams that were cut short are no slow port. */
static void few_samples_accuse_nobody(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct health_data d = data("8", seed);
        for (int i = 0, n = 0; i < d.samples.count; i++)
            if (d.samples.at[i].src == 3)
                d.samples.at[i].Bps *= n++ < 2 ? 0.7 : 1;
        int kept = 0, of_3 = 0;
        for (int i = 0; i < d.samples.count; i++)
            if (d.samples.at[i].src != 3 || of_3++ < 2)
                d.samples.at[kept++] = d.samples.at[i];
        d.samples.count = kept;
        struct health_verdict v = judge(&d);
        for (int i = 0; i < v.findings; i++)
            if (v.finding[i].state != HEALTH_UNKNOWN)
                fail_msg("seed %d: HC-%d %s", (int)seed, v.finding[i].code, v.finding[i].text);
        health_verdict_release(&v);
        health_data_release(&d);
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

static void what_is_fine_is_not_halved(void **state)
{
    int first, count;

    (void)state;
    for (int hosts = 3; hosts <= HOSTS_MOST; hosts++) {
        assert_int_equal(run(hosts, hosts, hosts + 1, &first, &count), 1);
        assert_int_equal(count, 0);
    }
}

/* What is slow for a moment is not halved, whichever of the looks it was fine in. */
static void one_look_is_not_enough(void **state)
{
    (void)state;
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
static void the_smallest_slow_half_is_found(void **state)
{
    int first = 0, count = 0;

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_pair_of_few_is_no_port),
                                       cmocka_unit_test(hosts_whose_link_fails_are_alone),
                                       cmocka_unit_test(few_samples_accuse_nobody),
                                       cmocka_unit_test(what_is_fine_is_not_halved),
                                       cmocka_unit_test(one_look_is_not_enough),
                                       cmocka_unit_test(the_smallest_slow_half_is_found)};

    health_rules_init(&rules);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
