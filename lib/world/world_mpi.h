/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WORLD_WORLD_MPI_H
#define WORLD_WORLD_MPI_H

/* For world/, exec/exec_mpi*, paro/ and preload/ only: the MPI part of a world. */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "world/world.h"

struct world_alarm {
    struct err heard, *said; /* said: owned, NULL: no alarm sent */
    MPI_Request *telling;    /* [ranks] the messages of said, owned */
    int is_heard;
    double heard_s; /* when heard arrived */
};

struct world_mpi {
    MPI_Comm all;  /* a duplicate of MPI_COMM_WORLD, for agreements */
    MPI_Comm data; /* another, for schedules */
    MPI_Comm node; /* the ranks of this host */
    int *node_peer;
    int owned;                /* MPI was initialised by world_open */
    int listening;            /* polls for alarms */
    struct world_alarm alarm; /* protected by lock */
    int next_tag;             /* on data: each handle of an executor has its own tags */
    pthread_mutex_t lock;
    struct world_deadline *watch; /* owned, NULL: none */
    const char *volatile call;    /* the current call of MPI, */
    volatile double call_wait_s;  /* its time limit, */
    _Atomic(int64_t) call_end_ms; /* and its deadline in ms of tick_now_s; 0: no call */
};

struct world_comm { /* the peers' communicator */
    MPI_Comm comm;
};

/* Enclose a call of MPI that waits for other ranks; `what` is a constant text. */
void world_call_begin(struct world *w, const char *what);
void world_call_end(struct world *w);
int world_deadline(struct world *w, world_silent *silent, void *arg, struct err *err);
void world_deadline_release(struct world *w);

/*
 * Makes a world of an existing communicator; its owner has initialised MPI.  Collective over
 * it. Only duplicates of it are used, which world_close frees (also collective); comm may be
 * freed earlier.  wait_s: the world's deadline_s; HUGE_VAL: none, like MPI's own waits.  With a
 * thread level below MPI_THREAD_SERIALIZED only the thread that may call MPI may use the world.
 */
int world_over(struct world **out, MPI_Comm comm, double wait_s, struct err *err);
/* Call before world_close if a peer does not answer, or MPI is finalised: no MPI object is then
   freed. */
void world_leave_peers(struct world *w);

/* Call before the communicators are freed. */
void world_alarm_release(struct world *w);

/* Prefixes an error with "rank 3 (node-b): ", once, if there are several ranks. */
void world_sign(const struct world *w, int rank, struct err *err);
/*
 * Waits for the request of an MPI call that returned rc, taking the lock for each poll.
 * ERR_PEER if rc is not MPI_SUCCESS, or after the deadline: the request is then abandoned, so
 * this process may call nothing of MPI but world_abort.
 */
int world_wait(struct world *w, int rc, MPI_Request *request, const char *what,
               struct err *err);

#endif
