/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fabrics from other tools' files (tests/data/topo and examples/fabrics, all written by hand):
 * every figure worked out by hand beside it; and the same files with a line changed, each with
 * its message.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/io.h"
#include "base/mem.h"
#include "topo/topo_import.h"

#define DATA     "tests/data/topo/"
#define EXAMPLES "examples/fabrics/"

static int import(const char *file, const struct topo_ask *ask, struct topo *t, struct err *err)
{
    *t = (struct topo){0};
    *err = (struct err){0};
    return topo_import(t, file, ask, err);
}

static struct topo_ask given(const char *words)
{
    struct topo_ask ask = {0};
    struct err err;

    if (words)
        assert_int_equal(topo_given_parse(&ask.given, words, &err), 0);
    return ask;
}

/* Rates in GB/s, exactly; latency in us, less what one rounding of a power of 10 makes. */
static void check_level(const struct topo *t, int l, double port, double flow, double member,
                        double latency)
{
    const struct topo_level *v = &t->level[l];

    if (v->port_Bps != port * 1e9 || v->flow_Bps != flow * 1e9 ||
        v->member_Bps != member * 1e9 ||
        fabs(v->latency_s - latency / 1e6) > 0x1p-52 * v->latency_s)
        fail_msg("level %d: port %g flow %g member %g latency %g", l, v->port_Bps, v->flow_Bps,
                 v->member_Bps, v->latency_s);
}

/* ---- NCCL ---- */

static void nccl_switch(void **state)
{
    struct topo_ask ask = {.nodes = 3, .hosts = "a,b[08-09]"};
    struct topo t;
    struct err err;

    (void)state;
    assert_int_equal(import(EXAMPLES "nccl.xml", NULL, &t, &err), 0);
    assert_int_equal(t.levels, 2);
    assert_int_equal(t.groups.count, 1);
    assert_int_equal(t.groups.ranks, 4);
    /* 6 + 6 NVLinks of 20 GB/s (sm 80), all of them to one peer through the switch. */
    check_level(&t, 0, 240, 240, 240, 3.4);
    /* 2 x 200 Gbit/s, but PCIe 16 GT/s x 16 is 24 GB/s to NCCL, less than 25. */
    check_level(&t, 1, 48, 24, 12, 14);
    assert_string_equal(t.level[1].rate_source,
                        "2 network devices of 200 Gbit/s, as the file states, cut to what PCIe"
                        " passes");
    assert_string_equal(t.level[0].rate_source,
                        "12 NVLinks of 20 GB/s, as NCCL counts those of sm 80 (topo.h)");
    assert_string_equal(t.doubt, "");
    assert_int_equal(t.memory_bytes, 0);
    topo_release(&t);

    assert_int_equal(import(EXAMPLES "nccl.xml", &ask, &t, &err), 0);
    assert_int_equal(t.groups.ranks, 12);
    assert_int_equal(t.groups.count, 3);
    assert_string_equal(t.host[0], "a");
    assert_string_equal(t.host[2], "b09");
    assert_int_equal(t.groups.group_of[11], 2);
    check_level(&t, 1, 48, 24, 12, 14);
    topo_release(&t);
}

static void nccl_pairs(void **state)
{
    struct topo_ask ask = {.nodes = 2};
    struct topo t;
    struct err err;

    (void)state;
    assert_int_equal(import(DATA "nccl-pairs.xml", &ask, &t, &err), 0);
    assert_int_equal(t.levels, 3);
    assert_int_equal(t.groups.count, 4);
    /* 4 NVLinks of 12 GB/s (sm 86). */
    check_level(&t, 0, 48, 48, 48, 3.4);
    /*
     * PCIe 16 GT/s x 16 is 24 GB/s, of which a switch's way up has two ranks: 12 each; but from
     * one Skylake to the other 10 GB/s pass, for two.
     */
    check_level(&t, 1, 10, 10, 5, 5.7);
    assert_true(t.port[3].out_Bps == 10e9);
    /* The one device that both processors list: 100 Gbit/s, 14 us and the 10 that it states. */
    check_level(&t, 2, 12.5, 12.5, 3.125, 24);
    assert_int_equal(t.block[0], 0);
    assert_int_equal(t.block[3], 1);
    topo_release(&t);
    /* No ranks are told, so that the devices' numbers order the GPUs: 1 stands before 0. */
    assert_int_equal(import(DATA "nccl-pairs.xml", NULL, &t, &err), 0);
    assert_int_equal(t.levels, 2);
    topo_release(&t);
}

static void nccl_template(void **state)
{
    struct topo_ask ask = given("intra=370GB/s,nic=400Gbit/s");
    struct topo t;
    struct err err;

    (void)state;
    assert_int_equal(import(DATA "nccl-template.xml", NULL, &t, &err), 0);
    check_level(&t, 0, 48, 48, 48, 5.7); /* 32 GT/s x 16 */
    check_level(&t, 1, 48, 48, 48, 5.7);
    assert_string_equal(t.level[1].rate_source, "there is one group: nothing passes, as intra");
    assert_non_null(strstr(t.doubt, "does not tell of NVLink"));
    topo_release(&t);
    ask.nodes = 2;
    assert_int_equal(import(DATA "nccl-template.xml", &ask, &t, &err), 0);
    check_level(&t, 0, 370, 370, 370, 5.7);
    check_level(&t, 1, 100, 50, 50, 14); /* two devices, two ranks */
    assert_string_equal(t.level[0].rate_source, "");
    assert_string_equal(t.doubt, "");
    topo_release(&t);
    ask = (struct topo_ask){.nodes = 2};
    assert_int_equal(import(DATA "nccl-template.xml", &ask, &t, &err), -1);
    assert_string_equal(err.text,
                        DATA "nccl-template.xml: states no rate of level inter (between"
                             " machines), expected 'paro-topo --set inter=RATE' or '--set"
                             " nic=RATE', of each network device");
    /* What only completes leaves what the file gives. */
    ask = given("intra=370GB/s,inter=1GB/s,memory=80e9,flops=1e14");
    ask.nodes = 2;
    ask.fill = 1;
    assert_int_equal(import(DATA "nccl-template.xml", &ask, &t, &err), 0);
    check_level(&t, 0, 48, 48, 48, 5.7);
    check_level(&t, 1, 1, 1, 0.5, 14);
    assert_true(t.memory_bytes == 80000000000 && t.flops == 1e14);
    topo_release(&t);
}

/* ---- hwloc ---- */

static void hwloc(void **state)
{
    struct topo_ask ask = given("intra=5GB/s:1us");
    struct topo t;
    struct err err;

    (void)state;
    assert_int_equal(import(EXAMPLES "hwloc.xml", NULL, &t, &err), 0);
    assert_int_equal(t.groups.ranks, 2);    /* the console's chip is none */
    check_level(&t, 0, 150, 150, 150, 3.4); /* 150,000 MB/s to the switch */
    assert_int_equal(t.memory_bytes, INT64_C(16777216) * 1024);
    assert_string_equal(t.host[0], "dgx-7");
    topo_release(&t);

    assert_int_equal(import(DATA "hwloc2-processors.xml", NULL, &t, &err), -1);
    assert_string_equal(err.text, DATA "hwloc2-processors.xml: states no rate of level intra"
                                       " (inside the machine), expected 'paro-topo --set"
                                       " intra=RATE:LATENCY'");
    assert_int_equal(import(DATA "hwloc2-processors.xml", &ask, &t, &err), 0);
    assert_int_equal(t.groups.ranks, 2); /* a NUMA node without processors is no rank */
    assert_int_equal(t.memory_bytes, 3000000000);
    assert_string_equal(t.host[0], "node7");
    topo_release(&t);
    ask.ranks = 4;
    ask.nodes = 2;
    ask.given.nic_Bps = 125e6;
    assert_int_equal(import(DATA "hwloc2-processors.xml", &ask, &t, &err), 0);
    assert_int_equal(t.groups.ranks, 8);
    assert_int_equal(t.memory_bytes, 7000000000 / 4);
    check_level(&t, 0, 5, 5, 5, 1);
    check_level(&t, 1, 0.125, 0.125, 0.125 / 4, 14); /* one Ethernet port */
    assert_string_equal(t.host[1], "");
    topo_release(&t);
}

/* ---- nvidia-smi ---- */

static void smi(void **state)
{
    struct topo_ask ask = given("nvlink=20GB/s,nic=400Gbit/s");
    struct topo t;
    struct err err;

    (void)state;
    ask.nodes = 2;
    assert_int_equal(import(EXAMPLES "nvidia-smi.txt", &ask, &t, &err), 0);
    assert_int_equal(t.groups.ranks, 8);
    assert_int_equal(t.groups.count, 2);
    /* NV18 to each of three others is more than a GPU has: a switch, 18 x 20. */
    check_level(&t, 0, 360, 360, 360, 3.4);
    check_level(&t, 1, 100, 50, 25, 14);
    topo_release(&t);

    ask = given("nvlink=25GB/s,inter=10GB/s");
    assert_int_equal(import(DATA "smi-pairs.txt", &ask, &t, &err), 0);
    assert_int_equal(t.groups.count, 2);
    assert_int_equal(t.groups.group_of[0], 0);
    assert_int_equal(t.groups.group_of[1], 1);
    assert_int_equal(t.groups.group_of[2], 0);
    check_level(&t, 0, 100, 100, 100, 3.4);
    check_level(&t, 1, 10, 10, 5, 5.7);
    topo_release(&t);
    ask = given("nvlink=25GB/s");
    assert_int_equal(import(DATA "smi-pairs.txt", &ask, &t, &err), -1);
    assert_string_equal(err.text, DATA "smi-pairs.txt: states no rate of level inter (PCIe),"
                                       " expected 'paro-topo --set inter=RATE'");
    ask.given.nic_Bps = 1e9;
    assert_int_equal(import(DATA "smi-pairs.txt", &ask, &t, &err), -1);
    assert_string_equal(err.text, DATA "smi-pairs.txt: counts no network devices, expected"
                                       " inter=RATE in the place of nic=RATE");
}

/* ---- ibnetdiscover ---- */

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
    assert_string_equal(err.text,
                        EXAMPLES "ibnetdiscover.txt: states no rate of level intra (inside"
                                 " a host), expected 'paro-topo --set"
                                 " intra=RATE:LATENCY'");
}

/*
 * Three tiers, two planes: switches by letter, l leaf, s spine, c core.
 *
 *     c0
 *     s0    s1          s0 joins l0 and l1, s1 joins l2
 *     l0 l1 l2          l0 and l1 share host b, by an adapter on each
 *     a  b  c
 */
static void ib_tiers(void **state)
{
    static const char *const text =
        "Switch 4 \"S-10\" # \"l0\"\n[1] \"H-1\"[1] # \"a m\" lid 1 4xHDR\n"
        "[2] \"H-2\"[1] # \"b m\" lid 1 4xHDR\n[3] \"S-20\"[1] # \"s0\" lid 1 4xNDR\n"
        "Switch 4 \"S-11\" # \"l1\"\n[2] \"H-3\"[1] # \"b m\" lid 1 4xHDR\n"
        "[3] \"S-20\"[2] # \"s0\" lid 1 4xNDR\n"
        "Switch 4 \"S-12\" # \"l2\"\n[1] \"H-4\"[1] # \"c m\" lid 1 4xHDR\n"
        "[3] \"S-21\"[1] # \"s1\" lid 1 4xNDR\n"
        "Switch 4 \"S-20\" # \"s0\"\n[1] \"S-10\"[3] # \"l0\" lid 1 4xNDR\n"
        "[2] \"S-11\"[3] # \"l1\" lid 1 4xNDR\n[3] \"S-30\"[1] # \"c0\" lid 1 4xHDR\n"
        "Switch 4 \"S-21\" # \"s1\"\n[1] \"S-12\"[3] # \"l2\" lid 1 4xNDR\n"
        "[3] \"S-30\"[2] # \"c0\" lid 1 4xHDR\n"
        "Switch 4 \"S-30\" # \"c0\"\n[1] \"S-20\"[3] # \"s0\" lid 1 4xHDR\n"
        "[2] \"S-21\"[3] # \"s1\" lid 1 4xHDR\n"
        "Ca 1 \"H-1\" # \"a m\"\n[1](1) \"S-10\"[1] # lid 1 lmc 0 \"l0\" lid 1 4xHDR\n"
        "Ca 1 \"H-2\" # \"b m\"\n[1](2) \"S-10\"[2] # lid 1 lmc 0 \"l0\" lid 1 4xHDR\n"
        "Ca 1 \"H-3\" # \"b m\"\n[1](3) \"S-11\"[2] # lid 1 lmc 0 \"l1\" lid 1 4xHDR\n"
        "Ca 1 \"H-4\" # \"c m\"\n[1](4) \"S-12\"[1] # lid 1 lmc 0 \"l2\" lid 1 4xHDR\n";
    struct topo t = {0};
    struct err err;

    (void)state;
    assert_int_equal(
        topo_import_text(&t, "ib", mem_dup(text), (int64_t)strlen(text), NULL, &err), 0);
    /* b joins the leaves: two units.  The step over the spines joins no more of them, through
     * 200 Gbit/s to the core in the place of 800 to the spines. */
    assert_int_equal(t.levels, 3);
    assert_int_equal(t.groups.count, 3);
    assert_true(t.block[0] == 0 && t.block[1] == 0 && t.block[2] == 1);
    check_level(&t, 1, 25, 25, 25, 14);
    check_level(&t, 2, 25, 25, 12.5, 14);
    topo_release(&t);
}

/* ---- a changed line ---- */

static const struct {
    const char *file, *from, *to, *want;
} changed[] = {
    {EXAMPLES "nccl.xml", "version=\"1\"", "version=\"2\"",
     "f:1: 'system.version' is '2', expected a whole number from 1 to 1"},
    {EXAMPLES "nccl.xml", "version=\"1\"", "", "f:1: 'system.version' is missing, expected"},
    {EXAMPLES "nccl.xml", "<system", "<sistem",
     "f:44: ends </system>, expected </sistem>, open since line 1"},
    {EXAMPLES "nccl.xml", "rank=\"1\"", "rank=\"0\"",
     "f:11: 'gpu.rank' is 0 as on line 5, expected each once"},
    {EXAMPLES "nccl.xml", "rank=\"1\"", "rank=\"1x\"",
     "f:11: 'gpu.rank' is '1x', expected a whole number from -1 to 2147483647"},
    {EXAMPLES "nccl.xml", "count=\"6\"", "count=\"-6\"",
     "f:6: 'nvlink.count' is '-6', expected a whole number from 0 to 1000"},
    {EXAMPLES "nccl.xml", " count=\"6\"", "",
     "f:6: 'nvlink.count' is missing, expected a whole number"},
    {EXAMPLES "nccl.xml", "target=\"0000:c4:00.0\" ", "",
     "f:6: 'nvlink.target' is missing, expected a bus id"},
    {EXAMPLES "nccl.xml", "16.0 GT/s PCIe", "17 GT/s",
     "f:3: 'pci.link_speed' is '17 GT/s', expected 2.5, 5, 8, 16, 32 or 64 GT/s"},
    {EXAMPLES "nccl.xml", "link_width=\"16\"", "link_width=\"x16\"",
     "f:3: 'pci.link_width' is 'x16', expected a whole number from 0 to 32"},
    {EXAMPLES "nccl.xml", "0000:0f:00.0", "0000:07:00.0",
     "f:10: 'pci.busid' is '0000:07:00.0' as on line 4, expected each GPU once"},
    {EXAMPLES "nccl.xml", "speed=\"200000\"", "speed=\"fast\"",
     "f:18: 'net.speed' is 'fast', expected a whole number from -1 to 2147483647"},
    {EXAMPLES "nccl.xml", "dev=\"1\" speed", "dev=\"0\" speed",
     "f:39: 'net.dev' is 0 as on line 18, where name or speed differ, expected each device"
     " once"},
    {EXAMPLES "nccl.xml", "latency=\"0.000000\"", "latency=\"nan\"",
     "f:18: 'net.latency' is 'nan', expected a number from 0 to 1e+06"},
    {DATA "nccl-pairs.xml", "0000:1A:00.0\" count=\"4\"", "0000:1A:00.0\" count=\"3\"",
     "f:6: 'gpu' has 3 NVLinks to the GPU on line 11, which has 4 back, expected as many"},
    {DATA "nccl-template.xml", "0x030200", "0x040200",
     ""}, /* one GPU is left, and a level that nothing passes */
    {EXAMPLES "hwloc.xml", "version=\"3.0\"", "version=\"4.0\"",
     "f:3: 'topology.version' is '4.0', expected 2.0 or 3.0"},
    {EXAMPLES "hwloc.xml", " version=\"3.0\"", "",
     "f:3: 'topology.version' is missing, expected 2.0 or 3.0: hwloc 1 wrote this"},
    {EXAMPLES "hwloc.xml", "nbobjs=\"3\"", "nbobjs=\"4\"",
     "f:39: 'distances2hetero.nbobjs' is 4, but 3 are listed in 'indexes'"},
    {EXAMPLES "hwloc.xml", "nbobjs=\"3\"", "nbobjs=\"2\"",
     "f:39: 'distances2hetero.nbobjs' is 2, but more is listed"},
    {EXAMPLES "hwloc.xml", "nbobjs=\"3\"", "nbobjs=\"99999999\"",
     "f:39: 'distances2hetero.nbobjs' is '99999999', expected a whole number from 1 to 2048"},
    {EXAMPLES "hwloc.xml", "0 0 150000 0", "0 0 150e3 0",
     "f:42: 'u64values' is '150e3', expected a whole number from 0 to 1099511627776"},
    {EXAMPLES "hwloc.xml", "0 0 150000 0", "0 0 150000",
     "f:39: 'distances2hetero' ends in row 2 of its values, expected 3 rows of 3"},
    {EXAMPLES "hwloc.xml", "value=\"33554432\"", "value=\"32 GB\"",
     "f:12: 'info.value' is '32 GB', expected a whole number from 1 to"},
    {EXAMPLES "hwloc.xml", " SYSTEM \"hwloc2.dtd\">", " [<!ENTITY a \"b\">]>",
     "f:2: declares entities or elements of its own, expected none"},
    {DATA "hwloc2-processors.xml", "local_memory=\"3000000000\"", "local_memory=\"3 GB\"",
     "f:12: 'object.local_memory' is '3 GB', expected a whole number from 0 to"},
    {DATA "smi-pairs.txt", "NV4     SYS     0-15", "NV4     SYSTEM  0-15",
     "f:2: has 'SYSTEM' in column 'GPU3', expected X, SYS, NODE, PHB, PXB, PIX or NV and a"
     " number above 0"},
    {DATA "smi-pairs.txt", "NV4     SYS     0-15", "NV0     SYS     0-15",
     "f:2: has 'NV0' in column"},
    {DATA "smi-pairs.txt", "NV4     SYS     0-15", "NV5     SYS     0-15",
     "f:4: has 4 NVLinks from 'GPU2' to 'GPU0', but line 2 has 5 back, expected as many"},
    {DATA "smi-pairs.txt", "NV4     SYS     0-15            0\n", "NV4\n",
     "f:2: has 3 cells, expected 4"},
    {DATA "smi-pairs.txt", "GPU1    SYS      X", "GPU0    SYS      X",
     "f:3: has a row 'GPU0' as line 2 has, expected each once"},
    {DATA "smi-pairs.txt", "GPU1    SYS      X", "GPU7    SYS      X",
     "f:3: has a row 'GPU7', expected one of the columns"},
    {DATA "smi-pairs.txt", "GPU0    GPU1    GPU2", "GPU0    GPU0    GPU2",
     "f:1: has the column 'GPU0' twice, expected each once"},
    {DATA "smi-pairs.txt", "GPU1    SYS      X", "GPU1     X      SYS",
     "f:3: has 'X' in column 'GPU0', expected X in column 'GPU1' and only there"},
    {DATA "smi-pairs.txt", "GPU3    SYS     NV4     SYS      X      16-31           1\n", "",
     "f:4: ends the matrix without a row 'GPU3', expected one for each column"},
    {EXAMPLES "ibnetdiscover.txt", "4xEDR", "4xEDX",
     "f:11: has the rate '4xEDX', expected 1x to 12x and SDR to XDR"},
    {EXAMPLES "ibnetdiscover.txt", "4xEDR", "4xHDR",
     "f:11: has another rate than its other end on line 43"},
    {EXAMPLES "ibnetdiscover.txt", "\"[1](2c90300000011)", "\"[7](2c90300000011)",
     "f:11: ends at port 7 of 'H-0002c90300000011', which line 42 describes without it: is the"
     " file cut?"},
    {EXAMPLES "ibnetdiscover.txt", "[19]\t\"S-0002c902000000b1\"[1]",
     "[19]\t\"S-0002c902000000b1\"[2]",
     "f:13: ends at port 2 of 'S-0002c902000000b1', but line 33 has another link there"},
    {EXAMPLES "ibnetdiscover.txt", "[19]\t\"S-0002c902000000b1\"[1]",
     "[20]\t\"S-0002c902000000b1\"[1]",
     "f:14: has port 20 of 'S-0002c902000000a1' as line 13 has, expected each once"},
    {EXAMPLES "ibnetdiscover.txt", "\"S-0002c902000000b1\"[1]", "\"S-0002c902000000c1\"[1]",
     "f:13: names 'S-0002c902000000c1', which the file does not describe: is it cut?"},
    {EXAMPLES "ibnetdiscover.txt", "Switch\t36 \"S-0002c902000000a2\"",
     "Switch\t36 \"S-0002c902000000a1\"",
     "f:20: is 'S-0002c902000000a1' as line 10 is, expected each node once"},
    {EXAMPLES "ibnetdiscover.txt", "Ca\t1 \"H-", "Ca\t1 \"S-",
     "f:42: calls 'S-0002c90300000011' an adapter"},
    {EXAMPLES "ibnetdiscover.txt", "Ca\t1 \"H-", "Ca\t1 \"Q-", "f:42: is no node, expected"},
    {EXAMPLES "ibnetdiscover.txt", "[19]", "[0]",
     "f:13: is no port, expected its number, from 1 to 255"},
    {EXAMPLES "ibnetdiscover.txt", "[19]", "[300]", "f:13: is no port, expected its number"},
    {EXAMPLES "ibnetdiscover.txt", "# \"MF0;leaf1:SB7800/U1\"", "# \"MF0;leaf1",
     "f:10: has a description without its end"},
    {EXAMPLES "ibnetdiscover.txt", "devid=0x1013", "1013",
     "f:39: has '1013', expected a node, a port or"},
};

static char *edited(const char *file, const char *from, const char *to, int64_t *bytes)
{
    char *text = NULL;
    struct err err;

    assert_int_equal(io_read_text(file, 1 << 20, &text, bytes, &err), 0);
    char *at = strstr(text, from), *new = mem_new((size_t)*bytes + strlen(to) + 1, 1);
    *bytes = sprintf(new, "%.*s%s%s", at ? (int)(at - text) : (int)*bytes, text, at ? to : "",
                     at ? at + strlen(from) : "");
    mem_free(text);
    return new;
}

static void changes(void **state)
{
    struct topo_ask ask = given("intra=1GB/s:1us,inter=1GB/s");
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        struct topo t = {0};
        struct err err = {0};
        int64_t bytes = 0;
        char *text = edited(changed[i].file, changed[i].from, changed[i].to, &bytes);
        int rc = topo_import_text(&t, "f", text, bytes, &ask, &err);
        if (strncmp(err.text, changed[i].want, strlen(changed[i].want)) ||
            (rc != 0) != (changed[i].want[0] != 0)) {
            print_error("%s, '%s' to '%s': said '%s'\n", changed[i].file, changed[i].from,
                        changed[i].to, err.text);
            wrong++;
        }
        assert_true(rc == 0 || (t.level == NULL && err.code == ERR_INPUT));
        topo_release(&t);
    }
    assert_int_equal(wrong, 0);
}

/* Every beginning of a file is a fabric, or is refused and says why; none is half a fabric. */
static void cuts(void **state)
{
    static const char *const files[] = {
        EXAMPLES "nccl.xml",          DATA "nccl-pairs.xml",     EXAMPLES "hwloc.xml",
        DATA "hwloc2-processors.xml", EXAMPLES "nvidia-smi.txt", EXAMPLES "ibnetdiscover.txt"};
    struct topo_ask ask = given("intra=1GB/s:1us,inter=1GB/s");

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct topo whole, t;
        struct err err;
        int64_t bytes = 0;
        char *text = edited(files[i], "\n", "\n", &bytes);
        assert_int_equal(import(files[i], &ask, &whole, &err), 0);
        for (int64_t n = 0; n < bytes; n++) {
            char *part = mem_new((size_t)n + 1, 1);
            memcpy(part, text, (size_t)n);
            t = (struct topo){0};
            err = (struct err){0};
            if (topo_import_text(&t, "f", part, n, &ask, &err))
                assert_true(err.text[0] && !t.level);
            else
                assert_int_equal(t.groups.ranks, whole.groups.ranks);
            topo_release(&t);
        }
        topo_release(&whole);
        mem_free(text);
    }
}

/* ---- what is asked ---- */

static void questions(void **state)
{
    static const struct {
        const char *file, *set, *hosts;
        int nodes, ranks;
        const char *want;
    } cases[] = {
        {EXAMPLES "nccl.xml", NULL, NULL, 0, 8,
         EXAMPLES "nccl.xml: counts 4 GPUs, a rank each: expected no --ranks"},
        {EXAMPLES "nccl.xml", NULL, "a,b", 3, 0,
         "--hosts names 2 machines, expected 3 as --nodes"},
        {EXAMPLES "nccl.xml", NULL, "a,a", 2, 0,
         "--hosts: 'a' is named twice, expected each host once"},
        {EXAMPLES "nccl.xml", NULL, "a[3-1]", 0, 0,
         "--hosts: '3-1' in brackets, expected numbers as 3 or 0-15"},
        {EXAMPLES "nccl.xml", NULL, "a[0-", 0, 0,
         "--hosts: 'a[0-', expected a ']' behind its '['"},
        {EXAMPLES "nccl.xml", NULL, "a b", 0, 0,
         "--hosts: 'a b', expected host names of letters, digits, '-', '_', '.' and ':'"},
        {EXAMPLES "nccl.xml", NULL, "a[0-9999999]", 0, 0,
         "--hosts: names more than 1048576 hosts"},
        {EXAMPLES "nccl.xml", NULL, NULL, 1 << 20, 0,
         "1048576 machines of 4 ranks, expected 1048576 ranks at most"},
        {EXAMPLES "nccl.xml", "level2=1GB/s", NULL, 2, 0,
         "level2 is given, but the fabric has 2 levels"},
        {EXAMPLES "hwloc.xml", "nvlink=1GB/s", NULL, 0, 0,
         EXAMPLES "hwloc.xml: counts no NVLinks, expected intra=RATE in the place of"
                  " nvlink=RATE"},
        {EXAMPLES "ibnetdiscover.txt", NULL, NULL, 2, 0,
         EXAMPLES
         "ibnetdiscover.txt: describes all hosts, expected neither --nodes nor nvlink= nor"
         " nic="},
        {EXAMPLES "ibnetdiscover.txt", NULL, "a,b", 0, 0,
         "--hosts names 2 machines, expected 4, one for each group"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo_ask ask = given(cases[i].set);
        struct topo t;
        struct err err;
        ask.nodes = cases[i].nodes;
        ask.ranks = cases[i].ranks;
        ask.hosts = cases[i].hosts;
        assert_int_equal(import(cases[i].file, &ask, &t, &err), -1);
        assert_string_equal(err.text, cases[i].want);
    }
}

static void set_words(void **state)
{
    static const char *const cases[][2] = {
        {"inter", "'inter', expected NAME=VALUE"},
        {"foo=1",
         "'foo', expected intra, inter, level2 to level7, nvlink, nic, memory or flops"},
        {"level8=1GB/s", "'level8', expected intra"},
        {"inter=12abc", "inter '12abc', expected a rate above 0"},
        {"inter=0", "inter '0', expected a rate above 0"},
        {"nic=-1", "nic '-1', expected a rate above 0"},
        {"inter=1GB/s,inter=2GB/s", "inter is given twice, expected once"},
        {"inter=1GB/s:-1us", "inter '-1us', expected a time"},
        {"", "'', expected NAME=VALUE"},
    };
    struct topo_given g = {0};
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo_given none = {0};
        assert_int_equal(topo_given_parse(&none, cases[i][0], &err), -1);
        assert_memory_equal(err.text, cases[i][1], strlen(cases[i][1]));
    }
    assert_int_equal(topo_given_parse(&g, "inter=:20us", &err), 0);
    assert_int_equal(topo_given_parse(&g, "intra=2GB/s/rank", &err), 0);
    assert_int_equal(topo_given_parse(&g, "intra=2GB/s", &err), -1); /* over two options too */
    struct topo t = {0};
    assert_int_equal(topo_parse_synth(&t, "2x2,inter=1GB/s:5us", &err), 0);
    assert_int_equal(topo_given_apply(&t, &g, 0, &err), 0);
    check_level(&t, 0, 2, 2, 2, 3);
    check_level(&t, 1, 1, 1, 0.5, 20);
    topo_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nccl_switch),   cmocka_unit_test(nccl_pairs),
        cmocka_unit_test(nccl_template), cmocka_unit_test(hwloc),
        cmocka_unit_test(smi),           cmocka_unit_test(ib),
        cmocka_unit_test(ib_tiers),      cmocka_unit_test(changes),
        cmocka_unit_test(cuts),          cmocka_unit_test(questions),
        cmocka_unit_test(set_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
