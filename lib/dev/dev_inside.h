/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEV_DEV_INSIDE_H
#define DEV_DEV_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "dev/dev.h"

/*
 * Interface between dev.c, the kinds of devices and their kernels: a kind implements each
 * operation, dev.c decides when to call it.  A stream and an event are the vendor's handles.  A
 * function that begins work and fails calls device_fail.
 */
struct device_kind_ops {
    void (*close)(struct device *d);
    int (*memory)(const struct device *d, int64_t *free_bytes, int64_t *bytes, struct err *err);
    int (*alloc)(struct device *d, int64_t bytes, const char *what, void **out,
                 struct err *err);
    void (*free)(struct device *d, void *p);
    int (*host_alloc)(struct device *d, int64_t bytes, const char *what, void **out,
                      struct err *err);
    void (*host_free)(struct device *d, void *p);
    int (*pin)(struct device *d, void *host, int64_t bytes, struct err *err);
    void (*unpin)(struct device *d, void *host);

    int (*stream_open)(struct device *d, void **stream, struct err *err);
    void (*stream_close)(struct device *d, void *stream);
    int (*event_open)(struct device *d, void **event, struct err *err);
    void (*event_close)(struct device *d, void *event);

    void (*copy)(struct device *d, void *stream, void *to, const void *from, int64_t bytes);
    void (*copy_rows)(struct device *d, void *stream, void *to, int64_t to_row,
                      const void *from, int64_t from_row, int64_t bytes, int64_t rows);
    void (*zero)(struct device *d, void *stream, void *to, int64_t bytes);
    void (*record)(struct device *d, void *stream, void *event);
    void (*wait)(struct device *d, void *stream, void *event);
    int (*done)(struct device *d, void *event); /* 1, 0; -1: device_fail was called */
    int (*event_sync)(struct device *d, void *event);
    int (*sync)(struct device *d, void *stream);
    /* NULL: no graphs on this kind.  end: on failure NULL, and *words. */
    int (*graph_begin)(struct device *d, void *stream, struct err *err);
    void *(*graph_end)(struct device *d, void *stream, const char **words);
    void (*graph_run)(struct device *d, void *stream, void *graph);
    void (*graph_free)(struct device *d, void *graph);
    void (*here)(struct device *d); /* makes the device current for this thread's next calls */
};

struct device {
    const struct device_kind_ops *op;
    enum device_kind kind;
    int index;
    char name[256];
    void *aside; /* GPU: the stream on which new memory is zeroed */
    pthread_mutex_t lock;
    atomic_int failed;  /* the first failure is kept: */
    struct err failure; /* protected by lock */
    /* While a thread records a graph, its failures belong to the graph; protected by lock. */
    atomic_int writing;
    pthread_t writer;
    struct err unwritten; /* first failure of the graph */
};

struct device_queue {
    struct device *device; /* borrowed */
    void *stream;
};

struct device_event {
    struct device *device; /* borrowed */
    void *event;
};

struct device_graph {
    struct device *device; /* borrowed */
    void *graph;
};

/* Records that the device has failed, unless it already has: where, in the vendor's words.
   Returns -1. */
int device_fail(struct device *d, const char *where, const char *words);
/* Returns -1 and err if the device has failed. */
int device_check(struct device *d, struct err *err);

void device_open_cpu(struct device *d);
/* index -1: the GPU of local_rank, for this rank alone. */
int device_open_cuda(struct device *d, int index, int local_rank, struct err *err);

#endif
