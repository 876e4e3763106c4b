/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sorts the groups so that each block of each level is contiguous, in the order of
 * groups_by_block.  A block that lies in two blocks of the next level counts as two.
 *
 *   groups 0 1 2 3 4 5, blocks 0 0 1 1 1 0 at level 2
 *     order           0 1 5 2 3 4
 *     units, level 1  0 1 2 3 4 5       (the groups)
 *     units, level 2  0 0 0 1 1 1
 *     units, level 3  0 0 0 0 0 0       (everything)
 */
#include "schedule/schedule_gen.h"

#include "base/mem.h"

/* Cuts level l into units, given those of level l + 1: a unit also ends where the upper one
   does. */
static void cut_level(struct schedule_blocks *b, const struct schedule_spec *spec, int l)
{
    int count = spec->groups->count, units = 0, inside = 0;
    int *unit = b->unit + (int64_t)l * count, *start = b->start + (int64_t)l * (count + 1);
    const int *above = unit + count;
    const int *block = l >= 2 ? spec->block + (int64_t)(l - 2) * count : NULL;

    for (int i = 0; i < count; i++) {
        int fresh = i == 0 || above[i] != above[i - 1];
        if (fresh)
            inside = 0;
        if (fresh || !block || block[b->order[i]] != block[b->order[i - 1]]) {
            start[units++] = i;
            inside++;
        }
        unit[i] = units - 1;
        if (inside > b->radix[l])
            b->radix[l] = inside;
    }
    start[units] = count;
}

void schedule_blocks_init(struct schedule_blocks *b, const struct schedule_spec *spec,
                          int backward)
{
    int rails = spec->levels > 2 ? spec->levels - 1 : 1, count = spec->groups->count;
    size_t levels = (size_t)rails + 2;

    b->rails = rails;
    b->order = groups_by_block(spec->groups, spec->levels, spec->block);
    b->at = mem_new((size_t)count, sizeof(int));
    b->unit = mem_new(levels * (size_t)count, sizeof(int));
    b->start = mem_new(levels * (size_t)(count + 1), sizeof(int));
    b->radix = mem_new(levels, sizeof(int));
    for (int i = 0; backward && i < count / 2; i++) {
        int k = b->order[i];
        b->order[i] = b->order[count - 1 - i];
        b->order[count - 1 - i] = k;
    }
    for (int i = 0; i < count; i++)
        b->at[b->order[i]] = i;
    b->start[(rails + 1) * (count + 1) + 1] = count; /* end of the one unit of all groups */
    for (int l = rails; l >= 1; l--)
        cut_level(b, spec, l);
}

void schedule_blocks_release(struct schedule_blocks *b)
{
    MEM_FREE(b->order, b->at, b->unit, b->start, b->radix);
}

int *schedule_blocks_chain(const struct schedule_blocks *b, int count, int group)
{
    int *chain = mem_new((size_t)count, sizeof *chain), n = 0, at = b->at[group];

    chain[n++] = group;
    for (int l = 1; l <= b->rails; l++) {
        const int *unit = b->unit + (int64_t)l * count;
        const int *start = b->start + (int64_t)l * (count + 1);
        const int *above = b->start + (int64_t)(l + 1) * (count + 1) + unit[count + at];
        int first = unit[above[0]], units = unit[above[1] - 1] - first + 1;
        for (int u = 1; u < units; u++) {
            int next = first + (unit[at] - first + u) % units;
            for (int i = start[next]; i < start[next + 1]; i++)
                chain[n++] = b->order[i];
        }
    }
    return chain;
}

int *schedule_gen_ranks_chain(const struct schedule_gen *g)
{
    const struct groups *groups = &g->out->groups;
    int *ranks = mem_new((size_t)groups->ranks, sizeof *ranks), n = 0;
    int *chain = schedule_gen_groups_chain(g);

    for (int i = 0; i < groups->count; i++) {
        int m = groups->members[chain[i]], from = i ? 0 : groups->local_of[g->spec->root];
        for (int j = 0; j < m; j++)
            ranks[n++] = groups_rank(groups, chain[i], (from + j) % m);
    }
    mem_free(chain);
    return ranks;
}

int *schedule_gen_groups_chain(const struct schedule_gen *g)
{
    struct schedule_blocks b = {0};
    const struct groups *groups = &g->out->groups;

    schedule_blocks_init(&b, g->spec, 0);
    int *chain = schedule_blocks_chain(&b, groups->count, groups->group_of[g->spec->root]);
    schedule_blocks_release(&b);
    return chain;
}
