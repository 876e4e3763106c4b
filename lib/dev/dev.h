/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEV_DEV_H
#define DEV_DEV_H

#include <stdint.h>

#include "base/err.h"

/*
 * Devices: memory and computation on this host's processor or on a GPU.  A device has memory of
 * its own, queues that execute work in order, and events that mark positions in queues:
 *
 *     queue a   work  work  [event]  work
 *     queue b               wait(event)  work        begins when a is past the event
 *
 * On a CPU a call does the work before it returns: queues are always empty, and events have
 * always happened.  On a GPU a call only issues work; its failure is reported by the next call
 * that can fail (ERR_DEVICE, with the place and the vendor's message), and by every later one.
 * Any thread may use a device; a queue is used by one thread at a time.
 *
 * Implemented by dev_cpu.c and dev_cuda.c, or dev_cuda_none.c in a build without CUDA.
 */
enum device_kind { DEVICE_CPU, DEVICE_CUDA };

struct device;
struct device_queue;
struct device_event;
struct device_graph;

/*
 * Opens a device.  name: "cpu"; "cuda": the GPU with index local_rank of this host, for this
 * rank alone; "cuda:N": GPU N, shared with all who name it.  *out is owned by the caller.
 * ERR_ABSENT: no driver or an older one, no such GPU, more ranks than GPUs, a build without
 * CUDA; ERR_INPUT: another name.
 */
int device_open(struct device **out, const char *name, int local_rank, struct err *err);
void device_close(struct device *d); /* NULL is fine; waits for all work */
enum device_kind device_kind(const struct device *d);
const char *device_name(const struct device *d); /* "cpu", or the GPU's model */
int device_index(const struct device *d);        /* the GPU's index; -1: CPU */

/* Memory of the device: free bytes and total bytes; for a CPU both are -1: not queried. */
int device_memory(const struct device *d, int64_t *free_bytes, int64_t *bytes, struct err *err);
/*
 * Allocates memory of the device, zeroed, 256-byte aligned (CPU: 64).  ERR_SYS names `what`,
 * the requested bytes and, for a GPU, the free bytes.
 */
int device_alloc(struct device *d, int64_t bytes, const char *what, void **out,
                 struct err *err);
void device_free(struct device *d, void *p); /* NULL is fine */
/*
 * device_host_alloc allocates pinned host memory, zeroed, in whole pages, which queues copy
 * from and to directly.  device_pin pins existing memory, of whose pages no other part may be
 * pinned.  A GPU of any index may use pinned memory.
 */
int device_host_alloc(struct device *d, int64_t bytes, const char *what, void **out,
                      struct err *err);
void device_host_free(struct device *d, void *p); /* NULL is fine */
int device_pin(struct device *d, void *host, int64_t bytes, struct err *err);
void device_unpin(struct device *d, void *host); /* NULL is fine */

int device_queue_open(struct device *d, struct device_queue **out, struct err *err);
void device_queue_close(struct device_queue *q); /* NULL is fine */
int device_event_open(struct device *d, struct device_event **out, struct err *err);
void device_event_close(struct device_event *e); /* NULL is fine */

/* Copies between any two addresses of host and device; blocks for host memory that is not
   pinned. */
void device_copy(struct device_queue *q, void *to, const void *from, int64_t bytes);
/* Copies `rows` rows of `bytes`, to_row and from_row bytes apart; both on the device. */
void device_copy_rows(struct device_queue *q, void *to, int64_t to_row, const void *from,
                      int64_t from_row, int64_t bytes, int64_t rows);
void device_zero(struct device_queue *q, void *to, int64_t bytes);
void device_record(struct device_queue *q, struct device_event *e);
void device_wait(struct device_queue *q, const struct device_event *e);
/* 1: the event has happened (or was never recorded); 0: not yet; -1: err. */
int device_done(const struct device_event *e, struct err *err);
/* blocks until it has happened */
int device_event_sync(const struct device_event *e, struct err *err);
int device_sync(struct device_queue *q, struct err *err); /* blocks until the queue is empty */
/*
 * A GRAPH is recorded work that one call issues again.  Between begin and end, work that this
 * thread issues to the queue is not done but recorded, with its memory addresses.  Not
 * permitted meanwhile: events, waits, host memory that is not pinned, allocation, a second
 * graph on the device.  begin: ERR_ABSENT on a CPU.  end: ERR_ABSENT, in the vendor's words, if
 * some work cannot be recorded; device and queue are then as before, and nothing was done.
 */
int device_graph_begin(struct device_queue *q, struct err *err);
int device_graph_end(struct device_queue *q, struct device_graph **out, struct err *err);
void device_graph_run(struct device_queue *q, const struct device_graph *g);
/* NULL is fine; no run of it may be in progress */
void device_graph_free(struct device_graph *g);
/*
 * Returns the vendor's stream of a queue (cudaStream_t), for kernels, NULL on a CPU.  Also
 * makes the device current for the vendor's calls of this thread.
 */
void *device_stream(const struct device_queue *q);
struct device *device_of(const struct device_queue *q); /* borrowed */

#endif
