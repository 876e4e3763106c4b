/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a machine has beside processors: asks hwloc, on one rank of each host.  A device
 * is counted as in the files of hwloc that paro-topo reads (topo_hwloc.c).  Where NVIDIA's
 * driver answers, the GPUs are those that it shows, with their name: hwloc is often built
 * without NVML, and in a container it sees devices that are not this container's.
 */
#include <hwloc.h>
#include <string.h>

#include "base/mem.h"
#include "probe/probe.h"
#include "topo/topo_nvml.h"

static int is_osdev(hwloc_obj_t o, hwloc_obj_osdev_type_t type)
{
    return o->type == HWLOC_OBJ_OS_DEVICE && o->attr->osdev.type == type;
}

/*
 * Class 0302 is a 3D controller, 1200 an accelerator; 0300, VGA, is as often the console's
 * chip: one is a GPU where a library for computing found it.
 */
static int is_gpu(hwloc_obj_t pci)
{
    static const char *const libraries[] = {"nvml", "cuda", "rsmi", "opencl", "ze"};
    unsigned class = pci->attr->pcidev.class_id;

    if (class == 0x0302 || class == 0x1200)
        return 1;
    for (hwloc_obj_t o = pci->io_first_child; o; o = o->next_sibling) {
        if (is_osdev(o, HWLOC_OBJ_OSDEV_COPROC))
            return 1;
        for (size_t i = 0; o->name && i < sizeof libraries / sizeof *libraries; i++)
            if (strncmp(o->name, libraries[i], strlen(libraries[i])) == 0)
                return 1;
    }
    return 0;
}

static int bounded_count(int n)
{
    return n < 0 ? 0 : n > TOPO_DEVICES_MAX ? TOPO_DEVICES_MAX : n;
}

/* Nothing where hwloc cannot tell.  Devices that are not hardware (lo, bridges) it leaves out.
 */
static struct topo_devices count_devices(void)
{
    struct topo_devices d = {0};
    hwloc_topology_t t;
    struct topo_nvml n;
    struct err ignored; /* no driver, or one that fails: what hwloc sees stays */
    int networks = 0, fabrics = 0;

    if (hwloc_topology_init(&t))
        return d;
    if (hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) ||
        hwloc_topology_load(t)) {
        hwloc_topology_destroy(t);
        return d;
    }
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(t, o));)
        d.gpus += is_gpu(o);
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(t, o));) {
        networks += is_osdev(o, HWLOC_OBJ_OSDEV_NETWORK);
        fabrics += is_osdev(o, HWLOC_OBJ_OSDEV_OPENFABRICS);
    }
    d.numa_nodes = bounded_count(hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE));
    d.gpus = bounded_count(d.gpus);
    /* Not a file that stands for another machine. */
    if (hwloc_topology_is_thissystem(t) && topo_nvml_read(&n, TOPO_NVML_NAMES, &ignored) == 0) {
        d.gpus = n.gpus;
        topo_nvml_name(&n, d.gpu_name, sizeof d.gpu_name);
        topo_nvml_release(&n);
    }
    /* A server has Ethernet ports by the half dozen; what it computes over is the fabric. */
    d.nics = bounded_count(fabrics ? fabrics : networks);
    hwloc_topology_destroy(t);
    return d;
}

int probe_devices(struct world *world, struct topo *t, struct err *err)
{
    const struct groups *g = &t->groups;
    struct topo_devices mine = {0};
    struct topo_devices *all = mem_new((size_t)world->ranks, sizeof *all);

    if (world->node_rank == 0)
        mine = count_devices();
    int rc = world_allgather(world, &mine, sizeof mine, all, err);
    for (int k = 0; rc == 0 && k < g->count; k++) {
        int host = probe_host_of(g, world, k);
        if (host >= 0) /* a group over several hosts has no machine of its own */
            t->devices[k] = all[groups_rank(&world->groups, host, 0)];
    }
    mem_free(all);
    return rc;
}
