/* SPDX-License-Identifier: BSD-3-Clause */
/* Which end of a slow stream is named, where little is known: few hosts, two faults at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fleet_fixture.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_pair_of_few_is_no_port),
                                       cmocka_unit_test(hosts_whose_link_fails_are_alone),
                                       cmocka_unit_test(few_samples_accuse_nobody)};

    health_rules_init(&rules);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
