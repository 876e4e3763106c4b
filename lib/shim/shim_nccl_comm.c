/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what can be said of a communicator of the program's: which ranks share a host, whether
 * all ranks read the same table, and what has been prepared on it.  Ranks must answer alike
 * whether a call is ours, or they would wait for each other: what decides is the call itself,
 * which NCCL wants to be the same everywhere, and what the ranks told each other at the start.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fnv.h"
#include "base/mem.h"
#include "shim/shim_nccl.h"

enum { PLANS_MOST = 64 }; /* of one communicator: each keeps events, none keeps data */
#define DEADLINE_S 600.0  /* as the library's own wait for other ranks */

struct plan {
    unsigned phases;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    struct exec_nccl_handle *handle;
};

struct shim_comm {
    ncclComm_t comm; /* the program's */
    int rank, ranks;
    struct groups groups;
    const char *passes; /* why all is passed on, or NULL */
    struct device *device;
    struct exec_nccl *exec; /* made at the first call that is ours */
    cudaEvent_t before, behind;
    struct plan plan[PLANS_MOST];
    int plans;
    int64_t took;
};

/* What ranks tell each other. */
struct told {
    uint64_t host, process, table, off;
};

/* NCCL's idea of a host: NCCL_HOSTID where it is set. */
static void tell(struct told *t)
{
    const char *id = getenv("NCCL_HOSTID"), *off = getenv("PARO_DISABLE");
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    id = id && *id ? id : host;
    t->host = fnv_bytes(id, strlen(id));
    t->process = fnv_bytes(host, strlen(host)) ^ ((uint64_t)getpid() + 1) * 0x9e3779b97f4a7c15;
    t->table = shim_table_hash();
    t->off = off && *off && strcmp(off, "0") != 0;
}

/* all[ranks] of what each has to tell, by the program's communicator. */
static int exchange(const struct shim_real *real, ncclComm_t comm, int ranks,
                    const struct told *mine, struct told *all)
{
    size_t each = sizeof *mine, bytes = (size_t)ranks * each;
    cudaStream_t stream = NULL;
    char *p = NULL;

    int rc = cudaMalloc((void **)&p, bytes + each) != cudaSuccess ||
             cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
             cudaMemcpyAsync(p + bytes, mine, each, cudaMemcpyDefault, stream) != cudaSuccess ||
             real->all_gather(p + bytes, p, each, ncclUint8, comm, stream) != ncclSuccess ||
             cudaMemcpyAsync(all, p, bytes, cudaMemcpyDefault, stream) != cudaSuccess ||
             cudaStreamSynchronize(stream) != cudaSuccess;
    if (stream)
        cudaStreamDestroy(stream);
    cudaFree(p);
    return rc ? -1 : 0;
}

/* Hosts in the order of their first rank. */
static int group_ranks(struct groups *g, const struct told *all, int ranks, struct err *err)
{
    int *group_of = mem_new((size_t)ranks, sizeof *group_of), groups = 0;

    for (int r = 0; r < ranks; r++) {
        int first = 0;
        while (all[first].host != all[r].host)
            first++;
        group_of[r] = first == r ? groups++ : group_of[first];
    }
    int rc = groups_init_of(g, ranks, group_of, err);
    mem_free(group_of);
    return rc;
}

/* Why nothing on these ranks is ours, or NULL. */
static const char *why_not(struct shim_comm *c, const struct told *all)
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
    if (group_ranks(&c->groups, all, c->ranks, &err))
        return "hosts";
    if (c->groups.count < 2)
        return "one host";
    const struct pick_table *table = shim_table(&why);
    if (!table)
        return why;
    return pick_table_check(table, &c->groups, &err) ? "the table is for other groups" : NULL;
}

struct shim_comm *shim_comm_new(ncclComm_t comm, const struct shim_real *real)
{
    struct shim_comm *c = mem_new(1, sizeof *c);
    struct told mine = {0}, *all = NULL;
    char shape[64] = "";

    c->comm = comm;
    if (ncclCommCount(comm, &c->ranks) != ncclSuccess ||
        ncclCommUserRank(comm, &c->rank) != ncclSuccess) {
        mem_free(c);
        return NULL;
    }
    all = mem_new((size_t)c->ranks, sizeof *all);
    tell(&mine);
    if (exchange(real, comm, c->ranks, &mine, all)) {
        mem_free(all);
        mem_free(c);
        return NULL;
    }
    c->passes = why_not(c, all);
    if (c->groups.count)
        groups_print(&c->groups, shape, sizeof shape);
    shim_debug("rank %d of %d: hosts %s: %s", c->rank, c->ranks, *shape ? shape : "unknown",
               c->passes ? c->passes : "ready");
    mem_free(all);
    return c;
}

/* The thread's GPU is the program's: as NCCL does, it is left as it was. */
static int gpu_now(void)
{
    int index = -1;

    return cudaGetDevice(&index) == cudaSuccess ? index : -1;
}

static void gpu_again(int index)
{
    if (index >= 0)
        (void)cudaSetDevice(index);
}

void shim_comm_free(struct shim_comm *c, int in_good_order)
{
    int was = shim_own(1), gpu = gpu_now();

    if (c->exec && !in_good_order)
        exec_nccl_abort(c->exec);
    for (int i = 0; i < c->plans; i++)
        exec_nccl_free(c->plan[i].handle);
    exec_nccl_close(c->exec);
    if (c->exec) {
        cudaEventDestroy(c->before);
        cudaEventDestroy(c->behind);
    }
    device_close(c->device);
    shim_debug("rank %d of %d: %lld collectives taken over", c->rank, c->ranks,
               (long long)c->took);
    if (c->groups.count)
        groups_release(&c->groups);
    mem_free(c);
    gpu_again(gpu);
    shim_own(was);
}

static struct plan *find(struct shim_comm *c, const struct shim_call *call)
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
 * NCCL does a flat ring by itself, in one kernel, and few rounds better than we do by many: the
 * table's other choices are ours.
 */
static const struct pick_rule *rule_of(const struct shim_comm *c, const struct shim_call *call)
{
    const char *why;
    const struct pick_table *table = shim_table(&why);
    const struct pick_rule *rule =
        pick_find(table, call->phases, shim_plan_bytes(call, c->ranks));

    if (!rule || (rule->algo != SCHEDULE_HO_RING && rule->algo != SCHEDULE_TWO_LEVEL))
        return NULL;
    return rule;
}

const char *shim_comm_passes(struct shim_comm *c, const struct shim_call *call)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    enum dtype type;
    enum dtype_op op;
    int64_t elems;

    if (c->passes)
        return c->passes;
    if (shim_plan_type(call, &type, &op, &elems))
        return "a type or an operation that we do not know";
    if (call->count == 0)
        return "nothing to move";
    if (!rule_of(c, call))
        return "NCCL's own is taken to be faster";
    if (!find(c, call) && c->plans == PLANS_MOST)
        return "too many different calls";
    if (cudaStreamIsCapturing(call->stream, &capture) != cudaSuccess ||
        capture != cudaStreamCaptureStatusNone)
        return "the stream is captured";
    return NULL;
}

static int open_exec(struct shim_comm *c, struct err *err)
{
    struct exec_nccl_options o = {
        .rank = c->rank, .ranks = c->ranks, .deadline_s = DEADLINE_S, .comm = c->comm};
    char name[32];
    int index = 0;

    if (ncclCommCuDevice(c->comm, &index) != ncclSuccess)
        return err_set(err, ERR_DEVICE, "ncclCommCuDevice fails");
    snprintf(name, sizeof name, "cuda:%d", index);
    if (device_open(&c->device, name, 0, err))
        return -1;
    o.device = c->device;
    if (cudaEventCreateWithFlags(&c->before, cudaEventDisableTiming) != cudaSuccess ||
        cudaEventCreateWithFlags(&c->behind, cudaEventDisableTiming) != cudaSuccess)
        return err_set(err, ERR_DEVICE, "cudaEventCreate fails");
    return exec_nccl_open(&c->exec, &o, err);
}

static struct plan *make(struct shim_comm *c, const struct shim_call *call, struct err *err)
{
    struct plan *p = &c->plan[c->plans];
    struct exec_rows rows = {0};

    if ((!c->exec && open_exec(c, err)) ||
        shim_plan_rows(call, &c->groups, c->rank, rule_of(c, call), &rows, err) ||
        exec_nccl_prepare(c->exec, &rows, &p->handle, err))
        return NULL;
    p->phases = call->phases;
    p->count = call->count;
    p->type = call->type;
    p->op = call->op;
    c->plans++;
    return p;
}

/* Behind what the stream has, and before what it gets next. */
static int put_in(struct shim_comm *c, const struct shim_call *call, struct plan *p,
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

ncclResult_t shim_comm_run(struct shim_comm *c, const struct shim_call *call)
{
    struct err err = {0};
    int was = shim_own(1), gpu = gpu_now();
    struct plan *p = find(c, call);

    if (!p)
        p = make(c, call, &err);
    int rc = p ? put_in(c, call, p, &err) : -1;
    c->took += rc == 0;
    gpu_again(gpu);
    shim_own(was);
    if (rc == 0)
        return ncclSuccess;
    shim_debug("%s", err.text);
    return err.code == ERR_PEER ? ncclRemoteError : ncclInternalError;
}
