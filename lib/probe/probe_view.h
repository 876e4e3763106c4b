/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_VIEW_H
#define PROBE_PROBE_VIEW_H

#include "probe/probe_cluster.h"
#include "topo/topo.h"
#include "world/world.h"

/*
 * Which ranks are behind one port.  The hosts, unless groups were found otherwise
 * (probe_discover.c): those may reach over several machines, or be several on one, and a level
 * that joins blocks of groups has the blocks of the level below for groups.
 */
struct probe_view {
    const struct groups *groups; /* borrowed */
    const int *within; /* [groups->count]: streams stay among groups of one number here;
                        * borrowed; NULL: all are of one */
    int hosts;         /* the groups are the hosts: the ranks of one share a clock */
    double ahead_s;    /* else: of this rank's clock before that of rank 0 */
};

/* The hosts. */
struct probe_view probe_view_hosts(const struct world *world);
/* How many groups have k's number in `within`, and at *at the place of k among them. */
int probe_circle(const struct probe_view *v, int k, int *at);
/* The group s places behind k among those of its number in `within`, in a circle. */
int probe_next(const struct probe_view *v, int k, int s);
/* The most groups of one number. */
int probe_widest(const struct probe_view *v);

/* What is behind the ports of each level from 1 on: view[1] the groups, view[2] blocks, ... */
struct probe_views {
    int levels;
    struct probe_view view[TOPO_LEVELS_MAX];
    struct groups groups[TOPO_LEVELS_MAX]; /* owned, as is the next; views point to them */
    int *within[TOPO_LEVELS_MAX];
};
/* Of the world's hosts, borrowed; or with `found` of those clusters.  ahead_s: as of a view. */
void probe_views_init(struct probe_views *v, const struct world *world,
                      const struct probe_clusters *found, double ahead_s);
void probe_views_release(struct probe_views *v);
/* Whether there are ranks that meet inside groups (level 0), or between them (further out). */
int probe_passes(const struct probe_views *v, int level);
/* The host, of the world's, that all members of group k share; -1 where they are on several. */
int probe_host_of(const struct groups *g, const struct world *world, int k);
/* A fabric of these groups and blocks without rates; hosts where a group is on one alone. */
void probe_views_topo(const struct probe_views *v, const struct world *world, struct topo *t);

#endif
