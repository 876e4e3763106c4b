/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdint.h>

#include "base/err.h"
#include "schedule/schedule.h"
#include "topo/topo.h"

/*
 * How long a schedule takes on a fabric, computed and not measured.  A message (the rows of one
 * lane, step, src and dst) starts when the rule of execution lets all its rows be read and its
 * queue (lane, src, dst) has let the one before it go; it takes the latency of the lowest level
 * that joins its ends, and its bytes at the rate that is left to it: of the ports it passes,
 * each way apart, shared by the messages in flight there, never more than one flow's.  A row
 * lands when the rule lets its place be written.  Source: alpha-beta model, paro.md section 5.
 */
struct sim_times {
    double time_s;           /* until the last row has landed */
    double *start_s, *end_s; /* [rows] of each row's message; owned; NULL unless asked for */
};

/*
 * All ranks' rows, of chunks of bytes[c]; every_row: fill start_s and end_s.  ERR_MISMATCH when
 * the fabric has other groups than the schedule, or rows wait for each other.
 */
int sim_rows(const struct schedule *s, const struct topo *t, const int64_t *bytes,
             int every_row, struct sim_times *out, struct err *err);
void sim_times_release(struct sim_times *times);

/*
 * The same without all rows where the fabric and the schedule are regular (equal groups, equal
 * ports, every rank doing the same): one rank's rows stand for all.  16,384 ranks in seconds.
 */
int sim_spec(const struct schedule_spec *spec, const struct topo *t, const int64_t *bytes,
             double *time_s, struct err *err);

#endif
