/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers requests of other ranks for bytes.  Protocol: the request, then the number of bytes
 * of the answer (-1: none), then the bytes.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/tick.h"
#include "world/world_mpi.h"
#include "world/world_service.h"

enum tag { QUESTION = WORLD_TAGS, HEAD, DATA };

struct world_service {
    struct world_peers *peers; /* borrowed */
    struct world_answers answers;
    void *buffer; /* owned; holds the answer */
    pthread_t thread;
    atomic_int stop;
};

/* Sleeps longer while no requests arrive. */
static void *serve(void *arg)
{
    const double nap_least_s = 100e-6, nap_most_s = 5e-3;
    struct world_service *s = arg;
    MPI_Comm comm = s->peers->inner->comm;
    MPI_Status from;
    int64_t what[WORLD_REQUEST], bytes = 0;
    double nap_s = nap_least_s;
    struct err ignored; /* the requesting rank reports a missing answer */

    while (!atomic_load(&s->stop)) {
        int there = 0;
        world_enter(s->peers->world);
        if (MPI_Iprobe(MPI_ANY_SOURCE, QUESTION, comm, &there, &from) == MPI_SUCCESS && there)
            MPI_Recv(what, WORLD_REQUEST, MPI_INT64_T, from.MPI_SOURCE, QUESTION, comm,
                     MPI_STATUS_IGNORE);
        world_leave(s->peers->world);
        if (!there) {
            tick_sleep_s(nap_s);
            nap_s = 1.5 * nap_s < nap_most_s ? 1.5 * nap_s : nap_most_s;
            continue;
        }
        nap_s = nap_least_s;
        if (s->answers.answer(s->answers.arg, what, s->buffer, &bytes, &ignored))
            bytes = -1;
        const struct world_parcel p[] = {
            {from.MPI_SOURCE, 0, HEAD, &bytes, sizeof bytes},
            {from.MPI_SOURCE, 0, DATA, s->buffer, bytes < 0 ? 0 : bytes}};
        world_transfer(s->peers, p, 2, NULL, NULL, &ignored);
    }
    return NULL;
}

int world_service_open(struct world_service **out, struct world_peers *p,
                       const struct world_answers *a, struct err *err)
{
    sigset_t all, before;
    void *buffer = NULL;

    /* Most answers are far smaller than the buffer: its pages are allocated only when
       written. */
    if (mem_buffer(a->most, "an answer to other ranks", &buffer, err))
        return -1;
    struct world_service *s = mem_new(1, sizeof *s);
    *s = (struct world_service){.peers = p, .answers = *a, .buffer = buffer};
    sigfillset(&all); /* leaves signals to the program */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    errno = pthread_create(&s->thread, NULL, serve, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errno) {
        err_sys(err, "cannot start a thread");
        mem_free(buffer);
        mem_free(s);
        return -1;
    }
    *out = s;
    return 0;
}

void world_service_close(struct world_service *s)
{
    if (!s)
        return;
    atomic_store(&s->stop, 1);
    pthread_join(s->thread, NULL);
    mem_free(s->buffer);
    mem_free(s);
}

int world_request(struct world_service *s, int rank, const int64_t what[WORLD_REQUEST],
                  void *to, int64_t space, int64_t *bytes, struct err *err)
{
    const struct world_parcel request[] = {
        {rank, 0, QUESTION, (void *)(uintptr_t)what, WORLD_REQUEST * sizeof *what},
        {rank, 1, HEAD, bytes, sizeof *bytes}};

    assert(rank != s->peers->rank);
    if (world_transfer(s->peers, request, 2, NULL, NULL, err))
        return -1;
    if (*bytes < 0 || *bytes > space)
        return err_set(err, ERR_ABSENT, "rank %d does not have it", rank);
    const struct world_parcel data = {rank, 1, DATA, to, *bytes};
    return world_transfer(s->peers, &data, 1, NULL, NULL, err);
}
