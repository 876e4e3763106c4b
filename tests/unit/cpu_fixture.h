/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_CPU_FIXTURE_H
#define TESTS_UNIT_CPU_FIXTURE_H

/* Opens this processor with its kernels, for tests that compute. */
#include "plain_fixture.h"
#include "kern/kern.h"

struct cpu {
    struct device *device;
    struct device_queue *queue;
    struct kern kern;
};

static inline void cpu_open(struct cpu *c)
{
    *c = (struct cpu){0};
    if (device_open(&c->device, "cpu", 0, &err) ||
        device_queue_open(c->device, &c->queue, &err) ||
        kern_open(&c->kern, c->device, c->queue, DTYPE_F32, DTYPE_F32, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

static inline void cpu_close(struct cpu *c)
{
    kern_close(&c->kern);
    device_queue_close(c->queue);
    device_close(c->device);
}

#endif
