/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of ibnetdiscover: every figure worked out by hand beside it; and the same file with
 * a line changed, each with its message.
 */
#include "topo_import_fixture.h"

static void ib(void **state)
{
    static const char *const hosts[] = {"node2", "node9", "node1", "node10"};
    struct topo_ask ask = given("intra=200GB/s:3us");
    struct topo t;
    struct err err;

    (void)state;
    assert_int_equal(import(EXAMPLES "ibnetdiscover.txt", NULL, &t, &err), 0);
    assert_int_equal(t.levels, 3);
    assert_int_equal(t.groups.count, 4);
    for (int k = 0; k < 4; k++) {
        assert_string_equal(t.host[k], hosts[k]);
        assert_int_equal(t.block[k], k / 2);
    }
    /* 4xEDR carries 100 Gbit/s; node10 has two of them; a leaf has two up to the spine. */
    check_level(&t, 0, 12.5, 12.5, 12.5, 14);
    check_level(&t, 1, 12.5, 12.5, 12.5, 14);
    check_level(&t, 2, 25, 12.5, 12.5, 14);
    assert_true(t.port[3].out_Bps == 25e9 && t.port[2].in_Bps == 12.5e9);
    topo_release(&t);

    ask.ranks = 8;
    assert_int_equal(import(EXAMPLES "ibnetdiscover.txt", &ask, &t, &err), 0);
    assert_int_equal(t.groups.ranks, 32);
    check_level(&t, 0, 200, 200, 200, 3);
    check_level(&t, 1, 12.5, 12.5, 12.5 / 8, 14);
    check_level(&t, 2, 25, 12.5, 25. / 16, 14);
    topo_release(&t);
    ask = (struct topo_ask){.ranks = 8};
    assert_int_equal(import(EXAMPLES "ibnetdiscover.txt", &ask, &t, &err), -1);
    assert_true(has_words(err.text, EXAMPLES "ibnetdiscover.txt: no rate intra expected --set"
                                             " intra=RATE:LATENCY"));
}

/*
 * Three tiers: l leaf, s spine, c core.  Host n9 has an adapter on each of l0 and l1.
 *
 *           c0
 *      s0        s1          what c0's two links carry is filled in
 *     l0 l1      l2
 *    n10 n9       c
 */
static void read_tiers(struct topo *t, const char *core)
{
    static const char *const form =
        "Switch 4 \"S-10\" # \"l0\"\n[1] \"H-1\"[1] # \"n10 m\" lid 1 4xHDR\n"
        "[2] \"H-2\"[1] # \"n9 m\" lid 1 4xHDR\n[3] \"S-20\"[1] # \"s0\" lid 1 4xNDR\n"
        "Switch 4 \"S-11\" # \"l1\"\n[2] \"H-3\"[1] # \"n9 m\" lid 1 4xHDR\n"
        "[3] \"S-20\"[2] # \"s0\" lid 1 4xNDR\n"
        "Switch 4 \"S-12\" # \"l2\"\n[1] \"H-4\"[1] # \"c m\" lid 1 4xHDR\n"
        "[3] \"S-21\"[1] # \"s1\" lid 1 12xNDR\n"
        "Switch 4 \"S-20\" # \"s0\"\n[1] \"S-10\"[3] # \"l0\" lid 1 4xNDR\n"
        "[2] \"S-11\"[3] # \"l1\" lid 1 4xNDR\n[3] \"S-30\"[1] # \"c0\" lid 1 %1$s\n"
        "Switch 4 \"S-21\" # \"s1\"\n[1] \"S-12\"[3] # \"l2\" lid 1 12xNDR\n"
        "[3] \"S-30\"[2] # \"c0\" lid 1 %1$s\n"
        "Switch 4 \"S-30\" # \"c0\"\n[1] \"S-20\"[3] # \"s0\" lid 1 %1$s\n"
        "[2] \"S-21\"[3] # \"s1\" lid 1 %1$s\n"
        "Ca 1 \"H-1\" # \"n10 m\"\n[1](1) \"S-10\"[1] # lid 1 lmc 0 \"l0\" lid 1 4xHDR\n"
        "Ca 1 \"H-2\" # \"n9 m\"\n[1](2) \"S-10\"[2] # lid 1 lmc 0 \"l0\" lid 1 4xHDR\n"
        "Ca 1 \"H-3\" # \"n9 m\"\n[1](3) \"S-11\"[2] # lid 1 lmc 0 \"l1\" lid 1 4xHDR\n"
        "Ca 1 \"H-4\" # \"c m\"\n[1](4) \"S-12\"[1] # lid 1 lmc 0 \"l2\" lid 1 4xHDR\n";
    char *text = mem_new(4096, 1);
    struct err err;

    int n = snprintf(text, 4096, form, core);
    assert_int_equal(topo_import_text(t, "ib", text, n, NULL, &err), 0);
}

static void ib_tiers(void **state)
{
    struct topo t;

    (void)state;
    /* 4xHDR is 25 GB/s, 4xNDR 50, 12xNDR 150.  n9 joins the leaves: two units, of which the
     * narrower has 2 x 50 up; the core, with 300 to each, is no other step. */
    read_tiers(&t, "12xXDR");
    assert_int_equal(t.levels, 3);
    assert_int_equal(t.groups.count, 3);
    assert_true(t.block[0] == 0 && t.block[1] == 0 && t.block[2] == 1);
    assert_string_equal(t.host[0], "n9");
    assert_string_equal(t.host[1], "n10");
    assert_true(t.port[0].out_Bps == 50e9);
    check_level(&t, 1, 25, 25, 25, 14);
    check_level(&t, 2, 100, 25, 50, 14);
    topo_release(&t);
    /* With 25 to each it is the same step, but narrower than the spines. */
    read_tiers(&t, "4xHDR");
    assert_int_equal(t.levels, 3);
    check_level(&t, 2, 25, 25, 12.5, 14);
    topo_release(&t);
}

/* Adapters that bear their product's name are hosts of their own, and that is said. */
static void ib_products(void **state)
{
    static const char text[] =
        "Switch 4 \"S-10\" # \"l0\"\n[1] \"H-1\"[1] # \"\" lid 1 4xHDR\n"
        "[2] \"H-2\"[1] # \"\" lid 1 4xHDR\n[3] \"H-3\"[1] # \"\" lid 1 4xHDR\n"
        "Ca 1 \"H-1\" # \"MT4123 ConnectX6 Mellanox Technologies\"\n"
        "[1](1) \"S-10\"[1] # lid 1 4xHDR\n"
        "Ca 1 \"H-2\" # \"MT4123 ConnectX6 Mellanox Technologies\"\n"
        "[1](2) \"S-10\"[2] # lid 1 4xHDR\n"
        "Ca 1 \"H-3\" # \"node7 mlx5_0\"\n[1](3) \"S-10\"[3] # lid 1 4xHDR\n";
    struct topo_ask named = {.hosts = "a,b,c"};
    struct topo t;
    struct err err;

    (void)state;
    assert_int_equal(topo_import_text(&t, "ib", mem_dup(text), sizeof text - 1, NULL, &err), 0);
    assert_int_equal(t.groups.count, 3);
    assert_true(has_words(t.doubt, "ib: 2 adapters host --node-name-map"));
    topo_release(&t);
    assert_int_equal(topo_import_text(&t, "ib", mem_dup(text), sizeof text - 1, &named, &err),
                     0);
    assert_string_equal(t.doubt, "");
    topo_release(&t);
}

/* 4xFDR: 4 x 14.0625 Gbaud, 64 of 66 bits; 54.545 Gbit/s, 6.818 GB/s. */
static void coding(void **state)
{
    struct topo t;
    struct err err;
    int64_t bytes = 0;
    char *text = edited(EXAMPLES "ibnetdiscover.txt", "\n", "\n", &bytes);

    (void)state;
    for (char *p = text; (p = strstr(p, "4xEDR"));)
        memcpy(p, "4xFDR", 5);
    assert_int_equal(topo_import_text(&t, "f", text, bytes, NULL, &err), 0);
    assert_true(fabs(t.level[1].port_Bps - 6818181818.1818) < 1);
    topo_release(&t);
}

/* ---- a changed line ---- */

static const struct change changed[] = {
    {EXAMPLES "ibnetdiscover.txt", "4xEDR", "4xEDX",
     "f:11: rate '4xEDX' expected 1x 12x SDR XDR"},
    {EXAMPLES "ibnetdiscover.txt", "4xEDR", "4xHDR", "f:11: rate line 43"},
    {EXAMPLES "ibnetdiscover.txt", "\"[1](2c90300000011)", "\"[7](2c90300000011)",
     "f:11: port 7 'H-0002c90300000011' line 42 cut"},
    {EXAMPLES "ibnetdiscover.txt", "[19]\t\"S-0002c902000000b1\"[1]",
     "[19]\t\"S-0002c902000000b1\"[2]", "f:13: port 2 'S-0002c902000000b1' 33"},
    {EXAMPLES "ibnetdiscover.txt", "[19]\t\"S-0002c902000000b1\"[1]",
     "[20]\t\"S-0002c902000000b1\"[1]", "f:14: port 20 'S-0002c902000000a1' 13 expected"},
    {EXAMPLES "ibnetdiscover.txt", "\"S-0002c902000000b1\"[1]", "\"S-0002c902000000c1\"[1]",
     "f:13: 'S-0002c902000000c1' cut"},
    {EXAMPLES "ibnetdiscover.txt", "Switch\t36 \"S-0002c902000000a2\"",
     "Switch\t36 \"S-0002c902000000a1\"", "f:20: 'S-0002c902000000a1' 10 expected node"},
    {EXAMPLES "ibnetdiscover.txt", "Ca\t1 \"H-", "Ca\t1 \"S-",
     "f:42: 'S-0002c90300000011' adapter"},
    {EXAMPLES "ibnetdiscover.txt", "Ca\t1 \"H-", "Ca\t1 \"Q-", "f:42: node expected"},
    {EXAMPLES "ibnetdiscover.txt", "[19]", "[0]", "f:13: port expected 1 255"},
    {EXAMPLES "ibnetdiscover.txt", "[19]", "[300]", "f:13: port expected"},
    {EXAMPLES "ibnetdiscover.txt", "# \"MF0;leaf1:SB7800/U1\"", "# \"MF0;leaf1",
     "f:10: description"},
    {EXAMPLES "ibnetdiscover.txt", "devid=0x1013", "1013", "f:39: '1013' expected node port"},
};

static void changes(void **state)
{
    (void)state;
    CHECK_CHANGES(changed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ib),     cmocka_unit_test(ib_tiers), cmocka_unit_test(ib_products),
        cmocka_unit_test(coding), cmocka_unit_test(changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
