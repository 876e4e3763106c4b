/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements this processor as a device: a call does its work before it returns. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "dev/dev_inside.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static void nothing(struct device *d)
{
}

static int cpu_memory(const struct device *d, int64_t *free_bytes, int64_t *bytes,
                      struct err *err)
{
    *free_bytes = *bytes = -1;
    return 0;
}

static int cpu_alloc(struct device *d, int64_t bytes, const char *what, void **out,
                     struct err *err)
{
    return mem_data(bytes, what, out, err);
}

static void cpu_free_memory(struct device *d, void *p)
{
    mem_free(p);
}

static int cpu_pin(struct device *d, void *host, int64_t bytes, struct err *err)
{
    return 0;
}

static void cpu_unpin(struct device *d, void *host)
{
}

static int handle_open(struct device *d, void **handle, struct err *err)
{
    *handle = NULL;
    return 0;
}

static void handle_close(struct device *d, void *handle)
{
}

static void cpu_copy(struct device *d, void *stream, void *to, const void *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
}

static void cpu_copy_rows(struct device *d, void *stream, void *to, int64_t to_row,
                          const void *from, int64_t from_row, int64_t bytes, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy((char *)to + i * to_row, (const char *)from + i * from_row, (size_t)bytes);
}

static void cpu_zero(struct device *d, void *stream, void *to, int64_t bytes)
{
    memset(to, 0, (size_t)bytes);
}

static void happened(struct device *d, void *stream, void *event)
{
}

static int cpu_done(struct device *d, void *event)
{
    return 1;
}

static int cpu_synced(struct device *d, void *handle)
{
    return 0;
}

static const struct device_kind_ops cpu = {
    .close = nothing,
    .memory = cpu_memory,
    .alloc = cpu_alloc,
    .free = cpu_free_memory,
    .host_alloc = cpu_alloc,
    .host_free = cpu_free_memory,
    .pin = cpu_pin,
    .unpin = cpu_unpin,
    .stream_open = handle_open,
    .stream_close = handle_close,
    .event_open = handle_open,
    .event_close = handle_close,
    .copy = cpu_copy,
    .copy_rows = cpu_copy_rows,
    .zero = cpu_zero,
    .record = happened,
    .wait = happened,
    .done = cpu_done,
    .event_sync = cpu_synced,
    .sync = cpu_synced,
    .here = nothing,
};

void device_open_cpu(struct device *d)
{
    d->op = &cpu;
    d->kind = DEVICE_CPU;
    d->index = -1;
    snprintf(d->name, sizeof d->name, "cpu");
}
