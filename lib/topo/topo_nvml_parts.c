/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes a machine from NVML's answers and the kernel's files: the processor closest to each
 * GPU, the switches above it, the ends of its NVLinks.
 *
 * The kernel's tree of PCI devices is exact.  Where it is not visible, NVML reports the level
 * that joins two GPUs: one switch, several switches, or further up.  GPUs joined by one switch
 * get a switch, and those joined by several get another above it.  Their bus ids are
 * ffff:ff:.., as in Azure's templates for devices that a virtual machine hides, and the rates
 * of the links above them are unknown.
 */
#include <string.h>

#include "base/mem.h"
#include "topo/topo_parts.h"

enum { CLASS_GPU = 0x030200, CLASS_SWITCH = 0x060400, CLASS_NVSWITCH = 0x068000 };
enum { CLASS_PROCESSOR = 0x068001 }; /* a POWER processor at the end of an NVLink */
enum { CLASS_NETWORK = 0x020700 };

struct gpu {
    struct xml_node *cpu, *node;
    int numa;                       /* NUMA node of cpu, -1: unknown */
    struct xml_node *upper, *lower; /* hidden switches that this GPU represents, or NULL */
};

struct build {
    struct xml *x;
    const struct topo_nvml *n;
    const char *root;
    struct gpu *gpu; /* [n->gpus], owned */
    int hidden;      /* number of switches without a bus id */
};

static int meeting_level(const struct build *b, int i, int j)
{
    return i == j ? 0 : b->n->common[i * b->n->gpus + j];
}

/* ---- processors ---- */

/* Whether GPUs i and j share a processor: the same node, or without nodes the same mask, and no
   link level that contradicts it. */
static int are_linked(const struct build *b, int i, int numa, int j)
{
    const struct topo_nvml_gpu *g = b->n->gpu;

    if (numa >= 0 || b->gpu[j].numa >= 0)
        return numa == b->gpu[j].numa;
    return memcmp(g[i].cpus, g[j].cpus, sizeof g[i].cpus) == 0 &&
           meeting_level(b, i, j) <= TOPO_NVML_NODE;
}

static void find_cpu(struct build *b, int i)
{
    const struct topo_nvml_gpu *g = &b->n->gpu[i];
    struct topo_cpu cpu = {.numa = g->numa};

    if (cpu.numa < 0)
        cpu.numa = topo_sysfs_numa(b->root, g->busid);
    b->gpu[i].numa = cpu.numa;
    for (int j = 0; j < i; j++) {
        if (!are_linked(b, i, cpu.numa, j))
            continue;
        b->gpu[i].cpu = b->gpu[j].cpu;
        return;
    }
    /* Masks of processors as the kernel prints them: words of 32 bits, the highest first. */
    for (int w = TOPO_NVML_CPUS / 32, used = 0; w-- > 0;) {
        unsigned word = (unsigned)(g->cpus[w / 2] >> (w % 2 * 32));
        if (word || used)
            used += snprintf(cpu.affinity + used, sizeof cpu.affinity - (size_t)used, "%s%08x",
                             used ? "," : "", word);
    }
    topo_sysfs_cpu(b->root, &cpu);
    b->gpu[i].cpu = topo_parts_cpu(b->x, &cpu);
}

/* ---- PCIe ---- */

/* Adds the parents of a device.  Returns the last switch above it that the kernel shows, or the
   cpu. */
static struct xml_node *add_above(struct build *b, const char *busid, struct xml_node *cpu,
                                  int *known)
{
    char above[TOPO_SYSFS_DEPTH][20];
    int steps = topo_sysfs_above(b->root, busid, above);
    struct xml_node *parent = cpu;

    *known = steps >= 0;
    for (int s = 0; s < steps; s++) {
        struct xml_node *at = topo_parts_find(b->x, above[s]);
        if (!at) {
            struct topo_pci pci = {.class = CLASS_SWITCH};
            memcpy(pci.busid, above[s], sizeof pci.busid);
            topo_sysfs_pci(b->root, &pci);
            at = topo_parts_pci(b->x, parent, &pci);
        }
        parent = at;
    }
    return parent;
}

static struct xml_node *add_hidden(struct build *b, struct xml_node *parent)
{
    struct topo_pci pci = {.class = CLASS_SWITCH};

    b->hidden++;
    snprintf(pci.busid, sizeof pci.busid, "ffff:ff:%02x.%x", b->hidden / 8 & 0x1f,
             b->hidden & 7);
    return topo_parts_pci(b->x, parent, &pci);
}

/* The first GPU joined to GPU i at `level` or below; i itself if there is none before it. */
static int first_of(const struct build *b, int i, int level)
{
    for (int j = 0; j < i; j++)
        if (b->gpu[j].cpu == b->gpu[i].cpu && meeting_level(b, i, j) >= 0 &&
            meeting_level(b, i, j) <= level)
            return j;
    return i;
}

static int count_linked(const struct build *b, int first, int level, int *further)
{
    int count = 0;

    *further = 0;
    for (int i = 0; i < b->n->gpus; i++) {
        if (b->gpu[i].cpu != b->gpu[first].cpu || first_of(b, i, level) != first)
            continue;
        count++;
        *further |= first_of(b, i, TOPO_NVML_ONE_SWITCH) != first;
    }
    return count;
}

static void nvml_parts_add_gpu(struct build *b, int i)
{
    static const double GTps[] = {0, 2.5, 5, 8, 16, 32, 64}; /* by generation */
    const struct topo_nvml_gpu *g = &b->n->gpu[i];
    struct topo_pci pci = {.class = CLASS_GPU};
    int known = 0, gen = g->gen_most ? g->gen_most : g->gen_now;

    memcpy(pci.busid, g->busid, sizeof pci.busid);
    struct xml_node *parent = add_above(b, g->busid, b->gpu[i].cpu, &known);
    if (!known) {
        int first = first_of(b, i, TOPO_NVML_SWITCHES),
            linked = first_of(b, i, TOPO_NVML_ONE_SWITCH);
        struct gpu *upper = &b->gpu[first], *lower = &b->gpu[linked];
        int further = 0, ignored = 0;

        count_linked(b, first, TOPO_NVML_SWITCHES, &further);
        if (further && !upper->upper)
            upper->upper = add_hidden(b, upper->cpu);
        if (count_linked(b, linked, TOPO_NVML_ONE_SWITCH, &ignored) > 1 && !lower->lower)
            lower->lower = add_hidden(b, upper->upper ? upper->upper : lower->cpu);
        parent = lower->lower ? lower->lower : upper->upper ? upper->upper : b->gpu[i].cpu;
    }
    pci.id[0] = g->device & 0xffff;
    pci.id[1] = g->device >> 16;
    pci.id[2] = g->subsystem & 0xffff;
    pci.id[3] = g->subsystem >> 16;
    pci.GTps = gen < (int)(sizeof GTps / sizeof *GTps) ? GTps[gen] : 0;
    pci.lanes = g->lanes_now ? g->lanes_now : g->lanes_most;
    topo_sysfs_pci(b->root, &pci);
    b->gpu[i].node = xml_add(b->x, topo_parts_pci(b->x, parent, &pci), "gpu");
    xml_set(b->gpu[i].node, "dev", "%d", i);
    xml_set(b->gpu[i].node, "sm", "%d", g->sm);
}

/* ---- NVLink ---- */

/*
 * Where the driver hides the far end, the bus id of a known GPU means that GPU, any other a
 * switch: NCCL treats devices that it does not see in this way.
 */
static unsigned class_of(const struct build *b, const struct topo_nvml_link *link)
{
    if (link->end == TOPO_NVML_SWITCH)
        return CLASS_NVSWITCH;
    if (link->end == TOPO_NVML_PROCESSOR)
        return CLASS_PROCESSOR;
    for (int i = 0; i < b->n->gpus; i++)
        if (strcmp(b->n->gpu[i].busid, link->remote) == 0)
            return CLASS_GPU;
    return link->end == TOPO_NVML_GPU ? CLASS_GPU : CLASS_NVSWITCH;
}

/* One element for all links of a GPU to one target. */
static void add_links(struct build *b, int i)
{
    const struct topo_nvml_gpu *g = &b->n->gpu[i];

    for (int l = 0; l < g->links; l++) {
        const char *remote = g->link[l].remote[0] ? g->link[l].remote : "ffff:ff:ff.f";
        unsigned class = class_of(b, &g->link[l]);
        int count = 0, is_first = 1;
        for (int m = 0; m < g->links; m++) {
            if (strcmp(g->link[m].remote, g->link[l].remote) ||
                class_of(b, &g->link[m]) != class)
                continue;
            is_first &= m >= l;
            count++;
        }
        if (!is_first)
            continue;
        struct xml_node *n = xml_add(b->x, b->gpu[i].node, "nvlink");
        xml_set(n, "target", "%s", remote);
        xml_set(n, "count", "%d", count);
        xml_set(n, "tclass", "0x%06x", class);
    }
}

/* ---- network ---- */

/*
 * The processor that has the device's switch, or whose NUMA node (possibly without a GPU) has
 * the device; the first processor if the kernel does not know the node.
 */
static struct xml_node *nvml_parts_cpu_of(const struct build *b, const char *busid)
{
    char above[TOPO_SYSFS_DEPTH][20], numa[16];
    int steps = topo_sysfs_above(b->root, busid, above);
    struct topo_cpu other = {.numa = topo_sysfs_numa(b->root, busid)};

    for (int s = 0; s < steps; s++) {
        struct xml_node *at = topo_parts_find(b->x, above[s]);
        while (at && !xml_is(at, "cpu"))
            at = at->parent;
        if (at)
            return at;
    }
    if (other.numa < 0)
        return b->x->root->child;
    snprintf(numa, sizeof numa, "%d", other.numa);
    for (struct xml_node *cpu = b->x->root->child; cpu; cpu = cpu->next)
        if (xml_has(cpu, "numaid", numa))
            return cpu;
    topo_sysfs_cpu(b->root, &other);
    return topo_parts_cpu(b->x, &other);
}

void topo_nvml_parts(struct xml *x, const struct topo_nvml *n, const char *root)
{
    struct build b = {.x = x, .n = n, .root = root};

    *x = (struct xml){.name = mem_dup("nvml")};
    xml_set(xml_add(x, NULL, "system"), "version", "1");
    b.gpu = mem_new((size_t)n->gpus, sizeof *b.gpu);
    for (int i = 0; i < n->gpus; i++)
        find_cpu(&b, i);
    for (int i = 0; i < n->gpus; i++)
        nvml_parts_add_gpu(&b, i);
    for (int i = 0; i < n->gpus; i++)
        add_links(&b, i);
    struct topo_sysfs_port *port = NULL;
    int count = topo_sysfs_ports(b.root, &port), known = 0;
    for (int i = 0; i < count; i++) {
        struct xml_node *pci = topo_parts_find(b.x, port[i].busid), *nic;
        if (!pci) {
            struct topo_pci new = {.class = CLASS_NETWORK};
            memcpy(new.busid, port[i].busid, sizeof new.busid);
            struct xml_node *cpu = nvml_parts_cpu_of(&b, port[i].busid);
            struct xml_node *parent = add_above(&b, new.busid, cpu, &known);
            topo_sysfs_pci(b.root, &new);
            pci = topo_parts_pci(b.x, parent, &new);
        }
        nic = xml_is(pci->last, "nic") ? pci->last : xml_add(b.x, pci, "nic");
        struct xml_node *net = xml_add(b.x, nic, "net");
        xml_set(net, "name", "%s", port[i].name);
        xml_set(net, "dev", "%d", i);
        xml_set(net, "speed", "%lld", (long long)port[i].mbit);
        xml_set(net, "port", "%d", port[i].port);
    }
    mem_free(port);
    mem_free(b.gpu);
}
