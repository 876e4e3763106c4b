/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_MACHINE_H
#define PROBE_PROBE_MACHINE_H

#include <stdint.h>

#include "topo/topo.h"
#include "world/world.h"

/* What ranks have on their machine. */

/*
 * Which machine this is: the kernel's boot id.  Hosts that share it (containers, an emulated
 * cluster) share memory, processors and clock, whatever they are called; "" where the kernel
 * does not say.
 */
enum { PROBE_BOOT_BYTES = 40 };
void probe_boot_id(char id[PROBE_BOOT_BYTES]);
/* Memory of the machine shared out among the ranks on it; collective. */
int probe_memory(struct world *world, int64_t *bytes, struct err *err);
/* FLOP/s of a matrix product on this rank while all ranks do the same; the least of them. */
int probe_flops(struct world *world, double *flops, struct err *err);
/*
 * Bytes read plus bytes written per second by a rank that copies between arrays far larger than
 * its caches, while all ranks do the same; the least of them.  memory_bytes: a rank's, of which
 * a part is used.
 */
int probe_copy(struct world *world, int64_t memory_bytes, double *Bps, struct err *err);
/*
 * Collective: NUMA nodes, GPUs and network devices of each group's host into t->devices, as
 * hwloc sees them; groups that are on several hosts stay at 0.
 */
int probe_devices(struct world *world, struct topo *t, struct err *err);

#endif
