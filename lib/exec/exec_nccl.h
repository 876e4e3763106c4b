/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_NCCL_H
#define EXEC_EXEC_NCCL_H

#include "dev/dev.h"
#include "dev/dev_stream.h"
#include "exec/exec.h"
#include "world/world.h"

/*
 * The NCCL executor: buffers are memory of a GPU, rows travel by ncclSend and ncclRecv between
 * GPUs, what is to be added lands in scratch and is added by a kernel.  All that a run asks for
 * is put into queues of the GPU, events between them: nothing waits on the host.
 *
 *     caller's event --> door --> tracks: moves, lands ... --> door --> event for the caller
 *
 * A TRACK is a communicator with two queues, one for what travels, one for what is added; lanes
 * are shared out over tracks.  Rows go in one order on every rank, by step and track, so that
 * no two communicators ever wait for each other.  For the same reason ALL RANKS PREPARE, AND
 * START, IN THE SAME ORDER: with a runner, through one stream.  Runs follow each other.
 *
 * ERR_INPUT at prepare: coded rows (exec.h), which the MPI executor does.
 */
struct exec_nccl; /* one per process and GPU */

struct exec_nccl_options {
    struct device *device; /* a GPU, borrowed */
    int rank, ranks;
    double deadline_s; /* of a wait for other ranks */
    int64_t bytes;     /* room for exec_nccl_take */
    int tracks;        /* 0: 4 */
    /* Root's bytes to all ranks; collective, and the same outcome on each. */
    int (*share)(void *arg, void *bytes, int n, int root, struct err *err);
    /*
     * A rank that waits for one that failed is told nothing by NCCL where they share a host:
     * tell says a failure of this rank's to the others, hear (-1, err: ERR_PEER) what they
     * have said; hear is asked while something is waited for.  Or NULL.
     */
    void (*tell)(void *arg, const struct err *err);
    int (*hear)(void *arg, struct err *err);
    void *arg;
};

/*
 * Collective.  ERR_ABSENT: a build without NCCL, an NCCL older than 2.19.  On failure a rank
 * that could go on waits for the others until the deadline.
 */
int exec_nccl_open(struct exec_nccl **out, const struct exec_nccl_options *o, struct err *err);
/*
 * The same in a world: one outcome for all ranks (world_agree); communicators may take
 * WORLD_SLOW times its deadline to be made.
 */
int exec_nccl_open_world(struct exec_nccl **out, struct world *world, struct device *device,
                         int64_t bytes, struct err *err);
void exec_nccl_close(struct exec_nccl *x); /* collective unless it has failed; NULL is fine */
/* Ends what goes on, on the GPU too, without the other ranks: it has then failed.  Not while
   another thread is in here. */
void exec_nccl_abort(struct exec_nccl *x);
/*
 * 256-byte aligned memory of the GPU, zeroed, never given back before close; registered with
 * NCCL, which may so spare copies.  Any other memory of the GPU does as well.
 */
void *exec_nccl_take(struct exec_nccl *x, int64_t bytes);
int64_t exec_nccl_bytes(const struct exec_nccl *x); /* of the GPU: taken, and scratch */
int exec_nccl_built(void);                          /* whether this build has NCCL */
/* Where runs begin and end: what is put there before a start comes before the run, what is put
   there behind it comes after. */
struct device_queue *exec_nccl_door(struct exec_nccl *x);

struct exec_nccl_handle;

/*
 * Collective: prepares rows (taken over, also on failure) for any number of starts, and lets
 * the ranks meet who will talk.  Nothing is allocated afterwards.  Not while a run of this
 * executor is started or polled elsewhere: NCCL takes one thread at a time.
 */
int exec_nccl_prepare(struct exec_nccl *x, struct exec_rows *rows,
                      struct exec_nccl_handle **out, struct err *err);
/*
 * NULL is fine.  A run that has begun is put in whole and waited for; one that could not begin,
 * another being before it, is one that the others wait for: the executor has then failed.
 */
void exec_nccl_free(struct exec_nccl_handle *h);

/*
 * One start at a time per handle; start and poll are what a stream operation wants.  after: the
 * run begins behind it; then: recorded behind the run, by the time poll says it is done; either
 * NULL.  An error comes from poll with rank, call and place: ERR_PEER (another rank, the
 * network, the deadline) or ERR_DEVICE.  Communicators are then aborted, which ends what hangs
 * on the GPU, and every later start fails with the same error.
 */
void exec_nccl_set(struct exec_nccl_handle *h, const void *in, void *out,
                   const struct device_event *after, struct device_event *then);
int exec_nccl_start(void *handle, struct err *err);
enum stream_state exec_nccl_poll(void *handle, struct err *err);
/*
 * Instead of start and poll, for a caller who never waits: all of the run is put into the
 * queues.  The next one of the handle may follow at once.
 */
int exec_nccl_issue(struct exec_nccl_handle *h, struct err *err);
/* Bytes that have arrived here in the run that goes on, or in the last one. */
int64_t exec_nccl_arrived(const struct exec_nccl_handle *h);

#endif
