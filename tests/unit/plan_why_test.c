/* SPDX-License-Identifier: BSD-3-Clause */
/* Why strategies lose, against other fabrics on which what binds them is no longer there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "plan/why.h"
#include "plan_fixture.h"

static const double FAST_BPS = 1e24; /* takes no time worth the name */

/* Sums in another order, and what 1e24 bytes a second still take: of steps of seconds. */
static void near(double found, double expected)
{
    if (fabs(found - expected) > 1e-9)
        fail_msg("%.15g, expected %.15g", found, expected);
}

static struct plan_search search_of(const struct topo *t, const struct model *m, int accum)
{
    struct plan_search s = {.at = table_case(t, m, accum, 1)};
    struct err err;

    assert_int_equal(plan_search(&s, &err), 0);
    return s;
}

static int index_of(const char *name)
{
    struct plan_strategy s;
    struct err err;

    assert_int_equal(plan_strategy_parse(name, &s, &err), 0);
    return s.params * 9 + s.grads * 3 + s.optimizer;
}

/* Without the slow, or the fast link is: on a fabric where that link takes no time. */
static void test_without_a_link(void **state)
{
    static const char *const shapes[] = {"2x2", "4x8", "[3,2]", "[4,4,3]"};
    static const enum schedule_algo algos[] = {SCHEDULE_AUTO, SCHEDULE_RING, SCHEDULE_TWO_LEVEL,
                                               SCHEDULE_HO_RING};
    struct model m = bare(7e9);

    (void)state;
    for (int at = 0; at < 4 * 4 * 2; at++) {
        int term = at / 16;
        struct plan_price other[PLAN_STRATEGIES];
        struct topo t, free;
        struct plan_why why;
        make_topo(&t, shapes[at % 4], 200e9, 25e9);
        t.level[0].latency_s = 3e-6;
        t.level[1].latency_s = 12e-6;
        make_topo(&free, shapes[at % 4], term == PLAN_FAST ? FAST_BPS : 200e9,
                  term == PLAN_SLOW ? FAST_BPS : 25e9);
        free.level[0].latency_s = term == PLAN_FAST ? 0 : 3e-6;
        free.level[1].latency_s = term == PLAN_SLOW ? 0 : 12e-6;
        struct plan_search s = {.at = table_case(&t, &m, 3, 1)};
        struct err err;
        s.at.algo = algos[at / 4 % 4];
        assert_int_equal(plan_search(&s, &err), 0);
        plan_why(&s, &why);
        struct plan_case c = s.at;
        c.topo = &free;
        plan_price_all(&c, other);
        for (int i = 0; i < PLAN_STRATEGIES; i++)
            near(why.of[i].behind_without_s[term], other[i].step_s - other[s.best].step_s);
        drop_topo(&free);
        drop_topo(&t);
    }
}

/* Fabrics on which one thing alone costs time. */
static void test_what_binds(void **state)
{
    struct model m = bare(7e9), tiny;
    struct model_unit unit = {.elems = 1000000, .trained = 1000000};
    struct plan_why why;
    struct topo t;

    (void)state;
    make_topo(&t, "4x8", FAST_BPS, 25e9); /* GGG gathers across for each micro-step */
    struct plan_search s = search_of(&t, &m, 4);
    plan_why(&s, &why);
    assert_int_equal(why.of[index_of("GGG")].binding, PLAN_BINDS_SLOW);
    drop_topo(&t);

    make_topo(&t, "4x8", 1e9, FAST_BPS); /* IIG gathers inside for each micro-step */
    s = search_of(&t, &m, 4);
    plan_why(&s, &why);
    assert_int_equal(why.of[index_of("IIG")].binding, PLAN_BINDS_FAST);
    drop_topo(&t);

    /* All links take nothing: NNN updates everything on every rank. */
    make_topo(&t, "1x8", FAST_BPS, FAST_BPS);
    tiny = (struct model){.family = &model_family_llama,
                          .layers = 1,
                          .heads = 1,
                          .head_dim = 64,
                          .units = 1,
                          .visits = 1,
                          .unit = &unit,
                          .params = 1000000,
                          .trained = 1000000};
    t.flops = 1e9;
    s = search_of(&t, &tiny, 1);
    plan_why(&s, &why);
    assert_int_equal(why.of[index_of("NNN")].binding, PLAN_BINDS_UPDATE);
    near(why.of[index_of("NNN")].behind_s, 16e6 / 1e9 * 7 / 8);
    near(why.of[index_of("NNN")].behind_without_s[PLAN_UPDATE], 0);
    assert_int_equal(why.of[s.best].binding, PLAN_BINDS_NOTHING);
    drop_topo(&t);
}

/* What does not fit, by how much; and the second, the best of the rest. */
static void test_memory_and_second(void **state)
{
    struct model m = bare(65.286e9);
    struct plan_why why;
    struct topo t;

    (void)state;
    make_topo(&t, "8x8", 200e9, 25e9);
    t.memory_bytes = INT64_C(80000000000);
    struct plan_search s = search_of(&t, &m, 4);
    plan_why(&s, &why);
    assert_int_equal(s.best, index_of("IIG"));
    assert_int_equal(why.second, index_of("IGG"));
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        const struct plan_price *p = &s.list[i];
        assert_int_equal(why.of[i].binding == PLAN_BINDS_MEMORY, !p->feasible);
        near(why.of[i].over_bytes, p->feasible ? 0 : p->memory.total - 80e9);
    }
    s.fixed = 1;
    s.strategy = plan_strategy_at(index_of("GGG"));
    struct err err;
    assert_int_equal(plan_search(&s, &err), 0);
    plan_why(&s, &why);
    assert_int_equal(why.second, index_of("IIG"));
    assert_int_equal(why.of[index_of("IIG")].binding, PLAN_BINDS_CHOICE);
    s.at.memory_bytes = 1e9;
    s.fixed = 0;
    assert_int_equal(plan_search(&s, &err), 0);
    plan_why(&s, &why);
    assert_int_equal(why.second, -1);
    drop_topo(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_link),
        cmocka_unit_test(test_what_binds),
        cmocka_unit_test(test_memory_and_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
