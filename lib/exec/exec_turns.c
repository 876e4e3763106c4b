/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes turns of one rank's rows, and chooses the events that keep the rule of execution
 * (exec_mpi.c) between them.  Leaves running them to exec_nccl_run.c.  A row never touches
 * memory that another row of its step writes, so a turn waits for rows of lower steps only.
 *
 * A point waits for an event only where no other wait implies it: each point records the last
 * point of every queue that is surely done by then (seen), by its own waits and by those of the
 * points it waited for.
 */
#include "exec/exec_turns.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

/* Rails are distributed in turn; intra-group and all other links, the last two lanes, stay
   apart. */
int turns_track(const struct exec_rows *r, const struct exec_row *row, int tracks)
{
    return (r->lanes - 1 - row->lane) % tracks;
}

/* State while turns are visited in order. */
struct reach {
    struct turns *t;
    int queues;
    int *seen;   /* [points][queues] the last point of each queue that is surely done */
    int *ends;   /* [rows] the point after which a row is done */
    int *wrote;  /* [slots] the last point that wrote it, or -1 */
    int *read;   /* [slots][queues] the last points that read it, or -1 */
    int *need;   /* [2][queues] the points that each point of this turn waits for */
    int *passed; /* [queues] the last points of the rows before `upto` */
    int upto;    /* rows that `passed` covers */
    int slot_user[TURN_TRACKS_MOST][TURN_SLOTS]; /* the point that last used a slot */
    int slot_next[TURN_TRACKS_MOST];
};

static int queue_of(const struct turns *h, int point)
{
    return 2 * h->turn[point / 2].track + point % 2;
}

static void raise_to(struct reach *s, int *need, int point)
{
    if (point < 0)
        return;
    int q = queue_of(s->t, point);
    need[q] = point > need[q] ? point : need[q];
}

static void raise_all(int *need, const int *points, int queues)
{
    for (int q = 0; q < queues; q++)
        need[q] = points[q] > need[q] ? points[q] : need[q];
}

int turn_lands(const struct exec_row *row)
{
    return row->kind == EXEC_LOCAL || (row->kind == EXEC_RECV && row->op == SCHEDULE_ADD);
}

int turn_travels(const struct exec_row *row)
{
    return row->kind != EXEC_LOCAL;
}

/* Takes the latest first: points that it waited for itself need no wait. */
static void make_waits(struct reach *s, int point, const int *need)
{
    struct turns *h = s->t;
    struct turn_point *p = &h->turn[point / 2].point[point % 2];
    int own = queue_of(h, point), *seen = s->seen + (int64_t)point * s->queues;

    for (int q = 0; q < s->queues; q++)
        seen[q] = -1;
    if (h->last[own] >= 0)
        memcpy(seen, s->seen + (int64_t)h->last[own] * s->queues,
               (size_t)s->queues * sizeof *seen);
    p->wait = h->waits;
    for (;;) {
        int latest = -1;
        for (int q = 0; q < s->queues; q++)
            latest = need[q] > latest && need[q] > seen[q] ? need[q] : latest;
        if (latest < 0)
            break;
        assert(latest < point);
        h->wait = mem_grow(h->wait, &h->waits_space, (size_t)h->waits + 1, sizeof *h->wait);
        h->wait[h->waits++] = latest;
        raise_all(seen, s->seen + (int64_t)latest * s->queues, s->queues);
    }
    p->waits = h->waits - p->wait;
    seen[own] = point;
    if (h->last[own] >= 0)
        h->turn[h->last[own] / 2].point[point % 2].next = point;
    else
        h->first[own] = point;
    h->last[own] = point;
}

/* Finds the waits of a turn's points, then records the points that its rows leave. */
static void reach_turn(struct reach *s, int t)
{
    struct turns *h = s->t;
    struct turn *turn = &h->turn[t];
    int *user = NULL, adds = 0;

    for (int i = 0; i < 2 * s->queues; i++)
        s->need[i] = -1;
    for (int i = 0; i < turn->count; i++) {
        const struct exec_row *row = &h->rows->row[h->order[turn->first + i]];
        /* Finds the points that the row waits for, by the rule of exec_mpi's may_go. */
        int *need = s->need + (turn_lands(row) ? s->queues : 0);
        for (; s->upto < row->after; s->upto++)
            raise_to(s, s->passed, s->ends[s->upto]);
        if (row->after)
            raise_all(need, s->passed, s->queues);
        raise_to(s, need, s->wrote[row->slot]);
        if (row->kind != EXEC_SEND)
            raise_all(need, s->read + (int64_t)row->slot * s->queues, s->queues);
        if (row->kind == EXEC_LOCAL)
            raise_to(s, need, s->wrote[row->source]);
        adds |= turn_lands(row) && turn_travels(row);
    }
    if (adds) { /* they arrive in a slot whose previous bytes have been added */
        user = &s->slot_user[turn->track][s->slot_next[turn->track]++ % TURN_SLOTS];
        raise_to(s, s->need, *user);
        *user = 2 * t + TURN_LANDS;
    }
    if (turn->point[TURN_MOVES].there)
        make_waits(s, 2 * t, s->need);
    if (adds)
        raise_to(s, s->need + s->queues, 2 * t);
    if (turn->point[TURN_LANDS].there)
        make_waits(s, 2 * t + 1, s->need + s->queues);
    for (int i = 0; i < turn->count; i++) {
        int at = h->order[turn->first + i];
        const struct exec_row *row = &h->rows->row[at];
        int point = 2 * t + (turn_lands(row) ? TURN_LANDS : TURN_MOVES);
        s->ends[at] = point;
        if (row->kind != EXEC_SEND)
            s->wrote[row->slot] = point;
        if (row->kind != EXEC_RECV)
            s->read[(int64_t)row->source * s->queues + queue_of(h, point)] = point;
    }
}

static int *none(int64_t n)
{
    int *p = mem_new((size_t)n + 1, sizeof *p);

    for (int64_t i = 0; i < n; i++)
        p[i] = -1;
    return p;
}

/* Groups rows by step and track, in row order inside; empty turns are left out. */
static void make_turns(struct turns *h)
{
    const struct exec_rows *r = h->rows;
    size_t slot = 0;
    int put = 0;

    h->order = mem_new((size_t)r->rows, sizeof *h->order);
    for (int from = 0, to; from < r->rows; from = to) {
        for (to = from; to < r->rows && r->row[to].step == r->row[from].step;)
            to++;
        for (int track = 0; track < h->tracks; track++) {
            int first = put;
            for (int i = from; i < to; i++)
                if (turns_track(r, &r->row[i], h->tracks) == track)
                    h->order[put++] = i;
            if (put == first)
                continue;
            h->turn = mem_grow(h->turn, &slot, (size_t)h->turns + 1, sizeof *h->turn);
            struct turn *t = &h->turn[h->turns++];
            *t = (struct turn){.track = track,
                               .step = r->row[from].step,
                               .first = first,
                               .count = put - first,
                               .point = {{.next = -1}, {.next = -1}}};
            for (int i = first; i < put; i++) {
                const struct exec_row *row = &r->row[h->order[i]];
                t->in_bytes += row->kind == EXEC_RECV ? row->bytes : 0;
                t->point[TURN_MOVES].there |= turn_travels(row);
                t->point[TURN_LANDS].there |= turn_lands(row);
            }
        }
    }
}

int64_t turns_rounded(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

int64_t turns_slots(int64_t bytes, int tracks)
{
    return tracks * TURN_SLOTS * turns_rounded(bytes);
}

/*
 * Places the slots of each track after the rows' scratch; turns use them in rotation.  A chunk
 * has the same offset modulo 16 bytes in its slot as at its destination, so that it is added in
 * packs of 16 bytes.
 */
static void make_slots(struct turns *h)
{
    int64_t most[TURN_TRACKS_MOST] = {0}, base[TURN_TRACKS_MOST];
    int next[TURN_TRACKS_MOST] = {0};

    h->slot_at = mem_new((size_t)h->rows->rows, sizeof *h->slot_at);
    for (int i = 0; i < h->turns; i++) {
        const struct turn *t = &h->turn[i];
        int64_t at = 0;
        for (int k = t->first; k < t->first + t->count; k++) {
            const struct exec_row *row = &h->rows->row[h->order[k]];
            if (!turn_lands(row) || !turn_travels(row))
                continue;
            at += row->to.at % 16;
            h->slot_at[h->order[k]] = at;
            at = (at + row->bytes + 15) / 16 * 16;
        }
        most[t->track] = at > most[t->track] ? at : most[t->track];
    }
    h->scratch_bytes = turns_rounded(h->rows->scratch_bytes);
    for (int t = 0; t < h->tracks; t++) {
        most[t] = turns_rounded(most[t]);
        base[t] = h->scratch_bytes;
        h->scratch_bytes += turns_slots(most[t], 1);
    }
    for (int i = 0; i < h->turns; i++) {
        const struct turn *t = &h->turn[i];
        int adds = 0;
        for (int k = t->first; k < t->first + t->count; k++) {
            const struct exec_row *row = &h->rows->row[h->order[k]];
            if (!turn_lands(row) || !turn_travels(row))
                continue;
            h->slot_at[h->order[k]] +=
                base[t->track] + next[t->track] % TURN_SLOTS * most[t->track];
            adds = 1;
        }
        next[t->track] += adds;
    }
}

void turns_init(struct turns *t, const struct exec_rows *rows, int tracks)
{
    *t = (struct turns){.rows = rows, .tracks = tracks};
    make_turns(t);
    make_slots(t);
    int q = 2 * tracks;
    struct reach s = {.t = t,
                      .queues = q,
                      .seen = none((int64_t)t->turns * 2 * q),
                      .ends = none(rows->rows),
                      .wrote = none(rows->slots),
                      .read = none((int64_t)rows->slots * q),
                      .need = none(2 * q),
                      .passed = none(q)};
    for (int i = 0; i < TURN_TRACKS_MOST * TURN_SLOTS; i++)
        s.slot_user[i / TURN_SLOTS][i % TURN_SLOTS] = -1;
    for (int i = 0; i < TURN_QUEUES_MOST; i++)
        t->first[i] = t->last[i] = -1;
    for (int i = 0; i < t->turns; i++)
        reach_turn(&s, i);
    MEM_FREE(s.seen, s.ends, s.wrote, s.read, s.need, s.passed);
}

void turns_release(struct turns *t)
{
    MEM_FREE(t->turn, t->order, t->slot_at, t->wait);
    *t = (struct turns){0};
}
