/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens devices by name, and implements the part that all kinds share: an error that persists.
 * Leaves memory and launching work to the kinds: dev_cpu.c, dev_cuda.c.
 */
#include "dev/dev.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "dev/dev_inside.h"

enum { INDEX_MAX = 1023 };

static int open_named(struct device *d, const char *name, int local_rank, struct err *err)
{
    int64_t index = -1;

    if (strcmp(name, "cpu") == 0) {
        device_open_cpu(d);
        return 0;
    }
    if (strncmp(name, "cuda:", 5) == 0) {
        if (num_i64(name + 5, 0, INDEX_MAX, &index, err))
            return err_prefix(err, "device '%s': ", name);
    } else if (strcmp(name, "cuda") != 0) {
        return err_set(err, ERR_INPUT, "device '%s', expected cpu, cuda or cuda:N", name);
    }
    return device_open_cuda(d, (int)index, local_rank, err);
}

int device_open(struct device **out, const char *name, int local_rank, struct err *err)
{
    struct device *d = mem_new(1, sizeof *d);

    if (open_named(d, name, local_rank, err)) {
        mem_free(d);
        return -1;
    }
    pthread_mutex_init(&d->lock, NULL);
    *out = d;
    return 0;
}

void device_close(struct device *d)
{
    if (!d)
        return;
    d->op->close(d);
    pthread_mutex_destroy(&d->lock);
    mem_free(d);
}

/* Whether this thread is recording a graph; call with the lock held. */
static int writes(const struct device *d)
{
    return d->writing && pthread_equal(d->writer, pthread_self());
}

int device_fail(struct device *d, const char *where, const char *words)
{
    pthread_mutex_lock(&d->lock);
    int here = writes(d);
    if (here && !d->unwritten.code)
        err_set(&d->unwritten, ERR_ABSENT, "%s: %s", where, words);
    if (!here && !d->failed) {
        err_set(&d->failure, ERR_DEVICE, "device cuda:%d (%s) failed at %s: %s", d->index,
                d->name, where, words);
        d->failed = 1;
    }
    pthread_mutex_unlock(&d->lock);
    return -1;
}

int device_check(struct device *d, struct err *err)
{
    const struct err *said = NULL;

    if (!d->failed && !d->writing)
        return 0;
    pthread_mutex_lock(&d->lock);
    if (d->failed)
        said = &d->failure;
    else if (writes(d) && d->unwritten.code)
        said = &d->unwritten;
    if (said)
        *err = *said;
    pthread_mutex_unlock(&d->lock);
    return said ? -1 : 0;
}

enum device_kind device_kind(const struct device *d)
{
    return d->kind;
}

const char *device_name(const struct device *d)
{
    return d->name;
}

int device_index(const struct device *d)
{
    return d->index;
}

int device_memory(const struct device *d, int64_t *free_bytes, int64_t *bytes, struct err *err)
{
    return d->op->memory(d, free_bytes, bytes, err);
}

int device_alloc(struct device *d, int64_t bytes, const char *what, void **out, struct err *err)
{
    return device_check(d, err) ? -1 : d->op->alloc(d, bytes, what, out, err);
}

void device_free(struct device *d, void *p)
{
    if (p)
        d->op->free(d, p);
}

int device_host_alloc(struct device *d, int64_t bytes, const char *what, void **out,
                      struct err *err)
{
    return device_check(d, err) ? -1 : d->op->host_alloc(d, bytes, what, out, err);
}

void device_host_free(struct device *d, void *p)
{
    if (p)
        d->op->host_free(d, p);
}

int device_pin(struct device *d, void *host, int64_t bytes, struct err *err)
{
    return device_check(d, err) ? -1 : d->op->pin(d, host, bytes, err);
}

void device_unpin(struct device *d, void *host)
{
    if (host)
        d->op->unpin(d, host);
}

int device_queue_open(struct device *d, struct device_queue **out, struct err *err)
{
    void *stream = NULL;

    if (device_check(d, err) || d->op->stream_open(d, &stream, err))
        return -1;
    *out = mem_new(1, sizeof **out);
    **out = (struct device_queue){.device = d, .stream = stream};
    return 0;
}

void device_queue_close(struct device_queue *q)
{
    if (!q)
        return;
    q->device->op->stream_close(q->device, q->stream);
    mem_free(q);
}

int device_event_open(struct device *d, struct device_event **out, struct err *err)
{
    void *event = NULL;

    if (device_check(d, err) || d->op->event_open(d, &event, err))
        return -1;
    *out = mem_new(1, sizeof **out);
    **out = (struct device_event){.device = d, .event = event};
    return 0;
}

void device_event_close(struct device_event *e)
{
    if (!e)
        return;
    e->device->op->event_close(e->device, e->event);
    mem_free(e);
}

/* A device that has failed gets no more work: each call would fail again. */
void device_copy(struct device_queue *q, void *to, const void *from, int64_t bytes)
{
    if (bytes > 0 && !q->device->failed)
        q->device->op->copy(q->device, q->stream, to, from, bytes);
}

void device_copy_rows(struct device_queue *q, void *to, int64_t to_row, const void *from,
                      int64_t from_row, int64_t bytes, int64_t rows)
{
    if (bytes > 0 && rows > 0 && !q->device->failed)
        q->device->op->copy_rows(q->device, q->stream, to, to_row, from, from_row, bytes, rows);
}

void device_zero(struct device_queue *q, void *to, int64_t bytes)
{
    if (bytes > 0 && !q->device->failed)
        q->device->op->zero(q->device, q->stream, to, bytes);
}

void device_record(struct device_queue *q, struct device_event *e)
{
    if (!q->device->failed)
        q->device->op->record(q->device, q->stream, e->event);
}

void device_wait(struct device_queue *q, const struct device_event *e)
{
    if (!q->device->failed)
        q->device->op->wait(q->device, q->stream, e->event);
}

int device_done(const struct device_event *e, struct err *err)
{
    int done = e->device->failed ? -1 : e->device->op->done(e->device, e->event);

    return done < 0 ? device_check(e->device, err) : done;
}

int device_event_sync(const struct device_event *e, struct err *err)
{
    if (!e->device->failed)
        e->device->op->event_sync(e->device, e->event);
    return device_check(e->device, err);
}

int device_sync(struct device_queue *q, struct err *err)
{
    if (!q->device->failed)
        q->device->op->sync(q->device, q->stream);
    return device_check(q->device, err);
}

static void set_writing(struct device *d, int writing)
{
    pthread_mutex_lock(&d->lock);
    d->writer = pthread_self();
    d->writing = writing;
    if (writing)
        d->unwritten = (struct err){0};
    pthread_mutex_unlock(&d->lock);
}

int device_graph_begin(struct device_queue *q, struct err *err)
{
    struct device *d = q->device;

    if (device_check(d, err))
        return -1;
    if (!d->op->graph_begin)
        return err_set(err, ERR_ABSENT,
                       "device %s has no graphs, it runs work when it is queued", d->name);
    if (d->op->graph_begin(d, q->stream, err))
        return -1;
    set_writing(d, 1);
    return 0;
}

int device_graph_end(struct device_queue *q, struct device_graph **out, struct err *err)
{
    struct device *d = q->device;
    const char *words = NULL;
    void *graph = d->op->graph_end(d, q->stream, &words);

    set_writing(d, 0);
    if (graph && !d->unwritten.code) {
        *out = mem_new(1, sizeof **out);
        **out = (struct device_graph){.device = d, .graph = graph};
        return 0;
    }
    if (graph)
        d->op->graph_free(d, graph);
    else if (!d->unwritten.code)
        err_set(&d->unwritten, ERR_ABSENT, "%s", words);
    *err = d->unwritten;
    return err_prefix(err, "cannot capture a CUDA graph: ");
}

void device_graph_run(struct device_queue *q, const struct device_graph *g)
{
    if (!q->device->failed)
        q->device->op->graph_run(q->device, q->stream, g->graph);
}

void device_graph_free(struct device_graph *g)
{
    if (!g)
        return;
    g->device->op->graph_free(g->device, g->graph);
    mem_free(g);
}

void *device_stream(const struct device_queue *q)
{
    q->device->op->here(q->device);
    return q->stream;
}

struct device *device_of(const struct device_queue *q)
{
    return q->device;
}
