/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CUDA_RUNTIME_API_H
#define CUDA_RUNTIME_API_H

typedef struct CUstream_st *cudaStream_t;

#endif
