/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how much a run writes when it saves (train/train_state.c), and how long that takes. */
#include "plan/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "plan/tally.h"

enum { ADAM_BYTES = 12 }; /* master and two moments, f32 */

/* Of a parameter at rest in a file: the type of the model's own; without one, the plan's. */
static int param_bytes(const struct plan_case *c)
{
    enum dtype type = c->param_type;
    struct err ignored;

    if (c->model->unit && dtype_parse(c->model->dtype, &type, &ignored))
        type = c->param_type;
    return dtype_bytes(type);
}

struct plan_checkpoint plan_checkpoint(const struct plan_case *c, const struct plan_tally *t)
{
    int w = param_bytes(c);
    struct plan_checkpoint p = {.bytes = w * t->elems[PLAN_ALL] +
                                         ADAM_BYTES * t->elems[PLAN_TRAINED]};

    for (int r = 0; r < t->kinds; r++) {
        double bytes = (double)(w * plan_tally_shard(t, PLAN_ALL, LETTER_G, r) +
                                ADAM_BYTES * plan_tally_shard(t, PLAN_TRAINED, LETTER_G, r));
        p.rank_bytes = bytes > p.rank_bytes ? bytes : p.rank_bytes;
    }
    return p;
}

struct lodger { /* a group on its host */
    const char *host;
    int ranks;
};

static int by_host(const void *a, const void *b)
{
    return strcmp(((const struct lodger *)a)->host, ((const struct lodger *)b)->host);
}

/* Ranks on the host that has most. */
static int largest_host(const struct topo *t)
{
    int count = t->groups.count, most = 0, sum = 0;
    struct lodger *all = mem_new((size_t)count, sizeof *all);

    for (int k = 0; k < count; k++)
        all[k] = (struct lodger){t->host && t->host[k] ? t->host[k] : "", t->groups.members[k]};
    qsort(all, (size_t)count, sizeof *all, by_host);
    for (int k = 0; k < count; k++) {
        int same = k > 0 && all[k].host[0] && strcmp(all[k].host, all[k - 1].host) == 0;
        sum = (same ? sum : 0) + all[k].ranks;
        most = sum > most ? sum : most;
    }
    mem_free(all);
    return most;
}

double plan_checkpoint_s(const struct plan_checkpoint *c, const struct topo *whole,
                         double storage_Bps)
{
    double bytes = c->rank_bytes * largest_host(whole);

    if (!(storage_Bps > 0))
        return 0;
    /* Shards differ by a few elements: ranks of the largest do not write more than all. */
    return (bytes < c->bytes ? bytes : c->bytes) / storage_Bps;
}
