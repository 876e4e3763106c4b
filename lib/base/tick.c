/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the clocks.  No other file of the library reads the time. */
#include "base/tick.h"

#include <time.h>

static double tick_read(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double tick_now_s(void)
{
    return tick_read(CLOCK_MONOTONIC);
}

double tick_cpu_s(void)
{
    return tick_read(CLOCK_THREAD_CPUTIME_ID);
}

void tick_sleep_s(double seconds)
{
    struct timespec want = {.tv_sec = (time_t)seconds};

    want.tv_nsec = (long)(1e9 * (seconds - (double)want.tv_sec));
    nanosleep(&want, 0);
}
