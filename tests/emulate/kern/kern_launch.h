/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_LAUNCH_H
#define KERN_KERN_LAUNCH_H

#include <cuda_runtime.h>

/* The twins of lib/kern/kern_launch.h: the kernel is done when KERN_LAUNCH is. */
template <class K, class... A>
static void emulate_launch(K *kernel, const char *name, dim3 grid, dim3 block, size_t shared,
                           cudaStream_t stream, A... args)
{
    auto call = [&] { kernel(args...); };
    using caller = decltype(call);

    if (emulated_begin("cudaLaunchKernel", stream) != cudaSuccess)
        return;
    emulate_run(
        name, grid, block, shared, [](void *p) { (*(caller *)p)(); }, &call);
    emulated_end();
}

#define KERN_LAUNCH(kernel, grid, block, shared, stream, ...)                                  \
    emulate_launch(&*kernel, #kernel, grid, block, shared, (cudaStream_t)(stream), __VA_ARGS__)

#define KERN_SHARED(type, name) type *const name = (type *)emulate_shared()

#endif
