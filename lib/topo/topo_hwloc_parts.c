/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts hwloc's XML to NCCL's: processors, GPUs, network devices and the switches above
 * them, as a template has it.  hwloc states neither the compute capability nor the speed of a
 * port, and the bandwidth of NVLinks but not their number.  These values are left out; NCCL
 * determines them where it runs.
 *
 * To hwloc a switch is one upper and several lower ports, each a bridge; in a file without the
 * lower ones several devices are below one bridge.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "topo/topo_machine.h"
#include "topo/topo_parts.h"

struct build {
    struct xml *parts;
    const struct xml *x;
    enum topo_osdev nets;
};

/* ---- processors ---- */

/* "0xffffffff,0x0000ffff" without "0x"; "" if the mask is infinite or does not fit. */
static void put_affinity(char affinity[256], const char *cpuset)
{
    size_t used = 0;

    affinity[0] = 0;
    if (strstr(cpuset, "..."))
        return;
    for (const char *at = cpuset; *at; at += *at == ',') {
        char *end = NULL;
        unsigned long v = strtoul(at, &end, 16);
        size_t n = strcspn(at, ",");
        if (end != at + n || v > UINT32_MAX || used + 10 > 256) {
            affinity[0] = 0;
            return;
        }
        used += (size_t)sprintf(affinity + used, "%s%08lx", used ? "," : "", v);
        at += n;
    }
}

static int small_number(const char *text)
{
    struct err ignored;
    int64_t v = -1;

    return num_i64(text, 0, 4095, &v, &ignored) ? -1 : (int)v;
}

/* Finds the parent of a device: the nearest object with memory of its own, else the machine. */
static struct xml_node *hwloc_parts_cpu_of(struct build *b, const struct xml_node *device)
{
    struct topo_cpu cpu = {.numa = -1};
    char numa[16];
    const struct xml_node *n = device->parent, *at = NULL;
    int nodes = 0;

    for (; n && nodes == 0 && strcmp(n->name, "object") == 0; n = n->parent) {
        at = xml_find(n, "cpuset") ? n : at;
        for (const struct xml_node *c = n->child; c; c = c->next) {
            if (!topo_hwloc_is_object(c, "NUMANode"))
                continue;
            cpu.numa = small_number(xml_word(c, "os_index"));
            nodes++;
        }
    }
    if (nodes != 1)
        cpu.numa = -1;
    put_affinity(cpu.affinity, xml_word(at, "cpuset"));
    const char *arch = topo_hwloc_info(b->x->root, "Architecture");
    if (!arch[0])
        arch = topo_hwloc_info(b->x->root->child, "Architecture");
    arch = strcmp(arch, "aarch64") == 0 ? "arm64" : strncmp(arch, "ppc64", 5) ? arch : "ppc64";
    snprintf(cpu.arch, sizeof cpu.arch, "%s", arch);
    const struct xml_node *package = at;
    while (package && !topo_hwloc_is_object(package, "Package"))
        package = package->parent;
    for (const struct xml_node *o = b->x->root; !package && o; o = xml_after(o))
        if (topo_hwloc_is_object(o, "Package"))
            package = o;
    int family = small_number(topo_hwloc_info(package, "CPUFamilyNumber"));
    snprintf(cpu.vendor, sizeof cpu.vendor, "%s", topo_hwloc_info(package, "CPUVendor"));
    cpu.model = small_number(topo_hwloc_info(package, "CPUModelNumber"));
    cpu.family = family < 0 ? -1 : topo_nccl_family(family);
    snprintf(numa, sizeof numa, "%d", cpu.numa);
    for (struct xml_node *old = b->parts->root->child; old; old = old->next)
        if (xml_has(old, "numaid", numa) &&
            strcmp(xml_word(old, "affinity"), cpu.affinity) == 0)
            return old;
    return topo_parts_cpu(b->parts, &cpu);
}

/* ---- PCI ---- */

/*
 * hwloc states the rate of all lanes together: 31.5 GB/s are 16 lanes of generation 4 or 8 of
 * generation 5, which NCCL treats alike; 16 are assumed where possible.  Rates of generations
 * differ by at least 1.6 % (2 with 16 lanes, 3 with 8), and files round to three digits.
 */
static void set_link(struct topo_pci *pci, const char *speed)
{
    static const double GTps[] = {2.5, 5, 8, 16, 32};
    static const int lanes[] = {16, 8, 4, 2, 1, 32, 12};
    struct err ignored;
    double GBps = 0;

    if (num_f64(speed, 0, 1e6, &GBps, &ignored) || GBps <= 0)
        return;
    for (size_t w = 0; w < sizeof lanes / sizeof *lanes; w++) {
        for (size_t g = 0; g < sizeof GTps / sizeof *GTps; g++) {
            double coded = GTps[g] < 8 ? 8.0 / 10 : 128.0 / 130;
            if (fabs(GTps[g] * coded / 8 * lanes[w] - GBps) > 0.005 * GBps)
                continue;
            pci->GTps = GTps[g];
            pci->lanes = lanes[w];
            return;
        }
    }
}

/* Counts devices below a bridge; the functions of one device count once. */
static int count_below(const struct xml_node *bridge)
{
    const char *first = NULL;
    int count = 0;

    for (const struct xml_node *c = bridge->child; c; c = c->next) {
        const char *busid = xml_find(c, "pci_busid");
        if (!busid || (first && strncmp(busid, first, strcspn(first, ".")) == 0))
            continue;
        first = first ? first : busid;
        count++;
    }
    return count;
}

static struct xml_node *add_pci(struct build *b, const struct xml_node *n)
{
    const struct xml_node *above = n->parent;
    struct topo_pci pci = {.busid = ""};

    if (topo_hwloc_is_object(above, "Bridge") && count_below(above) < 2)
        above = above->parent;
    if (!topo_hwloc_is_object(n->parent, "Bridge") || !topo_hwloc_is_object(above, "Bridge") ||
        !xml_find(above, "pci_busid"))
        above = NULL;
    snprintf(pci.busid, sizeof pci.busid, "%.19s", xml_word(n, "pci_busid"));
    struct xml_node *at = topo_parts_find(b->parts, pci.busid);
    if (at)
        return at;
    struct xml_node *cpu = hwloc_parts_cpu_of(b, n), *parent = above ? add_pci(b, above) : cpu;
    /* "0302 [10de:20b0] [10de:144e] a1": class, and the ids of device and subsystem. */
    sscanf(xml_word(n, "pci_type"), "%4x [%4x:%4x] [%4x:%4x]", &pci.class, &pci.id[0],
           &pci.id[1], &pci.id[2], &pci.id[3]);
    pci.class <<= 8;
    set_link(&pci, xml_word(n, "pci_link_speed"));
    return topo_parts_pci(b->parts, parent, &pci);
}

/* ---- all ---- */

int topo_hwloc_parts(struct xml *x, const struct xml *hwloc, struct err *err)
{
    struct build b = {.parts = x, .x = hwloc, .nets = topo_hwloc_nets(hwloc)};
    struct topo_machine m;

    topo_machine_init(&m, hwloc->name);
    int rc = topo_hwloc_read(&m, hwloc, 0, err), gpus = m.own_ranks, linked = m.linked;
    topo_machine_release(&m);
    if (rc)
        return -1;
    if (!gpus)
        return err_at(err, hwloc->name, 0, NULL, "has no GPU in it, expected one at least");
    if (linked)
        return err_at(err, hwloc->name, 0, NULL,
                      "states what NVLinks carry and does not count them, as NCCL's XML does,"
                      " expected nvml:, or XML of NCCL");
    *x = (struct xml){.name = mem_dup(hwloc->name)};
    xml_set(xml_add(x, NULL, "system"), "version", "1");
    /* GPUs, and devices with a network port. */
    for (const struct xml_node *n = hwloc->root; n; n = xml_after(n)) {
        int is_network = 0;
        for (const struct xml_node *o = n->child; o; o = o->next)
            is_network |= topo_hwloc_is_osdev(hwloc, o, b.nets);
        if (topo_hwloc_is_object(n, "PCIDev") && (is_network || topo_hwloc_is_gpu(hwloc, n)))
            add_pci(&b, n);
    }
    return 0;
}
