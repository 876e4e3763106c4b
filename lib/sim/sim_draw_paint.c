/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a timeline looks:
 *
 *     title                                  legend
 *                 0      1 ms     2 ms
 *     node0       |       |         :        the cut bound
 *     0  across 0 ####====####      :        sent
 *                 ====####====####  :        received, thinner
 *        inside 4  ++ ++ ++ ++ ++   :        light: inside a group
 *     1  across 1 ####====####      :
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/sim_draw_inside.h"

/* Bars that get tooltips, an element each: viewers slow down above. */
enum { TIPS_MAX = 20000 };
enum { RAMP = 24 }; /* steps of the legend's ramp */

static const double WIDTH = 1280, MARGIN = 20, LEFT = 186, RIGHT = 34, FOOT = 44;
static const double RANK_X = 80, TICK_X = 90, GROUP_SIZE = 12;
static const double LIGHT = 0.42; /* of a colour that stays inside a group */
static const char *const GRID = "#d8d8d8", *const INK = "#444444", *const SEVERAL = "#777777";
static const char *const BOUND = "#000000", *const BAND = "#f3f3f3";

static int has_bound(const struct sim_timeline *t)
{
    return isfinite(t->p->bound_s) && t->p->bound_s > 0;
}

/* Pixels from the left of a time. */
static double x_of(const struct sim_timeline *t, double seconds)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * seconds / t->end_s;
}

double sim_timeline_pixel_s(const struct sim_timeline *t)
{
    return t->end_s / (WIDTH - LEFT - RIGHT);
}

/* The colour of a part: told apart while there are few, else in order. */
static struct svg_rgb colour_of(const struct sim_timeline *t, int part)
{
    int count = t->p->schedule->groups.count;

    if (part == SIM_MIXED)
        return svg_tint(SEVERAL, 1);
    if (count > SVG_COLOURS)
        return svg_ramp((double)part / (count - 1));
    return svg_tint(svg_colour(part), 1);
}

/* Light inside a group, full across. */
static struct svg_rgb paint_of(const struct sim_timeline *t, const struct sim_bar *b)
{
    struct svg_rgb c = colour_of(t, b->part);

    return svg_tint(c.text, b->across ? 1 : LIGHT);
}

/* The sent side above, the received one below it, in a third of the height. */
static double side_high(const struct sim_timeline *t, int received)
{
    double room = t->lane_h - (t->lane_h > 8 ? 3 : 1), sent = 0.66 * room;

    return received ? room - sent : sent;
}

int sim_timeline_tracks(const struct sim_timeline *t, int received)
{
    /* A pixel and a bit each: a track that is lower is not seen. */
    return (int)fmin(SIM_TRACKS_MAX, fmax(1, side_high(t, received) / 1.2));
}

static struct svg_box box_of(const struct sim_timeline *t, const struct sim_strip *strip,
                             const struct sim_bar *b)
{
    double x = x_of(t, b->start), w = x_of(t, b->end) - x;
    double h = side_high(t, b->received) / b->tracks;
    double y = strip->y + h * b->track;

    if (b->received)
        y += side_high(t, 0) + (t->lane_h > 8 ? 1 : 0);
    /* A hair of white between bars that are wide enough to be seen apart. */
    w = w > 3 ? w - 0.5 : fmax(w, 0.5);
    return (struct svg_box){x, y, w, b->tracks > 1 && h > 3 ? h - 0.5 : h};
}

static void tip_of(const struct sim_bar *b, char *text, size_t room)
{
    struct units bytes, from, to;
    char part[48] = "several shards";

    if (b->part != SIM_MIXED)
        snprintf(part, sizeof part, "shard of group %d", b->part);
    units_bytes(&bytes, (double)b->bytes);
    units_time(&from, b->start);
    units_time(&to, b->end);
    if (b->messages > 1)
        snprintf(text, room, "rank %d %s %d messages, lane %d: %s, %s to %s", b->rank,
                 b->received ? "receives" : "sends", b->messages, b->lane, bytes.text,
                 from.text, to.text);
    else
        snprintf(text, room, "rank %d %s %d, lane %d, step %d: %s (%d chunk%s), %s, %s to %s",
                 b->rank, b->received ? "from" : "to", b->peer, b->lane, b->step, bytes.text,
                 b->chunks, b->chunks == 1 ? "" : "s", part, from.text, to.text);
}

static void paint_bar(struct sim_timeline *t, const struct sim_strip *strip,
                      const struct sim_bar *b)
{
    struct svg_box box = box_of(t, strip, b);
    struct svg_rgb fill = paint_of(t, b);
    struct svg_pen pen = {.fill = fill.text};
    char tip[256];

    tip_of(b, tip, sizeof tip);
    svg_rect(&t->svg, box, &pen, tip);
}

struct inked { /* a box and what decides its colour */
    int key;
    struct svg_box box;
    const struct sim_bar *bar;
};

static int by_key(const void *a, const void *b)
{
    const struct inked *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->bar < y->bar ? -1 : x->bar > y->bar;
}

/* Too many for tooltips: one element per colour. */
static void paint_many(struct sim_timeline *t)
{
    struct inked *ink = mem_new((size_t)t->bars + 1, sizeof *ink);
    int64_t n = 0;

    for (int k = 0; k < t->strips; k++)
        for (int64_t i = t->strip[k].first[0]; i < t->strip[k].first[2]; i++) {
            const struct sim_bar *b = &t->bar[i];
            ink[n++] =
                (struct inked){2 * (b->part + 1) + b->across, box_of(t, &t->strip[k], b), b};
        }
    qsort(ink, (size_t)n, sizeof *ink, by_key);
    for (int64_t i = 0; i < n; i++) {
        struct svg_rgb fill = paint_of(t, ink[i].bar);
        if (i == 0 || ink[i].key != ink[i - 1].key)
            svg_boxes_open(&t->svg, &(struct svg_pen){.fill = fill.text});
        svg_boxes_add(&t->svg, ink[i].box);
        if (i + 1 == n || ink[i].key != ink[i + 1].key)
            svg_boxes_close(&t->svg);
    }
    mem_free(ink);
}

static void paint_bars(struct sim_timeline *t)
{
    if (t->bars > TIPS_MAX) {
        paint_many(t);
        return;
    }
    for (int k = 0; k < t->strips; k++) {
        svg_group_open(&t->svg, "lane", NULL);
        for (int64_t i = t->strip[k].first[0]; i < t->strip[k].first[2]; i++)
            paint_bar(t, &t->strip[k], &t->bar[i]);
        svg_group_close(&t->svg);
    }
}

static void paint_axis(struct sim_timeline *t)
{
    double tick[SVG_TICKS], bottom = t->row_y[t->p->schedule->groups.ranks];
    double wide = WIDTH - LEFT - RIGHT;
    int n = svg_ticks(SVG_LINEAR, 0, t->end_s, (int)(wide / TICK_X), tick);
    struct svg_font font = {.anchor = SVG_MIDDLE, .colour = INK};

    for (int i = 0; i < n; i++) {
        struct units u;
        double x = x_of(t, tick[i]);
        const char *text = svg_tick_text(units_time, tick[i], &u);
        svg_line(&t->svg, x, t->top, x, bottom, &(struct svg_pen){.stroke = GRID});
        svg_text(&t->svg, x, t->top - 6, &font, text);
        /* The bound's line goes through here, and is named below. */
        if (!has_bound(t) || fabs(x - x_of(t, t->p->bound_s)) > TICK_X / 3)
            svg_text(&t->svg, x, bottom + 16, &font, text);
    }
}

static void paint_bound(struct sim_timeline *t)
{
    double bottom = t->row_y[t->p->schedule->groups.ranks];
    double x = x_of(t, t->p->bound_s);
    struct units u;
    char text[64];

    snprintf(text, sizeof text, "cut bound %s", units_time(&u, t->p->bound_s));
    svg_line(&t->svg, x, t->top - 3, x, bottom + 20,
             &(struct svg_pen){.stroke = BOUND, .width = 1.5, .dashed = 1});
    svg_text(&t->svg, fmin(x, WIDTH - RIGHT - 20), bottom + 32,
             &(struct svg_font){.bold = 1, .anchor = x < WIDTH / 2 ? SVG_START : SVG_END},
             text);
}

/* The longest name of group k that fits into a band so high, read upwards. */
static void group_name(const struct sim_timeline *t, int k, double high, char *text,
                       size_t room)
{
    const char *host = t->p->topo->host[k];

    snprintf(text, room, "group %d%s%s", k, host[0] ? ", " : "", host);
    if (svg_text_width(text, GROUP_SIZE) > high && host[0])
        snprintf(text, room, "%s", host);
    if (svg_text_width(text, GROUP_SIZE) > high)
        snprintf(text, room, "%d", k);
}

static void paint_group(struct sim_timeline *t, int k)
{
    const struct groups *g = &t->p->schedule->groups;
    double y = t->row_y[g->first[k]], high = t->row_y[g->first[k + 1]] - y;
    char name[300];

    if (k % 2 == 0)
        svg_rect(&t->svg, (struct svg_box){MARGIN / 2, y, WIDTH - MARGIN, high},
                 &(struct svg_pen){.fill = BAND}, NULL);
    group_name(t, k, high, name, sizeof name);
    svg_text(&t->svg, MARGIN + 8, y + high / 2,
             &(struct svg_font){.size = fmin(GROUP_SIZE, fmax(high - 1, 4)),
                                .bold = 1,
                                .turned = strlen(name) > 3,
                                .anchor = SVG_MIDDLE},
             name);
}

/* The numbers of the ranks, of each that has room. */
static void paint_ranks(struct sim_timeline *t)
{
    const struct groups *g = &t->p->schedule->groups;
    double free_from = 0;

    for (int at = 0; at < g->ranks; at++) {
        double y = t->row_y[at], middle = (y + t->row_y[at + 1]) / 2, size = 10;
        char text[32];
        if (at && g->group_of[g->rank[at]] == g->group_of[g->rank[at - 1]])
            svg_line(&t->svg, RANK_X - 20, y, WIDTH - RIGHT, y,
                     &(struct svg_pen){.stroke = GRID});
        if (middle - size / 2 < free_from)
            continue;
        snprintf(text, sizeof text, "%d", g->rank[at]);
        svg_text(&t->svg, RANK_X, middle + size * 0.36,
                 &(struct svg_font){.size = size, .bold = 1, .anchor = SVG_END}, text);
        free_from = middle + size / 2;
    }
}

static void paint_lanes(struct sim_timeline *t)
{
    static const char *const names[] = {"lane", "intra", "inter", "mixed"};

    for (int k = 0; k < t->strips && t->lane_h >= 9; k++) {
        const struct sim_strip *strip = &t->strip[k];
        double size = t->lane_h > 12 ? 10 : 8;
        char text[48];
        snprintf(text, sizeof text, "%s %d", names[t->kind[strip->lane]], strip->lane);
        svg_text(&t->svg, LEFT - 8, strip->y + t->lane_h / 2 + size * 0.3,
                 &(struct svg_font){.size = size, .colour = INK, .anchor = SVG_END}, text);
    }
}

static double swatch(struct sim_timeline *t, double x, double y, const char *fill,
                     const char *text)
{
    svg_rect(&t->svg, (struct svg_box){x, y - 9, 16, 11}, &(struct svg_pen){.fill = fill},
             NULL);
    svg_text(&t->svg, x + 20, y, &(struct svg_font){0}, text);
    return x + 20 + svg_text_width(text, 11) + 14;
}

/* Any colour, full or light: the first two, side by side. */
static double two_swatch(struct sim_timeline *t, double x, double y, double share,
                         const char *text)
{
    struct svg_rgb first = svg_tint(svg_colour(0), share);

    svg_rect(&t->svg, (struct svg_box){x + 8, y - 9, 8, 11},
             &(struct svg_pen){.fill = svg_tint(svg_colour(1), share).text}, NULL);
    svg_rect(&t->svg, (struct svg_box){x, y - 9, 8, 11}, &(struct svg_pen){.fill = first.text},
             NULL);
    svg_text(&t->svg, x + 20, y, &(struct svg_font){0}, text);
    return x + 20 + svg_text_width(text, 11) + 14;
}

static int is_mixed(const struct sim_timeline *t)
{
    for (int64_t i = 0; i < t->bars; i++)
        if (t->bar[i].part == SIM_MIXED)
            return 1;
    return 0;
}

/* A swatch per part, or from the first to the last as a ramp. */
static double paint_parts(struct sim_timeline *t, double x, double y)
{
    int count = t->p->schedule->groups.count;
    char text[48];

    svg_text(&t->svg, x, y, &(struct svg_font){0}, "shard of group");
    x += svg_text_width("shard of group", 11);
    for (int k = 0; k < count && count <= SVG_COLOURS; k++) {
        snprintf(text, sizeof text, "%d", k);
        x = swatch(t, x, y, colour_of(t, k).text, text);
    }
    if (count <= SVG_COLOURS)
        return x;
    for (int i = 0; i < RAMP; i++)
        svg_rect(&t->svg, (struct svg_box){x + 5 * i, y - 9, i + 1 < RAMP ? 5.5 : 5, 11},
                 &(struct svg_pen){.fill = svg_ramp((double)i / (RAMP - 1)).text}, NULL);
    snprintf(text, sizeof text, "0 to %d", count - 1);
    svg_text(&t->svg, x + 5 * RAMP + 4, y, &(struct svg_font){0}, text);
    return x + 5 * RAMP + 4 + svg_text_width(text, 11) + 14;
}

static void paint_legend(struct sim_timeline *t)
{
    double x = MARGIN, y = 72;

    x = paint_parts(t, x, y) + 10;
    if (is_mixed(t))
        x = swatch(t, x, y, SEVERAL, "several shards");
    x = two_swatch(t, x, y, 1, "inter-group");
    x = two_swatch(t, x, y, LIGHT, "intra-group");
    svg_rect(&t->svg, (struct svg_box){x, y - 9, 16, 7}, &(struct svg_pen){.fill = "#999999"},
             NULL);
    svg_rect(&t->svg, (struct svg_box){x + 4, y - 1.5, 16, 3.5},
             &(struct svg_pen){.fill = "#999999"}, NULL);
    svg_text(&t->svg, x + 25, y, &(struct svg_font){0}, "thick: sent, thin: received");
}

static void title_of(const struct sim_timeline *t, char *text, size_t room)
{
    const struct schedule *s = t->p->schedule;
    const char *op = schedule_phases_name(s->phases);
    struct units whole, time;
    char shape[256], bound[96] = "";

    groups_print(&s->groups, shape, sizeof shape);
    if (has_bound(t) && t->p->times->time_s > 0)
        snprintf(bound, sizeof bound, ", %.3f of the cut bound",
                 t->p->bound_s / t->p->times->time_s);
    snprintf(text, room, "%s, %s, %s, %s: %s%s", op ? op : "partial collective",
             schedule_algo_name(s->algo), shape,
             units_bytes(&whole, (double)sim_picture_bytes(t->p)),
             units_time(&time, t->p->times->time_s), bound);
}

static void describe(const struct sim_timeline *t, char *text, size_t room)
{
    const struct schedule *s = t->p->schedule;
    const struct topo *topo = t->p->topo;
    struct units port, latency, inside, latency_inside;

    snprintf(text, room,
             "%d rank%s in %d group%s, %d sub-chunk%s, %d steps, %" PRId64
             " messages; intra-group"
             " %s and %s, slowest port %s and %s",
             s->groups.ranks, s->groups.ranks == 1 ? "" : "s", s->groups.count,
             s->groups.count == 1 ? "" : "s", s->subchunks, s->subchunks == 1 ? "" : "s",
             s->steps, t->messages, units_rate(&inside, topo->level[0].flow_Bps),
             units_time(&latency_inside, topo->level[0].latency_s),
             units_rate(&port, topo_slowest_port_Bps(topo)),
             units_time(&latency, topo->level[1].latency_s));
}

static void paint_head(struct sim_timeline *t, const char *title)
{
    char text[512];

    svg_text(&t->svg, MARGIN, 28, &(struct svg_font){.size = 17, .bold = 1}, title);
    describe(t, text, sizeof text);
    svg_text(&t->svg, MARGIN, 48, &(struct svg_font){.size = 12, .colour = INK}, text);
    paint_legend(t);
    struct svg_font font = {.size = 10, .colour = INK, .anchor = SVG_END};
    svg_text(&t->svg, MARGIN + 28, t->top - 6, &font, "group");
    svg_text(&t->svg, RANK_X, t->top - 6, &font, "rank");
    svg_text(&t->svg, LEFT - 8, t->top - 6, &font, "lane");
}

double sim_paint_high(const struct sim_timeline *t)
{
    return t->row_y[t->p->schedule->groups.ranks] + FOOT;
}

void sim_paint(struct sim_timeline *t, FILE *out)
{
    const struct groups *g = &t->p->schedule->groups;
    char title[512];

    title_of(t, title, sizeof title);
    svg_open(&t->svg, out, WIDTH, sim_paint_high(t), title);
    paint_head(t, title);
    for (int k = 0; k < g->count; k++)
        paint_group(t, k);
    paint_axis(t);
    paint_ranks(t);
    paint_lanes(t);
    paint_bars(t);
    if (has_bound(t))
        paint_bound(t);
    svg_close(&t->svg);
}
