/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL over MPI.  A communicator is a tag and a list of ranks of MPI_COMM_WORLD: nothing here
 * is collective in MPI's sense, so that what would deadlock with NCCL does so here, and nothing
 * else.  Collectives are messages from each rank to each, and find only those of the same kind
 * and size; a reduction adds in rank order, in double. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/dtype.h"
#include "nccl_inside.h"

/* Of this process; NCCL keeps as much itself. */
static _Thread_local struct {
    int depth, ops;
    ncclResult_t failed; /* a call inside was refused: nothing of the group is done */
    struct emulated_op *op;
} group;
static int groups;

/* An element of any type; of whole numbers that are narrower than 64 bits the lowest bytes. */
union number {
    float f32;
    double f64;
    uint16_t bits16;
    int8_t i8;
    uint8_t u8;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
};

static size_t bytes_of(ncclDataType_t type)
{
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

    return bytes[type];
}

static double get(const char *p, ncclDataType_t type, size_t i)
{
    union number x;

    memcpy(&x, p + i * bytes_of(type), bytes_of(type));
    return type == ncclFloat32    ? (double)x.f32
           : type == ncclFloat64  ? x.f64
           : type == ncclBfloat16 ? (double)dtype_f32_of_bf16(x.bits16)
           : type == ncclFloat16  ? (double)dtype_f32_of_f16(x.bits16)
           : type == ncclInt8     ? x.i8
           : type == ncclUint8    ? x.u8
           : type == ncclInt32    ? x.i32
           : type == ncclUint32   ? x.u32
                                  : (double)x.i64;
}

static void put(char *p, ncclDataType_t type, size_t i, double v)
{
    union number x;

    if (type == ncclFloat32)
        x.f32 = (float)v;
    else if (type == ncclFloat64)
        x.f64 = v;
    else if (type == ncclBfloat16)
        x.bits16 = dtype_bf16_of_f32((float)v);
    else if (type == ncclFloat16)
        x.bits16 = dtype_f16_of_f32((float)v);
    else
        x.i64 = (int64_t)v;
    memcpy(p + i * bytes_of(type), &x, bytes_of(type));
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

static void reduce(const struct emulated_op *o)
{
    ncclComm_t c = o->comm;
    size_t block = o->count * bytes_of(o->type);

    for (size_t i = 0; i < o->count; i++) {
        double v = 0;
        for (int r = 0; r < c->ranks; r++) {
            double one = get(o->arrived + (size_t)r * block, o->type, i);
            if (o->op >= ncclNumOps)
                one *= c->scalar[o->op - ncclNumOps];
            v = r ? join(o->op, v, one) : one;
        }
        put(o->out, o->type, i, o->op == ncclAvg ? v / c->ranks : v);
    }
}

static int tag_of(const struct emulated_op *o)
{
    size_t bytes = o->count * bytes_of(o->type);

    if (o->kind == SEND || o->kind == RECV)
        return o->comm->tag;
    /* Knuth's multiplier mixes the bits; odd, as the tags of what is sent alone are not. */
    return o->comm->tag ^ ((int)((bytes * 8 + (size_t)o->kind) * 2654435761u & 0x3fffffff) | 1);
}

static void send_to(struct emulated_op *o, const char *from, int peer)
{
    ncclComm_t c = o->comm;

    MPI_Isend(from, (int)(o->count * bytes_of(o->type)), MPI_BYTE, c->world[peer], tag_of(o),
              MPI_COMM_WORLD, &c->request[c->requests++]);
}

static void recv_from(struct emulated_op *o, char *to, int peer)
{
    ncclComm_t c = o->comm;

    MPI_Irecv(to, (int)(o->count * bytes_of(o->type)), MPI_BYTE, c->world[peer], tag_of(o),
              MPI_COMM_WORLD, &c->request[c->requests++]);
}

/* What an operation sends and receives. */
static void post(struct emulated_op *o)
{
    ncclComm_t c = o->comm;
    size_t block = o->count * bytes_of(o->type);
    int reduces = o->kind == REDUCE_ALL || o->kind == SCATTER ||
                  (o->kind == REDUCE_ONE && o->peer == c->rank);

    if (o->kind == SEND)
        send_to(o, o->in, o->peer);
    if (o->kind == RECV)
        recv_from(o, o->out, o->peer);
    if (reduces)
        o->arrived = emulated_nccl_need((size_t)c->ranks * block);
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
static void finish(struct emulated_op *o)
{
    size_t block = o->count * bytes_of(o->type);
    char *own = o->kind == GATHER ? o->out + (size_t)o->comm->rank * block : o->out;

    if (o->arrived)
        reduce(o);
    else if ((o->kind == GATHER || (o->kind == BROADCAST && o->peer == o->comm->rank)) &&
             own != o->in)
        memmove(own, o->in, block);
    free(o->arrived);
}

int emulated_nccl_progress(ncclComm_t c)
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

/* What stands before the operations in their streams is done: by a GPU that can. */
static ncclResult_t run_before(ncclComm_t c)
{
    if (emulated_begin("ncclGroupEnd", NULL) != cudaSuccess)
        return ncclUnhandledCudaError;
    emulated_end();
    for (int i = 0; i < group.ops; i++)
        if (group.op[i].comm == c && group.op[i].stream)
            emulated_run_to(group.op[i].stream, group.op[i].stream->asked);
    return ncclSuccess;
}

/* The operations of one communicator, out of those of the group. */
static ncclResult_t fly(ncclComm_t c)
{
    int n = 0;

    for (int i = 0; i < group.ops; i++)
        n += group.op[i].comm == c;
    ncclResult_t rc = run_before(c);
    emulated_nccl_enter();
    c->op = realloc(c->op, (size_t)n * sizeof *c->op);
    c->request = realloc(c->request, (size_t)n * 2 * (size_t)c->ranks * sizeof *c->request);
    if (!c->op || !c->request)
        abort();
    mishap(c);
    c->failed = rc == ncclSuccess ? c->failed : rc;
    for (int i = 0; i < group.ops; i++)
        if (group.op[i].comm == c)
            c->op[c->ops++] = group.op[i];
    /* MPI reaches into memory of the device until all is done. */
    emulated_reach(1);
    for (int i = 0; !c->failed && !c->stalled && i < c->ops; i++)
        post(&c->op[i]);
    emulated_nccl_leave();
    return rc;
}

ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

static int is_first(int at)
{
    for (int i = 0; i < at; i++)
        if (group.op[i].comm == group.op[at].comm)
            return 0;
    return 1;
}

/* 2: some are to be waited for; 1: some are in flight; 0: all are done; -1: one is aborted. */
static int look_at_all(void)
{
    int left = 0;

    for (int i = 0; i < group.ops; i++) {
        ncclComm_t c = group.op[i].comm;
        if (c->aborting)
            return -1;
        if (!c->failed && !emulated_nccl_progress(c))
            left |= c->blocking ? 2 : 1;
    }
    return left;
}

/* Until what blocks is done; no communicator goes away meanwhile. */
static ncclResult_t wait_all(void)
{
    int left;

    emulated_nccl_enter();
    for (int i = 0; i < group.ops; i++)
        group.op[i].comm->inside++;
    while ((left = look_at_all()) > 1) {
        emulated_nccl_leave();
        nanosleep(&(struct timespec){.tv_nsec = 0}, NULL);
        emulated_nccl_enter();
    }
    for (int i = 0; i < group.ops; i++)
        group.op[i].comm->inside--;
    emulated_nccl_leave();
    return left < 0 ? ncclInternalError : left ? ncclInProgress : ncclSuccess;
}

/* Nothing is kept for the next group: this thread may have no other. */
static void group_over(void)
{
    free(group.op);
    group.op = NULL;
    group.ops = 0;
    group.failed = ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t rc = group.failed;

    if (group.depth == 0)
        return ncclInvalidUsage;
    if (--group.depth)
        return ncclSuccess;
    for (int i = 0; i < group.ops; i++) {
        ncclComm_t c = group.op[i].comm;
        if (group.failed && !c->blocking)
            c->failed = group.failed;
        ncclResult_t one = rc == ncclSuccess && is_first(i) ? fly(c) : ncclSuccess;
        rc = one ? one : rc;
    }
    rc = rc == ncclSuccess ? wait_all() : rc;
    group_over();
    return rc;
}

/* Nothing is done: how long it might take. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
    if (group.depth == 0)
        return ncclInvalidUsage;
    if (--group.depth)
        return ncclSuccess;
    group_over();
    info->estimatedTime = 0;
    return ncclSuccess;
}

/* What NCCL says of an operation before it is begun. */
static ncclResult_t check(const struct emulated_op *o)
{
    if (!o->comm || o->type >= ncclNumTypes || o->peer < 0 || o->peer >= o->comm->ranks ||
        o->comm->finalized)
        return ncclInvalidArgument;
    for (int i = 0; i < group.ops; i++)
        if (group.op[i].comm->blocking != o->comm->blocking)
            return ncclInvalidArgument;
    emulated_nccl_enter();
    ncclResult_t rc = emulated_nccl_ready(o->comm);
    emulated_nccl_leave();
    return rc;
}

static ncclResult_t ask(struct emulated_op o)
{
    ncclResult_t rc = check(&o);

    if (rc != ncclSuccess) {
        group.failed = group.depth ? rc : ncclSuccess;
        return rc;
    }
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
    return ask((struct emulated_op){SEND, in, NULL, count, type, 0, peer, comm, stream, NULL});
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return ask((struct emulated_op){RECV, NULL, out, count, type, 0, peer, comm, stream, NULL});
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return ask((struct emulated_op){GATHER, in, out, count, type, 0, 0, comm, stream, NULL});
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return ask(
        (struct emulated_op){SCATTER, in, out, count, type, (int)op, 0, comm, stream, NULL});
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return ask(
        (struct emulated_op){REDUCE_ALL, in, out, count, type, (int)op, 0, comm, stream, NULL});
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return ask(
        (struct emulated_op){BROADCAST, in, out, count, type, 0, root, comm, stream, NULL});
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return ask((struct emulated_op){REDUCE_ONE, in, out, count, type, (int)op, root, comm,
                                    stream, NULL});
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm)
{
    (void)residence; /* all memory is the host's */
    if (comm->scalars == 8)
        return ncclInvalidUsage;
    comm->scalar[comm->scalars] = get(scalar, type, 0);
    *op = (ncclRedOp_t)(ncclNumOps + comm->scalars++);
    return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    (void)op;
    (void)comm;
    return ncclSuccess;
}
