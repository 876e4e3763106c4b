/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps data of a communicator: which ranks share a host, whether all ranks read the same
 * table, and prepared calls.  Ranks must decide alike whether a call is ours, or they would
 * wait for each other.  So the decision depends on the call, which NCCL requires to be equal on
 * all ranks, and on facts that the ranks exchanged at the start.
 */
#include <assert.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fnv.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/tick.h"
#include "preload/preload_nccl.h"

enum {
    PLANS_MOST = 64, /* plans per communicator: each keeps events, none keeps data */
    TALK_BYTES = 256 /* bytes per rank: its place, or a communicator's id */
};

struct plan {
    unsigned phases;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    struct exec_nccl_handle *handle;
};

/* Messages between the ranks: sent over the program's communicator in a separate stream. */
struct talk {
    char *memory; /* [ranks + 1][TALK_BYTES] on the GPU; the last is this rank's */
    cudaStream_t stream;
    cudaEvent_t done;
    struct querying *querying; /* a request that has not returned: owned; NULL */
};

/*
 * NCCL may block in a call until the other ranks arrive, so a separate thread makes the call.
 * The thread ends at the latest when the program's communicators are aborted.
 */
struct querying {
    struct preload_comm **comm; /* [n], owned */
    int n;
    char mine[TALK_BYTES];
    size_t each;
    pthread_t thread;
    atomic_int is_back;
    ncclResult_t rc;
};

struct preload_comm {
    ncclComm_t comm; /* the program's communicator */
    const struct preload_real *real;
    int rank, ranks, gpu;
    struct groups groups;
    const char *passes; /* the reason to pass on all calls, or NULL */
    struct meter_comm metered;
    struct talk talk;
    struct exec_nccl *exec; /* created by the first call that is ours */
    cudaEvent_t before, behind;
    struct plan plan[PLANS_MOST];
    int plans;
    struct err failed; /* set: the communicator is unusable */
    int64_t took;
    /*
     * The program may abort the communicator while another of its threads is in a call of ours,
     * which then returns: `removed` is set, `calls` counts those inside.  `requests` is held
     * during a request on the program's communicator, so that this is not freed meanwhile.
     */
    atomic_int removed, calls;
    pthread_mutex_t requests;
    pthread_t ending;
    int ends;
};

/* The facts that ranks exchange. */
struct report {
    uint64_t host, process, table, off;
};

/* The host as NCCL identifies it: NCCL_HOSTID if it is set. */
static void nccl_comm_tell(struct report *t)
{
    const char *id = getenv("NCCL_HOSTID"), *off = getenv("PARO_DISABLE");
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    id = id && *id ? id : host;
    t->host = fnv_bytes(id, strlen(id));
    t->process = fnv_bytes(host, strlen(host)) ^ ((uint64_t)getpid() + 1) * 0x9e3779b97f4a7c15;
    t->table = plugin_table_hash();
    t->off = off && *off && strcmp(off, "0") != 0;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* Sends this rank's message, unless the program is aborting the communicator. */
static ncclResult_t query_one(struct preload_comm *c, const void *mine, size_t each)
{
    struct talk *t = &c->talk;
    char *at = t->memory + (size_t)c->ranks * TALK_BYTES;
    ncclResult_t rc = ncclInternalError;

    pthread_mutex_lock(&c->requests);
    if (!c->removed)
        rc =
            cudaSetDevice(c->gpu) == cudaSuccess &&
                    cudaMemcpyAsync(at, mine, each, cudaMemcpyDefault, t->stream) == cudaSuccess
                ? c->real->all_gather(at, t->memory, each, ncclUint8, c->comm, t->stream)
                : ncclUnhandledCudaError;
    pthread_mutex_unlock(&c->requests);
    return rc;
}

/* Ranks of one process wait for each other, so they send in one group. */
static void *query_all(void *arg)
{
    struct querying *a = arg;
    const struct preload_real *real = a->comm[0]->real;

    a->rc = a->n > 1 ? real->group_start() : ncclSuccess;
    for (int i = 0; i < a->n && a->rc == ncclSuccess; i++)
        a->rc = query_one(a->comm[i], a->mine, a->each);
    if (a->n > 1) {
        ncclResult_t end = real->group_end();
        a->rc = a->rc == ncclSuccess ? end : a->rc;
    }
    a->is_back = 1;
    return NULL;
}

static void querying_end(struct talk *t)
{
    if (!t->querying)
        return;
    pthread_join(t->querying->thread, NULL);
    mem_free(t->querying->comm);
    mem_free(t->querying);
    t->querying = NULL;
}

static int nccl_comm_hear(void *arg, struct err *err)
{
    const struct preload_comm *c = arg;

    return c->removed ? err_set(err, ERR_PEER, "the program aborts the communicator") : 0;
}

/* PARO_NCCL_DEADLINE: limit of a wait for other ranks. */
static double deadline_of(void)
{
    const char *text = getenv("PARO_NCCL_DEADLINE");
    double s = 600; /* as in the library's own waits for other ranks */
    struct err err;

    if (text && *text && num_time(text, &s, &err))
        plugin_debug("PARO_NCCL_DEADLINE: %s", err.text);
    return s;
}

/* A rank without this library sends nothing. */
static int nothing_yet(struct preload_comm *c, double since, struct err *err)
{
    double deadline_s = deadline_of();

    if (nccl_comm_hear(c, err))
        return -1;
    if (tick_now_s() - since > deadline_s)
        return err_set(err, ERR_PEER, "no messages from other ranks for %g s", deadline_s);
    nap();
    return 0;
}

/* Starts sending the messages of all comm[n]. */
static int talk_request(struct preload_comm *const *comm, int n, const void *mine, size_t each,
                        struct err *err)
{
    struct talk *t = &comm[0]->talk;
    struct querying *a = t->querying = mem_new(1, sizeof *a);
    double since = tick_now_s();

    *a = (struct querying){.n = n, .each = each};
    memcpy(a->mine, mine, each);
    a->comm = mem_new((size_t)n, sizeof *a->comm);
    memcpy(a->comm, comm, (size_t)n * sizeof *comm);
    if (pthread_create(&a->thread, NULL, query_all, a)) {
        mem_free(a->comm);
        mem_free(a);
        t->querying = NULL;
        return err_set(err, ERR_SYS, "cannot start a thread for messages between ranks");
    }
    while (!a->is_back)
        if (nothing_yet(comm[0], since, err))
            return -1;
    ncclResult_t rc = a->rc;
    querying_end(t);
    if (rc != ncclSuccess)
        return err_set(err, ERR_DEVICE, "cannot send messages between ranks: %s",
                       ncclGetErrorString(rc));
    return 0;
}

/* all: [ranks], `each` bytes each. */
static int talk_end(struct preload_comm *c, size_t each, void *all, struct err *err)
{
    struct talk *t = &c->talk;
    double since = tick_now_s();
    int bad = cudaSetDevice(c->gpu) != cudaSuccess ||
              cudaEventRecord(t->done, t->stream) != cudaSuccess;

    while (!bad) {
        cudaError_t rc = cudaEventQuery(t->done);
        if (rc == cudaSuccess)
            break;
        bad = rc != cudaErrorNotReady;
        cudaGetLastError(); /* clears the error "not ready" */
        if (!bad && nothing_yet(c, since, err))
            return -1;
    }
    if (bad ||
        cudaMemcpyAsync(all, t->memory, (size_t)c->ranks * each, cudaMemcpyDefault,
                        t->stream) != cudaSuccess ||
        cudaStreamSynchronize(t->stream) != cudaSuccess)
        return err_set(err, ERR_DEVICE, "cannot read messages between ranks");
    return 0;
}

/* Broadcasts root's bytes to all ranks: for exec_nccl_open. */
static int nccl_comm_share(void *arg, void *bytes, int n, int root, struct err *err)
{
    struct preload_comm *c = arg;
    char *all = mem_new((size_t)c->ranks, TALK_BYTES);

    assert(n <= TALK_BYTES);
    int rc =
        talk_request(&c, 1, bytes, (size_t)n, err) || talk_end(c, (size_t)n, all, err) ? -1 : 0;
    if (rc == 0)
        memcpy(bytes, all + (size_t)root * (size_t)n, (size_t)n);
    mem_free(all);
    return rc;
}

/* The reason why no call on these ranks is ours, or NULL. */
static const char *why_not(struct preload_comm *c, const struct report *all)
{
    const char *why = NULL;
    struct err err;

    for (int r = 0; r < c->ranks; r++) {
        if (all[r].off)
            return "PARO_DISABLE";
        if (all[r].table != all[0].table)
            return "ranks read different tables";
        for (int s = 0; s < r; s++)
            if (all[s].process == all[r].process)
                return "several ranks in one process";
    }
    /* Numbers hosts in the order of their first rank. */
    int *group_of = mem_new((size_t)c->ranks, sizeof *group_of), groups = 0;
    for (int r = 0; r < c->ranks; r++) {
        int first = 0;
        while (all[first].host != all[r].host)
            first++;
        group_of[r] = first == r ? groups++ : group_of[first];
    }
    int rc = groups_init_of(&c->groups, c->ranks, group_of, &err);
    mem_free(group_of);
    if (rc)
        return "hosts";
    if (c->groups.count < 2)
        return "one host";
    const struct pick_table *table = plugin_table(&why);
    if (!table)
        return why;
    return pick_table_check(table, &c->groups, &err) ? "the table is for other groups" : NULL;
}

/* An aborted communicator does not wait; one that ends normally waits for its runs. */
void preload_comm_free(struct preload_comm *c)
{
    struct preload_manners program = preload_be_ours();
    int was = preload_own(1);

    if (c->ends)
        pthread_join(c->ending, NULL);
    preload_meter_collect();
    for (int i = 0; i < c->plans; i++)
        exec_nccl_free(c->plan[i].handle);
    exec_nccl_close(c->exec);
    if (c->before)
        cudaEventDestroy(c->before);
    if (c->behind)
        cudaEventDestroy(c->behind);
    (void)cudaSetDevice(c->gpu);
    querying_end(&c->talk);
    if (c->talk.done)
        cudaEventDestroy(c->talk.done);
    if (c->talk.stream)
        cudaStreamDestroy(c->talk.stream);
    if (c->talk.memory)
        cudaFree(c->talk.memory);
    plugin_debug("rank %d of %d: %lld collectives taken over", c->rank, c->ranks,
                 (long long)c->took);
    if (c->groups.count)
        groups_release(&c->groups);
    pthread_mutex_destroy(&c->requests);
    mem_free(c);
    preload_be_again(program);
    preload_own(was);
}

static void *nccl_comm_end(void *arg)
{
    struct preload_comm *c = arg;

    while (c->calls) /* each call checks `removed` */
        nap();
    if (c->exec)
        exec_nccl_abort(c->exec);
    return NULL;
}

void preload_comm_abort(struct preload_comm *c)
{
    const double call_s = 0.1; /* a call that takes longer is blocked in NCCL */
    double since = tick_now_s();

    c->removed = 1;
    int busy;
    while ((busy = pthread_mutex_trylock(&c->requests)) && tick_now_s() - since < call_s)
        nap();
    if (!busy)
        pthread_mutex_unlock(&c->requests);
    int was = preload_own(1);
    c->ends = pthread_create(&c->ending, NULL, nccl_comm_end, c) == 0;
    if (!c->ends)
        nccl_comm_end(c);
    preload_own(was);
}

void preload_comm_enter(struct preload_comm *c)
{
    c->calls++;
}

int preload_comm_meter(struct preload_comm *c, const struct preload_call *call)
{
    return preload_meter_before(&c->metered, c->gpu, call);
}

void preload_comm_leave(struct preload_comm *c)
{
    c->calls--;
}

static struct preload_comm *comm_new(ncclComm_t comm, const struct preload_real *real)
{
    struct preload_comm *c = mem_new(1, sizeof *c);

    c->comm = comm;
    c->real = real;
    pthread_mutex_init(&c->requests, NULL);
    if (ncclCommCount(comm, &c->ranks) != ncclSuccess ||
        ncclCommUserRank(comm, &c->rank) != ncclSuccess ||
        ncclCommCuDevice(comm, &c->gpu) != ncclSuccess) {
        pthread_mutex_destroy(&c->requests);
        mem_free(c);
        return NULL;
    }
    return c;
}

static int hear_all(struct preload_comm *c, struct err *err)
{
    struct report *all = mem_new((size_t)c->ranks, sizeof *all);
    char shape[64] = "";
    int rc = talk_end(c, sizeof *all, all, err);

    if (rc == 0) {
        uint64_t *process = mem_new((size_t)c->ranks, sizeof *process);
        for (int r = 0; r < c->ranks; r++)
            process[r] = all[r].process;
        preload_meter_comm(&c->metered, process, c->rank, c->ranks, c->gpu);
        mem_free(process);
        c->passes = why_not(c, all);
        if (c->groups.count)
            groups_print(&c->groups, shape, sizeof shape);
    }
    if (rc == 0)
        plugin_debug("rank %d of %d: hosts %s: %s", c->rank, c->ranks,
                     *shape ? shape : "unknown", c->passes ? c->passes : "ready");
    mem_free(all);
    return rc;
}

ncclResult_t preload_comm_new(ncclComm_t *comm, int n, const struct preload_real *real,
                              struct preload_comm **out)
{
    struct preload_comm **known = mem_new((size_t)n, sizeof *known);
    struct preload_manners program = preload_be_ours();
    int was = preload_own(1), knows = 0;
    struct err err = {0};

    for (int i = 0; i < n; i++)
        if ((out[i] = comm_new(comm[i], real)))
            known[knows++] = out[i];
    int rc = 0;
    struct report mine = {0};
    nccl_comm_tell(&mine);
    for (int i = 0; i < knows && rc == 0; i++) {
        struct talk *t = &known[i]->talk;
        if (cudaSetDevice(known[i]->gpu) ||
            cudaMalloc((void **)&t->memory, (size_t)(known[i]->ranks + 1) * TALK_BYTES) ||
            cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking) ||
            cudaEventCreateWithFlags(&t->done, cudaEventDisableTiming))
            rc = err_set(&err, ERR_DEVICE,
                         "no memory, stream or event for messages between ranks");
    }
    if (rc == 0 && knows)
        rc = talk_request(known, knows, &mine, sizeof mine, &err);
    for (int i = 0; i < knows && rc == 0; i++)
        rc = hear_all(known[i], &err);
    if (rc && err.code == ERR_PEER)
        err_prefix(&err, "libparo-nccl.so, which all ranks must preload: ");
    if (rc)
        plugin_debug("%s", err.text);
    preload_be_again(program);
    preload_own(was);
    mem_free(known);
    return rc == 0 ? ncclSuccess : err.code == ERR_PEER ? ncclRemoteError : ncclInternalError;
}

static struct plan *nccl_comm_find(struct preload_comm *c, const struct preload_call *call)
{
    for (int i = 0; i < c->plans; i++) {
        struct plan *p = &c->plan[i];
        if (p->phases == call->phases && p->count == call->count && p->type == call->type &&
            p->op == call->op)
            return p;
    }
    return NULL;
}

/*
 * NCCL runs a flat ring itself in one kernel, and algorithms of few rounds faster than
 * schedules can.  The table's other choices are ours.
 */
static const struct pick_rule *rule_of(const struct preload_comm *c,
                                       const struct preload_call *call)
{
    const char *why;
    const struct pick_table *table = plugin_table(&why);
    const struct pick_rule *rule =
        pick_find(table, call->phases, preload_plan_bytes(call, c->ranks));

    if (!rule || (rule->algo != SCHEDULE_HO_RING && rule->algo != SCHEDULE_TWO_LEVEL))
        return NULL;
    return rule;
}

const char *preload_comm_passes(struct preload_comm *c, const struct preload_call *call)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    enum dtype type;
    enum dtype_op op;
    int64_t elems;

    if (c->passes)
        return c->passes;
    if (preload_plan_type(call, &type, &op, &elems))
        return "an unknown type or operation";
    if (call->count == 0)
        return "no elements";
    if (!rule_of(c, call))
        return "NCCL is expected to be faster";
    if (!nccl_comm_find(c, call) && c->plans == PLANS_MOST)
        return "too many different calls";
    if (cudaStreamIsCapturing(call->stream, &capture) != cudaSuccess ||
        capture != cudaStreamCaptureStatusNone)
        return "the stream is captured";
    return NULL;
}

/* The device object of a GPU, created once and never closed, since closing waits for all its
   work.  NULL: err is set. */
static struct device *nccl_comm_open_gpu(int gpu, struct err *err)
{
    enum { GPUS_MOST = 64 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct device *open[GPUS_MOST];
    char name[32];

    if (gpu < 0 || gpu >= GPUS_MOST) {
        err_set(err, ERR_INPUT, "cuda:%d, expected a number below %d", gpu, GPUS_MOST);
        return NULL;
    }
    snprintf(name, sizeof name, "cuda:%d", gpu);
    pthread_mutex_lock(&lock);
    if (!open[gpu] && device_open(&open[gpu], name, 0, err))
        open[gpu] = NULL;
    struct device *d = open[gpu];
    pthread_mutex_unlock(&lock);
    return d;
}

/* Tried only once: ranks that succeeded wait for ranks that failed and do not come again. */
static int open_exec(struct preload_comm *c, struct err *err)
{
    struct exec_nccl_options o = {.rank = c->rank,
                                  .ranks = c->ranks,
                                  .deadline_s = deadline_of(),
                                  .share = nccl_comm_share,
                                  .hear = nccl_comm_hear,
                                  .arg = c};

    o.device = nccl_comm_open_gpu(c->gpu, err);
    if (!o.device)
        return -1;
    if (cudaSetDevice(c->gpu) != cudaSuccess ||
        cudaEventCreateWithFlags(&c->before, cudaEventDisableTiming) != cudaSuccess ||
        cudaEventCreateWithFlags(&c->behind, cudaEventDisableTiming) != cudaSuccess)
        return err_set(err, ERR_DEVICE, "cudaEventCreate fails");
    return exec_nccl_open(&c->exec, &o, err);
}

static struct plan *nccl_comm_make(struct preload_comm *c, const struct preload_call *call,
                                   struct err *err)
{
    struct plan *p = &c->plan[c->plans];
    struct exec_rows rows = {0};

    if ((!c->exec && open_exec(c, err)) ||
        preload_plan_rows(call, &c->groups, c->rank, rule_of(c, call), &rows, err) ||
        exec_nccl_prepare(c->exec, &rows, &p->handle, err))
        return NULL;
    p->phases = call->phases;
    p->count = call->count;
    p->type = call->type;
    p->op = call->op;
    c->plans++;
    return p;
}

/* Runs the call after the stream's earlier work and before its later work. */
static int put_in(struct preload_comm *c, const struct preload_call *call, struct plan *p,
                  struct err *err)
{
    cudaStream_t door = device_stream(exec_nccl_door(c->exec));

    if (cudaEventRecord(c->before, call->stream) != cudaSuccess ||
        cudaStreamWaitEvent(door, c->before, 0) != cudaSuccess)
        return err_set(err, ERR_DEVICE, "the program's stream cannot be waited for");
    exec_nccl_set(p->handle, call->in, call->out, NULL, NULL);
    if (exec_nccl_issue(p->handle, err))
        return -1;
    if (cudaEventRecord(c->behind, door) != cudaSuccess ||
        cudaStreamWaitEvent(call->stream, c->behind, 0) != cudaSuccess)
        return err_set(err, ERR_DEVICE, "the program's stream cannot wait");
    return 0;
}

static ncclResult_t nccl_comm_say(const struct preload_comm *c)
{
    plugin_debug("%s", c->failed.text);
    return c->failed.code == ERR_PEER ? ncclRemoteError : ncclInternalError;
}

ncclResult_t preload_comm_run(struct preload_comm *c, const struct preload_call *call)
{
    if (c->failed.code)
        return nccl_comm_say(c);
    struct preload_manners program = preload_be_ours();
    int was = preload_own(1);
    struct plan *p = nccl_comm_find(c, call);

    if (!p)
        p = nccl_comm_make(c, call, &c->failed);
    int rc = p ? put_in(c, call, p, &c->failed) : -1;
    c->took += rc == 0;
    preload_be_again(program);
    preload_own(was);
    return rc == 0 ? ncclSuccess : nccl_comm_say(c);
}
