/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_PARTS_H
#define PROBE_PROBE_PARTS_H

#include "probe/probe.h"

/* Internal to probe/: which flows form a round, and how bytes become rows. */
int probe_chunks(const struct probe *p, int64_t bytes);

/*
 * Executes a round (probe_gpu.c).  probe_start begins one lap of it, from the GPU's memory if
 * there is one and `host` is 0; probe_poll advances it.  Received data is not checked.
 */
int probe_start(struct probe *p, struct probe_round *r, int host, struct err *err);
enum stream_state probe_poll(struct probe_round *r, struct err *err);
int64_t probe_arrived(const struct probe_round *r); /* bytes so far in this lap */
/* Collective: makes rows ready to run as *r; takes ownership of them. */
int probe_ready(struct probe *p, struct exec_rows *rows, struct probe_round *r,
                struct err *err);
/* Collective: prepares a lap of a level's rings, through which `bytes` pass; sets p->view to
   the level. */
int probe_lap(struct probe *p, const struct probe_views *views, int level, int64_t bytes,
              struct probe_round *out, struct err *err);
/* Lists a pair of ranks for each two neighbouring groups; returns their number. */
int probe_partners_across(const struct probe_view *v, struct probe_flow *pair);

enum {
    PROBE_LOOK_BYTES = 1 << 20,
    /* 1.3 ms at 400 GB/s; a launch and the pause before it, some 25 us, are 2 % of that */
    PROBE_GPU_BYTES_MOST = 512 << 20
};
/*
 * probe_size with NCCL, for a probe with the space of probe_shift_space(g, PROBE_LOOK_BYTES).
 * Level 0: bytes from each rank to the next in its group, other levels: through each port; at
 * most PROBE_GPU_BYTES_MOST.
 */
int probe_size_gpu(struct probe *p, const struct probe_views *views, int level, double seconds,
                   int64_t *bytes, struct err *err);

/* A round in preparation: this rank's rows, and the positions of their chunks. */
struct probe_rows {
    struct schedule s;
    struct exec_places places;
    struct probe_round round;
};
/* Allocates for `chunks` chunks of all ranks, and for rows and flows of this one. */
void probe_rows_init(struct probe_rows *r, const struct probe *p, int chunks, int rows,
                     int flows);
void probe_rows_add(struct probe_rows *r, int step, int src, int dst, int chunk);
/* Returns where chunk c of `count` chunks of `bytes` begins; it ends where c + 1 begins. */
int64_t probe_chunk_at(int64_t bytes, int count, int c);
/* Collective: makes the rows, which all ranks have or none, ready to run as *out; releases
   r. */
int probe_rows_agree(struct probe *p, struct probe_rows *r, struct probe_round *out,
                     struct err *err);

/* Collective statistics over the ranks' figures above 0; all 0 if there are none. */
struct probe_summary {
    int count;
    double least, median, most, error; /* error: the median of the ranks' errors */
};
int probe_summarize(struct world *world, double mine, double error, struct probe_summary *out,
                    struct err *err);

/*
 * Figures of a level from fitted lines (probe_fit.h).  Collective; pairs of ranks, each rank in
 * at most one.  The figures are medians over the pairs, and their errors are the medians of the
 * pairs' errors.
 */

/* Sets latency_s and latency_err_s. */
int probe_line_latency(struct probe *p, const struct probe_flow *pair, int pairs,
                       struct topo_level *level, struct err *err);
/* Sets flow_Bps and flow_err_Bps, from messages of a quarter of `most` bytes to `most`, in
   about `seconds` seconds. */
int probe_line_rate(struct probe *p, const struct probe_flow *pair, int pairs, int64_t most,
                    double seconds, struct topo_level *level, struct err *err);

#endif
