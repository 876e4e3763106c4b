/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_LINES_H
#define PROBE_PROBE_LINES_H

#include "probe/probe.h"

/*
 * Inside probe/: a level's figures from lines (probe_fit.h).  Collective; pairs of ranks, each
 * rank in one at most.  The figures are medians over the pairs, and so are their errors: what
 * one pair's may be off.
 */

/* latency_s and latency_err_s. */
int probe_line_latency(struct probe *p, const struct probe_flow *pair, int pairs,
                       struct topo_level *level, struct err *err);
/* flow_Bps and flow_err_Bps, from messages of a quarter of `most` bytes to most, in about so
 * many seconds. */
int probe_line_rate(struct probe *p, const struct probe_flow *pair, int pairs, int64_t most,
                    double seconds, struct topo_level *level, struct err *err);

#endif
