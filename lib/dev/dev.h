/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEV_DEV_H
#define DEV_DEV_H

#include <stdint.h>

#include "base/err.h"

/*
 * Where the numbers lie and who computes: this processor, or a GPU.  A device has memory of its
 * own, queues whose work is done in order, and events that tell how far a queue has come:
 *
 *     queue a   work  work  [event]  work
 *     queue b               wait(event)  work        begins when a is past the event
 *
 * On a CPU work is done when it is asked for: queues are always empty, events have always
 * happened.  On a GPU asking is all that a call does; what goes wrong there comes out at the
 * next call that can fail (ERR_DEVICE, with the place and the vendor's words), and every later
 * one fails too.  Any thread may use a device; a queue is one thread's at a time.
 *
 * dev_cpu.c; dev_cuda.c, or dev_cuda_none.c in a build without CUDA.
 */
enum device_kind { DEVICE_CPU, DEVICE_CUDA };

struct device;
struct device_queue;
struct device_event;
struct device_graph;

/*
 * name: "cpu"; "cuda": the GPU of this rank, the local_rank-th of the host, which is then its
 * own; "cuda:N": that one, shared with whoever else names it.  ERR_ABSENT: no driver, an older
 * one, no such GPU, more ranks than GPUs, a build without CUDA; ERR_INPUT: another name.
 */
int device_open(struct device **out, const char *name, int local_rank, struct err *err);
void device_close(struct device *d); /* NULL is fine; waits for all work */
enum device_kind device_kind(const struct device *d);
const char *device_name(const struct device *d); /* "cpu", or the model's name */
int device_index(const struct device *d);        /* of a GPU; -1 */

/* Memory of the device: free now, and in all; of a CPU both are -1: not queried. */
int device_memory(const struct device *d, int64_t *free_bytes, int64_t *bytes, struct err *err);
/*
 * Zeroed, 256-byte aligned (CPU: 64).  ERR_SYS naming `what`, the bytes asked for and, of a
 * GPU, those that are free.
 */
int device_alloc(struct device *d, int64_t bytes, const char *what, void **out,
                 struct err *err);
void device_free(struct device *d, void *p); /* NULL is fine */
/*
 * Memory of the host that a queue copies from and to without a detour: zeroed, in whole pages;
 * or what is there already, of whose pages nothing else is pinned.  A GPU of any index may use
 * it.
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

/* Between any two places of host and device; host memory that is not pinned blocks. */
void device_copy(struct device_queue *q, void *to, const void *from, int64_t bytes);
/* So many rows of `bytes`, to_row and from_row bytes apart; both of the device. */
void device_copy_rows(struct device_queue *q, void *to, int64_t to_row, const void *from,
                      int64_t from_row, int64_t bytes, int64_t rows);
void device_zero(struct device_queue *q, void *to, int64_t bytes);
void device_record(struct device_queue *q, struct device_event *e);
void device_wait(struct device_queue *q, const struct device_event *e);
/* 1: it has happened (or was never recorded); 0: not yet; -1: err. */
int device_done(const struct device_event *e, struct err *err);
int device_event_sync(const struct device_event *e, struct err *err); /* blocks */
int device_sync(struct device_queue *q, struct err *err);             /* blocks: all of it */
/*
 * A GRAPH is work written down once and asked for again in one call.  Work that this thread
 * asks of the queue between begin and end is not done but becomes the graph, with the memory
 * that it names; events, waits and memory of the host that is not pinned have no place there,
 * and nothing is allocated.  One at a time of a device.  begin: ERR_ABSENT on a CPU, where
 * asking is doing.  end: ERR_ABSENT where something cannot be written down, in the vendor's
 * words; device and queue are as before then, and nothing was done.
 */
int device_graph_begin(struct device_queue *q, struct err *err);
int device_graph_end(struct device_queue *q, struct device_graph **out, struct err *err);
void device_graph_run(struct device_queue *q, const struct device_graph *g);
void device_graph_free(struct device_graph *g); /* NULL is fine; none of its runs goes on */
/*
 * The vendor's stream behind a queue, for kernels (cudaStream_t), NULL on a CPU; and what the
 * calling thread asks the vendor for is that device's from now on.
 */
void *device_stream(const struct device_queue *q);
struct device *device_of(const struct device_queue *q); /* borrowed */

#endif
