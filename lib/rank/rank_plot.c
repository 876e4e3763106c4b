/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how ranked runs are drawn: a curve each, the names in the order of their ranks, with
 * their scores.  Of more runs than colours the best have one, and the first log where it is
 * judged; the others are pale, without a name.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/svg_chart.h"
#include "rank/rank.h"

static const double WIDTH = 1040, HIGH = 440, MARGIN = 20, HEAD = 60;

/*
 * Points of a curve: one for less than two pixels.  A ratio from which most losses would lie
 * on the floor of a linear axis, as paro-train's pictures have it.
 */
enum { POINTS = 600, LOG_FROM = 30 };

struct line {
    struct svg_series series;
    double x[POINTS], y[POINTS];
    char name[320];
};

struct picture {
    const struct rank_result *r;
    struct line *line; /* [lines], the best first */
    int lines, named;
    double least, greatest;
    int64_t epochs; /* the longest budget */
};

/* The means of as many epochs as fall on a point; a point with one that is no number is none.
 */
static void draw_curve(struct picture *p, const struct rank_place *place, struct line *l)
{
    const struct rank_curve *c = &place->run->curve;
    int64_t points = p->epochs < POINTS ? p->epochs : POINTS, seen = 0, last = -1;

    for (size_t i = 0; i < c->count && rank_curve_index(c, i) <= place->epochs; i++) {
        int64_t index = rank_curve_index(c, i);
        /* Where its epochs end: whole products, epochs are below 2^53 and points 600. */
        int64_t at = (int64_t)((double)(index - 1) / (double)p->epochs * (double)points);
        int n = l->series.points;
        double x = (double)(c->from + index * c->per_epoch - 1);
        if (at != last)
            n = ++l->series.points;
        seen = at == last ? seen + 1 : 1;
        last = at;
        l->x[n - 1] = x;
        l->y[n - 1] =
            seen == 1 ? c->loss[i] : l->y[n - 1] + (c->loss[i] - l->y[n - 1]) / (double)seen;
    }
    for (int i = 0; i < l->series.points; i++)
        if (isfinite(l->y[i])) {
            p->least = fmin(p->least, l->y[i]);
            p->greatest = fmax(p->greatest, l->y[i]);
        }
}

static void name_line(const struct rank_place *place, struct line *l)
{
    char rank[32];

    snprintf(rank, sizeof rank, place->best < place->worst ? "%d-%d" : "%d", place->best,
             place->worst);
    snprintf(l->name, sizeof l->name, "%s. %.200s: %.6g", rank, place->run->name,
             isnan(place->score) ? NAN : place->score);
}

static int is_judged(const struct rank_result *r, int i)
{
    return r->share && r->place[i].run == &r->run[0];
}

/* Named ones first in the list; the chart draws the pale ones below them. */
static void add_lines(struct picture *p)
{
    const struct rank_result *r = p->r;
    int colours = r->ranked > SVG_COLOURS ? SVG_COLOURS - 1 : SVG_COLOURS, judged = 0;

    for (int i = colours; i < r->ranked; i++)
        judged |= is_judged(r, i);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < r->ranked; i++) {
            int named = i < colours - judged || is_judged(r, i);
            if (named == pass)
                continue;
            struct line *l = &p->line[p->lines++];
            p->named += named;
            l->series = (struct svg_series){.name = l->name,
                                            .colour = named ? p->named - 1 : SVG_COLOURS - 1,
                                            .marker = -1,
                                            .faint = !named,
                                            .x = l->x,
                                            .y = l->y};
            draw_curve(p, &r->place[i], l);
            if (l->series.points == 1) /* no line: a dot */
                l->series.marker = l->series.colour;
            name_line(&r->place[i], l);
        }
}

static void put_head(const struct picture *p, struct svg *svg, const char *title)
{
    const struct rank_options *o = p->r->o;
    char text[256];
    int at =
        snprintf(text, sizeof text,
                 "by %s, lower is better; a point is the mean of an epoch of %" PRId64
                 " step%s, or of several",
                 rank_method_name(o->how.method), o->per_epoch, o->per_epoch == 1 ? "" : "s");

    if (p->lines > p->named)
        snprintf(text + at, sizeof text - (size_t)at, "; pale: %d more runs",
                 p->lines - p->named);
    svg_text(svg, MARGIN, MARGIN + 12, &(struct svg_font){.size = 15, .bold = 1}, title);
    svg_text(svg, MARGIN, MARGIN + 32, &(struct svg_font){0}, text);
}

static void draw(const struct picture *p, FILE *out)
{
    static const char title[] = "Runs by training speed";
    int log = p->least > 0 && p->greatest > LOG_FROM * p->least;
    double wide = WIDTH - 2 * MARGIN;
    struct svg_series *series = mem_new((size_t)p->lines + 1, sizeof *series);
    struct svg svg;

    for (int i = 0; i < p->lines; i++)
        series[i] = p->line[i].series;
    double names = svg_legend(NULL, 0, 0, wide, series, p->named), top = HEAD + names + 12;
    svg_open(&svg, out, WIDTH, top + HIGH + MARGIN, title);
    put_head(p, &svg, title);
    svg_legend(&svg, MARGIN, HEAD, wide, series, p->named);
    /* The best lie on top: what is drawn last. */
    for (int i = 0; i < p->lines; i++)
        series[i] = p->line[p->lines - 1 - i].series;
    struct svg_chart chart = {.box = {MARGIN, top, wide, HIGH},
                              .title = log ? "training loss, on a logarithmic axis"
                                           : "training loss",
                              .x = {.name = "step", .unit = units_whole},
                              .y = {.name = "loss",
                                    .unit = units_plain,
                                    .scale = log ? SVG_LOG10 : SVG_LINEAR,
                                    .tight = 1},
                              .count = p->lines,
                              .series = series};
    svg_chart(&svg, &chart);
    svg_close(&svg);
    mem_free(series);
}

void rank_plot(const struct rank_result *r, FILE *out)
{
    struct picture p = {.r = r, .least = INFINITY, .greatest = -INFINITY};

    p.line = mem_new((size_t)r->ranked + 1, sizeof *p.line);
    for (int i = 0; i < r->ranked; i++)
        p.epochs = r->place[i].epochs > p.epochs ? r->place[i].epochs : p.epochs;
    add_lines(&p);
    draw(&p, out);
    mem_free(p.line);
}
