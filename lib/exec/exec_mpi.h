/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_MPI_H
#define EXEC_EXEC_MPI_H

#include "dev/dev.h"
#include "dev/dev_stream.h"
#include "exec/exec.h"
#include "world/world.h"

/*
 * The MPI executor.  Ranks of one host hand chunks over through shared memory: the sender
 * raises a counter, the receiver copies or adds straight from the sender's buffer.  Other ranks
 * are reached by messages, in order within a lane, with a bounded window in flight.
 *
 * Data that a peer on this host may read must lie in memory that the peer has mapped: buffers
 * passed to exec_mpi_start come from exec_mpi_take (in and out may be NULL where nothing is
 * read or written).  Coded rows go by message to every peer, also on the same host.
 */
struct exec_mpi; /* one per process */

struct exec_mpi_options {
    int64_t shared_bytes; /* capacity of exec_mpi_take */
    int64_t window_bytes; /* in flight per lane, peer and direction; 0: 2 MiB */
    int no_shared;        /* use messages inside the host too */
};

/* Collective.  On failure every rank has the same error (world_agree). */
int exec_mpi_open(struct exec_mpi **out, struct world *world,
                  const struct exec_mpi_options *options, struct err *err);
/* Frees x, unless one of its handles had to be kept (exec_mpi_free). */
void exec_mpi_close(struct exec_mpi *x);
/* Takes 64-byte aligned memory, shared by this host's ranks; freed only by exec_mpi_close. */
void *exec_mpi_take(struct exec_mpi *x, int64_t bytes);

struct exec_mpi_handle;

/*
 * Collective: prepares rows for any number of starts.  Takes ownership of rows, also on
 * failure.  All ranks prepare the same schedules in the same order.  Nothing is allocated
 * afterwards.
 */
int exec_mpi_prepare(struct exec_mpi *x, struct exec_rows *rows, struct exec_mpi_handle **out,
                     struct err *err);
/* Frees a handle.  If its run failed with messages in flight the memory is kept, for they may
   still arrive. */
void exec_mpi_free(struct exec_mpi_handle *h);

const struct exec_rows *exec_mpi_rows(const struct exec_mpi_handle *h);

/*
 * Sets the buffers of the next start.  One start at a time per handle; start and poll are the
 * functions of a stream operation.  residual: [residual_elems] of the rows, kept by the caller
 * from run to run of the same data; NULL: none are kept.
 */
void exec_mpi_set(struct exec_mpi_handle *h, const void *in, void *out, float *residual);
/*
 * Call once for a handle whose data is in GPU memory.  The in and out of exec_mpi_set are then
 * pinned host buffers; chunks are copied through them while rows run, on the two queues
 * (borrowed, one per direction of the bus).  exec_mpi_set_gpu sets the GPU buffers of the
 * following starts.  in NULL: the host buffer already holds the input; out NULL: the result
 * stays in the host buffer.
 */
int exec_mpi_stage(struct exec_mpi_handle *h, struct device_queue *in, struct device_queue *out,
                   struct err *err);
void exec_mpi_set_gpu(struct exec_mpi_handle *h, const void *in, void *out);
int exec_mpi_start(void *handle, struct err *err);
enum stream_state exec_mpi_poll(void *handle, struct err *err);
/* Extends the deadline by s seconds during which the caller did not poll. */
void exec_mpi_excuse(struct exec_mpi_handle *h, double s);
/* Bytes received in the current or last run; with a GPU `out`, those copied to the GPU, in
 * whole cells. */
int64_t exec_mpi_arrived(const struct exec_mpi_handle *h);

#endif
