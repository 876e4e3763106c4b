/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_NCCL_INSIDE_H
#define EXEC_EXEC_NCCL_INSIDE_H

/* Inside exec/exec_nccl*: communicators and handles. */
#include <nccl.h>

#include "base/mem.h"
#include "exec/exec_nccl.h"
#include "exec/exec_turns.h"

enum {
    /*
     * Turns in the queues at a time.  CUDA takes about a thousand pieces of work into a stream
     * before a call waits for the GPU, NCCL about as many into its own; a turn is some waits, a
     * transfer and a few kernels on each of two streams.
     */
    EXEC_AHEAD = 128
};

struct exec_track {
    ncclComm_t comm;
    struct device_queue *queue[2]; /* owned */
    void *registered;              /* NCCL's registration of the taken memory, or NULL */
    char *met; /* [2][ranks] whether this track has sent to, received from the rank */
};

struct exec_nccl {
    struct device *device; /* borrowed */
    int rank, ranks, tracks;
    double deadline_s;
    struct exec_track track[TURN_TRACKS_MOST];
    struct device_queue *door;
    struct device_event *begin, *met;
    struct arena arena; /* allocates from `taken` */
    void *taken;
    char *scratch; /* scratch of the current run: runs execute one after the other */
    int64_t scratch_bytes;
    char *touch;             /* bytes exchanged by ranks when they connect */
    int64_t tickets, served; /* starts; starts that are completely in the queues */
    void (*tell)(void *arg, const struct err *err);
    int (*hear)(void *arg, struct err *err);
    void *arg;
    double heard_s; /* when hear was last called */
    int failed;
    struct err failure;
};

struct exec_nccl_handle {
    struct exec_nccl *x;
    struct exec_rows rows; /* owned */
    struct turns turns;
    struct device_event **done; /* [2 turns] by point, owned; NULL for a point without work */
    struct device_event *end;   /* recorded at the end of the run */
    /* The current run: */
    char *base[3];
    const void *next_in;
    void *next_out;
    const struct device_event *after;
    struct device_event *then;
    int64_t ticket;
    int started;               /* a run is in progress */
    int opened, issued, ended; /* begun; turns in the queues; the whole run is in the queues */
    int watch[TURN_QUEUES_MOST]; /* the first point of each queue not known to be done */
    int64_t arrived_bytes;
    double moved_s;
};

/*
 * Waits until NCCL has accepted `call`, which it was given on comm and which returned rc.  The
 * error names call and place, which is printed like a format.  Fails the executor, as do all
 * functions below.
 */
int exec_nccl_drain(struct exec_nccl *x, ncclComm_t comm, ncclResult_t rc, const char *call,
                    struct err *err, const char *place, ...)
    __attribute__((format(printf, 6, 7)));
/* Fails if a communicator has failed, or another rank has reported a failure. */
int exec_nccl_healthy(struct exec_nccl *x, struct err *err);
/* Waits until the event has happened. */
int exec_nccl_wait(struct exec_nccl *x, const struct device_event *e, const char *what,
                   struct err *err);
/* Keeps the first error for good and aborts the communicators; returns -1. */
int exec_nccl_fail(struct exec_nccl *x, struct err *err);
int exec_nccl_check(const struct exec_nccl *x, struct err *err); /* -1 if it has failed */
/* Puts the rest of the current run into the queues. */
int exec_nccl_put_in(struct exec_nccl_handle *h, struct err *err);
/*
 * Aborts n communicators, some of which may be NULL, each in a thread of its own.  An abort
 * waits for the communicator's kernels, and those may be queued on the GPU after kernels of
 * another communicator, which end only when that one is aborted.
 */
void exec_nccl_abort_all(const ncclComm_t *comm, int n);
/* Sleeps, a little longer each time. */
void exec_nccl_nap(int *turn);

#endif
