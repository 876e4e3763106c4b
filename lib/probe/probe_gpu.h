/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_GPU_H
#define PROBE_PROBE_GPU_H

#include "dev/dev.h"
#include "probe/probe.h"

/*
 * Rounds whose messages come from a GPU's memory and arrive there.  MPI need not support GPUs:
 * messages pass through pinned host memory (exec_mpi_stage), which is the probe's in and out.
 * Round trips (probe_trips) always use host memory.
 *
 *     words --> GPU --[1]--> p->in ==wire==> p->out --[2]--> GPU --> words
 *
 * in is compared with the words written to the GPU, out with the words sent, and the GPU's
 * contents with out.  This separates words changed by a GPU or a copy, [1] at the sender and
 * [2] at the receiver, from words changed on the wire.
 *
 * With NCCL nothing passes through the host.  in and out are read from the GPUs after a round,
 * which also reveals changes by the sender's GPU:
 *
 *     words --> GPU ==NCCL==> GPU --> out          in <-- the sender's GPU
 */
struct probe_gpu {
    struct device *device;              /* borrowed */
    struct device_queue *queue;         /* owned, as the others */
    struct device_queue *leave, *enter; /* copies from the GPU, to the GPU */
    char *in, *out;                     /* [space] GPU memory: data to send, data received */
    int pinned;                         /* 0: the driver refused, so copies are slow */
};

/*
 * Collective, before any round is prepared; on all ranks or on none.  probe_run returns
 * ERR_DEVICE if the GPU has failed, which this rank alone may know.  On an error of any rank
 * the probe continues without a GPU.
 */
int probe_gpu_open(struct probe *p, struct device *device, struct err *err);
void probe_gpu_close(struct probe *p); /* called by probe_close */

/* Internal to probe/; these do nothing without a GPU.  The device keeps a failure. */
/* Copies the words of the round from p->out to the GPU's send buffer. */
void probe_gpu_fill(struct probe *p, int64_t bytes);
/* With NCCL, after a round: copies both buffers, so many bytes of each, from the GPU to in and
   out. */
void probe_gpu_fetch(struct probe *p, int64_t sent, int64_t arrived);
/* With MPI: returns the number of 8-byte words in p->out that differ on the GPU; overwrites
   p->in. */
int64_t probe_gpu_differing(struct probe *p, const struct probe_round *r);
/* Waits for the queue; returns -1 with the first failure of the device. */
int probe_gpu_check(const struct probe *p, struct err *err);

#endif
