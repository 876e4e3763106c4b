/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints the files with which Open MPI places ranks: a host file ("node0 slots=2"), which fills
 * hosts in their order, and a rank file ("rank 0=node0 slot=0"), which places each rank.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo_print.h"

static int launch_by_host(const void *a, const void *b, void *hosts)
{
    char *const *host = hosts;
    int x = *(const int *)a, y = *(const int *)b, differ = strcmp(host[x], host[y]);

    return differ ? differ : x - y;
}

/*
 * The first group with the same host, which represents the host: several groups (NVLink pairs
 * on PCIe) may share one.  [groups], owned by the caller.
 */
static int *first_groups(const struct topo *t)
{
    int count = t->groups.count, *first = mem_new((size_t)count, sizeof *first);
    int *sorted = mem_new((size_t)count, sizeof *sorted);

    for (int k = 0; k < count; k++)
        sorted[k] = k;
    qsort_r(sorted, (size_t)count, sizeof *sorted, launch_by_host, t->host);
    for (int i = 0; i < count; i++) {
        int k = sorted[i], before = sorted[i ? i - 1 : 0];
        first[k] = i && strcmp(t->host[k], t->host[before]) == 0 ? first[before] : k;
    }
    mem_free(sorted);
    return first;
}

void topo_print_hostfile(const struct topo *t, FILE *out)
{
    int *first = first_groups(t), *slots = mem_new((size_t)t->groups.count, sizeof *slots);
    /* Whether mpirun, filling the hosts in their order, gives this placement of ranks */
    int is_filled = 1;

    for (int k = 0; k < t->groups.count; k++)
        slots[first[k]] += t->groups.members[k];
    for (int k = 0, rank = 0; k < t->groups.count; k++)
        for (int i = 0; first[k] == k && i < slots[k]; i++, rank++)
            is_filled &= first[t->groups.group_of[rank]] == k;
    if (!is_filled)
        fputs("# These ranks do not fill the hosts in their order: a rank file places them.\n",
              out);
    for (int k = 0; k < t->groups.count; k++)
        if (first[k] == k)
            fprintf(out, "%s slots=%d\n", t->host[k], slots[k]);
    mem_free(first);
    mem_free(slots);
}

void topo_print_rankfile(const struct topo *t, FILE *out)
{
    int *first = first_groups(t), *used = mem_new((size_t)t->groups.count, sizeof *used);

    for (int r = 0; r < t->groups.ranks; r++) {
        int k = first[t->groups.group_of[r]];
        fprintf(out, "rank %d=%s slot=%d\n", r, t->host[k], used[k]++);
    }
    mem_free(first);
    mem_free(used);
}
