/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records runs in the process's meter.  A program may start its handles in another order on
 * each rank, but prepares them in one: so each handle is a communicator of the meter, whose
 * calls are the handle's runs.
 */
#include <pthread.h>

#include "base/mem.h"
#include "paro/paro_inside.h"

/* Globals: paro_comms of a process share one file. */
static struct {
    pthread_mutex_t lock;
    struct meter *meter;
    int users; /* paro_comms that record */
    uint64_t run;
    struct meter_seen seen;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock held: the file of this process, named after the first paro_comm's run. */
static int paro_meter_begin(const char *dir, uint64_t run, int rank, int ranks, struct err *err)
{
    const struct meter_run first = {run, rank, ranks};

    if (all.meter)
        return 0;
    if (meter_open(&all.meter, dir, "paro", &first, err))
        return err_prefix(err, "meter: ");
    all.run = run;
    return 0;
}

int paro_meter_join(struct paro_comm *c, const char *dir, struct err *err)
{
    int mine, ranks, *rank = mem_new((size_t)c->world->ranks, sizeof *rank);
    uint64_t run = dir && c->world->rank == 0 ? meter_new_run() : 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int rc = world_bcast(c->world, &run, sizeof run, 0, err);
    rc = rc ? rc : world_allgather(c->world, &mine, sizeof mine, rank, err);
    if (rc == 0 && run) {
        pthread_mutex_lock(&all.lock);
        rc = dir ? paro_meter_begin(dir, run, mine, ranks, err) : 0;
        if (rc == 0 && dir) {
            c->metered = meter_next_id(
                &all.seen, meter_id(rank, c->world->ranks * (int64_t)sizeof *rank, all.run));
            all.users++;
            c->meter = all.meter;
        }
        pthread_mutex_unlock(&all.lock);
        rc = world_agree(c->world, rc, err);
    }
    mem_free(rank);
    return rc;
}

void paro_meter_leave(struct paro_comm *c)
{
    if (!c->meter)
        return;
    pthread_mutex_lock(&all.lock);
    if (--all.users == 0) {
        meter_close(all.meter);
        mem_free(all.seen.of);
        all.meter = NULL;
        all.seen = (struct meter_seen){0};
    }
    pthread_mutex_unlock(&all.lock);
    c->meter = NULL;
}

void paro_meter_prepare(struct paro_coll *p)
{
    struct paro_comm *c = p->comm;
    int64_t number = ++c->prepared;

    p->metered = (struct meter_comm){.id = meter_id(&number, sizeof number, c->metered),
                                     .rank = c->world->rank,
                                     .ranks = c->world->ranks};
}

void paro_meter_arrive(struct paro_coll *p)
{
    static const enum meter_op op[] = {[PARO_ALL_GATHER] = METER_ALL_GATHER,
                                       [PARO_REDUCE_SCATTER] = METER_REDUCE_SCATTER,
                                       [PARO_ALL_REDUCE] = METER_ALL_REDUCE,
                                       [PARO_BROADCAST] = METER_BROADCAST};
    int64_t in = p->vector.in_bytes, out = p->vector.out_bytes;

    p->arrived = meter_arrive(p->comm->meter, &p->metered, ++p->metered.calls, op[p->op],
                              in > out ? in : out);
}

void paro_meter_complete(struct paro_coll *p)
{
    meter_complete(p->comm->meter, p->arrived);
}
