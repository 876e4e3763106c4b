/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests membership: every written form, ragged groups, ranks placed by slot and by node. */
#include "unit.h"

#include "base/groups.h"

/* Checks what must hold of any groups, however they came about. */
static void sound(const struct groups *g)
{
    int sum = 0;

    for (int k = 0; k < g->count; k++) {
        assert_true(g->members[k] > 0);
        assert_int_equal(g->first[k], sum);
        sum += g->members[k];
        for (int j = 0; j < g->members[k]; j++) {
            int r = groups_rank(g, k, j);
            assert_in_range(r, 0, g->ranks - 1);
            assert_int_equal(g->group_of[r], k);
            assert_int_equal(g->local_of[r], j);
            assert_true(j == 0 || r > groups_rank(g, k, j - 1));
        }
    }
    assert_int_equal(g->first[g->count], sum);
    assert_int_equal(g->ranks, sum);
}

TEST(parse_reads_every_form)
{
    static const struct {
        const char *text, *print;
        int count, ranks, largest;
    } cases[] = {
        {"4x8", "4x8", 4, 32, 8},
        {"8", "1x8", 1, 8, 8},
        {"1", "1x1", 1, 1, 1},
        {"1x1", "1x1", 1, 1, 1},
        {"[3,2]", "[3,2]", 2, 5, 3},
        {"[5]", "1x5", 1, 5, 5},
        {"[4,4]", "2x4", 2, 8, 4},
        {"[8,8,7]", "[8,8,7]", 3, 23, 8},
        {"[4+4,7]", "[8,7]", 2, 15, 8},
        {"1024x1024", "1024x1024", 1024, 1 << 20, 1024},
        {"1048576", "1x1048576", 1, 1 << 20, 1 << 20},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct groups g;
        char text[64];
        assert_ok(groups_parse(&g, cases[i].text, &err));
        assert_int_equal(g.count, cases[i].count);
        assert_int_equal(g.ranks, cases[i].ranks);
        assert_int_equal(groups_largest(&g), cases[i].largest);
        if (g.ranks < 1000)
            sound(&g);
        groups_print(&g, text, sizeof text);
        assert_string_equal(text, cases[i].print);
        groups_release(&g);
    }
}

TEST(parse_refuses_the_rest)
{
    static const char *const bad[] =
        LIST("", "x", "4x", "x8", "0", "0x4", "4x0", "-1", "+4", "4x-8", " 4x8", "4x8 ", "4 x8",
             "4X8", "4x8x2", "4.0", "1e3", "04x8", "[", "[]", "[3", "[3,]", "[,3]", "[3,2]x",
             "[3 2]", "[3,,2]", "[+3,2]", "[3+,2]", "[3+0]", "3+2", "[0]", "[3,-2]", "[3,2]]",
             "[[3,2]]", "1048577", "1025x1024", "[1048576,1]", "99999999999999999999",
             "1048576x1048576");

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct groups g = {.ranks = 77};
        assert_error(groups_parse(&g, bad[i], &err), ERR_INPUT);
        assert_non_null(strstr(err.text, bad[i]));
        assert_int_equal(g.ranks, 77); /* written only on success */
    }
}

TEST(ranks_by_slot_and_by_node)
{
    const int by_slot[5] = {0, 0, 0, 1, 1}, by_node[5] = {0, 1, 0, 1, 0};
    struct groups a, b, c;

    groups_init(&a, 2, (const int[]){3, 2});
    assert_ok(groups_init_of(&b, 5, by_slot, &err));
    assert_ok(groups_init_of(&c, 5, by_node, &err));
    sound(&a);
    sound(&b);
    sound(&c);
    assert_true(groups_equal(&a, &b));
    assert_false(groups_equal(&a, &c)); /* as many members, other ranks */
    assert_int_equal(groups_rank(&c, 0, 1), 2);
    assert_int_equal(groups_rank(&c, 1, 1), 3);
    struct groups d;
    groups_copy(&d, &c);
    sound(&d);
    assert_true(groups_equal(&c, &d));
    groups_release(&a);
    groups_release(&b);
    groups_release(&c);
    assert_null(c.rank);
    assert_int_equal(groups_rank(&d, 0, 2), 4); /* a copy stands alone */
    groups_release(&d);
}

/* [4+2+3,2]: round the cells from a rank on; who has its place in proportion, rounded down. */
TEST(cells_follow_each_other)
{
    static const struct {
        int src, steps, ranks, first, carrier;
    } cases[] = {{0, 0, 4, 0, 0}, {0, 1, 2, 4, 4}, {0, 2, 3, 6, 6},  {3, 0, 4, 0, 3},
                 {3, 1, 2, 4, 5}, {3, 2, 3, 6, 8}, {5, 1, 3, 6, 7},  {5, 2, 4, 0, 2},
                 {7, 1, 4, 0, 1}, {7, 2, 2, 4, 4}, {10, 0, 2, 9, 10}};
    const int by_node[5] = {0, 0, 0, 1, 0}, cell_of[5] = {1, 0, 1, 0, 0};
    struct groups g, copy;

    assert_ok(groups_parse(&g, "[4+2+3,2]", &err));
    assert_int_equal(groups_cells(&g, 0), 3);
    assert_int_equal(groups_cells(&g, 1), 1);
    assert_int_equal(groups_most_cells(&g), 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct groups_cell c = groups_cell_after(&g, cases[i].src, cases[i].steps);
        assert_int_equal(c.ranks, cases[i].ranks);
        assert_int_equal(c.rank[0], cases[i].first);
        assert_int_equal(c.rank[c.carrier], cases[i].carrier);
    }
    groups_release(&g);
    assert_ok(groups_init_of(&g, 5, by_node, &err));
    groups_set_cells(&g, cell_of);
    sound(&g);
    groups_copy(&copy, &g);
    groups_release(&g);
    struct groups_cell own = groups_cell_after(&copy, 4, 0),
                       next = groups_cell_after(&copy, 4, 1);
    assert_int_equal(own.rank[0], 1);
    assert_int_equal(own.rank[own.carrier], 4);
    assert_int_equal(next.rank[0], 0);
    assert_int_equal(next.rank[next.carrier], 2);
    groups_release(&copy);
}

TEST(init_of_refuses)
{
    struct groups g = {.ranks = 77};

    assert_int_equal(groups_init_of(&g, 3, (const int[]){0, 2, 2}, &err), -1);
    assert_string_equal(err.text, "group 1 has no rank, expected at least one");
    assert_says(groups_init_of(&g, 3, (const int[]){0, -1, 0}, &err), "rank 1 is in group -1");
    assert_says(groups_init_of(&g, 3, (const int[]){0, 0, 3}, &err),
                "rank 2 is in group 3, expected 0 to 2");
    assert_int_equal(groups_init_of(&g, 0, NULL, &err), -1);
    assert_int_equal(g.ranks, 77);
}

TEST(print_stays_in_its_space)
{
    struct groups g;
    char text[16];

    groups_init(&g, 4, (const int[]){4, 4, 3, 1000});
    for (int space = 1; space < 15; space++) {
        memset(text, '#', sizeof text);
        groups_print(&g, text, space);
        assert_true(memchr(text, 0, (size_t)space) != NULL);
        assert_int_equal(text[space], '#');
    }
    groups_print(&g, text, sizeof text);
    assert_string_equal(text, "[4,4,3,1000]");
    groups_release(&g);
}
