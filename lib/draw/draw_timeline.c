/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws bars over time: heights, tracks, joined bars.  Leaves their meaning to its callers. */
#include "draw/draw_timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "draw/draw_figure.h"
#include "base/units.h"

enum {
    BARS_MAX = 1 << 19, /* about 20 MB of text */
    PIXELS_MAX = 32767, /* limit of cairo's images, and so of many viewers */
    TRACKS_MAX = 16
};

static const double WIDTH = 1280, LEFT = 186, RIGHT = 34, FOOT = 44, TICK_X = 90;
static const double GROUP_SIZE = 12, NAME_X = 52;
static const char *const GRID = "#d8d8d8", *const INK = "#444444", *const BAND = "#f3f3f3";
static const char *const BLACK = "#000000";

struct place { /* a lane of a row */
    int row, lane;
    double y, h;
};

struct picture {
    struct svg svg;
    struct svg_timeline *t;
    struct place *place; /* [places], sorted by rows and lanes, owned */
    int places;
    size_t place_space;
    double *row_y; /* [rows + 1], owned */
    double top, bottom, pixel_s;
};

void svg_timeline_bar(struct svg_timeline *t, struct svg_bar bar)
{
    t->bar = mem_grow(t->bar, &t->bar_space, (size_t)t->bars + 1, sizeof *t->bar);
    t->bar[t->bars++] = bar;
}

void svg_timeline_span(struct svg_timeline *t, struct svg_span span)
{
    t->path = mem_grow(t->path, &t->path_space, (size_t)t->spans + 1, sizeof *t->path);
    t->path[t->spans++] = span;
}

static double x_of(const struct picture *p, double seconds)
{
    return LEFT + seconds / p->pixel_s;
}

static int by_lane(const void *a, const void *b)
{
    const struct svg_bar *x = a, *y = b;
    int c = MEM_ORDER(x, y, row);

    c = c ? c : MEM_ORDER(x, y, lane);
    c = c ? c : MEM_ORDER(x, y, start_s);
    c = c ? c : MEM_ORDER(x, y, end_s);
    return c ? c : MEM_ORDER(x, y, item);
}

/* A lane is shown with the lanes that are part of it if one of them has a bar. */
static void timeline_find_places(struct picture *p)
{
    const struct svg_timeline *t = p->t;

    for (int64_t i = 0; i < t->bars; i++) {
        struct svg_bar *b = &t->bar[i];
        const struct place *last = p->places ? &p->place[p->places - 1] : NULL;
        int lane = b->lane;
        while (!t->lane[lane].name)
            lane--;
        if (!last || last->row != b->row || last->lane < b->lane)
            do {
                p->place = mem_grow(p->place, &p->place_space, (size_t)p->places + 1,
                                    sizeof *p->place);
                p->place[p->places++] = (struct place){.row = b->row, .lane = lane++};
            } while (lane < t->lanes && !t->lane[lane].name);
        b->place = p->places - 1 - p->place[p->places - 1].lane + b->lane;
    }
}

/* Lanes are lower if there are many. */
static void lay_rows(struct picture *p)
{
    static const struct {
        int lanes;
        double high, gap;
    } sizes[] = {{24, 22, 10}, {64, 17, 8}, {160, 13, 6}, {480, 9, 4}, {1200, 7, 3}, {0, 5, 2}};
    const struct svg_timeline *t = p->t;
    double shares = 0, y = p->top;
    int i = 0, k = 0;

    for (; k < p->places; k++)
        shares += t->lane[p->place[k].lane].share;
    while (sizes[i].lanes && shares > sizes[i].lanes)
        i++;
    k = 0;
    for (int r = 0; r < t->rows; r++) {
        int notes = (t->row[r].note[0][0] != 0) + (t->row[r].note[1][0] != 0);
        p->row_y[r] = y;
        y += sizes[i].gap / 2;
        for (; k < p->places && p->place[k].row == r; k++) {
            struct place *at = &p->place[k];
            double high = sizes[i].high * t->lane[at->lane].share;
            int more = k + 1 < p->places && !t->lane[at[1].lane].name;
            at->y = y;
            at->h = high - (sizes[i].high < 9 ? 0.5 : more ? 1 : 1.5);
            y += high;
        }
        double least = notes ? 24 + 15 * notes : sizes[i].high + sizes[i].gap;
        y = fmax(y + sizes[i].gap / 2, p->row_y[r] + least);
    }
    p->row_y[t->rows] = p->bottom = y;
}

/* The first track that is free at `start`; else a new one; else the one that becomes free
   first. */
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
 * Places overlapping bars in as many tracks as their cluster needs and the height allows: a
 * track of about a pixel is invisible.  Bars that overlap by less than a pixel (a message still
 * in transit when the next one starts) share a track.
 */
static void lay_tracks(const struct picture *p, struct svg_bar *bar, int64_t n)
{
    double free_s[TRACKS_MAX], till = 0;
    int most = (int)fmin(TRACKS_MAX, fmax(1, p->place[bar->place].h / 1.2)), tracks = 0;
    int64_t first = 0;

    for (int64_t i = 0; i <= n; i++) {
        if (i == n || (tracks && bar[i].start_s >= till)) { /* end of a cluster */
            for (; first < i; first++)
                bar[first].tracks = tracks;
            tracks = 0;
        }
        if (i == n)
            break;
        int k = track_of(free_s, &tracks, most, bar[i].start_s);
        bar[i].track = k;
        free_s[k] = bar[i].end_s - p->pixel_s;
        till = tracks == 1 ? free_s[k] : fmax(till, free_s[k]);
    }
}

/* Joins b with the previous bar a of its track if one of them is very narrow and there is no
   visible gap, or if they overlap for lack of tracks and have the same style. */
static int join_bars(const struct picture *p, struct svg_bar *a, const struct svg_bar *b)
{
    double half = p->pixel_s / 2, gap = b->start_s - a->end_s, a_long = a->end_s - a->start_s;
    double b_long = b->end_s - b->start_s;

    if (gap >= half || p->t->look[a->look].kind != p->t->look[b->look].kind ||
        (a_long >= half && (a->look != b->look || (b_long >= half && gap >= -2 * half))))
        return 0;
    a->look = b_long > a_long ? b->look : a->look;
    a->count += b->count;
    a->bytes += b->bytes;
    a->end_s = fmax(a->end_s, b->end_s);
    if (b->tracks < a->tracks) { /* uses one height for the whole */
        a->tracks = b->tracks;
        a->track = b->track;
    }
    return 1;
}

static void lay_bars(struct picture *p)
{
    struct svg_timeline *t = p->t;
    int64_t to = 0, last[TRACKS_MAX];

    for (int64_t i = 0, end; i < t->bars; i = end) {
        for (end = i; end < t->bars && t->bar[end].place == t->bar[i].place;)
            end++;
        lay_tracks(p, t->bar + i, end - i);
        for (int k = 0; k < TRACKS_MAX; k++)
            last[k] = -1;
        for (int64_t k = i; k < end; k++) {
            struct svg_bar b = t->bar[k];
            if (last[b.track] >= 0 && join_bars(p, &t->bar[last[b.track]], &b))
                continue;
            last[b.track] = to;
            t->bar[to++] = b;
        }
    }
    t->bars = to;
}

static struct svg_box box_of(const struct picture *p, const struct svg_bar *b)
{
    const struct place *at = &p->place[b->place];
    double x = x_of(p, b->start_s), w = x_of(p, b->end_s) - x;
    double h = at->h / b->tracks, y = at->y + h * b->track;

    /* A thin white gap between bars wide enough to be distinguished. */
    w = w > 3 ? w - 0.5 : fmax(w, 0.5);
    return (struct svg_box){x, y, w, b->tracks > 1 && h > 3 ? h - 0.5 : h};
}

static void draw_label(struct picture *p, struct svg_box box, const char *name)
{
    struct svg_font font = {
        .size = box.h > 20 ? 10 : 9, .anchor = SVG_MIDDLE, .colour = "#ffffff"};
    const char *dot = strrchr(name, '.');

    if (svg_text_width(name, font.size) + 4 > box.w && dot)
        name = dot + 1;
    if (svg_text_width(name, font.size) + 2 <= box.w && box.h > font.size)
        svg_text(&p->svg, box.x + box.w / 2, box.y + box.h / 2 + font.size * 0.36, &font, name);
}

static int by_look(const void *a, const void *b)
{
    const struct svg_bar *x = a, *y = b;

    return x->look != y->look ? x->look - y->look : by_lane(a, b);
}

/* With too many bars for tooltips, draws one element for each style. */
static void draw_bars(struct picture *p)
{
    struct svg_timeline *t = p->t;
    int many = t->bars > SVG_TIPS_MAX;

    if (many)
        qsort(t->bar, (size_t)t->bars, sizeof *t->bar, by_look);
    for (int64_t i = 0; i < t->bars; i++) {
        const struct svg_bar *b = &t->bar[i];
        struct svg_pen pen = {.fill = t->look[b->look].fill.text};
        int first = i == 0 || (many ? b[-1].look != b->look : b[-1].place != b->place);
        int last = i + 1 == t->bars || (many ? b[1].look != b->look : b[1].place != b->place);
        char tip[400];
        if (first)
            many ? svg_boxes_open(&p->svg, &pen) : svg_group_open(&p->svg, "lane", NULL);
        if (many) {
            svg_boxes_add(&p->svg, box_of(p, b));
        } else {
            t->tip(t->tip_of, b, tip, sizeof tip);
            svg_rect(&p->svg, box_of(p, b), &pen, tip);
            if (b->label && b->count == 1)
                draw_label(p, box_of(p, b), b->label);
        }
        if (last)
            many ? svg_boxes_close(&p->svg) : svg_group_close(&p->svg);
    }
}

/* Draws a frame around each run of spans in one lane, and a line to the next lane's. */
static void draw_path(struct picture *p)
{
    const struct svg_span *path = p->t->path;
    double last_x = 0, last_y = 0;

    svg_group_open(&p->svg, "path", "the critical path");
    for (int i = 0; i < p->t->spans; i++) {
        int row = path[i].row, lane = path[i].lane, k = 0;
        double from = x_of(p, path[i].start_s), to = path[i].end_s;
        while (i + 1 < p->t->spans && path[i + 1].lane == lane && path[i + 1].row == row &&
               path[i + 1].start_s - to <= 2 * p->pixel_s)
            to = path[++i].end_s;
        while (k < p->places && (p->place[k].row != row || p->place[k].lane != lane))
            k++;
        if (k == p->places)
            continue;
        struct svg_box box = {from, p->place[k].y, x_of(p, to) - from, p->place[k].h};
        double y = box.y + box.h / 2;
        if (last_y > 0)
            svg_line(&p->svg, last_x, last_y, box.x, y, &(struct svg_pen){.stroke = BLACK});
        svg_rect(&p->svg, box, &(struct svg_pen){.stroke = BLACK, .width = 1.8}, NULL);
        last_x = box.x + box.w;
        last_y = y;
    }
    svg_group_close(&p->svg);
}

static int has_mark(const struct picture *p)
{
    return isfinite(p->t->mark_s) && p->t->mark_s > 0;
}

static void timeline_draw_axis(struct picture *p)
{
    double tick[SVG_TICKS];
    int n = svg_ticks(SVG_LINEAR, 0, p->t->end_s, (int)((WIDTH - LEFT - RIGHT) / TICK_X), tick);
    struct svg_font font = {.anchor = SVG_MIDDLE, .colour = INK};

    for (int i = 0; i < n; i++) {
        struct units u;
        double x = x_of(p, tick[i]);
        const char *text = svg_tick_text(units_time, tick[i], &u);
        svg_line(&p->svg, x, p->top, x, p->bottom, &(struct svg_pen){.stroke = GRID});
        svg_text(&p->svg, x, p->top - 6, &font, text);
        /* Omits labels at the mark's line, whose name is below. */
        if (!has_mark(p) || fabs(x - x_of(p, p->t->mark_s)) > TICK_X / 3)
            svg_text(&p->svg, x, p->bottom + 16, &font, text);
    }
}

static void draw_mark(struct picture *p)
{
    double x = x_of(p, p->t->mark_s);

    svg_line(&p->svg, x, p->top - 3, x, p->bottom + 20,
             &(struct svg_pen){.stroke = BLACK, .width = 1.5, .dashed = 1});
    svg_text(&p->svg, fmin(x, WIDTH - RIGHT - 20), p->bottom + 32,
             &(struct svg_font){.bold = 1, .anchor = x < WIDTH / 2 ? SVG_START : SVG_END},
             p->t->mark);
}

/* Draws bands for every other group, and as much of the group's name as fits. */
static void draw_group(struct picture *p, int first, int end)
{
    int k = p->t->row[first].group;
    double y = p->row_y[first], high = p->row_y[end] - y;
    char name[300];

    if (k % 2 == 0)
        svg_rect(&p->svg, (struct svg_box){SVG_MARGIN / 2, y, WIDTH - SVG_MARGIN, high},
                 &(struct svg_pen){.fill = BAND}, NULL);
    if (!p->t->host)
        return;
    const char *host = p->t->host[k];
    snprintf(name, sizeof name, "group %d%s%.250s", k, host[0] ? ", " : "", host);
    if (svg_text_width(name, GROUP_SIZE) > high && host[0])
        snprintf(name, sizeof name, "%.250s", host);
    if (svg_text_width(name, GROUP_SIZE) > high)
        snprintf(name, sizeof name, "%d", k);
    svg_text(&p->svg, SVG_MARGIN + 8, y + high / 2,
             &(struct svg_font){.size = fmin(GROUP_SIZE, fmax(high - 1, 4)),
                                .bold = 1,
                                .turned = strlen(name) > 3,
                                .anchor = SVG_MIDDLE},
             name);
}

/* Draws the names of rows and lanes that have space. */
static void draw_names(struct picture *p)
{
    const struct svg_timeline *t = p->t;
    double free_from = 0, name_x = t->host ? NAME_X : SVG_MARGIN;

    for (int r = 0, first = 0; r < t->rows; r++)
        if (r + 1 == t->rows || t->row[r + 1].group != t->row[r].group) {
            draw_group(p, first, r + 1);
            first = r + 1;
        }
    for (int r = 0; r < t->rows; r++) {
        const struct svg_row *row = &t->row[r];
        double y = p->row_y[r], middle = (y + p->row_y[r + 1]) / 2;
        double high = row->note[0][0] ? 12 : 10;
        double base = row->note[0][0] ? y + 20 : middle + high * 0.36;
        if (r && row->group == t->row[r - 1].group)
            svg_line(&p->svg, name_x, y, WIDTH - RIGHT, y, &(struct svg_pen){.stroke = GRID});
        if (base - high < free_from)
            continue;
        svg_text(&p->svg, name_x, base, &(struct svg_font){.size = high, .bold = 1}, row->name);
        for (int k = 0; k < 2; k++)
            svg_text(&p->svg, name_x, base + 15 * (k + 1),
                     &(struct svg_font){.size = 10, .colour = INK}, row->note[k]);
        free_from = base;
    }
    for (const struct place *at = p->place; at < p->place + p->places; at++) {
        double size = at->h > 9 ? 10 : 8;
        if (t->lane[at->lane].name && at->h >= 5)
            svg_text(&p->svg, LEFT - 8, at->y + at->h / 2 + size * 0.36,
                     &(struct svg_font){.size = size, .colour = INK, .anchor = SVG_END},
                     t->lane[at->lane].name);
    }
}

static void draw_picture(struct picture *p, FILE *out)
{
    const struct svg_timeline *t = p->t;

    svg_open(&p->svg, out, WIDTH, p->bottom + FOOT, t->title);
    svg_key(&p->svg, svg_head(&p->svg, t->title, t->note) + 24, WIDTH, t->look, t->looks);
    draw_names(p);
    timeline_draw_axis(p);
    draw_bars(p);
    if (t->spans)
        draw_path(p);
    if (has_mark(p))
        draw_mark(p);
    if (t->foot)
        svg_text(&p->svg, SVG_MARGIN, p->bottom + 34,
                 &(struct svg_font){.size = 10, .colour = INK}, t->foot);
    svg_close(&p->svg);
}

int svg_timeline_draw(struct svg_timeline *t, FILE *out, struct err *err)
{
    double head = svg_head(NULL, t->title, t->note) + 24;
    struct picture p = {.t = t, .top = svg_key(NULL, head, WIDTH, t->look, t->looks) + 30};
    int rc = 0;

    t->end_s = t->end_s > 0 ? t->end_s : 1e-6; /* without bars there is still an axis */
    p.pixel_s = t->end_s / (WIDTH - LEFT - RIGHT);
    p.row_y = mem_new((size_t)t->rows + 1, sizeof *p.row_y);
    if (t->bars)
        qsort(t->bar, (size_t)t->bars, sizeof *t->bar, by_lane);
    timeline_find_places(&p);
    lay_rows(&p);
    lay_bars(&p);
    if (p.bottom + FOOT > PIXELS_MAX)
        rc = err_set(err, ERR_INPUT,
                     "a picture of %d ranks would be %.0f pixels high, expected %d at most",
                     t->rows, p.bottom + FOOT, PIXELS_MAX);
    else if (t->bars > BARS_MAX)
        rc = err_set(err, ERR_INPUT, "a picture of %" PRId64 " bars, expected %d at most",
                     t->bars, BARS_MAX);
    else
        draw_picture(&p, out);
    mem_free(p.place);
    mem_free(p.row_y);
    return rc;
}

void svg_timeline_release(struct svg_timeline *t)
{
    mem_free(t->bar);
    mem_free(t->path);
    *t = (struct svg_timeline){.rows = 0};
}
