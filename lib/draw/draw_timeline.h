/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRAW_DRAW_TIMELINE_H
#define DRAW_DRAW_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "draw/draw_svg.h"

/*
 * A timeline: a row per rank, in it lanes from above, bars from start to end in the lanes.
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
 * Bars of a lane that overlap lie in tracks, one below the other.  Bars thinner than half a
 * pixel are joined with their neighbour on the track.
 */
struct svg_bar {
    int row, lane, look;
    double start_s, end_s;
    const char *label; /* borrowed; NULL: none; of "a.b" the "b" where there is no room */
    int64_t item;      /* for the caller's tooltip; of joined bars the first's */
    int count;         /* of joined bars; 1 */
    int64_t bytes;     /* their sum */
    int place, track, tracks; /* set by the drawer */
};

struct svg_lane {
    const char *name; /* NULL: it belongs to the lane above */
    double share;     /* of the usual height */
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

struct svg_timeline { /* pointers are borrowed where they are not owned */
    char title[512], note[2048];
    const char *foot;            /* NULL: none */
    const struct svg_look *look; /* [looks] */
    int looks;
    char *const *host;         /* [groups], "": unknown; NULL: groups are bands alone */
    const struct svg_row *row; /* [rows] */
    int rows;
    const struct svg_lane *lane; /* [lanes]; a row has those that its bars use */
    int lanes;
    struct svg_bar *bar; /* [bars], owned; the drawer sorts and joins them */
    int64_t bars;
    struct svg_span *path; /* [spans], by time, owned: framed in black */
    int spans;
    size_t bar_space, path_space;
    double end_s;     /* of the axis, from 0 */
    double mark_s;    /* a dashed line; not above 0: none */
    const char *mark; /* its name */
    /* The tooltip of a bar.  More than SVG_TIPS_MAX bars have none. */
    void (*tip)(const void *of, const struct svg_bar *bar, char *text, size_t space);
    const void *tip_of;
};

enum { SVG_TIPS_MAX = 20000 }; /* viewers slow down above */

void svg_timeline_bar(struct svg_timeline *t, struct svg_bar bar);
void svg_timeline_span(struct svg_timeline *t, struct svg_span span);
/* ERR_INPUT, and nothing is written, when it would be too large. */
int svg_timeline_draw(struct svg_timeline *t, FILE *out, struct err *err);
void svg_timeline_release(struct svg_timeline *t);

#endif
