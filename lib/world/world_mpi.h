/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WORLD_WORLD_MPI_H
#define WORLD_WORLD_MPI_H

/* For world/, exec/exec_mpi*, paro/ and preload/ alone: what is inside a world. */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "world/world.h"

struct world_alarm {
    struct err heard, *said; /* said: owned, NULL: nothing was said */
    MPI_Request *telling;    /* [ranks] of said, owned */
    int is_heard;
    double heard_s; /* when */
};

struct world_mpi {
    MPI_Comm all;  /* a duplicate of MPI_COMM_WORLD, for agreements */
    MPI_Comm data; /* another, for schedules */
    MPI_Comm node; /* the ranks of this host */
    int *node_peer;
    int owned;                /* MPI was initialised here */
    int listening;            /* for alarms */
    struct world_alarm alarm; /* under the lock */
    int next_tag;             /* of data: each handle of an executor has its own */
    pthread_mutex_t lock;
    struct world_deadline *watch; /* owned, NULL: none */
    const char *volatile call;    /* of MPI's that goes on, */
    volatile double call_wait_s;  /* how long it may, */
    _Atomic(int64_t) call_end_ms; /* and until when, by tick_now_s; 0: none */
};

struct world_comm { /* of peers */
    MPI_Comm comm;
};

/* Around a call of MPI's that waits for other ranks: `what` is a constant text. */
void world_call_begin(struct world *w, const char *what);
void world_call_end(struct world *w);
int world_deadline(struct world *w, world_silent *silent, void *arg, struct err *err);
void world_deadline_release(struct world *w);

/*
 * The ranks of a communicator of somebody else's, who has MPI initialised; collective over it.
 * Only duplicates of it are used, which world_close frees (collective, too); comm may be freed
 * before.  wait_s: the world's deadline_s, HUGE_VAL: none, as MPI's own waits.  With a thread
 * level below MPI_THREAD_SERIALIZED the world is for the thread that may call MPI, alone.
 */
int world_over(struct world **out, MPI_Comm comm, double wait_s, struct err *err);
/* Before world_close where a peer does not answer, or MPI is finalised: nothing of MPI's is
   then freed. */
void world_leave_peers(struct world *w);

/* Before the communicators go. */
void world_alarm_release(struct world *w);

/* Puts "rank 3 (node-b): " before an error's text, where there are several ranks, once. */
void world_sign(const struct world *w, int rank, struct err *err);
/*
 * Waits for the request that an MPI call began, with the lock held in turns; rc is what the
 * call returned.  ERR_PEER when it is not MPI_SUCCESS, and past the deadline: the request is
 * then left behind, so that this process must not go on with MPI but to world_abort.
 */
int world_wait(struct world *w, int rc, MPI_Request *request, const char *what,
               struct err *err);

#endif
