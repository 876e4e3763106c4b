/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what is said where a GPU has not the memory for a plan: how much is missing, and which
 * of the 27 strategies would do: by how much they differ from the one at hand, the planner
 * says.
 */
#include "engine/engine_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of plan_strategy_at. */
static int index_of(struct plan_strategy s)
{
    for (int i = 0;; i++) {
        struct plan_strategy at = plan_strategy_at(i); /* one of them is it */

        if (at.params == s.params && at.grads == s.grads && at.optimizer == s.optimizer)
            return i;
    }
}

double engine_planned(const struct engine *e)
{
    struct plan_memory m[PLAN_STRATEGIES];

    plan_memory_on(e->plan, device_kind(e->device.at), m);
    return m[index_of(e->plan->strategy)].total;
}

/* Names of those that need less than this one by what is missing; "none" where there is none.
 */
static void name_fitting(const struct plan *p, enum device_kind device, double missing,
                         char *text, size_t room)
{
    struct plan_memory m[PLAN_STRATEGIES];
    size_t used = 0;

    plan_memory_on(p, device, m);
    double own = m[index_of(p->strategy)].total;
    snprintf(text, room, "none of the 27 strategies would");
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        char name[4];
        if (m[i].total > own - missing)
            continue;
        plan_strategy_name(plan_strategy_at(i), name);
        if (used == 0)
            used = (size_t)snprintf(text, room, "these strategies would:");
        used += (size_t)snprintf(text + used, room - used, " %s", name);
    }
}

int engine_fit(const struct engine *e, int64_t bytes, struct err *err)
{
    int64_t left = 0, all = 0;
    enum device_kind kind = device_kind(e->device.at);
    char fitting[256]; /* 27 names and some words */

    if (device_memory(e->device.at, &left, &all, err))
        return -1;
    /* Collectives are prepared when that memory is taken: theirs is had then. */
    if (e->transport == COLL_NCCL)
        bytes += (int64_t)plan_sums_on(e->plan, kind);
    if (left < 0 || bytes <= left)
        return 0;
    name_fitting(e->plan, kind, (double)(bytes - left), fitting, sizeof fitting);
    return err_set(err, ERR_SYS,
                   "GPU %d (%s) has %" PRId64 " bytes free of %" PRId64 ", expected %" PRId64
                   " for states and buffers, %" PRId64 " more: %s fit",
                   device_index(e->device.at), device_name(e->device.at), left, all, bytes,
                   bytes - left, fitting);
}
