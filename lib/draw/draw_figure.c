/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws a page of charts: axes, ticks, lines, legend.  Leaves the numbers' meaning to its
   callers. */
#include "draw/draw_figure.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

static const double WIDTH = 1040, GAP = 14;
static const char *const GRID = "#e4e4e4", *const EDGE = "#888888", *const INK = "#444444";

/* Margins around the plot, inside the chart's box. */
static const double LEFT = 74, RIGHT = 16, TOP = 24, BOTTOM = 42;
/* Space below a chart's axis; a chart whose x axis has no name leaves it to the next one. */
static const double AXIS_NAME = 34;
static const double FAINT = 0.4;              /* share of the colour in a pale line */
static const double TICK_X = 64, TICK_Y = 32; /* pixels for a tick's label */

struct svg_chart {
    char *title; /* owned */
    struct svg_axis x, y;
    double high;
};

void svg_figure_chart(struct svg_figure *f, const char *title, struct svg_axis x,
                      struct svg_axis y, double high)
{
    int i = 0;

    while (i < f->charts && strcmp(f->chart[i].title, title) != 0)
        i++;
    f->at_chart = i;
    if (i < f->charts)
        return;
    f->chart = mem_grow(f->chart, &f->chart_space, (size_t)i + 1, sizeof *f->chart);
    f->chart[f->charts++] = (struct svg_chart){mem_dup(title), x, y, high};
}

void svg_figure_line(struct svg_figure *f, const char *name, struct svg_series style)
{
    int i = 0;

    while (i < f->lines &&
           (f->series[i].chart != f->at_chart || f->series[i].colour != style.colour ||
            f->series[i].marker != style.marker || f->series[i].dashed != style.dashed ||
            f->series[i].faint != style.faint || strcmp(f->series[i].name, name) != 0))
        i++;
    f->at_line = i;
    if (i < f->lines)
        return;
    f->series = mem_grow(f->series, &f->line_space, (size_t)i + 1, sizeof *f->series);
    style.chart = f->at_chart;
    style.name = mem_dup(name);
    f->series[f->lines++] = style;
}

void svg_figure_point(struct svg_figure *f, double x, double y, const char *tip)
{
    struct svg_series *l = &f->series[f->at_line];
    int at = l->points;

    l->point = mem_grow(l->point, &l->space, (size_t)at + 1, sizeof *l->point);
    while (at > 0 && l->point[at - 1].x > x)
        at--;
    if (!tip && at > 0 && l->point[at - 1].x == x && l->point[at - 1].y == y)
        return;
    memmove(l->point + at + 1, l->point + at, (size_t)(l->points++ - at) * sizeof *l->point);
    l->point[at] = (struct svg_point){x, y, tip ? mem_dup(tip) : NULL};
}

/* ---- axes ---- */

/* The smallest of 1, 2, 5 times a power of 10 that is at least v, up to rounding. */
static double round_up(double v)
{
    double power = pow(10, floor(log10(v)));
    double times = v / power - 1e-9;

    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static int tick_multiples(double step, double lo, double hi, int most, double *tick)
{
    int n = 0;

    /* Tolerance of a billionth of a step, so that ends that are round up to rounding get a
       tick.  Adding 0.0 avoids -0. */
    for (double i = ceil(lo / step - 1e-9) + 0.0; n < most && i * step <= hi + step * 1e-9; i++)
        tick[n++] = i * step;
    return n;
}

static int linear_ticks(double lo, double hi, int most, double *tick)
{
    double step = round_up((hi - lo) / (most - 1));
    int n = tick_multiples(step, lo, hi, most, tick);

    /* The next smaller step, half of the range or more, with at most 3 ticks. */
    return n > 1 ? n : tick_multiples(round_up(0.39 * step), lo, hi, most, tick);
}

static int power_ticks(double base, double lo, double hi, int most, double *tick)
{
    int first = (int)ceil(log(lo) / log(base) - 1e-9);
    int last = (int)floor(log(hi) / log(base) + 1e-9);
    int each = last < first ? 1 : (last - first) / most + 1, n = 0;

    first = (int)ceil((double)first / each) * each;
    for (int i = first; i <= last; i += each)
        tick[n++] = pow(base, i);
    return n;
}

/* 1, 2 and 5 of each power of 10. */
static int third_ticks(double lo, double hi, int most, double *tick)
{
    static const double times[] = {1, 2, 5};
    int first = (int)floor(log10(lo)), n = 0;

    for (int i = 0; i < 3 * most; i++) {
        double v = times[i % 3] * pow(10, first + i / 3);
        if (v > hi * (1 + 1e-9))
            break;
        if (v >= lo * (1 - 1e-9)) {
            if (n == most)
                return 0; /* too many */
            tick[n++] = v;
        }
    }
    return n;
}

int svg_ticks(enum svg_scale scale, double lo, double hi, int most, double tick[SVG_TICKS])
{
    int n = 0;

    assert(hi > lo && most >= 3 && most <= SVG_TICKS && (scale == SVG_LINEAR || lo > 0));
    if (scale == SVG_LOG2)
        n = power_ticks(2, lo, hi, most, tick);
    if (scale == SVG_LOG10) {
        n = third_ticks(lo, hi, most, tick);
        if (n < 3)
            n = power_ticks(10, lo, hi, most, tick);
    }
    return n < 2 ? linear_ticks(lo, hi, most, tick) : n;
}

const char *svg_tick_text(svg_unit unit, double v, struct units *u)
{
    if (v == 0)
        return "0";
    unit(u, v);
    char *point = strchr(u->text, '.');
    if (point) {
        char *end = point + 1 + strspn(point + 1, "0123456789"), *to = end;
        while (to > point && (to[-1] == '0' || to[-1] == '.'))
            to--;
        memmove(to, end, strlen(end) + 1);
    }
    return u->text;
}

struct range_of { /* an axis on the page */
    const struct svg_axis *axis;
    double lo, hi;   /* values at its ends */
    double from, to; /* pixels at its ends */
    int some;        /* whether there are values */
    double least, greatest;
};

/* Beyond this squares and ratios overflow a double; charts show no such numbers. */
static const double FAR = 1e100;

static int is_drawable(const struct svg_axis *a, double v)
{
    return fabs(v) <= FAR && (a->scale == SVG_LINEAR || v >= 1 / FAR);
}

/* Range of all values plus a margin: at least a factor of 2, so that ticks have round
   numbers. */
static void range_init(struct range_of *r, const struct svg_figure *f, int chart, int is_y)
{
    const struct svg_chart *c = &f->chart[chart];

    r->axis = is_y ? &c->y : &c->x;
    r->some = 0;
    r->lo = r->hi = 0;
    for (int i = 0; i < f->lines; i++)
        for (int p = 0; p < f->series[i].points && f->series[i].chart == chart; p++) {
            const struct svg_point *at = &f->series[i].point[p];
            double v = is_y ? at->y : at->x;
            if (!is_drawable(&c->x, at->x) || !is_drawable(&c->y, at->y))
                continue;
            r->lo = r->some ? fmin(r->lo, v) : v;
            r->hi = r->some ? fmax(r->hi, v) : v;
            r->some = 1;
        }
    r->least = r->lo;
    r->greatest = r->hi;
    if (r->axis->lo < r->axis->hi) {
        r->lo = r->axis->lo;
        r->hi = r->axis->hi;
        return;
    }
    if (r->axis->tight && r->axis->scale == SVG_LINEAR) {
        double far = fmax(fabs(r->lo), fabs(r->hi));
        /* If values differ by less than a thousandth: a range around them. */
        double space = fmax(0.06 * (r->hi - r->lo), far > 0 ? 1e-3 * far : 0.5);
        r->lo -= space;
        r->hi += space;
        return;
    }
    if (r->axis->scale == SVG_LINEAR) {
        r->lo = fmin(r->lo, 0);
        r->hi = fmax(r->hi, 0);
        double space = (r->hi - r->lo) * 0.06;
        r->hi = r->hi - r->lo > 1 / FAR ? r->hi + space : 1;
        r->lo = r->lo < 0 ? r->lo - space : 0;
        return;
    }
    if (!r->some)
        r->lo = r->hi = 1;
    double least = r->axis->scale == SVG_LOG2 ? 4 : 2;
    double space = r->hi / r->lo < least ? sqrt(least / (r->hi / r->lo)) : 1;
    space *= pow(r->hi / r->lo, 0.03);
    r->lo /= space;
    r->hi *= space;
}

static double pixel_of(const struct range_of *r, double v)
{
    double at = r->axis->scale == SVG_LINEAR ? (v - r->lo) / (r->hi - r->lo)
                                             : log(v / r->lo) / log(r->hi / r->lo);

    return is_drawable(r->axis, v) ? r->from + at * (r->to - r->from) : NAN;
}

static void figure_draw_axis(struct svg *s, const struct range_of *r, struct svg_box plot,
                             int is_y)
{
    const struct svg_font font = {.anchor = is_y ? SVG_END : SVG_MIDDLE, .colour = INK};
    double tick[SVG_TICKS], below = plot.y + plot.h;
    double ticks = is_y ? plot.h / TICK_Y : plot.w / TICK_X;
    int n = svg_ticks(r->axis->scale, r->lo, r->hi, (int)fmax(3, fmin(SVG_TICKS, ticks)), tick);

    for (int i = 0; i < n; i++) {
        struct units u;
        double at = pixel_of(r, tick[i]);
        svg_line(s, is_y ? plot.x : at, is_y ? at : plot.y, is_y ? plot.x + plot.w : at,
                 is_y ? at : below, &(struct svg_pen){.stroke = GRID});
        if (r->axis->name)
            svg_text(s, is_y ? plot.x - 6 : at, is_y ? at + 4 : below + 15, &font,
                     svg_tick_text(r->axis->unit, tick[i], &u));
    }
    if (r->axis->name)
        svg_text(s, is_y ? plot.x - LEFT + 12 : plot.x + plot.w / 2,
                 is_y ? plot.y + plot.h / 2 : below + 32,
                 &(struct svg_font){.anchor = SVG_MIDDLE, .turned = is_y, .colour = INK},
                 r->axis->name);
}

/* ---- lines ---- */

static struct svg_pen line_pen(const struct svg_series *one, struct svg_rgb *space)
{
    *space = svg_tint(one->colour < 0 ? INK : svg_colour(one->colour), one->faint ? FAINT : 1);
    return (struct svg_pen){.stroke = one->dashed ? "#000000" : space->text,
                            .width = one->faint    ? 0.8
                                     : one->dashed ? 1.2
                                                   : 1.8,
                            .dashed = one->dashed};
}

static int figure_is_seen(const double *xy, int p)
{
    return isfinite(xy[2 * p]) && isfinite(xy[2 * p + 1]);
}

/*
 * Keeps for each pixel of a line the first, last, highest and lowest point, and the first that
 * is not a number, for the gap.  Returns the number of points kept.
 */
static int thin_points(double *xy, int points)
{
    int kept = 0;

    for (int lo = 0, hi; lo < points; lo = hi) {
        int best[5] = {lo, lo, -1, -1, -1}; /* first, last, highest, lowest, gap */
        double end = floor(xy[2 * lo]) + 1;
        for (hi = lo; hi < points && (hi == lo || xy[2 * hi] < end); hi++) {
            double at = xy[2 * hi + 1];
            best[1] = hi;
            if (!figure_is_seen(xy, hi)) {
                best[4] = best[4] < 0 ? hi : best[4];
                continue;
            }
            best[2] = best[2] < 0 || at < xy[2 * best[2] + 1] ? hi : best[2];
            best[3] = best[3] < 0 || at > xy[2 * best[3] + 1] ? hi : best[3];
        }
        for (int p = lo; p < hi; p++)
            for (int k = 0; k < 5; k++)
                if (best[k] == p) {
                    xy[2 * kept] = xy[2 * p];
                    xy[2 * kept++ + 1] = xy[2 * p + 1];
                    break;
                }
    }
    return kept;
}

static void draw_series(struct svg *s, const struct svg_series *one, const struct range_of *x,
                        const struct range_of *y)
{
    double *xy = mem_new((size_t)one->points + 1, 2 * sizeof *xy);
    struct svg_rgb colour;
    struct svg_pen pen = line_pen(one, &colour);
    int points = one->points, tips = 0;

    for (int p = 0; p < one->points; p++) {
        xy[2 * p] = pixel_of(x, one->point[p].x);
        xy[2 * p + 1] = pixel_of(y, one->point[p].y);
        tips |= one->point[p].tip != NULL;
    }
    if (one->marker < 0)
        points = thin_points(xy, points);
    svg_group_open(s, "series", tips ? NULL : one->name);
    if (one->dashed && one->points == 1) /* a bound at a single point: as wide as a tick */
        svg_line(s, xy[0] - TICK_X / 2, xy[1], xy[0] + TICK_X / 2, xy[1], &pen);
    svg_polyline(s, xy, points, &pen);
    for (int p = 0; p < points && !one->dashed; p++)
        if (figure_is_seen(xy, p) &&
            (one->marker >= 0 || !((p > 0 && figure_is_seen(xy, p - 1)) ||
                                   (p + 1 < points && figure_is_seen(xy, p + 1)))))
            svg_marker(s, xy[2 * p], xy[2 * p + 1], one->marker < 0 ? 0 : one->marker,
                       pen.stroke, one->marker < 0 ? NULL : one->point[p].tip);
    svg_group_close(s);
    mem_free(xy);
}

/* Ratio of largest to smallest value from which the axis is logarithmic. */
static const double CHOOSE_LOG = 30;

static void draw_chart(struct svg *s, const struct svg_figure *f, int at, struct svg_box box)
{
    struct svg_chart *c = &f->chart[at];
    struct svg_box plot = {box.x + LEFT, box.y + TOP, box.w - LEFT - RIGHT,
                           box.h - TOP - BOTTOM};
    struct range_of x = {.from = plot.x, .to = plot.x + plot.w};
    struct range_of y = {.from = plot.y + plot.h, .to = plot.y};
    char title[512];

    assert(plot.w > 0 && plot.h > 0);
    svg_group_open(s, "chart", NULL);
    range_init(&x, f, at, 0);
    range_init(&y, f, at, 1);
    snprintf(title, sizeof title, "%.400s", c->title);
    if (c->y.choose && y.least > 0 && y.greatest > CHOOSE_LOG * y.least) {
        c->y.scale = SVG_LOG10;
        range_init(&y, f, at, 1);
        snprintf(title, sizeof title, "%.400s, on a logarithmic axis", c->title);
    }
    svg_text(s, plot.x, box.y + 14, &(struct svg_font){.size = 13, .bold = 1}, title);
    if (x.some) {
        figure_draw_axis(s, &x, plot, 0);
        figure_draw_axis(s, &y, plot, 1);
    } else {
        svg_text(s, plot.x + plot.w / 2, plot.y + plot.h / 2,
                 &(struct svg_font){.anchor = SVG_MIDDLE, .colour = INK}, "nothing to show");
    }
    /* Pale lines first; bounds last, since they may lie on a line that reaches them. */
    for (int pass = 0; pass < 3 && x.some; pass++)
        for (int i = 0; i < f->lines; i++)
            if (f->series[i].chart == at &&
                pass == (f->series[i].dashed ? 2 : !f->series[i].faint))
                draw_series(s, &f->series[i], &x, &y);
    svg_rect(s, plot, &(struct svg_pen){.stroke = EDGE}, NULL);
    svg_group_close(s);
}

/* ---- the page ---- */

static const struct svg_series *in_order(const struct svg_figure *f, int i)
{
    return &f->series[f->backward ? f->lines - 1 - i : i];
}

/*
 * Draws the legend: names, lines and markers of all series, in rows from y on; each name and
 * colour once, in the order of first use.  Returns the top of the charts; s NULL: only
 * measures.
 */
static double draw_legend(struct svg *s, const struct svg_figure *f, double y)
{
    const double row = 20;
    double x = WIDTH;

    for (int i = 0; i < f->lines; i++) {
        const struct svg_series *one = in_order(f, i);
        double wide = 32 + svg_text_width(one->name, 12) + 18;
        int k = 0;
        while (k < i && (in_order(f, k)->faint || in_order(f, k)->colour != one->colour ||
                         strcmp(in_order(f, k)->name, one->name) != 0))
            k++;
        if (one->faint || k < i)
            continue;
        if (x + wide > WIDTH - SVG_MARGIN) {
            x = SVG_MARGIN;
            y += row;
        }
        struct svg_rgb colour;
        struct svg_pen pen = line_pen(one, &colour);
        if (s) {
            svg_line(s, x, y - row / 2, x + 26, y - row / 2, &pen);
            svg_text(s, x + 32, y - row / 2 + 4, &(struct svg_font){.size = 12}, one->name);
        }
        if (s && one->marker >= 0 && !one->dashed)
            svg_marker(s, x + 13, y - row / 2, one->marker, pen.stroke, NULL);
        x += wide;
    }
    return y + GAP;
}

static double row_high(const struct svg_chart *c)
{
    return c->high + GAP - (c->x.name ? 0 : AXIS_NAME);
}

void svg_figure_draw(const struct svg_figure *f, FILE *out)
{
    int columns = f->columns ? f->columns : 1;
    double wide = (WIDTH - 2 * SVG_MARGIN - (columns - 1) * GAP) / columns;
    double head = svg_head(NULL, f->title, f->note) + GAP, y = draw_legend(NULL, f, head);
    double high = y;
    struct svg svg;

    for (int i = 0; i < f->charts; i += columns)
        high += row_high(&f->chart[i]);
    svg_open(&svg, out, WIDTH, high + SVG_MARGIN - GAP, f->title);
    svg_head(&svg, f->title, f->note);
    draw_legend(&svg, f, head);
    for (int i = 0; i < f->charts; i++) {
        double x = SVG_MARGIN + i % columns * (wide + GAP);
        draw_chart(&svg, f, i, (struct svg_box){x, y, wide, f->chart[i].high});
        if ((i + 1) % columns == 0)
            y += row_high(&f->chart[i]);
    }
    svg_close(&svg);
}

void svg_figure_release(struct svg_figure *f)
{
    for (int i = 0; i < f->lines; i++) {
        for (int k = 0; k < f->series[i].points; k++)
            mem_free(f->series[i].point[k].tip);
        mem_free(f->series[i].point);
        mem_free(f->series[i].name);
    }
    for (int i = 0; i < f->charts; i++)
        mem_free(f->chart[i].title);
    mem_free(f->series);
    mem_free(f->chart);
    *f = (struct svg_figure){.columns = 0};
}
