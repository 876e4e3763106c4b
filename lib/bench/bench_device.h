/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_DEVICE_H
#define BENCH_BENCH_DEVICE_H

/* Inside bench/: where the buffers are. */
#include "bench/bench_parts.h"

/* Collective: o->device and o->transport, and which algorithms go with them. */
int bench_device_open(struct bench *b, struct err *err);
/* Once b->coll is open: in and out, of the GPU where there is one. */
int bench_device_buffers(struct bench *b, int64_t room, struct err *err);
void bench_device_close(struct bench *b); /* before the coll is closed */
/* The GPU has what the host has made, and the other way round; nothing on the processor. */
int bench_device_copy(struct bench *b, void *to, const void *from, int64_t bytes,
                      struct err *err);

#endif
