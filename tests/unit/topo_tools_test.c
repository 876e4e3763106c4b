/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests files that other tools write: every figure worked out by hand beside it; and the same
 * files with a line changed, each with its message.
 */
#include "unit.h"

#include "topo_fixture.h"

/* Files as they are, what is asked beside them, and the fabric: levels, groups, ranks, device,
 * memory, first and last host; of each level port, flow, member in GB/s and latency in us. */
static const struct {
    const char *file, *set, *hosts;
    int nodes, ranks, fill;
    const char *want, *doubt; /* doubt: words, or "" */
} cases[] = {
    /* 6 + 6 NVLinks of 20 GB/s (sm 80), all of them to one peer through the switch; 2 x 200
     * Gbit/s, but PCIe 16 GT/s x 16 is 24 GB/s to NCCL, less than 25. */
    {EXAMPLES "nccl.xml", NULL, NULL, 0, 0, 0, "2 1 4 cuda 0 - -; 240 240 240 3.4; 48 24 12 14",
     ""},
    {EXAMPLES "nccl.xml", NULL, "a,b[08-09]", 3, 0, 0,
     "2 3 12 cuda 0 a b09; 240 240 240 3.4; 48 24 12 14", ""},
    /* 4 NVLinks of 12 GB/s (sm 86).  PCIe 16 GT/s x 16 is 24 GB/s, of which a switch's way up
     * has two ranks: 12 each; but from one Skylake to the other 10 GB/s pass, for two.  The one
     * device that both processors list: 100 Gbit/s, 14 us and the 10 that it states. */
    {DATA "nccl-pairs.xml", NULL, NULL, 2, 0, 0,
     "3 4 8 cuda 0 - -; 48 48 48 3.4; 10 10 5 5.7; 12.5 12.5 3.125 24", ""},
    {DATA "nccl-pairs.xml", NULL, NULL, 0, 0, 0, "2 2 4 cuda 0 - -; 48 48 48 3.4; 10 10 5 5.7",
     ""},
    /* 32 GT/s x 16 */
    {DATA "nccl-template.xml", NULL, NULL, 0, 0, 0,
     "2 1 2 cuda 0 - -; 48 48 48 5.7; 48 48 48 5.7", "NVLink --set intra=RATE"},
    /* two devices, two ranks */
    {DATA "nccl-template.xml", "intra=370GB/s,nic=400Gbit/s", NULL, 2, 0, 0,
     "2 2 4 cuda 0 - -; 370 370 370 5.7; 100 50 50 14", ""},
    /* An option that only completes leaves what the file gives. */
    {DATA "nccl-template.xml", "intra=370GB/s,inter=1GB/s,memory=80e9,flops=1e14", NULL, 2, 0,
     1, "2 2 4 cuda 80000000000 - -; 48 48 48 5.7; 1 1 0.5 14", "NVLink --set intra=RATE"},
    /* 150,000 MB/s to the switch; the console's chip is no GPU */
    {EXAMPLES "hwloc.xml", NULL, NULL, 0, 0, 0,
     "2 1 2 cuda 17179869184 dgx-7 dgx-7; 150 150 150 3.4; 150 150 150 3.4", ""},
    /* One fabric device, which is not the Ethernet port that it shows as well. */
    {EXAMPLES "hwloc.xml", "nic=25GB/s", NULL, 2, 0, 0,
     "2 2 4 cuda 17179869184 - -; 150 150 150 3.4; 25 25 12.5 14", ""},
    /* A NUMA node without processors is no rank. */
    {DATA "hwloc2-processors.xml", "intra=5GB/s:1us", NULL, 0, 0, 0,
     "2 1 2 cpu 3000000000 node7 node7; 5 5 5 1; 5 5 5 1", ""},
    /* one Ethernet port */
    {DATA "hwloc2-processors.xml", "intra=5GB/s:1us,nic=125MB/s", NULL, 2, 4, 0,
     "2 2 8 cpu 1750000000 - -; 5 5 5 1; 0.125 0.125 0.03125 14", ""},
    /* NV18 to each of three others is more than a GPU has: a switch, 18 x 20. */
    {EXAMPLES "nvidia-smi.txt", "nvlink=20GB/s,nic=400Gbit/s", NULL, 2, 0, 0,
     "2 2 8 cuda 0 - -; 360 360 360 3.4; 100 50 25 14", ""},
    {DATA "smi-pairs.txt", "nvlink=25GB/s,inter=10GB/s", NULL, 0, 0, 0,
     "2 2 4 cuda 0 - -; 100 100 100 3.4; 10 10 5 5.7", ""},
    /* 4xEDR carries 100 Gbit/s; node10 has two of them; a leaf has two up to the spine. */
    {EXAMPLES "ibnetdiscover.txt", NULL, NULL, 0, 0, 0,
     "3 4 4 cpu 0 node2 node10; 12.5 12.5 12.5 14; 12.5 12.5 12.5 14; 25 12.5 12.5 14", ""},
    {EXAMPLES "ibnetdiscover.txt", "intra=200GB/s:3us", NULL, 0, 8, 0,
     "3 4 32 cpu 0 node2 node10; 200 200 200 3; 12.5 12.5 1.5625 14; 25 12.5 1.5625 14", ""},
};

TEST(files)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo_settings settings = given(cases[i].set);
        struct topo t;
        char text[256];
        settings.nodes = cases[i].nodes;
        settings.ranks = cases[i].ranks;
        settings.hosts = cases[i].hosts;
        settings.fill = cases[i].fill;
        if (import(cases[i].file, &settings, &t))
            fail_msg("case %zu: %s", i, err.text);
        const char *first = t.host[0], *last = t.host[t.groups.count - 1];
        int n = sprintf(text, "%d %d %d %s %lld %s %s", t.levels, t.groups.count,
                        t.groups.ranks, topo_device_name(t.device), (long long)t.memory_bytes,
                        *first ? first : "-", *last ? last : "-");
        for (int l = 0; l < t.levels; l++)
            n += sprintf(text + n, "; %.12g %.12g %.12g %.12g", t.level[l].port_Bps / 1e9,
                         t.level[l].flow_Bps / 1e9, t.level[l].member_Bps / 1e9,
                         t.level[l].latency_s * 1e6);
        assert_string_equal(text, cases[i].want);
        assert_true(has_words(t.open, cases[i].doubt) && !t.open[0] == !cases[i].doubt[0]);
        assert_true(t.flops == (cases[i].fill ? 1e14 : 0));
        topo_release(&t);
    }
}

/* Ports, blocks and members where there is more than rates; and nobody to hear of a doubt. */
TEST(parts)
{
    static const char *const hosts[] = {"node2", "node9", "node1", "node10"};
    struct topo_settings two = {.nodes = 2}, settings = given("nvlink=25GB/s,inter=10GB/s");
    struct topo t;

    assert_ok(import(DATA "nccl-pairs.xml", &two, &t));
    assert_true(t.port[3].out_Bps == 10e9 && t.block[0] == 0 && t.block[3] == 1);
    topo_release(&t);
    assert_ok(import(DATA "smi-pairs.txt", &settings, &t));
    assert_true(t.groups.group_of[0] == 0 && t.groups.group_of[1] == 1 &&
                t.groups.group_of[2] == 0);
    assert_string_equal(t.level[0].rate_source, "");
    topo_release(&t);
    assert_ok(import(EXAMPLES "ibnetdiscover.txt", NULL, &t));
    for (int k = 0; k < 4; k++) {
        assert_string_equal(t.host[k], hosts[k]);
        assert_int_equal(t.block[k], k / 2);
    }
    assert_true(t.port[3].out_Bps == 25e9 && t.port[2].in_Bps == 12.5e9);
    topo_release(&t);
    assert_refused(topo_read(&t, DATA "nccl-template.xml", &err),
                   "nccl-template.xml: NVLink expected 'paro-topo -i FILE'");
    assert_string_equal(err.file, DATA "nccl-template.xml");
    assert_ok(import(DATA "nccl-template.xml", NULL, &t));
    assert_words(t.level[1].rate_source, "one group intra");
    topo_release(&t);
}

/* Two GPUs on PCIe whose file lists `links`, and states a speed or none. */
static int read_two(struct topo *t, const char *links, const char *speed)
{
    static const char form[] =
        "<system version=\"1\">\n<cpu numaid=\"0\">\n"
        "<pci busid=\"0001:00:00.0\" %2$s>\n<gpu dev=\"0\" sm=\"80\">%1$s</gpu></pci>\n"
        "<pci busid=\"0002:00:00.0\" %2$s>\n<gpu dev=\"1\" sm=\"80\"/></pci>\n"
        "</cpu></system>\n";
    char *text = mem_new(4096, 1);
    int n = snprintf(text, 4096, form, links, speed);

    *t = (struct topo){0};
    err = (struct err){0};
    return topo_import_text(t, "f", text, n, NULL, &err);
}

#define SPEED "link_speed=\"16.0 GT/s PCIe\" link_width=\"16\""

/* Without links PCIe is taken, which is said; a link to itself tells of none. */
TEST(nccl_without_links)
{
    struct topo t;

    assert_ok(read_two(&t, "", SPEED));
    check_level(&t, 0, 24, 24, 24, 5.7);
    assert_true(has_words(t.level[0].rate_source, "no NVLink"));
    assert_string_equal(t.open, "");
    topo_release(&t);
    const char *own = "<nvlink target=\"0001:00:00.0\" count=\"12\" tclass=\"0x030200\"/>";
    assert_ok(read_two(&t, own, SPEED));
    check_level(&t, 0, 24, 24, 24, 5.7);
    assert_true(has_words(t.open, "NVLink --set intra=RATE"));
    topo_release(&t);
    /* A figure that the file leaves out is reported with its line. */
    assert_int_equal(read_two(&t, "", "link_speed=\"\" link_width=\"0\""), -1);
    assert_true(has_words(err.text, "f:3: no rate intra PCIe"));
    assert_int_equal(err.line, 3);
}

/* A GPU of hwloc.xml that is edited; the other one has 32 GiB or 16 GiB. */
TEST(hwloc_sizes)
{
    static const struct {
        const char *from, *to;
        int64_t memory_bytes;
        enum topo_device device;
    } sizes[] = {
        {"value=\"33554432\"", "value=\"16671616KiB\"", INT64_C(16671616) * 1024, TOPO_CUDA},
        {"CUDAGlobalMemorySize\" value=\"16777216\"",
         "OpenCLGlobalMemorySize\" value=\"8388608\"", INT64_C(1) << 33, TOPO_CUDA},
        {"CUDAGlobalMemorySize\" value=\"16777216\"/>",
         "OpenCLGlobalMemorySize\" value=\"1\"/><info name=\"CUDAGlobalMemorySize\""
         " value=\"8388608KiB\"/>",
         INT64_C(1) << 33, TOPO_CUDA},
        {"CUDAGlobalMemorySize\" value=\"16777216\"", "GPUModel\" value=\"a\"", 0, TOPO_CUDA},
        /* One of two GPUs is another maker's: no device that is known here. */
        {"[10de:1db8]", "[1002:740c]", INT64_C(16777216) * 1024, TOPO_CPU},
    };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct topo t = {0};
        int64_t bytes = 0;
        char *text = edited(EXAMPLES "hwloc.xml", sizes[i].from, sizes[i].to, &bytes);
        if (topo_import_text(&t, "f", text, bytes, NULL, &err))
            fail_msg("%s: %s", sizes[i].to, err.text);
        assert_int_equal(t.memory_bytes, sizes[i].memory_bytes);
        assert_int_equal(t.device, sizes[i].device);
        topo_release(&t);
    }
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

    int n = snprintf(text, 4096, form, core);
    assert_ok(topo_import_text(t, "ib", text, n, NULL, &err));
}

TEST(ib_tiers)
{
    struct topo t;

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
TEST(ib_products)
{
    static const char text[] =
        "Switch 4 \"S-10\" # \"l0\"\n[1] \"H-1\"[1] # \"\" lid 1 4xHDR\n"
        "[2] \"H-2\"[1] # \"\" lid 1 4xHDR\n[3] \"H-3\"[1] # \"\" lid 1 4xHDR\n"
        "Ca 1 \"H-1\" # \"MT4123 ConnectX6 Mellanox Technologies\"\n"
        "[1](1) \"S-10\"[1] # lid 1 4xHDR\n"
        "Ca 1 \"H-2\" # \"MT4123 ConnectX6 Mellanox Technologies\"\n"
        "[1](2) \"S-10\"[2] # lid 1 4xHDR\n"
        "Ca 1 \"H-3\" # \"node7 mlx5_0\"\n[1](3) \"S-10\"[3] # lid 1 4xHDR\n";
    struct topo_settings named = {.hosts = "a,b,c"};
    struct topo t;

    assert_ok(topo_import_text(&t, "ib", mem_dup(text), sizeof text - 1, NULL, &err));
    assert_int_equal(t.groups.count, 3);
    assert_true(has_words(t.open, "ib: 2 adapters host --node-name-map"));
    topo_release(&t);
    assert_ok(topo_import_text(&t, "ib", mem_dup(text), sizeof text - 1, &named, &err));
    assert_string_equal(t.open, "");
    topo_release(&t);
}

/* 4xFDR: 4 x 14.0625 Gbaud, 64 of 66 bits; 54.545 Gbit/s, 6.818 GB/s. */
TEST(coding)
{
    struct topo t;
    int64_t bytes = 0;
    char *text = edited(EXAMPLES "ibnetdiscover.txt", "\n", "\n", &bytes);

    for (char *p = text; (p = strstr(p, "4xEDR"));)
        memcpy(p, "4xFDR", 5);
    assert_ok(topo_import_text(&t, "f", text, bytes, NULL, &err));
    assert_true(fabs(t.level[1].port_Bps - 6818181818.1818) < 1);
    topo_release(&t);
}

static const struct change changed[] = {
    /* NCCL's topology XML */
    {EXAMPLES "nccl.xml", "version=\"1\"", "version=\"2\"",
     "f:1: 'system.version' '2' expected 1 1"},
    {EXAMPLES "nccl.xml", "version=\"1\"", "", "f:1: 'system.version' missing expected"},
    {EXAMPLES "nccl.xml", "<system", "<sistem", "f:44: not XML mismatched tag <sistem> line 1"},
    {EXAMPLES "nccl.xml", "rank=\"1\"", "rank=\"0\"", "f:11: 'gpu.rank' 0 line 5 expected"},
    {EXAMPLES "nccl.xml", "rank=\"1\"", "rank=\"1x\"",
     "f:11: 'gpu.rank' '1x' expected -1 2147483647"},
    {EXAMPLES "nccl.xml", "count=\"6\"", "count=\"-6\"",
     "f:6: 'nvlink.count' '-6' expected 0 1000"},
    {EXAMPLES "nccl.xml", " count=\"6\"", "", "f:6: 'nvlink.count' missing expected"},
    {EXAMPLES "nccl.xml", "target=\"0000:c4:00.0\" ", "",
     "f:6: 'nvlink.target' missing expected"},
    {EXAMPLES "nccl.xml", "16.0 GT/s PCIe", "17 GT/s",
     "f:3: 'pci.link_speed' '17 GT/s' expected 2.5 5 8 16 32 64 GT/s"},
    {EXAMPLES "nccl.xml", "link_width=\"16\"", "link_width=\"x16\"",
     "f:3: 'pci.link_width' 'x16' expected 0 32"},
    {EXAMPLES "nccl.xml", "0000:0f:00.0", "0000:07:00.0",
     "f:10: 'pci.busid' '0000:07:00.0' line 4 expected GPU"},
    {EXAMPLES "nccl.xml", "speed=\"200000\"", "speed=\"fast\"",
     "f:18: 'net.speed' 'fast' expected -1 2147483647"},
    {EXAMPLES "nccl.xml", "dev=\"1\" speed", "dev=\"0\" speed",
     "f:39: 'net.dev' 0 line 18 name speed expected"},
    {EXAMPLES "nccl.xml", "latency=\"0.000000\"", "latency=\"nan\"",
     "f:18: 'net.latency' 'nan' expected 0 1e+06"},
    {DATA "nccl-pairs.xml", "0000:1A:00.0\" count=\"4\"", "0000:1A:00.0\" count=\"3\"",
     "f:6: 'gpu' 3 NVLinks GPU 4 back expected"},
    {DATA "nccl-template.xml", "0x030200", "0x040200",
     ""}, /* one GPU is left, and a level that nothing passes */
    /* hwloc's XML */
    {EXAMPLES "hwloc.xml", "version=\"3.0\"", "version=\"4.0\"",
     "f:3: 'topology.version' '4.0' expected 2.0 3.0"},
    {EXAMPLES "hwloc.xml", " version=\"3.0\"", "",
     "f:3: 'topology.version' missing expected 2.0 3.0 hwloc 1"},
    {EXAMPLES "hwloc.xml", "nbobjs=\"3\"", "nbobjs=\"4\"",
     "f:39: 'distances2hetero.nbobjs' 4 3 'indexes'"},
    {EXAMPLES "hwloc.xml", "nbobjs=\"3\"", "nbobjs=\"2\"",
     "f:39: 'distances2hetero.nbobjs' 2 more"},
    {EXAMPLES "hwloc.xml", "nbobjs=\"3\"", "nbobjs=\"99999999\"",
     "f:39: 'distances2hetero.nbobjs' '99999999' expected 1 2048"},
    {EXAMPLES "hwloc.xml", "0 0 150000 0", "0 0 150e3 0",
     "f:42: 'u64values' '150e3' expected 0 1099511627776"},
    {EXAMPLES "hwloc.xml", "0 0 150000 0", "0 0 150000",
     "f:39: 'distances2hetero' 2 expected 3 3"},
    {EXAMPLES "hwloc.xml", "value=\"33554432\"", "value=\"32 GB\"",
     "f:12: 'info.value' '32 GB' expected size 1"},
    {EXAMPLES "hwloc.xml", "value=\"33554432\"", "value=\"9999999999999999KiB\"",
     "f:12: 'info.value' '9999999999999999KiB' expected size 1"},
    {EXAMPLES "hwloc.xml", " SYSTEM \"hwloc2.dtd\">", " [<!ENTITY a \"b\">]>",
     "f:2: entities expected"},
    {DATA "hwloc2-processors.xml", "local_memory=\"3000000000\"", "local_memory=\"3 GB\"",
     "f:12: 'object.local_memory' '3 GB' expected 0"},
    /* nvidia-smi topo -m */
    {DATA "smi-pairs.txt", "NV4     SYS     0-15", "NV4     SYSTEM  0-15",
     "f:2: 'SYSTEM' 'GPU3' expected X SYS NODE PHB PXB PIX NV 0"},
    {DATA "smi-pairs.txt", "NV4     SYS     0-15", "NV0     SYS     0-15", "f:2: 'NV0'"},
    {DATA "smi-pairs.txt", "NV4     SYS     0-15", "NV5     SYS     0-15",
     "f:4: 4 NVLinks 'GPU2' 'GPU0' 2 5 expected"},
    {DATA "smi-pairs.txt", "NV4     SYS     0-15            0\n", "NV4\n", "f:2: 3 expected 4"},
    {DATA "smi-pairs.txt", "GPU1    SYS      X", "GPU0    SYS      X",
     "f:3: row 'GPU0' line 2 expected"},
    {DATA "smi-pairs.txt", "GPU1    SYS      X", "GPU7    SYS      X", "f:3: 'GPU7' expected"},
    {DATA "smi-pairs.txt", "GPU0    GPU1    GPU2", "GPU0    GPU0    GPU2",
     "f:1: 'GPU0' twice expected"},
    {DATA "smi-pairs.txt", "GPU1    SYS      X", "GPU1     X      SYS",
     "f:3: 'X' 'GPU0' expected X 'GPU1'"},
    {DATA "smi-pairs.txt", "GPU3    SYS     NV4     SYS      X      16-31           1\n", "",
     "f:4: 'GPU3' expected"},
    /* ibnetdiscover */
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

TEST(changes)
{
    struct topo_settings settings = given("intra=1GB/s:1us,inter=1GB/s");

    check_changes(changed, sizeof changed / sizeof *changed, &settings);
}
