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
 * The matrices that ranks multiply where their FLOP/s are measured: a model's, of the decoder
 * in net/, with so many rows (tokens) at once.  Plain numbers; all 0: square ones.
 */
struct probe_matrices {
    int64_t rows, hidden, queries, keys, ffn, vocab, layers;
};

/* The device that ranks compute on, and the figures to measure on it. */
struct probe_settings {
    struct device *device;         /* each rank's own; borrowed */
    enum dtype type;               /* of products: f32 or bf16 */
    int all_types;                 /* and of the other one, if processors have instructions */
    enum topo_transport transport; /* of a GPU's memory */
    struct probe_matrices matrices;
};

/*
 * Collective: rank 0 reads MODEL (model_read) and tells the others.  seq 0: 256, or the model's
 * maximum if that is less.
 */
int probe_settings_model(struct world *world, const char *model, int64_t seq,
                         int64_t micro_batch, struct probe_matrices *out, struct err *err);

/*
 * Which machine this is: the kernel's boot id.  Hosts that share it (containers, an emulated
 * cluster) share memory, processors and clock, whatever they are called; "" where the kernel
 * does not say.
 */
enum { PROBE_BOOT_BYTES = 40 };
void probe_boot_id(char id[PROBE_BOOT_BYTES]);
/* Whether a line of /proc/cpuinfo names instructions for bf16; whether this machine has any. */
int probe_bf16_in(const char *flags);
int probe_has_bf16(void);
/* Around a measurement: whether others had processors.  Collective: end, which adds a line to
   doubt if their share is more than two measurements differ by. */
struct probe_load {
    double start_s, busy_s, own_s;
};
struct probe_load probe_load_begin(void);
int probe_load_end(const struct probe_load *load, struct world *world,
                   char doubt[TOPO_SOURCE_BYTES], struct err *err);
/* Seconds that processes, and other virtual machines, had: from /proc/stat's first line. */
double probe_busy_s(const char *line);
/*
 * Memory shared out among the ranks that have it, the least share; collective.  device NULL or
 * a CPU: of the machine; else of the GPU, which those share that name the same one of a
 * machine.
 */
int probe_memory(struct world *world, const struct device *device, int64_t *bytes,
                 struct err *err);
/* FLOP/s of matrix products on a rank while all ranks do the same; the least of the hosts'
   medians. */
int probe_flops(struct world *world, const struct probe_settings *settings, double *flops,
                struct err *err);
/*
 * Bytes read plus bytes written per second by a rank that adds one array of f32 to another, far
 * larger than its caches, in the device's memory, while all ranks do the same; the least of the
 * hosts' medians.  memory_bytes: a rank's, of which a part is used.
 */
int probe_memory_rate(struct world *world, struct device *device, int64_t memory_bytes,
                      double *Bps, struct err *err);
/*
 * Collective: NUMA nodes, GPUs and network devices of each group's host into t->devices, as
 * hwloc sees them; groups that are on several hosts stay at 0.
 */
int probe_devices(struct world *world, struct topo *t, struct err *err);

#endif
