/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs: what a captured stream is asked for is written down and done by a launch.  What
 * cannot be written down spoils the capture, and whoever asked is told so: the CUDA runtime's
 * manual, "Stream Management", cudaStreamCaptureMode. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "late.h"

struct node {
    struct node *next;
    void (*run)(void *arg);
    size_t bytes;
    _Alignas(16) unsigned char arg[];
};

struct CUgraph_st {
    struct node *first, *last;
};

/* Calls that no thread makes which captures, nor any other while one captures for all: they
   would wait, or the memory is not there yet when the graph is. */
static const char *const unsafe[] = {"cudaMalloc",       "cudaFree",
                                     "cudaHostAlloc",    "cudaFreeHost",
                                     "cudaHostRegister", "cudaHostUnregister",
                                     "cudaMemcpy",       "cudaDeviceSynchronize",
                                     "cudaStreamCreate", "cudaStreamSynchronize",
                                     "cudaEventQuery",   "cudaEventSynchronize"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cudaStream_t captured; /* one at a time */
static enum cudaStreamCaptureMode mode_of_it;
static struct CUgraph_st *graph_now;
static int spoilt;
static _Thread_local int capturing; /* this thread began it */
static _Thread_local enum cudaStreamCaptureMode mode_now;

int emulated_is_captured(cudaStream_t stream)
{
    return stream && stream == captured;
}

static cudaError_t spoil(cudaError_t why)
{
    spoilt = 1;
    return why;
}

/* The default stream waits for those that are not apart from it. */
static int waits_for_it(cudaStream_t stream)
{
    return captured && !stream && !(captured->flags & cudaStreamNonBlocking);
}

cudaError_t emulated_default_may(cudaStream_t stream)
{
    return waits_for_it(stream) ? spoil(cudaErrorStreamCaptureImplicit) : cudaSuccess;
}

/* Whether this thread may make unsafe calls. */
static int may_all(void)
{
    if (mode_now == cudaStreamCaptureModeRelaxed)
        return 1;
    if (capturing)
        return mode_of_it == cudaStreamCaptureModeRelaxed;
    return mode_now != cudaStreamCaptureModeGlobal || mode_of_it != cudaStreamCaptureModeGlobal;
}

cudaError_t emulated_capture_may(const char *call, cudaStream_t stream)
{
    static atomic_int asked;
    const char *refuse = getenv("EMULATED_CAPTURE");

    if (!captured)
        return cudaSuccess;
    for (size_t i = 0; !may_all() && i < sizeof unsafe / sizeof *unsafe; i++)
        if (strcmp(call, unsafe[i]) == 0)
            return spoil(cudaErrorStreamCaptureUnsupported);
    if (!emulated_is_captured(stream))
        return cudaSuccess;
    if (spoilt)
        return cudaErrorStreamCaptureInvalidated;
    if (strcmp(call, "cudaStreamWaitEvent") == 0)
        return spoil(cudaErrorStreamCaptureIsolation);
    if (refuse && (atomic_fetch_add(&asked, 1) + 1) % atoi(refuse) == 0)
        return spoil(cudaErrorStreamCaptureUnsupported);
    return cudaSuccess;
}

static void append(struct CUgraph_st *g, void (*run)(void *arg), const void *arg, size_t bytes)
{
    struct node *n = calloc(1, sizeof *n + bytes);

    if (!n)
        abort();
    n->run = run;
    n->bytes = bytes;
    memcpy(n->arg, arg, bytes);
    if (g->last)
        g->last->next = n;
    else
        g->first = n;
    g->last = n;
}

int emulated_capture(cudaStream_t stream, void (*run)(void *arg), const void *arg, size_t bytes)
{
    if (!emulated_is_captured(stream))
        return 0;
    append(graph_now, run, arg, bytes);
    return 1;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    cudaError_t rc = cudaErrorInvalidValue;

    pthread_mutex_lock(&lock);
    if (!captured && stream) {
        captured = stream;
        mode_of_it = mode;
        graph_now = calloc(1, sizeof *graph_now);
        if (!graph_now)
            abort();
        spoilt = 0;
        capturing = 1;
        rc = cudaSuccess;
    }
    pthread_mutex_unlock(&lock);
    return emulated_said(rc);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    if (!emulated_is_captured(stream))
        return emulated_said(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    captured = NULL;
    capturing = 0;
    *graph = graph_now;
    if (spoilt) {
        cudaGraphDestroy(graph_now);
        *graph = NULL;
    }
    pthread_mutex_unlock(&lock);
    return emulated_said(spoilt ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    enum cudaStreamCaptureMode was = mode_now;

    mode_now = *mode;
    *mode = was;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    *status = emulated_is_captured(stream) ? cudaStreamCaptureStatusActive
                                           : cudaStreamCaptureStatusNone;
    return emulated_said(waits_for_it(stream) ? cudaErrorStreamCaptureImplicit : cudaSuccess);
}

/* A graph of its own: that one may be destroyed. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags)
{
    cudaError_t rc = emulated_begin("cudaGraphInstantiate", NULL);

    (void)flags;
    if (rc != cudaSuccess)
        return rc;
    struct CUgraph_st *own = calloc(1, sizeof *own);
    if (!own)
        abort();
    for (const struct node *n = graph->first; n; n = n->next)
        append(own, n->run, n->arg, n->bytes);
    *exec = (cudaGraphExec_t)own;
    emulated_end();
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t rc = emulated_begin("cudaGraphLaunch", stream);

    if (rc != cudaSuccess)
        return rc;
    for (struct node *n = ((struct CUgraph_st *)exec)->first; n; n = n->next)
        emulated_do(stream, n->run, n->arg, n->bytes);
    emulated_end();
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    struct node *next;

    for (struct node *n = graph ? graph->first : NULL; n; n = next) {
        next = n->next;
        free(n);
    }
    free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return cudaGraphDestroy((cudaGraph_t)exec);
}
