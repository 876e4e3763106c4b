/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * planner_plot TITLE < planner.csv > planner.svg: a point for each strategy in each case,
 * planned seconds to the right, measured upwards, both logarithmic; on the diagonal a plan was
 * right, and within the band it was to a tenth.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/svg.h"

enum { ROWS = 4096, CASES = 64, LEFT = 70, TOP = 60, SIZE = 520, LEGEND = 190, BOTTOM = 50 };

struct row {
    char name[40], strategy[8];
    double planned, step;
    int at; /* index of the case */
};

struct plot {
    struct row *row;
    int rows, cases;
    const char *name[CASES];
    double low, high; /* powers of ten */
};

static void read_rows(struct plot *p)
{
    char line[512];

    for (int at = 1; p->rows < ROWS && fgets(line, sizeof line, stdin); at++) {
        struct row *r = &p->row[p->rows];
        if (at == 1)
            continue;
        if (sscanf(line, "%39[^,],%7[^,],%*[^,],%lf,%lf", r->name, r->strategy, &r->planned,
                   &r->step) != 4 ||
            !(r->planned > 0) || !(r->step > 0)) {
            fprintf(stderr, "planner_plot: line %d: not a row of a case's strategy\n", at);
            exit(2);
        }
        while (r->at < p->cases && strcmp(p->name[r->at], r->name) != 0)
            r->at++;
        if (r->at == CASES) {
            fprintf(stderr, "planner_plot: line %d: more than %d cases\n", at, CASES);
            exit(2);
        }
        if (r->at == p->cases)
            p->name[p->cases++] = r->name;
        p->rows++;
    }
}

/* The powers of ten around all. */
static void set_range(struct plot *p)
{
    double least = INFINITY, most = 0;

    for (int i = 0; i < p->rows; i++) {
        least = fmin(least, fmin(p->row[i].planned, p->row[i].step));
        most = fmax(most, fmax(p->row[i].planned, p->row[i].step));
    }
    p->low = floor(log10(least));
    p->high = fmax(ceil(log10(most)), p->low + 1);
}

static double place(const struct plot *p, double s)
{
    return SIZE * (log10(s) - p->low) / (p->high - p->low);
}

static double right(const struct plot *p, double s)
{
    return LEFT + place(p, s);
}

static double up(const struct plot *p, double s)
{
    return TOP + SIZE - place(p, s);
}

static void grid(struct svg *s, const struct plot *p)
{
    const struct svg_pen thin = {.stroke = "#dddddd"}, edge = {.stroke = "#666666"};
    char text[32];

    for (int decade = (int)p->low; decade <= (int)p->high; decade++)
        for (int digit = 1; digit < 10; digit++) {
            double v = digit * pow(10, decade);
            if (log10(v) > p->high + 1e-9)
                break;
            svg_line(s, right(p, v), TOP, right(p, v), TOP + SIZE, &thin);
            svg_line(s, LEFT, up(p, v), LEFT + SIZE, up(p, v), &thin);
            if (digit != 1 && digit != 2 && digit != 5)
                continue;
            snprintf(text, sizeof text, "%g", v);
            svg_text(s, right(p, v), TOP + SIZE + 16, &(struct svg_font){.anchor = SVG_MIDDLE},
                     text);
            svg_text(s, LEFT - 6, up(p, v) + 4, &(struct svg_font){.anchor = SVG_END}, text);
        }
    svg_rect(s, (struct svg_box){LEFT, TOP, SIZE, SIZE}, &edge, NULL);
    svg_text(s, LEFT + SIZE / 2, TOP + SIZE + 38, &(struct svg_font){.anchor = SVG_MIDDLE},
             "planned step, seconds");
    svg_text(s, 18, TOP + SIZE / 2, &(struct svg_font){.anchor = SVG_MIDDLE, .turned = 1},
             "measured step, seconds");
}

/* Where measured is 0.9 to 1.1 of planned. */
static void band(struct svg *s, const struct plot *p)
{
    double low = pow(10, p->low), high = pow(10, p->high);
    const double corners[] = {right(p, low),     up(p, low),           right(p, low),
                              up(p, low * 1.1),  right(p, high / 1.1), up(p, high),
                              right(p, high),    up(p, high),          right(p, high),
                              up(p, high * 0.9), right(p, low / 0.9),  up(p, low)};

    svg_polygon(s, corners, 6, &(struct svg_pen){.fill = "#eeeeee"}, "within a tenth");
    svg_line(s, right(p, low), up(p, low), right(p, high), up(p, high),
             &(struct svg_pen){.stroke = "#888888", .dashed = 1});
}

static void point(struct svg *s, const struct row *r, double x, double y)
{
    const struct svg_pen full = {.fill = svg_colour(r->at)};
    const struct svg_pen open = {.fill = "#ffffff", .stroke = svg_colour(r->at), .width = 1.5};
    char tip[160];

    snprintf(tip, sizeof tip, "%s %s: planned %.4g s, measured %.4g s", r->name, r->strategy,
             r->planned, r->step);
    svg_circle(s, x, y, 3.5, r->at / SVG_COLOURS % 2 ? &open : &full, tip);
}

int main(int argc, char **argv)
{
    static struct row rows[ROWS];
    struct plot p = {.row = rows};
    struct svg s;

    if (argc != 2) {
        fputs("usage: planner_plot TITLE < planner.csv > planner.svg\n", stderr);
        return 2;
    }
    read_rows(&p);
    if (!p.rows) {
        fputs("planner_plot: no rows, expected planner.csv on standard input\n", stderr);
        return 2;
    }
    set_range(&p);
    svg_open(&s, stdout, LEFT + SIZE + LEGEND, TOP + SIZE + BOTTOM, argv[1]);
    svg_text(&s, LEFT, 30, &(struct svg_font){.size = 15, .bold = 1}, argv[1]);
    band(&s, &p);
    grid(&s, &p);
    for (int i = 0; i < p.rows; i++)
        point(&s, &p.row[i], right(&p, p.row[i].planned), up(&p, p.row[i].step));
    for (int i = 0; i < p.cases; i++) {
        struct row r = {.at = i};
        point(&s, &r, LEFT + SIZE + 18, TOP + 10 + 20 * i);
        svg_text(&s, LEFT + SIZE + 30, TOP + 14 + 20 * i, &(struct svg_font){0}, p.name[i]);
    }
    svg_close(&s);
    return fflush(stdout) == EOF ? 2 : 0;
}
