/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_NCCL_H
#define EXEC_EXEC_NCCL_H

#include "dev/dev.h"
#include "dev/dev_stream.h"
#include "exec/exec.h"
#include "world/world.h"

/*
 * The NCCL executor.  Buffers are GPU memory; rows go by ncclSend and ncclRecv between GPUs;
 * elements to be added arrive in scratch and a kernel adds them.  A whole run is put into
 * queues of the GPU with events between them: nothing waits on the host.
 *
 *     caller's event --> door --> tracks: moves, lands ... --> door --> event for the caller
 *
 * A TRACK is a communicator with two queues, one for transfers, one for additions; lanes are
 * distributed over tracks.  Rows are issued in one order on every rank, by step and track, so
 * that no two communicators ever wait for each other.  For the same reason ALL RANKS PREPARE,
 * AND START, IN THE SAME ORDER: with a runner, through one stream.  Runs execute one after the
 * other.
 *
 * ERR_INPUT at prepare: coded rows (exec.h), which only the MPI executor runs.
 */
struct exec_nccl; /* one per process and GPU */

struct exec_nccl_options {
    struct device *device; /* a GPU, borrowed */
    int rank, ranks;
    double deadline_s; /* limit of each wait for other ranks */
    int64_t bytes;     /* capacity of exec_nccl_take */
    int tracks;        /* number of tracks; 0: 4 */
    /* Broadcasts n bytes of root to all ranks; collective, with the same outcome on each. */
    int (*share)(void *arg, void *bytes, int n, int root, struct err *err);
    /*
     * NCCL does not report a peer's failure where both share a host, so ranks report failures
     * to each other.  tell: sends this rank's failure to the others.  hear: returns -1 with
     * ERR_PEER if another rank reported one; called during waits.  Both may be NULL.
     */
    void (*tell)(void *arg, const struct err *err);
    int (*hear)(void *arg, struct err *err);
    void *arg;
};

/*
 * Collective.  ERR_ABSENT: a build without NCCL, or an NCCL older than 2.19.  If one rank
 * fails, the others wait for it until the deadline.
 */
int exec_nccl_open(struct exec_nccl **out, const struct exec_nccl_options *o, struct err *err);
/*
 * Opens the executor in a world, with one outcome for all ranks (world_agree).  Making the
 * communicators may take WORLD_SLOW times the world's deadline.
 */
int exec_nccl_open_world(struct exec_nccl **out, struct world *world, struct device *device,
                         int64_t bytes, struct err *err);
void exec_nccl_close(struct exec_nccl *x); /* collective unless it has failed; NULL is fine */
/* Ends the current run, on the GPU too, without the other ranks; the executor has then failed.
   No other thread may be in a function of this executor. */
void exec_nccl_abort(struct exec_nccl *x);
/*
 * Takes 256-byte aligned GPU memory, zeroed, freed only by close.  It is registered with NCCL,
 * which may then avoid copies.  Any other GPU memory works as a buffer too.
 */
void *exec_nccl_take(struct exec_nccl *x, int64_t bytes);
int64_t exec_nccl_bytes(const struct exec_nccl *x); /* GPU bytes: taken memory and scratch */
int exec_nccl_built(void);                          /* whether this build has NCCL */
/* The queue in which runs begin and end: work put there before a start precedes the run, work
   put there afterwards follows it. */
struct device_queue *exec_nccl_door(struct exec_nccl *x);

struct exec_nccl_handle;

/*
 * Collective: prepares rows for any number of starts, and connects the ranks that exchange
 * data.  Takes ownership of rows, also on failure.  Nothing is allocated afterwards.  No run of
 * this executor may be started or polled by another thread meanwhile: NCCL takes one thread at
 * a time.
 */
int exec_nccl_prepare(struct exec_nccl *x, struct exec_rows *rows,
                      struct exec_nccl_handle **out, struct err *err);
/*
 * NULL is fine.  A run that has begun is issued completely and waited for.  If a run was
 * started but could not begin, because another precedes it, the other ranks would wait for it:
 * the executor has then failed.
 */
void exec_nccl_free(struct exec_nccl_handle *h);

/*
 * Sets the buffers and events of the next start.  One start at a time per handle; start and
 * poll are the functions of a stream operation.  after: the run begins after this event; then:
 * recorded at the end of the run, by the time poll returns STREAM_DONE; either may be NULL.  An
 * error is returned by poll, naming rank, call and place: ERR_PEER (another rank, the network,
 * the deadline) or ERR_DEVICE.  Communicators are then aborted, which ends their kernels on the
 * GPU, and every later start fails with the same error.
 */
void exec_nccl_set(struct exec_nccl_handle *h, const void *in, void *out,
                   const struct device_event *after, struct device_event *then);
int exec_nccl_start(void *handle, struct err *err);
enum stream_state exec_nccl_poll(void *handle, struct err *err);
/*
 * Instead of start and poll, for a caller that never waits: puts the whole run into the queues.
 * The next run of the handle may follow at once.
 */
int exec_nccl_issue(struct exec_nccl_handle *h, struct err *err);
/* Bytes received by this rank in the current or last run. */
int64_t exec_nccl_arrived(const struct exec_nccl_handle *h);

#endif
