/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what is behind the ports of each level, from groups and blocks, and who is whose
 * neighbour there.
 *
 *   groups 0 1 2 3, blocks 0 0 1 1 at level 2:
 *     view 1   the groups; streams stay inside a block: 0 <-> 1, 2 <-> 3
 *     view 2   the blocks, with the ranks of both their groups: 0 <-> 1
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "probe/probe_view.h"

struct probe_view probe_view_hosts(const struct world *world)
{
    return (struct probe_view){.groups = &world->groups, .hosts = 1};
}

static int circle_of(const struct probe_view *v, int k)
{
    return v->within ? v->within[k] : 0;
}

int probe_circle(const struct probe_view *v, int k, int *at)
{
    int count = 0;

    *at = 0;
    for (int i = 0; i < v->groups->count; i++)
        if (circle_of(v, i) == circle_of(v, k)) {
            *at += i < k;
            count++;
        }
    return count;
}

int probe_next(const struct probe_view *v, int k, int s)
{
    int at, count = probe_circle(v, k, &at), want = (at + s) % count, i = -1;

    while (want >= 0) {
        i++;
        want -= circle_of(v, i) == circle_of(v, k);
    }
    return i;
}

int probe_widest(const struct probe_view *v)
{
    int most = 0, at;

    for (int k = 0; k < v->groups->count; k++) {
        int count = probe_circle(v, k, &at);
        most = count > most ? count : most;
    }
    return most;
}

/* The blocks of level l >= 2 as groups of ranks, and what those of the level below are in. */
static void make_blocks(struct probe_views *v, const struct probe_found *f, int l)
{
    const int *block = f->block + (l - 2) * f->groups.count;
    const struct groups *below = v->view[l - 1].groups;
    int *of = mem_new((size_t)f->groups.ranks, sizeof *of);
    int *within = v->within[l - 1] = mem_new((size_t)below->count, sizeof *within);
    struct err err;

    for (int r = 0; r < f->groups.ranks; r++)
        of[r] = block[f->groups.group_of[r]];
    /* Blocks are counted through, so that nothing can be wrong with them. */
    int rc = groups_init_of(&v->groups[l], f->groups.ranks, of, &err);
    assert(rc == 0);
    (void)rc;
    v->view[l].groups = &v->groups[l];
    for (int k = 0; k < below->count; k++)
        within[k] = of[groups_rank(below, k, 0)];
    v->view[l - 1].within = within;
    mem_free(of);
}

void probe_views_init(struct probe_views *v, const struct world *world,
                      const struct probe_found *found)
{
    *v = (struct probe_views){.levels = found ? found->levels : 2};
    if (!found) {
        v->view[1] = probe_view_hosts(world);
        return;
    }
    v->block = found->block;
    v->view[1].groups = &found->groups;
    for (int l = 2; l < v->levels; l++)
        make_blocks(v, found, l);
    for (int l = 1; l < v->levels; l++) {
        v->view[l].hosts = groups_equal(v->view[l].groups, &world->groups);
        v->view[l].ahead_s = found->ahead_s;
    }
}

void probe_views_release(struct probe_views *v)
{
    for (int l = 1; l < v->levels; l++) {
        mem_free(v->within[l]);
        groups_release(&v->groups[l]);
    }
    *v = (struct probe_views){0};
}

int probe_passes(const struct probe_views *v, int level)
{
    const struct groups *g = v->view[1].groups;

    return level ? g->count > 1 : groups_largest(g) > 1;
}

int probe_host_of(const struct groups *g, const struct world *world, int k)
{
    int host = world->groups.group_of[groups_rank(g, k, 0)];

    for (int j = 1; j < g->members[k]; j++)
        if (world->groups.group_of[groups_rank(g, k, j)] != host)
            return -1;
    return host;
}

void probe_views_topo(const struct probe_views *v, const struct world *world, struct topo *t)
{
    const struct groups *g = v->view[1].groups;

    topo_init(t, v->levels, g);
    for (int k = 0; k < g->count; k++) {
        int host = probe_host_of(g, world, k);
        if (host >= 0)
            topo_set_host(t, k, world->host[host]);
    }
    if (v->levels > 2)
        memcpy(t->block, v->block, (size_t)(v->levels - 2) * (size_t)g->count * sizeof(int));
}
