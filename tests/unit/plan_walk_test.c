/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests bytes and memory of ragged groups against a count over the ranges of the layout: all 27
 * strategies, three algorithms, element by element.
 */
#include "unit.h"

#include "plan_fixture.h"

/*
 * The count over ranges: every element walks its way, one hop at a time, over the ranks that
 * hold it.  Knows the tables of paro-method(7), TRAFFIC, by letters, not the library's moves.
 */
struct walk {
    struct layout layout;
    int elems, bytes, ring;
    double across; /* bytes of an element between groups */
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
    w->out[from] += times * w->across;
    w->in[to] += times * w->across;
    w->slow[src] += times * w->across;
}

/* Lays out which rank holds which part of a vector of so many elements. */
static void walk_lay_out(struct walk *w, int elems)
{
    const struct groups *groups = &w->layout.groups;
    struct range range[64];

    w->elems = elems;
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

static void walk_init(struct walk *w, const struct groups *groups, int bytes)
{
    *w = (struct walk){.bytes = bytes};
    layout_init(&w->layout, groups);
}

/* One element around the groups: from its owner onwards, or, reducing, from the next to it. */
static void walk_rails(struct walk *w, int x, int owner, int reduce, int times)
{
    int g = w->layout.groups.count;

    for (int i = reduce; i < g - 1 + reduce; i++)
        hop(w, w->holder[(owner + i) % g][x], w->holder[(owner + i + 1) % g][x], times);
}

/* The rank of a cell with the same place in proportion as this one has in its own. */
static int carrier(const struct groups *groups, int rank, int cell)
{
    int own[32] = {0}, there[32], m = 0, n = 0, place = 0;

    for (int r = 0; r < groups->ranks; r++) {
        if (groups->group_of[r] != groups->group_of[rank])
            continue;
        if (r == rank)
            place = m;
        if (groups->cell_of[r] == groups->cell_of[rank])
            own[m++] = r;
        if (groups->cell_of[r] == cell)
            there[n++] = r;
    }
    assert_int_equal(own[place], rank);
    return there[place * n / m];
}

/* From the holder round the cells, and in each to the others; reducing, the other way. */
static void walk_inside(struct walk *w, int x, int reduce, int times)
{
    const struct groups *groups = &w->layout.groups;

    for (int r = 0; r < groups->ranks; r++) {
        int holder = w->holder[groups->group_of[r]][x], cells = 0;
        for (int q = 0; q < groups->ranks; q++)
            if (groups->group_of[q] == groups->group_of[r] && groups->cell_of[q] >= cells)
                cells = groups->cell_of[q] + 1;
        int from = carrier(groups, holder, groups->cell_of[r]);
        if (from == r && r != holder)
            from = carrier(groups, holder, (groups->cell_of[r] + cells - 1) % cells);
        if (from != r)
            hop(w, reduce ? r : from, reduce ? from : r, times);
    }
}

static void walk_ring(struct walk *w, int x, int reduce, int times)
{
    const struct groups *groups = &w->layout.groups;
    int n = groups->ranks, at = 0;

    while (groups->rank[at] != w->owner[x])
        at++;
    for (int i = reduce; i < n - 1 + reduce; i++)
        hop(w, groups->rank[(at + i) % n], groups->rank[(at + i + 1) % n], times);
}

/* r reduce inside, R across, G gather across, g inside. */
static void walk_moves(struct walk *w, const char *moves, int times)
{
    int flat = w->ring && (strcmp(moves, "Gg") == 0 || strcmp(moves, "rR") == 0 ||
                           strcmp(moves, "rRGg") == 0);
    int even = strstr(moves, "RG") != NULL;

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

struct walked { /* a unit; gathers: how often a micro-step gathers it */
    int elems, trained, gathers;
};

/* 129 bytes for 128 elements: sums of these are exact too. */
static double walk_coded(enum exec_code code, int bytes)
{
    return code == EXEC_CODE_INT8 ? 129.0 / 128 : code == EXEC_CODE_BF16 ? 2 : bytes;
}

static void walk_strategy(struct walk *w, struct plan_strategy s, struct walked u,
                          const struct plan_case *c)
{
    static const char *const gather[] = {"", "g", "Gg"};
    static const char *const reduce[] = {"", "r", "rR"};
    static const char *const syncg[3][3] = {
        {"rRGg", "rRG", "rR"}, {"RGg", "RG", "R"}, {"Gg", "G", ""}};
    static const char *const syncp[3][3] = {{"", "", ""}, {"g", "", ""}, {"Gg", "G", ""}};

    w->across = walk_coded(c->slow_params, w->bytes);
    walk_lay_out(w, u.elems - u.trained);
    walk_moves(w, gather[s.params], u.gathers * c->accum);
    walk_lay_out(w, u.trained);
    walk_moves(w, gather[s.params], u.gathers * c->accum);
    walk_moves(w, syncp[s.optimizer][s.params], 1);
    w->across = walk_coded(c->slow_grads, w->bytes);
    walk_moves(w, reduce[s.grads], c->accum);
    walk_moves(w, syncg[s.grads][s.optimizer], 1);
}

/* By each visit of the forward; by the backward, where it comes so far and it is not kept. */
static struct walked walked_of(const struct model *m, int unit, int keep)
{
    struct walked w = {(int)m->params, (int)m->params, keep > 0 ? 1 : 2};

    if (m->units == 0)
        return w;
    w = (struct walked){(int)m->unit[unit].elems, (int)m->unit[unit].trained, 0};
    for (int v = 0; v < m->visits; v++)
        if (model_unit_of_visit(m, v) == unit)
            w.gathers += v >= m->visits - keep || v < m->first_trained ? 1 : 2;
    return w;
}

static void compare_walk(const char *shape, const struct model *m, const struct plan_case *as)
{
    struct plan_price p[PLAN_STRATEGIES];
    struct topo t;
    struct walk *w;
    int units = m->units > 0 ? m->units : 1;

    make_topo(&t, shape, 1e9, 1e8);
    struct plan_case c = table_case(&t, m, as->accum, 1);
    c.trainable = m->trained;
    c.algo = as->algo;
    c.keep = as->keep;
    c.slow_params = as->slow_params;
    c.slow_grads = as->slow_grads;
    plan_price_all(&c, p);
    w = mem_new((size_t)units, sizeof *w);
    for (int u = 0; u < units; u++)
        walk_init(&w[u], &t.groups, 2);
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        double sum[4][32] = {{0}};
        for (int u = 0; u < units; u++) {
            double *each[4] = {w[u].out, w[u].in, w[u].slow, w[u].fast};
            for (int k = 0; k < 4; k++)
                memset(each[k], 0, sizeof w->out);
            w[u].ring = c.algo == SCHEDULE_RING;
            walk_strategy(&w[u], p[i].strategy, walked_of(m, u, c.keep), &c);
            for (int k = 0; k < 4; k++)
                for (int r = 0; r < 32; r++)
                    sum[k][r] += each[k][r];
        }
        double out = top(sum[0], 32), in = top(sum[1], 32);
        assert_true(p[i].slow_bytes == (out > in ? out : in));
        assert_true(p[i].slow_rank_bytes == top(sum[2], 32));
        assert_true(p[i].fast_bytes == top(sum[3], 32));
    }
    for (int u = 0; u < units; u++)
        layout_release(&w[u].layout);
    mem_free(w);
    drop_topo(&t);
}

static const enum schedule_algo algos[] = {SCHEDULE_RING, SCHEDULE_TWO_LEVEL, SCHEDULE_HO_RING};

TEST(test_ragged_by_walk)
{
    static const char *const shapes[] = {
        "[1]",     "[3]",     "[1,1]",     "[2,1]",       "[3,2]",     "2x2",       "[1,3,2]",
        "[4,4,3]", "[8,8,7]", "3x3",       "[7,6,5,3]",   "[1,1,1,1]", "[5,1,1,2]", "[2+2]",
        "[1+1]",   "[2+1,3]", "[1+1+1,2]", "[3+2,2+2+1]", "[4+4,4+4]"};
    static const int sizes[] = {1, 7, 60, 97};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            for (int at = 0; at < 6; at++) {
                struct model m = bare(sizes[j]);
                struct plan_case c = {.accum = 1 + at / 3 * 2, .algo = algos[at % 3]};
                compare_walk(shapes[i], &m, &c);
            }
}

/* Codes of parameters, of gradients, of both: between groups, and nowhere else. */
TEST(test_coded_by_walk)
{
    static const char *const shapes[] = {"[3]", "[1,1]", "[3,2]", "2x2", "[4,4,3]"};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int at = 0; at < 18; at++) {
            enum exec_code code = at < 9 ? EXEC_CODE_INT8 : EXEC_CODE_BF16;
            struct model m = bare(97);
            struct plan_case c = {.accum = 2,
                                  .algo = algos[at % 3],
                                  .slow_params = at / 3 % 3 != 1 ? code : EXEC_CODE_SAME,
                                  .slow_grads = at / 3 % 3 ? code : EXEC_CODE_SAME};
            compare_walk(shapes[i], &m, &c);
        }
}

/* Kept units are not gathered again: the last visits and no others, by their own units' sizes;
   nor those before the first that trains.  Frozen ones are gathered and nothing else.  All
   units differ; tied, the last visit is the first unit again. */
TEST(test_kept_by_walk)
{
    static const char *const shapes[] = {"[3]", "[1,1]", "[3,2]", "2x2", "[1,3,2]"};
    struct model_unit unit[2][4] = {{{.elems = 97, .trained = 97},
                                     {.elems = 60, .trained = 60},
                                     {.elems = 61, .trained = 61},
                                     {.elems = 7, .trained = 7}},
                                    {{.elems = 97},
                                     {.elems = 60, .trained = 13},
                                     {.elems = 61},
                                     {.elems = 7, .trained = 7}}};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = 0; kind < 3; kind++)
            for (int at = 0; at < 3 * 7; at++) {
                struct model m = bare(97 + 60 + 61 + 7);
                int tied = kind == 1, partial = kind == 2;
                struct plan_case c = {.accum = 2,
                                      .algo = algos[at % 3],
                                      .keep = at < 18 ? at / 3 : PLAN_KEEP_ALL};
                m.tied = tied;
                m.unit = unit[partial];
                m.units = 4;
                m.trained = partial ? 13 + 7 : m.params;
                m.first_trained = partial;
                m.visits = 4 + tied;
                compare_walk(shapes[i], &m, &c);
            }
    struct model one = bare(97);
    struct plan_case kept = {.accum = 1, .algo = SCHEDULE_HO_RING, .keep = 1};
    compare_walk("[3,2]", &one, &kept);
}

/* The largest rank of ragged groups, by the ranges it holds. */
TEST(test_ragged_memory)
{
    struct plan_price p[PLAN_STRATEGIES];
    struct model m = bare(1009);
    struct topo t;
    struct layout l;

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
