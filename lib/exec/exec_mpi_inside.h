/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_MPI_INSIDE_H
#define EXEC_EXEC_MPI_INSIDE_H

/* Inside exec/exec_mpi*: the handle, its queues, and the part that ranks of the host share. */
#include <stdatomic.h>

#include "base/mem.h"
#include "exec/exec_mpi.h"
#include "world/world_mpi.h"

/*
 * One rank's shared part of a handle:
 *
 *   head      the addresses of in and out in the rank's arena, and the scratch, of this start
 *   entry[]   one per queue that sends inside the host: lane, receiver, offset of its pair
 *   pair      two counters, and the spot that each of its rows reads; for a small queue also
 *             two slots per row: the payload is copied there, so that the sender need not wait
 *   scratch
 */
enum {
    EXEC_EAGER = EXEC_SCRATCH + 1
}; /* a spot in the sender's part, for starts 0, 2, 4, ... */

struct exec_head {
    int64_t base[3]; /* in, out: offsets in the arena's part; scratch: in the handle's part */
    int64_t entries;
};

struct exec_entry {
    int64_t lane, peer, count, pair_at; /* peer: the receiver; pair_at: offset in this part */
};

struct exec_pair {
    _Alignas(64) _Atomic int64_t ready; /* rows that the sender has released, over all starts */
    _Alignas(64) _Atomic int64_t done;  /* rows that the receiver has read, over all starts */
    /* from a row's slot to its slot of odd starts; 0: no slots */
    _Alignas(64) int64_t eager_bytes;
    struct exec_spot from[];
};

/* Rows of one queue and step, sent as one message: consecutive in the queue. */
struct exec_message {
    int first, rows; /* indices in the queue */
    int64_t bytes;
    /* the rows are not contiguous in memory, in order: the message goes through a slot */
    int packed;
};

struct exec_queue {
    enum exec_kind kind;
    int lane, peer;
    int coded;          /* some rows are coded */
    int first, count;   /* its rows: order[first .. first+count) */
    int posted, passed; /* messages (by message) or rows (shared, local) begun, finished */
    /* queues that go by message */
    struct exec_message *message; /* [messages], owned */
    int messages, window, tag;
    int64_t slot_bytes;   /* bytes of the largest message */
    MPI_Request *request; /* [window] borrowed from the handle, as is done */
    char *done;           /* [window] the message has completed */
    char **where;         /* [window] receives: where the message lands first */
    char *slot;           /* [window][slot_bytes] */
    /* queues that go through shared memory */
    struct exec_pair *pair; /* in the sender's part; NULL: by message, or local */
    int node_peer;
};

struct exec_mpi {
    struct world *world;
    struct world_share share; /* the arenas of this host's ranks */
    struct arena arena;       /* this rank's arena */
    int64_t window_bytes;
    int no_shared;
    int left; /* a handle was kept with messages in flight, which may use an arena */
};

struct exec_mpi_handle {
    struct exec_mpi *x;
    struct exec_rows rows; /* owned */
    MPI_Comm comm;         /* borrowed */
    int tag;
    struct exec_queue *queue;
    int queues;
    int *order;   /* row numbers, queue by queue */
    int requests; /* requests of all queues that go by message, in one array */
    MPI_Request *request;
    char *done;
    int *some;
    int turn; /* the shared queue that is polled first next time */
    int *writes, *reads;
    int finished, selves_left;
    unsigned polls;        /* polls without progress, over all runs */
    int64_t arrived_bytes; /* received in this run */
    int64_t starts;        /* finished runs */
    char *base[3];
    const void *next_in;
    void *next_out;
    float *residual, *next_residual;
    double moved_s, progressed_s;
    struct world_share share; /* shared memory of head, entries, pairs, scratch */
    struct exec_stage *stage; /* owned; NULL: the buffers are in host memory */
};

/* Makes queues in order of first appearance of (lane, peer, kind); rows keep their order. */
void exec_queues_make(struct exec_mpi_handle *h);
/* Makes messages, requests and slots of the queues that go by message; all requests in one
   array. */
int exec_queues_windows(struct exec_mpi_handle *h, struct err *err);
void exec_queues_release(struct exec_mpi_handle *h);
const struct exec_row *exec_queue_row(const struct exec_mpi_handle *h,
                                      const struct exec_queue *q, int at);

/* Collective, same error on all ranks: lays out and opens the shared part, takes the tags. */
int exec_shared_open(struct exec_mpi_handle *h, struct err *err);
/* Finds the sender's pair of each receiving queue in the parts of the others.  Not
 * collective. */
int exec_shared_find(struct exec_mpi_handle *h, struct err *err);
/* Publishes this start's buffers to the host; ERR_INPUT if they are not from exec_mpi_take. */
int exec_shared_publish(struct exec_mpi_handle *h, struct err *err);
/* Returns the address at which row `at` of a receiving queue is read. */
const char *exec_shared_source(const struct exec_mpi_handle *h, const struct exec_queue *q,
                               int at);
/* Returns the slot into which row `at` of a sending queue with eager slots is copied. */
char *exec_shared_space(const struct exec_mpi_handle *h, const struct exec_queue *q, int at);

/* The stage functions do nothing for a handle without a stage, whose data is always present. */
void exec_stage_start(struct exec_mpi_handle *h);
/* 1: more cells were copied, in either direction */
int exec_stage_poll(struct exec_mpi_handle *h);
/* Whether the cells of `in` that the row reads, or all cells that any row reads, are on the
   host. */
int exec_stage_has(const struct exec_mpi_handle *h, const struct exec_row *row);
int exec_stage_has_all(const struct exec_mpi_handle *h);
/* Reports that a row or local copy has written at `at`; ended: whether all of it is on the
   GPU. */
void exec_stage_wrote(struct exec_mpi_handle *h, struct exec_spot at, int64_t bytes);
int exec_stage_ended(const struct exec_mpi_handle *h);
void exec_stage_free(struct exec_mpi_handle *h);

#endif
