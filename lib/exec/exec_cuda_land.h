/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_CUDA_LAND_H
#define EXEC_EXEC_CUDA_LAND_H

#include <stdint.h>

#include "base/dtype.h"

/*
 * Adds arrived elements: to = base op arrived, on the stream (cudaStream_t), in memory of the
 * GPU: as dtype_reduce does and then, where ranks > 0, dtype_scale; the same bits but those of
 * NaNs of bf16 and f16.  to may be base; arrived is another place.  0, or the vendor's error
 * number of the launch.
 */
int exec_cuda_land(void *stream, void *to, const void *base, const void *arrived,
                   enum dtype type, enum dtype_op op, int ranks, int64_t n);

#endif
