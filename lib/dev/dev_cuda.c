/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements GPUs with the CUDA runtime.  Streams do not synchronize with the default stream,
 * and events take no times.  Nothing is put into the default stream, which belongs to the
 * program that loads the library: it would wait for all of that program's work, and would fail
 * while one of its streams is captured.  Every call first makes the device current for the
 * calling thread: a thread begins with device 0, and its first call would create a context
 * there.  Reference: the CUDA runtime's manual, 13.0; nothing here is newer than 12.0.
 */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "dev/dev_inside.h"

static void here(struct device *d)
{
    cudaError_t rc = cudaSetDevice(d->index);

    if (rc != cudaSuccess)
        device_fail(d, "cudaSetDevice", cudaGetErrorString(rc));
}

/* Returns -1, and fails the device, unless rc is success. */
static int requested(struct device *d, const char *call, cudaError_t rc)
{
    return rc == cudaSuccess ? 0 : device_fail(d, call, cudaGetErrorString(rc));
}

static int cuda_report(struct device *d, const char *call, cudaError_t rc, struct err *err)
{
    requested(d, call, rc);
    return device_check(d, err);
}

static void close_device(struct device *d)
{
    here(d);
    cudaDeviceSynchronize(); /* failures were reported, or no later call can report them */
    cudaStreamDestroy(d->aside);
}

static int cuda_memory(const struct device *d, int64_t *free_bytes, int64_t *bytes,
                       struct err *err)
{
    size_t left = 0, all = 0;
    cudaError_t rc = cudaSetDevice(d->index);

    if (rc == cudaSuccess)
        rc = cudaMemGetInfo(&left, &all);
    if (rc != cudaSuccess)
        return err_set(err, ERR_DEVICE, "device cuda:%d failed at cudaMemGetInfo: %s", d->index,
                       cudaGetErrorString(rc));
    *free_bytes = (int64_t)left;
    *bytes = (int64_t)all;
    return 0;
}

static int cuda_refused(struct device *d, int64_t bytes, const char *what, struct err *err)
{
    int64_t left = 0, all = 0;
    struct units request, has, of;

    cudaGetLastError(); /* clears the error: requesting too much is no failure of the device */
    if (cuda_memory(d, &left, &all, err))
        return -1;
    return err_set(err, ERR_SYS,
                   "cannot have %" PRId64 " bytes (%s) of memory of cuda:%d for %s: %s of %s "
                   "are free",
                   bytes, units_bytes(&request, (double)bytes), d->index, what,
                   units_bytes(&has, (double)left), units_bytes(&of, (double)all));
}

static int cuda_alloc(struct device *d, int64_t bytes, const char *what, void **out,
                      struct err *err)
{
    void *p = NULL;
    size_t n = bytes > 0 ? (size_t)bytes : 1;

    here(d);
    cudaError_t rc = cudaMalloc(&p, n);
    if (rc == cudaErrorMemoryAllocation)
        return cuda_refused(d, bytes, what, err);
    if (cuda_report(d, "cudaMalloc", rc, err))
        return -1;
    /* No queue waits for the zeroing, so it must be done before the memory is returned. */
    if (requested(d, "cudaMemsetAsync", cudaMemsetAsync(p, 0, n, d->aside)) ||
        requested(d, "cudaStreamSynchronize", cudaStreamSynchronize(d->aside))) {
        cudaFree(p);
        return device_check(d, err);
    }
    *out = p;
    return 0;
}

static void cuda_free_memory(struct device *d, void *p)
{
    here(d);
    requested(d, "cudaFree", cudaFree(p));
}

static int host_alloc(struct device *d, int64_t bytes, const char *what, void **out,
                      struct err *err)
{
    size_t n = bytes > 0 ? (size_t)bytes : 1;
    void *p = NULL;

    here(d);
    cudaError_t rc = cudaHostAlloc(&p, n, cudaHostAllocPortable);
    if (rc == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return err_set(err, ERR_SYS, "cannot have %" PRId64 " bytes of pinned memory for %s",
                       bytes, what);
    }
    if (cuda_report(d, "cudaHostAlloc", rc, err))
        return -1;
    memset(p, 0, n);
    *out = p;
    return 0;
}

static void host_free(struct device *d, void *p)
{
    here(d);
    requested(d, "cudaFreeHost", cudaFreeHost(p));
}

static int cuda_pin(struct device *d, void *host, int64_t bytes, struct err *err)
{
    here(d);
    cudaError_t rc = cudaHostRegister(host, (size_t)bytes, cudaHostRegisterPortable);
    if (rc == cudaSuccess)
        return 0;
    cudaGetLastError(); /* clears the error: the pages stay unpinned, the device is fine */
    return err_set(err, ERR_SYS, "cannot pin %" PRId64 " bytes for cuda:%d: %s", bytes,
                   d->index, cudaGetErrorString(rc));
}

static void cuda_unpin(struct device *d, void *host)
{
    here(d);
    requested(d, "cudaHostUnregister", cudaHostUnregister(host));
}

static int cuda_stream_open(struct device *d, void **stream, struct err *err)
{
    cudaStream_t s = NULL;

    here(d);
    if (cuda_report(d, "cudaStreamCreate", cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking),
                    err))
        return -1;
    *stream = s;
    return 0;
}

static void stream_close(struct device *d, void *stream)
{
    here(d);
    /* The caller may free the memory of pending work next. */
    requested(d, "cudaStreamSynchronize", cudaStreamSynchronize(stream));
    cudaStreamDestroy(stream);
}

static int event_open(struct device *d, void **event, struct err *err)
{
    cudaEvent_t e = NULL;

    here(d);
    if (cuda_report(d, "cudaEventCreate", cudaEventCreateWithFlags(&e, cudaEventDisableTiming),
                    err))
        return -1;
    *event = e;
    return 0;
}

static void event_close(struct device *d, void *event)
{
    here(d);
    cudaEventDestroy(event);
}

static void cuda_copy(struct device *d, void *stream, void *to, const void *from, int64_t bytes)
{
    here(d);
    requested(d, "cudaMemcpyAsync",
              cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, stream));
}

static void cuda_copy_rows(struct device *d, void *stream, void *to, int64_t to_row,
                           const void *from, int64_t from_row, int64_t bytes, int64_t rows)
{
    here(d);
    requested(d, "cudaMemcpy2DAsync",
              cudaMemcpy2DAsync(to, (size_t)to_row, from, (size_t)from_row, (size_t)bytes,
                                (size_t)rows, cudaMemcpyDeviceToDevice, stream));
}

static void cuda_zero(struct device *d, void *stream, void *to, int64_t bytes)
{
    here(d);
    requested(d, "cudaMemsetAsync", cudaMemsetAsync(to, 0, (size_t)bytes, stream));
}

static void record(struct device *d, void *stream, void *event)
{
    here(d);
    requested(d, "cudaEventRecord", cudaEventRecord(event, stream));
}

static void wait_event(struct device *d, void *stream, void *event)
{
    here(d);
    requested(d, "cudaStreamWaitEvent", cudaStreamWaitEvent(stream, event, 0));
}

static int cuda_done(struct device *d, void *event)
{
    here(d);
    cudaError_t rc = cudaEventQuery(event);
    if (rc == cudaErrorNotReady) {
        cudaGetLastError(); /* clears it: not ready counts as an error */
        return 0;
    }
    return requested(d, "cudaEventQuery", rc) ? -1 : 1;
}

static int event_sync(struct device *d, void *event)
{
    here(d);
    return requested(d, "cudaEventSynchronize", cudaEventSynchronize(event));
}

static int sync_stream(struct device *d, void *stream)
{
    here(d);
    return requested(d, "cudaStreamSynchronize", cudaStreamSynchronize(stream));
}

/* Thread-local mode: calls of other threads do not invalidate the capture. */
static int graph_begin(struct device *d, void *stream, struct err *err)
{
    here(d);
    cudaError_t rc = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (rc == cudaSuccess)
        return 0;
    cudaGetLastError(); /* clears the error: no capture has begun, the device is fine */
    return err_set(err, ERR_ABSENT, "cudaStreamBeginCapture: %s", cudaGetErrorString(rc));
}

static void *graph_end(struct device *d, void *stream, const char **words)
{
    cudaGraphExec_t exec = NULL;
    cudaGraph_t graph = NULL;

    here(d);
    cudaError_t rc = cudaStreamEndCapture(stream, &graph);
    if (rc == cudaSuccess)
        rc = cudaGraphInstantiate(&exec, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    if (rc != cudaSuccess)
        cudaGetLastError();
    *words = cudaGetErrorString(rc);
    return rc == cudaSuccess ? exec : NULL;
}

static void graph_run(struct device *d, void *stream, void *graph)
{
    here(d);
    requested(d, "cudaGraphLaunch", cudaGraphLaunch(graph, stream));
}

static void graph_free(struct device *d, void *graph)
{
    here(d);
    cudaGraphExecDestroy(graph);
}

static const struct device_kind_ops cuda = {
    .close = close_device,
    .memory = cuda_memory,
    .alloc = cuda_alloc,
    .free = cuda_free_memory,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .stream_open = cuda_stream_open,
    .stream_close = stream_close,
    .event_open = event_open,
    .event_close = event_close,
    .copy = cuda_copy,
    .copy_rows = cuda_copy_rows,
    .zero = cuda_zero,
    .record = record,
    .wait = wait_event,
    .done = cuda_done,
    .event_sync = event_sync,
    .sync = sync_stream,
    .graph_begin = graph_begin,
    .graph_end = graph_end,
    .graph_run = graph_run,
    .graph_free = graph_free,
    .here = here,
};

static int count_gpus(int *count, struct err *err)
{
    cudaError_t rc = cudaGetDeviceCount(count);

    if (rc == cudaErrorInsufficientDriver) {
        /* Without a GPU the runtime reports only that its driver is too old. */
        int driver = 0, runtime = 0;

        cudaDriverGetVersion(&driver);
        cudaRuntimeGetVersion(&runtime);
        if (driver == 0)
            return err_set(
                err, ERR_ABSENT,
                "device cuda: this machine has no driver of NVIDIA's, expected one for "
                "CUDA %d.%d or newer",
                runtime / 1000, runtime % 1000 / 10);
        return err_set(err, ERR_ABSENT,
                       "device cuda: the driver is for CUDA %d.%d, expected %d.%d or newer",
                       driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    }
    if (rc == cudaErrorNoDevice || (rc == cudaSuccess && *count == 0))
        return err_set(err, ERR_ABSENT, "device cuda: this machine has no GPU");
    if (rc != cudaSuccess)
        return err_set(err, ERR_DEVICE, "device cuda: cannot count GPUs: %s",
                       cudaGetErrorString(rc));
    return 0;
}

int device_open_cuda(struct device *d, int index, int local_rank, struct err *err)
{
    struct cudaDeviceProp prop;
    cudaStream_t aside = NULL;
    int count = 0;

    if (count_gpus(&count, err))
        return -1;
    if (index >= count)
        return err_set(err, ERR_ABSENT,
                       "device cuda:%d: this machine has %d GPU%s, from cuda:0", index, count,
                       count > 1 ? "s" : "");
    if (index < 0 && local_rank >= count)
        return err_set(err, ERR_ABSENT,
                       "device cuda: rank %d of this machine has no GPU of its own, there %s "
                       "%d: expected no more ranks, or cuda:N to share one",
                       local_rank, count > 1 ? "are" : "is", count);
    d->op = &cuda;
    d->kind = DEVICE_CUDA;
    d->index = index < 0 ? local_rank : index;
    cudaError_t rc = cudaSetDevice(d->index);
    if (rc == cudaSuccess)
        rc = cudaGetDeviceProperties(&prop, d->index);
    if (rc == cudaSuccess)
        rc = cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
    if (rc != cudaSuccess)
        return err_set(err, ERR_DEVICE, "cannot open device cuda:%d: %s", d->index,
                       cudaGetErrorString(rc));
    snprintf(d->name, sizeof d->name, "%s", prop.name);
    d->aside = aside;
    return 0;
}
