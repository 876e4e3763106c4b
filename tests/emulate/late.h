/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMULATE_LATE_H
#define EMULATE_LATE_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* EMULATED_LATE=SEED: what streams are asked for is done late, when somebody waits for it or
 * looks at an event, a few operations of any stream at a time; in the order of its stream, and
 * behind the events that it waits for, and in no other order.  Whoever relies on more than
 * that gets other numbers.  While EMULATED_IDLE is set, too, looks find nothing done. */
struct emulated_work;

struct CUstream_st {
    int device;
    unsigned flags;
    int64_t asked, done; /* operations, ever */
    struct emulated_work *first, *last;
    struct CUstream_st *next; /* of all; never freed, for events name them */
};

void emulated_add(cudaStream_t s); /* a new stream */
/* run(arg), arg copied: at once, or later.  Between emulated_begin and _end. */
void emulated_do(cudaStream_t s, void (*run)(void *arg), const void *arg, size_t bytes);
/* s goes no further before `of` has come as far as it has been asked to now. */
void emulated_behind(cudaStream_t s, cudaStream_t of, int64_t seq);
void emulated_run_to(cudaStream_t s, int64_t seq);
void emulated_run_all(void);
void emulated_run_some(void);
int emulated_is_late(void);
int emulated_is_seen(cudaStream_t s, int64_t seq); /* whether who looks finds it done */

/* capture.c.  What a call on a stream (NULL: on none) must say while streams are captured, and
 * 1: written down, not to be done. */
int emulated_is_captured(cudaStream_t stream);
cudaError_t emulated_capture_may(const char *call, cudaStream_t stream);
/* What work on the default stream (NULL) must say meanwhile. */
cudaError_t emulated_default_may(cudaStream_t stream);
int emulated_capture(cudaStream_t stream, void (*run)(void *arg), const void *arg,
                     size_t bytes);

/* runtime.c: what cudaGetLastError will say. */
cudaError_t emulated_said(cudaError_t rc);
/* runtime.c: 'd' a device's memory, 'h' pinned memory of the host, 0 what no device knows. */
char emulated_memory_of(const void *p);
/* runtime.c: memory of the device is within reach between these. */
void emulated_open(void);
void emulated_end(void);
/* Or from 1 to -1, by whichever threads: while a message is on its way. */
void emulated_reach(int more);

#ifdef __cplusplus
}
#endif
#endif
