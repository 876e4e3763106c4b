/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_GPU_H
#define PROBE_PROBE_GPU_H

#include "dev/dev.h"
#include "probe/probe.h"

/*
 * Rounds whose messages come from a GPU's memory and land there.  MPI need know no GPU: they
 * pass through the pinned memory of the host (exec_mpi_stage), and the probe's in and out are
 * that.  Trips (probe_trips) stay the host's.
 *
 *     words --> GPU --[1]--> p->in ==wire==> p->out --[2]--> GPU --> words
 *
 * in is compared with what was put into the GPU, out with what was sent, and what is in the GPU
 * with out: so words that a GPU or a copy has changed, [1] at the sender and [2] at the
 * receiver, are told from those that the wire has.
 *
 * Over NCCL nothing passes through the host.  Both are read from the GPUs behind a round; what
 * the sender's GPU has changed is told then, too:
 *
 *     words --> GPU ==NCCL==> GPU --> out          in <-- the sender's GPU
 */
struct probe_gpu {
    struct device *device;              /* borrowed */
    struct device_queue *queue;         /* owned, as the others */
    struct device_queue *leave, *enter; /* copies from the GPU, to it */
    char *in, *out;                     /* [room] of the GPU: what is sent, what has landed */
    int pinned;                         /* 0: the driver refused, and copies are slow */
};

/*
 * Collective, before any round is prepared; on all ranks or on none.  probe_run gives
 * ERR_DEVICE where the GPU has failed, which this rank alone may know.  On an error of any rank
 * the probe goes on without a GPU.
 */
int probe_gpu_open(struct probe *p, struct device *device, struct err *err);
void probe_gpu_close(struct probe *p); /* by probe_close */

/* Inside probe/, nothing where there is no GPU.  A failure is kept by the device. */
/* The words of the round, which p->out holds, are copied to where the GPU sends from. */
void probe_gpu_fill(struct probe *p, int64_t bytes);
/* Over NCCL, behind a round: so many bytes of both from the GPU to in and out. */
void probe_gpu_fetch(struct probe *p, int64_t sent, int64_t arrived);
/* Over MPI: how many 8-byte words that arrived in p->out differ in the GPU; p->in is written
 * over. */
int64_t probe_gpu_differing(struct probe *p, const struct probe_round *r);
/* Waits for the queue; -1 with the first failure of the device. */
int probe_gpu_check(const struct probe *p, struct err *err);

#endif
