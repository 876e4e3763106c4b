/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which hosts run a collective next, against a fabric that is known: a set is slow when it has
 * all hosts of the part that does not get on together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "health/health_tour.h"

enum { HOSTS_MOST = 40 };

/* Runs until nothing is next; how many collectives, and the smallest slow set in *first. */
static int run(int hosts, int lo, int hi, int *first, int *count)
{
    const char *name[HOSTS_MOST];
    struct health_rules rules;
    struct health_data d;
    int at = 0, n = 0, runs = 0;

    for (int k = 0; k < hosts; k++)
        name[k] = "h";
    health_rules_init(&rules);
    health_data_init(&d, hosts, name);
    *count = 0;
    while (health_bisect(&d, &rules, &at, &n)) {
        assert_true(at >= 0 && n >= 2 && at + n <= hosts);
        for (int i = 0; i < d.collectives.count; i++) /* nothing twice */
            assert_false(d.collectives.at[i].first == at && d.collectives.at[i].count == n);
        int slow = at <= lo && at + n >= hi;
        if (slow && (*count == 0 || n < *count)) {
            *first = at;
            *count = n;
        }
        health_data_add_collective(&d, (struct health_collective){at, n, slow ? 2 : 1, 1});
        runs++;
    }
    health_data_release(&d);
    return runs;
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_fine_is_not_halved),
        cmocka_unit_test(the_smallest_slow_half_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
