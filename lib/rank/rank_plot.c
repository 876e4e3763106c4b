/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws ranked runs: one curve each, with names and scores in the order of their ranks.  If
 * there are more runs than colours, the best are coloured, and the first log if it is judged;
 * the others are pale and unnamed.
 */
#include <inttypes.h>
#include <math.h>

#include "draw/draw_figure.h"
#include "rank/rank.h"

enum { POINTS = 600 }; /* per curve: one for less than two pixels */

/*
 * Adds a curve.  A point is the mean of its epochs, and is omitted if one of them is not
 * finite. epochs: the longest budget.
 */
static void add_curve(struct svg_figure *f, const struct rank_place *place, int64_t epochs)
{
    const struct rank_curve *c = &place->run->curve;
    int64_t points = epochs < POINTS ? epochs : POINTS, seen = 0, last = -1;
    double x = 0, mean = 0;

    for (size_t i = 0; i < c->count && rank_curve_index(c, i) <= place->epochs; i++) {
        int64_t index = rank_curve_index(c, i);
        /* The point of an epoch: exact products, since epochs are below 2^53 and points 600. */
        int64_t at = (int64_t)((double)(index - 1) / (double)epochs * (double)points);
        if (at != last && seen)
            svg_figure_point(f, x, mean, NULL);
        seen = at == last ? seen + 1 : 1;
        last = at;
        x = (double)(c->from + index * c->per_epoch - 1);
        mean = seen == 1 ? c->loss[i] : mean + (c->loss[i] - mean) / (double)seen;
    }
    if (seen)
        svg_figure_point(f, x, mean, NULL);
}

static int is_judged(const struct rank_result *r, int i)
{
    return r->share && r->place[i].run == &r->run[0];
}

/* Adds the best last, so that it is on top.  Returns the number of pale ones. */
static int plot_add_lines(struct svg_figure *f, const struct rank_result *r)
{
    int colours = r->ranked > SVG_COLOURS ? SVG_COLOURS - 1 : SVG_COLOURS, judged = 0;
    int colour = 0, pale = 0;
    int64_t epochs = 0;

    for (int i = 0; i < r->ranked; i++) {
        epochs = r->place[i].epochs > epochs ? r->place[i].epochs : epochs;
        judged |= i >= colours && is_judged(r, i);
    }
    colour = r->ranked < colours ? r->ranked : colours; /* number of named runs */
    for (int i = r->ranked - 1; i >= 0; i--) {
        const struct rank_place *p = &r->place[i];
        int named = i < colours - judged || is_judged(r, i);
        char rank[32], name[320];
        snprintf(rank, sizeof rank, p->best < p->worst ? "%d-%d" : "%d", p->best, p->worst);
        snprintf(name, sizeof name, "%s. %.200s: %.6g", rank, p->run->name,
                 isnan(p->score) ? NAN : p->score);
        colour -= named;
        pale += !named;
        svg_figure_line(f, name,
                        (struct svg_series){.colour = named ? colour : SVG_COLOURS - 1,
                                            .marker = -1,
                                            .faint = !named});
        add_curve(f, p, epochs);
    }
    return pale;
}

void rank_plot(const struct rank_result *r, FILE *out)
{
    const struct rank_options *o = r->o;
    struct svg_figure f = {.title = "Runs by training speed", .backward = 1};

    svg_figure_chart(
        &f, "training loss", (struct svg_axis){.name = "step", .unit = units_whole},
        (struct svg_axis){.name = "loss", .unit = units_plain, .tight = 1, .choose = 1}, 440);
    int pale = plot_add_lines(&f, r);
    int at =
        snprintf(f.note, sizeof f.note,
                 "by %s, lower is better; a point is the mean of an epoch of %" PRId64
                 " step%s, or of several",
                 rank_method_name(o->how.method), o->per_epoch, o->per_epoch == 1 ? "" : "s");
    if (pale)
        snprintf(f.note + at, sizeof f.note - (size_t)at, "; pale: %d more runs", pale);
    svg_figure_draw(&f, out);
    svg_figure_release(&f);
}
