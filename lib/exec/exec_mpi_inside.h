/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_MPI_INSIDE_H
#define EXEC_EXEC_MPI_INSIDE_H

/* Inside exec/exec_mpi*: the handle, its queues, and what it shows to the ranks of its host. */
#include <stdatomic.h>

#include "base/mem.h"
#include "exec/exec_mpi.h"
#include "world/world_mpi.h"

/*
 * One rank's shared part of a handle:
 *
 *   head      the addresses of in and out in the rank's arena, and the scratch, of this start
 *   entry[]   one per queue that sends inside the host: lane, receiver, where its pair is
 *   pair      two counters, and where each of its rows reads; of a small queue also room for
 *             its rows, twice: what is sent is copied there, and the sender is done with it
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
    _Alignas(64) _Atomic int64_t ready; /* rows the sender let go, over all starts */
    _Alignas(64) _Atomic int64_t done;  /* rows the receiver has taken */
    _Alignas(64) int64_t eager_bytes; /* from a row's room to its room of odd starts; 0: none */
    struct exec_spot from[];
};

/* Rows of one queue and step, one message: consecutive in the queue. */
struct exec_message {
    int first, rows; /* in the queue */
    int64_t bytes;
    int packed; /* not as it lies here, one row behind the other: it goes through a slot */
};

struct exec_queue {
    enum exec_kind kind;
    int lane, peer;
    int coded;          /* some rows are */
    int first, count;   /* its rows: order[first .. first+count) */
    int posted, passed; /* messages (by message) or rows (shared, local) begun, finished */
    /* by message */
    struct exec_message *message; /* [messages], owned */
    int messages, window, tag;
    int64_t slot_bytes;   /* of its largest message */
    MPI_Request *request; /* [window] borrowed from the handle, as is done */
    char *done;           /* [window] the message is through */
    char **where;         /* [window] receives: where it lands first */
    char *slot;           /* [window][slot_bytes] */
    /* through shared memory */
    struct exec_pair *pair; /* in the sender's part; NULL: by message, or local */
    int node_peer;
};

struct exec_mpi {
    struct world *world;
    struct world_share share; /* the arenas */
    struct arena arena;       /* this rank's */
    int64_t window_bytes;
    int no_shared;
    int left; /* a handle was left with messages in flight, which may lie in an arena */
};

struct exec_mpi_handle {
    struct exec_mpi *x;
    struct exec_rows rows; /* owned */
    MPI_Comm comm;         /* borrowed */
    int tag;
    struct exec_queue *queue;
    int queues;
    int *order;   /* row numbers, queue by queue */
    int requests; /* of all queues that go by message, in one array */
    MPI_Request *request;
    char *done;
    int *some;
    int turn; /* the queue of this host that comes first next time */
    int *writes, *reads;
    int finished, selves_left;
    unsigned polls;        /* that moved nothing */
    int64_t arrived_bytes; /* of this run */
    int64_t starts;        /* finished runs */
    char *base[3];
    const void *next_in;
    void *next_out;
    float *residual, *next_residual;
    double moved_s, progressed_s;
    struct world_share share; /* head, entries, pairs, scratch */
    struct exec_stage *stage; /* owned; NULL: the buffers are the host's alone */
};

/* Queues by first appearance of (lane, peer, kind); the rows of each in row order. */
void exec_queues_make(struct exec_mpi_handle *h);
/* Messages, requests and slots of the queues that go by message; all requests in one array. */
int exec_queues_windows(struct exec_mpi_handle *h, struct err *err);
void exec_queues_release(struct exec_mpi_handle *h);
const struct exec_row *exec_queue_row(const struct exec_mpi_handle *h,
                                      const struct exec_queue *q, int at);

/* Collective, the same error on all ranks: lays out and opens the shared part, takes the tags.
 */
int exec_shared_open(struct exec_mpi_handle *h, struct err *err);
/* Finds the sender's pair of each receiving queue, in the parts of the others.  Not collective.
 */
int exec_shared_find(struct exec_mpi_handle *h, struct err *err);
/* Shows this start's buffers to the host; ERR_INPUT when they are not from exec_mpi_take. */
int exec_shared_publish(struct exec_mpi_handle *h, struct err *err);
/* Where row `at` of a receiving queue is to be read. */
const char *exec_shared_source(const struct exec_mpi_handle *h, const struct exec_queue *q,
                               int at);
/* Where row `at` of a sending queue with slots of its own is put for the receiver. */
char *exec_shared_space(const struct exec_mpi_handle *h, const struct exec_queue *q, int at);

/* The stage functions do nothing for a handle without a stage, whose data is always present. */
void exec_stage_start(struct exec_mpi_handle *h);
int exec_stage_poll(struct exec_mpi_handle *h); /* 1: more has come, here or there */
/* Whether what the row reads of in, or all that anything does, has come. */
int exec_stage_has(const struct exec_mpi_handle *h, const struct exec_row *row);
int exec_stage_has_all(const struct exec_mpi_handle *h);
/* A row or a local copy has written; what was written is on the GPU. */
void exec_stage_wrote(struct exec_mpi_handle *h, struct exec_spot at, int64_t bytes);
int exec_stage_ended(const struct exec_mpi_handle *h);
void exec_stage_free(struct exec_mpi_handle *h);

#endif
