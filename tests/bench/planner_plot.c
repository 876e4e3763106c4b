/* SPDX-License-Identifier: BSD-3-Clause */
/* planner_plot TITLE < planner.csv > planner.svg: a point for each strategy in each case,
 * planned seconds to the right, measured upwards, both logarithmic; on the diagonal a plan was
 * right, and between the lines beside it to a tenth. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/draw_figure.h"

enum { ROWS = 4096, CASES = 64 };

struct row {
    char name[40], strategy[8];
    double planned, step;
};

static int by_planned(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    return (x->planned > y->planned) - (x->planned < y->planned);
}

static int read_rows(struct row *row)
{
    char line[512];
    int rows = 0;

    for (int at = 1; rows < ROWS && fgets(line, sizeof line, stdin); at++) {
        struct row *r = &row[rows];
        if (at == 1)
            continue;
        if (sscanf(line, "%39[^,],%7[^,],%*[^,],%lf,%lf", r->name, r->strategy, &r->planned,
                   &r->step) != 4 ||
            !(r->planned > 0) || !(r->step > 0)) {
            fprintf(stderr, "planner_plot: line %d: not a row of a case's strategy\n", at);
            exit(2);
        }
        rows++;
    }
    return rows;
}

static void add_case(struct svg_figure *f, const struct row *row, int rows, const char *name,
                     int at)
{
    char tip[160];

    svg_figure_line(f, name, (struct svg_series){.colour = at, .marker = at});
    for (const struct row *r = row; r < row + rows; r++) {
        if (strcmp(r->name, name))
            continue;
        snprintf(tip, sizeof tip, "%s %s: planned %.4g s, measured %.4g s", r->name,
                 r->strategy, r->planned, r->step);
        svg_figure_point(f, r->planned, r->step, tip);
        svg_figure_point(f, r->planned, NAN, tip); /* a marker alone */
    }
}

int main(int argc, char **argv)
{
    static struct row row[ROWS], sorted[ROWS];
    struct svg_figure f = {.title = "Planned and measured steps"};
    double low = INFINITY, high = 0;
    const char *name[CASES];
    int cases = 0, rows;

    if (argc != 2) {
        fputs("usage: planner_plot TITLE < planner.csv > planner.svg\n", stderr);
        return 2;
    }
    rows = read_rows(row);
    if (!rows) {
        fputs("planner_plot: no rows, expected planner.csv on standard input\n", stderr);
        return 2;
    }
    memcpy(sorted, row, sizeof sorted);
    qsort(sorted, (size_t)rows, sizeof *sorted, by_planned);
    for (int i = 0; i < rows; i++) {
        low = fmin(low, fmin(row[i].planned, row[i].step));
        high = fmax(high, fmax(row[i].planned, row[i].step));
    }
    struct svg_axis x = {.name = "planned step", .scale = SVG_LOG10, .unit = units_time},
                    y = {.name = "measured step", .scale = SVG_LOG10, .unit = units_time};
    x.lo = y.lo = low / 1.1, x.hi = y.hi = high * 1.1;
    snprintf(f.note, sizeof f.note, "%s", argv[1]);
    svg_figure_chart(&f, "a point for each strategy", x, y, 560);
    for (int i = 0; i < rows; i++) {
        int at = 0;
        while (at < cases && strcmp(name[at], row[i].name))
            at++;
        if (at == CASES) {
            fprintf(stderr, "planner_plot: more than %d cases\n", CASES);
            return 2;
        }
        if (at == cases)
            add_case(&f, sorted, rows, name[cases++] = row[i].name, at);
    }
    for (int i = -1; i <= 1; i++) {
        double times = 1 + 0.1 * i, lo = i < 0 ? x.lo / times : x.lo;
        double hi = i > 0 ? x.hi / times : x.hi;
        svg_figure_line(&f, "as planned, and a tenth off",
                        (struct svg_series){.marker = -1, .dashed = 1});
        svg_figure_point(&f, lo, lo * times, NULL);
        svg_figure_point(&f, hi, hi * times, NULL);
    }
    svg_figure_draw(&f, stdout);
    svg_figure_release(&f);
    return fflush(stdout) || ferror(stdout) ? 2 : 0;
}
