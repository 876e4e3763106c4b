/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what of hwloc's XML goes into NCCL's: processors, GPUs, network devices and the
 * switches above them, as a template has it.  hwloc states neither the compute capability nor
 * the speed of a port, and what NVLinks carry but not how many there are: none of that is made
 * up; NCCL finds out where it runs.
 *
 * A switch is two ports, an upper and some lower ones, each a bridge to hwloc; where a file has
 * left out the lower ones, several devices are below one bridge.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "topo/topo_machine.h"
#include "topo/topo_parts.h"

struct build {
    struct topo_parts *p;
    const struct xml *x;
    int fabrics; /* there are network devices of a fabric: those count, else all */
};

static const char *word(const struct xml_node *n, const char *attr)
{
    const char *text = n ? xml_find(n, attr) : NULL;

    return text ? text : "";
}

static int is_object(const struct xml_node *n, const char *type)
{
    return n && strcmp(n->name, "object") == 0 && strcmp(word(n, "type"), type) == 0;
}

static const char *info_of(const struct xml_node *n, const char *name)
{
    for (const struct xml_node *i = n ? n->child : NULL; i; i = i->next)
        if (strcmp(i->name, "info") == 0 && strcmp(word(i, "name"), name) == 0)
            return word(i, "value");
    return "";
}

/* ---- processors ---- */

/* "0xffffffff,0x0000ffff" without what C needs; "" where a mask has no end or does not fit. */
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

static int small(const char *text)
{
    struct err ignored;
    int64_t v = -1;

    return num_i64(text, 0, 4095, &v, &ignored) ? -1 : (int)v;
}

static void set_make(const struct build *b, const struct xml_node *n, struct topo_cpu *cpu)
{
    const char *arch = info_of(b->x->root, "Architecture");

    if (!arch[0])
        arch = info_of(b->x->root->child, "Architecture");
    arch = strcmp(arch, "aarch64") == 0 ? "arm64" : strncmp(arch, "ppc64", 5) ? arch : "ppc64";
    snprintf(cpu->arch, sizeof cpu->arch, "%s", arch);
    while (n && !is_object(n, "Package"))
        n = n->parent;
    for (int i = 0; !n && i < b->x->nodes; i++)
        if (is_object(&b->x->node[i], "Package"))
            n = &b->x->node[i];
    int family = small(info_of(n, "CPUFamilyNumber"));
    snprintf(cpu->vendor, sizeof cpu->vendor, "%s", info_of(n, "CPUVendor"));
    cpu->model = small(info_of(n, "CPUModelNumber"));
    cpu->family = family < 0 ? -1 : topo_nccl_family(family);
}

/* What a device hangs below: the nearest object with memory of its own, else the machine. */
static int cpu_of(struct build *b, const struct xml_node *device)
{
    struct topo_cpu cpu = {.numa = -1};
    const struct xml_node *n = device->parent, *at = NULL;
    int nodes = 0;

    for (; n && nodes == 0 && strcmp(n->name, "object") == 0; n = n->parent) {
        at = xml_find(n, "cpuset") ? n : at;
        for (const struct xml_node *c = n->child; c; c = c->next) {
            if (!is_object(c, "NUMANode"))
                continue;
            cpu.numa = small(word(c, "os_index"));
            nodes++;
        }
    }
    if (nodes != 1)
        cpu.numa = -1;
    put_affinity(cpu.affinity, word(at, "cpuset"));
    set_make(b, at, &cpu);
    for (int i = 0; i < b->p->cpus; i++)
        if (b->p->cpu[i].numa == cpu.numa && strcmp(b->p->cpu[i].affinity, cpu.affinity) == 0)
            return i;
    return topo_parts_cpu(b->p, &cpu);
}

/* ---- PCI ---- */

/*
 * hwloc states what all lanes carry: 31.5 GB/s are 16 lanes of generation 4, or 8 of 5, which
 * are the same to NCCL; 16 where that is possible.  Rates of generations are 1.6 % apart at the
 * least (2 with 16 lanes, 3 with 8), and files round to three digits.
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

/* "0302 [10de:20b0] [10de:144e] a1": class, and the ids of device and subsystem. */
static void set_type(struct topo_pci *pci, const char *type)
{
    unsigned class = 0, id[4] = {0};

    if (sscanf(type, "%4x [%4x:%4x] [%4x:%4x]", &class, &id[0], &id[1], &id[2], &id[3]) < 1)
        return;
    pci->class = class << 8;
    memcpy(pci->id, id, sizeof id);
}

/* Devices below a bridge; functions of one device are one. */
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

static const struct xml_node *switch_above(const struct xml_node *n)
{
    const struct xml_node *port = n->parent;

    if (!is_object(port, "Bridge"))
        return NULL;
    if (count_below(port) < 2)
        port = port->parent;
    return is_object(port, "Bridge") && xml_find(port, "pci_busid") ? port : NULL;
}

static int add_pci(struct build *b, const struct xml_node *n)
{
    const struct xml_node *above = switch_above(n);
    struct topo_pci pci = {.parent = -1};

    snprintf(pci.busid, sizeof pci.busid, "%.19s", word(n, "pci_busid"));
    int at = topo_parts_find(b->p, pci.busid);
    if (at >= 0)
        return at;
    pci.cpu = cpu_of(b, n);
    if (above)
        pci.parent = add_pci(b, above);
    set_type(&pci, word(n, "pci_type"));
    set_link(&pci, word(n, "pci_link_speed"));
    return topo_parts_pci(b->p, &pci);
}

/* ---- all ---- */

static int is_network(const struct build *b, const struct xml_node *n)
{
    int has_fabric = 0, has_port = 0;

    for (const struct xml_node *o = n->child; o; o = o->next) {
        has_fabric |= topo_hwloc_is_fabric(b->x, o);
        has_port |= topo_hwloc_is_network(b->x, o);
    }
    return b->fabrics ? has_fabric : has_port;
}

int topo_hwloc_parts(struct topo_parts *p, const struct xml *x, struct err *err)
{
    struct build b = {.p = p, .x = x};
    struct topo_machine m;

    topo_machine_init(&m, x->name);
    int rc = topo_hwloc_read(&m, x, 0, err), gpus = m.own_ranks, near = m.near;
    topo_machine_release(&m);
    if (rc)
        return -1;
    if (!gpus)
        return err_at(err, x->name, 0, NULL, "has no GPU in it, expected one at least");
    if (near)
        return err_at(err, x->name, 0, NULL,
                      "states what NVLinks carry and does not count them, as NCCL's XML does,"
                      " expected nvml:, or XML of NCCL");
    for (int i = 0; i < x->nodes; i++)
        b.fabrics |= topo_hwloc_is_fabric(x, &x->node[i]);
    for (int i = 0; i < x->nodes; i++) {
        const struct xml_node *n = &x->node[i];
        if (is_object(n, "PCIDev") && (topo_hwloc_is_gpu(x, n) || is_network(&b, n)))
            add_pci(&b, n);
    }
    return 0;
}
