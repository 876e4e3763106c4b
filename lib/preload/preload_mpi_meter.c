/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records when the program's collectives arrive and complete, by MPI or as schedules.  The data
 * of a communicator is an attribute of it.  Ranks derive its identity without a message: a hash
 * of the run, of its ranks in MPI_COMM_WORLD, and of the number of earlier communicators with
 * the same ranks (in the order of first calls, which is the same on ranks that wait for each
 * other).
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "preload/preload_mpi.h"

/* Globals: a preloaded library has no caller that could keep these for it. */
static struct {
    pthread_mutex_t lock;
    struct meter *meter;
    uint64_t run;
    int key;
    struct meter_seen seen; /* guarded by the lock */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .key = MPI_KEYVAL_INVALID};

static int mpi_meter_forget(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)extra;
    mem_free(value);
    return MPI_SUCCESS;
}

/* Communicators may be freed later; they then find no meter. */
void preload_mpi_meter_close(void)
{
    meter_close(all.meter);
    all.meter = NULL;
    mem_free(all.seen.of);
    all.seen = (struct meter_seen){0};
}

static struct meter_comm *mpi_meter_comm_of(MPI_Comm comm)
{
    struct meter_comm *c = NULL;
    int there = 0, inter = 0;

    if (comm == MPI_COMM_NULL || PMPI_Comm_get_attr(comm, all.key, &c, &there) != MPI_SUCCESS ||
        there)
        return c;
    if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter)
        return NULL;
    c = mem_new(1, sizeof *c);
    PMPI_Comm_size(comm, &c->ranks);
    PMPI_Comm_rank(comm, &c->rank);
    int *ranks = preload_mpi_comm_ranks(comm, c->ranks);
    uint64_t id = meter_id(ranks, c->ranks * (int64_t)sizeof *ranks, all.run);
    mem_free(ranks);
    pthread_mutex_lock(&all.lock);
    c->id = meter_next_id(&all.seen, id);
    pthread_mutex_unlock(&all.lock);
    PMPI_Comm_set_attr(comm, all.key, c);
    return c;
}

/* The meter's id is that of the first communicator of all ranks, whichever thread calls
   first. */
int preload_mpi_meter_open(const struct meter_run *run, struct err *err)
{
    const char *dir = getenv("PARO_METER");

    if (!dir || !*dir)
        return 0;
    if (meter_open(&all.meter, dir, "mpi", run, err))
        return -1;
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, mpi_meter_forget, &all.key, NULL);
    all.run = run->id;
    (void)mpi_meter_comm_of(MPI_COMM_WORLD);
    return 1;
}

int64_t preload_mpi_meter_arrive(MPI_Comm comm, enum meter_op op, int64_t bytes)
{
    struct meter_comm *c = all.meter ? mpi_meter_comm_of(comm) : NULL;

    return c ? meter_arrive(all.meter, c, ++c->calls, op, bytes) : 0;
}

void preload_mpi_meter_complete(int64_t number)
{
    meter_complete(all.meter, number);
}
