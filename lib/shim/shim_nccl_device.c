/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how long other ranks are waited for, and the GPUs, each of which is opened once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "shim/shim_nccl.h"

double shim_deadline_s(void)
{
    const char *text = getenv("PARO_NCCL_DEADLINE");
    double s = 600; /* as the library's own wait for other ranks */
    struct err err;

    if (text && *text && num_time(text, &s, &err))
        shim_debug("PARO_NCCL_DEADLINE: %s", err.text);
    return s;
}

struct device *shim_device(int gpu, struct err *err)
{
    enum { GPUS_MOST = 64 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct device *open[GPUS_MOST];
    struct device *d = NULL;
    char name[32];

    if (gpu < 0 || gpu >= GPUS_MOST) {
        err_set(err, ERR_INPUT, "cuda:%d, expected a number below %d", gpu, GPUS_MOST);
        return NULL;
    }
    snprintf(name, sizeof name, "cuda:%d", gpu);
    pthread_mutex_lock(&lock);
    if (!open[gpu] && device_open(&open[gpu], name, 0, err))
        open[gpu] = NULL;
    d = open[gpu];
    pthread_mutex_unlock(&lock);
    return d;
}
