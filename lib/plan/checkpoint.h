/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_CHECKPOINT_H
#define PLAN_CHECKPOINT_H

#include "topo/topo.h"

/*
 * What a run writes when it saves (paro-checkpoint(5)): of each element the parameter, in the
 * type of the model's own files, and 12 bytes of optimizer state where it is trained.  Each
 * block is written once, by the rank that has it when all hold one copy together, so that this
 * is the same under every strategy.  Headers and the manifest are not counted: some hundred
 * bytes for each unit of each rank.
 */
struct plan_checkpoint {
    double bytes, rank_bytes; /* of all ranks; of the rank that writes most */
    double s;                 /* 0 where no rate of storage is known */
};

struct plan_case;
struct plan_tally;
/* Without its time. */
struct plan_checkpoint plan_checkpoint(const struct plan_case *c, const struct plan_tally *t);
/*
 * Seconds, where each host writes at storage_Bps: those of the host with most ranks.  Groups of
 * the same host are together on it; one without a host's name has a host of its own.
 */
double plan_checkpoint_s(const struct plan_checkpoint *c, const struct topo *whole,
                         double storage_Bps);

#endif
