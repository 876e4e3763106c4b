/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libparo-nccl.so, preloaded: a program's ncclAllGather, ncclReduceScatter and ncclAllReduce as
 * schedules where those win, in the order of its streams; NCCL does everything else, and all of
 * it where anything is unusual.
 *
 *     ncclCommInitRank      NCCL's, then the ranks tell each other where they are
 *     ncclAllReduce         ours, or NCCL's; in a group: when the outermost one ends
 *     ncclGroupEnd          NCCL's, then what of the group is ours
 *     ncclCommDestroy       ours first, then NCCL's
 *
 * Communicators that are made in a group or do not block are left to NCCL altogether, as are
 * those made by functions that are not here.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "shim/shim_nccl.h"

#define EXPORT __attribute__((visibility("default")))

/* NCCL's header leaves the brackets empty. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

struct entry {
    struct entry *next;
    ncclComm_t comm;
    struct shim_comm *ours;
};

/* Nobody calls a preloaded library who could keep these for it. */
static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    struct shim_real real;
    struct entry *entries; /* under the lock */
} shim = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    int own, depth, calls; /* calls: of this thread's group, that are ours */
    size_t room;
    struct shim_call *call;
} here;

int shim_own(int own)
{
    int was = here.own;

    here.own = own;
    return was;
}

/* The next one behind us; what a program has opened for itself is not found so. */
static void find(const char *name, void *out)
{
    void *p = dlsym(RTLD_NEXT, name), *library = NULL;

    if (!p && (library = dlopen("libnccl.so.2", RTLD_NOLOAD | RTLD_LAZY)))
        p = dlsym(library, name);
    memcpy(out, &p, sizeof p); /* ISO C has no other way from an object to a function */
}

static void find_all(void)
{
    find("ncclAllGather", &shim.real.all_gather);
    find("ncclReduceScatter", &shim.real.reduce_scatter);
    find("ncclAllReduce", &shim.real.all_reduce);
    find("ncclCommInitRank", &shim.real.init);
    find("ncclCommInitRankConfig", &shim.real.init_config);
    find("ncclCommSplit", &shim.real.split);
    find("ncclCommFinalize", &shim.real.finalize);
    find("ncclCommDestroy", &shim.real.destroy);
    find("ncclCommAbort", &shim.real.abort);
    find("ncclGroupStart", &shim.real.group_start);
    find("ncclGroupEnd", &shim.real.group_end);
}

static const struct shim_real *real(void)
{
    pthread_once(&shim.once, find_all);
    return &shim.real;
}

static struct shim_comm *lookup(ncclComm_t comm)
{
    struct shim_comm *c = NULL;

    pthread_mutex_lock(&shim.lock);
    for (struct entry *e = shim.entries; e; e = e->next)
        c = e->comm == comm ? e->ours : c;
    pthread_mutex_unlock(&shim.lock);
    return c;
}

/* A communicator was made: whether it is one that we may know. */
static void learn(ncclComm_t comm, const ncclConfig_t *config)
{
    int blocks = !config || config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking;

    if (!comm || here.own || here.depth || !blocks)
        return;
    here.own = 1;
    struct shim_comm *c = shim_comm_new(comm, real());
    here.own = 0;
    if (!c)
        return;
    struct entry *e = mem_new(1, sizeof *e);
    pthread_mutex_lock(&shim.lock);
    *e = (struct entry){shim.entries, comm, c};
    shim.entries = e;
    pthread_mutex_unlock(&shim.lock);
}

static void forget(ncclComm_t comm, int in_good_order)
{
    struct entry *gone = NULL;

    if (here.own)
        return;
    pthread_mutex_lock(&shim.lock);
    for (struct entry **e = &shim.entries; *e && !gone;) {
        if ((*e)->comm == comm) {
            gone = *e;
            *e = gone->next;
        } else {
            e = &(*e)->next;
        }
    }
    pthread_mutex_unlock(&shim.lock);
    if (gone)
        shim_comm_free(gone->ours, in_good_order);
    mem_free(gone);
}

static ncclResult_t pass(const struct shim_call *c)
{
    const struct shim_real *r = real();

    switch (c->phases) {
    case SCHEDULE_ALL_GATHER:
        return r->all_gather(c->in, c->out, c->count, c->type, c->comm, c->stream);
    case SCHEDULE_REDUCE_SCATTER:
        return r->reduce_scatter(c->in, c->out, c->count, c->type, c->op, c->comm, c->stream);
    default:
        return r->all_reduce(c->in, c->out, c->count, c->type, c->op, c->comm, c->stream);
    }
}

static const char *name_of(const struct shim_call *c)
{
    return c->phases == SCHEDULE_ALL_GATHER       ? "ncclAllGather"
           : c->phases == SCHEDULE_REDUCE_SCATTER ? "ncclReduceScatter"
                                                  : "ncclAllReduce";
}

static ncclResult_t ask(struct shim_call call)
{
    struct shim_comm *c = here.own ? NULL : lookup(call.comm);
    const char *why = c ? shim_comm_passes(c, &call) : "a communicator that is not known";

    if (here.own)
        return pass(&call);
    shim_debug("%s of %zu: %s%s", name_of(&call), call.count, why ? "passed on: " : "ours",
               why ? why : "");
    if (why)
        return pass(&call);
    if (here.depth == 0)
        return shim_comm_run(c, &call);
    here.call = mem_grow(here.call, &here.room, (size_t)here.calls + 1, sizeof *here.call);
    here.call[here.calls++] = call;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream)
{
    return ask(
        (struct shim_call){SCHEDULE_ALL_GATHER, in, out, count, type, ncclSum, comm, stream});
}

EXPORT ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                                      ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream)
{
    return ask(
        (struct shim_call){SCHEDULE_REDUCE_SCATTER, in, out, count, type, op, comm, stream});
}

EXPORT ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return ask((struct shim_call){SCHEDULE_ALL_REDUCE, in, out, count, type, op, comm, stream});
}

EXPORT ncclResult_t ncclGroupStart(void)
{
    here.depth += !here.own;
    return real()->group_start();
}

/* What is ours of a group comes behind what is NCCL's: on every rank. */
EXPORT ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t rc = real()->group_end();

    if (here.own)
        return rc;
    here.depth -= here.depth > 0;
    if (here.depth)
        return rc;
    for (int i = 0; i < here.calls; i++) {
        struct shim_comm *c = lookup(here.call[i].comm);
        ncclResult_t one = c ? shim_comm_run(c, &here.call[i]) : pass(&here.call[i]);
        rc = rc == ncclSuccess ? one : rc;
    }
    here.calls = 0;
    return rc;
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    int was = shim_own(1); /* NCCL may come back here */
    ncclResult_t rc = real()->init(comm, nranks, id, rank);

    shim_own(was);
    if (rc == ncclSuccess)
        learn(*comm, NULL);
    return rc;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id,
                                           int rank, ncclConfig_t *config)
{
    int was = shim_own(1);
    ncclResult_t rc = real()->init_config(comm, nranks, id, rank, config);

    shim_own(was);
    if (rc == ncclSuccess)
        learn(*comm, config);
    return rc;
}

/* A child blocks as its parent does, unless its own configuration says otherwise. */
EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child,
                                  ncclConfig_t *config)
{
    int was = shim_own(1);
    ncclResult_t rc = real()->split(comm, color, key, child, config);

    shim_own(was);
    if (rc == ncclSuccess && lookup(comm))
        learn(*child, config);
    return rc;
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    forget(comm, 1);
    return real()->finalize(comm);
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    forget(comm, 1);
    return real()->destroy(comm);
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    forget(comm, 0);
    return real()->abort(comm);
}
