/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows what is left of a fabric for some of its ranks, or more ranks on its hosts. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo_boundary.h"

/* Block numbers are below the number of groups: they are counted anew, by first group. */
static void number_blocks(struct topo *to, const struct topo *from, const int *kept)
{
    int *number = mem_new((size_t)from->groups.count, sizeof *number);

    for (int l = 2; l < from->levels; l++) {
        const int *old = from->block + (l - 2) * from->groups.count;
        int *new = to->block + (l - 2) * to->groups.count, next = 0;
        memset(number, 0, (size_t)from->groups.count * sizeof *number);
        for (int k = 0; k < to->groups.count; k++) {
            int *at = &number[old[kept[k]]];
            *at = *at ? *at : ++next;
            new[k] = *at - 1;
        }
    }
    mem_free(number);
}

void topo_some(const struct topo *t, int ranks, const int *group_of, struct topo *out)
{
    int *number = mem_new((size_t)t->groups.count, sizeof *number), count = 0;
    int *kept = mem_new((size_t)t->groups.count, sizeof *kept);
    int *at = mem_new((size_t)ranks, sizeof *at);
    struct groups groups;
    struct err err;

    for (int r = 0; r < ranks; r++)
        number[group_of[r]] = 1;
    for (int k = 0; k < t->groups.count; k++)
        if (number[k]) {
            kept[count] = k;
            number[k] = count++;
        }
    for (int r = 0; r < ranks; r++)
        at[r] = number[group_of[r]];
    int rc = groups_init_of(&groups, ranks, at, &err);
    assert(rc == 0); /* each number was given for a rank */
    topo_init(out, t->levels, &groups);
    memcpy(out->level, t->level, (size_t)t->levels * sizeof *t->level);
    for (int k = 0; k < count; k++) {
        out->port[k] = t->port[kept[k]];
        out->devices[k] = t->devices[kept[k]];
        topo_set_host(out, k, t->host[kept[k]]);
    }
    number_blocks(out, t, kept);
    topo_boundary_copy_rank(t, out);
    out->inside_extra = t->inside_extra;
    memcpy(out->doubt, t->doubt, sizeof out->doubt);
    groups_release(&groups);
    mem_free(number);
    mem_free(kept);
    mem_free(at);
}
