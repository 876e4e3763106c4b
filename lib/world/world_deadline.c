/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives a deadline to an MPI call that may never return (a barrier, a measured collective, the
 * end): a thread watches the clock meanwhile.  A call costs two stores and wakes no thread.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tick.h"
#include "world/world_mpi.h"

struct world_deadline {
    struct world *world;
    world_silent *silent;
    void *arg;
    pthread_t thread;
    int end; /* an eventfd */
};

/* The thread notices a deadline at most this much later. */
enum { LOOK_MS = 250 };

void world_call_begin(struct world *w, const char *what)
{
    if (!w->mpi->watch || !isfinite(w->deadline_s))
        return;
    w->mpi->call = what;
    w->mpi->call_wait_s = world_patience_s(w);
    atomic_store(&w->mpi->call_end_ms, (int64_t)(1e3 * (tick_now_s() + w->mpi->call_wait_s)));
}

void world_call_end(struct world *w)
{
    atomic_store(&w->mpi->call_end_ms, 0);
}

static void *watch_calls(void *arg)
{
    struct world_deadline *watch = arg;
    struct world_mpi *mpi = watch->world->mpi;
    struct pollfd end = {.fd = watch->end, .events = POLLIN};
    struct err err;
    int64_t end_ms;

    do {
        if (poll(&end, 1, LOOK_MS) > 0)
            return NULL;
        end_ms = atomic_load(&mpi->call_end_ms);
    } while (!end_ms || (int64_t)(1e3 * tick_now_s()) <= end_ms);
    err_set(&err, ERR_PEER, "no answer from other ranks in %s for %g s", mpi->call,
            mpi->call_wait_s);
    watch->silent(watch->world, watch->arg, &err);
    return NULL;
}

int world_deadline(struct world *w, world_silent *silent, void *arg, struct err *err)
{
    struct world_deadline *watch = mem_new(1, sizeof *watch);
    sigset_t all, before;

    *watch = (struct world_deadline){
        .world = w, .silent = silent, .arg = arg, .end = eventfd(0, EFD_CLOEXEC)};
    sigfillset(&all); /* leaves signals to the program */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (watch->end >= 0)
        errno = pthread_create(&watch->thread, NULL, watch_calls, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errno) {
        err_sys(err, "cannot start a thread");
        if (watch->end >= 0)
            close(watch->end);
        mem_free(watch);
        return -1;
    }
    w->mpi->watch = watch;
    return 0;
}

void world_deadline_release(struct world *w)
{
    struct world_deadline *watch = w->mpi->watch;

    if (!watch)
        return;
    eventfd_write(watch->end, 1);
    pthread_join(watch->thread, NULL);
    close(watch->end);
    mem_free(watch);
    w->mpi->watch = NULL;
}
