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
     * Turns in the queues at once.  CUDA takes about a thousand pieces of work into a stream
     * before a call waits for the GPU, NCCL about as many into its own; a turn is some waits, a
     * transfer and a few kernels on each of two streams.
     */
    EXEC_AHEAD = 128
};

struct exec_track {
    ncclComm_t comm;
    struct device_queue *queue[2]; /* owned */
    void *registered;              /* NCCL's handle of the taken memory, or NULL */
    char *met;                     /* [2][ranks] has sent to, received from */
};

struct exec_nccl {
    struct device *device; /* borrowed */
    int rank, ranks, tracks;
    double deadline_s;
    struct exec_track track[TURN_TRACKS_MOST];
    struct device_queue *door;
    struct device_event *begin, *met;
    struct arena arena; /* of taken memory */
    void *taken;
    char *scratch; /* of the run that goes on: runs follow each other */
    int64_t scratch_bytes;
    char *touch;             /* exchanged by ranks when they connect */
    int64_t tickets, served; /* starts; those that have gone into the queues whole */
    void (*tell)(void *arg, const struct err *err);
    int (*hear)(void *arg, struct err *err);
    void *arg;
    double heard_s; /* when hear was last asked */
    int failed;
    struct err failure;
};

struct exec_nccl_handle {
    struct exec_nccl *x;
    struct exec_rows rows; /* owned */
    struct turns turns;
    struct device_event **done; /* [2 turns] by point, owned; NULL where nothing is there */
    struct device_event *end;   /* behind the run */
    /* of the run that goes on */
    char *base[3];
    const void *next_in;
    void *next_out;
    const struct device_event *after;
    struct device_event *then;
    int64_t ticket;
    int started;                 /* there is such a run */
    int opened, issued, ended;   /* begun; turns in the queues; all is */
    int watch[TURN_QUEUES_MOST]; /* the first point of each queue not seen done */
    int64_t arrived_bytes;
    double moved_s;
};

/*
 * Waits until NCCL has taken in what `call` asked of comm and answered with rc; err says call
 * and place, which are printed like a format.  Fails the executor, as all below do.
 */
int exec_nccl_drain(struct exec_nccl *x, ncclComm_t comm, ncclResult_t rc, const char *call,
                    struct err *err, const char *place, ...)
    __attribute__((format(printf, 6, 7)));
/* Whether a communicator has failed meanwhile, or another rank has said that it has. */
int exec_nccl_healthy(struct exec_nccl *x, struct err *err);
/* Until the event has happened. */
int exec_nccl_wait(struct exec_nccl *x, const struct device_event *e, const char *what,
                   struct err *err);
/* Keeps the first error, for good: aborts the communicators; returns -1. */
int exec_nccl_fail(struct exec_nccl *x, struct err *err);
int exec_nccl_check(const struct exec_nccl *x, struct err *err); /* -1 when it has failed */
/* Puts what is left of the run that goes on into the queues. */
int exec_nccl_put_in(struct exec_nccl_handle *h, struct err *err);
/*
 * Aborts n communicators, of which some may be NULL, each in a thread of its own: an abort
 * waits for the communicator's kernels, and those may stand in the GPU behind another's, which
 * end when that one is aborted.
 */
void exec_nccl_abort_all(const ncclComm_t *comm, int n);
/* Sleeps, a little longer each time. */
void exec_nccl_nap(int *turn);

#endif
