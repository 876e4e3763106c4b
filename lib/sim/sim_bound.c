/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounds the time of any schedule from below: the bytes that must pass the ports of a level,
 * over their rates (paro-method(7), CUT BOUND).  Units are groups at level 1, blocks at the
 * levels above; m_u of n ranks are in unit u, M is the vector:
 *
 *   all-gather      in M (1 - m_u/n)   out M m_u/n: its own part, once
 *   reduce-scatter  out M (1 - m_u/n)  in M m_u/n: the rest of its own part's sums, once
 *   all-reduce      out M, in M: of each element its share goes out, and the sum or the others'
 *                   share comes in
 *   broadcast       the root's unit out M, each other in M
 *
 * and over all units together, out as in: (units - 1) M, for an all-reduce 2 (units - 1) M.
 */
#include <assert.h>
#include <math.h>

#include "base/mem.h"
#include "sim/sim.h"

struct unit {
    int ranks;
    double out_Bps, in_Bps;
};

/* Lists the units of level l; returns their number. */
static int units_of(const struct topo *t, int l, struct unit *unit)
{
    int g = t->groups.count, units = 0;

    for (int k = 0; k < g; k++)
        unit[k] = (struct unit){0};
    for (int k = 0; k < g; k++) {
        int u = topo_unit(t, l, k);
        units = u >= units ? u + 1 : units;
        unit[u].ranks += t->groups.members[k];
        unit[u].out_Bps = l == 1 ? t->port[k].out_Bps : t->level[l].port_Bps;
        unit[u].in_Bps = l == 1 ? t->port[k].in_Bps : t->level[l].port_Bps;
    }
    return units;
}

static double unit_bound_s(const struct unit *u, unsigned phases, double bytes, double share,
                           int is_root)
{
    double most = bytes * (1 - share), least = bytes * share;

    switch (phases) {
    case SCHEDULE_ALL_GATHER:
        return fmax(most / u->in_Bps, least / u->out_Bps);
    case SCHEDULE_REDUCE_SCATTER:
        return fmax(most / u->out_Bps, least / u->in_Bps);
    case SCHEDULE_BROADCAST:
        return is_root ? bytes / u->out_Bps : bytes / u->in_Bps;
    default:
        return fmax(bytes / u->out_Bps, bytes / u->in_Bps);
    }
}

static double level_bound_s(const struct topo *t, int l, unsigned phases, int root,
                            double bytes, struct unit *unit)
{
    int units = units_of(t, l, unit), root_unit = topo_unit(t, l, t->groups.group_of[root]);
    int used = 0;
    double out = 0, in = 0, worst = 0;

    for (int u = 0; u < units; u++)
        used += unit[u].ranks > 0;
    for (int u = 0; used > 1 && u < units; u++) {
        if (unit[u].ranks == 0)
            continue;
        out += unit[u].out_Bps;
        in += unit[u].in_Bps;
        worst =
            fmax(worst, unit_bound_s(&unit[u], phases, bytes,
                                     (double)unit[u].ranks / t->groups.ranks, u == root_unit));
    }
    if (used < 2)
        return 0;
    double all = (phases == SCHEDULE_ALL_REDUCE ? 2 : 1) * (used - 1) * bytes;
    return fmax(worst, fmax(all / out, all / in));
}

double sim_cut_bound_s(const struct topo *t, unsigned phases, int root, double bytes)
{
    struct unit *unit = mem_new((size_t)t->groups.count, sizeof *unit);
    double worst = 0;

    assert(root >= 0 && root < t->groups.ranks);
    for (int l = 1; l < t->levels; l++)
        worst = fmax(worst, level_bound_s(t, l, phases, root, bytes, unit));
    mem_free(unit);
    return worst;
}
