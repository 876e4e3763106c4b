/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws the rows of a benchmark: for each operation (and shape and type, if there are several)
 * one chart of its time and one of its busbw over the size.
 */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "draw/draw_figure.h"
#include "schedule/schedule.h"

struct plot {
    const struct bench_row **row; /* [rows], those with a time; owned */
    int rows;
    const struct bench_row **library; /* [libraries], the first row of each; owned */
    int libraries;
};

static int has_limit(const struct bench_row *r)
{
    return isfinite(r->limit_s) && r->limit_s > 0;
}

static void plot_tip_of(const struct bench_row *r, char *text, size_t space)
{
    struct units size, least, median, most, rate;
    char label[96], limit[48] = "";

    if (has_limit(r))
        snprintf(limit, sizeof limit, ", %.3f of the cut bound", bench_limit_fraction(r));
    snprintf(text, space, "%s, %s: median %s (%s to %s), busbw %s%s%s",
             bench_label(r, label, sizeof label), units_bytes(&size, (double)r->bytes),
             units_time(&median, r->time_s[BENCH_MEDIAN]),
             units_time(&least, r->time_s[BENCH_MIN]), units_time(&most, r->time_s[BENCH_MAX]),
             units_rate(&rate, bench_busbw_Bps(r)), limit, r->simulated ? ", simulated" : "");
}

/*
 * Returns a line's style.  The colour depends only on the algorithm, so that it is equal in all
 * pictures.  The MPI library comes after ours, once for each of its settings.
 */
static int style_of(struct plot *p, const struct bench_row *r)
{
    int i = 0;

    if (r->algo >= 0)
        return r->algo;
    while (i < p->libraries &&
           (p->library[i]->algo != r->algo || strcmp(p->library[i]->setting, r->setting) != 0))
        i++;
    if (i == p->libraries)
        p->library[p->libraries++] = r;
    return SCHEDULE_AUTO + 1 + i;
}

/* Writes "all-gather", and whatever distinguishes this panel from the others. */
static void panel_name(const struct plot *p, const struct bench_row *r, char *text, int space)
{
    int shapes = 0, types = 0;

    for (int i = 0; i < p->rows; i++) {
        shapes |= strcmp(p->row[i]->shape, r->shape) != 0;
        types |= p->row[i]->type != r->type ||
                 (p->row[i]->op == r->op && p->row[i]->redop != r->redop);
    }
    int at = snprintf(text, (size_t)space, "%s", schedule_phases_name(r->op));
    if (shapes)
        at += snprintf(text + at, (size_t)(space - at), " %s", r->shape);
    if (types && at < space)
        snprintf(text + at, (size_t)(space - at), " %s%s%s", dtype_name(r->type),
                 r->redop == DTYPE_OPS ? "" : " ",
                 r->redop == DTYPE_OPS ? "" : dtype_op_name(r->redop));
}

/* Adds a row to the charts of time and rate; or the cut bound of its size. */
static void plot_add_row(struct plot *p, struct svg_figure *f, const struct bench_row *from,
                         int bound)
{
    static const struct svg_axis size = {
        .name = "size of the whole vector", .scale = SVG_LOG2, .unit = units_bytes};
    static const struct svg_axis axis[2] = {
        {.name = "time (median)", .scale = SVG_LOG10, .unit = units_time},
        {.name = "busbw", .unit = units_rate}};
    struct svg_series style = {.marker = -1, .dashed = 1};
    struct bench_row r = *from;
    char panel[320], chart[352], name[96] = "cut bound", tip[256];

    if (bound) {
        r.time_s[BENCH_MEDIAN] = r.limit_s;
    } else {
        style = (struct svg_series){.colour = style_of(p, from), .marker = style_of(p, from)};
        plot_tip_of(&r, tip, sizeof tip);
        snprintf(name, sizeof name, "%s%s%s", bench_algo_name(r.algo), r.setting[0] ? ":" : "",
                 r.setting);
    }
    panel_name(p, &r, panel, sizeof panel);
    for (int rate = 0; rate < 2; rate++) {
        snprintf(chart, sizeof chart, rate ? "%s: bus bandwidth" : "%s: time", panel);
        svg_figure_chart(f, chart, size, axis[rate], 300);
        svg_figure_line(f, name, style);
        svg_figure_point(f, (double)r.bytes,
                         rate ? bench_busbw_Bps(&r) : r.time_s[BENCH_MEDIAN],
                         bound ? NULL : tip);
    }
}

/* Writes "4x2: 8 ranks, f32; load average 0.8 to 2.1". */
static void plot_describe(const struct plot *p, char *text, size_t space)
{
    double least = INFINITY, most = -INFINITY;
    char load[64] = "";

    if (!p->rows) {
        snprintf(text, space, "no rows");
        return;
    }
    for (int i = 0; i < p->rows; i++)
        if (isfinite(p->row[i]->load)) {
            least = fmin(least, p->row[i]->load);
            most = fmax(most, p->row[i]->load);
        }
    if (most >= least)
        snprintf(load, sizeof load,
                 most - least < 0.1 ? "; load average %.1f" : "; load average %.1f to %.1f",
                 least, most);
    const struct bench_row *r = p->row[0];
    int same = 1;
    for (int i = 0; i < p->rows; i++)
        same &= p->row[i]->type == r->type && strcmp(p->row[i]->shape, r->shape) == 0;
    if (same)
        snprintf(text, space, "%s: %d rank%s, %s%s", r->shape, r->ranks,
                 r->ranks == 1 ? "" : "s", dtype_name(r->type), load);
    else
        snprintf(text, space, "several shapes or types%s", load);
}

void bench_plot(const struct bench_row *rows, int n, const char *title, FILE *out)
{
    struct svg_figure f = {.columns = 2};
    struct plot p = {.row = mem_new((size_t)n + 1, sizeof *p.row),
                     .library = mem_new((size_t)n + 1, sizeof *p.library)};

    for (int i = 0; i < n; i++)
        if (isfinite(rows[i].time_s[BENCH_MEDIAN]) && rows[i].time_s[BENCH_MEDIAN] > 0)
            p.row[p.rows++] = &rows[i];
    snprintf(f.title, sizeof f.title, "%s", title);
    plot_describe(&p, f.note, sizeof f.note);
    for (int bound = 0; bound < 2; bound++)
        for (int i = 0; i < p.rows; i++)
            if (!bound || has_limit(p.row[i]))
                plot_add_row(&p, &f, p.row[i], bound);
    svg_figure_draw(&f, out);
    svg_figure_release(&f);
    mem_free(p.row);
    mem_free(p.library);
}
