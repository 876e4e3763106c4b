/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs prepared operations; each call advances all runs of the communicator. */
#include "paro/paro_inside.h"

#include <inttypes.h>
#include <string.h>

#include "base/tick.h"
#include "exec/exec_mpi.h"
#include "world/world_mpi.h"

/* A period in which the program makes no call counts as at most 1 / LOOKS of the deadline. */
enum { LOOKS = 64 };

/*
 * Advances all runs of a communicator, since another rank may wait for any of them.  Time in
 * which the program computed without calling the library is not a wait for a peer: each such
 * period counts as at most 1 / LOOKS of the deadline.
 */
static enum stream_state paro_look(struct paro_comm *c)
{
    double now = tick_now_s(), most = c->world->deadline_s / LOOKS, away = now - c->looked_s;
    enum stream_state best = STREAM_IDLE;

    for (struct paro_coll *p = c->first; p; p = p->next) {
        if (!p->running)
            continue;
        if (away > most)
            exec_mpi_excuse(p->vector.handle, away - most);
        enum stream_state state = exec_mpi_poll(p->vector.handle, &p->fail);
        if (state == STREAM_FAILED) {
            world_sign(c->world, c->world->rank, &p->fail);
            c->lost = p->fail;
        }
        if (state == STREAM_DONE || state == STREAM_FAILED)
            p->running = 0;
        if (state == STREAM_DONE)
            paro_meter_complete(p);
        if (state == STREAM_DONE && p->vector.out_bytes && p->out != p->vector.out)
            memmove(p->out, p->vector.out, (size_t)p->vector.out_bytes);
        best = state > best ? state : best;
    }
    c->looked_s = now;
    return best;
}

/* For stream_drive: until this handle has no run. */
static enum stream_state look_for(void *arg, struct err *err)
{
    struct paro_coll *p = arg;

    (void)err;
    enum stream_state state = p->running ? paro_look(p->comm) : STREAM_DONE;
    return p->running ? (state < STREAM_MOVED ? state : STREAM_MOVED) : STREAM_DONE;
}

static int paro_ended(struct paro_coll *p, struct paro_error *error)
{
    int rc = p->fail.code != ERR_NONE ? -1 : 0;

    return paro_report(NULL, rc, &p->fail, error); /* the communicator knows already */
}

/* Checks the arguments of a start, on this rank. */
static int check_start(const struct paro_coll *p, const void *in, const void *out,
                       struct err *err)
{
    if (!p->comm)
        return err_set(err, ERR_INPUT, "the handle's communicator is closed");
    if (p->comm->lost.code != ERR_NONE)
        return paro_lost(p->comm, err);
    if (p->running)
        return err_set(err, ERR_INPUT, "a run of the handle is in progress, expected none");
    if (!in && p->vector.in_bytes)
        return err_set(err, ERR_INPUT, "in is NULL, expected %" PRId64 " bytes",
                       p->vector.in_bytes);
    if (!out && p->vector.out_bytes)
        return err_set(err, ERR_INPUT, "out is NULL, expected %" PRId64 " bytes",
                       p->vector.out_bytes);
    return 0;
}

int paro_start(struct paro_coll *p, const void *in, void *out, struct paro_error *error)
{
    struct err err = {0};

    if (check_start(p, in, out, &err))
        return paro_report(NULL, -1, &err, error);
    if (p->vector.in_bytes && in != p->vector.in)
        memmove(p->vector.in, in, (size_t)p->vector.in_bytes);
    struct stream_op op = coll_vector_op(&p->vector);
    paro_look(p->comm); /* the new run's waiting time begins here */
    if (op.start(op.arg, &err))
        return paro_report(p->comm, -1, &err, error);
    p->out = out;
    p->running = 1;
    paro_meter_arrive(p);
    p->fail = (struct err){0};
    paro_look(p->comm);
    return 0;
}

int paro_test(struct paro_coll *p, int *done, struct paro_error *error)
{
    if (p->comm && p->running)
        paro_look(p->comm);
    *done = !p->comm || !p->running;
    return *done ? paro_ended(p, error) : 0;
}

int paro_wait(struct paro_coll *p, struct paro_error *error)
{
    struct stream_op op = {.poll = look_for, .arg = p};
    struct err err = {0};

    if (p->comm)
        (void)stream_drive(op, &err); /* the result is stored in the handle */
    return paro_ended(p, error);
}

struct paro_any {
    struct paro_coll *const *coll;
    int n;
    double until_s;
    const int *stop; /* or NULL */
};

/* For stream_drive: until one of the handles has no run, or it must stop. */
static enum stream_state look_for_any(void *arg, struct err *err)
{
    const struct paro_any *a = arg;
    enum stream_state best = STREAM_IDLE;

    (void)err;
    for (int i = 0; i < a->n; i++) {
        struct paro_comm *comm = a->coll[i]->comm;
        if (!comm || !a->coll[i]->running)
            return STREAM_DONE;
        if (i > 0 && a->coll[i - 1]->comm == comm)
            continue; /* it was advanced with the handle before */
        enum stream_state state = paro_look(comm);
        best = state > best ? state : best;
    }
    if ((a->stop && __atomic_load_n(a->stop, __ATOMIC_RELAXED)) || tick_now_s() >= a->until_s)
        return STREAM_DONE;
    return best < STREAM_MOVED ? best : STREAM_MOVED;
}

void paro_wait_any(struct paro_coll *const *coll, int n, double seconds, const int *stop)
{
    struct paro_any a = {coll, n, tick_now_s() + seconds, stop};
    struct stream_op op = {.poll = look_for_any, .arg = &a};
    struct err err = {0};

    (void)stream_drive(op, &err); /* paro_test reports how each run ended */
}

int paro_run(struct paro_coll *p, const void *in, void *out, struct paro_error *error)
{
    return paro_start(p, in, out, error) ? -1 : paro_wait(p, error);
}
