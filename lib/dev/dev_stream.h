/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEV_DEV_STREAM_H
#define DEV_DEV_STREAM_H

#include <stdint.h>

#include "base/err.h"

/*
 * Work as ordered queues.  An operation is a pair {start, poll}: start begins it, poll carries
 * it on and says when it is done.  One thread at a time, the runner's or one that waits, takes
 * the heads of all streams in turn, so that streams run at the same time and each is in order.
 * Nothing is allocated by a push.
 *
 *     ticket = stream_push(s, op);         a full queue is a bug: sized at stream_open
 *     stream_wait(s, ticket, err);         until that operation is done
 *
 * After an error every later operation is dropped and every wait returns that error.
 */
/* Idle, again: nothing moved; again: only the next poll shows what this one has brought. */
enum stream_state { STREAM_IDLE, STREAM_AGAIN, STREAM_MOVED, STREAM_DONE, STREAM_FAILED };

struct stream_op {
    int (*start)(void *arg, struct err *err); /* NULL: nothing to start; -1: failed */
    enum stream_state (*poll)(void *arg, struct err *err); /* NULL: done at once */
    void *arg;
};

struct runner;
struct stream;

int runner_open(struct runner **out, struct err *err);
void runner_close(struct runner *r); /* waits for what is queued; frees its streams */

struct stream *stream_open(struct runner *r, int space); /* room: operations queued at once */
int64_t stream_push(struct stream *s, struct stream_op op);
int stream_done(struct stream *s, int64_t ticket);
int stream_wait(struct stream *s, int64_t ticket, struct err *err);
/* Pushes and waits, for a caller with nothing else to do: the turns are taken in its thread. */
int stream_run(struct stream *s, struct stream_op op, struct err *err);
/* An operation to its end in the caller's thread, without a runner. */
int stream_drive(struct stream_op op, struct err *err);
int stream_wait_all(struct stream *s, struct err *err);

#endif
