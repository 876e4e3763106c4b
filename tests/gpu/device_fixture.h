/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEVICE_FIXTURE_H
#define DEVICE_FIXTURE_H

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "dev/dev.h"

/* Checks what every device must do: each check returns NULL, or what was wrong. */
typedef const char *device_check_f(struct device *d);

enum { DEVICE_N = 1 << 20, DEVICE_ODD = 3 }; /* bytes; an offset that nothing is aligned to */

struct device_space { /* three blocks of the device, a pinned one, one queue and its event */
    unsigned char *x, *y, *z, *host;
    struct device_queue *queue;
    struct device_event *event;
    struct err err;
};

static int space_open(struct device_space *r, struct device *d)
{
    *r = (struct device_space){0};
    return device_alloc(d, DEVICE_N, "x", (void **)&r->x, &r->err) ||
           device_alloc(d, DEVICE_N, "y", (void **)&r->y, &r->err) ||
           device_alloc(d, DEVICE_N, "z", (void **)&r->z, &r->err) ||
           device_host_alloc(d, DEVICE_N, "host", (void **)&r->host, &r->err) ||
           device_queue_open(d, &r->queue, &r->err) || device_event_open(d, &r->event, &r->err);
}

static const char *space_close(struct device_space *r, struct device *d, const char *wrong)
{
    device_event_close(r->event);
    device_queue_close(r->queue);
    device_host_free(d, r->host);
    device_free(d, r->x);
    device_free(d, r->y);
    device_free(d, r->z);
    return wrong;
}

/* Never the same twice in 251 bytes, never 0. */
static void fill(unsigned char *p, int64_t n, int seed)
{
    for (int64_t i = 0; i < n; i++)
        p[i] = (unsigned char)(1 + (i + seed) % 251);
}

static int64_t differs(const unsigned char *p, int64_t n, int seed)
{
    int64_t bad = 0;

    for (int64_t i = 0; i < n; i++)
        bad += p[i] != (seed < 0 ? 0 : 1 + (i + seed) % 251);
    return bad;
}

static const char *memory_is_zeroed(struct device *d)
{
    struct device_space r;
    int align = device_kind(d) == DEVICE_CPU ? 64 : 256;

    for (int again = 0; again < 2; again++) { /* the second time over what was dirty */
        if (space_open(&r, d))
            return space_close(&r, d, "the memory is there");
        if ((uintptr_t)r.x % align || (uintptr_t)r.y % align)
            return space_close(&r, d, "it is aligned");
        if (differs(r.host, DEVICE_N, -1))
            return space_close(&r, d, "that of the host is zeroed");
        fill(r.host, DEVICE_N, 1);
        device_copy(r.queue, r.host, r.y, DEVICE_N);
        if (device_sync(r.queue, &r.err) || differs(r.host, DEVICE_N, -1))
            return space_close(&r, d, "it is zeroed");
        fill(r.host, DEVICE_N, 2);
        device_copy(r.queue, r.y, r.host, DEVICE_N);
        space_close(&r, d, NULL); /* with work still on its way */
    }
    return NULL;
}

static const char *bytes_arrive(struct device *d)
{
    static unsigned char plain[DEVICE_N];
    struct device_space r;
    int64_t n = DEVICE_N - DEVICE_ODD;

    if (space_open(&r, d) || device_pin(d, plain, DEVICE_N, &r.err))
        return space_close(&r, d, "memory is there and can be pinned");
    fill(r.host, DEVICE_N, 7);
    device_copy(r.queue, r.x, r.host, DEVICE_N);
    device_copy(r.queue, r.y, r.x + DEVICE_ODD, n);
    device_zero(r.queue, r.y + 1, 1);
    device_copy(r.queue, r.z + DEVICE_ODD, r.y, n);
    device_copy(r.queue, plain, r.z, DEVICE_N);
    device_copy(r.queue, plain, NULL, 0);
    int bad = device_sync(r.queue, &r.err);
    device_unpin(d, plain);
    bad |= differs(plain, DEVICE_ODD, -1) || plain[DEVICE_ODD + 1] != 0;
    plain[DEVICE_ODD + 1] = (unsigned char)(1 + (1 + 7 + DEVICE_ODD) % 251);
    bad |= differs(plain + DEVICE_ODD, n, 7 + DEVICE_ODD) != 0;
    fill(plain, DEVICE_N, 9); /* not pinned now */
    device_copy(r.queue, r.x, plain, DEVICE_N);
    memset(plain, 0, sizeof plain);
    device_copy(r.queue, plain, r.x, DEVICE_N);
    bad |= device_sync(r.queue, &r.err) || differs(plain, DEVICE_N, 9);
    return space_close(&r, d, bad ? "bytes arrive where they are sent, in order" : NULL);
}

static void *other_thread(void *arg) /* another queue, behind the event */
{
    struct device_space *r = arg;
    struct device_queue *q = NULL;
    struct err own;

    if (device_queue_open(device_of(r->queue), &q, &own))
        return NULL;
    device_wait(q, r->event);
    device_copy(q, r->z, r->y, DEVICE_N);
    int bad = device_sync(q, &own);
    device_queue_close(q);
    return bad ? NULL : r;
}

static const char *queues_wait(struct device *d)
{
    struct device_space r;
    pthread_t thread;
    void *good = NULL;

    if (space_open(&r, d) || device_done(r.event, &r.err) != 1)
        return space_close(&r, d, "an event that was never recorded has happened");
    fill(r.host, DEVICE_N, 5);
    for (int i = 0; i < 64; i++) /* enough for the other thread to come too early */
        device_copy(r.queue, i % 2 ? r.y : r.x, i % 2 ? r.x : r.host, DEVICE_N);
    device_record(r.queue, r.event);
    if (pthread_create(&thread, NULL, other_thread, &r) || pthread_join(thread, &good) || !good)
        return space_close(&r, d, "another thread has a queue of its own");
    int done = device_done(r.event, &r.err);
    device_copy(r.queue, r.host, r.z, DEVICE_N);
    device_record(r.queue, r.event);
    if (done != 1 || device_event_sync(r.event, &r.err) || differs(r.host, DEVICE_N, 5))
        return space_close(&r, d, "a queue waits for another's event");
    return space_close(&r, d,
                       device_done(r.event, &r.err) == 1 ? NULL : "then it has happened");
}

/* Nothing of it is done before it is asked for, and each time it is all of it. */
static const char *graph_runs(struct device_space *r)
{
    struct device_graph *g = NULL;
    int bad = 0;

    fill(r->host, DEVICE_N, 3);
    device_copy(r->queue, r->x, r->host, DEVICE_N);
    if (device_graph_begin(r->queue, &r->err))
        return "a graph is begun";
    device_copy(r->queue, r->y, r->x, DEVICE_N);
    device_copy(r->queue, r->x, r->z, DEVICE_N);
    device_zero(r->queue, r->y + DEVICE_ODD, 1);
    if (device_graph_end(r->queue, &g, &r->err))
        return "what was asked for became one";
    device_copy(r->queue, r->host, r->y, DEVICE_N);
    bad |= device_sync(r->queue, &r->err) || differs(r->host, DEVICE_N, -1);
    for (int i = 0; i < 2; i++) { /* the second time from what the first one left: zeros */
        device_graph_run(r->queue, g);
        device_copy(r->queue, r->host, r->y, DEVICE_N);
        bad |= device_sync(r->queue, &r->err) || r->host[DEVICE_ODD] != 0;
        r->host[DEVICE_ODD] = i ? 0 : (unsigned char)(1 + (DEVICE_ODD + 3) % 251);
        bad |= differs(r->host, DEVICE_N, i ? -1 : 3) != 0;
    }
    device_graph_free(g);
    return bad ? "it is done when it is asked for, as often" : NULL;
}

/* Work that a graph cannot record is reported at the end, and has done no harm. */
static const char *graph_is_refused(struct device *d, struct device_space *r)
{
    struct device_graph *g = NULL;
    struct err at_once = {0};
    void *p = NULL;

    if (device_graph_begin(r->queue, &r->err))
        return "a graph is begun";
    device_zero(r->queue, r->x, DEVICE_N);
    int had = !device_alloc(d, 16, "what is not there yet", &p, &at_once);
    device_zero(r->queue, r->y, DEVICE_N);
    if (!device_graph_end(r->queue, &g, &r->err) || had)
        return "memory is not had while a graph is written down";
    if (r->err.code != ERR_ABSENT || at_once.code != ERR_ABSENT)
        return "that is no failure of the device";
    if (device_alloc(d, 16, "what is there now", &p, &r->err))
        return "and it goes on";
    device_free(d, p);
    return graph_runs(r);
}

static const char *graphs_are_written(struct device *d)
{
    struct device_space r;
    const char *wrong = NULL;

    if (space_open(&r, d))
        return space_close(&r, d, "the memory is there");
    if (device_kind(d) == DEVICE_CPU)
        wrong = device_graph_begin(r.queue, &r.err) && r.err.code == ERR_ABSENT
                    ? NULL
                    : "a CPU has none, and says so";
    else if (!(wrong = graph_runs(&r)))
        wrong = graph_is_refused(d, &r);
    return space_close(&r, d, wrong);
}

#endif
