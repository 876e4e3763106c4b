/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the files by which Open MPI places ranks: a host file ("node0 slots=2"), which fills
 * hosts in their order, and a rank file ("rank 0=node0 slot=0"), which places each rank.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo_print.h"

struct named {
    const char *host; /* borrowed */
    int group;
};

static int by_host(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int differ = strcmp(x->host, y->host);

    return differ ? differ : x->group - y->group;
}

/*
 * The first group with the same host, which stands for the host: groups of one host (NVLink
 * pairs on PCIe) share it.  [groups], owned by the caller.
 */
static int *first_groups(const struct topo *t)
{
    int count = t->groups.count, *first = mem_new((size_t)count, sizeof *first);
    struct named *sorted = mem_new((size_t)count, sizeof *sorted);

    for (int k = 0; k < count; k++)
        sorted[k] = (struct named){t->host[k], k};
    qsort(sorted, (size_t)count, sizeof *sorted, by_host);
    for (int i = 0; i < count; i++) {
        int is_same = i > 0 && strcmp(sorted[i].host, sorted[i - 1].host) == 0;
        first[sorted[i].group] = is_same ? first[sorted[i - 1].group] : sorted[i].group;
    }
    mem_free(sorted);
    return first;
}

void topo_print_hostfile(const struct topo *t, FILE *out)
{
    int *first = first_groups(t), *slots = mem_new((size_t)t->groups.count, sizeof *slots);
    int is_filled = 1; /* mpirun, filling the hosts in their order, places ranks as they are */

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
