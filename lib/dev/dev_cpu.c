/* SPDX-License-Identifier: BSD-3-Clause */
/* Serves this processor as a device: work is done before the call that begins it returns. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "dev/dev_inside.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static void nothing(struct device *d)
{
}

static int memory(const struct device *d, int64_t *free_bytes, int64_t *bytes, struct err *err)
{
    *free_bytes = *bytes = -1;
    return 0;
}

static int alloc(struct device *d, int64_t bytes, const char *what, void **out, struct err *err)
{
    return mem_data(bytes, what, out, err);
}

static void free_memory(struct device *d, void *p)
{
    mem_free(p);
}

static int pin(struct device *d, void *host, int64_t bytes, struct err *err)
{
    return 0;
}

static void unpin(struct device *d, void *host)
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

static void copy(struct device *d, void *stream, void *to, const void *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
}

static void copy_rows(struct device *d, void *stream, void *to, int64_t to_row,
                      const void *from, int64_t from_row, int64_t bytes, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy((char *)to + i * to_row, (const char *)from + i * from_row, (size_t)bytes);
}

static void zero(struct device *d, void *stream, void *to, int64_t bytes)
{
    memset(to, 0, (size_t)bytes);
}

static void happened(struct device *d, void *stream, void *event)
{
}

static int done(struct device *d, void *event)
{
    return 1;
}

static int synced(struct device *d, void *handle)
{
    return 0;
}

static const struct device_kind_ops cpu = {
    .close = nothing,
    .memory = memory,
    .alloc = alloc,
    .free = free_memory,
    .host_alloc = alloc,
    .host_free = free_memory,
    .pin = pin,
    .unpin = unpin,
    .stream_open = handle_open,
    .stream_close = handle_close,
    .event_open = handle_open,
    .event_close = handle_close,
    .copy = copy,
    .copy_rows = copy_rows,
    .zero = zero,
    .record = happened,
    .wait = happened,
    .done = done,
    .event_sync = synced,
    .sync = synced,
    .here = nothing,
};

void device_open_cpu(struct device *d)
{
    d->op = &cpu;
    d->kind = DEVICE_CPU;
    d->index = -1;
    snprintf(d->name, sizeof d->name, "cpu");
}
