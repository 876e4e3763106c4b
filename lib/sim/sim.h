/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdint.h>

#include "base/err.h"
#include "schedule/schedule.h"
#include "topo/topo.h"

/*
 * Simulates the time of a schedule on a fabric.
 *
 * A message consists of the rows of one (lane, step, src, dst).  It starts when its queue
 * (lane, src, dst) has sent the previous message and the rule of execution permits reading for
 * all its rows.  It is sent at its share of the rates, arrives after the latency of the lowest
 * level that joins its ends, and lands when the queue's earlier messages have landed and the
 * rule permits writing for all its rows (until then it waits in a slot, as in exec_mpi).  Its
 * chunks at src count as read once it is sent.  So a queue sends in order, and latencies
 * overlap: the window of the executor, without its bound.  Barriers hold.  Rows inside one rank
 * follow the rule and take no time: a fabric has no figures for memory.  Rows of empty chunks
 * are dropped.
 *
 * Messages share these resources (topo/topo.h), each direction separately:
 *   level 0       a rank's link, port_Bps, and the sum over all members of a group,
 *                 member_Bps each
 *   level 1       the group's own port, and a rank's path to it: flow_Bps, or member_Bps if
 *                 more
 *   level 2 ..    port_Bps of the block, when the message leaves it
 * A message never exceeds the least flow_Bps of its levels.  Sharing is max-min fair (no
 * message can get more without taking from one that has no more), which TCP and switches
 * approximate, and which the closed forms of paro-method(7), HO-RING, assume: m rails through a
 * port get R/m each.  Served one after the other instead, they would hide each other's latency.
 *
 * In a ring, a lane in which each rank sends to one other, messages take longer by the factor
 * that ring_loss of their levels gives for the number of ranks in it.
 *
 * A rank's processor handles its messages one after the other, message_s of the level at either
 * end: before the first byte is sent, and before a message that has arrived may land.
 */
struct sim_times {
    double time_s;                /* until the last row has landed */
    double busy[TOPO_LEVELS_MAX]; /* by level: share of the time that the busiest port needs for
                                     its bytes at full rate */
    double *start_s, *end_s;      /* [rows] start of sending, landing; empty rows 0; owned; or
                                     NULL */
};

/*
 * Simulates all ranks' rows, with chunks of bytes[c], c < s->chunks.  every_row: fill start_s
 * and end_s.  ERR_MISMATCH if the fabric's groups are not the schedule's, or rows wait for each
 * other.
 */
int sim_rows(const struct schedule *s, const struct topo *t, const int64_t *bytes,
             int every_row, struct sim_times *out, struct err *err);
void sim_times_release(struct sim_times *times);

/*
 * Simulates the schedule of a spec, without every_row.  If fabric and schedule repeat from one
 * run of groups to the next (with equal groups and ports: from each group to the next), only
 * the ranks of one run are simulated, and represent all.  That the rows repeat is verified; if
 * they do not, all rows are simulated, or ERR_INPUT says that these are too many.  Chunks that
 * differ only by the layouts' rounding count with their mean; if some of them are empty, only
 * if all rows would be too many.
 */
int sim_spec(const struct schedule_spec *spec, const struct topo *t, const int64_t *bytes,
             struct sim_times *out, struct err *err);

/*
 * Returns the least time that the ports of a fabric allow for a vector of `bytes`, at every
 * level above the groups (paro-method(7), CUT BOUND, with directions separate): 0 with one
 * group. phases: one of the four named operations; root: of a broadcast.
 */
double sim_cut_bound_s(const struct topo *t, unsigned phases, int root, double bytes);

#endif
