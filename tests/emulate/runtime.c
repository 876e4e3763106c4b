/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CUDA runtime of a GPU in software: cuda_runtime_api.h says what it is.  One lock keeps
 * the lists of blocks; work is done in the thread that asks for it.
 *
 *     a block of the device:  [ slack | bytes asked for | slack ][page out of reach]
 *                                     ^ 256-byte aligned, as near the end as that lets it
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>

#include "late.h"

enum { PAGE = 4096, ALIGN = 256, SLACK = 0xa5, GPUS_MAX = 16 };

enum kind { DEVICE, HOST, REGISTERED };

struct block {
    struct block *next;
    enum kind kind;
    int device;
    unsigned char *p, *map;
    size_t bytes, map_bytes; /* the page out of reach is not counted */
};

struct CUevent_st {
    int device;
    cudaStream_t stream; /* of the last record, and how far it had been asked to come */
    int64_t seq;
    int captured; /* that record was written down, not made */
    double ms;    /* when it was asked for: work is done at once, unless it is done late */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;
static size_t used[GPUS_MAX];
static int at_work, calls, broken; /* under the lock */
static _Thread_local int device_now, nested;
static _Thread_local cudaError_t last;

static long long env_number(const char *name, long long otherwise)
{
    const char *text = getenv(name);

    return text && *text ? atoll(text) : otherwise;
}

cudaError_t emulated_said(cudaError_t rc)
{
    if (rc != cudaSuccess)
        last = rc;
    return rc;
}

/* A fault that was asked for: the N-th call of that name, and whatever comes after it. */
static cudaError_t fault_now(const char *call)
{
    const char *want = getenv("EMULATED_FAIL");
    size_t n = strlen(call);
    cudaError_t rc = cudaSuccess;

    pthread_mutex_lock(&lock);
    if (want && strncmp(want, call, n) == 0 && want[n] == ':' &&
        ++calls == atoi(want + n + 1)) {
        rc = strcmp(call, "cudaMalloc") == 0 ? cudaErrorMemoryAllocation
                                             : cudaErrorLaunchFailure;
        broken = rc == cudaErrorLaunchFailure;
    }
    if (broken)
        rc = cudaErrorLaunchFailure;
    pthread_mutex_unlock(&lock);
    return emulated_said(rc);
}

/* The same of a call that a captured stream may spoil its capture by. */
static cudaError_t fault_on(const char *call, cudaStream_t stream)
{
    cudaError_t rc = emulated_capture_may(call, stream);

    return rc == cudaSuccess ? fault_now(call) : emulated_said(rc);
}

static cudaError_t fault(const char *call)
{
    return fault_on(call, NULL);
}

/* Under EMULATED_GUARD: while nobody is at work, nobody reaches a block. */
static void guard(int prot)
{
    if (env_number("EMULATED_GUARD", 0))
        for (struct block *b = blocks; b; b = b->next)
            if (b->kind == DEVICE && mprotect(b->map, b->map_bytes, prot))
                abort();
}

cudaError_t emulated_begin(const char *call, cudaStream_t stream)
{
    cudaError_t rc = fault_on(call, stream);

    if (rc == cudaSuccess && stream && stream->device != device_now)
        rc = emulated_said(cudaErrorInvalidResourceHandle);
    if (rc == cudaSuccess)
        emulated_open();
    return rc;
}

void emulated_reach(int more)
{
    pthread_mutex_lock(&lock);
    at_work += more;
    if (at_work == (more > 0))
        guard(more > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
    pthread_mutex_unlock(&lock);
}

void emulated_open(void)
{
    if (nested++ == 0)
        emulated_reach(1);
}

void emulated_end(void)
{
    if (--nested == 0)
        emulated_reach(-1);
}

static int gpus(void)
{
    long long n = env_number("EMULATED_GPUS", 1);

    return n > GPUS_MAX ? GPUS_MAX : (int)n;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    int driver = 0, runtime = 0;

    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    *count = gpus();
    /* Within a major version an older driver does. */
    if (driver / 1000 < runtime / 1000)
        return emulated_said(cudaErrorInsufficientDriver);
    return emulated_said(*count < 1 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= gpus())
        return emulated_said(cudaErrorInvalidDevice);
    device_now = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = device_now;
    return cudaSuccess;
}

static size_t memory_bytes(void)
{
    return (size_t)env_number("EMULATED_GPU_BYTES", 4LL << 30);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    if (device < 0 || device >= gpus())
        return emulated_said(cudaErrorInvalidDevice);
    switch (attr) {
    case cudaDevAttrMultiProcessorCount:
        *value = 4; /* few, so that loops over the blocks of a grid go round */
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = (int)env_number("EMULATED_CAPABILITY", 90) / 10;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = (int)env_number("EMULATED_CAPABILITY", 90) % 10;
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = 227 << 10;
        return cudaSuccess;
    }
    return emulated_said(cudaErrorInvalidValue);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    if (device < 0 || device >= gpus())
        return emulated_said(cudaErrorInvalidDevice);
    *prop = (struct cudaDeviceProp){.totalGlobalMem = memory_bytes()};
    snprintf(prop->name, sizeof prop->name, "a GPU in software");
    cudaDeviceGetAttribute(&prop->multiProcessorCount, cudaDevAttrMultiProcessorCount, device);
    cudaDeviceGetAttribute(&prop->major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&prop->minor, cudaDevAttrComputeCapabilityMinor, device);
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    if (!func || (attr == cudaFuncAttributeMaxDynamicSharedMemorySize && value > 227 << 10))
        return emulated_said(cudaErrorInvalidValue);
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = (int)env_number("EMULATED_DRIVER", 13000);
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    emulated_run_all();
    return fault("cudaDeviceSynchronize");
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t rc = last;

    last = cudaSuccess;
    return rc;
}

/* What NVIDIA calls the errors of its runtime. */
const char *cudaGetErrorString(cudaError_t error)
{
    static const struct {
        cudaError_t error;
        const char *words;
    } all[] = {
        {cudaSuccess, "no error"},
        {cudaErrorInvalidValue, "invalid argument"},
        {cudaErrorMemoryAllocation, "out of memory"},
        {cudaErrorInsufficientDriver,
         "CUDA driver version is insufficient for CUDA runtime version"},
        {cudaErrorNoDevice, "no CUDA-capable device is detected"},
        {cudaErrorInvalidDevice, "invalid device ordinal"},
        {cudaErrorInvalidResourceHandle, "invalid resource handle"},
        {cudaErrorNotReady, "device not ready"},
        {cudaErrorHostMemoryAlreadyRegistered,
         "part or all of the requested memory range is already mapped"},
        {cudaErrorHostMemoryNotRegistered,
         "pointer does not correspond to a registered memory region"},
        {cudaErrorLaunchFailure, "unspecified launch failure"},
        {cudaErrorNotSupported, "operation not supported"},
        {cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"},
        {cudaErrorStreamCaptureInvalidated,
         "operation failed due to a previous error during capture"},
        {cudaErrorStreamCaptureIsolation,
         "dependency created on uncaptured work in another stream"},
        {cudaErrorStreamCaptureImplicit,
         "operation would make the legacy stream depend on a capturing blocking stream"},
        {cudaErrorCapturedEvent,
         "operation not permitted on an event last recorded in a capturing stream"},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].error == error)
            return all[i].words;
    return "unrecognized error code";
}

static struct block *block_add(enum kind kind, void *p, size_t bytes)
{
    struct block *b = calloc(1, sizeof *b);

    if (!b)
        abort();
    *b = (struct block){blocks, kind, device_now, p, p, bytes, 0};
    blocks = b;
    return b;
}

/* The link to the block of that kind which begins at p; NULL: none. */
static struct block **block_at(enum kind kind, const void *p)
{
    for (struct block **at = &blocks; *at; at = &(*at)->next)
        if ((*at)->kind == kind && (*at)->p == p)
            return at;
    return NULL;
}

static cudaError_t map_block(void **p, size_t bytes)
{
    size_t whole = (bytes + ALIGN - 1) / ALIGN * ALIGN,
           pages = (whole + PAGE - 1) / PAGE * PAGE;
    unsigned char *map =
        mmap(NULL, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED || mprotect(map + pages, PAGE, PROT_NONE))
        return cudaErrorMemoryAllocation;
    *p = map + pages - whole;
    memset(map, SLACK, pages - whole);
    memset(*p, 0xff, bytes); /* a NaN, of whatever type */
    memset((char *)*p + bytes, SLACK, whole - bytes);
    struct block *b = block_add(DEVICE, *p, bytes);
    b->map = map;
    b->map_bytes = pages;
    used[device_now] += pages;
    if (!at_work)
        guard(PROT_NONE);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    cudaError_t rc = fault("cudaMalloc");

    if (rc != cudaSuccess)
        return rc;
    pthread_mutex_lock(&lock);
    size_t all = memory_bytes(), left = all - used[device_now];
    rc = bytes > left || left - bytes < PAGE ? cudaErrorMemoryAllocation : map_block(p, bytes);
    pthread_mutex_unlock(&lock);
    return emulated_said(rc);
}

/* What lies around a block is as it was, or a kernel wrote beside its memory. */
static void check_slack(const struct block *b)
{
    for (const unsigned char *q = b->map; q < b->map + b->map_bytes; q++)
        if ((q < b->p || q >= b->p + b->bytes) && *q != SLACK) {
            fprintf(stderr,
                    "emulated GPU: written %td bytes from the begin of a block of %zu\n",
                    q - b->p, b->bytes);
            abort();
        }
}

cudaError_t cudaFree(void *p)
{
    if (!p)
        return cudaSuccess;
    emulated_run_all();
    cudaError_t rc = emulated_begin("cudaFree", NULL);
    if (rc != cudaSuccess)
        return rc;
    pthread_mutex_lock(&lock);
    struct block **at = block_at(DEVICE, p), *b = at ? *at : NULL;
    if (b) {
        *at = b->next;
        check_slack(b);
        used[b->device] -= b->map_bytes;
        munmap(b->map, b->map_bytes + PAGE);
        free(b);
    }
    pthread_mutex_unlock(&lock);
    emulated_end();
    return b ? cudaSuccess : emulated_said(cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    cudaError_t rc = fault("cudaMemGetInfo");

    pthread_mutex_lock(&lock);
    *all = memory_bytes();
    *left = *all - used[device_now];
    pthread_mutex_unlock(&lock);
    return rc;
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    cudaError_t rc = fault("cudaHostAlloc");

    (void)flags;
    if (rc != cudaSuccess)
        return rc;
    if (posix_memalign(p, PAGE, bytes + !bytes))
        return emulated_said(cudaErrorMemoryAllocation);
    memset(*p, 0xff, bytes);
    pthread_mutex_lock(&lock);
    block_add(HOST, *p, bytes);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

static cudaError_t drop(enum kind kind, void *p, cudaError_t otherwise)
{
    emulated_run_all();
    pthread_mutex_lock(&lock);
    struct block **at = block_at(kind, p), *b = at ? *at : NULL;
    if (b)
        *at = b->next;
    pthread_mutex_unlock(&lock);
    free(b);
    return b ? cudaSuccess : emulated_said(otherwise);
}

cudaError_t cudaFreeHost(void *p)
{
    cudaError_t rc =
        p ? emulated_said(emulated_capture_may("cudaFreeHost", NULL)) : cudaSuccess;

    if (p && rc == cudaSuccess)
        rc = drop(HOST, p, cudaErrorInvalidValue);
    if (rc == cudaSuccess)
        free(p);
    return rc;
}

/* Pages are what is pinned, each once. */
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    cudaError_t rc = fault("cudaHostRegister");
    uintptr_t from = (uintptr_t)p / PAGE, to = ((uintptr_t)p + bytes - 1) / PAGE;

    (void)flags;
    if (rc != cudaSuccess)
        return rc;
    if (!env_number("EMULATED_PIN", 1)) /* as under confidential computing */
        return emulated_said(cudaErrorNotSupported);
    if (!p || !bytes)
        return emulated_said(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    for (const struct block *b = blocks; b; b = b->next)
        if (b->kind != DEVICE && (uintptr_t)b->p / PAGE <= to &&
            ((uintptr_t)b->p + b->bytes - 1) / PAGE >= from)
            rc = cudaErrorHostMemoryAlreadyRegistered;
    if (rc == cudaSuccess)
        block_add(REGISTERED, p, bytes);
    pthread_mutex_unlock(&lock);
    return emulated_said(rc);
}

cudaError_t cudaHostUnregister(void *p)
{
    cudaError_t rc = emulated_said(emulated_capture_may("cudaHostUnregister", NULL));

    return rc == cudaSuccess ? drop(REGISTERED, p, cudaErrorHostMemoryNotRegistered) : rc;
}

struct filling {
    void *p;
    int value;
    size_t bytes;
};

static void fill(void *arg)
{
    const struct filling *f = arg;

    memset(f->p, f->value, f->bytes);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    cudaError_t rc = emulated_said(emulated_default_may(stream));

    if (rc == cudaSuccess)
        rc = emulated_begin("cudaMemsetAsync", stream);
    if (rc != cudaSuccess)
        return rc;
    emulated_do(stream, fill, &(struct filling){p, value, bytes}, sizeof(struct filling));
    emulated_end();
    return cudaSuccess;
}

char emulated_memory_of(const void *p)
{
    const unsigned char *at = p;
    char of = 0;

    pthread_mutex_lock(&lock);
    for (const struct block *b = blocks; b && !of; b = b->next)
        if (at >= b->p && at < b->p + b->bytes)
            of = b->kind == DEVICE ? 'd' : 'h';
    pthread_mutex_unlock(&lock);
    return of;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    cudaError_t rc = fault("cudaStreamCreate");

    if (rc != cudaSuccess)
        return rc;
    *stream = calloc(1, sizeof **stream);
    if (!*stream)
        abort();
    (*stream)->device = device_now;
    (*stream)->flags = flags;
    emulated_add(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    emulated_run_to(stream, stream->asked);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (stream)
        emulated_run_to(stream, stream->asked);
    cudaError_t rc = emulated_default_may(stream);
    return rc == cudaSuccess ? fault("cudaStreamSynchronize") : emulated_said(rc);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    if (!event)
        return emulated_said(cudaErrorInvalidResourceHandle);
    if (!emulated_is_captured(stream))
        emulated_behind(stream, event->stream, event->seq);
    return fault_on("cudaStreamWaitEvent", stream);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    cudaError_t rc = fault("cudaEventCreate");

    (void)flags;
    if (rc != cudaSuccess)
        return rc;
    *event = calloc(1, sizeof **event);
    if (!*event)
        abort();
    (*event)->device = device_now;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (event)
        emulated_run_to(event->stream, event->seq);
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t rc = emulated_said(emulated_default_may(stream));

    if (rc == cudaSuccess)
        rc = fault_on("cudaEventRecord", stream);
    if (rc != cudaSuccess)
        return rc;
    if (!event || (stream && stream->device != event->device))
        return emulated_said(cudaErrorInvalidResourceHandle);
    event->captured = emulated_is_captured(stream);
    if (event->captured)
        return cudaSuccess;
    event->stream = stream;
    event->seq = stream ? stream->asked : 0;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->ms = 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = (float)(to->ms - from->ms);
    return fault("cudaEventElapsedTime");
}

/* Before it is asked whether it has happened. */
static cudaError_t ask_event(const char *call, cudaEvent_t event)
{
    if (!event || event->captured)
        return emulated_said(event ? cudaErrorCapturedEvent : cudaErrorInvalidResourceHandle);
    return fault(call);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t rc = ask_event("cudaEventQuery", event);

    emulated_run_some();
    if (rc == cudaSuccess && event->stream && !emulated_is_seen(event->stream, event->seq))
        rc = emulated_said(cudaErrorNotReady); /* it counts as an error */
    return rc;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (event)
        emulated_run_to(event->stream, event->seq);
    return ask_event("cudaEventSynchronize", event);
}
