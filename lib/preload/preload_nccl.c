/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a program's ncclAllGather, ncclReduceScatter and ncclAllReduce as schedules if these are
 * faster, in the order of its streams (libparo-nccl.so, preloaded).  NCCL runs all other calls,
 * and every call in unusual situations.
 *
 *     ncclCommInitRank      NCCL's, then the ranks exchange their places
 *     ncclAllReduce         ours, or NCCL's; in a group: when the outermost one ends
 *     ncclCommDestroy       ours first, then NCCL's; in a group: ours when it has ended
 *     ncclCommAbort         both at the same time: either's kernels may wait for the other's;
 *                           likewise ncclCommRevoke
 *     ncclGroupEnd          NCCL's, then our calls of the group
 *
 * Nonblocking communicators, and those made by functions not listed here, are left to NCCL.
 * Whether a rank makes a communicator inside a group must not change its decision, since other
 * ranks may make it outside a group and wait for this rank's answer.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "preload/preload_nccl.h"

#define EXPORT __attribute__((visibility("default")))

/* NCCL's header declares these without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
/* Older headers of NCCL do not declare these, so they have other names here. */
EXPORT ncclResult_t preload_revoke(ncclComm_t comm, int flags) __asm__("ncclCommRevoke");
EXPORT ncclResult_t preload_simulate_end(void *info) __asm__("ncclGroupSimulateEnd");

struct entry {
    struct entry *next;
    ncclComm_t comm;
    struct preload_comm *ours;
};

/* Globals, because a preloaded library has no caller that could keep them. */
static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    struct preload_real real;
    struct entry *entries; /* guarded by the lock */
} preload = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* This thread's group: calls, new communicators, removed ones. */
static _Thread_local struct {
    int own, depth, calls, made, removed, metered;
    size_t space, made_space, removed_space, metered_space;
    int *place; /* of metered calls */
    struct preload_call *call;
    ncclComm_t **new;
    struct preload_comm **old;
} here;

int preload_own(int own)
{
    int was = here.own;

    here.own = own;
    return was;
}

/* Finds the next definition after this library.  Does not find functions in libraries that the
   program opened privately. */
static void nccl_find(const char *name, void *out)
{
    void *p = dlsym(RTLD_NEXT, name), *library = NULL;

    if (!p && (library = dlopen("libnccl.so.2", RTLD_NOLOAD | RTLD_LAZY)))
        p = dlsym(library, name);
    /* ISO C has no other conversion from an object to a function pointer */
    memcpy(out, &p, sizeof p);
}

static void find_all(void)
{
    nccl_find("ncclAllGather", &preload.real.all_gather);
    nccl_find("ncclReduceScatter", &preload.real.reduce_scatter);
    nccl_find("ncclAllReduce", &preload.real.all_reduce);
    nccl_find("ncclCommInitRank", &preload.real.init);
    nccl_find("ncclCommInitRankConfig", &preload.real.init_config);
    nccl_find("ncclCommSplit", &preload.real.split);
    nccl_find("ncclCommFinalize", &preload.real.finalize);
    nccl_find("ncclCommDestroy", &preload.real.destroy);
    nccl_find("ncclCommAbort", &preload.real.abort);
    nccl_find("ncclCommRevoke", &preload.real.revoke);
    nccl_find("ncclGroupStart", &preload.real.group_start);
    nccl_find("ncclGroupEnd", &preload.real.group_end);
    nccl_find("ncclGroupSimulateEnd", &preload.real.simulate_end);
}

static const struct preload_real *real(void)
{
    pthread_once(&preload.once, find_all);
    return &preload.real;
}

/* The communicator is kept until preload_comm_leave. */
static struct preload_comm *nccl_enter(ncclComm_t comm)
{
    struct preload_comm *c = NULL;

    pthread_mutex_lock(&preload.lock);
    for (struct entry *e = preload.entries; e; e = e->next)
        c = e->comm == comm ? e->ours : c;
    if (c)
        preload_comm_enter(c);
    pthread_mutex_unlock(&preload.lock);
    return c;
}

static void nccl_keep(ncclComm_t comm, struct preload_comm *ours)
{
    struct entry *e = mem_new(1, sizeof *e);

    pthread_mutex_lock(&preload.lock);
    *e = (struct entry){preload.entries, comm, ours};
    preload.entries = e;
    pthread_mutex_unlock(&preload.lock);
}

static struct preload_comm *nccl_take(ncclComm_t comm)
{
    struct preload_comm *c = NULL;
    struct entry *removed = NULL;

    if (here.own)
        return NULL;
    pthread_mutex_lock(&preload.lock);
    for (struct entry **e = &preload.entries; *e && !removed;) {
        if ((*e)->comm == comm) {
            removed = *e;
            *e = removed->next;
        } else {
            e = &(*e)->next;
        }
    }
    pthread_mutex_unlock(&preload.lock);
    c = removed ? removed->ours : NULL;
    mem_free(removed);
    return c;
}

/* Registers communicators made together.  After an error there are none. */
static ncclResult_t nccl_learn(ncclComm_t **where, int n)
{
    struct preload_comm **ours = mem_new((size_t)n, sizeof *ours);
    ncclComm_t *comm = mem_new((size_t)n, sizeof *comm);

    for (int i = 0; i < n; i++)
        comm[i] = *where[i];
    ncclResult_t rc = preload_comm_new(comm, n, real(), ours);
    for (int i = 0; i < n; i++) {
        if (rc == ncclSuccess && ours[i])
            nccl_keep(comm[i], ours[i]);
        if (rc == ncclSuccess)
            continue;
        if (ours[i])
            preload_comm_abort(ours[i]);
        (void)real()->abort(comm[i]);
        *where[i] = NULL;
    }
    /* Freed after all are aborted: runs of one may depend on the others. */
    for (int i = 0; rc != ncclSuccess && i < n; i++)
        if (ours[i])
            preload_comm_free(ours[i]);
    mem_free(comm);
    mem_free(ours);
    return rc;
}

/* A communicator exists (the call returned it), or will when the group ends. */
static ncclResult_t made(ncclComm_t *comm, const ncclConfig_t *config)
{
    int blocks = !config || config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking;

    if (here.own || !blocks)
        return ncclSuccess;
    if (here.depth == 0)
        return *comm ? nccl_learn(&comm, 1) : ncclSuccess;
    here.new = mem_grow(here.new, &here.made_space, (size_t)here.made + 1, sizeof *here.new);
    here.new[here.made++] = comm;
    return ncclSuccess;
}

/* The program has destroyed its communicator, or will have when the group ends. */
static void nccl_forget(struct preload_comm *c)
{
    if (here.depth == 0) {
        preload_comm_free(c);
        return;
    }
    here.old =
        mem_grow(here.old, &here.removed_space, (size_t)here.removed + 1, sizeof *here.old);
    here.old[here.removed++] = c;
}

static ncclResult_t nccl_pass(const struct preload_call *c)
{
    const struct preload_real *r = real();

    switch (c->phases) {
    case SCHEDULE_ALL_GATHER:
        return r->all_gather(c->in, c->out, c->count, c->type, c->comm, c->stream);
    case SCHEDULE_REDUCE_SCATTER:
        return r->reduce_scatter(c->in, c->out, c->count, c->type, c->op, c->comm, c->stream);
    default:
        return r->all_reduce(c->in, c->out, c->count, c->type, c->op, c->comm, c->stream);
    }
}

/* Runs a call as a schedule or in NCCL, alike on all ranks. */
static ncclResult_t nccl_run(const struct preload_call *call)
{
    struct preload_comm *c = nccl_enter(call->comm);

    if (!c)
        return nccl_pass(call);
    ncclResult_t rc = preload_comm_run(c, call);
    preload_comm_leave(c);
    return rc;
}

static ncclResult_t nccl_handle_call(struct preload_call call)
{
    struct preload_comm *c = here.own ? NULL : nccl_enter(call.comm);
    const char *why = c ? preload_comm_passes(c, &call) : "an unknown communicator";
    const char *name = call.phases == SCHEDULE_ALL_GATHER       ? "ncclAllGather"
                       : call.phases == SCHEDULE_REDUCE_SCATTER ? "ncclReduceScatter"
                                                                : "ncclAllReduce";

    int place = c ? preload_comm_meter(c, &call) : 0;
    if (c)
        preload_comm_leave(c);
    if (here.own)
        return nccl_pass(&call);
    plugin_debug("%s of %zu: %s%s", name, call.count, why ? "passed on: " : "ours",
                 why ? why : "");
    if (here.depth == 0) {
        ncclResult_t rc = why ? nccl_pass(&call) : nccl_run(&call);
        preload_meter_after(place);
        return rc;
    }
    if (place) {
        here.place = mem_grow(here.place, &here.metered_space, (size_t)here.metered + 1,
                              sizeof *here.place);
        here.place[here.metered++] = place;
    }
    if (why)
        return nccl_pass(&call);
    here.call = mem_grow(here.call, &here.space, (size_t)here.calls + 1, sizeof *here.call);
    here.call[here.calls++] = call;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream)
{
    return nccl_handle_call((struct preload_call){SCHEDULE_ALL_GATHER, in, out, count, type,
                                                  ncclSum, comm, stream});
}

EXPORT ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                                      ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream)
{
    return nccl_handle_call(
        (struct preload_call){SCHEDULE_REDUCE_SCATTER, in, out, count, type, op, comm, stream});
}

EXPORT ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return nccl_handle_call(
        (struct preload_call){SCHEDULE_ALL_REDUCE, in, out, count, type, op, comm, stream});
}

EXPORT ncclResult_t ncclGroupStart(void)
{
    here.depth += !here.own;
    return real()->group_start();
}

/* Schedules of a group come after its NCCL calls, on every rank. */
EXPORT ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t rc = real()->group_end();
    int n = 0;

    if (here.own)
        return rc;
    here.depth -= here.depth > 0;
    if (here.depth)
        return rc;
    for (int i = 0; i < here.made; i++)
        if (rc == ncclSuccess && *here.new[i]) /* NCCL has created it */
            here.new[n++] = here.new[i];
    here.made = 0;
    if (n)
        rc = nccl_learn(here.new, n);
    for (int i = 0; i < here.calls; i++) {
        ncclResult_t one = nccl_run(&here.call[i]);
        rc = rc == ncclSuccess ? one : rc;
    }
    here.calls = 0;
    for (int i = 0; i < here.metered; i++)
        preload_meter_after(here.place[i]);
    here.metered = 0;
    for (int i = 0; i < here.removed; i++)
        preload_comm_free(here.old[i]);
    here.removed = 0;
    return rc;
}

/* Simulation executes no call of the group. */
ncclResult_t preload_simulate_end(void *info)
{
    ncclResult_t rc = real()->simulate_end ? real()->simulate_end(info) : ncclInvalidUsage;

    if (here.own)
        return rc;
    here.depth -= here.depth > 0;
    for (int i = 0; i < here.metered && here.depth == 0; i++)
        preload_meter_after(here.place[i]);
    if (here.depth == 0)
        here.calls = here.made = here.metered = 0;
    return rc;
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    int was = preload_own(1); /* NCCL may call back into this library */
    ncclResult_t rc = real()->init(comm, nranks, id, rank);

    preload_own(was);
    return rc == ncclSuccess ? made(comm, NULL) : rc;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id,
                                           int rank, ncclConfig_t *config)
{
    int was = preload_own(1);
    ncclResult_t rc = real()->init_config(comm, nranks, id, rank, config);

    preload_own(was);
    return rc == ncclSuccess ? made(comm, config) : rc;
}

/* A child is blocking like its parent unless its own configuration differs. */
EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child,
                                  ncclConfig_t *config)
{
    int was = preload_own(1);
    ncclResult_t rc = real()->split(comm, color, key, child, config);

    preload_own(was);
    struct preload_comm *parent = rc == ncclSuccess && !was ? nccl_enter(comm) : NULL;
    if (!parent)
        return rc;
    preload_comm_leave(parent);
    return made(child, config);
}

/* Normal end: ours first, unless a group would end it together with NCCL's. */
static ncclResult_t preload_nccl_close_comm(ncclComm_t comm, ncclResult_t (*close)(ncclComm_t))
{
    struct preload_comm *c = nccl_take(comm);

    if (c)
        nccl_forget(c);
    return close(comm);
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return preload_nccl_close_comm(comm, real()->finalize);
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return preload_nccl_close_comm(comm, real()->destroy);
}

/* Aborts runs in NCCL, and ours at the same time. */
static ncclResult_t cut_short(ncclComm_t comm, int revoke, int flags)
{
    struct preload_comm *c = nccl_take(comm);

    if (c)
        preload_comm_abort(c);
    ncclResult_t rc = revoke ? real()->revoke(comm, flags) : real()->abort(comm);
    if (c)
        nccl_forget(c);
    return rc;
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return cut_short(comm, 0, 0);
}

ncclResult_t preload_revoke(ncclComm_t comm, int flags)
{
    return real()->revoke ? cut_short(comm, 1, flags) : ncclInvalidUsage;
}

/* ---- threads ---- */

/*
 * A thread keeps the program's settings for it, while threads that NCCL starts for us are ours.
 * While the program captures a stream in global mode, CUDA rejects the calls that create a
 * communicator in every thread that has not switched to another capture mode.
 */
struct start {
    void *(*run)(void *arg);
    void *arg;
    int gpu; /* GPU of the requesting thread: CUDA selects GPU 0 for a new one */
};

struct preload_manners preload_be_ours(void)
{
    struct preload_manners was = {.gpu = -1, .mode = cudaStreamCaptureModeRelaxed};

    if (cudaGetDevice(&was.gpu) != cudaSuccess)
        was.gpu = -1;
    (void)cudaThreadExchangeStreamCaptureMode(&was.mode);
    return was;
}

void preload_be_again(struct preload_manners was)
{
    (void)cudaThreadExchangeStreamCaptureMode(&was.mode);
    if (was.gpu >= 0)
        (void)cudaSetDevice(was.gpu);
}

static void *run_ours(void *arg)
{
    struct start s = *(struct start *)arg;

    mem_free(arg);
    preload_own(1);
    if (s.gpu >= 0)
        (void)cudaSetDevice(s.gpu);
    (void)preload_be_ours();
    return s.run(s.arg);
}

__attribute__((visibility("default"))) int
pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*code)(void *), void *arg)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *next = dlsym(RTLD_NEXT, "pthread_create");
    int own = preload_own(0);

    memcpy(&create, &next, sizeof next);
    preload_own(own);
    if (!own)
        return create(out, attr, code, arg);
    struct start *s = mem_new(1, sizeof *s);
    *s = (struct start){code, arg, -1};
    if (cudaGetDevice(&s->gpu) != cudaSuccess)
        s->gpu = -1;
    int rc = create(out, attr, run_ours, s);
    if (rc)
        mem_free(s);
    return rc;
}
