/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how ranks ask each other for bytes.  All calls of MPI are made by the service's own
 * thread: who asks may have a low priority, and would hold MPI's lock when it loses the
 * processor.
 *
 *     QUESTION   WORLD_ASK numbers
 *     HEAD       the bytes that follow, -1: no answer
 *     DATA       a chunk of them, as often as needed
 */
#include <assert.h>
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>

#include "base/mem.h"
#include "base/tick.h"
#include "world/world_mpi.h"
#include "world/world_service.h"

enum tag { QUESTION = 1, HEAD, DATA };
enum phase { NONE, ASKED, HEADED, FILLED }; /* FILLED: chunks arrive */

struct reply { /* of this rank */
    int active, sending, peer;
    int64_t what[WORLD_ASK], bytes, at;
    MPI_Request request;
};

struct question { /* of this rank */
    _Atomic(enum phase) phase;
    sem_t answered;
    int rank, rc;
    int64_t what[WORLD_ASK], room, bytes, at;
    char *to;
    double moved_s;
    MPI_Request sent, request;
    struct err err;
};

struct world_service {
    struct world *world;       /* borrowed, as the next */
    struct world_peers *peers;
    struct world_answers answers;
    struct reply reply;
    struct question question;
    char *buffer;           /* owned; of the reply */
    struct world_bell bell; /* rings for a question of this rank's, and to stop */
    pthread_t thread;
    atomic_int stop;
};

static int chunk_of(int64_t rest)
{
    return (int)(rest < WORLD_CHUNK ? rest : WORLD_CHUNK);
}

/* ---- this rank answers ---- */

static void send_part(struct world_service *s, const void *data, int bytes, enum tag tag)
{
    struct reply *r = &s->reply;

    world_enter(s->world);
    MPI_Isend(data, bytes, MPI_BYTE, r->peer, tag, s->peers->inner->comm, &r->request);
    world_leave(s->world);
    r->sending = 1;
}

static int take_question(struct world_service *s)
{
    MPI_Comm comm = s->peers->inner->comm;
    struct reply *r = &s->reply;
    struct err ignored; /* the asker says what it lacks */
    MPI_Status from;
    int there = 0;

    world_enter(s->world);
    if (MPI_Iprobe(MPI_ANY_SOURCE, QUESTION, comm, &there, &from) == MPI_SUCCESS && there)
        MPI_Recv(r->what, WORLD_ASK, MPI_INT64_T, from.MPI_SOURCE, QUESTION, comm,
                 MPI_STATUS_IGNORE);
    world_leave(s->world);
    if (!there)
        return 0;
    *r = (struct reply){.active = 1,
                        .peer = from.MPI_SOURCE,
                        .what = {r->what[0], r->what[1], r->what[2], r->what[3]}};
    if (s->answers.answer(s->answers.arg, r->what, s->buffer, &r->bytes, &ignored))
        r->bytes = -1;
    send_part(s, &r->bytes, sizeof r->bytes, HEAD);
    return 1;
}

/* Each returns whether anything has moved. */
static int progress_reply(struct world_service *s)
{
    struct reply *r = &s->reply;
    int done = 0;

    if (!r->active)
        return take_question(s);
    if (r->sending) {
        world_enter(s->world);
        MPI_Test(&r->request, &done, MPI_STATUS_IGNORE);
        world_leave(s->world);
        if (!done)
            return 0;
        r->sending = 0;
    }
    if (r->at >= r->bytes) {
        r->active = 0;
        return 1;
    }
    int bytes = chunk_of(r->bytes - r->at);
    send_part(s, s->buffer + r->at, bytes, DATA);
    r->at += bytes;
    return 1;
}

/* ---- this rank asks ---- */

static void receive_part(struct world_service *s, void *to, int bytes, enum tag tag)
{
    struct question *q = &s->question;

    world_enter(s->world);
    MPI_Irecv(to, bytes, MPI_BYTE, q->rank, tag, s->peers->inner->comm, &q->request);
    world_leave(s->world);
    q->moved_s = tick_now_s();
}

static void send_question(struct world_service *s)
{
    struct question *q = &s->question;

    world_enter(s->world);
    MPI_Isend(q->what, WORLD_ASK, MPI_INT64_T, q->rank, QUESTION, s->peers->inner->comm,
              &q->sent);
    world_leave(s->world);
    receive_part(s, &q->bytes, sizeof q->bytes, HEAD);
    q->phase = HEADED;
}

static int end_question(struct question *q, int rc)
{
    q->rc = rc;
    q->phase = NONE;
    sem_post(&q->answered);
    return 1;
}

static int is_late(struct world_service *s)
{
    struct question *q = &s->question;
    double wait_s = WORLD_SLOW * s->world->deadline_s;

    if (world_forsaken(s->world, &q->err))
        return 1;
    if (tick_now_s() - q->moved_s <= wait_s)
        return 0;
    err_set(&q->err, ERR_PEER, "no answer from rank %d for %g s", q->rank, wait_s);
    return 1;
}

static int progress_question(struct world_service *s)
{
    struct question *q = &s->question;
    MPI_Request *all[] = {&q->request, &q->sent};
    enum phase phase = q->phase;
    int done = 1;

    if (phase == NONE)
        return 0;
    if (phase == ASKED) {
        send_question(s);
        return 1;
    }
    world_enter(s->world);
    for (int i = 0; done && i < 2; i++)
        MPI_Test(all[i], &done, MPI_STATUS_IGNORE);
    world_leave(s->world);
    if (!done)
        return is_late(s) ? end_question(q, -1) : 0;
    if (q->bytes < 0 || q->bytes > q->room)
        return end_question(q,
                            err_set(&q->err, ERR_ABSENT, "rank %d does not have it", q->rank));
    if (phase == FILLED)
        q->at += chunk_of(q->bytes - q->at);
    if (q->at == q->bytes)
        return end_question(q, 0);
    receive_part(s, q->to + q->at, chunk_of(q->bytes - q->at), DATA);
    q->phase = FILLED;
    return 1;
}

/* ---- the thread ---- */

/* An answer that has begun ends.  Naps grow while nothing moves. */
static void *serve(void *arg)
{
    const double nap_least_s = 100e-6, nap_most_s = 5e-3;
    struct world_service *s = arg;
    double nap_s = nap_least_s;

    while (!atomic_load(&s->stop) || s->reply.active) {
        int moved = progress_reply(s) | progress_question(s);
        nap_s = moved ? nap_least_s : 1.5 * nap_s < nap_most_s ? 1.5 * nap_s : nap_most_s;
        if (!moved && world_bell_nap(&s->bell, nap_s))
            nap_s = nap_least_s;
    }
    return NULL;
}

static void release(struct world_service *s)
{
    sem_destroy(&s->question.answered);
    world_bell_close(&s->bell);
    mem_free(s->buffer);
    mem_free(s);
}

int world_service_open(struct world_service **out, struct world_peers *p,
                       const struct world_answers *a, struct err *err)
{
    struct world_service *s;
    sigset_t all, before;
    void *buffer = NULL;

    /* Answers may be far smaller: pages that none fills are not to cost a moment. */
    if (mem_buffer(a->most, "an answer to other ranks", &buffer, err))
        return -1;
    s = mem_new(1, sizeof *s);
    *s = (struct world_service){.world = p->world, .peers = p, .answers = *a, .buffer = buffer};
    sem_init(&s->question.answered, 0, 0);
    world_bell_open(&s->bell);
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    errno = pthread_create(&s->thread, NULL, serve, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errno) {
        err_sys(err, "cannot start a thread");
        release(s);
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
    world_bell_ring(&s->bell);
    pthread_join(s->thread, NULL);
    release(s);
}

int world_ask(struct world_service *s, int rank, const int64_t what[WORLD_ASK], void *to,
              int64_t room, int64_t *bytes, struct err *err)
{
    struct question *q = &s->question;

    assert(rank != s->world->rank);
    memcpy(q->what, what, sizeof q->what);
    q->rank = rank;
    q->to = to;
    q->room = room;
    q->at = 0;
    q->phase = ASKED;
    world_bell_ring(&s->bell);
    while (sem_wait(&q->answered))
        ; /* a signal */
    if (q->rc) {
        *err = q->err;
        return -1;
    }
    *bytes = q->bytes;
    return 0;
}
