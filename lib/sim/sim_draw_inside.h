/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SIM_DRAW_INSIDE_H
#define SIM_SIM_DRAW_INSIDE_H

/* Inside sim/: a timeline between its bars (sim_draw.c) and its paint (sim_draw_paint.c). */
#include "base/svg_chart.h"
#include "sim/sim_draw.h"

enum { SIM_MIXED = -1, SIM_INSIDE = 1, SIM_ACROSS = 2, SIM_TRACKS_MAX = 16 };

struct sim_bar { /* a message at one of its ends, or several that are too thin to be seen */
    int at, rank, lane, received;
    int step, peer;
    int part; /* the group whose part of the vector it is; SIM_MIXED: of several */
    int across;
    int track, tracks; /* of so many beside each other at that time */
    int messages, chunks;
    int64_t bytes;
    double start, end; /* seconds */
};

struct sim_strip {    /* a lane of a rank */
    int at, lane;     /* the rank's place: group after group */
    int64_t first[3]; /* its first bar sent, its first received, the next strip's */
    double y;
};

struct sim_timeline {
    const struct sim_picture *p;
    struct svg svg;
    struct sim_bar *bar; /* [bars], owned, strip after strip, by time */
    int64_t bars, messages;
    struct sim_strip *strip; /* [strips], owned, by place and lane */
    int strips;
    int *kind;     /* [lanes], owned: SIM_INSIDE, SIM_ACROSS or both */
    double *row_y; /* [ranks + 1], owned, by place */
    double lane_h, gap, top, end_s;
};

int64_t sim_picture_bytes(const struct sim_picture *p);    /* of the whole vector */
double sim_timeline_pixel_s(const struct sim_timeline *t); /* the time that a pixel is wide */
/* How many tracks, 1 to SIM_TRACKS_MAX, a strip has room for. */
int sim_timeline_tracks(const struct sim_timeline *t, int received);
#define SIM_PAINT_HEAD 112.0                         /* pixels above the first row */
double sim_paint_high(const struct sim_timeline *t); /* of all */
void sim_paint(struct sim_timeline *t, FILE *out);

#endif
