/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the GPUs of a program whose collectives are ours: one device each, which stays. */
#include <pthread.h>
#include <stdio.h>

#include "shim/shim_nccl.h"

enum { GPUS_MOST = 64 };

/* A library that is preloaded is called by nobody who could keep these for it. */
static struct {
    pthread_mutex_t lock;
    struct device *device[GPUS_MOST];
} gpus = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct device *shim_device(int gpu, struct err *err)
{
    struct device *d = NULL;
    char name[32];

    if (gpu < 0 || gpu >= GPUS_MOST) {
        err_set(err, ERR_INPUT, "cuda:%d, expected a number below %d", gpu, GPUS_MOST);
        return NULL;
    }
    snprintf(name, sizeof name, "cuda:%d", gpu);
    pthread_mutex_lock(&gpus.lock);
    if (!gpus.device[gpu] && device_open(&gpus.device[gpu], name, 0, err))
        gpus.device[gpu] = NULL;
    d = gpus.device[gpu];
    pthread_mutex_unlock(&gpus.lock);
    return d;
}
