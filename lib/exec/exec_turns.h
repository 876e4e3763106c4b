/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_TURNS_H
#define EXEC_EXEC_TURNS_H

#include "exec/exec.h"

/*
 * One rank's rows as work for queues that run at the same time, each in order, with events
 * between them (a GPU's).  A TRACK has two queues, one for what travels, one for what is added;
 * lanes are shared out over tracks.  The rows of one step and track are a TURN, of two points:
 * what travels, all at once, and behind it what is added and what goes from room to room.
 *
 *     moves of track 0   [t0: recv -> out, recv -> slot 0]   [t1: recv -> slot 1] ...
 *     lands of track 0                          [t0: out = in + slot 0]    [t1: ...]
 *
 * Turns are asked for in the order (step, track), on every rank alike.  Point 2 t + TURN_LANDS
 * is turn t's; what it waits for has a lower number, and, but for its own turn's moves, a lower
 * step: on every rank, hence nobody waits in a circle.
 */
enum { TURN_MOVES, TURN_LANDS };
enum {
    TURN_TRACKS_MOST = 8,
    TURN_QUEUES_MOST = 2 * TURN_TRACKS_MOST, /* queue 2 track + TURN_MOVES or TURN_LANDS */
    TURN_SLOTS = 3 /* of a track: one filled, one added, one to spare */
};

struct turn_point {
    int there;       /* it has work */
    int wait, waits; /* turns.wait[wait ..): points to be waited for first */
    int next;        /* the next point of its queue, or -1 */
};

struct turn {
    int track, step;
    int first, count; /* rows order[first .. first+count) */
    int64_t in_bytes; /* that arrive */
    struct turn_point point[2];
};

struct turns {
    const struct exec_rows *rows; /* borrowed */
    int tracks;
    struct turn *turn;
    int turns;
    int *order;       /* row numbers, turn by turn */
    int64_t *slot_at; /* [rows] where in scratch an add arrives first */
    int *wait;
    int waits;
    size_t waits_space;
    int first[TURN_QUEUES_MOST], last[TURN_QUEUES_MOST]; /* points of a queue, or -1 */
    int64_t scratch_bytes;                               /* the rows' own, then the slots */
};

/* Bytes of slots of so many tracks, in which pieces of so many bytes arrive; and as sums before
   them are rounded up. */
int64_t turns_slots(int64_t bytes, int tracks);
int64_t turns_rounded(int64_t bytes);
void turns_init(struct turns *t, const struct exec_rows *rows, int tracks);
void turns_release(struct turns *t);
int turns_track(const struct exec_rows *r, const struct exec_row *row, int tracks);
int turn_lands(const struct exec_row *row);   /* in the second point, after it has travelled */
int turn_travels(const struct exec_row *row); /* in the first */

#endif
