/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRAW_DRAW_TIMELINE_H
#define DRAW_DRAW_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "draw/draw_svg.h"

/*
 * A timeline: a row for each rank, divided into lanes; in the lanes bars from start to end.
 *
 *     title
 *     notes
 *     legend
 *                               0      1 ms     2 ms
 *     g    rank 0   compute     [F0][F1]....[B1]:        : mark
 *     r             gather   [g0][g1]           :
 *     p    rank 1   compute     [F0][F1]....[B1]:
 *                               0      1 ms     2 ms
 *
 * Overlapping bars of a lane are placed in tracks below each other.  Bars narrower than half a
 * pixel are joined with their neighbour on the track.
 */
struct svg_bar {
    int row, lane, look;
    double start_s, end_s;
    const char *label;        /* borrowed; NULL: none; of "a.b" only "b" if space is short */
    int64_t item;             /* for the caller's tooltip; for joined bars that of the first */
    int count;                /* number of joined bars; 1 if single */
    int64_t bytes;            /* sum over joined bars */
    int place, track, tracks; /* set by the drawer */
};

struct svg_lane {
    const char *name; /* NULL: part of the lane above */
    double share;     /* height relative to the usual one */
};

struct svg_row {
    int group; /* ascending */
    char name[24];
    char note[2][48]; /* below the name, "": none */
};

struct svg_span { /* a part of a path */
    int row, lane;
    double start_s, end_s;
};

struct svg_timeline { /* pointers are borrowed unless marked owned */
    char title[512], note[2048];
    const char *foot;            /* NULL: none */
    const struct svg_look *look; /* [looks] */
    int looks;
    char *const *host;         /* [groups], "": unknown; NULL: groups are shown as bands only */
    const struct svg_row *row; /* [rows] */
    int rows;
    const struct svg_lane *lane; /* [lanes]; a row shows the lanes that its bars use */
    int lanes;
    struct svg_bar *bar; /* [bars], owned; the drawer sorts and joins them */
    int64_t bars;
    struct svg_span *path; /* [spans], by time, owned: gets a black frame */
    int spans;
    size_t bar_space, path_space;
    double end_s;     /* end of the axis, which begins at 0 */
    double mark_s;    /* position of a dashed line; <= 0: none */
    const char *mark; /* its name */
    /* The tooltip of a bar.  With more than SVG_TIPS_MAX bars there are none. */
    void (*tip)(const void *of, const struct svg_bar *bar, char *text, size_t space);
    const void *tip_of;
};

enum { SVG_TIPS_MAX = 20000 }; /* viewers slow down with more */

void svg_timeline_bar(struct svg_timeline *t, struct svg_bar bar);
void svg_timeline_span(struct svg_timeline *t, struct svg_span span);
/* ERR_INPUT without output if the drawing would be too large. */
int svg_timeline_draw(struct svg_timeline *t, FILE *out, struct err *err);
void svg_timeline_release(struct svg_timeline *t);

#endif
