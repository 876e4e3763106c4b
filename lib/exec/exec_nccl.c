/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes and aborts communicators, and bounds every wait by a deadline.  Communicators do not
 * block: a call that NCCL continues in the background is polled until the deadline.  Leaves
 * runs to exec_nccl_run.c.  Reference: NCCL's user guide, 2.28; nothing here is newer than
 * 2.19.
 */
#include "exec/exec_nccl_inside.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/tick.h"

enum {
    TRACKS_USUAL = 4,
    /*
     * Blocks that all tracks together may keep waiting on the GPU.  A block that waits for its
     * peer holds a multiprocessor.  With at most 64, fewer than half of the 132 of an H100, all
     * tracks and the adding kernels always find free multiprocessors: none waits for one that a
     * waiting block holds.
     */
    BLOCKS = 64
};

void exec_nccl_nap(int *turn)
{
    struct timespec t = {.tv_nsec = 5000};

    if (*turn < 5) /* as the MPI executor's runner: 5 yields, then 5 us doubling to 160 us */
        t.tv_nsec = 0;
    else
        t.tv_nsec <<= *turn - 5 < 5 ? *turn - 5 : 5;
    ++*turn;
    nanosleep(&t, NULL);
}

int exec_nccl_check(const struct exec_nccl *x, struct err *err)
{
    if (!x->failed)
        return 0;
    *err = x->failure;
    return -1;
}

static void *abort_one(void *comm)
{
    (void)ncclCommAbort(comm);
    return NULL;
}

/* Not in an NCCL group: older supported versions abort the members of a group one after the
   other. */
void exec_nccl_abort_all(const ncclComm_t *comm, int n)
{
    pthread_t *thread = mem_new((size_t)n + 1, sizeof *thread);
    int *begun = mem_new((size_t)n + 1, sizeof *begun);

    for (int i = 0; i < n; i++)
        if (comm[i])
            begun[i] = pthread_create(&thread[i], NULL, abort_one, comm[i]) == 0;
    for (int i = 0; i < n; i++)
        if (comm[i] && !begun[i])
            abort_one(comm[i]);
    for (int i = 0; i < n; i++)
        if (begun[i])
            pthread_join(thread[i], NULL);
    mem_free(thread);
    mem_free(begun);
}

/* Aborts the communicators of all tracks. */
static void abort_tracks(struct exec_nccl *x)
{
    ncclComm_t aborted[TURN_TRACKS_MOST] = {NULL}, late[TURN_TRACKS_MOST] = {NULL};
    int more = 0;

    for (int t = 0; t < x->tracks; t++)
        aborted[t] = x->track[t].comm;
    exec_nccl_abort_all(aborted, x->tracks);
    /* NCCL may fill in a child communicator until its parent is aborted. */
    for (int t = 0; t < x->tracks; t++) {
        late[t] = x->track[t].comm == aborted[t] ? NULL : x->track[t].comm;
        more |= late[t] != NULL;
        x->track[t].comm = NULL;
        x->track[t].registered = NULL;
    }
    if (more)
        exec_nccl_abort_all(late, x->tracks);
}

int exec_nccl_fail(struct exec_nccl *x, struct err *err)
{
    int own = !err->has_rank;

    if (x->failed) {
        *err = x->failure;
        return -1;
    }
    if (own)
        err_prefix(err, "rank %d: ", x->rank);
    err->has_rank = 1;
    if (x->tell) /* a rank that hears of it leaves and does not reach the agreement */
        err->code = ERR_PEER;
    x->failed = 1;
    x->failure = *err;
    /* Before the others can notice the failure by other means. */
    if (own && x->tell)
        x->tell(x->arg, err);
    abort_tracks(x); /* also ends the waits on the GPU */
    return -1;
}

/* Polls for failures that other ranks reported: -1. */
static int hears(struct exec_nccl *x, struct err *err)
{
    const double every_s = 1e-3; /* a call costs less than 1 us of it */
    double now = tick_now_s();

    if (!x->hear || now - x->heard_s < every_s)
        return 0;
    x->heard_s = now;
    return x->hear(x->arg, err);
}

/* A rank that NCCL reports lost may have sent the reason before: waits for its message. */
static int hears_soon(struct exec_nccl *x, struct err *err)
{
    const double on_its_way_s = 1;
    double since = tick_now_s();
    int turn = 0;

    while (x->hear && tick_now_s() - since < on_its_way_s) {
        if (hears(x, err))
            return -1;
        exec_nccl_nap(&turn);
    }
    return 0;
}

static int nccl_refused(struct exec_nccl *x, ncclComm_t comm, ncclResult_t rc, const char *call,
                        const char *place, struct err *err)
{
    const char *more = rc == ncclInProgress ? NULL : ncclGetLastError(comm);
    int peer = rc == ncclRemoteError || rc == ncclSystemError;

    if (peer && hears_soon(x, err))
        return exec_nccl_fail(x, err);
    if (rc == ncclUnhandledCudaError && x->begin && device_done(x->begin, err) < 0)
        err_prefix(err, "%s %s: ", call, place); /* the device's error is more specific */
    else if (rc == ncclInProgress)
        err_set(err, ERR_PEER, "%s %s: no answer from other ranks for %g s", call, place,
                x->deadline_s);
    else
        err_set(err, peer ? ERR_PEER : ERR_DEVICE, "%s %s: %s%s%.400s", call, place,
                ncclGetErrorString(rc), more && *more ? ": " : "", more ? more : "");
    return exec_nccl_fail(x, err);
}

int exec_nccl_drain(struct exec_nccl *x, ncclComm_t comm, ncclResult_t rc, const char *call,
                    struct err *err, const char *place, ...)
{
    double since = tick_now_s();
    char where[160];
    va_list ap;
    int turn = 0;

    if (rc == ncclSuccess || rc == ncclInProgress) {
        ncclResult_t state = ncclSuccess;
        rc = ncclCommGetAsyncError(comm, &state);
        rc = rc == ncclSuccess ? state : rc;
        while (rc == ncclInProgress && tick_now_s() - since < x->deadline_s) {
            if (hears(x, err))
                return exec_nccl_fail(x, err);
            exec_nccl_nap(&turn);
            rc = ncclCommGetAsyncError(comm, &state);
            rc = rc == ncclSuccess ? state : rc;
        }
    }
    if (rc == ncclSuccess)
        return 0;
    va_start(ap, place);
    vsnprintf(where, sizeof where, place, ap);
    va_end(ap);
    return nccl_refused(x, comm, rc, call, where, err);
}

int exec_nccl_healthy(struct exec_nccl *x, struct err *err)
{
    if (hears(x, err))
        return exec_nccl_fail(x, err);
    for (int t = 0; t < x->tracks; t++) {
        ncclResult_t state = ncclSuccess;
        char where[32];
        if (!x->track[t].comm)
            continue;
        ncclResult_t rc = ncclCommGetAsyncError(x->track[t].comm, &state);
        rc = rc == ncclSuccess ? state : rc;
        if (rc == ncclSuccess || rc == ncclInProgress)
            continue;
        snprintf(where, sizeof where, "in a run, track %d", t);
        return nccl_refused(x, x->track[t].comm, rc, "ncclCommGetAsyncError", where, err);
    }
    return 0;
}

int exec_nccl_wait(struct exec_nccl *x, const struct device_event *e, const char *what,
                   struct err *err)
{
    double since = tick_now_s();
    int turn = 0, done;

    while ((done = device_done(e, err)) == 0) {
        if (exec_nccl_healthy(x, err))
            return -1;
        if (tick_now_s() - since > x->deadline_s) {
            err_set(err, ERR_PEER, "%s: no data from other ranks for %g s", what,
                    x->deadline_s);
            return exec_nccl_fail(x, err);
        }
        exec_nccl_nap(&turn);
    }
    return done < 0 ? exec_nccl_fail(x, err) : 0;
}

/* Broadcast by rank 0: the communicator's name, and whether it could be made. */
struct named {
    ncclUniqueId id;
    int rc;
};

static int make_comms(struct exec_nccl *x, const struct exec_nccl_options *o, struct err *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t *comm = &x->track[0].comm;
    struct named name = {.rc = ncclSuccess};

    config.blocking = 0;
    config.maxCTAs = BLOCKS / x->tracks;
    if (x->rank == 0)
        name.rc = (int)ncclGetUniqueId(&name.id);
    if (o->share(o->arg, &name, (int)sizeof name, 0, err))
        return exec_nccl_fail(x, err);
    if (name.rc != ncclSuccess)
        return nccl_refused(x, NULL, (ncclResult_t)name.rc, "ncclGetUniqueId", "at rank 0",
                            err);
    ncclResult_t rc = ncclCommInitRankConfig(comm, x->ranks, name.id, x->rank, &config);
    if (exec_nccl_drain(x, *comm, rc, "ncclCommInitRankConfig", err, "for track 0"))
        return -1;
    for (int t = 1; t < x->tracks; t++) {
        ncclComm_t parent = x->track[0].comm, *child = &x->track[t].comm;
        rc = ncclCommSplit(parent, 0, x->rank, child, &config);
        if (exec_nccl_drain(x, parent, rc, "ncclCommSplit", err, "for track %d", t) ||
            exec_nccl_drain(x, *child, ncclSuccess, "ncclCommSplit", err, "for track %d", t))
            return -1;
    }
    return 0;
}

static int make_queues(struct exec_nccl *x, struct err *err)
{
    if (device_queue_open(x->device, &x->door, err) ||
        device_event_open(x->device, &x->begin, err) ||
        device_event_open(x->device, &x->met, err))
        return -1;
    for (int q = 0; q < 2 * x->tracks; q++)
        if (device_queue_open(x->device, &x->track[q / 2].queue[q % 2], err))
            return -1;
    return 0;
}

/* Allocates memory that a peer's GPU or its network may access; registered where NCCL does
   that. */
static int make_memory(struct exec_nccl *x, int64_t bytes, struct err *err)
{
    void *touch = NULL;

    if (device_alloc(x->device, 64 + x->ranks, "NCCL's first messages", &touch, err))
        return -1;
    x->touch = touch;
    if (bytes == 0)
        return 0;
    device_stream(x->door); /* makes the GPU current for this thread */
    ncclResult_t rc = ncclMemAlloc(&x->taken, (size_t)bytes);
    if (rc != ncclSuccess)
        return err_set(err, ERR_SYS,
                       "cannot have %lld bytes of memory of the GPU for collectives: "
                       "ncclMemAlloc: %s",
                       (long long)bytes, ncclGetErrorString(rc));
    device_zero(x->door, x->taken, bytes);
    arena_borrow(&x->arena, x->taken, bytes);
    for (int t = 0; t < x->tracks; t++)
        if (ncclCommRegister(x->track[t].comm, x->taken, (size_t)bytes,
                             &x->track[t].registered) != ncclSuccess)
            x->track[t].registered = NULL; /* NCCL then copies through its own buffers */
    return device_sync(x->door, err);
}

/* ERR_INPUT: the device is not a GPU; ERR_ABSENT: this NCCL is too old. */
static int supported(const struct device *device, struct err *err)
{
    int version = 0;

    if (device_kind(device) != DEVICE_CUDA)
        return err_set(err, ERR_INPUT, "NCCL on device '%s', expected a GPU",
                       device_name(device));
    ncclGetVersion(&version);
    if (version < 21900) /* lacks ncclCommRegister, ncclMemAlloc */
        return err_set(err, ERR_ABSENT, "NCCL %d.%d.%d, expected 2.19 or newer",
                       version / 10000, version / 100 % 100, version % 100);
    return 0;
}

int exec_nccl_open(struct exec_nccl **out, const struct exec_nccl_options *o, struct err *err)
{
    int tracks = o->tracks ? o->tracks : TRACKS_USUAL;

    if (supported(o->device, err))
        return -1;
    struct exec_nccl *x = mem_new(1, sizeof *x);
    x->device = o->device;
    x->rank = o->rank;
    x->ranks = o->ranks;
    x->tracks = tracks < TURN_TRACKS_MOST ? tracks : TURN_TRACKS_MOST;
    x->deadline_s = o->deadline_s;
    x->tell = o->tell;
    x->hear = o->hear;
    x->arg = o->arg;
    for (int t = 0; t < x->tracks; t++)
        x->track[t].met = mem_new(2 * (size_t)x->ranks, 1);
    if (make_queues(x, err) || make_comms(x, o, err) || make_memory(x, o->bytes, err)) {
        exec_nccl_fail(x, err);
        exec_nccl_close(x);
        return -1;
    }
    *out = x;
    return 0;
}

/* Finalizes first, so that pending work for other ranks completes. */
static void nccl_close_comm(struct exec_nccl *x, struct exec_track *t)
{
    struct err ignored;

    if (!t->comm)
        return;
    if (t->registered)
        (void)ncclCommDeregister(t->comm, t->registered);
    if (exec_nccl_drain(x, t->comm, ncclCommFinalize(t->comm), "ncclCommFinalize", &ignored,
                        "at the end") == 0)
        (void)ncclCommDestroy(t->comm);
    t->comm = NULL;
}

void exec_nccl_close(struct exec_nccl *x)
{
    struct err err;

    if (!x)
        return;
    for (int t = 0; t < x->tracks; t++)
        for (int i = 0; i < 2; i++)
            if (x->track[t].queue[i] && device_sync(x->track[t].queue[i], &err))
                exec_nccl_fail(x, &err);
    for (int t = x->tracks - 1; t >= 0; t--)
        nccl_close_comm(x, &x->track[t]);
    for (int t = 0; t < x->tracks; t++) {
        device_queue_close(x->track[t].queue[0]);
        device_queue_close(x->track[t].queue[1]);
        mem_free(x->track[t].met);
    }
    if (x->taken)
        (void)ncclMemFree(x->taken);
    device_free(x->device, x->scratch);
    device_free(x->device, x->touch);
    device_event_close(x->begin);
    device_event_close(x->met);
    device_queue_close(x->door);
    mem_free(x);
}

void exec_nccl_abort(struct exec_nccl *x)
{
    if (x->failed)
        return;
    err_set(&x->failure, ERR_PEER, "rank %d: the communicators were aborted", x->rank);
    x->failure.has_rank = 1;
    x->failed = 1;
    abort_tracks(x);
}

/* ---- in a world ---- */

static int nccl_share(void *arg, void *bytes, int n, int root, struct err *err)
{
    return world_bcast(arg, bytes, n, root, err);
}

static void nccl_tell(void *arg, const struct err *err)
{
    world_alarm(arg, err);
}

static int nccl_hear(void *arg, struct err *err)
{
    return world_alarmed(arg, err);
}

int exec_nccl_open_world(struct exec_nccl **out, struct world *world, struct device *device,
                         int64_t bytes, struct err *err)
{
    struct exec_nccl_options o = {.device = device,
                                  .rank = world->rank,
                                  .ranks = world->ranks,
                                  .deadline_s = WORLD_SLOW * world->deadline_s,
                                  .bytes = bytes,
                                  .share = nccl_share,
                                  .tell = nccl_tell,
                                  .hear = nccl_hear,
                                  .arg = world};
    struct exec_nccl *x = NULL;

    /* No rank opens NCCL unless all can. */
    if (world_agree(world, supported(device, err), err))
        return -1;
    world_listen(world);
    world->slow++; /* NCCL first examines the whole machine, on every host */
    int rc = world_agree(world, exec_nccl_open(&x, &o, err), err);
    world->slow--;
    if (rc) {
        if (x)
            exec_nccl_abort(x); /* ranks that failed have left it */
        exec_nccl_close(x);
        return -1;
    }
    x->deadline_s = world->deadline_s;
    *out = x;
    return 0;
}

void *exec_nccl_take(struct exec_nccl *x, int64_t bytes)
{
    return arena_take(&x->arena, (bytes + 255) / 256 * 256);
}

int64_t exec_nccl_bytes(const struct exec_nccl *x)
{
    return x->arena.used + x->scratch_bytes;
}

int exec_nccl_built(void)
{
    return 1;
}

struct device_queue *exec_nccl_door(struct exec_nccl *x)
{
    return x->door;
}
