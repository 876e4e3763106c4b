/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_MACHINE_H
#define PROBE_PROBE_MACHINE_H

#include <stdint.h>

#include "base/dtype.h"
#include "dev/dev.h"
#include "topo/topo.h"
#include "world/world.h"

/* Resources of ranks on their machine. */

/*
 * The matrices that ranks multiply while their FLOP/s are measured: those of a model's decoder
 * in net/, with `rows` tokens at once.  Plain numbers; all 0: square matrices.
 */
struct probe_matrices {
    int64_t rows, hidden, queries, keys, ffn, vocab, layers;
};

/* The device that ranks compute on, and the figures to measure on it. */
struct probe_settings {
    struct device *device;         /* each rank's own; borrowed */
    enum dtype type;               /* operand type of products: f32 or bf16 */
    int all_types;                 /* 1: measure the other type too, if processors have
                                      instructions for it */
    enum topo_transport transport; /* for a GPU's memory */
    struct probe_matrices matrices;
};

/*
 * Collective: rank 0 reads MODEL (model_read) and broadcasts its matrices.  seq 0: 256, or the
 * model's maximum if that is less.
 */
int probe_settings_model(struct world *world, const char *model, int64_t seq,
                         int64_t micro_batch, struct probe_matrices *out, struct err *err);

/*
 * Writes this machine's identity, the kernel's boot id; "" if unknown.  Hosts with equal ids
 * (containers, an emulated cluster) share memory, processors and clock, whatever their names.
 */
enum { PROBE_BOOT_BYTES = 40 };
void probe_boot_id(char id[PROBE_BOOT_BYTES]);
/* Return whether a line of /proc/cpuinfo names instructions for bf16; whether this machine has
   any. */
int probe_bf16_in(const char *flags);
int probe_has_bf16(void);
/* Brackets a measurement to detect other processes on the processors.  The end is collective,
   and adds a line to `doubt` if their share exceeds the usual variation of measurements. */
struct probe_load {
    double start_s, busy_s, own_s;
};
struct probe_load probe_load_begin(void);
int probe_load_end(const struct probe_load *load, struct world *world,
                   char doubt[TOPO_SOURCE_BYTES], struct err *err);
/* Returns the seconds that processes and other virtual machines had, from /proc/stat's first
   line. */
double probe_busy_s(const char *line);
/*
 * Collective: returns a rank's share of the memory that ranks share, the least over all.
 * device NULL or a CPU: the machine's memory; otherwise the GPU's, divided by the ranks that
 * use the same GPU of a machine.
 */
int probe_memory(struct world *world, const struct device *device, int64_t *bytes,
                 struct err *err);
/* Measures FLOP/s of matrix products on each rank, [ranks], while all ranks do the same; on
   processors the mean over its host. */
int probe_flops(struct world *world, const struct probe_settings *settings, double *flops,
                struct err *err);
/* Marks the ranks whose rates are within TOPO_SLOW_SHARE of the median, or, if there are none,
   of the least. */
void probe_usual(const double *rate, int ranks, char *usual);
/*
 * Measures the bytes read plus written per second by a rank that adds one array of f32 to
 * another, far larger than its caches, in the device's memory, while all ranks do the same;
 * Bps: [ranks], as probe_flops.  memory_bytes: a rank's memory, of which a part is used.
 */
int probe_memory_rate(struct world *world, struct device *device, int64_t memory_bytes,
                      double *Bps, struct err *err);
/*
 * Collective: counts NUMA nodes, GPUs and network devices of each group's host into t->devices,
 * with hwloc; 0 for groups on several hosts.
 */
int probe_devices(struct world *world, struct topo *t, struct err *err);

#endif
