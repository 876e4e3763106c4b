/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what is said where a GPU has not the memory for a plan: how much is missing, and which
 * of the 27 strategies would do.  What the planner says of a strategy is not what the engine
 * takes on a GPU (activations are of another type there), but by how much two strategies differ
 * is: states and buffers are counted alike.
 */
#include "engine/engine_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A fabric of the plan's groups: bytes do not ask for rates. */
static void make_fabric(const struct plan *p, struct topo *t)
{
    topo_init(t, 2, &p->groups);
    for (int i = 0; i < 2; i++)
        t->level[i].port_Bps = t->level[i].flow_Bps = t->level[i].member_Bps = 1e9;
    for (int k = 0; k < p->groups.count; k++)
        t->port[k].out_Bps = t->port[k].in_Bps = 1e9;
}

static void price_all(const struct plan *p, struct plan_price price[PLAN_STRATEGIES])
{
    struct plan_case c;
    struct topo t;

    make_fabric(p, &t);
    plan_case_init(&c, &t, &p->model);
    c.trainable = p->trainable;
    c.micro_batch = p->micro_batch;
    c.accum = p->accum;
    c.seq = p->seq;
    c.algo = p->algo == SCHEDULE_AUTO ? SCHEDULE_RING : p->algo;
    c.param_type = p->param_type;
    c.wire_type = p->wire_type;
    c.grad_type = p->grad_type;
    c.compute_type = p->compute_type;
    c.slow_params = p->slow_params;
    c.slow_grads = p->slow_grads;
    c.prefetch = p->prefetch;
    c.buckets = p->buckets;
    c.keep = p->keep;
    c.recompute = p->recompute;
    c.chunk_bytes = p->chunk_bytes;
    plan_price_all(&c, price);
    topo_release(&t);
}

/* Names of those that need less than this one by what is missing; "none" where there is none.
 */
static void name_fitting(const struct plan *p, double missing, char *text, size_t room)
{
    struct plan_price price[PLAN_STRATEGIES];
    double own = 0;
    size_t used = 0;

    price_all(p, price);
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        if (!memcmp(&price[i].strategy, &p->strategy, sizeof p->strategy))
            own = price[i].memory.total;
    snprintf(text, room, "none of the 27 strategies would");
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        char name[4];
        if (price[i].memory.total > own - missing)
            continue;
        plan_strategy_name(price[i].strategy, name);
        if (used == 0)
            used = (size_t)snprintf(text, room, "these strategies would:");
        used += (size_t)snprintf(text + used, room - used, " %s", name);
    }
}

int engine_fit(const struct engine *e, int64_t bytes, struct err *err)
{
    int64_t left = 0, all = 0;
    char fitting[256]; /* 27 names and some words */

    if (device_memory(e->device.at, &left, &all, err))
        return -1;
    if (left < 0 || bytes <= left)
        return 0;
    name_fitting(e->plan, (double)(bytes - left), fitting, sizeof fitting);
    return err_set(err, ERR_SYS,
                   "GPU %d (%s) has %" PRId64 " bytes left of %" PRId64 ", expected %" PRId64
                   " for states and buffers, %" PRId64 " more: %s fit",
                   device_index(e->device.at), device_name(e->device.at), left, all, bytes,
                   bytes - left, fitting);
}
