/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a machine has beside processors: asks hwloc, on one rank of each host, and counts
 * devices in hwloc's XML as paro-topo does in a file of it.  Where NVIDIA's driver answers, the
 * GPUs are those that it shows, with their name: hwloc is often built without NVML, and in a
 * container it sees devices that are not this container's.
 */
#include <hwloc.h>
#include <string.h>

#include "base/mem.h"
#include "probe/probe.h"
#include "topo/topo_parts.h"

/* Nothing where hwloc cannot tell.  Devices that are not hardware (lo, bridges) it leaves out.
 */
static struct topo_devices count_devices(void)
{
    struct topo_devices d = {0};
    hwloc_topology_t t;
    struct topo_nvml n;
    struct xml x;
    struct err ignored; /* no driver, or one that fails: what hwloc sees stays */
    char *text = NULL;
    int bytes = 0, here;

    if (hwloc_topology_init(&t))
        return d;
    if (hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) ||
        hwloc_topology_load(t) || hwloc_topology_export_xmlbuffer(t, &text, &bytes, 0)) {
        hwloc_topology_destroy(t);
        return d;
    }
    if (xml_take(&x, "hwloc", mem_dup(text), (int64_t)strlen(text), &ignored) == 0) {
        topo_hwloc_count(&x, &d);
        xml_release(&x);
    }
    hwloc_free_xmlbuffer(t, text);
    here = hwloc_topology_is_thissystem(t); /* not a file that stands for another machine */
    hwloc_topology_destroy(t);
    if (here && topo_nvml_read(&n, TOPO_NVML_NAMES, &ignored) == 0) {
        d.gpus = n.gpus;
        topo_nvml_name(&n, d.gpu_name, sizeof d.gpu_name);
        topo_nvml_release(&n);
    }
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
