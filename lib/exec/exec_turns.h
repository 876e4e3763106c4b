/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_TURNS_H
#define EXEC_EXEC_TURNS_H

#include "exec/exec.h"

/*
 * Arranges one rank's rows as work for queues that run concurrently, each in order, with events
 * between them (a GPU's streams).  A TRACK has two queues, one for transfers, one for additions
 * and local copies; lanes are distributed over tracks.  The rows of one step and track are a
 * TURN, with two points: all its transfers at once, and after them its additions and copies
 * from slot to slot.
 *
 *     moves of track 0   [t0: recv -> out, recv -> slot 0]   [t1: recv -> slot 1] ...
 *     lands of track 0                          [t0: out = in + slot 0]    [t1: ...]
 *
 * Turns are issued in the order (step, track), the same on every rank.  Point 2 t + TURN_LANDS
 * is turn t's second.  A point waits only for points with lower numbers, and, except for its
 * own turn's moves, with lower steps.  This holds on every rank, hence there is no circular
 * wait.
 */
enum { TURN_MOVES, TURN_LANDS };
enum {
    TURN_TRACKS_MOST = 8,
    TURN_QUEUES_MOST = 2 * TURN_TRACKS_MOST, /* queue 2 track + TURN_MOVES or TURN_LANDS */
    TURN_SLOTS = 3 /* slots of a track: one filled, one added, one spare */
};

struct turn_point {
    int there;       /* the point has work */
    int wait, waits; /* turns.wait[wait ..): points to wait for first */
    int next;        /* the next point of its queue, or -1 */
};

struct turn {
    int track, step;
    int first, count; /* rows order[first .. first+count) */
    int64_t in_bytes; /* bytes received */
    struct turn_point point[2];
};

struct turns {
    const struct exec_rows *rows; /* borrowed */
    int tracks;
    struct turn *turn;
    int turns;
    int *order;       /* row numbers, turn by turn */
    int64_t *slot_at; /* [rows] where in scratch the operand of an add arrives */
    int *wait;
    int waits;
    size_t waits_space;
    int first[TURN_QUEUES_MOST], last[TURN_QUEUES_MOST]; /* points of a queue, or -1 */
    int64_t scratch_bytes; /* the rows' own scratch, then the slots */
};

/* Bytes of the slots of `tracks` tracks if a turn receives at most `bytes` to be added; bytes
   rounded up as a slot is. */
int64_t turns_slots(int64_t bytes, int tracks);
int64_t turns_rounded(int64_t bytes);
void turns_init(struct turns *t, const struct exec_rows *rows, int tracks);
void turns_release(struct turns *t);
int turns_track(const struct exec_rows *r, const struct exec_row *row, int tracks);
int turn_lands(const struct exec_row *row);   /* part of the second point, after any transfer */
int turn_travels(const struct exec_row *row); /* part of the first point */

#endif
