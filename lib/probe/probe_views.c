/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the units that share the ports of each level, and their neighbours, from groups and
 * blocks.
 *
 *   groups 0 1 2 3, blocks 0 0 1 1 at level 2:
 *     view 1   the groups; streams stay inside a block: 0 <-> 1, 2 <-> 3
 *     view 2   the blocks, with the ranks of both their groups: 0 <-> 1
 */
#include <assert.h>

#include "base/mem.h"
#include "probe/probe.h"

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

void probe_views_init(struct probe_views *v, const struct world *world,
                      const struct probe_clusters *found, double ahead_s)
{
    int n = world->ranks;

    *v = (struct probe_views){.levels = 2};
    if (!found) {
        v->view[1] = probe_view_hosts(world);
        return;
    }
    int *one = mem_new((size_t)n, sizeof *one);
    v->levels = found->partitions > 1 ? found->partitions + 1 : 2;
    for (int l = 1; l < v->levels; l++) {
        const int *part = found->partitions ? found->part + (int64_t)(l - 1) * n : one;
        struct groups *g = &v->groups[l];
        struct err err;
        int rc = groups_init_of(g, n, part, &err);
        assert(rc == 0); /* parts are numbered without gaps */
        (void)rc;
        v->view[l] = (struct probe_view){
            .groups = g, .hosts = groups_equal(g, &world->groups), .ahead_s = ahead_s};
        if (l + 1 == v->levels)
            continue;
        int *within = v->within[l] = mem_new((size_t)g->count, sizeof *within);
        for (int k = 0; k < g->count; k++)
            within[k] = part[n + groups_rank(g, k, 0)]; /* the part of the next level */
        v->view[l].within = within;
    }
    mem_free(one);
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
    for (int l = 2; l < v->levels; l++)
        for (int k = 0; k < g->count; k++)
            t->block[(l - 2) * g->count + k] =
                v->view[l].groups->group_of[groups_rank(g, k, 0)];
}
