/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records when a program's collectives begin and end on its GPU, with two events per call in
 * the program's own stream, on which nothing waits.  A thread polls the events, so that hangs
 * show up too; until then a record has the time of the function call and no completion.  Times
 * of the GPU are relative to an event of this file, which is renewed before the 24 bits of a
 * float of milliseconds become too coarse.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "preload/preload_nccl.h"

enum {
    CALLS = 1024,     /* calls in progress; more are not metered */
    POLL_NS = 5000000 /* largest delay of recording a completion */
};

static const int64_t again_ns = 10 * INT64_C(1000000000); /* 1 us relative to 2^24 */

enum state { FREE, BEGUN, ENDED };

struct metered {
    enum state state;
    int64_t number;
    cudaEvent_t before, after;
    cudaStream_t stream;
};

/* Globals: a preloaded library has no caller that could keep these for it. */
static struct {
    pthread_mutex_t lock;
    struct meter *meter;
    int tried, gpu;
    pid_t process; /* that opened the meter: forked processes have its memory, but no meter */
    struct meter_seen seen;
    struct metered call[CALLS];
    int next;
    cudaStream_t stream; /* a stream of this file */
    cudaEvent_t zero;
    int64_t zero_ns; /* time of that event, CLOCK_MONOTONIC */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int set_zero(void)
{
    int64_t from = meter_now_ns();

    if (cudaEventRecord(all.zero, all.stream) != cudaSuccess ||
        cudaStreamSynchronize(all.stream) != cudaSuccess)
        return -1;
    all.zero_ns = from + (meter_now_ns() - from) / 2;
    return 0;
}

static int64_t time_of(cudaEvent_t event)
{
    float ms = 0;

    if (cudaEventElapsedTime(&ms, all.zero, event) != cudaSuccess)
        return 0;
    return all.zero_ns + (int64_t)(1e6 * (double)ms);
}

/* Call with the lock held. */
static void nccl_meter_collect(void)
{
    for (int i = 0; i < CALLS; i++) {
        struct metered *m = &all.call[i];
        if (m->state != ENDED)
            continue;
        cudaError_t rc = cudaEventQuery(m->after);
        if (rc == cudaErrorNotReady) {
            cudaGetLastError(); /* clears the error "not ready" */
            continue;
        }
        int64_t from = rc == cudaSuccess ? time_of(m->before) : 0,
                to = rc == cudaSuccess ? time_of(m->after) : 0;
        if (from > 0 && to >= from)
            meter_times(all.meter, m->number, from, to);
        else /* otherwise the call would look like a hang */
            meter_complete(all.meter, m->number);
        m->state = FREE;
    }
}

/* Call with the lock held.  Without the thread that completes records they would look like a
   hang. */
static void close_meter(void)
{
    meter_close(all.meter);
    all.meter = NULL;
}

static void *poll_calls(void *arg)
{
    (void)arg;
    for (int fine = 1; fine;) {
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        pthread_mutex_lock(&all.lock);
        fine = all.meter != NULL;
        if (fine)
            nccl_meter_collect();
        if (fine && meter_now_ns() - all.zero_ns > again_ns)
            fine = set_zero() == 0;
        if (!fine)
            close_meter();
        pthread_mutex_unlock(&all.lock);
    }
    return NULL;
}

/* Writes the last records, and that the process ended normally. */
static __attribute__((destructor)) void nccl_meter_end(void)
{
    if (all.process != getpid()) /* in a forked process the lock's owner may not exist */
        return;
    pthread_mutex_lock(&all.lock);
    close_meter();
    pthread_mutex_unlock(&all.lock);
}

/* A program has waited for its calls when it destroys its communicators. */
void preload_meter_collect(void)
{
    pthread_mutex_lock(&all.lock);
    if (all.meter)
        nccl_meter_collect();
    pthread_mutex_unlock(&all.lock);
}

/* Opens the meter for the first communicator, whose id is the run's until there is a larger
   one. */
static void nccl_meter_open_meter(uint64_t id, int rank, int ranks, int gpu)
{
    const struct meter_run run = {id, rank, ranks};
    const char *dir = getenv("PARO_METER");
    pthread_t thread;
    struct err err;

    all.tried = 1;
    all.process = getpid();
    if (!dir || !*dir)
        return;
    all.gpu = gpu;
    if (cudaSetDevice(gpu) != cudaSuccess ||
        cudaStreamCreateWithFlags(&all.stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaEventCreateWithFlags(&all.zero, cudaEventDefault) != cudaSuccess || set_zero())
        err_set(&err, ERR_DEVICE, "no stream or event for times");
    else if (meter_open(&all.meter, dir, "nccl", &run, &err) == 0) {
        if (pthread_create(&thread, NULL, poll_calls, NULL) == 0) {
            pthread_detach(thread);
            return;
        }
        close_meter();
        err_set(&err, ERR_SYS, "cannot start a thread");
    }
    fprintf(stderr, "paro-nccl: rank %d is not metered: PARO_METER: %s\n", rank, err.text);
}

void preload_meter_comm(struct meter_comm *c, const uint64_t *process, int rank, int ranks,
                        int gpu)
{
    uint64_t id = meter_id(process, ranks * (int64_t)sizeof *process, 0);

    pthread_mutex_lock(&all.lock);
    *c = (struct meter_comm){.id = meter_next_id(&all.seen, id), .rank = rank, .ranks = ranks};
    if (!all.tried)
        nccl_meter_open_meter(c->id, rank, ranks, gpu);
    if (all.meter && gpu == all.gpu)
        meter_widen(all.meter, &(struct meter_run){c->id, rank, ranks});
    pthread_mutex_unlock(&all.lock);
}

/* A free slot with its events; NULL: none. */
static struct metered *take_place(void)
{
    for (int i = 0; i < CALLS; i++) {
        struct metered *m = &all.call[(all.next + i) % CALLS];
        if (m->state != FREE)
            continue;
        if (!m->after &&
            (cudaEventCreateWithFlags(&m->before, cudaEventDefault) != cudaSuccess ||
             cudaEventCreateWithFlags(&m->after, cudaEventDefault) != cudaSuccess))
            return NULL;
        all.next = (all.next + i + 1) % CALLS;
        return m;
    }
    return NULL;
}

int preload_meter_before(struct meter_comm *c, int gpu, const struct preload_call *call)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    int64_t bytes = preload_plan_bytes(call, c->ranks);
    enum meter_op op = call->phases == SCHEDULE_ALL_GATHER       ? METER_ALL_GATHER
                       : call->phases == SCHEDULE_REDUCE_SCATTER ? METER_REDUCE_SCATTER
                                                                 : METER_ALL_REDUCE;
    int place = 0;

    pthread_mutex_lock(&all.lock);
    c->calls++;
    /* A captured call runs when its graph is launched, any number of times. */
    if (all.meter && gpu == all.gpu &&
        cudaStreamIsCapturing(call->stream, &capture) == cudaSuccess &&
        capture == cudaStreamCaptureStatusNone) {
        struct metered *m = take_place();
        if (m && cudaEventRecord(m->before, call->stream) == cudaSuccess) {
            m->state = BEGUN;
            m->stream = call->stream;
            m->number = meter_arrive(all.meter, c, c->calls, op, bytes > 0 ? bytes : 0);
            place = (int)(m - all.call) + 1;
        }
    }
    pthread_mutex_unlock(&all.lock);
    return place;
}

void preload_meter_after(int place)
{
    if (place == 0)
        return;
    struct metered *m = &all.call[place - 1];
    pthread_mutex_lock(&all.lock);
    m->state = cudaEventRecord(m->after, m->stream) == cudaSuccess ? ENDED : FREE;
    if (m->state == FREE)
        meter_complete(all.meter, m->number);
    pthread_mutex_unlock(&all.lock);
}
