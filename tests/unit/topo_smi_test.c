/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of `nvidia-smi topo -m`: every figure worked out by hand beside it; and the same
 * file with a line changed, each with its message.
 */
#include "topo_import_fixture.h"

static void smi(void **state)
{
    struct topo_ask ask = given("nvlink=20GB/s,nic=400Gbit/s");
    struct topo t;
    struct err err;

    (void)state;
    ask.nodes = 2;
    assert_int_equal(import(EXAMPLES "nvidia-smi.txt", &ask, &t, &err), 0);
    assert_int_equal(t.device, TOPO_CUDA);
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
    assert_true(has_words(err.text, DATA "smi-pairs.txt: no rate inter PCIe expected --set"
                                         " inter=RATE"));
    ask.given.nic_Bps = 1e9;
    assert_int_equal(import(DATA "smi-pairs.txt", &ask, &t, &err), -1);
    assert_true(has_words(err.text, DATA "smi-pairs.txt: network devices expected inter=RATE"
                                         " nic=RATE"));
}

/* ---- a changed line ---- */

static const struct change changed[] = {
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
};

static void changes(void **state)
{
    (void)state;
    CHECK_CHANGES(changed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smi),
        cmocka_unit_test(changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
