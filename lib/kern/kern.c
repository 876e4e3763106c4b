/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows which table a device has. */
#include "kern/kern.h"

int kern_open(struct kern *out, struct device *device, struct device_queue *queue,
              enum dtype compute, enum dtype weight, struct err *err)
{
    int cpu = device_kind(device) == DEVICE_CPU;
    struct kern k = {.device = device,
                     .queue = queue,
                     .act = cpu ? DTYPE_F32 : compute,
                     .weight = cpu ? DTYPE_F32 : weight,
                     .row_elems = cpu ? 1 : 8};

    if (cpu ? kern_open_cpu(&k, err) : kern_open_cuda(&k, err))
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
