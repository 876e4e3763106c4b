/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_TICK_H
#define BASE_TICK_H

double tick_now_s(void);           /* seconds of a clock that never jumps (CLOCK_MONOTONIC) */
double tick_cpu_s(void);           /* processor seconds of the calling thread */
void tick_sleep_s(double seconds); /* at least; returns early on a signal */

#endif
