/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEV_DEV_STREAM_H
#define DEV_DEV_STREAM_H

#include <stdint.h>

#include "base/err.h"

/*
 * Asynchronous work as ordered queues (streams) in the caller's process.  A RUNNER has one
 * thread and any number of streams (at most 32).  An OPERATION is a pair {start, poll}: start
 * begins it, poll continues it without blocking and returns its state.  A stream executes its
 * operations one after the other, in the order of the pushes; operations of different streams
 * overlap.
 *
 * One thread at a time polls the operations at the heads of all streams in turn: the runner's
 * own, or one that waits in stream_run.  So start and poll are never called concurrently within
 * a runner.
 *
 *     ticket = stream_push(s, op);         queues op; does not block or allocate
 *     stream_wait(s, ticket, err);         blocks until that operation is done
 *
 * After an operation has failed, the runner executes nothing more, on any of its streams, and
 * every wait for an operation that is not done returns the failed operation's error.
 */
/* Result of a poll.  IDLE: no progress; AGAIN: no progress yet, but the next poll may show some
   at once, so do not yield before it; MOVED: progress; DONE; FAILED: err is set. */
enum stream_state { STREAM_IDLE, STREAM_AGAIN, STREAM_MOVED, STREAM_DONE, STREAM_FAILED };

struct stream_op {
    /* called once, before poll; NULL: nothing to start; -1: failed, err is set */
    int (*start)(void *arg, struct err *err);
    /* called until DONE or FAILED; NULL: done at once */
    enum stream_state (*poll)(void *arg, struct err *err);
    void *arg;
};

struct runner;
struct stream;

/* *out is owned by the caller.  ERR_SYS: no thread could be started. */
int runner_open(struct runner **out, struct err *err);
/* Waits for all queued operations, unless one has failed, then frees the runner and its
   streams; NULL is fine. */
void runner_close(struct runner *r);

/* space: most operations that may be queued at once.  The runner owns the stream. */
struct stream *stream_open(struct runner *r, int space);
/* Queues op, whose arg must live until it is done, and returns its ticket: 1, 2, ... in each
   stream.  Pushing more than `space` is a bug (assert).  Any thread. */
int64_t stream_push(struct stream *s, struct stream_op op);
/* 1: the operation, and so all before it, is done; 0: not yet, or never after a failure. */
int stream_done(struct stream *s, int64_t ticket);
/* Blocks until the operation is done; -1 and err if it never will be. */
int stream_wait(struct stream *s, int64_t ticket, struct err *err);
/* Pushes op and waits for it, polling all streams in the calling thread, which saves two
   thread switches; for a caller with nothing else to do. */
int stream_run(struct stream *s, struct stream_op op, struct err *err);
/* Runs op to its end in the calling thread, without a runner. */
int stream_drive(struct stream_op op, struct err *err);
/* As stream_wait, for all operations pushed so far. */
int stream_wait_all(struct stream *s, struct err *err);

#endif
