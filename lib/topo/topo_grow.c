/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a fabric grows: by its groups, over and over. */
#include "topo/topo_boundary.h"

#include <string.h>

#include "base/mem.h"

/* Blocks repeat with the groups they hold: their numbers go on. */
static void copy_blocks(struct topo *to, const struct topo *from)
{
    int g = from->groups.count, n = to->groups.count;

    for (int level = 0; level < from->levels - 2; level++) {
        const int *block = from->block + (size_t)level * (size_t)g;
        int blocks = 0;
        for (int k = 0; k < g; k++)
            blocks = block[k] >= blocks ? block[k] + 1 : blocks;
        for (int k = 0; k < n; k++)
            to->block[(size_t)level * (size_t)n + (size_t)k] = block[k % g] + k / g * blocks;
    }
}

void topo_grow(const struct topo *t, int groups, struct topo *out)
{
    int g = t->groups.count;
    int *members = mem_new((size_t)groups, sizeof *members);
    struct groups grown;

    for (int k = 0; k < groups; k++)
        members[k] = t->groups.members[k % g];
    groups_init(&grown, groups, members);
    mem_free(members);
    topo_init(out, t->levels, &grown);
    groups_release(&grown);
    memcpy(out->level, t->level, (size_t)t->levels * sizeof *t->level);
    for (int k = 0; k < groups; k++)
        out->port[k] = t->port[k % g];
    copy_blocks(out, t);
    topo_boundary_copy_rank(t, out);
}
