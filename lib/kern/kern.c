/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the kernels of a device. */
#include "kern/kern.h"

#include "kern/kern_kind.h"

int kern_open(struct kern *out, struct device *device, struct device_queue *queue,
              enum dtype compute, enum dtype weight, struct err *err)
{
    enum device_kind kind = device_kind(device);
    struct kern k;

    kern_kind_open(&k, kind, compute, weight);
    k.device = device;
    k.queue = queue;

    if (kind == DEVICE_CPU ? kern_open_cpu(&k, err) : kern_open_cuda(&k, err))
        return -1;
    *out = k;
    return 0;
}

void kern_close(struct kern *k)
{
    if (k->op)
        k->op->close(k);
    *k = (struct kern){0};
}
