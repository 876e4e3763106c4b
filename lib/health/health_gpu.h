/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_GPU_H
#define HEALTH_HEALTH_GPU_H

#include <stdint.h>

/* A rank's messages came from and went to this, through its host's memory. */
struct health_gpu {
    int index;        /* of its host's */
    char name[64];    /* the model's */
    int64_t wrong[2]; /* words that it, or the copy, made others: HEALTH_OUT: on their way to
                         the host; HEALTH_IN: on their way from there */
};

#endif
