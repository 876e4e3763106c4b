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

double engine_planned(const struct engine *e)
{
    double bytes;

    plan_totals_on(e->plan, device_kind(e->device.at), &e->plan->strategy, 1, &bytes);
    return bytes;
}

/* Names of those that need less than this one by what is missing; "none" where there is none.
 */
static void name_fitting(const struct plan *p, enum device_kind device, double missing,
                         char *text, size_t room)
{
    struct plan_strategy all[PLAN_STRATEGIES + 1] = {[PLAN_STRATEGIES] = p->strategy};
    double bytes[PLAN_STRATEGIES + 1];
    size_t used = 0;

    for (int i = 0; i < PLAN_STRATEGIES; i++)
        all[i] = plan_strategy_at(i);
    plan_totals_on(p, device, all, PLAN_STRATEGIES + 1, bytes);
    snprintf(text, room, "none of the 27 strategies would");
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        char name[4];
        if (bytes[i] > bytes[PLAN_STRATEGIES] - missing)
            continue;
        plan_strategy_name(all[i], name);
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
