/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_RING_H
#define PROBE_PROBE_RING_H

#include "probe/probe.h"

/*
 * Collective: a ring all-gather of groups first .. first + count - 1 (two at least), `bytes`
 * from each rank, run by probe_run.  Rank j of each group has a ring through them of its own,
 * as many as the smallest group has ranks; the others have nothing to do.  p->room is
 * probe_ring_room at least.
 */
int probe_ring(struct probe *p, int first, int count, int64_t bytes, struct probe_round *out,
               struct err *err);
int64_t probe_ring_room(int count, int64_t bytes);

#endif
