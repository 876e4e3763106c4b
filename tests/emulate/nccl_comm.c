/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of NCCL over MPI: how they are made, asked and given up, as strictly as NCCL
 * does it.
 *
 *   - A call for one that is still busy is refused, ncclInvalidArgument; whoever has failed
 *     says so for good.
 *   - The child of a split is NULL until its parent, which is busy with it, is through.
 *   - Who is finalized does nothing more; memory is freed after it is deregistered.
 *   - An abort ends the calls that other threads are in.
 *   - NCCL_COMM_BLOCKING is stronger than what a program asks for.
 *
 * Reference: init.cc and group.cc of NCCL 2.19 to 2.28.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nccl_inside.h"

/* What is sent to and fro until a communicator is made. */
struct emulated_job {
    ncclComm_t *out; /* a split: where the child goes; NULL: the communicator itself is made */
    int color, root, stage;
    int mine[2], *all; /* [ranks] rank of it and of MPI, or color and key */
    ncclConfig_t config;
    int configured;
    MPI_Request *request;
    int requests;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ncclComm_t comms; /* of this process; under the lock */
static int ids;

void emulated_nccl_enter(void)
{
    pthread_mutex_lock(&lock);
}

void emulated_nccl_leave(void)
{
    pthread_mutex_unlock(&lock);
}

void *emulated_nccl_need(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);

    if (!p)
        abort();
    return p;
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
    const char *env = getenv("NCCL_COMM_BLOCKING");
    ncclComm_t c = emulated_nccl_need(sizeof *c);

    c->name = name;
    c->tag = (int)(name >> 35) << 1; /* and the next: 30 bits */
    c->rank = rank;
    c->ranks = ranks;
    c->world = emulated_nccl_need((size_t)ranks * sizeof(int));
    c->blocking =
        config && config->blocking != NCCL_CONFIG_UNDEF_INT ? config->blocking : blocking;
    c->blocking = env ? atoi(env) : c->blocking;
    cudaGetDevice(&c->device);
    c->next = comms;
    comms = c;
    return c;
}

/* NCCL may be called while another thread is in MPI; here it is MPI: in a program that asks for
 * threads, MPI must take several at a time, whatever the program wanted. */
int MPI_Init_thread(int *argc, char ***argv, int wanted, int *given)
{
    return PMPI_Init_thread(
        argc, argv, wanted == MPI_THREAD_SERIALIZED ? MPI_THREAD_MULTIPLE : wanted, given);
}

static struct emulated_job *job_new(int ranks)
{
    struct emulated_job *j = emulated_nccl_need(sizeof *j);

    j->all = emulated_nccl_need((size_t)ranks * sizeof j->mine);
    j->request = emulated_nccl_need((size_t)ranks * 2 * sizeof *j->request);
    return j;
}

static void cancel(MPI_Request *request, int requests)
{
    for (int i = 0; i < requests; i++)
        if (request[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&request[i]);
            MPI_Request_free(&request[i]);
        }
}

static void job_end(ncclComm_t c)
{
    struct emulated_job *j = c->job;

    if (!j)
        return;
    cancel(j->request, j->requests);
    free(j->request);
    free(j->all);
    free(j);
    c->job = NULL;
}

/* A member stands behind those of lesser keys, and of equal keys and lesser rank. */
static ncclComm_t child_of(ncclComm_t c, const struct emulated_job *j)
{
    int ranks = 0, rank = 0;

    for (int r = 0; r < c->ranks; r++) {
        int key = j->all[2 * r + 1];
        ranks += j->all[2 * r] == j->color;
        rank += j->all[2 * r] == j->color &&
                (key < j->mine[1] || (key == j->mine[1] && r < c->rank));
    }
    ncclComm_t child = make(name_of(c->name, c->splits, j->color), rank, ranks,
                            j->configured ? &j->config : NULL, c->blocking);
    for (int r = 0; r < c->ranks; r++) {
        int at = 0;
        for (int s = 0; s < c->ranks; s++)
            at += j->all[2 * s] == j->color &&
                  (j->all[2 * s + 1] < j->all[2 * r + 1] ||
                   (j->all[2 * s + 1] == j->all[2 * r + 1] && s < r));
        if (j->all[2 * r] == j->color)
            child->world[at] = c->world[r];
    }
    return child;
}

/* The rank that made the name has heard where all are, and tells them. */
static void tell_all(ncclComm_t c, struct emulated_job *j)
{
    j->requests = 0;
    for (int r = 1; r < c->ranks; r++)
        c->world[j->all[2 * r]] = j->all[2 * r + 1];
    for (int r = 0; r < c->ranks; r++)
        if (r != c->rank)
            MPI_Isend(c->world, c->ranks, MPI_INT, c->world[r], c->tag, MPI_COMM_WORLD,
                      &j->request[j->requests++]);
}

/* 1: nothing is being made of c any more. */
static int job_go_on(ncclComm_t c)
{
    struct emulated_job *j = c->job;
    int done = 1;

    if (!j)
        return 1;
    MPI_Testall(j->requests, j->request, &done, MPI_STATUSES_IGNORE);
    if (!done)
        return 0;
    if (j->root && j->stage++ == 0) {
        tell_all(c, j);
        return 0;
    }
    if (j->out && j->color != NCCL_SPLIT_NOCOLOR)
        *j->out = child_of(c, j);
    j->requests = 0;
    job_end(c);
    return 1;
}

ncclResult_t emulated_nccl_state(ncclComm_t c)
{
    ncclResult_t rc = c->failed;

    if (rc == ncclSuccess)
        rc = job_go_on(c) && emulated_nccl_progress(c) ? ncclSuccess : ncclInProgress;
    if (rc == ncclSuccess && c->closing > 0 && c->closing--)
        rc = ncclInProgress;
    return rc;
}

ncclResult_t emulated_nccl_ready(ncclComm_t c)
{
    ncclResult_t rc = emulated_nccl_state(c);

    return rc == ncclInProgress ? ncclInvalidArgument : rc;
}

/* From outside: what a call says when c may not be asked for anything. */
static ncclResult_t ready(ncclComm_t c)
{
    if (!c)
        return ncclInvalidArgument;
    emulated_nccl_enter();
    ncclResult_t rc = emulated_nccl_ready(c);
    emulated_nccl_leave();
    return rc;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* One that blocks is made, or has its child, when the call is back. */
static ncclResult_t made(ncclComm_t c)
{
    emulated_nccl_enter();
    c->inside++;
    ncclResult_t state = emulated_nccl_state(c);
    while (state == ncclInProgress && c->blocking && !c->aborting) {
        emulated_nccl_leave();
        nap();
        emulated_nccl_enter();
        state = emulated_nccl_state(c);
    }
    state = c->aborting ? ncclInternalError : state;
    c->inside--;
    emulated_nccl_leave();
    return state;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    int part[2] = {0, ++ids};

    MPI_Comm_rank(MPI_COMM_WORLD, &part[0]);
    memset(id, 0, sizeof *id);
    memcpy(id, part, sizeof part);
    return ncclSuccess;
}

/* NCCL makes a communicator in a thread of its own, whose captures are as any new thread's. */
static void *make_apart(void *rc)
{
    *(cudaError_t *)rc = emulated_capture_may("cudaMalloc", NULL);
    return NULL;
}

static cudaError_t may_make(void)
{
    cudaError_t rc = cudaErrorStreamCaptureUnsupported;
    pthread_t thread;

    if (pthread_create(&thread, NULL, make_apart, &rc) == 0)
        pthread_join(thread, NULL);
    return rc;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    int part[2];

    memcpy(part, &id, sizeof part);
    if (nranks < 1 || rank < 0 || rank >= nranks)
        return ncclInvalidArgument;
    if (may_make() != cudaSuccess)
        return ncclUnhandledCudaError;
    emulated_nccl_enter();
    ncclComm_t c = make(name_of(0, part[0], part[1]), rank, nranks, config, 1);
    struct emulated_job *j = c->job = job_new(nranks);
    j->mine[0] = rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &j->mine[1]);
    j->root = j->mine[1] == part[0];
    c->world[rank] = j->mine[1];
    for (int i = 1; j->root && i < nranks; i++)
        MPI_Irecv(j->all + 2 * i, 2, MPI_INT, MPI_ANY_SOURCE, c->tag, MPI_COMM_WORLD,
                  &j->request[j->requests++]);
    if (!j->root) {
        MPI_Isend(j->mine, 2, MPI_INT, part[0], c->tag, MPI_COMM_WORLD, &j->request[0]);
        MPI_Irecv(c->world, nranks, MPI_INT, part[0], c->tag, MPI_COMM_WORLD, &j->request[1]);
        j->requests = 2;
    }
    emulated_nccl_leave();
    *comm = c;
    return made(c);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, nranks, id, rank, NULL);
}

/* Each rank's color and key go to every rank of the parent. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child,
                           ncclConfig_t *config)
{
    ncclResult_t rc = ready(comm);

    *child = NULL;
    if (rc != ncclSuccess)
        return rc;
    emulated_nccl_enter();
    struct emulated_job *j = comm->job = job_new(comm->ranks);
    comm->splits++;
    *j = (struct emulated_job){.out = child,
                               .color = color,
                               .mine = {color, key},
                               .all = j->all,
                               .request = j->request,
                               .configured = config != NULL};
    if (config)
        j->config = *config;
    memcpy(j->all + 2 * comm->rank, j->mine, sizeof j->mine);
    for (int r = 0; r < comm->ranks; r++)
        if (r != comm->rank) {
            MPI_Isend(j->mine, 2, MPI_INT, comm->world[r], comm->tag + 1, MPI_COMM_WORLD,
                      &j->request[j->requests++]);
            MPI_Irecv(j->all + 2 * r, 2, MPI_INT, comm->world[r], comm->tag + 1, MPI_COMM_WORLD,
                      &j->request[j->requests++]);
        }
    emulated_nccl_leave();
    return made(comm);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    ncclResult_t rc = ready(comm);

    if (rc != ncclSuccess)
        return rc;
    if (comm->finalized)
        return ncclInvalidArgument;
    comm->finalized = 1;
    comm->closing = !comm->blocking;
    return comm->blocking ? ncclSuccess : ncclInProgress;
}

static void drop_ops(ncclComm_t c)
{
    job_end(c);
    cancel(c->request, c->requests);
    for (int i = 0; i < c->ops; i++)
        free(c->op[i].arrived);
    if (c->ops)
        emulated_reach(-1);
    c->ops = c->requests = 0;
}

static void give_up(ncclComm_t c)
{
    ncclComm_t *at = &comms;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    drop_ops(c);
    free(c->world);
    free(c->op);
    free(c->request);
    free(c);
}

/* Entered: what other threads wait for in calls comes to an end. */
static void end_calls(ncclComm_t c)
{
    c->aborting = 1;
    while (c->inside) {
        emulated_nccl_leave();
        nap();
        emulated_nccl_enter();
    }
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    emulated_nccl_enter();
    end_calls(comm);
    give_up(comm);
    emulated_nccl_leave();
    return ncclSuccess;
}

/* What goes on ends; the communicator can still be destroyed. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
    if (!comm || flags || comm->finalized)
        return ncclInvalidArgument;
    emulated_nccl_enter();
    end_calls(comm);
    drop_ops(comm);
    comm->aborting = comm->stalled = 0;
    comm->finalized = 1;
    emulated_nccl_leave();
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ncclResult_t rc = comm ? ready(comm) : ncclSuccess;

    if (rc != ncclSuccess || !comm)
        return rc;
    emulated_nccl_enter();
    give_up(comm);
    emulated_nccl_leave();
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    if (!comm)
        return ncclInvalidArgument;
    emulated_nccl_enter();
    *error = emulated_nccl_state(comm);
    emulated_nccl_leave();
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    ncclResult_t rc = ready(comm);

    *count = rc == ncclSuccess ? comm->ranks : 0;
    return rc;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    ncclResult_t rc = ready(comm);

    *rank = rc == ncclSuccess ? comm->rank : -1;
    return rc;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    ncclResult_t rc = ready(comm);

    *device = rc == ncclSuccess ? comm->device : -1;
    return rc;
}

static int register_now(ncclComm_t c, const void *was, void *now)
{
    for (int i = 0; i < REGISTERED_MOST; i++)
        if (c->registered[i] == was) {
            c->registered[i] = now;
            return 1;
        }
    return 0;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *p, size_t size, void **handle)
{
    ncclResult_t rc = ready(comm);

    if (rc != ncclSuccess)
        return rc;
    if (!p || !size || !register_now(comm, NULL, p))
        return ncclInvalidArgument;
    *handle = p;
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    return comm && handle && register_now(comm, handle, NULL) ? ncclSuccess
                                                              : ncclInvalidArgument;
}

ncclResult_t ncclMemAlloc(void **p, size_t size)
{
    return cudaMalloc(p, size) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *p)
{
    emulated_nccl_enter();
    for (ncclComm_t c = comms; p && c; c = c->next)
        if (register_now(c, p, p)) {
            fprintf(stderr, "emulated NCCL: memory is freed that a communicator has\n");
            abort();
        }
    emulated_nccl_leave();
    return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
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
