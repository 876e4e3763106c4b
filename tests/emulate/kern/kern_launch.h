/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_LAUNCH_H
#define KERN_KERN_LAUNCH_H

#include <cuda_runtime.h>
#include <math.h>
#include <string.h>

#include "late.h"

/* The twins of lib/kern/kern_launch.h: the kernel is done when KERN_LAUNCH is, or late.h. */
template <class K, class... A>
static void emulate_launch(K *kernel, const char *name, dim3 grid, dim3 block, size_t shared,
                           cudaStream_t stream, A... args)
{
    auto body = [=] { kernel(args...); };
    using caller = decltype(body);
    struct launch {
        const char *name;
        dim3 grid, block;
        size_t shared;
        caller body;
    } call = {name, grid, block, shared, body};

    if (emulated_begin("cudaLaunchKernel", stream) != cudaSuccess)
        return;
    emulated_do(
        stream,
        [](void *p) {
            struct launch *l = (struct launch *)p;
            emulate_run(
                l->name, l->grid, l->block, l->shared, [](void *b) { (*(caller *)b)(); },
                &l->body);
        },
        &call, sizeof call);
    emulated_end();
}

#define KERN_LAUNCH(kernel, grid, block, shared, stream, ...)                                  \
    emulate_launch(&*kernel, #kernel, grid, block, shared, (cudaStream_t)(stream), __VA_ARGS__)

#define KERN_SHARED(type, name) type *const name = (type *)emulate_shared()

#define KERN_SHARED_MOST(kernel, bytes) ((void)&*(kernel), (void)(bytes))

static inline void kern_store_16(uint4 *p, uint4 x)
{
    memcpy(p, &x, sizeof x);
}

static inline float kern_exp2(float x)
{
    float y = exp2f(x);

    return y < 0x1p-126f ? 0.0f : y;
}

static inline float kern_inverse(float x)
{
    float y = 1.0f / x;

    return fabsf(y) < 0x1p-126f ? copysignf(0.0f, y) : y;
}

#endif
