/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_PARTS_H
#define PROBE_PROBE_PARTS_H

#include "probe/probe.h"

/* Between the files of this folder: which flows make a round, and how bytes become rows. */
int probe_chunks(const struct probe *p, int64_t bytes);

/*
 * By what a round goes (probe_gpu.c).  One lap of it begins, of the GPU's memory where there
 * is one and `host` does not say otherwise; poll carries it on, nobody looks at what arrives.
 */
int probe_start(struct probe *p, struct probe_round *r, int host, struct err *err);
enum stream_state probe_poll(struct probe_round *r, struct err *err);
int64_t probe_arrived(const struct probe_round *r); /* bytes, in this lap so far */
/* Collective: the rows, which are taken over, ready to run as r. */
int probe_ready(struct probe *p, struct exec_rows *rows, struct probe_round *r,
                struct err *err);
/* Collective: a lap of the rings of a level that bytes pass, which p->view is set to. */
int probe_lap(struct probe *p, const struct probe_views *views, int level, int64_t bytes,
              struct probe_round *out, struct err *err);
/* A pair of ranks for each two neighbouring groups; returns their number. */
int probe_partners_across(const struct probe_view *v, struct probe_flow *pair);

enum {
    PROBE_LOOK_BYTES = 1 << 20,
    /* 1.3 ms at 400 GB/s, of which a launch and the halt before it, some 25 us, are 2 %. */
    PROBE_GPU_BYTES_MOST = 512 << 20
};
/*
 * probe_size over NCCL, of a probe with the room of probe_shift_space(g, PROBE_LOOK_BYTES): of
 * level 0, bytes of each rank to the next in its group, and of the others; PROBE_GPU_BYTES_MOST
 * at most.
 */
int probe_size_gpu(struct probe *p, const struct probe_views *views, int level, double seconds,
                   int64_t *bytes, struct err *err);

/* A round that is being made: this rank's rows, and where their chunks lie. */
struct probe_rows {
    struct schedule s;
    struct exec_places places;
    struct probe_round round;
};
/* Room for so many chunks of all ranks, and for rows and flows of this one. */
void probe_rows_init(struct probe_rows *r, const struct probe *p, int chunks, int rows,
                     int flows);
void probe_rows_add(struct probe_rows *r, int step, int src, int dst, int chunk);
/* Where chunk c of the `count` in which `bytes` go begins, and ends with c + 1. */
int64_t probe_chunk_at(int64_t bytes, int count, int c);
/* Collective: the rows, which all ranks have or none, made ready to run as *out; releases r. */
int probe_rows_agree(struct probe *p, struct probe_rows *r, struct probe_round *out,
                     struct err *err);

/* Collective: of each rank's figure and its error those above 0; all 0 where there is none. */
struct probe_summary {
    int count;
    double least, median, most, error; /* error: the median of theirs */
};
int probe_summarize(struct world *world, double mine, double error, struct probe_summary *out,
                    struct err *err);

/*
 * A level's figures from lines (probe_fit.h).  Collective; pairs of ranks, each
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
