/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_NCCL_INSIDE_H
#define EXEC_EXEC_NCCL_INSIDE_H

/* Inside exec/exec_nccl*: communicators, and how a rank's rows become turns of queues. */
#include <nccl.h>

#include "base/mem.h"
#include "exec/exec_nccl.h"

enum {
    EXEC_TRACKS_MOST = 8,
    EXEC_QUEUES_MOST = 2 * EXEC_TRACKS_MOST,
    EXEC_SLOTS = 3, /* of a track: one filled, one added, one to spare */
    /*
     * Turns in the queues at once.  CUDA takes about a thousand pieces of work into a stream
     * before a call waits for the GPU, NCCL about as many into its own; a turn is some waits, a
     * transfer and a few kernels on each of two streams.
     */
    EXEC_AHEAD = 128
};

enum { EXEC_MOVES, EXEC_LANDS }; /* the queues of a track, the points of a turn */

/*
 * The rows of one step and track.  Its two points: what travels is one ncclGroup, what is added
 * (and what goes from room to room) one kernel each.  Point 2 t + EXEC_LANDS is turn t's.
 *
 *     moves of track 0   [t0: recv -> out, recv -> slot 0]   [t1: recv -> slot 1] ...
 *     lands of track 0                          [t0: out = in + slot 0]    [t1: ...]
 */
struct exec_point {
    int there;                 /* it has work */
    int wait, waits;           /* h->wait[wait ..): points to be waited for first */
    int next;                  /* the next point of its queue, or -1 */
    struct device_event *done; /* owned; NULL where nothing is there */
};

struct exec_turn {
    int track, step;
    int first, count; /* rows order[first .. first+count) */
    int64_t in_bytes;
    struct exec_point point[2];
};

struct exec_track {
    ncclComm_t comm;
    struct device_queue *queue[2]; /* owned */
    void *registered;              /* what NCCL calls the taken memory, or NULL */
    char *met;                     /* [2][ranks] has sent to, received from */
};

struct exec_nccl {
    struct device *device; /* borrowed */
    int rank, ranks, tracks;
    double deadline_s;
    struct exec_track track[EXEC_TRACKS_MOST];
    struct device_queue *door;
    struct device_event *begin, *met;
    struct arena arena; /* of taken memory */
    void *taken;
    char *scratch; /* of the run that goes on: runs follow each other */
    int64_t scratch_bytes;
    char *touch;             /* what ranks exchange when they meet */
    int64_t tickets, served; /* starts; those that have gone into the queues whole */
    int failed;
    struct err failure;
};

struct exec_nccl_handle {
    struct exec_nccl *x;
    struct exec_rows rows; /* owned */
    struct exec_turn *turn;
    int turns;
    int *order;       /* row numbers, turn by turn */
    int64_t *slot_at; /* [rows] where in scratch an add arrives first */
    int *wait;
    int waits;
    size_t waits_room;
    int first[EXEC_QUEUES_MOST], last[EXEC_QUEUES_MOST]; /* points of a queue, or -1 */
    int64_t scratch_bytes;
    struct device_event *end; /* behind the run */
    /* of the run that goes on */
    char *base[3];
    const void *next_in;
    void *next_out;
    const struct device_event *after;
    struct device_event *then;
    int64_t ticket;
    int opened, issued, ended;   /* begun; turns in the queues; all is */
    int watch[EXEC_QUEUES_MOST]; /* the first point of each queue not seen done */
    int64_t arrived_bytes;
    double moved_s;
};

/* exec_nccl_turns.c: turns, their order, what each waits for, and its events. */
int exec_turns_make(struct exec_nccl_handle *h, int tracks, struct err *err);
void exec_turns_release(struct exec_nccl_handle *h);
int exec_track_of(const struct exec_rows *r, const struct exec_row *row, int tracks);

/*
 * Waits until NCCL has taken in what `call` asked of comm and answered with rc; err says call
 * and place, which are printed like a format.  Fails the executor, as all below do.
 */
int exec_nccl_settle(struct exec_nccl *x, ncclComm_t comm, ncclResult_t rc, const char *call,
                     struct err *err, const char *place, ...)
    __attribute__((format(printf, 6, 7)));
/* Whether a communicator has failed meanwhile. */
int exec_nccl_healthy(struct exec_nccl *x, struct err *err);
/* Until the event has happened. */
int exec_nccl_wait(struct exec_nccl *x, const struct device_event *e, const char *what,
                   struct err *err);
/* What is wrong now stays: aborts the communicators; returns -1. */
int exec_nccl_fail(struct exec_nccl *x, struct err *err);
int exec_nccl_check(const struct exec_nccl *x, struct err *err); /* -1 when it has failed */
/* Sleeps, a little longer each time. */
void exec_nccl_nap(int *turn);

#endif
