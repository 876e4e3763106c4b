/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how work waits in streams; late.h says why. */
#include "late.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct emulated_work {
    struct emulated_work *next;
    void (*run)(void *arg); /* NULL: waits for `of` to come to seq */
    struct CUstream_st *of;
    int64_t seq;
    _Alignas(16) unsigned char arg[];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock; /* recursive */
static struct CUstream_st *streams;
static uint64_t state; /* of what is random; 0: nothing is late */

static void begin(void)
{
    const char *seed = getenv("EMULATED_LATE");
    pthread_mutexattr_t a;

    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &a);
    state = seed && *seed ? (uint64_t)atoll(seed) * 2 + 1 : 0;
}

int emulated_is_late(void)
{
    pthread_once(&once, begin);
    return state != 0;
}

/* Knuth's, its upper bits. */
static unsigned any(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

int emulated_is_seen(cudaStream_t s, int64_t seq)
{
    return !emulated_is_late() || (s->done >= seq && !getenv("EMULATED_IDLE"));
}

void emulated_add(cudaStream_t s)
{
    (void)emulated_is_late();
    pthread_mutex_lock(&lock);
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&lock);
}

static void push(cudaStream_t s, struct emulated_work *w)
{
    if (s->last)
        s->last->next = w;
    else
        s->first = w;
    s->last = w;
    s->asked++;
}

static struct emulated_work *new_work(size_t bytes)
{
    struct emulated_work *w = calloc(1, sizeof *w + bytes);

    if (!w)
        abort();
    return w;
}

void emulated_do(cudaStream_t s, void (*run)(void *arg), const void *arg, size_t bytes)
{
    struct emulated_work *w;

    if (emulated_capture(s, run, arg, bytes))
        return;
    if (!emulated_is_late() || !s) {
        if (emulated_is_late())
            emulated_run_all();
        run((void *)(uintptr_t)arg);
        return;
    }
    w = new_work(bytes);
    w->run = run;
    memcpy(w->arg, arg, bytes);
    pthread_mutex_lock(&lock);
    push(s, w);
    pthread_mutex_unlock(&lock);
}

void emulated_behind(cudaStream_t s, cudaStream_t of, int64_t seq)
{
    if (!emulated_is_late() || !s || !of)
        return;
    struct emulated_work *w = new_work(0);
    w->of = of;
    w->seq = seq;
    pthread_mutex_lock(&lock);
    push(s, w);
    pthread_mutex_unlock(&lock);
}

/* What is waited for was asked for before: there is no ring of streams that wait. */
static void run_first(cudaStream_t s)
{
    struct emulated_work *w = s->first;

    s->first = w->next;
    if (!s->first)
        s->last = NULL;
    if (w->run) {
        emulated_open();
        w->run(w->arg);
        emulated_end();
    } else {
        emulated_run_to(w->of, w->seq);
    }
    s->done++;
    free(w);
}

void emulated_run_to(cudaStream_t s, int64_t seq)
{
    if (!emulated_is_late() || !s)
        return;
    pthread_mutex_lock(&lock);
    while (s->done < seq)
        run_first(s);
    pthread_mutex_unlock(&lock);
}

void emulated_run_all(void)
{
    if (!emulated_is_late())
        return;
    pthread_mutex_lock(&lock);
    for (struct CUstream_st *s = streams; s; s = s->next)
        emulated_run_to(s, s->asked);
    pthread_mutex_unlock(&lock);
}

void emulated_run_some(void)
{
    if (!emulated_is_late())
        return;
    pthread_mutex_lock(&lock);
    for (struct CUstream_st *s = streams; s; s = s->next)
        for (unsigned n = any(2) ? any(8) : 0; n && s->first; n--)
            run_first(s);
    pthread_mutex_unlock(&lock);
}
