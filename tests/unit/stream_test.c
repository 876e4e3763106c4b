/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests streams: order within one, many at once, an error that ends them all, and the end of a
 * runner.
 */
#include "unit.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/tick.h"
#include "dev/dev_stream.h"

enum { STREAMS = 8, OPS = 200 };

static _Atomic int yields;

/* In place of the C library's. */
int sched_yield(void)
{
    yields++;
    return 0;
}

/* An operation: it notes its number, after `polls` polls. */
struct job {
    int number, polls, fails; /* fails: 1 in start, 2 in poll */
    int *log;                 /* of its stream: numbers in the order of their ends */
    int *logged;
    _Atomic int *gate; /* not NULL: not done before it is raised */
    int started, polled;
};

static int job_start(void *arg, struct err *why)
{
    struct job *job = arg;

    job->started++;
    job->polled = 0;
    return job->fails == 1 ? err_set(why, ERR_DEVICE, "job %d fails", job->number) : 0;
}

static enum stream_state job_poll(void *arg, struct err *why)
{
    struct job *job = arg;

    if (job->gate && !atomic_load(job->gate))
        return STREAM_IDLE;
    if (job->polled++ < job->polls)
        return job->polled % 2 ? STREAM_IDLE : STREAM_MOVED;
    if (job->fails == 2) {
        err_set(why, ERR_PEER, "job %d fails late", job->number);
        return STREAM_FAILED;
    }
    if (job->log)
        job->log[(*job->logged)++] = job->number;
    return STREAM_DONE;
}

static struct stream_op op_of(struct job *job)
{
    return (struct stream_op){job_start, job_poll, job};
}

static struct runner *open_runner(void)
{
    struct runner *r = NULL;

    assert_ok(runner_open(&r, &err));
    return r;
}

TEST(test_order)
{
    struct runner *r = open_runner();
    struct stream *s[STREAMS];
    static struct job job[STREAMS][OPS];
    static int log[STREAMS][OPS];
    int logged[STREAMS] = {0};

    for (int i = 0; i < STREAMS; i++)
        s[i] = stream_open(r, 3);
    /* Rings of three, used many times over: a wait makes room. */
    for (int n = 0; n < OPS; n++)
        for (int i = 0; i < STREAMS; i++) {
            job[i][n] = (struct job){
                .number = n, .polls = (n + i) % 3, .log = log[i], .logged = &logged[i]};
            if (n >= 3)
                assert_ok(stream_wait(s[i], n - 2, &err));
            assert_int_equal(stream_push(s[i], op_of(&job[i][n])), n + 1);
        }
    for (int i = 0; i < STREAMS; i++) {
        assert_ok(stream_wait_all(s[i], &err));
        assert_int_equal(logged[i], OPS);
        for (int n = 0; n < OPS; n++) {
            assert_int_equal(log[i][n], n);
            assert_int_equal(job[i][n].started, 1);
        }
    }
    runner_close(r);
}

/* The second stream's operation opens the gate that the first one's waits for. */
static int raise_gate(void *arg, struct err *why)
{
    (void)why;
    atomic_store((_Atomic int *)arg, 1);
    return 0;
}

TEST(test_streams_run_together)
{
    struct runner *r = open_runner();
    struct stream *a = stream_open(r, 2), *b = stream_open(r, 2);
    _Atomic int gate = 0;
    struct job job = {.gate = &gate};

    int64_t first = stream_push(a, op_of(&job));
    tick_sleep_s(0.002); /* it is the head, and polled */
    assert_int_equal(stream_done(a, first), 0);
    stream_push(b, (struct stream_op){.start = raise_gate, .arg = &gate});
    assert_ok(stream_wait(b, 1, &err));
    assert_ok(stream_wait(a, first, &err));
    assert_int_equal(stream_done(a, first), 1);
    runner_close(r);
}

/* An error in one stream: all later waits return it, what was queued behind never starts. */
static void fails_everywhere(int fails, const char *text, enum err_code code)
{
    struct runner *r = open_runner();
    struct stream *a = stream_open(r, 4), *b = stream_open(r, 4);
    _Atomic int never = 0;
    int log[4], logged = 0;
    struct job good = {.number = 1, .log = log, .logged = &logged};
    struct job bad = {.number = 2, .polls = 2, .fails = fails};
    struct job behind = {.number = 3}, stuck = {.number = 4, .gate = &never};
    struct err other = {0};

    stream_push(b, op_of(&stuck));
    int64_t before = stream_push(a, op_of(&good));
    int64_t ticket = stream_push(a, op_of(&bad));
    stream_push(a, op_of(&behind));
    assert_int_equal(stream_wait(a, ticket, &err), -1);
    assert_string_equal(err.text, text);
    assert_int_equal(err.code, code);
    /* Operations done before stay done; everything else fails with the same words. */
    assert_int_equal(stream_wait(a, before, &other), 0);
    assert_int_equal(stream_wait_all(b, &other), -1);
    assert_string_equal(other.text, text);
    for (int i = 0; i < 20; i++) /* more than the room: dropped */
        ticket = stream_push(a, op_of(&behind));
    assert_int_equal(stream_done(a, ticket), 0);
    assert_int_equal(stream_wait(a, ticket, &err), -1);
    runner_close(r); /* does not wait for what is stuck */
    assert_int_equal(behind.started, 0);
    assert_int_equal(logged, 1);
}

TEST(test_errors)
{
    fails_everywhere(1, "job 2 fails", ERR_DEVICE);
    fails_everywhere(2, "job 2 fails late", ERR_PEER);
}

/* A close waits for what is queued; one without work and one of no runner end at once. */
TEST(test_close)
{
    struct runner *r = open_runner();
    struct stream *s = stream_open(r, 16);
    struct job job[16];
    int log[16], logged = 0;

    for (int i = 0; i < 16; i++) {
        job[i] = (struct job){.number = i, .polls = 20, .log = log, .logged = &logged};
        stream_push(s, op_of(&job[i]));
    }
    runner_close(r);
    assert_int_equal(logged, 16);
    runner_close(open_runner());
    runner_close(NULL);
}

/* A stream may be opened while another works, and an operation may have neither start nor poll.
 */
TEST(test_late_stream)
{
    struct runner *r = open_runner();
    struct stream *s[24];
    struct job job[24];

    for (int i = 0; i < 24; i++) {
        s[i] = stream_open(r, 2);
        job[i] = (struct job){.number = i, .polls = 5};
        stream_push(s[i], op_of(&job[i]));
        stream_push(s[i], (struct stream_op){0});
    }
    for (int i = 0; i < 24; i++)
        assert_ok(stream_wait_all(s[i], &err));
    runner_close(r);
}

TEST(test_drives_alone)
{
    struct job good = {.number = 1, .polls = 5}, bad = {.number = 2, .fails = 1},
               late = {.number = 3, .polls = 3, .fails = 2};

    assert_ok(stream_drive(op_of(&good), &err));
    assert_int_equal(good.started, 1);
    assert_int_equal(good.polled, 6);
    assert_int_equal(stream_drive(op_of(&bad), &err), -1);
    assert_string_equal(err.text, "job 2 fails");
    assert_int_equal(bad.polled, 0);
    assert_error(stream_drive(op_of(&late), &err), ERR_PEER);
    assert_ok(stream_drive((struct stream_op){0}, &err));
}

struct waiter {
    enum stream_state says;
    int polls;
};

static enum stream_state waiter_poll(void *arg, struct err *why)
{
    struct waiter *w = arg;

    (void)why;
    return w->polls-- ? w->says : STREAM_DONE;
}

/* A yield for each poll that moved nothing, unless it wants to be called again at once. */
TEST(test_yields_when_idle)
{
    static const enum stream_state says[] = {STREAM_IDLE, STREAM_AGAIN, STREAM_MOVED};
    enum { POLLS = 3 };

    for (int i = 0; i < 3; i++) {
        struct waiter w = {says[i], POLLS};

        /* While the operation is young: a driver that lost its processor for long sleeps. */
        for (int tries = 0; tries < 100; tries++) {
            double start = tick_now_s();
            w.polls = POLLS;
            yields = 0;
            assert_ok(stream_drive((struct stream_op){NULL, waiter_poll, &w}, &err));
            if (tick_now_s() - start < 1e-3)
                break;
        }
        assert_int_equal(yields, says[i] == STREAM_IDLE ? POLLS : 0);
    }
}
