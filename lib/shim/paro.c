/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a program holds: communicators, prepared operations, their runs.  What may be
 * asked for is paro_spec.c's, how it travels coll/'s.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/tick.h"
#include "exec/exec_mpi.h"
#include "shim/paro_inside.h"

/* As the library's own waits: a rank may read or write a large file meanwhile. */
static const double deadline_s = 600;
/* Of the deadline, what a time counts in which the program did not look. */
enum { LOOKS = 64 };

const char *paro_version(void)
{
    return PARO_VERSION;
}

/* rc, with the words for the program; a peer that is lost is kept in mind.  c: or NULL. */
static int told(struct paro_comm *c, int rc, const struct err *err, struct paro_error *out)
{
    static const enum paro_code code[] = {[ERR_NONE] = PARO_OK,
                                          [ERR_INPUT] = PARO_ERROR_INPUT,
                                          [ERR_SYS] = PARO_ERROR_SYSTEM,
                                          [ERR_MISMATCH] = PARO_ERROR_MISMATCH,
                                          [ERR_ABSENT] = PARO_ERROR_ABSENT,
                                          [ERR_PEER] = PARO_ERROR_PEER,
                                          [ERR_DEVICE] = PARO_ERROR_SYSTEM};

    if (rc && c && err->code == ERR_PEER && c->lost.code == ERR_NONE)
        c->lost = *err;
    if (rc && out) {
        out->code = code[err->code];
        snprintf(out->text, sizeof out->text, "%s", err->text);
    }
    return rc;
}

/* ---- communicators ---- */

/* What all ranks of a communicator find alike, before they can talk. */
static int check_comm(MPI_Comm comm, struct err *err)
{
    int begun = 0, ended = 0, inter = 0;

    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (!begun || ended)
        return err_set(err, ERR_INPUT,
                       "MPI is %s, expected a call between MPI_Init and "
                       "MPI_Finalize",
                       ended ? "finalised" : "not initialised");
    if (comm == MPI_COMM_NULL)
        return err_set(err, ERR_INPUT, "the communicator is MPI_COMM_NULL, expected one");
    MPI_Comm_test_inter(comm, &inter);
    if (inter)
        return err_set(err, ERR_INPUT, "an inter-communicator, expected an intra-communicator");
    return 0;
}

static int take_options(struct paro_options *to, const struct paro_options *from,
                        struct err *err)
{
    *to = (struct paro_options){.deadline_s = deadline_s};
    if (!from)
        return 0;
    if (paro_take(to, sizeof *to, from, "struct paro_options", err))
        return -1;
    if (to->deadline_s == 0)
        to->deadline_s = deadline_s;
    if (!(to->deadline_s > 0)) {
        err_set(err, ERR_INPUT, "deadline_s is %g, expected more than 0, or 0 for %g",
                to->deadline_s, deadline_s);
        to->deadline_s = deadline_s; /* until the others know */
        return -1;
    }
    return 0;
}

int paro_comm_open(struct paro_comm **out, MPI_Comm comm, const struct paro_options *o,
                   struct paro_error *error)
{
    struct paro_comm *c = mem_new(1, sizeof *c);
    struct paro_options options;
    struct err err = {0};

    if (check_comm(comm, &err)) {
        mem_free(c);
        return told(NULL, -1, &err, error);
    }
    int mine = take_options(&options, o, &err);
    struct shim_fabric_ask ask = {
        .topology = options.topology, .groups = options.groups, .tuning = options.tuning};
    struct err first = err;
    int rc = world_over(&c->world, comm, options.deadline_s, &err);
    if (rc == 0) {
        err = first;
        rc = world_agree(c->world, mine, &err);
    }
    if (rc == 0)
        rc = shim_fabric_open(&c->fabric, c->world, &ask, &err);
    if (told(c, rc, &err, error)) {
        paro_comm_close(c);
        return -1;
    }
    groups_print(&c->fabric.groups, c->groups, sizeof c->groups);
    *out = c;
    return 0;
}

void paro_comm_close(struct paro_comm *c)
{
    int ended = 0;

    if (!c)
        return;
    for (struct paro_coll *p = c->first; p; p = p->next) {
        if (p->running) /* out is not written, which a wait must not take for done */
            err_set(&p->fail, ERR_INPUT,
                    "the communicator was closed during a run of the handle");
        p->running = 0;
        p->comm = NULL;
    }
    MPI_Finalized(&ended);
    if (c->world && (ended || c->lost.code != ERR_NONE))
        world_leave_peers(c->world);
    world_close(c->world);
    shim_fabric_release(&c->fabric);
    mem_free(c);
}

/* ---- operations ---- */

static int lost(const struct paro_comm *c, struct err *err)
{
    *err = c->lost;
    return err_prefix(err, "after an earlier error: ");
}

int paro_prepare(struct paro_comm *c, const struct paro_spec *spec, struct paro_coll **out,
                 struct paro_error *error)
{
    struct paro_asked *a = mem_new(1, sizeof *a);
    struct paro_coll *p = mem_new(1, sizeof *p);
    struct err err = {0};
    int rc;

    if (c->lost.code != ERR_NONE) {
        rc = lost(c, &err);
    } else {
        rc = world_agree(c->world, paro_ask(c, spec, a, &err), &err);
        rc = rc ? rc : paro_asked_alike(c, a, &err);
        rc = rc ? rc : paro_choose(c, a, &err);
    }
    if (rc == 0) {
        p->combine = a->combine;
        a->vector.combine_arg = &p->combine;
        rc = coll_vector_open(&p->vector, c->world, &c->fabric.groups, &a->vector, &err);
    }
    p->algo = a->vector.algo;
    p->chunk_bytes = a->vector.chunk_bytes;
    mem_free(a->counts);
    mem_free(a);
    if (told(c, rc, &err, error)) {
        mem_free(p);
        return -1;
    }
    p->comm = c;
    memcpy(p->groups, c->groups, sizeof p->groups);
    p->next = c->first;
    c->first = p;
    *out = p;
    return 0;
}

void paro_free(struct paro_coll *p)
{
    struct paro_coll **at = p && p->comm ? &p->comm->first : NULL;

    if (!p)
        return;
    while (at && *at != p)
        at = &(*at)->next;
    if (at)
        *at = p->next;
    coll_vector_close(&p->vector);
    mem_free(p);
}

void paro_buffers(struct paro_coll *p, void **in, void **out)
{
    *in = p->vector.in;
    *out = p->vector.out;
}

int paro_describe(const struct paro_coll *p, struct paro_description *d,
                  struct paro_error *error)
{
    struct paro_description mine = {0};
    struct err err = {0};

    if (paro_take(&mine, sizeof mine, d, "struct paro_description", &err))
        return told(NULL, -1, &err, error);
    size_t bytes = mine.bytes < sizeof mine ? mine.bytes : sizeof mine;
    mine.algo = schedule_algo_name(p->algo);
    mine.groups = p->groups;
    mine.chunk_bytes = p->chunk_bytes == PICK_CHUNK_WHOLE ? INT64_MAX : p->chunk_bytes;
    mine.in_bytes = p->vector.in_bytes;
    mine.out_bytes = p->vector.out_bytes;
    mine.slow_bytes = p->vector.slow_bytes;
    mine.fast_bytes = p->vector.fast_bytes;
    mine.memory_bytes = p->vector.memory_bytes;
    memcpy(d, &mine, bytes);
    return 0;
}

/* ---- runs ---- */

/*
 * A look at all runs of a communicator, for another rank may wait for any of them.  A time in
 * which the program computed and did not look is no wait for a peer: it counts as one of the
 * LOOKS after which the deadline is over at the earliest.
 */
static enum stream_state look(struct paro_comm *c)
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
        if (state == STREAM_DONE && p->vector.out_bytes && p->out != p->vector.out)
            memmove(p->out, p->vector.out, (size_t)p->vector.out_bytes);
        best = state > best ? state : best;
    }
    c->looked_s = now;
    return best;
}

/* For stream_drive: until this one does not run. */
static enum stream_state look_for(void *arg, struct err *err)
{
    struct paro_coll *p = arg;

    (void)err;
    enum stream_state state = p->running ? look(p->comm) : STREAM_DONE;
    return p->running ? (state < STREAM_MOVED ? state : STREAM_MOVED) : STREAM_DONE;
}

static int ended(struct paro_coll *p, struct paro_error *error)
{
    int rc = p->fail.code != ERR_NONE ? -1 : 0;

    return told(NULL, rc, &p->fail, error); /* the communicator knows */
}

/* What can be wrong with a start, on this rank. */
static int check_start(const struct paro_coll *p, const void *in, const void *out,
                       struct err *err)
{
    if (!p->comm)
        return err_set(err, ERR_INPUT, "the handle's communicator is closed");
    if (p->comm->lost.code != ERR_NONE)
        return lost(p->comm, err);
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
        return told(NULL, -1, &err, error);
    if (p->vector.in_bytes && in != p->vector.in)
        memmove(p->vector.in, in, (size_t)p->vector.in_bytes);
    struct stream_op op = coll_vector_op(&p->vector);
    look(p->comm); /* from here on the new run's wait is counted, too */
    if (op.start(op.arg, &err))
        return told(p->comm, -1, &err, error);
    p->out = out;
    p->running = 1;
    p->fail = (struct err){0};
    look(p->comm);
    return 0;
}

int paro_test(struct paro_coll *p, int *done, struct paro_error *error)
{
    if (p->comm && p->running)
        look(p->comm);
    *done = !p->comm || !p->running;
    return *done ? ended(p, error) : 0;
}

int paro_wait(struct paro_coll *p, struct paro_error *error)
{
    struct stream_op op = {.poll = look_for, .arg = p};
    struct err err = {0};

    if (p->comm)
        (void)stream_drive(op, &err); /* how it ended stands in the handle */
    return ended(p, error);
}

int paro_run(struct paro_coll *p, const void *in, void *out, struct paro_error *error)
{
    return paro_start(p, in, out, error) ? -1 : paro_wait(p, error);
}
