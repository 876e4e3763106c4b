/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_CUDA_LAND_H
#define EXEC_EXEC_CUDA_LAND_H

#include <stdint.h>

#include "base/dtype.h"

/*
 * Adds arrived elements on the stream (cudaStream_t): to = base op arrived, n elements in
 * memory of the GPU, as dtype_reduce does; where ranks > 0, dtype_scale follows.  The result
 * has the same bits, except for NaNs of bf16 and f16.  to may be base; arrived must not overlap
 * either.  Returns 0, or the CUDA error number of the launch.
 */
int exec_cuda_land(void *stream, void *to, const void *base, const void *arrived,
                   enum dtype type, enum dtype_op op, int ranks, int64_t n);

#endif
