/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes and memory of ragged groups against a count over the ranges of the layout: all 27
 * strategies, three algorithms, element by element.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan_fixture.h"

/*
 * The count over ranges: every element walks its way, one hop at a time, over the ranks that
 * hold it.  Knows the tables of paro.md section 3 by letters, not the library's moves.
 */
struct walk {
    struct layout layout;
    int elems, bytes, ring;
    int holder[32][128], owner[128],
        even_owner[128]; /* I holder by group, G rank, even group */
    double out[32], in[32], slow[32], fast[32];
};

static void hop(struct walk *w, int src, int dst, int times)
{
    int from = w->layout.groups.group_of[src], to = w->layout.groups.group_of[dst];

    if (from == to) {
        w->fast[src] += times * w->bytes;
        return;
    }
    w->out[from] += times * w->bytes;
    w->in[to] += times * w->bytes;
    w->slow[src] += times * w->bytes;
}

static void walk_init(struct walk *w, const struct groups *groups, int elems, int bytes)
{
    struct range range[64];

    *w = (struct walk){.elems = elems, .bytes = bytes};
    layout_init(&w->layout, groups);
    assert_true(layout_ranges_max(&w->layout) <= 64 && elems <= 128 && groups->ranks <= 32);
    for (int r = 0; r < groups->ranks; r++) {
        int n = layout_ranges(&w->layout, LETTER_I, r, elems, range);
        for (int i = 0; i < n; i++)
            for (int64_t x = range[i].lo; x < range[i].hi; x++)
                w->holder[groups->group_of[r]][x] = r;
        n = layout_ranges(&w->layout, LETTER_G, r, elems, range);
        for (int i = 0; i < n; i++)
            for (int64_t x = range[i].lo; x < range[i].hi; x++)
                w->owner[x] = r;
    }
    for (int e = 0; e < w->layout.segments; e++)
        for (int k = 0; k < groups->count; k++)
            for (int64_t x = layout_cut(&w->layout, elems, e, k, 1);
                 x < layout_cut(&w->layout, elems, e, k + 1, 1); x++)
                w->even_owner[x] = k;
}

/* One element around the groups: from its owner onwards, or, reducing, the same way back. */
static void walk_rails(struct walk *w, int x, int owner, int reduce, int times)
{
    int g = w->layout.groups.count;

    for (int i = 0; i < g - 1; i++) {
        int src = w->holder[(owner + i) % g][x], dst = w->holder[(owner + i + 1) % g][x];
        hop(w, reduce ? dst : src, reduce ? src : dst, times);
    }
}

static void walk_inside(struct walk *w, int x, int reduce, int times)
{
    const struct groups *groups = &w->layout.groups;

    for (int r = 0; r < groups->ranks; r++) {
        int holder = w->holder[groups->group_of[r]][x];
        if (holder != r)
            hop(w, reduce ? r : holder, reduce ? holder : r, times);
    }
}

static void walk_ring(struct walk *w, int x, int reduce, int times)
{
    const struct groups *groups = &w->layout.groups;
    int n = groups->ranks, at = 0;

    while (groups->rank[at] != w->owner[x])
        at++;
    for (int i = 0; i < n - 1; i++) {
        int src = groups->rank[(at + i) % n], dst = groups->rank[(at + i + 1) % n];
        hop(w, reduce ? dst : src, reduce ? src : dst, times);
    }
}

/* r reduce inside, R across, G gather across, g inside. */
static void walk_moves(struct walk *w, int elems, const char *moves, int times)
{
    int flat = w->ring && (strcmp(moves, "Gg") == 0 || strcmp(moves, "rR") == 0 ||
                           strcmp(moves, "rRGg") == 0);
    int even = strstr(moves, "RG") != NULL;

    assert_int_equal(elems, w->elems);
    for (int x = 0; x < w->elems; x++)
        for (const char *m = moves; *m; m++) {
            int reduce = *m == 'r' || *m == 'R', across = *m == 'R' || *m == 'G';
            int group = w->layout.groups.group_of[w->owner[x]];
            if (flat && across)
                walk_ring(w, x, reduce, times);
            else if (!flat && across)
                walk_rails(w, x, even ? w->even_owner[x] : group, reduce, times);
            else if (!flat)
                walk_inside(w, x, reduce, times);
        }
}

static double top(const double *v, int n)
{
    double max = 0;

    for (int i = 0; i < n; i++)
        max = v[i] > max ? v[i] : max;
    return max;
}

static void walk_strategy(struct walk *w, struct plan_strategy s, int accum)
{
    static const char *const gather[] = {"", "g", "Gg"};
    static const char *const reduce[] = {"", "r", "rR"};
    static const char *const syncg[3][3] = {
        {"rRGg", "rRG", "rR"}, {"RGg", "RG", "R"}, {"Gg", "G", ""}};
    static const char *const syncp[3][3] = {{"", "", ""}, {"g", "", ""}, {"Gg", "G", ""}};

    memset(w->out, 0, sizeof w->out);
    memset(w->in, 0, sizeof w->in);
    memset(w->slow, 0, sizeof w->slow);
    memset(w->fast, 0, sizeof w->fast);
    walk_moves(w, w->elems, gather[s.params], 2 * accum);
    walk_moves(w, w->elems, reduce[s.grads], accum);
    walk_moves(w, w->elems, syncg[s.grads][s.optimizer], 1);
    walk_moves(w, w->elems, syncp[s.optimizer][s.params], 1);
}

static void compare_walk(const char *shape, int elems, int accum, enum schedule_algo algo)
{
    struct plan_price p[PLAN_STRATEGIES];
    struct model m = bare(elems);
    struct topo t;
    struct walk w;

    make_topo(&t, shape, 1e9, 1e8);
    struct plan_case c = table_case(&t, &m, accum, 1);
    c.algo = algo;
    plan_price_all(&c, p);
    walk_init(&w, &t.groups, elems, 2);
    w.ring = algo == SCHEDULE_RING;
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        walk_strategy(&w, p[i].strategy, accum);
        double out = top(w.out, 32), in = top(w.in, 32);
        assert_true(p[i].slow_bytes == (out > in ? out : in));
        assert_true(p[i].slow_rank_bytes == top(w.slow, 32));
        assert_true(p[i].fast_bytes == top(w.fast, 32));
    }
    layout_release(&w.layout);
    drop_topo(&t);
}

static void test_ragged_by_walk(void **state)
{
    static const char *const shapes[] = {
        "[1]",     "[3]",     "[1,1]", "[2,1]",     "[3,2]",     "2x2",      "[1,3,2]",
        "[4,4,3]", "[8,8,7]", "3x3",   "[7,6,5,3]", "[1,1,1,1]", "[5,1,1,2]"};
    static const int sizes[] = {1, 7, 60, 97};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            for (int accum = 1; accum <= 3; accum += 2) {
                compare_walk(shapes[i], sizes[j], accum, SCHEDULE_RING);
                compare_walk(shapes[i], sizes[j], accum, SCHEDULE_TWO_LEVEL);
                compare_walk(shapes[i], sizes[j], accum, SCHEDULE_HO_RING);
            }
}

/* The largest rank of ragged groups, by the ranges it holds. */
static void test_ragged_memory(void **state)
{
    struct plan_price p[PLAN_STRATEGIES];
    struct model m = bare(1009);
    struct topo t;
    struct layout l;

    (void)state;
    make_topo(&t, "[4,4,3]", 1e9, 1e8);
    struct plan_case c = table_case(&t, &m, 1, 1);
    c.grad_type = DTYPE_F32;
    plan_price_all(&c, p);
    layout_init(&l, &t.groups);
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        struct plan_strategy s = p[i].strategy;
        double most = 0;
        for (int r = 0; r < t.groups.ranks; r++) {
            double bytes = 2 * (double)layout_elems(&l, s.params, r, 1009) +
                           4 * (double)layout_elems(&l, s.grads, r, 1009) +
                           12 * (double)layout_elems(&l, s.optimizer, r, 1009);
            most = bytes > most ? bytes : most;
        }
        assert_true(p[i].memory.total == most);
    }
    layout_release(&l);
    drop_topo(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ragged_by_walk),
        cmocka_unit_test(test_ragged_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
