/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's topology XML: every figure worked out by hand beside it; and the same files with a
 * line changed, each with its message.
 */
#include "topo_import_fixture.h"

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
    assert_int_equal(t.device, TOPO_CUDA);
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
    assert_true(has_words(t.level[1].rate_source, "one group intra"));
    assert_true(has_words(t.doubt, "NVLink --set intra=RATE"));
    topo_release(&t);
    assert_int_equal(topo_read(&t, DATA "nccl-template.xml", &err), -1);
    assert_true(has_words(err.text, "nccl-template.xml: NVLink expected 'paro-topo -i FILE'"));
    assert_string_equal(err.file, DATA "nccl-template.xml");
    ask.nodes = 2;
    assert_int_equal(import(DATA "nccl-template.xml", &ask, &t, &err), 0);
    check_level(&t, 0, 370, 370, 370, 5.7);
    check_level(&t, 1, 100, 50, 50, 14); /* two devices, two ranks */
    assert_string_equal(t.level[0].rate_source, "");
    assert_string_equal(t.doubt, "");
    topo_release(&t);
    ask = (struct topo_ask){.nodes = 2};
    assert_int_equal(import(DATA "nccl-template.xml", &ask, &t, &err), -1);
    assert_true(has_words(err.text, DATA "nccl-template.xml: no rate inter machines expected"
                                         " --set inter=RATE --set nic=RATE"));
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

/* Two GPUs on PCIe whose file lists `links`, and states a speed or none. */
static int read_two(struct topo *t, const char *links, const char *speed, struct err *err)
{
    static const char form[] =
        "<system version=\"1\">\n<cpu numaid=\"0\">\n"
        "<pci busid=\"0001:00:00.0\" %2$s>\n<gpu dev=\"0\" sm=\"80\">%1$s</gpu></pci>\n"
        "<pci busid=\"0002:00:00.0\" %2$s>\n<gpu dev=\"1\" sm=\"80\"/></pci>\n"
        "</cpu></system>\n";
    char *text = mem_new(4096, 1);
    int n = snprintf(text, 4096, form, links, speed);

    *t = (struct topo){0};
    *err = (struct err){0};
    return topo_import_text(t, "f", text, n, NULL, err);
}

#define SPEED "link_speed=\"16.0 GT/s PCIe\" link_width=\"16\""

/* Without links PCIe is taken, which is said; a link to itself tells of none. */
static void nccl_without_links(void **state)
{
    struct topo t;
    struct err err;

    (void)state;
    assert_int_equal(read_two(&t, "", SPEED, &err), 0);
    check_level(&t, 0, 24, 24, 24, 5.7);
    assert_true(has_words(t.level[0].rate_source, "no NVLink"));
    assert_string_equal(t.doubt, "");
    topo_release(&t);
    const char *own = "<nvlink target=\"0001:00:00.0\" count=\"12\" tclass=\"0x030200\"/>";
    assert_int_equal(read_two(&t, own, SPEED, &err), 0);
    check_level(&t, 0, 24, 24, 24, 5.7);
    assert_true(has_words(t.doubt, "NVLink --set intra=RATE"));
    topo_release(&t);
    /* What the file leaves out is told with its line. */
    assert_int_equal(read_two(&t, "", "link_speed=\"\" link_width=\"0\"", &err), -1);
    assert_true(has_words(err.text, "f:3: no rate intra PCIe"));
    assert_int_equal(err.line, 3);
}

/* ---- a changed line ---- */

static const struct change changed[] = {
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
};

static void changes(void **state)
{
    (void)state;
    CHECK_CHANGES(changed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nccl_switch),   cmocka_unit_test(nccl_pairs),
        cmocka_unit_test(nccl_template), cmocka_unit_test(nccl_without_links),
        cmocka_unit_test(changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
