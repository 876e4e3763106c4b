/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows what a rank has of the memory that it computes in. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/probe.h"

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

struct owner { /* of memory: a machine, or one of its GPUs */
    char id[PROBE_BOOT_BYTES];
    int index; /* of a GPU; -1 */
    int64_t bytes;
};

static int find_owner(const struct device *device, struct owner *mine, struct err *err)
{
    int64_t left;

    memset(mine, 0, sizeof *mine);
    probe_boot_id(mine->id);
    mine->index = device ? device_index(device) : -1;
    mine->bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    return mine->index < 0 ? 0 : device_memory(device, &left, &mine->bytes, err);
}

int probe_memory(struct world *world, const struct device *device, int64_t *bytes,
                 struct err *err)
{
    struct owner mine, *all = mem_new((size_t)world->ranks, sizeof *all);
    const int *host = world->groups.group_of;
    int64_t least = INT64_MAX;
    int rc = world_agree(world, find_owner(device, &mine, err), err);

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
