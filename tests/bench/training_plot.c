/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * training_plot TITLE < training.csv > training.svg: a bar for each plan, of the step's parts,
 * with its quartiles, and the planner's word as a mark.
 *
 *     NNG:ho-ring  |####compute####|::exposed::|.idle.|--|     3.21 s   2840 tokens/s  2.66x
 *                                         ^ planned
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/draw_svg.h"

enum { ROWS = 64, LEFT = 130, BAR = 560, RIGHT = 250, TOP = 92, STEP = 34, THICK = 18 };

struct row {
    char name[40];
    double planned, step, low, high, rate, part[3];
};

static int read_rows(struct row *row)
{
    char line[512];
    int n = 0;

    for (int at = 0; n < ROWS && fgets(line, sizeof line, stdin); at++) {
        struct row *r = &row[n];
        if (at == 0)
            continue;
        if (sscanf(line, "%39[^,],%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf", r->name, &r->planned,
                   &r->step, &r->low, &r->high, &r->rate, &r->part[0], &r->part[1],
                   &r->part[2]) != 9) {
            fprintf(stderr, "training_plot: line %d: not a row of numbers\n", at + 1);
            exit(2);
        }
        n++;
    }
    return n;
}

static const char *const part_names[] = {"computing", "waiting for communication",
                                         "waiting for other ranks"};

static void legend(struct svg *s)
{
    double x = LEFT;

    for (int i = 0; i < 3; i++) {
        struct svg_rgb tint = svg_tint(svg_colour(i), i ? 0.55 : 1);
        svg_rect(s, (struct svg_box){x, 48, 12, 12}, &(struct svg_pen){.fill = tint.text},
                 NULL);
        svg_text(s, x + 17, 58, &(struct svg_font){0}, part_names[i]);
        x += 40 + svg_text_width(part_names[i], 11);
    }
    svg_line(s, x + 5, 46, x + 5, 62, &(struct svg_pen){.stroke = "#000000", .width = 2});
    svg_text(s, x + 14, 58, &(struct svg_font){0}, "planned");
}

static void bar(struct svg *s, const struct row *r, const struct row *first, double y,
                double scale)
{
    double x = LEFT, sum = r->part[0] + r->part[1] + r->part[2];
    char text[128];

    svg_text(s, LEFT - 8, y + 13, &(struct svg_font){.anchor = SVG_END}, r->name);
    for (int i = 0; i < 3; i++) {
        struct svg_rgb tint = svg_tint(svg_colour(i), i ? 0.55 : 1);
        double w = r->step * r->part[i] / sum * scale;
        snprintf(text, sizeof text, "%s: %.3f s", part_names[i], r->part[i]);
        svg_rect(s, (struct svg_box){x, y, w, THICK}, &(struct svg_pen){.fill = tint.text},
                 text);
        x += w;
    }
    const struct svg_pen thin = {.stroke = "#000000"},
                         thick = {.stroke = "#000000", .width = 2};
    double low = LEFT + r->low * scale, high = LEFT + r->high * scale, mid = y + THICK / 2.0;
    svg_line(s, low, mid, high, mid, &thin);
    svg_line(s, low, mid - 4, low, mid + 4, &thin);
    svg_line(s, high, mid - 4, high, mid + 4, &thin);
    svg_line(s, LEFT + r->planned * scale, y - 4, LEFT + r->planned * scale, y + THICK + 4,
             &thick);
    snprintf(text, sizeof text, "%.2f s   %.0f tokens/s   %.2fx", r->step, r->rate,
             r->rate / first->rate);
    double end = high > x ? high : x, planned = LEFT + r->planned * scale;
    svg_text(s, (planned > end ? planned : end) + 8, y + 13, &(struct svg_font){0}, text);
}

int main(int argc, char **argv)
{
    struct row row[ROWS];
    struct svg s;
    int n = argc == 2 ? read_rows(row) : 0;
    double most = 0;

    if (n == 0) {
        fprintf(stderr, "usage: training_plot TITLE < training.csv\n");
        return 2;
    }
    for (int i = 0; i < n; i++) {
        most = row[i].high > most ? row[i].high : most;
        most = row[i].planned > most ? row[i].planned : most;
    }
    double height = TOP + n * STEP + 20, scale = BAR / most;
    svg_open(&s, stdout, LEFT + BAR + RIGHT, height, argv[1]);
    svg_text(&s, 16, 26, &(struct svg_font){.size = 13, .bold = 1}, "A step, plan by plan");
    svg_text(&s, 170, 26, &(struct svg_font){0}, argv[1]);
    legend(&s);
    for (int i = 0; i < n; i++)
        bar(&s, &row[i], row, TOP + i * STEP, scale);
    svg_close(&s);
    return fflush(stdout) || ferror(stdout) ? 2 : 0;
}
