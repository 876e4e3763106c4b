/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what of a thread is the program's and stays so, and that threads which NCCL starts at
 * our request are ours: while the program captures a stream for all threads, CUDA refuses what
 * a communicator is made of to every thread that has not said that it is apart from that.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "shim/shim_nccl.h"

struct start {
    void *(*run)(void *arg);
    void *arg;
    int gpu; /* of the thread that asked: CUDA takes GPU 0 for a new one */
};

struct shim_manners shim_be_ours(void)
{
    struct shim_manners was = {.gpu = -1, .mode = cudaStreamCaptureModeRelaxed};

    if (cudaGetDevice(&was.gpu) != cudaSuccess)
        was.gpu = -1;
    (void)cudaThreadExchangeStreamCaptureMode(&was.mode);
    return was;
}

void shim_be_again(struct shim_manners was)
{
    (void)cudaThreadExchangeStreamCaptureMode(&was.mode);
    if (was.gpu >= 0)
        (void)cudaSetDevice(was.gpu);
}

static void *run_ours(void *arg)
{
    struct start s = *(struct start *)arg;

    mem_free(arg);
    shim_own(1);
    if (s.gpu >= 0)
        (void)cudaSetDevice(s.gpu);
    (void)shim_be_ours();
    return s.run(s.arg);
}

__attribute__((visibility("default"))) int
pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *next = dlsym(RTLD_NEXT, "pthread_create");
    int own = shim_own(0);

    memcpy(&create, &next, sizeof next);
    shim_own(own);
    if (!own)
        return create(out, attr, run, arg);
    struct start *s = mem_new(1, sizeof *s);
    *s = (struct start){run, arg, -1};
    if (cudaGetDevice(&s->gpu) != cudaSuccess)
        s->gpu = -1;
    int rc = create(out, attr, run_ours, s);
    if (rc)
        mem_free(s);
    return rc;
}
