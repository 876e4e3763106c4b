/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows when the program's collectives arrive and complete, whoever does them.  What is kept of
 * a communicator is an attribute of it.  Ranks find its identity without a message: a hash of
 * the run and of its ranks in MPI_COMM_WORLD, and how many there were of the same ranks before
 * (in the order of their first calls, which ranks that wait for each other have in common).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "shim/shim_mpi.h"

/* Nobody calls a preloaded library who could keep these for it. */
static struct {
    pthread_mutex_t lock;
    struct meter *meter;
    uint64_t run;
    int key;
    uint64_t *seen; /* owned, under the lock: hashes of the communicators so far */
    int seens;
    size_t room;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .key = MPI_KEYVAL_INVALID};

uint64_t shim_mpi_meter_run(void)
{
    const int64_t what[] = {(int64_t)time(NULL), meter_now_ns(), getpid()};

    return meter_id(what, sizeof what, 0);
}

static int forget(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)extra;
    mem_free(value);
    return MPI_SUCCESS;
}

struct meter *shim_mpi_meter_open(uint64_t run)
{
    const char *dir = getenv("PARO_METER");
    struct meter_run r = {.id = run};
    struct err err;

    if (!dir || !*dir)
        return NULL;
    PMPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &r.ranks);
    if (meter_open(&all.meter, dir, "mpi", &r, &err))
        fprintf(stderr, "paro-mpi: rank %d is not metered: PARO_METER: %s\n", r.rank, err.text);
    else
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &all.key, NULL);
    all.run = run;
    return all.meter;
}

/* Communicators may still be freed, which then find no meter. */
void shim_mpi_meter_close(void)
{
    meter_close(all.meter);
    all.meter = NULL;
    mem_free(all.seen);
    all.seen = NULL;
    all.seens = 0;
    all.room = 0;
}

static uint64_t identity(MPI_Comm comm, int ranks)
{
    int *rank = mem_new((size_t)ranks, sizeof *rank), before = 0;
    int *there = mem_new((size_t)ranks, sizeof *there);
    MPI_Group here, world;

    PMPI_Comm_group(comm, &here);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int r = 0; r < ranks; r++)
        rank[r] = r;
    PMPI_Group_translate_ranks(here, ranks, rank, world, there);
    PMPI_Group_free(&here);
    PMPI_Group_free(&world);
    uint64_t id = meter_id(there, ranks * (int64_t)sizeof *there, all.run);
    mem_free(rank);
    mem_free(there);
    pthread_mutex_lock(&all.lock);
    for (int i = 0; i < all.seens; i++)
        before += all.seen[i] == id;
    all.seen = mem_grow(all.seen, &all.room, (size_t)all.seens + 1, sizeof *all.seen);
    all.seen[all.seens++] = id;
    pthread_mutex_unlock(&all.lock);
    return meter_id(&id, sizeof id, (uint64_t)before);
}

static struct meter_comm *comm_of(MPI_Comm comm)
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
    c->id = identity(comm, c->ranks);
    PMPI_Comm_set_attr(comm, all.key, c);
    return c;
}

int64_t shim_mpi_meter_arrive(MPI_Comm comm, enum meter_op op, int64_t bytes)
{
    struct meter_comm *c = all.meter ? comm_of(comm) : NULL;

    return c ? meter_arrive(all.meter, c, ++c->calls, op, bytes) : 0;
}

void shim_mpi_meter_complete(int64_t number)
{
    meter_complete(all.meter, number);
}
