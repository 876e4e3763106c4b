/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCHEDULE_SCHEDULE_GEN_H
#define SCHEDULE_SCHEDULE_GEN_H

/* Inside schedule/: what the generator families share. */
#include "schedule/schedule.h"

struct schedule_gen {
    struct schedule *out;
    size_t room;
    int rank;     /* emit only rows that name it; -1: all */
    int reverse;  /* the rows are a gather's: emit the reduction that is its time reversal */
    int64_t span; /* steps of this half */
    int64_t base; /* first step of this half */
};

/* Emits a row of a gather, or its reversal; rows that do not name the rank are dropped. */
void schedule_gen_emit(struct schedule_gen *g, int lane, int64_t step, int src, int dst,
                       int chunk);

/* Each family: how many steps a gather takes, and its rows. */
int64_t schedule_gen_ring_span(const struct schedule *s);
void schedule_gen_ring(struct schedule_gen *g);
int64_t schedule_gen_ho_span(const struct schedule *s);
void schedule_gen_ho(struct schedule_gen *g, int across, int inside);

#endif
