/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows that a stream is captured; one at a time. */
#include <cuda_runtime_api.h>
#include <stddef.h>

static cudaStream_t captured;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)mode;
    if (captured || !stream)
        return cudaErrorInvalidValue;
    captured = stream;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    if (captured != stream)
        return cudaErrorInvalidValue;
    captured = NULL;
    *graph = NULL;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    *status = stream && stream == captured ? cudaStreamCaptureStatusActive
                                           : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    (void)graph;
    return cudaSuccess;
}
