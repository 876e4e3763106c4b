/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL over MPI.  A communicator is a tag and a list of ranks of MPI_COMM_WORLD: nothing here
 * is collective in MPI's sense, so that what would deadlock with NCCL does so here, and nothing
 * else.  Collectives are messages from each rank to each; a reduction adds in rank order, in
 * double.
 */
#include "nccl.h"

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "late.h"
#include "nccl_numbers.h"

enum kind { SEND, RECV, GATHER, SCATTER, REDUCE_ALL, BROADCAST, REDUCE_ONE };

struct op {
    enum kind kind;
    const char *in;
    char *out;
    size_t count;
    ncclDataType_t type;
    int op, peer; /* peer: or root */
    ncclComm_t comm;
    cudaStream_t stream;
    char *arrived; /* [ranks][count] of a reduction */
};

struct ncclComm {
    uint64_t name; /* the same on all ranks */
    int tag, rank, ranks, *world, splits, blocking;
    ncclResult_t failed;
    int stalled;
    MPI_Request *request; /* of the group in flight */
    int requests;
    struct op *op;
    int ops;
    double scalar[8]; /* of operations made by ncclRedOpCreatePreMulSum */
    int scalars;
};

/* Of this process; NCCL keeps as much itself. */
static _Thread_local struct {
    int depth, ops;
    struct op *op;
} group;
static int ids, groups;

static void *need(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);

    if (!p)
        abort();
    return p;
}

static double join(int op, double a, double b)
{
    switch (op) {
    case ncclProd:
        return a * b;
    case ncclMax:
        return a > b ? a : b;
    case ncclMin:
        return a < b ? a : b;
    default:
        return a + b;
    }
}

static void reduce(const struct op *o)
{
    ncclComm_t c = o->comm;
    size_t block = o->count * emulated_nccl_bytes(o->type);

    for (size_t i = 0; i < o->count; i++) {
        double v = 0;
        for (int r = 0; r < c->ranks; r++) {
            double one = emulated_nccl_get(o->arrived + (size_t)r * block, o->type, i);
            if (o->op >= ncclNumOps)
                one *= c->scalar[o->op - ncclNumOps];
            v = r ? join(o->op, v, one) : one;
        }
        emulated_nccl_put(o->out, o->type, i, o->op == ncclAvg ? v / c->ranks : v);
    }
}

static void send_to(struct op *o, const char *from, int peer)
{
    ncclComm_t c = o->comm;
    int tag = c->tag + (o->kind != SEND && o->kind != RECV);

    MPI_Isend(from, (int)(o->count * emulated_nccl_bytes(o->type)), MPI_BYTE, c->world[peer],
              tag, MPI_COMM_WORLD, &c->request[c->requests++]);
}

static void recv_from(struct op *o, char *to, int peer)
{
    ncclComm_t c = o->comm;
    int tag = c->tag + (o->kind != SEND && o->kind != RECV);

    MPI_Irecv(to, (int)(o->count * emulated_nccl_bytes(o->type)), MPI_BYTE, c->world[peer], tag,
              MPI_COMM_WORLD, &c->request[c->requests++]);
}

/* What an operation sends and receives. */
static void post(struct op *o)
{
    ncclComm_t c = o->comm;
    size_t block = o->count * emulated_nccl_bytes(o->type);
    int reduces = o->kind == REDUCE_ALL || o->kind == SCATTER ||
                  (o->kind == REDUCE_ONE && o->peer == c->rank);

    if (o->kind == SEND)
        send_to(o, o->in, o->peer);
    if (o->kind == RECV)
        recv_from(o, o->out, o->peer);
    if (reduces)
        o->arrived = need((size_t)c->ranks * block);
    for (int r = 0; o->kind > RECV && r < c->ranks; r++) {
        if (reduces)
            recv_from(o, o->arrived + (size_t)r * block, r);
        if (o->kind == GATHER && r != c->rank)
            recv_from(o, o->out + (size_t)r * block, r);
        if (o->kind == BROADCAST && r == o->peer && r != c->rank)
            recv_from(o, o->out, r);
        if (o->kind == SCATTER)
            send_to(o, o->in + (size_t)r * block, r);
        if (o->kind == REDUCE_ALL || (o->kind == REDUCE_ONE && r == o->peer) ||
            (o->kind == GATHER && r != c->rank) ||
            (o->kind == BROADCAST && o->peer == c->rank && r != c->rank))
            send_to(o, o->in, r);
    }
}

/* When all has been sent and received. */
static void finish(struct op *o)
{
    size_t block = o->count * emulated_nccl_bytes(o->type);
    char *own = o->kind == GATHER ? o->out + (size_t)o->comm->rank * block : o->out;

    if (o->arrived)
        reduce(o);
    else if ((o->kind == GATHER || (o->kind == BROADCAST && o->peer == o->comm->rank)) &&
             own != o->in)
        memmove(own, o->in, block);
    free(o->arrived);
}

/* 1: nothing is in flight. */
static int progress(ncclComm_t c)
{
    int done = 1;

    if (c->stalled)
        return 0;
    if (c->requests)
        MPI_Testall(c->requests, c->request, &done, MPI_STATUSES_IGNORE);
    if (!done)
        return 0;
    for (int i = 0; i < c->ops; i++)
        finish(&c->op[i]);
    if (c->ops)
        emulated_reach(-1);
    c->requests = c->ops = 0;
    return 1;
}

static void mishap(ncclComm_t c)
{
    const char *what = getenv("EMULATE_NCCL"), *who = getenv("EMULATE_NCCL_RANK");
    int n = what && strchr(what, ':') ? atoi(strchr(what, ':') + 1) : -1;

    if (++groups != n || (who && atoi(who) != c->world[c->rank]))
        return;
    c->stalled = *what == 's';
    c->failed = *what == 'f' ? ncclRemoteError : ncclSuccess;
}

/* The operations of one communicator, out of those of the group. */
static ncclResult_t fly(ncclComm_t c)
{
    int n = 0;

    if (c->failed)
        return c->failed;
    for (int i = 0; i < group.ops; i++)
        n += group.op[i].comm == c;
    if (!progress(c) && !c->stalled)
        return ncclInvalidUsage; /* it was not asked whether it was done */
    c->op = realloc(c->op, (size_t)n * sizeof *c->op);
    c->request = realloc(c->request, (size_t)n * 2 * (size_t)c->ranks * sizeof *c->request);
    if (!c->op || !c->request)
        abort();
    mishap(c);
    for (int i = 0; i < group.ops; i++)
        if (group.op[i].comm == c)
            c->op[c->ops++] = group.op[i];
    for (int i = 0; i < c->ops; i++)
        if (c->op[i].stream)
            emulated_run_to(c->op[i].stream, c->op[i].stream->asked);
    /* MPI reaches into memory of the device until all is done. */
    emulated_reach(1);
    for (int i = 0; !c->failed && !c->stalled && i < c->ops; i++)
        post(&c->op[i]);
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t rc = ncclSuccess;
    int left = 0;

    if (group.depth == 0)
        return ncclInvalidUsage;
    if (--group.depth)
        return ncclSuccess;
    for (int i = 0; i < group.ops; i++) {
        int seen = 0;
        for (int k = 0; k < i; k++)
            seen |= group.op[k].comm == group.op[i].comm;
        ncclResult_t one = seen ? ncclSuccess : fly(group.op[i].comm);
        rc = one ? one : rc;
    }
    do {
        left = 0;
        for (int i = 0; rc == ncclSuccess && i < group.ops; i++)
            if (!progress(group.op[i].comm))
                left |= group.op[i].comm->blocking ? 2 : 1;
    } while (left & 2);
    group.ops = 0;
    return rc ? rc : left ? ncclInProgress : ncclSuccess;
}

static ncclResult_t ask(struct op o)
{
    if (!o.comm || o.type >= ncclNumTypes || o.peer < 0 || o.peer >= o.comm->ranks)
        return ncclInvalidArgument;
    group.op = realloc(group.op, (size_t)(group.ops + 1) * sizeof *group.op);
    if (!group.op)
        abort();
    group.op[group.ops++] = o;
    if (group.depth)
        return ncclSuccess;
    group.depth++;
    return ncclGroupEnd();
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return ask((struct op){SEND, in, NULL, count, type, 0, peer, comm, stream, NULL});
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return ask((struct op){RECV, NULL, out, count, type, 0, peer, comm, stream, NULL});
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return ask((struct op){GATHER, in, out, count, type, 0, 0, comm, stream, NULL});
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return ask((struct op){SCATTER, in, out, count, type, (int)op, 0, comm, stream, NULL});
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return ask((struct op){REDUCE_ALL, in, out, count, type, (int)op, 0, comm, stream, NULL});
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return ask((struct op){BROADCAST, in, out, count, type, 0, root, comm, stream, NULL});
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return ask(
        (struct op){REDUCE_ONE, in, out, count, type, (int)op, root, comm, stream, NULL});
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm)
{
    (void)residence; /* all memory is the host's */
    if (comm->scalars == 8)
        return ncclInvalidUsage;
    comm->scalar[comm->scalars] = emulated_nccl_get(scalar, type, 0);
    *op = (ncclRedOp_t)(ncclNumOps + comm->scalars++);
    return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    (void)op;
    (void)comm;
    return ncclSuccess;
}

/* FNV-1a: a name for a communicator that all of its ranks find alone. */
static uint64_t name_of(uint64_t parent, int a, int b)
{
    uint64_t h = 0xcbf29ce484222325;
    int64_t part[3] = {(int64_t)parent, a, b};

    for (size_t i = 0; i < sizeof part; i++)
        h = (h ^ ((unsigned char *)part)[i]) * 0x100000001b3;
    return h;
}

static ncclComm_t make(uint64_t name, int rank, int ranks, const ncclConfig_t *config,
                       int blocking)
{
    ncclComm_t c = need(sizeof *c);

    c->name = name;
    c->tag = (int)(name >> 35) << 1; /* and the next: 30 bits */
    c->rank = rank;
    c->ranks = ranks;
    c->world = need((size_t)ranks * sizeof(int));
    c->blocking =
        config && config->blocking != NCCL_CONFIG_UNDEF_INT ? config->blocking : blocking;
    return c;
}

/*
 * NCCL may be called while another thread is in MPI; here it is MPI: in a program that asks for
 * threads, MPI must take several at a time, whatever the program wanted.
 */
int MPI_Init_thread(int *argc, char ***argv, int wanted, int *given)
{
    return PMPI_Init_thread(
        argc, argv, wanted == MPI_THREAD_SERIALIZED ? MPI_THREAD_MULTIPLE : wanted, given);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    int part[2] = {0, ++ids};

    MPI_Comm_rank(MPI_COMM_WORLD, &part[0]);
    memset(id, 0, sizeof *id);
    memcpy(id, part, sizeof part);
    return ncclSuccess;
}

/* The rank that made the name hears where all are, and tells them. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    int part[2], mine[2] = {rank, 0};

    memcpy(part, &id, sizeof part);
    if (nranks < 1 || rank < 0 || rank >= nranks)
        return ncclInvalidArgument;
    ncclComm_t c = make(name_of(0, part[0], part[1]), rank, nranks, config, 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &mine[1]);
    if (mine[1] != part[0]) {
        MPI_Send(mine, 2, MPI_INT, part[0], c->tag, MPI_COMM_WORLD);
        MPI_Recv(c->world, nranks, MPI_INT, part[0], c->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        c->world[rank] = mine[1];
        for (int i = 1; i < nranks; i++) {
            int other[2];
            MPI_Recv(other, 2, MPI_INT, MPI_ANY_SOURCE, c->tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            c->world[other[0]] = other[1];
        }
        for (int r = 0; r < nranks; r++)
            if (r != rank)
                MPI_Send(c->world, nranks, MPI_INT, c->world[r], c->tag, MPI_COMM_WORLD);
    }
    *comm = c;
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, nranks, id, rank, NULL);
}

/* Each rank's color and key, on every rank of the parent. */
static void exchange(ncclComm_t c, const int mine[2], int *all)
{
    int tag = c->tag + 1;

    for (int r = 0; r < c->ranks; r++)
        if (r != c->rank) /* small enough to go without the other end */
            MPI_Send(mine, 2, MPI_INT, c->world[r], tag, MPI_COMM_WORLD);
    for (int r = 0; r < c->ranks; r++)
        if (r != c->rank)
            MPI_Recv(all + 2 * r, 2, MPI_INT, c->world[r], tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    memcpy(all + 2 * c->rank, mine, 2 * sizeof(int));
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child,
                           ncclConfig_t *config)
{
    int mine[2] = {color, key}, *all = need((size_t)comm->ranks * 2 * sizeof(int));
    int ranks = 0, rank = 0, split = ++comm->splits;

    exchange(comm, mine, all);
    *child = NULL;
    /* A member stands behind those of lesser keys, and of equal keys and lesser rank. */
    for (int r = 0; r < comm->ranks; r++) {
        ranks += all[2 * r] == color;
        rank += all[2 * r] == color &&
                (all[2 * r + 1] < key || (all[2 * r + 1] == key && r < comm->rank));
    }
    if (color != NCCL_SPLIT_NOCOLOR) {
        ncclComm_t c =
            make(name_of(comm->name, split, color), rank, ranks, config, comm->blocking);
        for (int r = 0; r < comm->ranks; r++) {
            int at = 0;
            for (int s = 0; s < comm->ranks; s++)
                at += all[2 * s] == color && (all[2 * s + 1] < all[2 * r + 1] ||
                                              (all[2 * s + 1] == all[2 * r + 1] && s < r));
            if (all[2 * r] == color)
                c->world[at] = comm->world[r];
        }
        *child = c;
    }
    free(all);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return comm->failed;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    for (int i = 0; i < comm->requests; i++)
        if (comm->request[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&comm->request[i]);
            MPI_Request_free(&comm->request[i]);
        }
    for (int i = 0; i < comm->ops; i++)
        free(comm->op[i].arrived);
    if (comm->ops)
        emulated_reach(-1);
    free(comm->world);
    free(comm->op);
    free(comm->request);
    free(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return comm->requests ? ncclInvalidUsage : ncclCommAbort(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    if (!comm)
        return ncclInvalidArgument;
    *error = comm->failed ? comm->failed : progress(comm) ? ncclSuccess : ncclInProgress;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const words[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};

    return result < ncclNumResults ? words[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return comm && comm->failed ? "as EMULATE_NCCL wants it" : "";
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    *count = comm->ranks;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    (void)comm;
    *device = 0;
    return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *p, size_t size, void **handle)
{
    (void)size;
    *handle = p;
    return comm ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    return comm && handle ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclMemAlloc(void **p, size_t size)
{
    return cudaMalloc(p, size) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *p)
{
    return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
