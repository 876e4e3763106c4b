/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds a rank's share of its machine: memory, and devices other than processors.
 *
 * hwloc runs on one rank of each host, and devices are counted in its XML as paro-topo does in
 * a file of it.  If NVIDIA's driver answers, the GPUs are those that it shows, with their name:
 * hwloc is often built without NVML, and in a container it sees devices that are not the
 * container's.
 */
#include <fcntl.h>
#include <hwloc.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/probe.h"
#include "topo/topo_parts.h"

void probe_boot_id(char id[PROBE_BOOT_BYTES])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    memset(id, 0, PROBE_BOOT_BYTES);
    if (fd < 0)
        return;
    if (read(fd, id, PROBE_BOOT_BYTES - 1) < 0)
        id[0] = 0;
    close(fd);
}

struct owner { /* owner of memory: a machine, or one of its GPUs */
    char id[PROBE_BOOT_BYTES];
    int index; /* GPU index; -1: the machine */
    int64_t bytes;
};

int probe_memory(struct world *world, const struct device *device, int64_t *bytes,
                 struct err *err)
{
    struct owner mine, *all = mem_new((size_t)world->ranks, sizeof *all);
    const int *host = world->groups.group_of;
    int64_t least = INT64_MAX, left;
    int rc = 0;

    memset(&mine, 0, sizeof mine);
    probe_boot_id(mine.id);
    mine.index = device ? device_index(device) : -1;
    mine.bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    if (mine.index >= 0)
        rc = device_memory(device, &left, &mine.bytes, err);
    rc = world_agree(world, rc, err);
    rc = rc ? rc : world_allgather(world, &mine, sizeof mine, all, err);
    for (int r = 0; rc == 0 && r < world->ranks; r++) {
        int sharers = 0;
        for (int q = 0; q < world->ranks; q++)
            sharers += all[q].index == all[r].index &&
                       (all[r].id[0] ? strcmp(all[q].id, all[r].id) == 0 : host[q] == host[r]);
        if (all[r].bytes / sharers < least)
            least = all[r].bytes / sharers;
    }
    if (rc == 0)
        *bytes = least;
    mem_free(all);
    return rc;
}

/* ---- devices ---- */

/* Returns zeros if hwloc fails.  hwloc omits devices that are not hardware (lo, bridges). */
static struct topo_devices count_devices(void)
{
    struct topo_devices d = {0};
    hwloc_topology_t t;
    struct topo_nvml n;
    struct xml x;
    struct err ignored; /* no driver, or it fails: keep hwloc's result */
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
        if (host >= 0) /* a group over several hosts has no machine */
            t->devices[k] = all[groups_rank(&world->groups, host, 0)];
    }
    mem_free(all);
    return rc;
}
