/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records runs in a meter of the process.  A program may start its handles in another order on
 * each rank, but prepares them in one: so each handle is a communicator of the meter, whose
 * calls are the handle's runs.
 */
#include <pthread.h>

#include "base/mem.h"
#include "paro/paro_inside.h"

/* A process has one file, which its paro_comms may share. */
struct paro_meter {
    pthread_mutex_t lock;
    struct meter *meter;
    int users; /* paro_comms */
    uint64_t run;
    struct meter_seen seen;
};

static int paro_meter_open(struct paro_meter **out, const char *dir, uint64_t run,
                           struct err *err)
{
    struct paro_meter *m = mem_new(1, sizeof *m);
    struct meter_run first = {.id = run};

    MPI_Comm_rank(MPI_COMM_WORLD, &first.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &first.ranks);
    if (meter_open(&m->meter, dir, "paro", &first, err)) {
        mem_free(m);
        return err_prefix(err, "meter: ");
    }
    pthread_mutex_init(&m->lock, NULL);
    m->run = run;
    *out = m;
    return 0;
}

int paro_meter_join(struct paro_comm *c, const char *dir, const struct paro_comm *of,
                    struct err *err)
{
    struct world *w = c->world;
    struct paro_meter *m = of ? of->meter : NULL;
    uint64_t run = w->rank > 0 ? 0 : m ? m->run : dir && !of ? meter_new_run() : 0;
    int rc = world_bcast(w, &run, sizeof run, 0, err);

    if (rc || run == 0)
        return rc;
    int mine, *rank = mem_new((size_t)w->ranks, sizeof *rank);
    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    rc = world_allgather(w, &mine, sizeof mine, rank, err);
    if (rc == 0)
        rc = world_agree(w, dir && !of ? paro_meter_open(&m, dir, run, err) : 0, err);
    if (m) { /* after an error, too: closing c leaves it */
        pthread_mutex_lock(&m->lock);
        m->users++;
        c->metered =
            meter_next_id(&m->seen, meter_id(rank, w->ranks * (int64_t)sizeof *rank, m->run));
        pthread_mutex_unlock(&m->lock);
        c->meter = m;
    }
    mem_free(rank);
    return rc;
}

void paro_meter_leave(struct paro_comm *c)
{
    struct paro_meter *m = c->meter;

    c->meter = NULL;
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    int left = --m->users;
    pthread_mutex_unlock(&m->lock);
    if (left)
        return;
    meter_close(m->meter);
    mem_free(m->seen.of);
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
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

    if (p->comm->meter)
        p->arrived = meter_arrive(p->comm->meter->meter, &p->metered, ++p->metered.calls,
                                  op[p->op], in > out ? in : out);
}

void paro_meter_complete(struct paro_coll *p)
{
    if (p->comm->meter)
        meter_complete(p->comm->meter->meter, p->arrived);
}
