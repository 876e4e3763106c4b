/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests fabrics whose groups end further out, against rates worked out by hand. */
#include "unit.h"

#include "topo/topo_boundary.h"

#include "topo_fixture.h"

/* Sums and quotients of a few doubles: some roundings of 2^-53 each. */
static void assert_near(double a, double b)
{
    assert_float_equal(a, b, 1e-14 * b);
}

/* Groups and the members of each; of each level name, latency in us, and in MB/s port, flow and
 * member; the port of group 0; how many times as long inside takes beside what goes across. */
static const struct {
    const char *spec;
    int b;
    const char *want;
} cases[] = {
    /*
     * In a group of 4, two cells of 2, a cell's two shards pass its port of 60 MB/s: 2 bytes /
     * 60e6 for the 3 shards that a rank sends, 90 MB/s; half a shard of each of two ranks more
     * where they send across too.  The two ports of 60 MB/s leave a block's own 100 as it is.
     */
    {"2x2x2,intra=1GB/s:3us,inter=60MB/s:50us,level2=100MB/s:20us", 1,
     "2 4, inter 50 60 60 90, level2 50 100 60 25, port 100, 1.5"},
    /* Where the inner port is wide, what is handed out in a cell counts: two shards to 7 others
     * at 1 GB/s, 14 ns for 15; 8 by eight flows of 100 GB/s take 0.01 ns a byte. */
    {"2x2x8,intra=1GB/s:3us,inter=100GB/s:2us,level2=1GB/s:20us", 1,
     "2 16, inter 3 1000 1000 1071.42857143, level2 20 1000 1000 62.5, port 1000, 1"},
    /* Four levels: the inmost two, and three, in a group.  2 shards through 4 GB/s for 3; and
       2 x 3/4 more. */
    {"2x2x2x2,intra=8GB/s:1us,inter=4GB/s:2us,level2=2GB/s:3us,level3=1GB/s:4us", 1,
     "4 4, inter 2 4000 4000 6000, level2 3 2000 2000 500, level3 4 1000 1000 125, port 2000,"
     " 1.75"},
    /* Eight ranks: from cell to cell 6 shards, 1.5 ns through 4 GB/s, 3 ns for 7 through
       2 GB/s, where 4 halves are added. */
    {"2x2x2x2,intra=8GB/s:1us,inter=4GB/s:2us,level2=2GB/s:3us,level3=1GB/s:4us", 2,
     "2 8, level2 3 2000 2000 2333.33333333, level3 4 1000 1000 125, port 1000, 1.33333333333"},
    /* To the two go three shards, and from them, in a reduction: 0.5 us for 4.  The port
     * of three of five passes 3/5 of what leaves: 10 MB/s; that of two would 15. */
    {"2x[3,2],inter=6MB/s,level2=60MB/s", 1,
     "2 5, inter 12 6 6 8, level2 12 10 6 2, port 10, 1.5"},
    /* Degenerate ones are fabrics too: one group, of whose 32 shards 24 pass each port, */
    {"1x4x8,inter=1GB/s", 1,
     "1 32, inter 12 1000 1000 1291.66666667, level2 12 4000 1000 125, port 4000, 1"},
    /* and ranks that are alone at level 0: two shards through their own port. */
    {"2x3x1,inter=60MB/s", 1, "2 3, inter 12 60 60 60, level2 12 180 60 60, port 180, 1.25"},
};

TEST(test_rates)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo whole = read_synth(cases[i].spec), t;
        char text[256];
        topo_at_boundary(&whole, cases[i].b, &t);
        assert_true((t.block == NULL) == (t.levels == 2));
        for (int k = 0; k < t.groups.count; k++) {
            assert_int_equal(t.groups.members[k], t.groups.members[0]);
            assert_true(t.levels == 2 || t.block[k] == k / 2);
        }
        int n = sprintf(text, "%d %d", t.groups.count, t.groups.members[0]);
        for (int l = 0; l < t.levels; l++)
            n += sprintf(text + n, ", %s %.12g %.12g %.12g %.12g", t.level[l].name,
                         t.level[l].latency_s * 1e6, t.level[l].port_Bps / 1e6,
                         t.level[l].flow_Bps / 1e6, t.level[l].member_Bps / 1e6);
        sprintf(text + n, ", port %.12g, %.12g", t.port[0].out_Bps / 1e6, 1 + t.inside_extra);
        assert_string_equal(text, cases[i].want);
        assert_true(t.port[0].in_Bps == t.port[0].out_Bps);
        topo_release(&t);
        topo_release(&whole);
    }
}

/* A port below that is narrower than its share of the block's: groups of 60, blocks of 1000. */
TEST(test_ports_below)
{
    struct topo whole = read_synth("2x2x2,inter=60MB/s,level2=1GB/s"), t;

    whole.port[1].out_Bps = 30e6;
    topo_at_boundary(&whole, 1, &t);
    assert_near(t.port[0].out_Bps, 60e6); /* its ranks are half of the block */
    assert_near(t.port[0].in_Bps, 120e6);
    assert_near(t.port[1].out_Bps, 120e6);
    assert_near(t.level[1].port_Bps, 120e6);
    assert_near(t.level[1].flow_Bps, 60e6);
    assert_near(t.level[1].member_Bps, 30e6);
    /* And inside: the slow way out is that of 2 shards. */
    assert_near(t.level[0].member_Bps, 3 / (2 / 30e6));
    topo_release(&t);
    topo_release(&whole);
}

static void assert_same(const struct topo *t, const struct topo *want)
{
    size_t count = (size_t)want->groups.count, levels = (size_t)want->levels;

    assert_int_equal(t->levels, want->levels);
    assert_true(groups_equal(&t->groups, &want->groups));
    assert_memory_equal(t->level, want->level, levels * sizeof *want->level);
    assert_memory_equal(t->port, want->port, count * sizeof *want->port);
    assert_memory_equal(t->block, want->block, (levels - 2) * count * sizeof *want->block);
}

TEST(test_copy)
{
    struct topo t = read_synth("2x2x3,inter=7MB/s:3us"), same;

    t.port[2].in_Bps = 5e6;
    topo_set_host(&t, 1, "b");
    topo_at_boundary(&t, 0, &same);
    assert_same(&same, &t);
    assert_string_equal(same.host[1], "b");
    topo_release(&same);
    topo_release(&t);
}

/* Ranks stay who they are; blocks are numbered by their first group; a host where it is one. */
TEST(test_members)
{
    static const int group_of[] = {0, 1, 2, 3, 0, 1, 2, 3}, block[] = {1, 0, 0, 1};
    static const int merged[] = {0, 1, 1, 0, 0, 1, 1, 0}, cell[] = {0, 0, 1, 1, 0, 0, 1, 1};
    struct topo t = read_synth("2x2x2"), u;

    groups_release(&t.groups);
    assert_ok(groups_init_of(&t.groups, 8, group_of, &err));
    memcpy(t.block, block, sizeof block);
    topo_set_host(&t, 0, "a");
    topo_set_host(&t, 3, "a");
    topo_set_host(&t, 1, "b");
    t.devices[0].gpus = t.devices[3].gpus = 4;
    t.devices[1].gpus = 2;
    topo_at_boundary(&t, 1, &u);
    assert_memory_equal(u.groups.group_of, merged, sizeof merged);
    /* Cells are the groups of before: 0 and 4, 3 and 7; 1 and 5, 2 and 6. */
    assert_memory_equal(u.groups.cell_of, cell, sizeof cell);
    assert_int_equal(groups_most_cells(&u.groups), 2);
    assert_string_equal(u.host[0], "a");
    assert_string_equal(u.host[1], "");
    assert_int_equal(u.devices[0].gpus, 4);
    assert_int_equal(u.devices[1].gpus, 0);
    topo_release(&u);
    topo_release(&t);
}

TEST(test_is_new)
{
    static const struct {
        const char *spec;
        int is_new[3];
    } news[] = {
        {"2x2", {1}},           {"1x4", {0}},           {"4x1", {0}},      {"2x2x2", {1, 1}},
        {"4x8x1", {0, 1}},      {"1x4x8", {1, 0}},      {"4x1x8", {1, 0}}, {"1x1x4", {0, 0}},
        {"2x2x2x2", {1, 1, 1}}, {"2x1x2x2", {1, 1, 0}},
    };

    for (size_t i = 0; i < sizeof news / sizeof *news; i++) {
        struct topo t = read_synth(news[i].spec);
        for (int b = 0; b < t.levels - 1; b++)
            if (topo_boundary_is_new(&t, b) != news[i].is_new[b])
                fail_msg("%s, boundary %d", news[i].spec, b);
        topo_release(&t);
    }
}

/* Grown to the shape of another, it is the other. */
TEST(test_grow)
{
    static const char *const grows[][2] = {
        {"2x2x2,level2=7GB/s", "4x2x2,level2=7GB/s"},
        {"2x2x2x3,level2=7GB/s,level3=9GB/s", "3x2x2x3,level2=7GB/s,level3=9GB/s"},
        {"2x[3,2],inter=1GB/s/rank,level2=7GB/s", "3x[3,2],inter=1GB/s/rank,level2=7GB/s"},
        {"4x2x2,level2=7GB/s", "1x2x2,level2=7GB/s"},
    };

    for (size_t i = 0; i < sizeof grows / sizeof *grows; i++) {
        struct topo t = read_synth(grows[i][0]), other = read_synth(grows[i][1]), grown;
        topo_extend(&t, other.groups.count, &grown);
        assert_same(&grown, &other);
        topo_release(&grown);
        topo_release(&other);
        topo_release(&t);
    }
}

/* The resources of ranks, whatever becomes of their groups. */
TEST(test_rank)
{
    struct topo t = read_synth("2x2x2,memory=5e9,flops=3e6,device=cuda"), out[4];
    const int one[] = {0, 0};

    topo_at_boundary(&t, 0, &out[0]);
    topo_at_boundary(&t, 1, &out[1]);
    topo_extend(&t, 8, &out[2]);
    topo_subset(&t, 2, one, &out[3]);
    for (int i = 0; i < 4; i++) {
        assert_true(out[i].device == TOPO_CUDA && out[i].memory_bytes == 5000000000);
        assert_true(out[i].flops == 3e6);
        topo_release(&out[i]);
    }
    topo_release(&t);
}
