/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_TICK_H
#define BASE_TICK_H

double tick_now_s(void);           /* seconds of CLOCK_MONOTONIC, which never jumps */
double tick_cpu_s(void);           /* processor seconds of the calling thread */
void tick_sleep_s(double seconds); /* sleeps at least this long; less after a signal */

#endif
