/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows a fabric of fewer ranks, or of more groups, than one that was measured or given. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo_boundary.h"

/* A fabric of these groups; group k has the port of group from[k] of t. */
static void init_from(const struct topo *t, const struct groups *groups, const int *from,
                      struct topo *out)
{
    topo_init(out, t->levels, groups);
    memcpy(out->level, t->level, (size_t)t->levels * sizeof *t->level);
    for (int k = 0; k < groups->count; k++)
        out->port[k] = t->port[from[k]];
    topo_copy_rank(t, out);
}

/* Block numbers are below the number of groups: they are counted anew, by first group. */
static void number_blocks(struct topo *to, const struct topo *t, const int *from)
{
    int *number = mem_new((size_t)t->groups.count, sizeof *number);

    for (int l = 2; l < t->levels; l++) {
        const int *old = t->block + (l - 2) * t->groups.count;
        int *new = to->block + (l - 2) * to->groups.count, next = 0;
        memset(number, 0, (size_t)t->groups.count * sizeof *number);
        for (int k = 0; k < to->groups.count; k++) {
            int *at = &number[old[from[k]]];
            *at = *at ? *at : ++next;
            new[k] = *at - 1;
        }
    }
    mem_free(number);
}

void topo_subset(const struct topo *t, int ranks, const int *group_of, struct topo *out)
{
    int *number = mem_new((size_t)t->groups.count, sizeof *number), count = 0;
    int *from = mem_new((size_t)t->groups.count, sizeof *from);
    int *at = mem_new((size_t)ranks, sizeof *at);
    struct groups groups;
    struct err err;

    for (int r = 0; r < ranks; r++)
        number[group_of[r]] = 1;
    for (int k = 0; k < t->groups.count; k++)
        if (number[k]) {
            from[count] = k;
            number[k] = count++;
        }
    for (int r = 0; r < ranks; r++)
        at[r] = number[group_of[r]];
    int rc = groups_init_of(&groups, ranks, at, &err);
    assert(rc == 0); /* each number was given for a rank */
    init_from(t, &groups, from, out);
    for (int k = 0; k < count; k++) {
        out->devices[k] = t->devices[from[k]];
        topo_set_host(out, k, t->host[from[k]]);
    }
    number_blocks(out, t, from);
    out->inside_extra = t->inside_extra;
    memcpy(out->doubt, t->doubt, sizeof out->doubt);
    groups_release(&groups);
    mem_free(number);
    mem_free(from);
    mem_free(at);
}

void topo_extend(const struct topo *t, int groups, struct topo *out)
{
    int g = t->groups.count;
    int *members = mem_new((size_t)groups, sizeof *members);
    int *from = mem_new((size_t)groups, sizeof *from);
    struct groups all;

    for (int k = 0; k < groups; k++) {
        from[k] = k % g;
        members[k] = t->groups.members[k % g];
    }
    groups_init(&all, groups, members);
    init_from(t, &all, from, out);
    /* Blocks repeat with the groups that they hold; their numbers continue. */
    for (size_t l = 0; l + 2 < (size_t)t->levels; l++) {
        const int *block = t->block + l * (size_t)g;
        int blocks = 0;
        for (int k = 0; k < g; k++)
            blocks = block[k] >= blocks ? block[k] + 1 : blocks;
        for (int k = 0; k < groups; k++)
            out->block[l * (size_t)groups + (size_t)k] = block[k % g] + k / g * blocks;
    }
    groups_release(&all);
    mem_free(members);
    mem_free(from);
}
