/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows what a rank has of its own machine's memory. */
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

int probe_memory(struct world *world, int64_t *bytes, struct err *err)
{
    struct {
        char id[PROBE_BOOT_BYTES];
        int64_t bytes;
    } mine, *all = mem_new((size_t)world->ranks, sizeof *all);
    int64_t least = INT64_MAX;

    memset(&mine, 0, sizeof mine);
    probe_boot_id(mine.id);
    mine.bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    int rc = world_allgather(world, &mine, sizeof mine, all, err);
    for (int r = 0; rc == 0 && r < world->ranks; r++) {
        int sharers = 0;
        const struct groups *g = &world->groups;
        for (int q = 0; q < world->ranks; q++)
            sharers += all[r].id[0] ? strcmp(all[q].id, all[r].id) == 0
                                    : g->group_of[q] == g->group_of[r];
        if (all[r].bytes / sharers < least)
            least = all[r].bytes / sharers;
    }
    if (rc == 0)
        *bytes = least;
    mem_free(all);
    return rc;
}
