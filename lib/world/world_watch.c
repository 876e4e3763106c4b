/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a call of MPI's own that never returns (a barrier, a collective that is measured,
 * the end) comes to a deadline: a thread looks at the clock beside it.  A call costs two
 * stores; nobody is woken for it.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <time.h>

#include "base/mem.h"
#include "base/tick.h"
#include "world/world_mpi.h"

struct world_watch {
    struct world *world;
    world_silent *silent;
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t end; /* under the lock */
    int ends;
};

/* Late by so much at the most. */
static const double look_s = 0.25;

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
    struct world_watch *watch = arg;
    struct world_mpi *mpi = watch->world->mpi;
    struct err err;
    int64_t end_ms;

    pthread_mutex_lock(&watch->lock);
    while (!watch->ends && (!(end_ms = atomic_load(&mpi->call_end_ms)) ||
                            (int64_t)(1e3 * tick_now_s()) <= end_ms)) {
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        at.tv_nsec += (long)(1e9 * look_s);
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&watch->end, &watch->lock, &at);
    }
    pthread_mutex_unlock(&watch->lock);
    if (watch->ends)
        return NULL;
    err_set(&err, ERR_PEER, "no answer from other ranks in %s for %g s", mpi->call,
            mpi->call_wait_s);
    watch->silent(watch->world, watch->arg, &err);
    return NULL;
}

int world_watch(struct world *w, world_silent *silent, void *arg, struct err *err)
{
    struct world_watch *watch = mem_new(1, sizeof *watch);
    pthread_condattr_t clock;
    sigset_t all, before;

    *watch = (struct world_watch){.world = w, .silent = silent, .arg = arg};
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->end, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    errno = pthread_create(&watch->thread, NULL, watch_calls, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errno) {
        mem_free(watch);
        return err_sys(err, "cannot start a thread");
    }
    w->mpi->watch = watch;
    return 0;
}

void world_watch_release(struct world *w)
{
    struct world_watch *watch = w->mpi->watch;

    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->ends = 1;
    pthread_cond_signal(&watch->end);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->end);
    pthread_mutex_destroy(&watch->lock);
    mem_free(watch);
    w->mpi->watch = NULL;
}
