/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WORLD_WORLD_MPI_H
#define WORLD_WORLD_MPI_H

/* For world/, exec/exec_mpi* and shim/ alone: what is inside a world. */
#include <mpi.h>
#include <pthread.h>

#include "world/world.h"

struct world_mpi {
    MPI_Comm all;  /* a duplicate of MPI_COMM_WORLD, for agreements */
    MPI_Comm data; /* another, for schedules */
    MPI_Comm node; /* the ranks of this host */
    int *node_peer;
    int owned; /* MPI was initialised here */
    pthread_mutex_t lock;
};

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
