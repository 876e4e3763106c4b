/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a block's threads take turns.  A fiber lives on a stack of its own and is kept for
 * later launches; makecontext starts it once, from then on _setjmp and _longjmp switch, which
 * ask nothing of the kernel.  The checks of fortified builds forbid such jumps: hence the first
 * line of code. */
#undef _FORTIFY_SOURCE
#include "fibers.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum {
    THREADS = 1024,
    WARP = 32,
    STACK = 128 << 10,
    GUARD = 4 << 10,
    SHARED = 227 << 10, /* what a block may have on sm_90 */
    COPIES = 512        /* under way for a thread */
};

enum state { READY, AT_BARRIER, AT_WARP, DONE };

struct copy {
    void *to;
    const void *from;
    size_t bytes, given;
    int group;
};

struct fiber {
    jmp_buf at;
    enum state state;
    uint3 id;
    unsigned mask;
    emulate_op *op;
    const void *in;
    void *out;
    int copies, group;
    struct copy copy[COPIES];
};

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

static struct {
    pthread_mutex_t one; /* a launch at a time, whichever thread asks */
    struct fiber *fiber[THREADS];
    jmp_buf scheduler;
    int made, threads, live, waiting, current;
    const char *kernel;
    void (*body)(void *arg);
    void *arg;
    size_t bytes; /* of shared, asked for */
    alignas(128) unsigned char shared[SHARED];
} gpu;

void emulate_fail(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "emulated GPU: kernel %s, block (%u,%u,%u), thread (%u,%u,%u): ",
            gpu.kernel ? gpu.kernel : "none", blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
            threadIdx.y, threadIdx.z);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

static void park(struct fiber *f)
{
    if (!_setjmp(f->at))
        _longjmp(gpu.scheduler, 1);
}

static void release(void)
{
    for (int t = 0; t < gpu.threads; t++)
        if (gpu.fiber[t]->state == AT_BARRIER)
            gpu.fiber[t]->state = READY;
    gpu.waiting = 0;
}

static void live_on(void)
{
    struct fiber *f = gpu.fiber[gpu.current];

    for (;;) {
        park(f);
        gpu.body(gpu.arg);
        f->state = DONE;
        gpu.live--;
        if (gpu.live && gpu.waiting == gpu.live)
            release();
    }
}

static void make(void)
{
    struct fiber *f = (struct fiber *)calloc(1, sizeof *f);
    unsigned char *stack =
        (unsigned char *)mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    static ucontext_t context;

    if (!f || stack == MAP_FAILED || mprotect(stack, GUARD, PROT_NONE))
        emulate_fail("no memory for the stack of a thread");
    getcontext(&context);
    context.uc_stack.ss_sp = stack + GUARD;
    context.uc_stack.ss_size = STACK;
    context.uc_link = NULL;
    makecontext(&context, live_on, 0);
    gpu.current = gpu.made;
    gpu.fiber[gpu.made++] = f;
    if (!_setjmp(gpu.scheduler))
        setcontext(&context);
}

static void resume(int t)
{
    gpu.current = t;
    threadIdx = gpu.fiber[t]->id;
    if (!_setjmp(gpu.scheduler))
        _longjmp(gpu.fiber[t]->at, 1);
}

static void stuck(void)
{
    for (int t = 0; t < gpu.threads; t++) {
        struct fiber *f = gpu.fiber[t];

        threadIdx = f->id;
        if (f->state == AT_WARP)
            emulate_fail("waits for the lanes 0x%08x of its warp, of which some never come",
                         f->mask);
    }
    emulate_fail("%d of %d threads wait at a barrier that the others never come to",
                 gpu.waiting, gpu.live);
}

/* Lets each lane of a warp that can go on; returns whether one could. */
static int run_warp(int first, int down)
{
    int moved = 0;

    for (int i = 0; i < WARP; i++) {
        int t = first + (down ? WARP - 1 - i : i);

        if (t < gpu.threads && gpu.fiber[t]->state == READY) {
            resume(t);
            moved = 1;
        }
    }
    return moved;
}

/* ahead: a warp goes on for as long as it can before another has its turn. */
static void run_block(int down, int ahead)
{
    int warps = (gpu.threads + WARP - 1) / WARP;

    memset(gpu.shared, 0xff, gpu.bytes); /* NaN as a float, -1 as an index */
    gpu.live = gpu.threads;
    gpu.waiting = 0;
    for (int t = 0; t < gpu.threads; t++) {
        gpu.fiber[t]->state = READY;
        gpu.fiber[t]->copies = gpu.fiber[t]->group = 0;
    }
    while (gpu.live) {
        int moved = 0;

        for (int i = 0; i < warps; i++) {
            int first = WARP * (down ? warps - 1 - i : i);

            while (run_warp(first, down)) {
                moved = 1;
                if (!ahead)
                    break;
            }
        }
        if (!moved)
            stuck();
    }
}

static void check(dim3 grid, dim3 block, size_t shared)
{
    unsigned long long threads = (unsigned long long)block.x * block.y * block.z;

    blockIdx = threadIdx = {};
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 ||
        grid.z > 65535)
        emulate_fail("a grid of (%u,%u,%u)", grid.x, grid.y, grid.z);
    if (!threads || threads > THREADS || block.z > 64)
        emulate_fail("a block of (%u,%u,%u)", block.x, block.y, block.z);
    if (shared > SHARED)
        emulate_fail("%zu bytes of shared memory", shared);
}

void emulate_run(const char *kernel, dim3 grid, dim3 block, size_t shared,
                 void (*body)(void *arg), void *arg)
{
    static unsigned blocks;

    pthread_mutex_lock(&gpu.one);
    gpu.kernel = kernel;
    check(grid, block, shared);
    gpu.body = body;
    gpu.arg = arg;
    gpu.bytes = shared;
    gpu.threads = (int)(block.x * block.y * block.z);
    blockDim = block;
    gridDim = grid;
    while (gpu.made < gpu.threads)
        make();
    for (int t = 0; t < gpu.threads; t++)
        gpu.fiber[t]->id = {t % block.x, t / block.x % block.y, t / block.x / block.y};
    for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++)
                run_block(blocks & 1, blocks >> 1 & 1), blocks++;
    gpu.kernel = NULL;
    pthread_mutex_unlock(&gpu.one);
}

void *emulate_shared(void)
{
    return gpu.shared;
}

int emulate_lane(void)
{
    return gpu.current % WARP;
}

void emulate_syncthreads(void)
{
    struct fiber *f = gpu.fiber[gpu.current];

    f->state = AT_BARRIER;
    if (++gpu.waiting == gpu.live)
        release();
    else
        park(f);
}

void emulate_warp(unsigned mask, emulate_op *op, const void *in, void *out)
{
    int lane = gpu.current % WARP, first = gpu.current - lane, all = 1;
    const void *ins[WARP] = {};
    void *outs[WARP] = {};
    struct fiber *f = gpu.fiber[gpu.current];

    if (!(mask >> lane & 1))
        emulate_fail("lane %d is not in its own mask 0x%08x", lane, mask);
    f->state = AT_WARP;
    f->mask = mask;
    f->op = op;
    f->in = in;
    f->out = out;
    for (int l = 0; l < WARP; l++) {
        struct fiber *o = first + l < gpu.threads ? gpu.fiber[first + l] : NULL;

        if (!(mask >> l & 1))
            continue;
        if (!o || o->state == DONE)
            emulate_fail("lane %d of the mask 0x%08x is no thread any more", l, mask);
        if (o->state != AT_WARP) {
            all = 0;
            continue;
        }
        if (o->mask != mask || o->op != op)
            emulate_fail("lanes %d and %d are at different collectives", lane, l);
        ins[l] = o->in;
        outs[l] = o->out;
    }
    if (!all) {
        park(f);
        return;
    }
    op(mask, ins, outs);
    for (int l = 0; l < WARP; l++)
        if (mask >> l & 1)
            gpu.fiber[first + l]->state = READY;
}

void emulate_async(void *to, const void *from, size_t bytes, size_t given)
{
    struct fiber *f = gpu.fiber[gpu.current];

    if (f->copies == COPIES)
        emulate_fail("more than %d copies under way", COPIES);
    if ((size_t)to % bytes || (given && (size_t)from % bytes))
        emulate_fail("an asynchronous copy of %zu bytes that is not aligned", bytes);
    f->copy[f->copies++] = {to, from, bytes, given, f->group};
}

void emulate_async_commit(void)
{
    gpu.fiber[gpu.current]->group++;
}

void emulate_async_wait(int groups)
{
    struct fiber *f = gpu.fiber[gpu.current];
    int kept = 0;

    for (int i = 0; i < f->copies; i++) {
        struct copy *c = f->copy + i;

        if (c->group >= f->group - groups) {
            f->copy[kept++] = *c;
            continue;
        }
        memset(c->to, 0, c->bytes);
        if (c->given)
            memcpy(c->to, c->from, c->given);
    }
    f->copies = kept;
}
