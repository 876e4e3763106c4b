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

/* Runs until nothing is next; how many sets ran, and the smallest slow one in *first. */
static int run(int hosts, int lo, int hi, int *first, int *count)
{
    const char *name[HOSTS_MOST];
    struct health_rules rules;
    struct health_data d;
    int at = 0, n = 0, sets = 0;

    for (int k = 0; k < hosts; k++)
        name[k] = "h";
    health_rules_init(&rules);
    health_data_init(&d, hosts, name);
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
    const char *const name[] = {"a", "b", "c", "d"};

    (void)state;
    for (int fine = 0; fine <= 4; fine++) {
        struct health_rules rules;
        struct health_data d;
        int at, n, looks = 0;
        health_rules_init(&rules);
        health_data_init(&d, 4, name);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_fine_is_not_halved),
        cmocka_unit_test(one_look_is_not_enough),
        cmocka_unit_test(the_smallest_slow_half_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
