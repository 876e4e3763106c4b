/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabrics whose groups end further out, against rates worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "topo/topo_boundary.h"

static struct topo read_synth(const char *spec)
{
    struct topo t = {0};
    struct err err;

    if (topo_parse_synth(&t, spec, &err))
        fail_msg("%s: %s", spec, err.text);
    return t;
}

static struct topo at(const char *spec, int b)
{
    struct topo t = read_synth(spec), out;

    topo_at_boundary(&t, b, &out);
    topo_release(&t);
    return out;
}

/* Sums and quotients of a few doubles: some roundings of 2^-53 each. */
static void assert_near(double a, double b)
{
    assert_float_equal(a, b, 1e-14 * b);
}

static void assert_level(const struct topo_level *v, const char *name, double latency_s,
                         double port_Bps, double flow_Bps, double member_Bps)
{
    assert_string_equal(v->name, name);
    assert_near(v->latency_s, latency_s);
    assert_near(v->port_Bps, port_Bps);
    assert_near(v->flow_Bps, flow_Bps);
    assert_near(v->member_Bps, member_Bps);
}

/*
 * 2x2x2: a rank of a group of 4 sends two of its three shards through its inner port, 60 MB/s
 * for both ranks behind it: 2 * 2 bytes / 60e6 for 3 of them, 45 MB/s.  The two ports of 60
 * MB/s leave a block's own 100 as it is.
 */
static void test_rates(void **state)
{
    struct topo t = at("2x2x2,intra=1GB/s:3us,inter=60MB/s:50us,level2=100MB/s:20us,"
                       "memory=1e9,flops=2e9",
                       1);

    (void)state;
    assert_int_equal(t.levels, 2);
    assert_null(t.block);
    assert_int_equal(t.groups.count, 2);
    assert_int_equal(t.groups.members[0], 4);
    assert_level(&t.level[0], "inter", 50e-6, 60e6, 60e6, 45e6);
    assert_level(&t.level[1], "level2", 50e-6, 100e6, 60e6, 25e6);
    assert_near(t.port[0].out_Bps, 100e6);
    assert_near(t.port[1].in_Bps, 100e6);
    /* Half a shard more than two through that port where a rank sends across too. */
    assert_near(1 + t.inside_extra, 1.25);
    assert_int_equal(t.memory_bytes, 1000000000);
    assert_near(t.flops, 2e9);
    topo_release(&t);
}

/* Where the inner port is wide, what stays in the inner group counts: (m - 1) / B'. */
static void test_inside_binds(void **state)
{
    struct topo t = at("2x2x8,intra=1GB/s:3us,inter=100GB/s:2us,level2=1GB/s:20us", 1);

    (void)state;
    /* 7 of 15 shards at 1 GB/s; 8 at 100 GB/s of eight ranks take 0.64 ns a byte, less. */
    assert_level(&t.level[0], "inter", 3e-6, 1e9, 1e9, 15.0 / 7 * 1e9);
    assert_near(1 + t.inside_extra, 1);
    topo_release(&t);
}

/* A port below that is narrower than its share of the block's: 2 groups of 60, block of 1000.
 */
static void test_ports_below(void **state)
{
    struct topo whole = read_synth("2x2x2,inter=60MB/s,level2=1GB/s"), t;

    (void)state;
    whole.port[1].out_Bps = 30e6;
    topo_at_boundary(&whole, 1, &t);
    assert_near(t.port[0].out_Bps, 60e6); /* its ranks are half of the block */
    assert_near(t.port[0].in_Bps, 120e6);
    assert_near(t.port[1].out_Bps, 120e6);
    assert_near(t.level[1].port_Bps, 120e6);
    assert_near(t.level[1].flow_Bps, 60e6);
    assert_near(t.level[1].member_Bps, 30e6);
    /* And inside: the slow way out is that of 2 shards of 2 ranks. */
    assert_near(t.level[0].member_Bps, 3 / (4 / 30e6));
    topo_release(&t);
    topo_release(&whole);
}

/* Four levels: the inmost two, and three, in a group; ragged groups. */
static void test_further_levels(void **state)
{
    const char spec[] = "2x2x2x2,intra=8GB/s:1us,inter=4GB/s:2us,level2=2GB/s:3us,"
                        "level3=1GB/s:4us";
    struct topo t = at(spec, 1), u = at(spec, 2),
                v = at("2x[3,2],inter=6MB/s,level2=60MB/s", 1);

    (void)state;
    assert_int_equal(t.levels, 3);
    assert_int_equal(t.groups.count, 4);
    for (int k = 0; k < 4; k++)
        assert_int_equal(t.block[k], k / 2);
    assert_level(&t.level[0], "inter", 2e-6, 4e9, 4e9, 3e9);
    assert_level(&t.level[1], "level2", 3e-6, 2e9, 2e9, 0.5e9);
    assert_level(&t.level[2], "level3", 4e-6, 1e9, 1e9, 0.125e9);
    /* Eight ranks: 6 shards of 2 through 4 GB/s, 4 shards of 4 through 2 GB/s: 8 ns for 7. */
    assert_int_equal(u.levels, 2);
    assert_int_equal(u.groups.members[1], 8);
    assert_level(&u.level[0], "level2", 3e-6, 2e9, 2e9, 7.0 / 8 * 1e9);
    assert_level(&u.level[1], "level3", 4e-6, 1e9, 1e9, 0.125e9);
    /* Three behind 6 MB/s, with 2 shards each; two with 3 each: the same 1 us for 4. */
    assert_int_equal(v.groups.members[0], 5);
    assert_near(v.level[0].member_Bps, 4e6);
    /* The port of three of five passes 3/5 of what leaves: 10 MB/s; that of two would 15. */
    assert_near(v.port[0].out_Bps, 10e6);
    topo_release(&t);
    topo_release(&u);
    topo_release(&v);
}

static void test_copy(void **state)
{
    struct topo t = read_synth("2x2x3,inter=7MB/s:3us,memory=5e9,flops=3"), same;

    (void)state;
    t.port[2].in_Bps = 5e6;
    topo_set_host(&t, 1, "b");
    topo_at_boundary(&t, 0, &same);
    assert_true(groups_equal(&t.groups, &same.groups));
    assert_int_equal(same.levels, t.levels);
    assert_memory_equal(same.level, t.level, 3 * sizeof *t.level);
    assert_memory_equal(same.port, t.port, 4 * sizeof *t.port);
    assert_memory_equal(same.block, t.block, 4 * sizeof *t.block);
    assert_string_equal(same.host[1], "b");
    assert_int_equal(same.memory_bytes, t.memory_bytes);
    topo_release(&same);
    topo_release(&t);
}

/* Ranks stay who they are; blocks are numbered by their first group; a host where it is one. */
static void test_members(void **state)
{
    static const int group_of[] = {0, 1, 2, 3, 0, 1, 2, 3}, block[] = {1, 0, 0, 1};
    static const int merged[] = {0, 1, 1, 0, 0, 1, 1, 0};
    struct topo t = read_synth("2x2x2"), u;
    struct err err;

    (void)state;
    groups_release(&t.groups);
    assert_int_equal(groups_init_of(&t.groups, 8, group_of, &err), 0);
    memcpy(t.block, block, sizeof block);
    topo_set_host(&t, 0, "a");
    topo_set_host(&t, 3, "a");
    topo_set_host(&t, 1, "b");
    t.devices[0].gpus = t.devices[3].gpus = 4;
    t.devices[1].gpus = 2;
    topo_at_boundary(&t, 1, &u);
    assert_memory_equal(u.groups.group_of, merged, sizeof merged);
    assert_string_equal(u.host[0], "a");
    assert_string_equal(u.host[1], "");
    assert_int_equal(u.devices[0].gpus, 4);
    assert_int_equal(u.devices[1].gpus, 0);
    topo_release(&u);
    topo_release(&t);
}

static void test_is_new(void **state)
{
    static const struct {
        const char *spec;
        int is_new[3];
    } cases[] = {
        {"2x2", {1}},           {"1x4", {0}},           {"4x1", {0}},      {"2x2x2", {1, 1}},
        {"4x8x1", {0, 1}},      {"1x4x8", {1, 0}},      {"4x1x8", {1, 0}}, {"1x1x4", {0, 0}},
        {"2x2x2x2", {1, 1, 1}}, {"2x1x2x2", {1, 1, 0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo t = read_synth(cases[i].spec);
        for (int b = 0; b < topo_boundaries(&t); b++)
            if (topo_boundary_is_new(&t, b) != cases[i].is_new[b])
                fail_msg("%s, boundary %d", cases[i].spec, b);
        topo_release(&t);
    }
}

/* Degenerate ones come out as fabrics all the same. */
static void test_degenerate(void **state)
{
    struct topo t = at("1x4x8,inter=1GB/s", 1), u = at("2x3x1,inter=60MB/s", 1);

    (void)state;
    assert_int_equal(t.groups.count, 1);
    assert_int_equal(t.groups.members[0], 32);
    assert_int_equal(u.groups.members[0], 3);
    /* Of ranks that are alone at level 0: two shards through their own port. */
    assert_near(u.level[0].member_Bps, 60e6);
    topo_release(&t);
    topo_release(&u);
}

/* Grown to the shape of another, it is the other. */
static void test_grow(void **state)
{
    static const char *const cases[][2] = {
        {"2x2x2,level2=7GB/s", "4x2x2,level2=7GB/s"},
        {"2x2x2x3,level2=7GB/s,level3=9GB/s", "3x2x2x3,level2=7GB/s,level3=9GB/s"},
        {"2x[3,2],inter=1GB/s/rank,level2=7GB/s", "3x[3,2],inter=1GB/s/rank,level2=7GB/s"},
        {"4x2x2,level2=7GB/s", "1x2x2,level2=7GB/s"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo t = read_synth(cases[i][0]), other = read_synth(cases[i][1]), grown;
        size_t count = (size_t)other.groups.count;
        topo_extend(&t, other.groups.count, &grown);
        assert_int_equal(grown.levels, other.levels);
        assert_true(groups_equal(&grown.groups, &other.groups));
        assert_memory_equal(grown.port, other.port, count * sizeof *other.port);
        assert_memory_equal(grown.block, other.block,
                            (size_t)(other.levels - 2) * count * sizeof *other.block);
        assert_memory_equal(grown.level, other.level,
                            (size_t)other.levels * sizeof *other.level);
        topo_release(&grown);
        topo_release(&other);
        topo_release(&t);
    }
}

/* What ranks were measured on, whatever becomes of their groups. */
static void test_device(void **state)
{
    struct topo t = read_synth("2x2x2"), out;
    const int one[] = {0, 0};

    (void)state;
    t.device = TOPO_CUDA;
    for (int b = 0; b < 2; b++) {
        topo_at_boundary(&t, b, &out);
        assert_int_equal(out.device, TOPO_CUDA);
        topo_release(&out);
    }
    topo_extend(&t, 8, &out);
    assert_int_equal(out.device, TOPO_CUDA);
    topo_release(&out);
    topo_subset(&t, 2, one, &out);
    assert_int_equal(out.device, TOPO_CUDA);
    topo_release(&out);
    topo_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),       cmocka_unit_test(test_inside_binds),
        cmocka_unit_test(test_ports_below), cmocka_unit_test(test_further_levels),
        cmocka_unit_test(test_copy),        cmocka_unit_test(test_members),
        cmocka_unit_test(test_is_new),      cmocka_unit_test(test_degenerate),
        cmocka_unit_test(test_grow),        cmocka_unit_test(test_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
