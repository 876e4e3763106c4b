/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the placement: a partition for every length, shards nested, equal groups as drawn in
 * paro-method(7), PLACEMENT; the moves against the tables of paro-method(7), TRAFFIC.
 */
#include "unit.h"

#include "schedule_fixture.h"

/* A unit's ranges are those of its two parts: every element of either has one owner in each
 * group (I) or over all (G), and as many of a part lie with a rank as if the part were a vector
 * of its own. */
static void check_unit(const struct layout *l, enum letter letter, int64_t trained,
                       int64_t elems)
{
    struct range *r = mem_new(2 * (size_t)layout_ranges_max(l), sizeof *r);
    struct range *part = r + layout_ranges_max(l);
    int groups = letter == LETTER_G ? 1 : l->groups.count;
    int *owners = mem_new((size_t)elems * (size_t)groups + 1, sizeof *owners);

    for (int rank = 0; rank < l->groups.ranks; rank++) {
        int n = layout_unit_ranges(l, letter, rank, trained, elems, r);
        int k = letter == LETTER_G ? 0 : l->groups.group_of[rank];
        int64_t held[2] = {0, 0};
        assert_true(n <= layout_ranges_max(l));
        for (int i = 0; i < n; i++) {
            assert_true(r[i].lo < r[i].hi && r[i].lo >= 0 && r[i].hi <= elems);
            assert_true(i == 0 || r[i - 1].hi < r[i].lo);
            for (int64_t x = r[i].lo; x < r[i].hi; x++) {
                held[x >= trained]++;
                owners[x * groups + k]++;
            }
        }
        assert_int_equal(held[0], layout_elems(l, letter, rank, trained));
        assert_int_equal(held[1], layout_elems(l, letter, rank, elems - trained));
        assert_int_equal(held[0] + held[1], layout_elems(l, letter, rank, trained) +
                                                layout_elems(l, letter, rank, elems - trained));
        int front = layout_ranges(l, letter, rank, trained, part);
        for (int i = 0; i < front; i++) /* the trained part begins the packed shard */
            assert_int_equal(layout_offset(r, n, part[i].lo),
                             layout_offset(part, front, part[i].lo));
    }
    for (int64_t i = 0; i < elems * groups; i++)
        assert_int_equal(owners[i], letter == LETTER_N ? l->groups.members[i % groups] : 1);
    mem_free(owners);
    mem_free(r);
}

static int inside(const struct range *r, int n, int64_t x)
{
    for (int i = 0; i < n; i++)
        if (x >= r[i].lo && x < r[i].hi)
            return 1;
    return 0;
}

static void check_nested(const struct layout *l, int64_t elems)
{
    struct range *in = mem_new((size_t)layout_ranges_max(l), sizeof *in);
    struct range *gl = mem_new((size_t)layout_ranges_max(l), sizeof *gl);

    for (int rank = 0; rank < l->groups.ranks; rank++) {
        int a = layout_ranges(l, LETTER_I, rank, elems, in);
        int b = layout_ranges(l, LETTER_G, rank, elems, gl);
        int64_t sum = 0;
        for (int i = 0; i < b; i++) {
            assert_true(inside(in, a, gl[i].lo) && inside(in, a, gl[i].hi - 1));
            sum += gl[i].hi - gl[i].lo;
        }
        /* 1/n of the unit but for one rounding per segment held */
        int64_t fair = elems / l->groups.ranks, slack = (l->segments + 1) * l->grain;
        assert_true(sum >= fair - slack && sum <= fair + slack);
        assert_int_equal(sum, layout_elems(l, LETTER_G, rank, elems));
    }
    mem_free(in);
    mem_free(gl);
}

TEST(test_partition)
{
    static const char *const shapes[] = {"1x1", "2x2",     "4x2",       "3x5",   "[3,2]",
                                         "8",   "[8,8,7]", "[7,6,5,3]", "[1,4]", "[4,4,3]"};
    static const int64_t lengths[] = {0, 1, 2, 7, 31, 64, 997, 4096};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct layout l;
        shape(&l, shapes[i]);
        assert_true(l.segments <= l.groups.ranks - l.groups.count + 1);
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
            check_unit(&l, LETTER_I, lengths[j], lengths[j]);
            check_unit(&l, LETTER_G, lengths[j], lengths[j]);
            check_nested(&l, lengths[j]);
        }
        layout_release(&l);
    }
}

/* The same with cuts on a grid, where every range begins; and ends, unless the vector does. */
TEST(cuts_on_a_grid)
{
    static const char *const shapes[] = {"1x1", "2x2", "[3,2]", "[7,6,5,3]", "[1,4]"};
    static const int64_t lengths[] = {0, 1, 15, 16, 17, 997, 4096};
    struct layout l;
    struct range r[64];

    for (size_t i = 0; i < 5 * 7; i++) {
        int64_t n = lengths[i / 5];
        shape(&l, shapes[i % 5]);
        l.grain = 16;
        check_unit(&l, LETTER_I, n / 2, n);
        check_unit(&l, LETTER_G, n / 2, n);
        check_nested(&l, n);
        for (int k = 0; k < 3 * l.groups.ranks; k++)
            for (int ranges = layout_ranges(&l, (enum letter)(k % 3), k / 3, n, r); ranges--;) {
                assert_int_equal(r[ranges].lo % 16, 0);
                assert_true(r[ranges].hi % 16 == 0 || r[ranges].hi == n);
            }
        layout_release(&l);
    }
}

/* Equal groups: I shard of (k,j) = blocks j*g .. j*g+g-1, G shard = block j*g + k. */
TEST(test_nested_blocks)
{
    struct layout l;
    struct range r[8];

    shape(&l, "4x2");
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 2; j++) {
            int rank = groups_rank(&l.groups, k, j);
            assert_int_equal(layout_ranges(&l, LETTER_G, rank, 80, r), 1);
            assert_int_equal(r[0].lo, 10 * (j * 4 + k));
            assert_int_equal(r[0].hi, 10 * (j * 4 + k + 1));
            assert_int_equal(layout_ranges(&l, LETTER_I, rank, 80, r), 1);
            assert_int_equal(r[0].lo, 40 * j);
            assert_int_equal(r[0].hi, 40 * (j + 1));
        }
    layout_release(&l);
}

TEST(test_unit_parts)
{
    static const char *const shapes[] = {"1x1", "2x2", "[3,2]", "[7,6,5,3]", "[1,4]"};
    static const int64_t trained[] = {0, 1, 40, 96, 97};
    struct layout l;
    struct range r[64];

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        shape(&l, shapes[i]);
        for (size_t t = 0; t < sizeof trained / sizeof *trained; t++)
            for (int letter = LETTER_N; letter <= LETTER_G; letter++)
                check_unit(&l, (enum letter)letter, trained[t], 97);
        layout_release(&l);
    }
    shape(&l, "2x2"); /* the drawing of layout.h */
    assert_int_equal(layout_unit_ranges(&l, LETTER_G, 2, 8, 12, r), 2);
    assert_true(r[0].lo == 2 && r[0].hi == 4 && r[1].lo == 9 && r[1].hi == 10);
    layout_release(&l);
}

TEST(test_huge)
{
    struct layout l;
    int64_t elems = (INT64_C(1) << 61) + 12345;

    shape(&l, "[8,8,7]");
    assert_int_equal(layout_cut(&l, elems, 0, 0, 0), 0);
    assert_true(layout_cut(&l, elems, l.segments - 1, 3, 0) == elems);
    assert_true(layout_cut(&l, elems, 3, 3, 1) == layout_cut(&l, elems, 4, 0, 1));
    layout_release(&l);
}

/* In units of a/B' (inside) and b/B (across): the t_syncg table, rows g, columns os. */
TEST(test_phases)
{
    static const int inside_cost[3][3] = {{4, 2, 2}, {2, 0, 0}, {2, 0, 0}};
    static const int across_cost[3][3] = {{4, 4, 2}, {4, 4, 2}, {2, 2, 0}};
    static const int copy_in[3][3] = {{0, 0, 0}, {2, 0, 0}, {2, 0, 0}};
    static const int copy_across[3][3] = {{0, 0, 0}, {0, 0, 0}, {2, 2, 0}};

    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            unsigned s = layout_phases_sum((enum letter)a, (enum letter)b);
            unsigned c = layout_phases_copy((enum letter)a, (enum letter)b);
            assert_int_equal(2 * ((s & 1) + (s >> 3 & 1)), inside_cost[a][b]);
            assert_int_equal(2 * ((s >> 1 & 1) + (s >> 2 & 1)), across_cost[a][b]);
            assert_int_equal(c, (copy_in[a][b] ? SCHEDULE_GATHER_INSIDE : 0) |
                                    (copy_across[a][b] ? SCHEDULE_GATHER_ACROSS : 0));
        }
}

/* One group has nothing across, groups of one rank nothing inside; the rest is as it was. */
TEST(phases_between_nobody_go)
{
    static const struct {
        const char *shape;
        int inside, across;
    } of[] = {{"1x1", 0, 0}, {"1x3", 1, 0}, {"3x1", 0, 1}, {"2x2", 1, 1}, {"[1,2]", 1, 1}};

    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (int bits = 0; bits < 16; bits++) {
            unsigned left = (of[i].inside ? 1 | 8 : 0) | (of[i].across ? 2 | 4 : 0);
            struct layout l;

            shape(&l, of[i].shape);
            assert_int_equal(layout_phases_trim(&l, (unsigned)bits), (unsigned)bits & left);
            layout_release(&l);
        }
}
