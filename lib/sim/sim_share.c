/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares the resources of a fabric among messages: max-min by filling.  All rates rise together
 * until a resource is full or a message is at its own limit; the rates concerned are then
 * fixed, and the others rise on.  Source: Bertsekas and Gallager, Data Networks, 2nd ed.,
 * section 6.5.2.
 *
 * A change affects only messages connected to it by shared resources; a resource that can never
 * be the narrowest is left out of the paths, so that little is connected.
 *
 * Resources, n ranks, g groups, then blocks of each level; out and in of one resource are
 * adjacent:
 *
 *     0        rank links   2n     ways to the port  4n    groups inside
 *     4n + g   group ports  4n + 3g   blocks of level 2, of level 3, ... (at most g each)
 *     then, of groups cabled in a ring, each group's link to the next and to the one before; a
 *     message to another group passes the links on the shorter way round
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sim/sim_parts.h"

static int port_at(const struct sim *x)
{
    return 4 * x->t->groups.ranks + x->t->groups.count;
}

static int share_block_at(const struct sim *x, int l, int k)
{
    return port_at(x) + 2 * x->t->groups.count * (l - 1) + 2 * topo_unit(x->t, l, k);
}

/* The link of group k to the next one (back 0), or to the one before (back 1). */
static int share_link_at(const struct sim *x, int k, int back)
{
    return port_at(x) + 2 * x->t->groups.count * (x->t->levels - 1) + 2 * k + back;
}

static void share_put(struct sim *x, int at, int level, double Bps, int binds)
{
    x->resource[at] =
        (struct sim_resource){.Bps = Bps, .level = level, .binds = binds, .first = -1};
}

/* Returns whether the port binds: it is narrower than its ranks' paths together, or these do
   not bind.  A path binds if it is narrower than the port. */
static int port_binds(double Bps, int members, double way)
{
    return Bps <= way || Bps < members * way;
}

void sim_share_init(struct sim *x)
{
    const struct topo *t = x->t;
    const struct topo_level *in = &t->level[0], *out = &t->level[1];
    int n = t->groups.ranks, g = t->groups.count;
    double way = fmax(out->flow_Bps, out->member_Bps);
    double *sum = mem_new(2 * (size_t)g, sizeof *sum);

    x->resources = 4 * n + g + 2 * g * (t->levels - 1 + t->groups.ring);
    x->resource = mem_new((size_t)x->resources, sizeof *x->resource);
    x->dirty = mem_new((size_t)x->resources, sizeof *x->dirty);
    x->reached_resource = mem_new((size_t)x->resources, sizeof *x->reached_resource);
    for (int r = 0; r < n; r++) {
        const struct topo_port *port = &t->port[t->groups.group_of[r]];
        share_put(x, 2 * r, 0, in->port_Bps, 1);
        share_put(x, 2 * r + 1, 0, in->port_Bps, 1);
        share_put(x, 2 * n + 2 * r, 1, way, way < port->out_Bps);
        share_put(x, 2 * n + 2 * r + 1, 1, way, way < port->in_Bps);
    }
    for (int k = 0; k < g; k++) {
        int m = t->groups.members[k];
        share_put(x, 4 * n + k, 0, m * in->member_Bps, in->member_Bps < in->port_Bps);
        share_put(x, port_at(x) + 2 * k, 1, t->port[k].out_Bps,
                  port_binds(t->port[k].out_Bps, m, way));
        share_put(x, port_at(x) + 2 * k + 1, 1, t->port[k].in_Bps,
                  port_binds(t->port[k].in_Bps, m, way));
    }
    for (int i = 0; t->groups.ring && i < 2 * g; i++) {
        int k = i / 2, to = (k + (i % 2 ? g - 1 : 1)) % g;
        share_put(x, share_link_at(x, k, i % 2), 1,
                  fmin(t->port[k].out_Bps, t->port[to].in_Bps) / 2, 1);
    }
    for (int l = 2; l < t->levels; l++) {
        memset(sum, 0, 2 * (size_t)g * sizeof *sum);
        for (int k = 0; k < g; k++) {
            int b = topo_unit(t, l, k);
            sum[2 * b] += t->port[k].out_Bps;
            sum[2 * b + 1] += t->port[k].in_Bps;
        }
        for (int i = 0; i < 2 * g; i++)
            share_put(x, port_at(x) + 2 * g * (l - 1) + i, l, t->level[l].port_Bps,
                      t->level[l].port_Bps < sum[i]);
    }
    mem_free(sum);
}

static void share_pass(struct sim *x, struct sim_queue *q, int resource, double bytes)
{
    x->resource[resource].bytes += bytes;
    if (!x->resource[resource].binds)
        return;
    x->slot = mem_grow(x->slot, &x->slot_space, (size_t)x->slots + 1, sizeof *x->slot);
    x->slot[x->slots++] = (struct sim_slot){.resource = resource, .queue = (int)(q - x->queue)};
    q->slots++;
}

void sim_share_route(struct sim *x, struct sim_queue *q, double bytes)
{
    const struct topo *t = x->t;
    const struct groups *groups = &t->groups;
    int n = groups->ranks, l = 1;
    int a = groups->group_of[q->src], b = groups->group_of[q->dst];
    int c = groups->group_of[q->at];

    q->slot = x->slots;
    q->flow_Bps = t->level[0].flow_Bps;
    q->alpha_s = t->level[0].latency_s;
    q->message_s = t->level[0].message_s;
    if (q->src == q->dst)
        return;
    if (a == b) {
        share_pass(x, q, 2 * q->src, bytes);
        share_pass(x, q, 2 * q->at + 1, bytes);
        share_pass(x, q, 4 * n + a, bytes);
        return;
    }
    share_pass(x, q, 2 * n + 2 * q->src, bytes);
    share_pass(x, q, 2 * n + 2 * q->at + 1, bytes);
    share_pass(x, q, port_at(x) + 2 * a, bytes);
    share_pass(x, q, port_at(x) + 2 * c + 1, bytes);
    q->flow_Bps = t->level[1].flow_Bps;
    int g = groups->count, hops = (b - a + g) % g, back = hops > g / 2;
    for (int i = 0; groups->ring && i < (back ? g - hops : hops); i++)
        share_pass(x, q, share_link_at(x, back ? (a - i + g) % g : (a + i) % g, back), bytes);
    /* Blocks nest: from the first level with both ends in one block on, nothing is left. */
    for (l = 2; l < t->levels && topo_unit(t, l, a) != topo_unit(t, l, b); l++) {
        share_pass(x, q, share_block_at(x, l, a), bytes);
        share_pass(x, q, share_block_at(x, l, c) + 1, bytes);
        q->flow_Bps = fmin(q->flow_Bps, t->level[l].flow_Bps);
    }
    q->alpha_s = t->level[l - 1].latency_s;
    q->message_s = t->level[l - 1].message_s;
}

static void touch(struct sim *x, int resource)
{
    if (!x->resource[resource].dirty)
        x->dirty[x->dirties++] = resource;
    x->resource[resource].dirty = 1;
}

void sim_share_enter(struct sim *x, int queue)
{
    struct sim_queue *q = &x->queue[queue];

    for (int i = q->slot; i < q->slot + q->slots; i++) {
        struct sim_slot *slot = &x->slot[i];
        struct sim_resource *r = &x->resource[slot->resource];
        slot->next = r->first;
        slot->before = -1;
        if (r->first >= 0)
            x->slot[r->first].before = i;
        r->first = i;
        r->active++;
        touch(x, slot->resource);
    }
    q->busy = 1;
    q->Bps = 0;
    q->since_s = x->now;
    if (q->slots)
        return;
    q->Bps = q->flow_Bps;
    sim_run_push(x, (struct sim_event){x->now + q->left / q->Bps, queue, ++q->version});
}

void sim_share_leave(struct sim *x, int queue)
{
    struct sim_queue *q = &x->queue[queue];

    for (int i = q->slot; i < q->slot + q->slots; i++) {
        struct sim_slot *slot = &x->slot[i];
        struct sim_resource *r = &x->resource[slot->resource];
        if (slot->before >= 0)
            x->slot[slot->before].next = slot->next;
        else
            r->first = slot->next;
        if (slot->next >= 0)
            x->slot[slot->next].before = slot->before;
        r->active--;
        touch(x, slot->resource);
    }
    q->busy = 0;
}

/* Counts of the queues and resources that a resource reaches through the sending queues. */
struct reached {
    int queues, resources;
};

static void reach(struct sim *x, struct reached *reached, int resource)
{
    if (x->resource[resource].stamp != x->stamp)
        x->reached_resource[reached->resources++] = resource;
    x->resource[resource].stamp = x->stamp;
}

static struct reached find_reached(struct sim *x, int resource)
{
    struct reached reached = {0};

    reach(x, &reached, resource);
    for (int at = 0; at < reached.resources; at++) {
        int i = x->resource[x->reached_resource[at]].first;
        for (; i >= 0; i = x->slot[i].next) {
            struct sim_queue *q = &x->queue[x->slot[i].queue];
            if (q->stamp == x->stamp)
                continue;
            q->stamp = x->stamp;
            q->set = 0;
            x->reached_queue[reached.queues++] = x->slot[i].queue;
            for (int j = q->slot; j < q->slot + q->slots; j++)
                reach(x, &reached, x->slot[j].resource);
        }
    }
    return reached;
}

static void set_rate(struct sim *x, int queue, double Bps)
{
    struct sim_queue *q = &x->queue[queue];

    q->set = 1;
    for (int i = q->slot; i < q->slot + q->slots; i++) {
        x->resource[x->slot[i].resource].left_Bps -= Bps;
        x->resource[x->slot[i].resource].open--;
    }
    if (q->Bps == Bps)
        return;
    q->left = fmax(q->left - q->Bps * (x->now - q->since_s), 0);
    q->since_s = x->now;
    q->Bps = Bps;
    sim_run_push(x, (struct sim_event){x->now + q->left / Bps, queue, ++q->version});
}

static int is_tight(const struct sim *x, const struct sim_queue *q, double level)
{
    for (int i = q->slot; i < q->slot + q->slots; i++)
        if (x->resource[x->slot[i].resource].tight)
            return 1;
    return q->flow_Bps <= level;
}

/* Returns the next level at which a resource or message is full; marks those. */
static double next_level(struct sim *x, const struct reached *reached, double level)
{
    double next = INFINITY;

    for (int i = 0; i < reached->resources; i++) {
        const struct sim_resource *r = &x->resource[x->reached_resource[i]];
        if (r->open)
            next = fmin(next, r->left_Bps / r->open);
    }
    for (int i = 0; i < reached->queues; i++)
        if (!x->queue[x->reached_queue[i]].set)
            next = fmin(next, x->queue[x->reached_queue[i]].flow_Bps);
    next = fmax(next, level); /* it only sinks by rounding */
    for (int i = 0; i < reached->resources; i++) {
        struct sim_resource *r = &x->resource[x->reached_resource[i]];
        r->tight = r->open && r->left_Bps / r->open <= next;
    }
    return next;
}

static void share_fill(struct sim *x, struct reached reached)
{
    double level = 0;

    for (int i = 0; i < reached.resources; i++) {
        struct sim_resource *r = &x->resource[x->reached_resource[i]];
        r->left_Bps = r->Bps;
        r->open = r->active;
    }
    while (reached.queues) {
        int left = 0;
        level = next_level(x, &reached, level);
        for (int i = 0; i < reached.queues; i++) {
            int queue = x->reached_queue[i];
            if (is_tight(x, &x->queue[queue], level))
                set_rate(x, queue, fmin(level, x->queue[queue].flow_Bps));
            else
                x->reached_queue[left++] = queue;
        }
        reached.queues = left;
    }
}

void sim_share_update(struct sim *x)
{
    x->stamp++;
    for (int i = 0; i < x->dirties; i++) {
        x->resource[x->dirty[i]].dirty = 0;
        if (x->resource[x->dirty[i]].stamp != x->stamp && x->resource[x->dirty[i]].active)
            share_fill(x, find_reached(x, x->dirty[i]));
    }
    x->dirties = 0;
}
