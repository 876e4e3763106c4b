/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests whether the waits between turns keep the rule of execution, told by what they reach: a
 * point is surely behind all before it in its queue and all that it waits for, and so on.
 * Every conversion, algorithm and number of tracks, rank by rank; and that a wait which is left
 * out is missed.
 */
#include "unit.h"

#include "schedule_fixture.h"

#include "exec/exec_turns.h"
#include "exec_local_fixture.h"

struct order {
    struct turns t;
    int points, *of; /* [rows] the point behind which a row is done */
    char *before;    /* [points][points] the second is surely done when the first begins */
    int again;       /* waits for what the queue or an earlier wait of the point waits for */
};

static int queue_of(const struct turns *t, int point)
{
    return 2 * t->turn[point / 2].track + point % 2;
}

static void follow(struct order *o, int point, int of)
{
    char *mine = o->before + (size_t)point * (size_t)o->points;
    const char *its = o->before + (size_t)of * (size_t)o->points;

    mine[of] = 1;
    for (int i = 0; i < o->points; i++)
        mine[i] |= its[i];
}

static void order_init(struct order *o, const struct exec_rows *rows, int tracks)
{
    turns_init(&o->t, rows, tracks);
    o->points = 2 * o->t.turns;
    o->before = mem_new((size_t)o->points * (size_t)o->points, 1);
    o->of = mem_new((size_t)rows->rows, sizeof(int));
    for (int t = 0; t < o->t.turns; t++)
        for (int i = 0; i < o->t.turn[t].count; i++) {
            int row = o->t.order[o->t.turn[t].first + i];
            o->of[row] = 2 * t + (turn_lands(&rows->row[row]) ? TURN_LANDS : TURN_MOVES);
        }
}

/* All points in the order in which they are asked for; `skip` is a wait that is left out. */
static void reach(struct order *o, int skip)
{
    int last[TURN_QUEUES_MOST], queues = 2 * o->t.tracks;

    o->again = 0;
    memset(last, -1, sizeof last);
    memset(o->before, 0, (size_t)o->points * (size_t)o->points);
    for (int p = 0; p < o->points; p++) {
        const struct turn_point *at = &o->t.turn[p / 2].point[p % 2];
        int q = queue_of(&o->t, p);
        if (!at->there)
            continue;
        assert_int_equal(last[q] < 0 ? o->t.first[q] : o->t.turn[last[q] / 2].point[p % 2].next,
                         p); /* a queue is a list */
        if (last[q] >= 0)
            follow(o, p, last[q]);
        for (int i = at->wait; i < at->wait + at->waits; i++) {
            assert_true(o->t.wait[i] < p);
            o->again += o->before[(size_t)p * (size_t)o->points + (size_t)o->t.wait[i]];
            if (i != skip)
                follow(o, p, o->t.wait[i]);
        }
        last[q] = p;
    }
    for (int q = 0; q < queues; q++)
        assert_int_equal(last[q] < 0 ? o->t.first[q] : o->t.turn[last[q] / 2].point[q % 2].next,
                         -1);
}

static void order_release(struct order *o)
{
    turns_release(&o->t);
    mem_free(o->before);
    mem_free(o->of);
}

static int writes(const struct exec_row *row, int slot)
{
    return row->kind != EXEC_SEND && row->slot == slot;
}

static int reads(const struct exec_row *row, int slot)
{
    return row->kind != EXEC_RECV && row->source == slot;
}

/* Whether row b, behind a in row order, has to wait for it. */
static int depends(const struct exec_row *a, const struct exec_row *b, int a_at)
{
    if (a_at < b->after)
        return 1;
    if (b->kind != EXEC_SEND && (writes(a, b->slot) || reads(a, b->slot)))
        return 1;
    return b->kind != EXEC_RECV && writes(a, b->source);
}

/* Where a row begins to touch its rooms: an add when it lands, whatever arrived before. */
static int wrong_pairs(const struct order *o)
{
    const struct exec_rows *r = o->t.rows;
    int wrong = 0;

    for (int b = 0; b < r->rows; b++)
        for (int a = 0; a < b; a++)
            wrong += depends(&r->row[a], &r->row[b], a) &&
                     !o->before[(size_t)o->of[b] * (size_t)o->points + (size_t)o->of[a]];
    return wrong;
}

/* Bytes of a slot that arrive before those which lay there were added; adds before arrival. */
static int wrong_slots(const struct order *o)
{
    const struct exec_rows *r = o->t.rows;
    int wrong = 0;

    for (int b = 0; b < r->rows; b++) {
        const struct exec_row *row = &r->row[b];
        int lands = o->of[b], moves = lands - 1;
        if (!turn_lands(row) || !turn_travels(row))
            continue;
        wrong += !o->before[(size_t)lands * (size_t)o->points + (size_t)moves];
        wrong += o->t.slot_at[b] < r->scratch_bytes ||
                 o->t.slot_at[b] + row->bytes > o->t.scratch_bytes;
        for (int a = 0; a < b; a++) {
            int64_t lo = o->t.slot_at[a], hi = lo + r->row[a].bytes;
            if (!turn_lands(&r->row[a]) || !turn_travels(&r->row[a]) || hi <= o->t.slot_at[b] ||
                lo >= o->t.slot_at[b] + row->bytes)
                continue;
            wrong += !o->before[(size_t)moves * (size_t)o->points + (size_t)o->of[a]];
        }
    }
    return wrong;
}

/* Whether a transfer waits for a sum on its track: a slot's bytes, which may not overlap. */
static int for_slot(const struct order *o, int wait)
{
    for (int p = TURN_MOVES; p < o->points; p += 2) {
        const struct turn_point *at = &o->t.turn[p / 2].point[TURN_MOVES];
        if (wait >= at->wait && wait < at->wait + at->waits)
            return queue_of(&o->t, o->t.wait[wait]) == queue_of(&o->t, p) + 1;
    }
    return 0;
}

struct seen {
    int runs, waits, missed;
};

static void one(const struct layout *l, const struct coll_spec *spec, struct seen *seen)
{
    struct exec_rows rows;
    struct order o;

    for (int rank = 0; rank < l->groups.ranks; rank++)
        for (int tracks = 1; tracks <= 4; tracks += tracks == 1 ? 1 : 2) {
            assert_ok(coll_rows(&(struct coll){.layout = *l}, spec, rank, &rows, &err));
            order_init(&o, &rows, tracks);
            reach(&o, -1);
            assert_int_equal(wrong_pairs(&o), 0);
            assert_int_equal(wrong_slots(&o), 0);
            assert_int_equal(o.again, 0);
            for (int i = 0; i < o.t.waits; i += 7) {
                reach(&o, i);
                seen->missed += wrong_pairs(&o) + wrong_slots(&o) > 0 || for_slot(&o, i);
                seen->waits++;
            }
            seen->runs++;
            order_release(&o);
            exec_rows_release(&rows);
        }
}

static void every_move(const struct layout *l, struct coll_spec spec, struct seen *seen)
{
    enum letter done;

    for (int i = 0; i < LOCAL_MICRO; i++) {
        local_conversion(&spec, i, &done);
        one(l, &spec, seen);
    }
    local_broadcast(&spec, l->groups.ranks - 1);
    one(l, &spec, seen);
}

TEST(test_order)
{
    static const char *const shapes[] = {"1x1", "2x2", "[3,2]", "1x4", "3x2"};
    struct seen seen = {0};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int algo = 0; algo < SCHEDULE_ALGOS; algo++) {
            struct coll_spec spec = LIST(.elems = 127, .type = DTYPE_F32,
                                         .algo = (enum schedule_algo)algo, .chunk_bytes = 32);
            struct layout l;
            shape(&l, shapes[i]);
            every_move(&l, spec, &seen);
            layout_release(&l);
        }
    /* No wait says what others say already. */
    assert_true(seen.runs > 1000 && seen.waits > 1000);
    assert_int_equal(seen.missed, seen.waits);
}
