/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens the device of an engine: its memory, and three queues that order its work.
 *
 *     compute   forward, backward, zeros, the update      the thread that calls engine_step
 *     move      packing and storing of payloads           the communication thread
 *     host      loading and saving                        any thread, under a lock
 *
 * Events order the work of compute and move (engine_move.requested), and the compute thread
 * waits for streams.  A device failure is reported where the ranks agree: until then this rank
 * continues, so that no other waits for it.
 */
#include "engine/engine_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int engine_device_open(struct engine *e, const struct engine_options *o, struct err *err)
{
    struct engine_device *d = &e->device;
    struct device_queue **const queue[] = {&d->compute, &d->move, &d->host};
    enum dtype compute = e->plan->compute_type;

    if (device_open(&d->own, "cpu", 0, err))
        return -1;
    d->at = o->device ? o->device : d->own;
    d->gpu = device_kind(d->at) != DEVICE_CPU;
    d->lock = mem_new(1, sizeof *d->lock);
    pthread_mutex_init(d->lock, NULL);
    if (d->gpu && e->exact)
        return err_set(err, ERR_INPUT,
                       "fixed-point sums on a GPU, expected the device 'cpu' for exact sums");
    enum dtype read = e->step.space.read;
    for (size_t i = 0; i < sizeof queue / sizeof *queue; i++)
        if (device_queue_open(d->at, queue[i], err))
            return -1;
    if (kern_open(&d->host_kern, d->own, NULL, DTYPE_F32, DTYPE_F32, err) ||
        kern_open(&d->kern, d->at, d->compute, compute, read, err))
        return -1;
    /* cuDNN prepares a shape for up to seconds, but documents have any length. */
    d->kern.attention = o->begins ? KERN_ATTENTION_OWN : o->attention;
    e->losses = o->losses;
    return kern_open(&d->mover, d->at, d->move, compute, read, err);
}

/* --- a GPU with too little memory for a plan --- */

double engine_planned(const struct engine *e)
{
    double bytes;

    plan_totals_on(e->plan, device_kind(e->device.at), &e->plan->strategy, 1, &bytes);
    return bytes;
}

/* Names the strategies that need less than this one by `missing` bytes, or "none". */
static void name_fitting(const struct plan *p, enum device_kind device, double missing,
                         char *text, size_t space)
{
    struct plan_strategy all[PLAN_STRATEGIES + 1] = {[PLAN_STRATEGIES] = p->strategy};
    double bytes[PLAN_STRATEGIES + 1];
    size_t used = 0;

    for (int i = 0; i < PLAN_STRATEGIES; i++)
        all[i] = plan_strategy_at(i);
    plan_totals_on(p, device, all, PLAN_STRATEGIES + 1, bytes);
    snprintf(text, space, "none of the 27 strategies would");
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        if (bytes[i] > bytes[PLAN_STRATEGIES] - missing)
            continue;
        if (used == 0)
            used = (size_t)snprintf(text, space, "these strategies would:");
        used += (size_t)snprintf(text + used, space - used, " %s", plan_strategy_name(all[i]));
    }
}

/* ERR_SYS if fewer than `bytes` are free on the GPU, naming the strategies that would fit. */
static int check_fit(const struct engine *e, int64_t bytes, struct err *err)
{
    int64_t left = 0, all = 0;
    enum device_kind kind = device_kind(e->device.at);
    char fitting[256]; /* 27 names and some words */

    if (device_memory(e->device.at, &left, &all, err))
        return -1;
    /* NCCL's scratch is allocated later, when collectives are prepared. */
    if (e->transport == COLL_NCCL)
        bytes += (int64_t)plan_sums_on(e->plan, kind);
    if (left < 0 || bytes <= left)
        return 0;
    name_fitting(e->plan, kind, (double)(bytes - left), fitting, sizeof fitting);
    return err_set(err, ERR_SYS,
                   "GPU %d (%s) has %" PRId64 " bytes free of %" PRId64 ", expected %" PRId64
                   " for states and buffers, %" PRId64 " more: %s fit",
                   device_index(e->device.at), device_name(e->device.at), left, all, bytes,
                   bytes - left, fitting);
}

int engine_device_memory(struct engine *e, int64_t own, int64_t shared, struct err *err)
{
    struct engine_device *d = &e->device;

    d->host_bytes = e->host.used;
    e->shared = e->own = e->host = (struct arena){0};
    if (!d->gpu)
        return arena_init(&e->own, own, "states and buffers", err);
    if (check_fit(e, own + shared, err) ||
        device_alloc(d->at, own, "states and buffers", &d->memory[0], err) ||
        device_alloc(d->at, shared, "payloads", &d->memory[1], err) ||
        device_host_alloc(d->at, d->host_bytes, "host buffers", &d->host_memory, err))
        return -1;
    arena_borrow(&e->own, d->memory[0], own);
    arena_borrow(&e->shared, d->memory[1], shared);
    arena_borrow(&e->host, d->host_memory, d->host_bytes);
    return 0;
}

static int device_open_all(struct device *at, struct device_event **event, int n,
                           struct err *err)
{
    for (int i = 0; i < n; i++)
        if (device_event_open(at, &event[i], err))
            return -1;
    return 0;
}

int engine_device_events(struct engine *e, struct err *err)
{
    struct engine_device *d = &e->device;

    if (device_open_all(d->at, d->moved, STEP_COMPUTE, err) ||
        device_open_all(d->at, &d->drained, 1, err))
        return -1;
    for (int i = 0; i < e->step.space.slots; i++)
        if (device_open_all(d->at, &e->slot[i].used, 1, err))
            return -1;
    for (int i = 0; i < e->step.shape.buckets; i++)
        if (device_open_all(d->at, &e->bucket[i].packed, 1, err))
            return -1;
    for (int i = 0; i < e->model->units; i++)
        if (device_open_all(d->at, &e->unit[i].added, 1, err) ||
            device_open_all(d->at, &e->unit[i].updated, 1, err))
            return -1;
    return 0;
}

void engine_device_events_close(struct engine *e)
{
    struct engine_device *d = &e->device;

    for (int i = 0; e->slot && i < e->step.space.slots; i++)
        device_event_close(e->slot[i].used);
    for (int i = 0; e->bucket && i < e->step.shape.buckets; i++)
        device_event_close(e->bucket[i].packed);
    for (int i = 0; e->unit && i < e->model->units; i++) {
        device_event_close(e->unit[i].added);
        device_event_close(e->unit[i].updated);
    }
    for (int i = 0; i < STEP_COMPUTE; i++)
        device_event_close(d->moved[i]);
    device_event_close(d->drained);
}

void engine_device_drain(struct engine *e)
{
    struct engine_device *d = &e->device;
    struct device_queue *const queue[] = {d->compute, d->move, d->host};
    struct err kept; /* reported where the work was needed */

    for (size_t i = 0; i < sizeof queue / sizeof *queue; i++)
        if (queue[i])
            (void)device_sync(queue[i], &kept);
}

void engine_device_close(struct engine *e)
{
    struct engine_device *d = &e->device;

    kern_close(&d->kern);
    kern_close(&d->mover);
    kern_close(&d->host_kern);
    device_queue_close(d->compute);
    device_queue_close(d->move);
    device_queue_close(d->host);
    for (int i = 0; i < 2 && d->at; i++)
        device_free(d->at, d->memory[i]);
    if (d->at)
        device_host_free(d->at, d->host_memory);
    device_close(d->own);
    if (d->lock)
        pthread_mutex_destroy(d->lock);
    mem_free(d->lock);
}

void engine_wait_compute(struct engine *e)
{
    device_record(e->device.compute, e->device.drained);
}

int engine_device_state(const struct engine *e, struct err *err)
{
    return device_done(e->device.drained, err) < 0 ? -1 : 0;
}

/* Copies one piece, through pinned memory. */
static int copy_piece(const struct engine_device *d, void *to, const void *from, int64_t bytes,
                      struct err *err)
{
    device_wait(d->host, d->drained);
    device_copy(d->host, to, from, bytes);
    return device_sync(d->host, err);
}

int engine_get(const struct engine *e, void *to, enum dtype to_type, const void *from,
               enum dtype type, int64_t n, struct err *err)
{
    const struct engine_device *d = &e->device;
    int64_t size = dtype_bytes(type), to_size = dtype_bytes(to_type);
    int rc = 0;

    if (!d->gpu) {
        dtype_convert(to, to_type, from, type, n);
        return 0;
    }
    pthread_mutex_lock(d->lock);
    for (int64_t at = 0; rc == 0 && at < n; at += ENGINE_PIECE) {
        int64_t part = n - at < ENGINE_PIECE ? n - at : ENGINE_PIECE;
        rc = copy_piece(d, d->io, (const char *)from + at * size, part * size, err);
        if (rc == 0)
            dtype_convert((char *)to + at * to_size, to_type, d->io, type, part);
    }
    pthread_mutex_unlock(d->lock);
    return rc;
}

/*
 * On a GPU the blocks of a piece are coded on the host, as a moment of their own: in d->io,
 * which has space for its scales and codes.
 */
int engine_moment(const struct engine *e, const struct kern_moment *m, int64_t at, float *x,
                  int64_t n, int put, struct err *err)
{
    const struct engine_device *d = &e->device;
    int rc = 0;

    if (!d->gpu && put)
        kern_moment_put(m, at, x, n, NULL);
    else if (!d->gpu)
        kern_moment_get(x, m, at, n);
    if (!d->gpu)
        return 0;
    pthread_mutex_lock(d->lock);
    for (int64_t part; rc == 0 && n > 0; at += part, x += part, n -= part) {
        int64_t skip = at % MOMENTS_BLOCK, first = at - skip;
        part = n < ENGINE_PIECE - skip ? n : ENGINE_PIECE - skip;
        const struct kern_moment here = {m->type, m->second, d->io, skip + part};
        uint8_t *code = kern_moment_codes(d->io, here.elems);
        uint8_t *far = kern_moment_codes(m->data, m->elems) + first;
        char *scale = d->io, *far_scale = (char *)m->data + first / MOMENTS_BLOCK * 4;
        int64_t scales = (char *)code - scale;
        if (put)
            kern_moment_put(&here, 0, x, part, NULL);
        rc = err_any(
            copy_piece(d, put ? far_scale : scale, put ? scale : far_scale, scales, err) ||
            copy_piece(d, put ? far : code, put ? code : far, here.elems, err));
        if (rc == 0 && !put)
            kern_moment_get(x, &here, skip, part);
    }
    pthread_mutex_unlock(d->lock);
    return rc;
}

int engine_put_params(const struct engine *e, void *to, enum dtype type, const float *x,
                      enum dtype seen, int64_t n, struct err *err)
{
    const struct engine_device *d = &e->device;
    struct kern host_kern = d->host_kern;

    if (!d->gpu) {
        host_kern.op->round(&host_kern, to, type, x, seen, n);
        return 0;
    }
    pthread_mutex_lock(d->lock);
    host_kern.op->round(&host_kern, d->io, type, x, seen, n);
    int rc = copy_piece(d, to, d->io, n * dtype_bytes(type), err);
    pthread_mutex_unlock(d->lock);
    return rc;
}
