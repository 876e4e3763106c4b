/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a step of some ranks looks as a timeline:
 *
 *     title, totals of the slowest rank, legend
 *               0        20 ms      40 ms
 *     3 compute [f0][f1]....[b1][b0]      dots: a wait, pale, in the colour of what it is for
 *       gathers [g0][g1]
 *       reduces         [r1][r0]          lanes that are used
 *
 * The critical path of the slowest rank is a black line around what it goes through.
 */
#include "train/train_trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/svg_chart.h"

/* Bars that get tooltips, an element each: viewers slow down above. */
enum { TIPS_MAX = 20000, LOOKS = STEP_LANES + STEP_KINDS };

static const double WIDTH = 1280, MARGIN = 20, LEFT = 164, RIGHT = 34, FOOT = 44;
static const double TOP = 142, TICK_X = 90, LANE_GAP = 3, RANK_GAP = 12;
static const double LANE_HIGH[STEP_LANES] = {16, 16, 16, 16, 24};
static const double PALE = 0.28; /* of the colour of what is waited for */
static const char *const GRID = "#d8d8d8", *const INK = "#444444", *const BAND = "#f3f3f3";
static const char *const PATH = "#000000", *const NOTHING = "#bbbbbb";

struct picture {
    const struct train_trace *trace;
    struct svg svg;
    int drawn[TRAIN_TRACE_DRAWN], count;
    int used[STEP_LANES]; /* by a rank that is drawn */
    double end_s;         /* of the longest step that is drawn */
};

/* Of a row: one number for all that look alike. */
static int look_of(const struct step_row *r)
{
    return r->lane == STEP_COMPUTE ? STEP_LANES + r->kind : r->lane;
}

static const char *colour_of(int look)
{
    static const int colours[LOOKS] = {[STEP_GATHER] = 4,
                                       [STEP_SYNC] = 5,
                                       [STEP_REDUCE] = 6,
                                       [STEP_CONVERT] = 7,
                                       [STEP_LANES + STEP_FORWARD] = 1,
                                       [STEP_LANES + STEP_BACKWARD] = 2,
                                       [STEP_LANES + STEP_UPDATE] = 3};

    if (look == STEP_LANES + STEP_AGREE)
        return NOTHING;
    return colours[look] ? svg_colour(colours[look] - 1) : "#777777"; /* what is neither */
}

int train_trace_drawn(const struct train_trace *t, int drawn[TRAIN_TRACE_DRAWN])
{
    const struct groups *g = &t->plan->groups;
    int n = 0, there = 0;

    for (int r = 0; r < t->ranks && n < TRAIN_TRACE_DRAWN; r++) {
        if (t->ranks > TRAIN_TRACE_DRAWN && g->local_of[r] != 0 && r != t->slowest)
            continue;
        /* The last place is kept for the slowest. */
        if (n + 1 == TRAIN_TRACE_DRAWN && !there && r < t->slowest)
            continue;
        there |= r == t->slowest;
        drawn[n++] = r;
    }
    return n;
}

static double x_of(const struct picture *p, double seconds)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * seconds / p->end_s;
}

/* Of so many lanes from above, the compute lane first. */
static double lanes_high(const struct picture *p, int lanes)
{
    double high = 0;

    for (int i = 0; i < lanes; i++) {
        int l = (i + STEP_COMPUTE) % STEP_LANES;
        high += p->used[l] ? LANE_HIGH[l] + LANE_GAP : 0;
    }
    return high;
}

/* The rank's name takes three lines beside them. */
static double rank_high(const struct picture *p)
{
    return fmax(lanes_high(p, STEP_LANES), 54) + RANK_GAP;
}

static double lane_y(const struct picture *p, int place, int lane)
{
    return TOP + place * rank_high(p) + RANK_GAP / 2 + lanes_high(p, (lane + 1) % STEP_LANES);
}

static double bottom_of(const struct picture *p)
{
    return TOP + p->count * rank_high(p);
}

/* What of an event is in the window. */
static struct svg_box box_of(const struct picture *p, int place,
                             const struct train_trace_bar *v)
{
    int lane = train_trace_row(p->trace, v->node)->lane;
    double x = x_of(p, v->start_s), w = x_of(p, v->end_s) - x;

    return (struct svg_box){x, lane_y(p, place, lane), w > 3 ? w - 0.5 : w, LANE_HIGH[lane]};
}

static struct svg_rgb paint_of(const struct train_trace *t, const struct train_trace_bar *v)
{
    if (!v->waits)
        return svg_tint(colour_of(look_of(train_trace_row(t, v->node))), 1);
    return svg_tint(v->wait < 0 ? NOTHING : colour_of(look_of(train_trace_row(t, v->wait))),
                    PALE);
}

static void tip_of(const struct picture *p, int rank, const struct train_trace_bar *v,
                   char *text, size_t room)
{
    const struct step_time *at = &p->trace->rank[rank].time[v->node];
    struct units from, took, slow, fast;
    char name[96] = "wait", more[160] = "";

    if (!v->waits)
        train_trace_name(p->trace, v->node, 1, name);
    if (train_trace_row(p->trace, v->node)->lane != STEP_COMPUTE) {
        snprintf(more, sizeof more, ", %s inter-group, %s intra-group",
                 units_bytes(&slow, (double)at->slow_bytes),
                 units_bytes(&fast, (double)at->fast_bytes));
    } else if (v->wait >= 0) {
        char cause[96];
        train_trace_name(p->trace, v->wait, 1, cause);
        snprintf(more, sizeof more, " for %s", cause);
    }
    snprintf(text, room, "rank %d: %s%s, %s, starts at %s", rank, name, more,
             units_time(&took, v->end_s - v->start_s), units_time(&from, v->start_s));
}

/* The longest name of the unit that fits: whole, its number, none. */
static void label(struct picture *p, struct svg_box box, const struct train_trace_bar *v)
{
    int unit = train_trace_row(p->trace, v->node)->unit;
    struct svg_font font = {
        .size = box.h > 20 ? 10 : 9, .anchor = SVG_MIDDLE, .colour = "#ffffff"};

    if (unit < 0 || v->waits)
        return;
    const char *name = p->trace->plan->model.unit[unit].name, *dot = strrchr(name, '.');
    if (svg_text_width(name, font.size) + 4 > box.w && dot)
        name = dot + 1;
    if (svg_text_width(name, font.size) + 2 > box.w)
        return;
    svg_text(&p->svg, box.x + box.w / 2, box.y + box.h / 2 + font.size * 0.36, &font, name);
}

static void draw_events(struct picture *p, int place)
{
    int rank = p->drawn[place];
    const struct train_trace_rank *r = &p->trace->rank[rank];

    svg_group_open(&p->svg, "rank", NULL);
    for (int i = 0; i < r->bars; i++) {
        const struct train_trace_bar *v = &r->bar[i];
        struct svg_box box = box_of(p, place, v);
        struct svg_rgb fill = paint_of(p->trace, v);
        char tip[400];
        if (box.w <= 0)
            continue;
        tip_of(p, rank, v, tip, sizeof tip);
        svg_rect(&p->svg, box, &(struct svg_pen){.fill = fill.text}, tip);
        label(p, box, v);
    }
    svg_group_close(&p->svg);
}

/* Too many for tooltips: one element for all that look alike. */
static void draw_many(struct picture *p)
{
    for (int look = 0; look < 2 * LOOKS; look++) { /* kinds, then waits for them */
        struct svg_rgb fill = svg_tint(NOTHING, PALE);
        int open = 0;
        for (int place = 0; place < p->count; place++) {
            const struct train_trace_rank *r = &p->trace->rank[p->drawn[place]];
            for (int i = 0; i < r->bars; i++) {
                const struct train_trace_bar *v = &r->bar[i];
                int node = v->waits && v->wait >= 0 ? v->wait : v->node;
                if (look_of(train_trace_row(p->trace, node)) + v->waits * LOOKS != look)
                    continue;
                fill = paint_of(p->trace, v);
                if (!open)
                    svg_boxes_open(&p->svg, &(struct svg_pen){.fill = fill.text});
                open = 1;
                svg_boxes_add(&p->svg, box_of(p, place, v));
            }
        }
        if (open)
            svg_boxes_close(&p->svg);
    }
}

/*
 * Around each run of parts in one lane, and down or up to the next lane's; across a gap the
 * line goes on thinner.
 */
static void draw_path(struct picture *p, int place)
{
    const struct train_trace_rank *r = &p->trace->rank[p->drawn[place]];
    double pixel_s = p->end_s / (WIDTH - LEFT - RIGHT), last_x = 0, last_y = 0;

    svg_group_open(&p->svg, "path", "the critical path");
    for (int i = 0; i < r->path.parts; i++) {
        const struct step_part *part = &r->path.part[i];
        if (part->node < 0)
            continue;
        int lane = train_trace_row(p->trace, part->node)->lane;
        double from = part->start_s, to = part->end_s;
        for (; i + 1 < r->path.parts; i++) { /* what follows in this lane at once */
            part = &r->path.part[i + 1];
            if (part->node >= 0 ? train_trace_row(p->trace, part->node)->lane != lane
                                : part->end_s - part->start_s > 2 * pixel_s)
                break;
            to = part->node >= 0 ? part->end_s : to;
        }
        struct svg_box box = {x_of(p, from), lane_y(p, place, lane),
                              x_of(p, to) - x_of(p, from), LANE_HIGH[lane]};
        double y = box.y + box.h / 2;
        if (last_y > 0)
            svg_line(&p->svg, last_x, last_y, box.x, y, &(struct svg_pen){.stroke = PATH});
        svg_rect(&p->svg, box, &(struct svg_pen){.stroke = PATH, .width = 1.8}, NULL);
        last_x = box.x + box.w;
        last_y = y;
    }
    svg_group_close(&p->svg);
}

/* An axis in ms, whatever the step takes. */
static const char *ms_text(struct units *u, double seconds)
{
    snprintf(u->text, sizeof u->text, "%.6g ms", seconds * 1e3);
    return u->text;
}

static void draw_axis(struct picture *p)
{
    double tick[SVG_TICKS], bottom = bottom_of(p);
    int n = svg_ticks(SVG_LINEAR, 0, p->end_s, (int)((WIDTH - LEFT - RIGHT) / TICK_X), tick);
    struct svg_font font = {.anchor = SVG_MIDDLE, .colour = INK};

    for (int i = 0; i < n; i++) {
        struct units u;
        double x = x_of(p, tick[i]);
        ms_text(&u, tick[i]);
        svg_line(&p->svg, x, TOP, x, bottom, &(struct svg_pen){.stroke = GRID});
        svg_text(&p->svg, x, TOP - 6, &font, u.text);
        svg_text(&p->svg, x, bottom + 16, &font, u.text);
    }
}

static void draw_rank_names(struct picture *p, int place)
{
    int rank = p->drawn[place], slowest = rank == p->trace->slowest;
    double y = TOP + place * rank_high(p);
    char text[64];
    struct units u;

    if (place % 2 == 0)
        svg_rect(&p->svg, (struct svg_box){MARGIN / 2, y, WIDTH - MARGIN, rank_high(p)},
                 &(struct svg_pen){.fill = BAND}, NULL);
    snprintf(text, sizeof text, "rank %d", rank);
    svg_text(&p->svg, MARGIN, y + 23, &(struct svg_font){.size = 12, .bold = 1}, text);
    /* As much of the host's name as there is room for. */
    snprintf(text, sizeof text, "%.12s", p->trace->rank[rank].host);
    svg_text(&p->svg, MARGIN, y + 39, &(struct svg_font){.size = 10, .colour = INK}, text);
    units_time(&u, p->trace->rank[rank].step_s);
    snprintf(text, sizeof text, "%s%s", u.text, slowest && p->count > 1 ? ", slowest" : "");
    svg_text(&p->svg, MARGIN, y + 54, &(struct svg_font){.size = 10, .colour = INK}, text);
    for (int lane = 0; lane < STEP_LANES; lane++)
        if (p->used[lane])
            svg_text(&p->svg, LEFT - 6, lane_y(p, place, lane) + LANE_HIGH[lane] / 2 + 3,
                     &(struct svg_font){.size = 9, .colour = INK, .anchor = SVG_END},
                     step_lane_name((enum step_lane)lane));
}

static double swatch(struct picture *p, double x, const char *fill, const char *stroke,
                     const char *text)
{
    svg_rect(&p->svg, (struct svg_box){x, TOP - 51, 16, 11},
             &(struct svg_pen){.fill = fill, .stroke = stroke, .width = 1.8}, NULL);
    svg_text(&p->svg, x + 21, TOP - 42, &(struct svg_font){0}, text);
    return x + 21 + svg_text_width(text, 11) + 10;
}

static void draw_legend(struct picture *p)
{
    static const struct {
        int look;
        const char *text;
    } items[] = {{STEP_LANES + STEP_FORWARD, "forward"},
                 {STEP_LANES + STEP_BACKWARD, "backward"},
                 {STEP_LANES + STEP_UPDATE, "update"},
                 {STEP_LANES + STEP_BEGIN, "other"},
                 {STEP_GATHER, "gather"},
                 {STEP_SYNC, "sync"},
                 {STEP_REDUCE, "reduce"},
                 {STEP_CONVERT, "convert"},
                 {STEP_LANES + STEP_AGREE, "agree"}};
    double x = MARGIN;

    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        x = swatch(p, x, colour_of(items[i].look), NULL, items[i].text);
    x = swatch(p, x, svg_tint(colour_of(STEP_GATHER), PALE).text, NULL,
               "paler: waiting for it");
    swatch(p, x, NULL, PATH, "critical path");
}

static void totals_of(const struct train_trace *t, char *text, size_t room)
{
    const struct train_trace_rank *r = &t->rank[t->slowest];
    struct units step, compute, exposed, idle;

    snprintf(text, room, "rank %d (%.100s)%s: step %s = compute %s + exposed %s + idle %s",
             t->slowest, r->host, t->ranks > 1 ? ", the slowest" : "",
             units_time(&step, r->step_s), units_time(&compute, r->compute_s),
             units_time(&exposed, r->exposed_s), units_time(&idle, r->idle_s));
}

static void parts_of(const struct train_trace *t, char *text, size_t room)
{
    const struct train_trace_rank *r = &t->rank[t->slowest];
    struct units path;
    int used = snprintf(text, room, "critical path %s, the step is %.2f times that; on it:",
                        units_time(&path, r->path.longest_s), r->step_s / r->path.longest_s);

    for (int s = 0; s < STEP_PATH_SUMS; s++)
        used +=
            snprintf(text + used, room - (size_t)used, "%s %s %.0f %%", s ? "," : "",
                     step_path_name((enum step_path_sum)s), 100 * r->path.sum_s[s] / r->step_s);
}

static void title_of(const struct train_trace *t, char *text, size_t room)
{
    char shape[256], strategy[4];
    struct units u;

    groups_print(&t->plan->groups, shape, sizeof shape);
    plan_strategy_name(t->plan->strategy, strategy);
    snprintf(text, room, "step %" PRId64 ", %s on %s: %s", t->step, strategy, shape,
             units_time(&u, t->rank[t->slowest].step_s));
}

static void draw_head(struct picture *p, const char *title)
{
    const struct svg_font font = {.size = 12, .colour = INK};
    char text[512];

    svg_text(&p->svg, MARGIN, 28, &(struct svg_font){.size = 17, .bold = 1}, title);
    totals_of(p->trace, text, sizeof text);
    svg_text(&p->svg, MARGIN, 48, &font, text);
    parts_of(p->trace, text, sizeof text);
    svg_text(&p->svg, MARGIN, 66, &font, text);
    if (p->count < p->trace->ranks) {
        snprintf(text, sizeof text,
                 "%d of %d ranks are drawn: the first of each group and the slowest", p->count,
                 p->trace->ranks);
        svg_text(&p->svg, WIDTH - RIGHT, 48,
                 &(struct svg_font){.size = 12, .colour = INK, .anchor = SVG_END}, text);
    }
    draw_legend(p);
}

void train_trace_draw(const struct train_trace *t, FILE *out)
{
    struct picture p = {.trace = t};
    char title[512];
    int64_t bars = 0;

    p.count = train_trace_drawn(t, p.drawn);
    for (int i = 0; i < p.count; i++) {
        const struct train_trace_rank *r = &t->rank[p.drawn[i]];
        bars += r->bars;
        p.end_s = fmax(p.end_s, r->step_s);
        for (int k = 0; k < r->bars; k++)
            p.used[train_trace_row(t, r->bar[k].node)->lane] = 1;
    }
    if (p.end_s <= 0)
        p.end_s = 1e-6; /* nothing happened: an axis all the same */
    title_of(t, title, sizeof title);
    svg_open(&p.svg, out, WIDTH, bottom_of(&p) + FOOT, title);
    draw_head(&p, title);
    for (int i = 0; i < p.count; i++)
        draw_rank_names(&p, i);
    draw_axis(&p);
    for (int i = 0; i < p.count && bars <= TIPS_MAX; i++)
        draw_events(&p, i);
    if (bars > TIPS_MAX)
        draw_many(&p);
    for (int i = 0; i < p.count; i++)
        if (p.drawn[i] == t->slowest)
            draw_path(&p, i);
    svg_text(&p.svg, LEFT, bottom_of(&p) + 34, &(struct svg_font){.size = 10, .colour = INK},
             "the time of each rank is 0 at the start of its own step");
    svg_close(&p.svg);
}
