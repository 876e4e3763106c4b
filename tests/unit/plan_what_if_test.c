/* SPDX-License-Identifier: BSD-3-Clause */
/* What turns the choice, against fabrics that are made so, memories told by the list, and every
 * number of micro-steps there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "plan/what_if.h"
#include "plan_fixture.h"

static struct plan_search search_of(const struct plan_case *c)
{
    struct plan_search s = {.at = *c};
    struct err err;

    assert_int_equal(plan_search(&s, &err), 0);
    return s;
}

static int winner_of(const struct plan_case *c)
{
    return search_of(c).best;
}

/* The same fabric with other ports. */
static int winner_at_port(const struct plan_case *c, const char *shape, double port)
{
    struct plan_case now = *c;
    struct topo t;

    make_topo(&t, shape, c->topo->level[0].member_Bps, port);
    t.level[0].latency_s = c->topo->level[0].latency_s;
    t.level[1].latency_s = c->topo->level[1].latency_s;
    now.topo = &t;
    int best = winner_of(&now);
    drop_topo(&t);
    return best;
}

/*
 * Up to the change the winner is the old one, at the change and a little beyond it the new one:
 * 1e-8 covers what bisection leaves, 1e-9.
 */
static void check_slow(const struct plan_case *c, const char *shape, double port, int best,
                       const struct plan_change *change, int more)
{
    double out = more ? 1 + 1e-8 : 1 - 1e-8,
           end = change->found ? change->at / out : change->bound;

    for (int i = 0; i <= 200; i++)
        assert_int_equal(winner_at_port(c, shape, port * pow(end / port, i / 200.0)), best);
    if (change->found)
        assert_int_equal(winner_at_port(c, shape, change->at * out), change->winner);
}

static void check_accum(const struct plan_case *c, int best, const struct plan_change w[2])
{
    struct plan_case now = *c;
    int lo = (int)(w[0].found ? w[0].at + 1 : w[0].bound);
    int hi = (int)(w[1].found ? w[1].at - 1 : w[1].bound);

    for (now.accum = lo; now.accum <= hi; now.accum++)
        assert_int_equal(winner_of(&now), best);
    now.accum = (int)w[0].at;
    if (w[0].found)
        assert_int_equal(winner_of(&now), w[0].winner);
    now.accum = (int)w[1].at;
    if (w[1].found)
        assert_int_equal(winner_of(&now), w[1].winner);
}

/*
 * Less memory changes the winner where it no longer fits itself; more, where the first fits of
 * those that were better.  A rank has whole bytes.
 */
static void check_memory(const struct plan_search *s, const struct plan_change w[2])
{
    const struct plan_price *best = &s->list[s->best];
    double next = INFINITY;

    assert_true(w[0].found);
    assert_true(w[0].at == ceil(best->memory.total) - 1);
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        if (!s->list[i].feasible && s->list[i].step_s < best->step_s * (1 - 1e-12))
            next = fmin(next, s->list[i].memory.total);
    assert_int_equal(w[1].found, isfinite(next));
    if (w[1].found)
        assert_true(w[1].at == ceil(next));
}

static void test_changes(void **state)
{
    static const char *const shapes[] = {"2x2", "4x8", "8x8", "[4,4,3]"};
    static const double ports[] = {1e9, 25e9, 400e9};
    static const double memories[] = {20e9, 40e9, 90e9};
    struct model m = bare(7e9);
    int changes = 0;

    (void)state;
    for (int at = 0; at < 4 * 3 * 3 * 2; at++) {
        const char *shape = shapes[at % 4];
        double port = ports[at / 4 % 3];
        struct plan_changes w;
        struct topo t;
        make_topo(&t, shape, 200e9, port);
        t.level[0].latency_s = 3e-6;
        t.level[1].latency_s = 12e-6;
        struct plan_case c = table_case(&t, &m, at / 36 ? 4 : 1, 1);
        c.memory_bytes = memories[at / 12 % 3];
        struct plan_search s = search_of(&c);
        plan_what_if(&s, &w);
        for (int more = 0; more < 2; more++) {
            check_slow(&c, shape, port, s.best, &w.of[PLAN_DIAL_SLOW][more], more);
            changes += w.of[PLAN_DIAL_SLOW][more].found + w.of[PLAN_DIAL_ACCUM][more].found;
        }
        if (at % 9 == 0)
            check_accum(&c, s.best, w.of[PLAN_DIAL_ACCUM]);
        if (s.best >= 0)
            check_memory(&s, w.of[PLAN_DIAL_MEMORY]);
        drop_topo(&t);
    }
    assert_true(changes > 20); /* or nothing was tested */
}

/* Nothing fits until the least one does; no limit is none that could grow. */
static void test_edges(void **state)
{
    struct model m = bare(7e9);
    struct plan_changes w;
    struct topo t;

    (void)state;
    make_topo(&t, "4x8", 200e9, 25e9);
    struct plan_case c = table_case(&t, &m, 2, 1);
    c.memory_bytes = 1e9;
    struct plan_search s = search_of(&c);
    assert_int_equal(s.best, -1);
    plan_what_if(&s, &w);
    assert_true(w.of[PLAN_DIAL_MEMORY][1].found);
    assert_int_equal(w.of[PLAN_DIAL_MEMORY][1].winner, s.closest);
    assert_true(w.of[PLAN_DIAL_MEMORY][1].at == ceil(s.list[s.closest].memory.total));
    assert_false(w.of[PLAN_DIAL_SLOW][0].found);
    c.memory_bytes = 0;
    s = search_of(&c);
    plan_what_if(&s, &w);
    assert_false(w.of[PLAN_DIAL_MEMORY][1].searched);
    assert_true(w.of[PLAN_DIAL_MEMORY][0].found);
    assert_true(isinf(w.now[PLAN_DIAL_MEMORY]));
    assert_true(w.now[PLAN_DIAL_SLOW] == 25e9);
    s.auto_accum = 1;
    s.global_batch = t.groups.ranks;
    plan_what_if(&s, &w);
    assert_false(w.of[PLAN_DIAL_ACCUM][0].searched);
    drop_topo(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_edges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
