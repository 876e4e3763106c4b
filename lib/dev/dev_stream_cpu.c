/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs streams on a CPU: one thread for all of them.  With more ranks than cores a thread that
 * waits by spinning starves the computing threads.  So it yields while the youngest operation
 * may be a small one, where latency dominates (a sleep there tripled the time of 4 KiB), and
 * then sleeps a 256th of that operation's age: 0.4 % of the run at the most (fixed naps of 20
 * to 200 us took a fifth more processor time at 64 MiB on 4x2 ranks and two cores, and lowered
 * the rate by some per cent).  While nothing is queued it waits for a condition.
 *
 * A thread that only waits can poll the streams itself (stream_run): a message then costs no
 * switch to the runner's thread and back.
 */
#include "dev/dev_stream.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "base/mem.h"
#include "base/tick.h"

enum { STREAMS_MAX = 32, NAP_PART = 256 };

static const double nap_least_s = 20e-6, nap_most_s = 400e-6;
/* The time of 256 KiB over 1 Gbit/s: sleeps after 1 ms lengthened its all-reduce by a tenth. */
static const double young_s = 4e-3;

struct stream {
    struct runner *runner;
    struct stream_op *op; /* [space] a ring */
    int space;
    int64_t pushed, passed; /* operations ever pushed, ever done: tickets count from 1 */
    int started;            /* the head has been started */
};

struct runner {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, done, handover;
    int streams, quit, failed;
    int driven;       /* a thread polls the streams: the runner's own, or one in stream_run */
    int wanted;       /* threads in stream_run that wait to poll */
    double started_s; /* when the youngest operation was started */
    struct stream *stream[STREAMS_MAX];
    struct err err;
};

/* Starts or polls the head.  Without the lock: only the polling thread changes `passed`,
   `started`. */
static enum stream_state step_head(struct stream *s, struct err *err)
{
    struct stream_op *op = &s->op[s->passed % s->space];

    if (!s->started) {
        s->started = 1;
        s->runner->started_s = tick_now_s();
        if (op->start && op->start(op->arg, err))
            return STREAM_FAILED;
    }
    return op->poll ? op->poll(op->arg, err) : STREAM_DONE;
}

static void stream_cpu_pass(struct runner *r, struct stream *s)
{
    pthread_mutex_lock(&r->lock);
    s->started = 0;
    s->passed++;
    pthread_cond_broadcast(&r->done);
    pthread_mutex_unlock(&r->lock);
}

static void stream_cpu_fail(struct runner *r, const struct err *err)
{
    pthread_mutex_lock(&r->lock);
    r->failed = 1;
    r->err = *err;
    pthread_cond_broadcast(&r->done);
    pthread_mutex_unlock(&r->lock);
}

/* Polls all heads once; returns the most advanced of their states. */
static enum stream_state stream_cpu_poll_all(struct runner *r, int streams)
{
    enum stream_state best = STREAM_IDLE;

    for (int i = 0; i < streams; i++) {
        struct stream *s = r->stream[i];
        struct err err = {0};
        pthread_mutex_lock(&r->lock);
        int empty = s->passed == s->pushed;
        pthread_mutex_unlock(&r->lock);
        if (empty)
            continue;
        enum stream_state now = step_head(s, &err);
        if (now == STREAM_FAILED) {
            stream_cpu_fail(r, &err);
            return now;
        }
        if (now == STREAM_DONE)
            stream_cpu_pass(r, s);
        if (now > best)
            best = now;
    }
    return best;
}

static int queued(const struct runner *r)
{
    for (int i = 0; i < r->streams; i++)
        if (r->stream[i]->passed < r->stream[i]->pushed)
            return 1;
    return 0;
}

/*
 * Pauses the polling thread when nothing moved.  alone: this thread has nothing else to do.  It
 * then yields while the operation is young, or polls again at once on STREAM_AGAIN.  Otherwise
 * (the process may be computing meanwhile) it sleeps a small part of the operation's age: that
 * lengthens the wait little, and takes little time from threads with work.
 */
static void pause_after(enum stream_state last, double started_s, int alone)
{
    if (last >= STREAM_MOVED)
        return;
    double age_s = tick_now_s() - started_s, nap_s = age_s / NAP_PART;
    if (!alone || age_s >= young_s)
        tick_sleep_s(nap_s < nap_least_s  ? nap_least_s
                     : nap_s < nap_most_s ? nap_s
                                          : nap_most_s);
    else if (last == STREAM_IDLE)
        sched_yield();
}

/*
 * For the runner's own thread: stops polling, blocks while nothing is queued or another thread
 * polls, then resumes polling.  Returns the number of streams, or -1 to end.
 */
static int wait_for_work(struct runner *r, int mine)
{
    pthread_mutex_lock(&r->lock);
    r->driven -= mine;
    if (mine && r->wanted)
        pthread_cond_signal(&r->handover);
    while (!r->quit && (r->failed || !queued(r) || r->driven || r->wanted))
        pthread_cond_wait(&r->work, &r->lock);
    int streams = r->quit && (r->failed || !queued(r)) ? -1 : r->streams;
    r->driven += streams >= 0;
    pthread_mutex_unlock(&r->lock);
    return streams;
}

static void *runner_main(void *arg)
{
    struct runner *r = arg;
    int streams = wait_for_work(r, 0);

    while (streams >= 0) {
        pause_after(stream_cpu_poll_all(r, streams), r->started_s, 0);
        streams = wait_for_work(r, 1);
    }
    return NULL;
}

int runner_open(struct runner **out, struct err *err)
{
    struct runner *r = mem_new(1, sizeof *r);

    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->work, NULL);
    pthread_cond_init(&r->done, NULL);
    pthread_cond_init(&r->handover, NULL);
    errno = pthread_create(&r->thread, NULL, runner_main, r);
    if (errno) {
        mem_free(r);
        return err_sys(err, "cannot start a thread");
    }
    *out = r;
    return 0;
}

void runner_close(struct runner *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->quit = 1;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    for (int i = 0; i < r->streams; i++) {
        mem_free(r->stream[i]->op);
        mem_free(r->stream[i]);
    }
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->work);
    pthread_cond_destroy(&r->done);
    pthread_cond_destroy(&r->handover);
    mem_free(r);
}

struct stream *stream_open(struct runner *r, int space)
{
    struct stream *s = mem_new(1, sizeof *s);

    s->runner = r;
    s->space = space;
    s->op = mem_new((size_t)space, sizeof *s->op);
    pthread_mutex_lock(&r->lock);
    assert(r->streams < STREAMS_MAX);
    r->stream[r->streams++] = s;
    pthread_mutex_unlock(&r->lock);
    return s;
}

/* With the lock held. */
static int64_t enqueue(struct stream *s, struct stream_op op)
{
    assert(s->pushed - s->passed < s->space || s->runner->failed);
    int64_t ticket = ++s->pushed;
    if (!s->runner->failed)
        s->op[(ticket - 1) % s->space] = op;
    return ticket;
}

int64_t stream_push(struct stream *s, struct stream_op op)
{
    struct runner *r = s->runner;

    pthread_mutex_lock(&r->lock);
    int64_t ticket = enqueue(s, op);
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
    return ticket;
}

int stream_done(struct stream *s, int64_t ticket)
{
    pthread_mutex_lock(&s->runner->lock);
    int done = s->passed >= ticket;
    pthread_mutex_unlock(&s->runner->lock);
    return done;
}

/* With the lock held. */
static int outcome(const struct stream *s, int64_t ticket, struct err *err)
{
    if (s->passed >= ticket)
        return 0;
    *err = s->runner->err;
    return -1;
}

int stream_wait(struct stream *s, int64_t ticket, struct err *err)
{
    struct runner *r = s->runner;

    pthread_mutex_lock(&r->lock);
    while (s->passed < ticket && !r->failed)
        pthread_cond_wait(&r->done, &r->lock);
    int rc = outcome(s, ticket, err);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

int stream_run(struct stream *s, struct stream_op op, struct err *err)
{
    struct runner *r = s->runner;

    pthread_mutex_lock(&r->lock);
    int64_t ticket = enqueue(s, op);
    r->wanted++;
    while (r->driven)
        pthread_cond_wait(&r->handover, &r->lock);
    r->wanted--;
    r->driven++;
    int streams = r->streams;
    while (s->passed < ticket && !r->failed) {
        pthread_mutex_unlock(&r->lock);
        pause_after(stream_cpu_poll_all(r, streams), r->started_s, 1);
        pthread_mutex_lock(&r->lock);
    }
    r->driven--;
    int rc = outcome(s, ticket, err);
    if (r->wanted)
        pthread_cond_signal(&r->handover);
    else if (queued(r))
        pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

int stream_drive(struct stream_op op, struct err *err)
{
    double started_s = tick_now_s();
    enum stream_state now = STREAM_MOVED;

    if (op.start && op.start(op.arg, err))
        return -1;
    while (op.poll && now != STREAM_DONE) {
        now = op.poll(op.arg, err);
        if (now == STREAM_FAILED)
            return -1;
        pause_after(now, started_s, 1);
    }
    return 0;
}

int stream_wait_all(struct stream *s, struct err *err)
{
    pthread_mutex_lock(&s->runner->lock);
    int64_t last = s->pushed;
    pthread_mutex_unlock(&s->runner->lock);
    return stream_wait(s, last, err);
}
