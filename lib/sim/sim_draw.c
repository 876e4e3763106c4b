/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a schedule and its times become bars: messages, the strips they lie in, what is
 * merged.  Does not know how the times came about, nor (sim_draw_paint.c) how a bar looks.
 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/jout.h"
#include "base/mem.h"
#include "sim/sim_draw_inside.h"

enum {
    BARS_MAX = 1 << 19, /* some 20 MB of text */
    PIXELS_MAX = 32767  /* of cairo's pictures, and so of many viewers' */
};

static int order(double a, double b)
{
    return a < b ? -1 : a > b;
}

static int by_message(const void *a, const void *b)
{
    const struct sim_bar *x = a, *y = b;
    int c = x->at - y->at;

    c = c ? c : x->lane - y->lane;
    c = c ? c : x->step - y->step;
    return c ? c : x->peer - y->peer;
}

static int by_strip(const void *a, const void *b)
{
    const struct sim_bar *x = a, *y = b;
    int c = x->at - y->at;

    c = c ? c : x->lane - y->lane;
    c = c ? c : x->received - y->received;
    c = c ? c : order(x->start, y->start);
    c = c ? c : order(x->end, y->end);
    c = c ? c : x->step - y->step;
    return c ? c : x->peer - y->peer;
}

/* Where a rank stands in the picture: group after group. */
static int place_of(const struct groups *g, int rank)
{
    return g->first[g->group_of[rank]] + g->local_of[rank];
}

static struct sim_bar bar_of_row(const struct sim_picture *p, int64_t i)
{
    const struct schedule *s = p->schedule;
    const struct schedule_row *row = &s->row[i];
    const struct groups *g = &s->groups;
    int chunk = row->chunk % s->chunks; /* of a scratch plane: the one it stands for */

    return (struct sim_bar){.at = place_of(g, row->src),
                            .rank = row->src,
                            .lane = row->lane,
                            .step = row->step,
                            .peer = row->dst,
                            .part = chunk / s->subchunks % g->count,
                            .across = g->group_of[row->src] != g->group_of[row->dst],
                            .messages = 1,
                            .chunks = 1,
                            .bytes = p->chunk_bytes[chunk],
                            .start = p->times->start_s[i],
                            .end = p->times->end_s[i]};
}

/* Rows of one lane, step, src and dst are one message; then each message at both its ends. */
static void find_messages(struct sim_timeline *t)
{
    const struct schedule *s = t->p->schedule;
    int64_t n = 0, rows = 0;

    t->bar = mem_new(2 * (size_t)s->rows + 1, sizeof *t->bar);
    for (int64_t i = 0; i < s->rows; i++) {
        struct sim_bar b = bar_of_row(t->p, i);
        if (b.bytes > 0) /* rows of empty chunks are not executed */
            t->bar[rows++] = b;
    }
    qsort(t->bar, (size_t)rows, sizeof *t->bar, by_message);
    for (int64_t i = 0; i < rows; i++) {
        const struct sim_bar *b = &t->bar[i];
        if (!n || by_message(&t->bar[n - 1], b)) {
            t->bar[n++] = *b;
            continue;
        }
        struct sim_bar *m = &t->bar[n - 1];
        m->part = m->part == b->part ? m->part : SIM_MIXED;
        m->chunks++;
        m->bytes += b->bytes;
        m->start = fmin(m->start, b->start);
        m->end = fmax(m->end, b->end);
    }
    t->bars = t->messages = n;
    for (int64_t i = 0; i < n; i++) {
        struct sim_bar b = t->bar[i];
        t->kind[b.lane] |= b.across ? SIM_ACROSS : SIM_INSIDE;
        if (b.peer == b.rank) /* moves within one rank: nobody receives */
            continue;
        b.received = 1;
        b.rank = t->bar[i].peer;
        b.peer = t->bar[i].rank;
        b.at = place_of(&s->groups, b.rank);
        t->bar[t->bars++] = b;
    }
    qsort(t->bar, (size_t)t->bars, sizeof *t->bar, by_strip);
}

/* The track that is free at `start`, the first of them; else a new one; else the one free
 * first. */
static int track_of(const double *free_s, int *tracks, int most, double start)
{
    int best = 0;

    for (int k = 0; k < *tracks; k++)
        if (free_s[k] <= start)
            return k;
    if (*tracks < most)
        return (*tracks)++;
    for (int k = 1; k < *tracks; k++)
        best = free_s[k] < free_s[best] ? k : best;
    return best;
}

/*
 * Lays messages of a strip that overlap in time beside each other, in as many tracks as the
 * thickest place of their cluster needs and the height allows.  What overlaps by less than a
 * pixel (a message that is still in the wire when the next one sets out) follows on the same
 * track.
 */
static void lay_tracks(const struct sim_timeline *t, struct sim_bar *bar, int64_t n)
{
    double free_s[SIM_TRACKS_MAX], pixel = sim_timeline_pixel_s(t), till = 0;
    int most = n ? sim_timeline_tracks(t, bar->received) : 0, tracks = 0;
    int64_t first = 0;

    for (int64_t i = 0; i <= n; i++) {
        if (i == n || (tracks && bar[i].start >= till)) { /* the end of a cluster */
            for (; first < i; first++)
                bar[first].tracks = tracks;
            tracks = 0;
        }
        if (i == n)
            break;
        int k = track_of(free_s, &tracks, most, bar[i].start);
        bar[i].track = k;
        free_s[k] = bar[i].end - pixel;
        till = tracks == 1 ? free_s[k] : fmax(till, free_s[k]);
    }
}

static void find_strips(struct sim_timeline *t)
{
    int64_t at = 0;

    for (int64_t i = 0; i < t->bars; i++)
        t->strips +=
            i == 0 || t->bar[i].at != t->bar[i - 1].at || t->bar[i].lane != t->bar[i - 1].lane;
    t->strip = mem_new((size_t)t->strips + 1, sizeof *t->strip);
    for (int k = 0; k < t->strips; k++) {
        struct sim_strip *strip = &t->strip[k];
        *strip = (struct sim_strip){.at = t->bar[at].at, .lane = t->bar[at].lane};
        for (int side = 0; side < 2; side++) {
            strip->first[side] = at;
            while (at < t->bars && t->bar[at].at == strip->at &&
                   t->bar[at].lane == strip->lane && t->bar[at].received == side)
                at++;
        }
        strip->first[2] = at;
    }
}

/*
 * Whether b goes into the bar a before it on its track: one of them is a hair and no gap is
 * seen; or they lie on each other, for want of tracks, and look alike.
 */
static int joins(const struct sim_timeline *t, const struct sim_bar *a, const struct sim_bar *b)
{
    double half = sim_timeline_pixel_s(t) / 2, gap = b->start - a->end;
    int a_thin = a->end - a->start < half, b_thin = b->end - b->start < half;

    if (gap >= half || a->across != b->across)
        return 0;
    return a_thin || (a->part == b->part && (b_thin || gap < -2 * half));
}

static void join(struct sim_bar *a, const struct sim_bar *b)
{
    if (b->end - b->start > a->end - a->start)
        a->part = b->part;
    a->messages += b->messages;
    a->chunks += b->chunks;
    a->bytes += b->bytes;
    a->end = fmax(a->end, b->end);
    /* One height for all of it. */
    if (b->tracks < a->tracks) {
        a->tracks = b->tracks;
        a->track = b->track;
    }
}

static void merge_side(struct sim_timeline *t, struct sim_strip *strip, int side, int64_t *to)
{
    int64_t last[SIM_TRACKS_MAX];
    int64_t from = strip->first[side], till = strip->first[side + 1];

    for (int k = 0; k < SIM_TRACKS_MAX; k++)
        last[k] = -1;
    strip->first[side] = *to;
    for (int64_t i = from; i < till; i++) {
        struct sim_bar b = t->bar[i];
        int64_t *before = &last[b.track];
        if (*before >= 0 && joins(t, &t->bar[*before], &b)) {
            join(&t->bar[*before], &b);
            continue;
        }
        *before = *to;
        t->bar[(*to)++] = b;
    }
}

static void merge(struct sim_timeline *t)
{
    int64_t to = 0;

    for (int k = 0; k < t->strips; k++) {
        for (int side = 0; side < 2; side++)
            merge_side(t, &t->strip[k], side, &to);
    }
    t->bars = to;
    for (int k = 0; k < t->strips; k++)
        t->strip[k].first[2] = k + 1 < t->strips ? t->strip[k + 1].first[0] : to;
}

/* The more there is, the lower it is. */
static void choose_sizes(struct sim_timeline *t)
{
    static const struct {
        int strips;
        double lane_h, gap;
    } sizes[] = {{24, 22, 10}, {64, 17, 8}, {160, 13, 6}, {480, 9, 4}, {1200, 7, 3}, {0, 5, 2}};
    int i = 0;

    while (sizes[i].strips && t->strips > sizes[i].strips)
        i++;
    t->lane_h = sizes[i].lane_h;
    t->gap = sizes[i].gap;
}

static void lay_rows(struct sim_timeline *t)
{
    const struct groups *g = &t->p->schedule->groups;
    double y = t->top;
    int k = 0;

    for (int at = 0; at < g->ranks; at++) {
        t->row_y[at] = y;
        for (; k < t->strips && t->strip[k].at == at; k++) {
            t->strip[k].y = y + t->gap / 2;
            y += t->lane_h;
        }
        if (y == t->row_y[at])
            y += t->lane_h; /* a rank that neither sends nor receives */
        y += t->gap;
    }
    t->row_y[g->ranks] = y;
}

/* The messages; laid out as a picture, too, if asked for. */
static void timeline_init(struct sim_timeline *t, const struct sim_picture *p, int laid)
{
    const struct schedule *s = p->schedule;

    *t = (struct sim_timeline){.p = p,
                               .kind = mem_new((size_t)s->lanes + 1, sizeof *t->kind),
                               .row_y = mem_new((size_t)s->groups.ranks + 1, sizeof *t->row_y)};
    t->end_s = p->times->time_s;
    if (isfinite(p->bound_s))
        t->end_s = fmax(t->end_s, p->bound_s);
    if (t->end_s <= 0)
        t->end_s = 1e-6; /* nothing happens: an axis all the same */
    t->top = SIM_PAINT_HEAD;
    find_messages(t);
    if (!laid)
        return;
    find_strips(t);
    choose_sizes(t);
    for (int k = 0; k < t->strips; k++)
        for (int side = 0; side < 2; side++)
            lay_tracks(t, t->bar + t->strip[k].first[side],
                       t->strip[k].first[side + 1] - t->strip[k].first[side]);
    merge(t);
    lay_rows(t);
}

static void timeline_release(struct sim_timeline *t)
{
    mem_free(t->bar);
    mem_free(t->strip);
    mem_free(t->kind);
    mem_free(t->row_y);
}

static int check_rows(const struct sim_picture *p, struct err *err)
{
    assert(p->times->start_s && p->times->end_s);
    if (p->schedule->rows <= SIM_DRAW_ROWS_MAX)
        return 0;
    return err_set(err, ERR_INPUT, "a picture of %" PRId64 " rows, expected %d at most",
                   p->schedule->rows, SIM_DRAW_ROWS_MAX);
}

int sim_draw(const struct sim_picture *p, FILE *out, struct err *err)
{
    struct sim_timeline t;
    int rc = 0;

    if (check_rows(p, err))
        return -1;
    timeline_init(&t, p, 1);
    double high = sim_paint_high(&t);
    if (high > PIXELS_MAX)
        rc = err_set(err, ERR_INPUT,
                     "a picture of %d ranks would be %.0f pixels high, expected %d at most",
                     p->schedule->groups.ranks, high, PIXELS_MAX);
    else if (t.bars > BARS_MAX)
        rc = err_set(err, ERR_INPUT, "a picture of %" PRId64 " bars, expected %d at most",
                     t.bars, BARS_MAX);
    else
        sim_paint(&t, out);
    timeline_release(&t);
    return rc;
}

static void print_message(struct jout *j, const struct sim_bar *b)
{
    jout_open(j, NULL, '{');
    jout_int(j, "lane", b->lane);
    jout_int(j, "step", b->step);
    jout_int(j, "src", b->rank);
    jout_int(j, "dst", b->peer);
    jout_bool(j, "across", b->across);
    if (b->part == SIM_MIXED)
        jout_null(j, "part");
    else
        jout_int(j, "part", b->part);
    jout_int(j, "chunks", b->chunks);
    jout_int(j, "bytes", b->bytes);
    jout_num(j, "start_s", b->start);
    jout_num(j, "end_s", b->end);
    jout_close(j, '}');
}

int sim_draw_json(const struct sim_picture *p, FILE *out, struct err *err)
{
    const struct schedule *s = p->schedule;
    struct jout j = {.file = out, .pretty = 1};
    struct sim_timeline t;
    char shape[256];

    if (check_rows(p, err))
        return -1;
    timeline_init(&t, p, 0);
    groups_print(&s->groups, shape, sizeof shape);
    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.sched.draw/1");
    jout_text(&j, "op", schedule_phases_name(s->phases));
    jout_text(&j, "algo", schedule_algo_name(s->algo));
    jout_text(&j, "groups", shape);
    jout_int(&j, "ranks", s->groups.ranks);
    jout_int(&j, "bytes", sim_picture_bytes(p));
    jout_int(&j, "subchunks", s->subchunks);
    jout_num(&j, "time_s", p->times->time_s);
    jout_num(&j, "limit_s", p->bound_s > 0 ? p->bound_s : NAN);
    jout_open(&j, "messages", '[');
    for (int64_t i = 0; i < t.bars; i++)
        if (!t.bar[i].received)
            print_message(&j, &t.bar[i]);
    jout_close(&j, ']');
    jout_close(&j, '}');
    timeline_release(&t);
    return 0;
}

int64_t sim_picture_bytes(const struct sim_picture *p)
{
    int64_t bytes = 0;

    for (int c = 0; c < p->schedule->chunks; c++)
        bytes += p->chunk_bytes[c];
    return bytes;
}
