/* SPDX-License-Identifier: BSD-3-Clause */
/* What a machine's links make of its ranks: PCIe trees, NVLink meshes and switches, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "topo/topo_machine.h"

/*
 *     processor 0 -- 30 -- processor 1
 *       | 100                 | 100
 *     switch (16 up)        switch (40 up)
 *      | 12    | 24          | 24    | 24
 *      0       1             2       3
 */
static void plant(struct topo_pcie *p)
{
    int root[2], bridge[2], up[2];
    static const double above[2] = {16, 40}, own[4] = {12, 24, 24, 24};

    *p = (struct topo_pcie){.between_Bps = 30};
    for (int i = 0; i < 2; i++) {
        root[i] = topo_pcie_add(p, -1, 0);
        bridge[i] = topo_pcie_add(p, root[i], 100);
        up[i] = topo_pcie_add(p, bridge[i], above[i]);
    }
    topo_pcie_add(p, up[0], 1); /* a slow link to what is no rank */
    for (int r = 0; r < 4; r++)
        topo_pcie_rank(p, topo_pcie_add(p, up[r / 2], own[r]));
}

static void pcie(void **state)
{
    struct topo_pcie p;

    (void)state;
    plant(&p);
    assert_int_equal(p.ranks, 4);
    assert_true(p.least_Bps == 12);
    /* One rail: each link is crossed once, the slowest is a rank's own. */
    assert_true(topo_pcie_ring_Bps(&p, 1) == 12);
    /* Two rails: 16 / 2 above the first switch; 30 / 2 from processor to processor. */
    assert_true(topo_pcie_ring_Bps(&p, 2) == 8);
    /* Three: a switch has no more than two ranks below it; 30 / 3 is more than 16 / 2. */
    assert_true(topo_pcie_ring_Bps(&p, 3) == 8);
    /* Eight: 30 / 8. */
    assert_true(topo_pcie_ring_Bps(&p, 8) == 3.75);
    p.between_Bps = 0; /* unknown: bounds nothing */
    assert_true(topo_pcie_ring_Bps(&p, 8) == 8);
    /* A rank whose own link is not known: nothing is. */
    topo_pcie_rank(&p, topo_pcie_add(&p, 0, 0));
    assert_true(topo_pcie_ring_Bps(&p, 1) == 0);
    topo_pcie_release(&p);

    /* All ranks below one switch: what is above it, 1, is not crossed. */
    p = (struct topo_pcie){.between_Bps = 1};
    int root = topo_pcie_add(&p, -1, 0), up = topo_pcie_add(&p, root, 1);
    for (int r = 0; r < 3; r++)
        topo_pcie_rank(&p, topo_pcie_add(&p, up, 10 + r));
    assert_true(topo_pcie_ring_Bps(&p, 1) == 10);
    topo_pcie_release(&p);
    /* A rank alone has its own link. */
    p = (struct topo_pcie){0};
    topo_pcie_rank(&p, topo_pcie_add(&p, topo_pcie_add(&p, -1, 0), 7));
    assert_true(topo_pcie_ring_Bps(&p, 1) == 7);
    topo_pcie_release(&p);
}

static void machine(struct topo_machine *m, int gpus)
{
    topo_machine_init(m, "f");
    topo_machine_gpus(m, gpus, TOPO_CUDA);
}

static void tie(struct topo_machine *m, int a, int b, double links)
{
    m->direct[a * m->ranks + b] = m->direct[b * m->ranks + a] = links;
}

static void near_links(void **state)
{
    struct topo_machine m;

    (void)state;
    /* 0-2-4 in a chain, 1 and 5 a pair, 3 alone. */
    machine(&m, 6);
    tie(&m, 0, 2, 4);
    tie(&m, 2, 4, 1);
    tie(&m, 1, 5, 2);
    topo_machine_near(&m);
    static const int domain[] = {0, 1, 0, 2, 0, 1};
    assert_memory_equal(m.domain, domain, sizeof domain);
    assert_int_equal(m.domains, 3);
    assert_true(m.near);
    assert_true(m.links == 1 && m.links_flow == 1); /* rank 4's: the least */
    topo_machine_release(&m);

    /* Two on a switch, of 6 and 8 links; the third beside it. */
    machine(&m, 3);
    m.to_switch[0] = 6;
    m.to_switch[2] = 8;
    topo_machine_near(&m);
    assert_int_equal(m.domains, 2);
    assert_int_equal(m.domain[2], 0);
    assert_true(m.links == 6 && m.links_flow == 6);
    topo_machine_links(&m, 20e9);
    assert_true(m.inside.port_Bps == 120e9 && m.inside.member_Bps == 120e9);
    /* PCIe joins the two groups; with two ranks in one of them there are two rails. */
    int up = topo_pcie_add(&m.pcie, -1, 0);
    for (int r = 0; r < 3; r++)
        topo_pcie_rank(&m.pcie, topo_pcie_add(&m.pcie, up, 10));
    topo_machine_pcie(&m, "stated");
    assert_true(m.across.port_Bps == 20 && m.across.member_Bps == 10);
    assert_true(m.inside.port_Bps == 120e9);
    topo_machine_release(&m);

    /* No link at all: one group. */
    machine(&m, 3);
    topo_machine_near(&m);
    assert_int_equal(m.domains, 1);
    assert_false(m.near);
    assert_int_equal(m.domain[2], 0);
    topo_machine_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pcie),
        cmocka_unit_test(near_links),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
