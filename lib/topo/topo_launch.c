/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the files by which Open MPI places ranks: a host file ("node0 slots=2"), which fills
 * hosts in their order, and a rank file ("rank 0=node0 slot=0"), which places each rank.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo_print.h"

struct host {
    const char *name; /* borrowed */
    int first, slots; /* first: the group that has it first */
};

static int by_name(const void *a, const void *b)
{
    const struct host *x = a, *y = b;
    int differ = strcmp(x->name, y->name);

    return differ ? differ : x->first - y->first;
}

static int by_first(const void *a, const void *b)
{
    return ((const struct host *)a)->first - ((const struct host *)b)->first;
}

/* Groups of one host (NVLink pairs on PCIe) are one line; [groups], owned by the caller. */
static struct host *hosts_of(const struct topo *t, int *count)
{
    int groups = t->groups.count, n = 0;
    struct host *host = mem_new((size_t)groups, sizeof *host);

    for (int k = 0; k < groups; k++)
        host[k] = (struct host){t->host[k], k, t->groups.members[k]};
    qsort(host, (size_t)groups, sizeof *host, by_name);
    for (int k = 0; k < groups; k++) {
        if (n && strcmp(host[n - 1].name, host[k].name) == 0)
            host[n - 1].slots += host[k].slots;
        else
            host[n++] = host[k];
    }
    qsort(host, (size_t)n, sizeof *host, by_first);
    *count = n;
    return host;
}

/* Would mpirun, filling the hosts in their order, place the ranks as they are? */
static int is_filled(const struct topo *t, const struct host *host, int hosts)
{
    int rank = 0;

    for (int h = 0; h < hosts; h++)
        for (int i = 0; i < host[h].slots; i++, rank++)
            if (strcmp(t->host[t->groups.group_of[rank]], host[h].name))
                return 0;
    return 1;
}

void topo_print_hostfile(const struct topo *t, FILE *out)
{
    int hosts = 0;
    struct host *host = hosts_of(t, &hosts);

    if (!is_filled(t, host, hosts))
        fputs("# These ranks do not fill the hosts in their order: a rank file places them.\n",
              out);
    for (int h = 0; h < hosts; h++)
        fprintf(out, "%s slots=%d\n", host[h].name, host[h].slots);
    mem_free(host);
}

void topo_print_rankfile(const struct topo *t, FILE *out)
{
    int hosts = 0, ranks = t->groups.ranks;
    struct host *host = hosts_of(t, &hosts);
    int *of_group = mem_new((size_t)t->groups.count, sizeof *of_group);
    int *used = mem_new((size_t)hosts, sizeof *used);

    /* In the order of their names a group finds its host by halves. */
    qsort(host, (size_t)hosts, sizeof *host, by_name);
    for (int k = 0; k < t->groups.count; k++) {
        int from = 0, to = hosts - 1;
        while (from < to) {
            int middle = (from + to) / 2;
            if (strcmp(host[middle].name, t->host[k]) < 0)
                from = middle + 1;
            else
                to = middle;
        }
        of_group[k] = from;
    }
    for (int r = 0; r < ranks; r++) {
        int h = of_group[t->groups.group_of[r]];
        fprintf(out, "rank %d=%s slot=%d\n", r, host[h].name, used[h]++);
    }
    mem_free(of_group);
    mem_free(used);
    mem_free(host);
}
