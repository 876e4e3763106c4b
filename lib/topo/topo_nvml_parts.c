/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what NVML's answers and the kernel's files make of a machine: which processor a GPU is
 * near, which switches are above it, where its NVLinks end.
 *
 * The kernel's tree of PCI devices is exact.  Where it is not to be seen, NVML tells of two
 * GPUs how far up they meet: through one switch, through several, or further up.  Then there is
 * a switch for those that meet at one, and one above for those that meet through several; their
 * bus ids are those that Azure's templates give to what a virtual machine hides, ffff:ff:..,
 * and the rates of the links above them are not known.
 */
#include <string.h>

#include "base/mem.h"
#include "topo/topo_parts.h"

enum { CLASS_GPU = 0x030200, CLASS_SWITCH = 0x060400, CLASS_NVSWITCH = 0x068000 };
enum { CLASS_PROCESSOR = 0x068001 }; /* of POWER, at the end of an NVLink */

struct build {
    struct topo_parts *p;
    const struct topo_nvml *n;
    const char *root;
    int *cpu;   /* [n->gpus] */
    int hidden; /* switches without a bus id */
};

static int meet(const struct build *b, int i, int j)
{
    return i == j ? 0 : b->n->meet[i * b->n->gpus + j];
}

/* ---- processors ---- */

/* As the kernel prints masks of processors: words of 32 bits, the highest first. */
static void put_affinity(struct topo_cpu *cpu, const struct topo_nvml_gpu *g)
{
    size_t used = 0;

    for (int w = TOPO_NVML_CPUS / 32; w-- > 0;) {
        unsigned word = (unsigned)(g->cpus[w / 2] >> (w % 2 * 32));
        if (word == 0 && used == 0)
            continue;
        used += (size_t)snprintf(cpu->affinity + used, sizeof cpu->affinity - used, "%s%08x",
                                 used ? "," : "", word);
    }
}

/* The same node, or where nobody tells of nodes the same mask, and no way that says otherwise.
 */
static int are_near(const struct build *b, int i, int numa, int j)
{
    const struct topo_cpu *cpu = &b->p->cpu[b->cpu[j]];
    const struct topo_nvml_gpu *g = b->n->gpu;

    if (numa >= 0 || cpu->numa >= 0)
        return numa == cpu->numa;
    return memcmp(g[i].cpus, g[j].cpus, sizeof g[i].cpus) == 0 &&
           meet(b, i, j) <= TOPO_NVML_NODE;
}

static int find_cpu(struct build *b, int i)
{
    const struct topo_nvml_gpu *g = &b->n->gpu[i];
    struct topo_cpu cpu = {.numa = g->numa};

    if (cpu.numa < 0)
        cpu.numa = topo_sysfs_numa(b->root, g->busid);
    for (int j = 0; j < i; j++)
        if (are_near(b, i, cpu.numa, j))
            return b->cpu[j];
    put_affinity(&cpu, g);
    topo_sysfs_cpu(b->root, &cpu);
    return topo_parts_cpu(b->p, &cpu);
}

/* ---- PCIe ---- */

/* The switches that the kernel shows above a device; the last one's index, -1 where none is. */
static int add_above(struct build *b, const char *busid, int cpu, int *told)
{
    char above[TOPO_SYSFS_DEPTH][20];
    int steps = topo_sysfs_above(b->root, busid, above), parent = -1;

    *told = steps >= 0;
    for (int s = 0; s < steps; s++) {
        int at = topo_parts_find(b->p, above[s]);
        if (at < 0) {
            struct topo_pci pci = {.cpu = cpu, .parent = parent, .class = CLASS_SWITCH};
            memcpy(pci.busid, above[s], sizeof pci.busid);
            topo_sysfs_pci(b->root, &pci);
            at = topo_parts_pci(b->p, &pci);
        }
        parent = at;
    }
    return parent;
}

static int add_hidden(struct build *b, int cpu, int parent)
{
    struct topo_pci pci = {.cpu = cpu, .parent = parent, .class = CLASS_SWITCH};

    b->hidden++;
    snprintf(pci.busid, sizeof pci.busid, "ffff:ff:%02x.%x", b->hidden / 8 & 0x1f,
             b->hidden & 7);
    return topo_parts_pci(b->p, &pci);
}

/* The first GPU that meets GPU i no further up than `level`; itself where none before does. */
static int first_of(const struct build *b, int i, int level)
{
    for (int j = 0; j < i; j++)
        if (b->cpu[j] == b->cpu[i] && meet(b, i, j) >= 0 && meet(b, i, j) <= level)
            return j;
    return i;
}

static int count_near(const struct build *b, int first, int level, int *further)
{
    int count = 0;

    *further = 0;
    for (int i = 0; i < b->n->gpus; i++) {
        if (b->cpu[i] != b->cpu[first] || first_of(b, i, level) != first)
            continue;
        count++;
        *further |= first_of(b, i, TOPO_NVML_ONE_SWITCH) != first;
    }
    return count;
}

/* upper[] and lower[] hold the switches that stand for a first GPU, -1: none yet. */
static int find_hidden(struct build *b, int i, int *upper, int *lower)
{
    int first = first_of(b, i, TOPO_NVML_SWITCHES), near = first_of(b, i, TOPO_NVML_ONE_SWITCH);
    int further = 0, ignored = 0;

    count_near(b, first, TOPO_NVML_SWITCHES, &further);
    if (further && upper[first] < 0)
        upper[first] = add_hidden(b, b->cpu[i], -1);
    if (count_near(b, near, TOPO_NVML_ONE_SWITCH, &ignored) > 1 && lower[near] < 0)
        lower[near] = add_hidden(b, b->cpu[i], upper[first]);
    return lower[near] >= 0 ? lower[near] : upper[first];
}

static double transfers(int gen)
{
    static const double GTps[] = {0, 2.5, 5, 8, 16, 32, 64};

    return gen < (int)(sizeof GTps / sizeof *GTps) ? GTps[gen] : 0;
}

static void add_gpu(struct build *b, int i, int *upper, int *lower)
{
    const struct topo_nvml_gpu *g = &b->n->gpu[i];
    struct topo_pci pci = {.cpu = b->cpu[i], .class = CLASS_GPU};
    int told = 0;

    memcpy(pci.busid, g->busid, sizeof pci.busid);
    pci.parent = add_above(b, g->busid, pci.cpu, &told);
    if (!told)
        pci.parent = find_hidden(b, i, upper, lower);
    pci.id[0] = g->device & 0xffff;
    pci.id[1] = g->device >> 16;
    pci.id[2] = g->subsystem & 0xffff;
    pci.id[3] = g->subsystem >> 16;
    pci.GTps = transfers(g->gen_most ? g->gen_most : g->gen_now);
    pci.lanes = g->lanes_now ? g->lanes_now : g->lanes_most;
    topo_sysfs_pci(b->root, &pci);
    topo_parts_gpu(b->p, (struct topo_gpu){.pci = topo_parts_pci(b->p, &pci), .sm = g->sm});
}

/* ---- NVLink ---- */

/*
 * Where the driver does not say what is at the end, a bus id of a GPU is that GPU, and any
 * other a switch: as NCCL takes a device that it does not see.
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

static void add_links(struct build *b, int i)
{
    const struct topo_nvml_gpu *g = &b->n->gpu[i];
    int from = b->p->nvlinks;

    for (int l = 0; l < g->links; l++) {
        struct topo_nvlink link = {.gpu = i, .count = 1, .class = class_of(b, &g->link[l])};
        int at = from;
        snprintf(link.target, sizeof link.target, "%s",
                 g->link[l].remote[0] ? g->link[l].remote : "ffff:ff:ff.f");
        while (at < b->p->nvlinks && (strcmp(b->p->nvlink[at].target, link.target) ||
                                      b->p->nvlink[at].class != link.class))
            at++;
        if (at < b->p->nvlinks)
            b->p->nvlink[at].count++;
        else
            topo_parts_nvlink(b->p, &link);
    }
}

/* ---- network ---- */

/* The processor whose tree has the device's switch, or whose node it is on; else the first. */
static int cpu_of(const struct build *b, const char *busid)
{
    char above[TOPO_SYSFS_DEPTH][20];
    int steps = topo_sysfs_above(b->root, busid, above), numa;

    for (int s = 0; s < steps; s++) {
        int at = topo_parts_find(b->p, above[s]);
        if (at >= 0)
            return b->p->pci[at].cpu;
    }
    numa = topo_sysfs_numa(b->root, busid);
    for (int c = 0; numa >= 0 && c < b->p->cpus; c++)
        if (b->p->cpu[c].numa == numa)
            return c;
    return 0;
}

static void add_ports(struct build *b)
{
    struct topo_sysfs_port *port = NULL;
    int count = topo_sysfs_ports(b->root, &port), told = 0;

    for (int i = 0; i < count; i++) {
        struct topo_nic nic = {.port = port[i].port, .mbit = port[i].mbit};
        snprintf(nic.name, sizeof nic.name, "%s", port[i].name);
        nic.pci = topo_parts_find(b->p, port[i].busid);
        if (nic.pci < 0) {
            struct topo_pci pci = {.cpu = cpu_of(b, port[i].busid), .class = 0x020700};
            memcpy(pci.busid, port[i].busid, sizeof pci.busid);
            pci.parent = add_above(b, pci.busid, pci.cpu, &told);
            topo_sysfs_pci(b->root, &pci);
            nic.pci = topo_parts_pci(b->p, &pci);
        }
        topo_parts_nic(b->p, &nic);
    }
    mem_free(port);
}

void topo_nvml_parts(struct topo_parts *p, const struct topo_nvml *n, const char *root)
{
    struct build b = {.p = p, .n = n, .root = root};
    int *upper = mem_new((size_t)n->gpus, sizeof *upper);
    int *lower = mem_new((size_t)n->gpus, sizeof *lower);

    b.cpu = mem_new((size_t)n->gpus, sizeof *b.cpu);
    for (int i = 0; i < n->gpus; i++) {
        b.cpu[i] = find_cpu(&b, i);
        upper[i] = lower[i] = -1;
    }
    for (int i = 0; i < n->gpus; i++)
        add_gpu(&b, i, upper, lower);
    for (int i = 0; i < n->gpus; i++)
        add_links(&b, i);
    add_ports(&b);
    mem_free(upper);
    mem_free(lower);
    mem_free(b.cpu);
}
