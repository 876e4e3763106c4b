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
 * Data that a peer on this host may read must lie in memory that it sees: buffers given to
 * exec_mpi_start come from exec_mpi_take (in and out may be NULL where nothing is read or
 * written).  Coded rows go by message, whoever the peer is.
 */
struct exec_mpi; /* one per process */

struct exec_mpi_options {
    int64_t shared_bytes; /* room for exec_mpi_take */
    int64_t window_bytes; /* in flight per lane, peer and direction; 0: 2 MiB */
    int no_shared;        /* messages inside the host too */
};

/* Collective.  On failure every rank has the same error (world_agree). */
int exec_mpi_open(struct exec_mpi **out, struct world *world,
                  const struct exec_mpi_options *options, struct err *err);
/* Stays where one of its handles has stayed (exec_mpi_free). */
void exec_mpi_close(struct exec_mpi *x);
/* 64-byte aligned room in the memory this host's ranks share; never given back before close. */
void *exec_mpi_take(struct exec_mpi *x, int64_t bytes);

struct exec_mpi_handle;

/*
 * Collective: prepares rows (taken over, also on failure) for any number of starts.  All ranks
 * prepare the same schedules in the same order.  Nothing is allocated afterwards.
 */
int exec_mpi_prepare(struct exec_mpi *x, struct exec_rows *rows, struct exec_mpi_handle **out,
                     struct err *err);
/* A handle whose run failed with messages in flight stays, for they may still arrive. */
void exec_mpi_free(struct exec_mpi_handle *h);

const struct exec_rows *exec_mpi_rows(const struct exec_mpi_handle *h);

/*
 * One start at a time per handle; start and poll are what a stream operation wants.  residual:
 * the rows' residual_elems floats, from run to run of the same data; NULL: none are kept.
 */
void exec_mpi_set(struct exec_mpi_handle *h, const void *in, void *out, float *residual);
/*
 * Once, of a handle whose data are a GPU's: the in and out of exec_mpi_set are then pinned
 * memory that they pass through, piece by piece, while rows go on; by these queues (borrowed,
 * both ways of the bus at once).  exec_mpi_set_gpu says of the starts that follow where they
 * are: in NULL: what is in the host's is what is sent; out NULL: what arrives stays there.
 */
int exec_mpi_stage(struct exec_mpi_handle *h, struct device_queue *in, struct device_queue *out,
                   struct err *err);
void exec_mpi_set_gpu(struct exec_mpi_handle *h, const void *in, void *out);
int exec_mpi_start(void *handle, struct err *err);
enum stream_state exec_mpi_poll(void *handle, struct err *err);
/* For so many seconds nobody looked, which is no wait: the deadline is so much later. */
void exec_mpi_excuse(struct exec_mpi_handle *h, double s);
/* Bytes that have arrived here in the run that goes on, or in the last one; in the GPU, whole
 * pieces, where out is there. */
int64_t exec_mpi_arrived(const struct exec_mpi_handle *h);

#endif
