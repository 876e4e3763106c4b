/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdint.h>

#include "base/err.h"
#include "schedule/schedule.h"
#include "topo/topo.h"

/*
 * How long a schedule takes on a fabric, computed and not measured.
 *
 * A message is the rows of one (lane, step, src, dst).  It starts when its queue (lane, src,
 * dst) has sent the one before it and the rule of execution lets all its rows be read.  It is
 * sent at the rate that is left to it, arrives the latency of the lowest level that joins its
 * ends later, and lands when the queue's earlier ones have landed and the rule lets all its
 * places be written (until then it lies in a slot, as in exec_mpi).  Its places at src are read
 * once it is sent.  So the wire of a queue is in order, and latencies overlap: the window of
 * the executor, without its bound.  Barriers hold.  Rows inside one rank follow the rule and
 * take no time: a fabric says nothing of memory.  Rows of empty chunks are dropped.
 *
 * Messages share these resources (topo/topo.h), each way apart:
 *   level 0       a rank's link, port_Bps, and what all members of a group move together,
 *                 member_Bps each
 *   level 1       the group's own port, and a rank's way to it: flow_Bps, or member_Bps if more
 *   level 2 ..    port_Bps of the block, when the message leaves it
 * and one message never goes faster than the least flow_Bps of its levels.  Sharing is fair
 * (max-min: nobody can get more without one that has no more getting less), as TCP and switches
 * come near it, and as the closed forms of paro-method(7), HO-RING, have it: m rails through a
 * port get R/m each.  Served one after the other instead, they would hide each other's latency.
 *
 * In a ring, a lane in which each rank sends to one other, messages take as much longer as
 * ring_loss of their levels says for the ranks that it joins.
 *
 * A rank's processor takes its messages one after the other, message_s of the level at either
 * end: before the first byte is on the way, and before what has arrived may land.
 */
struct sim_times {
    double time_s;                /* until the last row has landed */
    double busy[TOPO_LEVELS_MAX]; /* by level: share of the time that the busiest port's bytes
                                     take at its full rate */
    double *start_s, *end_s; /* [rows] sending begins, landed; empty rows 0; owned; or NULL */
};

/*
 * All ranks' rows, of chunks of bytes[c], c < s->chunks; every_row: fill start_s and end_s.
 * ERR_MISMATCH when the fabric has other groups than the schedule, or rows wait for each other.
 */
int sim_rows(const struct schedule *s, const struct topo *t, const int64_t *bytes,
             int every_row, struct sim_times *out, struct err *err);
void sim_times_release(struct sim_times *times);

/*
 * The same for the schedule of a spec, without every_row, and without all rows where fabric and
 * schedule repeat themselves from one run of groups to the next (equal groups and ports: from
 * each group to the next): the ranks of one such run stand for all.  That the rows do repeat is
 * verified on them; where they do not, all rows are gone through, and ERR_INPUT says so where
 * these would be too many.  Chunks that the layouts' rounding alone makes unequal count with
 * their mean; empty ones among them so only where all rows would be too many.
 */
int sim_spec(const struct schedule_spec *spec, const struct topo *t, const int64_t *bytes,
             struct sim_times *out, struct err *err);

/*
 * The least time that the ports of a fabric allow for a vector of bytes, at every level above
 * the groups (paro-method(7), CUT BOUND, with the ways out and in apart): 0 with one group.
 * phases: one of the four named operations; root: of a broadcast.
 */
double sim_cut_bound_s(const struct topo *t, unsigned phases, int root, double bytes);

#endif
