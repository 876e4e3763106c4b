/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hwloc's XML: every figure worked out by hand beside it; and the same files with a line
 * changed, each with its message.
 */
#include "topo_import_fixture.h"

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
    assert_int_equal(t.device, TOPO_CUDA);
    topo_release(&t);
    /* One fabric device, which is not the Ethernet port that it shows as well. */
    struct topo_ask net = given("nic=25GB/s");
    net.nodes = 2;
    assert_int_equal(import(EXAMPLES "hwloc.xml", &net, &t, &err), 0);
    check_level(&t, 1, 25, 25, 12.5, 14);
    topo_release(&t);

    assert_int_equal(import(DATA "hwloc2-processors.xml", NULL, &t, &err), -1);
    assert_true(has_words(err.text, DATA "hwloc2-processors.xml: no rate intra expected --set"
                                         " intra=RATE:LATENCY"));
    assert_int_equal(import(DATA "hwloc2-processors.xml", &ask, &t, &err), 0);
    assert_int_equal(t.groups.ranks, 2); /* a NUMA node without processors is no rank */
    assert_int_equal(t.memory_bytes, 3000000000);
    assert_string_equal(t.host[0], "node7");
    assert_int_equal(t.device, TOPO_CPU);
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

/* The memory of a GPU of hwloc.xml that is edited; the other one has 32 GiB or 16 GiB. */
static void hwloc_sizes(void **state)
{
    static const struct {
        const char *from, *to;
        int64_t memory_bytes;
    } sizes[] = {
        {"value=\"33554432\"", "value=\"16671616KiB\"", INT64_C(16671616) * 1024},
        {"CUDAGlobalMemorySize\" value=\"16777216\"",
         "OpenCLGlobalMemorySize\" value=\"8388608\"", INT64_C(1) << 33},
        {"CUDAGlobalMemorySize\" value=\"16777216\"/>",
         "OpenCLGlobalMemorySize\" value=\"1\"/><info name=\"CUDAGlobalMemorySize\""
         " value=\"8388608KiB\"/>",
         INT64_C(1) << 33},
        {"CUDAGlobalMemorySize\" value=\"16777216\"", "GPUModel\" value=\"a\"", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct topo t = {0};
        struct err err = {0};
        int64_t bytes = 0;
        char *text = edited(EXAMPLES "hwloc.xml", sizes[i].from, sizes[i].to, &bytes);
        if (topo_import_text(&t, "f", text, bytes, NULL, &err))
            fail_msg("%s: %s", sizes[i].to, err.text);
        assert_int_equal(t.memory_bytes, sizes[i].memory_bytes);
        topo_release(&t);
    }
}

/* One of two GPUs is another maker's: no device that is known here. */
static void hwloc_makers(void **state)
{
    struct topo_ask ask = given("intra=5GB/s:1us");
    struct topo t = {0};
    struct err err = {0};
    int64_t bytes = 0;
    char *text = edited(EXAMPLES "hwloc.xml", "[10de:1db8]", "[1002:740c]", &bytes);

    (void)state;
    assert_int_equal(topo_import_text(&t, "f", text, bytes, &ask, &err), 0);
    assert_int_equal(t.groups.ranks, 2);
    assert_int_equal(t.device, TOPO_CPU);
    topo_release(&t);
}

/* ---- a changed line ---- */

static const struct change changed[] = {
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
};

static void changes(void **state)
{
    (void)state;
    CHECK_CHANGES(changed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hwloc),
        cmocka_unit_test(hwloc_sizes),
        cmocka_unit_test(hwloc_makers),
        cmocka_unit_test(changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
