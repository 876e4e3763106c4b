/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selects algorithms by a table (paro-tuning(5)) as an NCCL tuner (libparo-nccl-plugin.so), if
 * NCCL has them.  Marks all other algorithms of a call as impossible, so that NCCL chooses
 * protocol and channels by its own times.  All ranks must choose alike or they deadlock, so a
 * rank that cannot read the table fails to create the communicator.
 */
#include <stdio.h>

#include "plugin/plugin.h"
#include "plugin/plugin_tuning.h"

#define EXPORT __attribute__((visibility("default")))

/* Rows of NCCL's costs, and its mark of impossible pairs. */
enum { NCCL_TREE, NCCL_RING, NCCL_PAT = 6 };
static const float impossible = -1;

static int open_table(void **context, size_t ranks, size_t hosts)
{
    const char *why;
    const struct pick_table *t = plugin_table(&why);
    char groups[128];

    *context = NULL;
    if (!t) {
        fprintf(stderr, "paro-nccl: no tuning table for NCCL: %s\n", why);
        return PLUGIN_USAGE;
    }
    if ((size_t)t->groups.count == hosts && (size_t)t->groups.ranks == ranks) {
        *context = (void *)t;
        return PLUGIN_OK;
    }
    groups_print(&t->groups, groups, sizeof groups);
    plugin_debug("the table is for groups %s: NCCL tunes %zu ranks on %zu hosts itself", groups,
                 ranks, hosts);
    return PLUGIN_OK;
}

static int tuner_init5(void **context, uint64_t id, size_t ranks, size_t hosts,
                       void (*log)(void), void *domains, void *constants)
{
    (void)id, (void)log, (void)domains, (void)constants;
    return open_table(context, ranks, hosts);
}

static int tuner_init4(size_t ranks, size_t hosts, void (*log)(void), void **context)
{
    (void)log;
    return open_table(context, ranks, hosts);
}

static int tuner_refuse(size_t ranks, size_t hosts, void (*log)(void), void **context)
{
    (void)ranks, (void)hosts, (void)log;
    *context = NULL;
    fprintf(stderr, "paro-nccl: NCCL's tuner interface is older than version 4, expected 4 or 5"
                    " (NCCL 2.27 or newer)\n");
    return PLUGIN_USAGE;
}

/* 1 + the row; 0: not in NCCL.  PAT is Bruck's algorithm over trees. */
static const int nccl_algo[SCHEDULE_ALGOS] = {
    [SCHEDULE_RING] = 1 + NCCL_RING,           [SCHEDULE_TREE] = 1 + NCCL_TREE,
    [SCHEDULE_TWO_LEVEL_TREE] = 1 + NCCL_TREE, [SCHEDULE_DOUBLING] = 1 + NCCL_PAT,
    [SCHEDULE_BRUCK] = 1 + NCCL_PAT,           [SCHEDULE_TWO_LEVEL_DOUBLING] = 1 + NCCL_PAT,
    [SCHEDULE_TWO_LEVEL_BRUCK] = 1 + NCCL_PAT};

static int tuner_choose(void *context, int func, size_t bytes, int ops, float *costs, int algos,
                        int protos, int registered, int *channels)
{
    static const unsigned phases[] = {SCHEDULE_BROADCAST, 0, SCHEDULE_ALL_GATHER,
                                      SCHEDULE_REDUCE_SCATTER, SCHEDULE_ALL_REDUCE};
    const struct pick_table *t = context;
    const struct pick_rule *rule = NULL;
    int possible = 0;

    (void)ops, (void)registered, (void)channels;
    if (t && (size_t)func < sizeof phases / sizeof *phases && phases[func])
        rule = pick_find(t, phases[func], (int64_t)bytes);
    int algo = rule ? nccl_algo[rule->algo] - 1 : -1;
    for (int p = 0; algo >= 0 && algo < algos && p < protos; p++)
        possible |= costs[algo * protos + p] >= 0;
    for (int i = 0; possible && i < algos * protos; i++)
        if (i / protos != algo)
            costs[i] = impossible;
    return PLUGIN_OK;
}

static int tuner_finalize(void *context)
{
    (void)context;
    return PLUGIN_OK;
}

#define TUNER(version, init)                                                                   \
    EXPORT extern const struct plugin_tuner ncclTunerPlugin_v##version;                        \
    const struct plugin_tuner ncclTunerPlugin_v##version = {"paro", (void (*)(void))init,      \
                                                            tuner_choose, tuner_finalize}
TUNER(5, tuner_init5);
TUNER(4, tuner_init4);
TUNER(3, tuner_refuse);
TUNER(2, tuner_refuse);
