/* SPDX-License-Identifier: BSD-3-Clause */
/* What passes the ports, against the closed forms of paro-method(7), HO-RING. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "pick/pick.h"

/* Rounding of each chunk to 2^-42 of M; chunks below 2^12 here. */
static const double rounding = 0x1p-30;

static struct pick_traffic traffic(unsigned op, enum schedule_algo algo, const char *shape)
{
    struct pick_traffic t = {0};
    struct schedule s = {0};
    struct topo fabric = {0};
    struct err err = {0};

    assert_int_equal(topo_parse_shape(&fabric, shape, &err), 0);
    const struct schedule_spec how = {.algo = algo, .phases = op, .subchunks = 3};
    assert_int_equal(pick_schedule_on(&how, &fabric, "schedule", PICK_ROWS_MAX, &s, &err), 0);
    assert_int_equal(schedule_verify(&s, &err), 0);
    pick_traffic(&s, &t);
    assert_true(t.by_layout);
    schedule_release(&s);
    topo_release(&fabric);
    return t;
}

static void equal(double have, double want)
{
    if (fabs(have - want) > rounding)
        fail_msg("%.9f, expected %.9f", have, want);
}

static void ring_puts_all_but_one_block_through(void **state)
{
    (void)state;
    struct pick_traffic t = traffic(SCHEDULE_ALL_GATHER, SCHEDULE_RING, "4x8");
    equal(t.slow_out, 31.0 / 32);
    equal(t.slow_in, 31.0 / 32);
    equal(traffic(SCHEDULE_ALL_REDUCE, SCHEDULE_RING, "[3,2]").slow_out, 2 * 4.0 / 5);
}

static void ho_ring_reaches_the_cut_bound(void **state)
{
    (void)state;
    equal(traffic(SCHEDULE_ALL_GATHER, SCHEDULE_HO_RING, "4x8").slow_out, 3.0 / 4);
    equal(traffic(SCHEDULE_REDUCE_SCATTER, SCHEDULE_HO_RING, "2x3").slow_in, 1.0 / 2);
    /* equal slices: 2 (g-1)/g, not 2 * 3/5 */
    equal(traffic(SCHEDULE_ALL_REDUCE, SCHEDULE_HO_RING, "[3,2]").slow_out, 1);
    /* max_k (1 - m_k/n) comes in to the smaller group */
    equal(traffic(SCHEDULE_ALL_GATHER, SCHEDULE_HO_RING, "[3,2]").slow_in, 3.0 / 5);
}

static void slices_are_even_only_in_between(void **state)
{
    (void)state;
    assert_true(pick_even_slices(SCHEDULE_ALL_REDUCE, SCHEDULE_HO_RING));
    assert_true(pick_even_slices(SCHEDULE_ALL_REDUCE, SCHEDULE_TWO_LEVEL));
    assert_false(pick_even_slices(SCHEDULE_ALL_REDUCE, SCHEDULE_RING));
    assert_false(pick_even_slices(SCHEDULE_REDUCE_SCATTER, SCHEDULE_HO_RING));
    assert_false(pick_even_slices(SCHEDULE_ALL_GATHER, SCHEDULE_HO_RING));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_puts_all_but_one_block_through),
        cmocka_unit_test(ho_ring_reaches_the_cut_bound),
        cmocka_unit_test(slices_are_even_only_in_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
