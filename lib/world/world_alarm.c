/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports the failure of a rank to others that would not notice it: sends a message to each,
 * for which they poll during other waits.
 */
#include "base/mem.h"
#include "base/tick.h"
#include "world/world_mpi.h"

/* Differs from world_collect's tag on the same communicator. */
enum { TAG = 2 };

/*
 * A message of 1 KiB is sent at once, unless its connection must be made first, which takes a
 * few round trips; a lost peer is not waited for.
 */
static const double telling_s = 1;

void world_listen(struct world *w)
{
    w->mpi->listening = 1;
}

void world_alarm(struct world *w, const struct err *err)
{
    struct world_alarm *a = &w->mpi->alarm;
    double start = tick_now_s();
    int sent = 0;

    world_enter(w);
    if (a->said) { /* once */
        world_leave(w);
        return;
    }
    a->said = mem_new(1, sizeof *a->said);
    *a->said = *err;
    a->telling = mem_new((size_t)w->ranks, sizeof *a->telling);
    for (int r = 0; r < w->ranks; r++) {
        a->telling[r] = MPI_REQUEST_NULL;
        if (r != w->rank)
            MPI_Isend(a->said, (int)sizeof *a->said, MPI_BYTE, r, TAG, w->mpi->all,
                      &a->telling[r]);
    }
    MPI_Testall(w->ranks, a->telling, &sent, MPI_STATUSES_IGNORE);
    world_leave(w);
    while (!sent && tick_now_s() - start < telling_s) {
        tick_sleep_s(200e-6);
        world_enter(w);
        MPI_Testall(w->ranks, a->telling, &sent, MPI_STATUSES_IGNORE);
        world_leave(w);
    }
}

/* Receives pending alarms; keeps the first one's message. */
static void receive_alarms(struct world *w)
{
    struct world_alarm *a = &w->mpi->alarm;
    struct err said;
    MPI_Status from;
    int there = 0;

    while (MPI_Iprobe(MPI_ANY_SOURCE, TAG, w->mpi->all, &there, &from) == MPI_SUCCESS &&
           there) {
        MPI_Recv(&said, (int)sizeof said, MPI_BYTE, from.MPI_SOURCE, TAG, w->mpi->all,
                 MPI_STATUS_IGNORE);
        if (a->is_heard)
            continue;
        world_sign(w, from.MPI_SOURCE, &said);
        said.code = ERR_PEER;
        a->heard = said;
        a->heard_s = tick_now_s();
        a->is_heard = 1;
    }
}

static int heard_since(struct world *w, double since_s, struct err *err)
{
    const struct world_alarm *a = &w->mpi->alarm;
    int rc = 0;

    if (!w->mpi->listening)
        return 0;
    world_enter(w);
    receive_alarms(w);
    if (a->is_heard && tick_now_s() - a->heard_s >= since_s) {
        *err = a->heard;
        rc = -1;
    }
    world_leave(w);
    return rc;
}

int world_alarmed(struct world *w, struct err *err)
{
    return heard_since(w, 0, err);
}

int world_forsaken(struct world *w, struct err *err)
{
    /* Ranks that have heard it follow within milliseconds, later where cores are
     * oversubscribed. */
    const double still_come_s = 3;

    return heard_since(w, still_come_s, err);
}

/* Call when closing a world, with one thread left. */
void world_alarm_release(struct world *w)
{
    struct world_alarm *a = &w->mpi->alarm;
    int sent = 0;

    if (w->mpi->all == MPI_COMM_NULL)
        return;
    if (w->mpi->listening)
        receive_alarms(w);
    if (!a->said)
        return;
    MPI_Testall(w->ranks, a->telling, &sent, MPI_STATUSES_IGNORE);
    if (!sent) /* no rank receives it; MPI may still use the memory */
        return;
    mem_free(a->telling);
    mem_free(a->said);
}
