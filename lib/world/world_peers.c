/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how some of the ranks send each other data, beside what all do together.
 */
#include "world/world_mpi.h"

#include <assert.h>

#include "base/mem.h"

struct world_comm {
    MPI_Comm comm;
};

int world_peers_open(struct world *w, int colour, struct world_peers *out, struct err *err)
{
    struct world_peers p = {.ranks = 1, .world = w};

    /* Making a communicator has no deadline: first all are there. */
    if (world_barrier(w, err))
        return -1;
    p.inner = mem_new(1, sizeof *p.inner);
    world_enter(w);
    world_call_begin(w, "making a communicator");
    int rc = MPI_Comm_split(w->mpi->all, colour, w->rank, &p.inner->comm);
    world_call_end(w);
    if (rc == MPI_SUCCESS) {
        MPI_Comm_set_errhandler(p.inner->comm, MPI_ERRORS_RETURN);
        MPI_Comm_rank(p.inner->comm, &p.rank);
        MPI_Comm_size(p.inner->comm, &p.ranks);
    }
    world_leave(w);
    if (rc != MPI_SUCCESS) {
        mem_free(p.inner);
        return err_set(err, ERR_PEER, "MPI reports error %d while creating a communicator", rc);
    }
    *out = p;
    return 0;
}

int world_peers_bcast(struct world_peers *p, void *data, int64_t bytes, int from,
                      struct err *err)
{
    MPI_Request request;

    assert(bytes <= INT32_MAX);
    if (p->ranks == 1)
        return 0;
    world_enter(p->world);
    int rc = MPI_Ibcast(data, (int)bytes, MPI_BYTE, from, p->inner->comm, &request);
    world_leave(p->world);
    return world_wait(p->world, rc, &request, "a broadcast", err);
}

void world_peers_close(struct world_peers *p)
{
    if (p->inner) {
        world_enter(p->world);
        MPI_Comm_free(&p->inner->comm);
        world_leave(p->world);
    }
    mem_free(p->inner);
    *p = (struct world_peers){0};
}
