/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joins the levels of a fabric that lie inside a group; and makes a fabric of fewer ranks, or
 * of more groups, than one that was measured or given.
 *
 * A group that ends above level 0 has the groups of level 0 as its cells (base/groups.h).  Each
 * of its M shards goes round the cells, in an order in which those of one unit follow each
 * other, and in a cell of m ranks its carrier passes it to m - 1 others.  So a rank sends
 * (m - 1) M / m shards at level 0's member rate.  A cell sends M - m' shards to the next cell,
 * which has m' ranks, over m flows (M - m if the collective runs in reverse).  They pass the
 * ports of all levels l at which the two cells are in different units.  The links work at the
 * same time.  With R_l the port's rate and F_l a flow's, a rank needs, for shards of one byte,
 *
 *     T = max( (m - 1) M / m / member_Bps of level 0,
 *              max over l of (M - min(m, m')) / min(R_l, m F_l) )
 *
 * for the M - 1 shards that it sends.  The joined level's member rate is (M - 1) / T of the
 * slowest cell; its latency is the largest and its flow rate the lowest of the levels passed.
 * A rank's traffic to other groups passes the same ports: (B - 1) / B of one more shard in a
 * collective over all ranks of B groups.  If both run at the same time, T grows by that
 * traffic, times u_l at the port of u_l ranks; inside_extra is the resulting relative increase.
 *
 * Between groups all ranks send equally.  So the port of a group of M ranks has the rate min
 * over levels l of R_l M / u_l, where the port at level l is that of u_l ranks; u_l = M for the
 * group's own port.
 */
#include "topo/topo_boundary.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

/* Ranks in each unit of boundary b; [groups], by unit; owned by the caller. */
static int *unit_ranks(const struct topo *t, int b)
{
    int *ranks = mem_new((size_t)t->groups.count, sizeof *ranks);

    for (int k = 0; k < t->groups.count; k++)
        ranks[topo_unit(t, b + 1, k)] += t->groups.members[k];
    return ranks;
}

static int unit_count(const struct topo *t, int b)
{
    int *ranks = unit_ranks(t, b), count = 0;

    for (int i = 0; i < t->groups.count; i++)
        count += ranks[i] > 0;
    mem_free(ranks);
    return count;
}

int topo_boundary_is_new(const struct topo *t, int b)
{
    int count = unit_count(t, b);

    /* Levels nest, so equal numbers of units mean equal units. */
    return count > 1 && count < t->groups.ranks && (b == 0 || count < unit_count(t, b - 1));
}

/* ---- one level of several ---- */

/* Returns the smaller of two fractions of 1; 0 means unknown. */
static double less_left(double a, double b)
{
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

/* Combines a message's figures over two levels in sequence; the rates of port and member are
   left alone. */
static void pass_through(struct topo_level *to, const struct topo_level *also)
{
    if (also->latency_s > to->latency_s) {
        to->latency_s = also->latency_s;
        to->latency_err_s = also->latency_err_s;
        memcpy(to->latency_source, also->latency_source, sizeof to->latency_source);
    }
    if (also->flow_Bps < to->flow_Bps) {
        to->flow_Bps = also->flow_Bps;
        to->flow_err_Bps = also->flow_err_Bps;
        memcpy(to->rate_source, also->rate_source, sizeof to->rate_source);
    }
    to->message_s = fmax(to->message_s, also->message_s);
    to->use_lost_s = fmax(to->use_lost_s, also->use_lost_s);
    to->latency_busy_s = fmax(to->latency_busy_s, also->latency_busy_s);
    to->rate_left = less_left(to->rate_left, also->rate_left);
    to->compute_left = less_left(to->compute_left, also->compute_left);
    to->ring_loss = fmax(to->ring_loss, also->ring_loss);
}

/* T above for cell k, which passes to `next`, in a group of M ranks with `more` shards to send
   to other groups. */
static double inside_s(const struct topo *t, int b, int k, int next, double M, double more,
                       int *const *size)
{
    double m = t->groups.members[k], s = (m - 1) * M / m / t->level[0].member_Bps;
    double passes = M - fmin(m, t->groups.members[next]);

    for (int l = 1; l <= b; l++) {
        int apart = topo_unit(t, l, k) != topo_unit(t, l, next);
        double port = l == 1 ? topo_port_Bps(t, k) : t->level[l].port_Bps;
        double all = passes * apart + size[l - 1][topo_unit(t, l, k)] * more;
        s = fmax(s, fmax(all / port, passes * apart / m / t->level[l].flow_Bps));
    }
    return s;
}

/* The member rate of the slowest cell; 0 if no cell has shards to pass. */
static double member_Bps(const struct topo *t, int b, double more, int *const *size)
{
    int count = t->groups.count;
    int *order = groups_by_block(&t->groups, t->levels, t->block);
    double least = INFINITY;

    for (int first = 0, end = 0; first < count; first = end) {
        int unit = topo_unit(t, b + 1, order[first]), M = size[b][unit];
        while (end < count && topo_unit(t, b + 1, order[end]) == unit)
            end++;
        for (int i = first; M > 1 && i < end; i++) {
            int next = order[i + 1 < end ? i + 1 : first];
            least = fmin(least, (M - 1) / inside_s(t, b, order[i], next, M, more, size));
        }
    }
    mem_free(order);
    return isfinite(least) ? least : 0;
}

static void join_inside(const struct topo *t, int b, int *const *size, struct topo *out)
{
    struct topo_level *to = &out->level[0];
    double B = out->groups.count;

    *to = t->level[0];
    out->inside_extra = t->inside_extra;
    if (b == 0)
        return;
    memcpy(to->name, t->level[b].name, sizeof to->name);
    for (int l = 1; l <= b; l++)
        pass_through(to, &t->level[l]);
    to->port_Bps = fmin(to->port_Bps, to->flow_Bps);
    double Bps = member_Bps(t, b, 0, size);
    if (!(Bps > 0))
        return;
    out->inside_extra = Bps / member_Bps(t, b, (B - 1) / B, size) - 1;
    to->member_err_Bps *= Bps / to->member_Bps; /* the same relative error */
    to->member_Bps = Bps;
}

/* ---- across ---- */

/* Sets the ports of the new groups, limited by the ports below them. */
static void set_ports(const struct topo *t, int b, int *const *size, const int *unit,
                      struct topo *out)
{
    double own = t->level[b + 1].port_Bps, most = 0;

    for (int i = 0; i < out->groups.count; i++)
        out->port[i] = (struct topo_port){own, own};
    for (int k = 0; k < t->groups.count; k++) {
        struct topo_port *p = &out->port[unit[k]];
        double M = out->groups.members[unit[k]];
        p->out_Bps = fmin(p->out_Bps, t->port[k].out_Bps * M / t->groups.members[k]);
        p->in_Bps = fmin(p->in_Bps, t->port[k].in_Bps * M / t->groups.members[k]);
        for (int l = 2; l <= b; l++) {
            double Bps = t->level[l].port_Bps * M / size[l - 1][topo_unit(t, l, k)];
            p->out_Bps = fmin(p->out_Bps, Bps);
            p->in_Bps = fmin(p->in_Bps, Bps);
        }
    }
    for (int i = 0; i < out->groups.count; i++)
        most = fmax(most, fmax(out->port[i].out_Bps, out->port[i].in_Bps));
    out->level[1].port_Bps = fmin(out->level[1].port_Bps, most);
}

/* ---- groups ---- */

/* Renumbers units below `bound` in the order of their first group. */
static void renumber(int *unit, int count, int bound)
{
    int *number = mem_new((size_t)bound, sizeof *number), next = 0;

    for (int k = 0; k < count; k++) {
        int *at = &number[unit[k]];
        *at = *at ? *at : ++next;
        unit[k] = *at - 1;
    }
    mem_free(number);
}

/* Numbers the units of boundary b by their first group, in unit[k], and makes groups of them
   with t's groups as cells. */
static void merge_groups(const struct topo *t, int b, int *unit, struct groups *groups)
{
    int count = t->groups.count, n = t->groups.ranks;
    int *order = groups_by_block(&t->groups, t->levels, t->block);
    int *group_of = mem_new((size_t)n, sizeof *group_of);
    int *cell_of = mem_new((size_t)n, sizeof *cell_of);
    int *cells = mem_new((size_t)count, sizeof *cells); /* so far, of each merged group */
    struct err err;

    for (int k = 0; k < count; k++)
        unit[k] = topo_unit(t, b + 1, k);
    renumber(unit, count, count);
    for (int r = 0; r < n; r++)
        group_of[r] = unit[t->groups.group_of[r]];
    int rc = groups_init_of(groups, n, group_of, &err);
    assert(rc == 0); /* they were valid groups of t */
    for (int i = 0; i < count; i++) {
        int k = order[i], cell = cells[unit[k]]++;
        for (int j = 0; j < t->groups.members[k]; j++)
            cell_of[groups_rank(&t->groups, k, j)] = cell;
    }
    groups_set_cells(groups, b > 0 ? cell_of : t->groups.cell_of);
    groups->ring = b == 0 && t->groups.ring;
    MEM_FREE(cell_of, cells, order, group_of);
}

/* Sets the host and devices of a merged group if all its parts share one host. */
static void set_hosts(const struct topo *t, const int *unit, struct topo *out)
{
    int *seen = mem_new((size_t)out->groups.count, sizeof *seen);

    for (int k = 0; t->host && k < t->groups.count; k++) {
        int to = unit[k];
        if (seen[to] && out->host[to][0] && strcmp(out->host[to], t->host[k]) == 0)
            continue;
        topo_set_host(out, to, seen[to] ? "" : t->host[k]);
        out->devices[to] = seen[to] || !t->devices ? (struct topo_devices){0} : t->devices[k];
        seen[to] = 1;
    }
    mem_free(seen);
}

/* Copies the figures that a fabric states for each rank. */
static void copy_rank(const struct topo *t, struct topo *out)
{
    out->device = t->device;
    out->transport = t->transport;
    out->compute_type = t->compute_type;
    out->memory_bytes = t->memory_bytes;
    out->flops = t->flops;
    out->other_flops = t->other_flops;
    out->memory_Bps = t->memory_Bps;
    memcpy(out->doubt, t->doubt, sizeof out->doubt);
}

void topo_at_boundary(const struct topo *t, int b, struct topo *out)
{
    int *size[TOPO_LEVELS_MAX] = {NULL};
    int *unit = mem_new((size_t)t->groups.count, sizeof *unit);
    struct groups groups;

    assert(b >= 0 && b < t->levels - 1);
    for (int l = 0; l <= b; l++)
        size[l] = unit_ranks(t, l);
    merge_groups(t, b, unit, &groups);
    topo_init(out, t->levels - b, &groups);
    groups_release(&groups);
    join_inside(t, b, size, out);
    struct topo_level *to = &out->level[1];
    *to = t->level[b + 1];
    for (int l = 1; l <= b; l++) {
        pass_through(to, &t->level[l]);
        if (t->level[l].member_Bps < to->member_Bps) {
            to->member_Bps = t->level[l].member_Bps;
            to->member_err_Bps = t->level[l].member_err_Bps;
        }
    }
    for (int l = 2; l < out->levels; l++) {
        out->level[l] = t->level[l + b];
        for (int k = 0; k < t->groups.count; k++)
            out->block[(l - 2) * out->groups.count + unit[k]] = topo_unit(t, l + b, k);
    }
    if (b > 0)
        set_ports(t, b, size, unit, out);
    else
        memcpy(out->port, t->port, (size_t)t->groups.count * sizeof *t->port);
    set_hosts(t, unit, out);
    copy_rank(t, out);
    for (int r = 0; r < t->groups.ranks; r++)
        topo_set_rank_flops(out, r, topo_rank_flops(t, r));
    memcpy(out->open, t->open, sizeof out->open);
    for (int l = 0; l <= b; l++)
        mem_free(size[l]);
    mem_free(unit);
}

/* ---- fewer ranks, more groups ---- */

/* A fabric of these groups; group k has the port of group from[k] of t, and its first ranks'
   compute rates. */
static void init_from(const struct topo *t, const struct groups *groups, const int *from,
                      struct topo *out)
{
    topo_init(out, t->levels, groups);
    memcpy(out->level, t->level, (size_t)t->levels * sizeof *t->level);
    for (int k = 0; k < groups->count; k++) {
        out->port[k] = t->port[from[k]];
        if (t->devices)
            out->devices[k] = t->devices[from[k]];
    }
    copy_rank(t, out);
    for (int k = 0; k < groups->count; k++)
        for (int i = 0; i < groups->members[k]; i++)
            topo_set_rank_flops(out, groups_rank(groups, k, i),
                                topo_rank_flops(t, groups_rank(&t->groups, from[k], i)));
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
    groups.ring = t->groups.ring && count == t->groups.count;
    init_from(t, &groups, from, out);
    for (int k = 0; k < count; k++)
        topo_set_host(out, k, t->host[from[k]]);
    for (int l = 2; l < t->levels; l++) {
        int *block = out->block + (l - 2) * count;
        for (int k = 0; k < count; k++)
            block[k] = topo_unit(t, l, from[k]);
        renumber(block, count, t->groups.count);
    }
    out->inside_extra = t->inside_extra;
    memcpy(out->open, t->open, sizeof out->open);
    size_t doubts = strlen(out->doubt);
    if (groups.ring != t->groups.ring && count > 1)
        snprintf(out->doubt + doubts, sizeof out->doubt - doubts,
                 "%sa ring of cables without some of its hosts is taken for a switch",
                 doubts ? "; " : "");
    groups_release(&groups);
    MEM_FREE(number, from, at);
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
    all.ring = t->groups.ring;
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
