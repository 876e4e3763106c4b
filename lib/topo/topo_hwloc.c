/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads hwloc's XML, versions 2 and 3, as `lstopo FILE.xml` writes it.
 *
 *     topology > object Machine > object Package > object Bridge > object PCIDev > object OSDev
 *                                 object NUMANode
 *              > distances2hetero NVLinkBandwidth
 *
 * libhwloc is not used: 2.9 rejects version 3, prints messages itself and reports no line.
 * GPUs are PCI devices that compute; without any a rank is a NUMA node.  The rates of PCIe
 * links and of NVLink are those that the file states: raw ones, with their headers.
 */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "topo/topo_machine.h"
#include "topo/topo_parts.h"

/* Rows of a bandwidth matrix: GPUs and switches */
enum { OBJECTS_MOST = 2 * TOPO_MACHINE_RANKS };

/* Slower than any link (PCIe 1, one lane: 250 MB/s): treated as unknown. */
static const double LINK_LEAST_BPS = 1e6;

struct place {
    int64_t gp; /* gp_index, by which matrices name objects */
    int gpu;    /* -1: a switch */
};

struct hwloc {
    const struct xml *x;
    struct topo_machine *m;
    const struct xml_node **gpu; /* [gpus], owned */
    struct place *place;         /* [places], owned */
    size_t gpu_space, place_space;
    int gpus, places;
    int nvidia;         /* number of NVIDIA GPUs; CUDA runs on these alone */
    int linked_checked; /* the file has objects of NVML or ROCm SMI, which report such links */
    struct err *err;
};

int topo_hwloc_is_object(const struct xml_node *n, const char *type)
{
    return xml_is(n, "object") && xml_has(n, "type", type);
}

/* Finds an <info> element by name; NULL: absent. */
static const struct xml_node *find_info(const struct xml_node *n, const char *name)
{
    for (const struct xml_node *i = n ? n->child : NULL; i; i = i->next)
        if (xml_is(i, "info") && xml_has(i, "name", name))
            return i;
    return NULL;
}

const char *topo_hwloc_info(const struct xml_node *n, const char *name)
{
    return xml_word(find_info(n, name), "value");
}

/* An OSDev's type is a number in version 2, a bit in version 3. */
int topo_hwloc_is_osdev(const struct xml *x, const struct xml_node *n, enum topo_osdev what)
{
    static const int number[] = {2, 3, 5}, bit[] = {16, 32, 8};
    const char *text = topo_hwloc_is_object(n, "OSDev") ? xml_find(n, "osdev_type") : NULL;
    const char *version = xml_find(x->root, "version");
    struct err ignored;
    int64_t type = 0;

    if (!text || num_i64(text, 0, 1 << 20, &type, &ignored))
        return 0;
    return !version || version[0] == '2' ? type == number[what] : (type & bit[what]) != 0;
}

/* ---- GPUs ---- */

/*
 * Class 0302 is a 3D controller, 1200 an accelerator; AMD's Instinct are 0380, other displays.
 * 0300 (VGA) is often the console's chip, so such a device is a GPU only if a compute library
 * lists it.
 */
int topo_hwloc_is_gpu(const struct xml *x, const struct xml_node *n)
{
    static const char *const libraries[] = {"nvml", "cuda", "rsmi", "opencl", "ze"};
    const char *type = topo_hwloc_is_object(n, "PCIDev") ? xml_find(n, "pci_type") : NULL;

    if (!type)
        return 0;
    if (strncmp(type, "0302", 4) == 0 || strncmp(type, "1200", 4) == 0 ||
        strncmp(type, "0380 [1002:", 11) == 0)
        return 1;
    for (const struct xml_node *o = n->child; o; o = o->next) {
        const char *name = topo_hwloc_is_object(o, "OSDev") ? xml_find(o, "name") : NULL;
        if (topo_hwloc_is_osdev(x, o, TOPO_OSDEV_COMPUTE))
            return 1;
        for (size_t i = 0; name && i < sizeof libraries / sizeof *libraries; i++)
            if (strncmp(name, libraries[i], strlen(libraries[i])) == 0)
                return 1;
    }
    return 0;
}

static int add_place(struct hwloc *h, const struct xml_node *n, int gpu)
{
    struct place place = {.gpu = gpu};

    if (!xml_find(n, "gp_index"))
        return 0;
    if (xml_i64(h->x, n, "gp_index", 0, INT64_MAX, &place.gp, h->err))
        return -1;
    h->place = mem_grow(h->place, &h->place_space, (size_t)h->places + 1, sizeof *h->place);
    h->place[h->places++] = place;
    return 0;
}

/* Version 2 writes "16777216" without a unit, version 3 "16777216KiB". */
static int read_size(const struct hwloc *h, const struct xml_node *info, int64_t *bytes)
{
    const char *value = xml_find(info, "value");
    int bare = value && value[strspn(value, "0123456789")] == 0;
    struct err why;
    char text[64];

    if (!value)
        return xml_fail(h->x, info, "value", h->err, "is missing, expected a size");
    snprintf(text, sizeof text, "%s%s", value, bare ? "KiB" : "");
    return num_bytes(text, 1, TOPO_MEMORY_MAX_BYTES, bytes, &why)
               ? xml_fail(h->x, info, "value", h->err, "is %s", why.text)
               : 0;
}

static int hwloc_add_gpu(struct hwloc *h, const struct xml_node *n)
{
    if (h->gpus == TOPO_MACHINE_RANKS)
        return xml_fail(h->x, n, NULL, h->err, "is one of more than %d GPUs",
                        TOPO_MACHINE_RANKS);
    h->gpu = mem_grow(h->gpu, &h->gpu_space, (size_t)h->gpus + 1, sizeof *h->gpu);
    h->gpu[h->gpus++] = n;
    const char *maker = strchr(xml_find(n, "pci_type"), '[');
    h->nvidia += maker && strncmp(maker, "[10de:", 6) == 0;
    if (add_place(h, n, h->gpus - 1))
        return -1;
    for (const struct xml_node *o = n->child; o; o = o->next) {
        const char *name = topo_hwloc_is_object(o, "OSDev") ? xml_find(o, "name") : NULL;
        if (!name)
            continue;
        h->linked_checked |= strncmp(name, "nvml", 4) == 0 || strncmp(name, "rsmi", 4) == 0;
        if (add_place(h, o, h->gpus - 1))
            return -1;
    }
    /* Memory as reported by the library that knows the GPU best; over all GPUs the least, 0 if
       one is unknown. */
    static const char *const names[] = {"CUDAGlobalMemorySize", "RSMIVRAMSize",
                                        "OpenCLGlobalMemorySize"};
    const struct xml_node *info = NULL;
    int64_t bytes = 0;
    for (size_t i = 0; !info && i < sizeof names / sizeof *names; i++)
        for (const struct xml_node *o = n->child; o && !info; o = o->next)
            info = find_info(o, names[i]);
    if (info && read_size(h, info, &bytes))
        return -1;
    if (h->gpus == 1 || bytes < h->m->memory_bytes)
        h->m->memory_bytes = bytes;
    return 0;
}

/* A server has many Ethernet ports; if it has fabric devices, it computes over these. */
enum topo_osdev topo_hwloc_nets(const struct xml *x)
{
    for (const struct xml_node *n = x->root; n; n = xml_after(n))
        if (topo_hwloc_is_osdev(x, n, TOPO_OSDEV_FABRIC))
            return TOPO_OSDEV_FABRIC;
    return TOPO_OSDEV_NETWORK;
}

void topo_hwloc_count(const struct xml *x, struct topo_devices *d)
{
    enum topo_osdev nets = topo_hwloc_nets(x);

    *d = (struct topo_devices){0};
    for (const struct xml_node *n = x->root; n; n = xml_after(n)) {
        d->numa_nodes += topo_hwloc_is_object(n, "NUMANode");
        d->gpus += topo_hwloc_is_gpu(x, n);
        d->nics += topo_hwloc_is_osdev(x, n, nets);
    }
    int *count[] = {&d->numa_nodes, &d->gpus, &d->nics};
    for (int i = 0; i < 3; i++)
        *count[i] = *count[i] < TOPO_DEVICES_MAX ? *count[i] : TOPO_DEVICES_MAX;
}

/* Marks of an object: it has memory of its own; contains a GPU; is the smallest such object
   around a GPU. */
enum { HAS_MEMORY = 1, HAS_GPU = 2, IS_LOCAL = 4 };

/* The smallest object with memory around a device, else the whole topology. */
static const struct xml_node *local_of(const unsigned char *mark, const struct xml_node *n)
{
    do
        n = n->parent;
    while (n->parent && !(mark[n->index] & HAS_MEMORY));
    return n;
}

/* Counts network devices whose memory object neither contains nor lies in a GPU's. */
static void count_far(struct hwloc *h)
{
    unsigned char *mark = mem_new(XML_NODES_MAX, sizeof *mark);
    enum topo_osdev nets = topo_hwloc_nets(h->x);

    for (const struct xml_node *n = h->x->root; n; n = xml_after(n))
        if (topo_hwloc_is_object(n, "NUMANode"))
            mark[n->parent->index] |= HAS_MEMORY;
    for (int i = 0; i < h->gpus; i++) {
        const struct xml_node *local = local_of(mark, h->gpu[i]);
        mark[local->index] |= IS_LOCAL;
        for (; local; local = local->parent)
            mark[local->index] |= HAS_GPU;
    }
    for (const struct xml_node *n = h->x->root; n; n = xml_after(n)) {
        if (!topo_hwloc_is_osdev(h->x, n, nets))
            continue;
        const struct xml_node *local = local_of(mark, n);
        int linked = mark[local->index] & HAS_GPU;
        for (; local; local = local->parent)
            linked |= mark[local->index] & IS_LOCAL;
        if (!linked)
            topo_machine_far(h->m, xml_word(n, "name"));
    }
    mem_free(mark);
}

/* ---- PCIe ---- */

static int hwloc_link_above(void *reader, const struct xml_node *n,
                            const struct xml_node **above, double *Bps)
{
    const struct hwloc *h = reader;
    double GBps = 0;

    if (topo_hwloc_is_object(n->parent, "Bridge"))
        *above = n->parent;
    if (xml_find(n, "pci_link_speed") &&
        xml_f64(h->x, n, "pci_link_speed", 0, 1e6, &GBps, h->err))
        return -1;
    *Bps = GBps * 1e9 < LINK_LEAST_BPS ? 0 : GBps * 1e9;
    return 0;
}

/* ---- NVLink ---- */

/* The next word of all children of one name, read as one text; 0 at the end. */
struct words {
    const struct xml_node *n; /* the child being read */
    const char *name, *at;    /* at: position in its text; NULL: at the beginning */
};

static int hwloc_next_word(struct words *w, char *word, size_t space)
{
    for (; w->n; w->n = w->n->next, w->at = NULL) {
        if (!xml_is(w->n, w->name))
            continue;
        w->at = w->at ? w->at : w->n->text;
        w->at += strspn(w->at, " \t\r\n");
        size_t n = strcspn(w->at, " \t\r\n");
        if (n == 0)
            continue;
        snprintf(word, space, "%.*s", (int)(n < space ? n : space - 1), w->at);
        w->at += n;
        return 1;
    }
    return 0;
}

/* "802", or in a matrix of several types "OSDev:802": the number of a GPU, -1 a switch, -2
   another object. */
static int hwloc_place_of(const struct hwloc *h, const char *word)
{
    const char *number = strchr(word, ':');
    struct err ignored;
    int64_t gp = -1;

    if (num_i64(number ? number + 1 : word, 0, INT64_MAX, &gp, &ignored))
        return -2;
    for (int i = 0; i < h->places; i++)
        if (h->place[i].gp == gp)
            return h->place[i].gpu;
    return -2;
}

static int hwloc_read_row(const struct hwloc *h, const struct xml_node *n, const int *place,
                          int count, int row, struct words *values)
{
    char word[32] = "";
    struct err why;

    for (int i = 0; i < count; i++) {
        int64_t MBps = 0;
        if (!hwloc_next_word(values, word, sizeof word))
            return xml_fail(h->x, n, NULL, h->err,
                            "ends in row %d of its values, expected %d rows of %d", row, count,
                            count);
        if (num_i64(word, 0, INT64_C(1) << 40, &MBps, &why))
            return xml_fail(h->x, values->n, NULL, h->err, "is %s", why.text);
        if (place[row] < 0 || i == row || place[i] == place[row])
            continue;
        if (place[i] >= 0)
            h->m->direct[place[row] * h->gpus + place[i]] += (double)MBps * 1e6;
        else if (place[i] == -1)
            h->m->to_switch[place[row]] += (double)MBps * 1e6;
    }
    return 0;
}

static int hwloc_read_matrix(struct hwloc *h, const struct xml_node *n)
{
    struct words indexes = {n->child, "indexes", NULL}, values = {n->child, "u64values", NULL};
    char word[64] = "";
    int64_t count = 0;

    if (xml_i64(h->x, n, "nbobjs", 1, OBJECTS_MOST, &count, h->err))
        return -1;
    int *place = mem_new((size_t)count, sizeof *place), rc = 0;
    for (int i = 0; rc == 0 && i < count; i++) {
        if (hwloc_next_word(&indexes, word, sizeof word))
            place[i] = hwloc_place_of(h, word);
        else
            rc = xml_fail(h->x, n, "nbobjs", h->err, "is %d, but %d are listed in 'indexes'",
                          (int)count, i);
    }
    for (int row = 0; rc == 0 && row < count; row++)
        rc = hwloc_read_row(h, n, place, (int)count, row, &values);
    if (rc == 0 && (hwloc_next_word(&indexes, word, sizeof word) ||
                    hwloc_next_word(&values, word, sizeof word)))
        rc = xml_fail(h->x, n, "nbobjs", h->err, "is %d, but more are listed", (int)count);
    mem_free(place);
    return rc;
}

/* From 2.5 on hwloc lists the bandwidth of NVLink and XGMI, if it was built with NVML or ROCm
   SMI. */
static int lists_links(const struct hwloc *h)
{
    const char *version = topo_hwloc_info(h->x->root, "hwlocVersion");
    int major = 0, minor = 0;

    if (!version[0])
        version = topo_hwloc_info(h->x->root->child, "hwlocVersion");
    sscanf(version, "%3d.%3d", &major, &minor);
    return h->linked_checked && (xml_find(h->x->root, "version")[0] > '2' || major > 2 ||
                                 (major == 2 && minor >= 5));
}

static int hwloc_read_linked(struct hwloc *h)
{
    struct topo_machine *m = h->m;
    const char *name = NULL;

    for (const struct xml_node *n = h->x->root->child; n; n = n->next) {
        int is_links =
            strncmp(n->name, "distances2", 10) == 0 &&
            (xml_has(n, "name", "NVLinkBandwidth") || xml_has(n, "name", "XGMIBandwidth"));
        if (!is_links || xml_has(n, "indexing", "os"))
            continue;
        name = name ? name : xml_find(n, "name");
        if (hwloc_read_matrix(h, n))
            return -1;
    }
    topo_machine_linked(m);
    m->linked_unknown = !m->linked && !lists_links(h);
    if (!m->linked)
        return 0;
    topo_machine_links(m, 1);
    snprintf(m->inside.rate_source, sizeof m->inside.rate_source, "%s as the file states it",
             name);
    return 0;
}

/* ---- a machine that computes on its processors ---- */

static int read_numa(struct hwloc *h, int ranks)
{
    struct topo_machine *m = h->m;
    int64_t all = 0, least = INT64_MAX, bytes = 0;
    int nodes = 0;

    for (const struct xml_node *n = h->x->root; n; n = xml_after(n)) {
        /* A node without processors has memory only. */
        if (!topo_hwloc_is_object(n, "NUMANode") ||
            !strpbrk(xml_word(n, "cpuset"), "123456789abcdefABCDEF"))
            continue;
        if (xml_find(n, "local_memory") &&
            xml_i64(h->x, n, "local_memory", 0, TOPO_MEMORY_MAX_BYTES, &bytes, h->err))
            return -1;
        least = bytes < least ? bytes : least;
        all = all < TOPO_MEMORY_MAX_BYTES ? all + bytes : all;
        nodes++;
    }
    if (nodes == 0)
        return xml_fail(
            h->x, h->x->root, NULL, h->err,
            "has neither GPUs nor NUMA nodes with processors, expected one at least");
    if (ranks == 0 && nodes > TOPO_MACHINE_RANKS)
        return xml_fail(h->x, h->x->root, NULL, h->err,
                        "has %d NUMA nodes, expected %d at most", nodes, TOPO_MACHINE_RANKS);
    m->ranks = ranks ? ranks : nodes;
    m->memory_bytes = ranks ? all / ranks : least;
    m->domains = 1;
    m->inside.latency_s = -1;
    m->domain = mem_new((size_t)m->ranks, sizeof *m->domain);
    return 0;
}

static int read_topology(struct hwloc *h, int ranks)
{
    const char *version = xml_find(h->x->root, "version");
    const char *host = topo_hwloc_info(h->x->root, "HostName");

    if (!version || (strncmp(version, "2.", 2) && strncmp(version, "3.", 2)))
        return xml_fail(h->x, h->x->root, "version", h->err,
                        version ? "is '%.16s', expected 2.0 or 3.0"
                                : "is missing%s, expected 2.0 or 3.0: hwloc 1 wrote this",
                        version ? version : "");
    host = host[0] ? host : topo_hwloc_info(h->x->root->child, "HostName");
    const char *p = host;
    while ((unsigned char)*p >= 0x20 &&
           *p != 0x7f) /* no host name has such characters: unknown */
        p++;
    if (*p == 0 && p - host < (int)sizeof h->m->host)
        snprintf(h->m->host, sizeof h->m->host, "%s", host);
    struct topo_devices d;
    for (const struct xml_node *n = h->x->root; n; n = xml_after(n)) {
        if (topo_hwloc_is_gpu(h->x, n) && hwloc_add_gpu(h, n))
            return -1;
        if (topo_hwloc_is_object(n, "PCIDev") && xml_has(n, "subtype", "NVSwitch") &&
            add_place(h, n, -1))
            return -1;
    }
    topo_hwloc_count(h->x, &d);
    h->m->nics = d.nics;
    if (h->gpus == 0)
        return read_numa(h, ranks);
    topo_machine_gpus(h->m, h->gpus, h->nvidia == h->gpus ? TOPO_CUDA : TOPO_CPU);
    count_far(h);
    if (hwloc_read_linked(h))
        return -1;
    for (int i = 0; i < h->gpus; i++)
        if (topo_machine_hang(h->m, h->gpu[i], hwloc_link_above, h))
            return -1;
    topo_machine_pcie(h->m, "pci_link_speed as the file states it");
    return 0;
}

int topo_hwloc_read(struct topo_machine *m, const struct xml *x, int ranks, struct err *err)
{
    struct hwloc h = {.x = x, .m = m, .err = err};

    int rc = read_topology(&h, ranks);
    mem_free(h.gpu);
    mem_free(h.place);
    return rc;
}
