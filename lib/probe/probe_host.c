/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows what a rank has on its own machine: memory and arithmetic. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tick.h"
#include "kern/kern_cpu.h"
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

int probe_flops(struct world *world, double *flops, struct err *err)
{
    /* Fits the second-level cache with room; large enough that oneDNN is at its full rate. */
    enum { N = 384 };
    const double least_s = 0.3;
    double mine = 0, *all = mem_new((size_t)world->ranks, sizeof *all);
    void *room = NULL;
    int rc = mem_data(3 * (int64_t)sizeof(float) * N * N, "matrices to multiply", &room, err);

    rc = world_agree(world, rc, err);
    if (rc == 0) {
        float *a = room, *b = a + N * N, *c = b + N * N;
        kern_thread_init();
        for (int i = 0; i < 2 * N * N; i++)
            a[i] = (float)(i % 7) - 3;
        kern_gemm('N', 'N', N, N, N, 1, a, N, b, N, 0, c, N); /* makes its code */
        rc = world_barrier(world, err);
        double start = tick_now_s(), took = 0;
        int times = 0;
        for (; rc == 0 && took < least_s; times++, took = tick_now_s() - start)
            kern_gemm('N', 'N', N, N, N, 1, a, N, b, N, 0, c, N);
        mine = times * 2.0 * N * N * N / took;
        rc = rc ? rc : world_allgather(world, &mine, sizeof mine, all, err);
    }
    for (int r = 0; rc == 0 && r < world->ranks; r++)
        mine = all[r] < mine ? all[r] : mine;
    if (rc == 0)
        *flops = mine;
    mem_free(all);
    mem_free(room);
    return rc;
}
