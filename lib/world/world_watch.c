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
    struct world_bell end;
};

void world_bell_open(struct world_bell *b)
{
    pthread_condattr_t clock;

    b->rung = 0;
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&b->rings, &clock);
    pthread_condattr_destroy(&clock);
}

int world_bell_nap(struct world_bell *b, double seconds)
{
    struct timespec end;
    int rung, rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += (long)(1e9 * seconds);
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&b->lock);
    while (!b->rung && rc == 0)
        rc = pthread_cond_timedwait(&b->rings, &b->lock, &end);
    rung = b->rung;
    b->rung = 0;
    pthread_mutex_unlock(&b->lock);
    return rung;
}

void world_bell_ring(struct world_bell *b)
{
    pthread_mutex_lock(&b->lock);
    b->rung = 1;
    pthread_cond_signal(&b->rings);
    pthread_mutex_unlock(&b->lock);
}

void world_bell_close(struct world_bell *b)
{
    pthread_cond_destroy(&b->rings);
    pthread_mutex_destroy(&b->lock);
}

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

    do {
        if (world_bell_nap(&watch->end, look_s))
            return NULL;
        end_ms = atomic_load(&mpi->call_end_ms);
    } while (!end_ms || (int64_t)(1e3 * tick_now_s()) <= end_ms);
    err_set(&err, ERR_PEER, "no answer from other ranks in %s for %g s", mpi->call,
            mpi->call_wait_s);
    watch->silent(watch->world, watch->arg, &err);
    return NULL;
}

int world_watch(struct world *w, world_silent *silent, void *arg, struct err *err)
{
    struct world_watch *watch = mem_new(1, sizeof *watch);
    sigset_t all, before;

    *watch = (struct world_watch){.world = w, .silent = silent, .arg = arg};
    world_bell_open(&watch->end);
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    errno = pthread_create(&watch->thread, NULL, watch_calls, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errno) {
        err_sys(err, "cannot start a thread");
        world_bell_close(&watch->end);
        mem_free(watch);
        return -1;
    }
    w->mpi->watch = watch;
    return 0;
}

void world_watch_release(struct world *w)
{
    struct world_watch *watch = w->mpi->watch;

    if (!watch)
        return;
    world_bell_ring(&watch->end);
    pthread_join(watch->thread, NULL);
    world_bell_close(&watch->end);
    mem_free(watch);
    w->mpi->watch = NULL;
}
