/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One collective, priced by the planner's closed form and by the simulator of its rows: within
 * 5 %, which is what simulated and measured times differ by (pick/pick_auto.h).  Where messages
 * take most of a processor's time, its queues wait for it in an order that no closed form has:
 * within 15 %.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "pick/pick_auto.h"
#include "plan/traffic.h"
#include "plan_fixture.h"

static const char *const fabrics[] = {
    "16x8,intra=200GB/s:3us,inter=25GB/s:12us",  /* H100 nodes, one port each */
    "4x8,intra=450GB/s:3us,inter=400GB/s:8us",   /* eight rails of 400 Gbit/s, as NDv5 */
    "2x2,intra=2GB/s:20us,inter=59.8MB/s:100us", /* emulated */
    "[4,4,3],intra=2GB/s:20us,inter=120MB/s:60us"};

/* Seconds of one all-gather of `elems` in bf16, in the chunk that the plan chose. */
static double planned_s(const struct plan_case *c, const struct plan_tally *tally,
                        enum schedule_algo algo)
{
    struct plan_traffic f;
    struct plan_bill b = {
        .at = c, .tally = tally, .strategy = {LETTER_G, LETTER_G, LETTER_G}, .algo = algo};

    plan_traffic_of(&b, 0, STEP_GATHER, &f);
    return f.alone_s[0];
}

static void compare(const struct topo *t, const char *spec, double params, double within)
{
    static const enum schedule_algo algos[] = {SCHEDULE_HO_RING, SCHEDULE_TWO_LEVEL,
                                               SCHEDULE_RING};
    struct model m = bare(params);
    struct plan_tally tally;
    struct plan_case c;
    struct err err;

    plan_case_init(&c, t, &m);
    plan_tally_init(&tally, t, &m, c.trainable, c.keep);
    plan_choose_chunk(&c, &tally);
    for (int i = 0; i < 3; i++) {
        double simulated = 0, planned = planned_s(&c, &tally, algos[i]);
        if (pick_time(t, SCHEDULE_ALL_GATHER, 2 * m.params, algos[i], c.chunk_bytes, &simulated,
                      &err))
            fail_msg("%s", err.text);
        if (fabs(planned - simulated) > within * simulated)
            fail_msg("%s, %g elements, %s in chunks of %lld: planned %g s, simulated %g s",
                     spec, params, schedule_algo_name(algos[i]), (long long)c.chunk_bytes,
                     planned, simulated);
    }
    plan_tally_release(&tally);
}

static void planner_and_simulator_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fabrics / sizeof *fabrics; i++)
        for (int known = 0; known < 2; known++) {
            struct topo t;
            struct err err;
            assert_int_equal(topo_parse_synth(&t, fabrics[i], &err), 0);
            for (int l = 0; known && l < t.levels; l++)
                t.level[l].message_s =
                    t.level[l].latency_s / 30; /* 10 million a second: InfiniBand */
            double within = known ? 0.15 : 0.05;
            compare(&t, fabrics[i], 202.5e6, within);
            compare(&t, fabrics[i], 32 << 20, within);
            compare(&t, fabrics[i], 4e6, within);
            topo_release(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(planner_and_simulator_agree)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
