/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * health_plot TITLE < rows > health.svg: how often a port that is slower by so many percent is
 * found and named right, a line for each number of hosts.  Rows are those of health_fleets;
 * those of kind port are drawn, sorted by hosts, then by percent, falling.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/svg_chart.h"

enum { SERIES = 8, POINTS = 32, LINE = 256, WIDE = 640, HIGH = 360, GAP = 16 };

struct line {
    int hosts, points;
    double slower[POINTS], right[POINTS];
    char name[32];
};

static const char *percent(struct units *u, double v)
{
    snprintf(u->text, sizeof u->text, "%g %%", v);
    return u->text;
}

static int read_rows(struct line *line)
{
    char text[LINE], kind[32];
    int lines = 0;

    while (fgets(text, sizeof text, stdin)) {
        int hosts, runs, found, right;
        double rate;
        if (sscanf(text, "%31s %d %lf %d %d %d", kind, &hosts, &rate, &runs, &found, &right) !=
                6 ||
            strcmp(kind, "port") || runs < 1)
            continue;
        if (lines == 0 || line[lines - 1].hosts != hosts) {
            if (lines == SERIES)
                break;
            line[lines].hosts = hosts;
            snprintf(line[lines].name, sizeof line->name, "%d hosts", hosts);
            lines++;
        }
        struct line *l = &line[lines - 1];
        if (l->points == POINTS)
            continue;
        l->slower[l->points] = 100 - rate;
        l->right[l->points++] = 100.0 * right / runs;
    }
    return lines;
}

int main(int argc, char **argv)
{
    static struct line line[SERIES];
    struct svg_series series[SERIES + 1];
    struct svg s;
    int lines = argc == 2 ? read_rows(line) : 0;
    const double at[] = {5, 5}, goal[] = {0, 100};

    if (lines == 0) {
        fprintf(stderr, "usage: health_plot TITLE < rows\n");
        return 2;
    }
    for (int i = 0; i < lines; i++)
        series[i] = (struct svg_series){.name = line[i].name,
                                        .colour = i,
                                        .marker = i,
                                        .points = line[i].points,
                                        .x = line[i].slower,
                                        .y = line[i].right};
    series[lines] = (struct svg_series){
        .name = "5 %", .marker = -1, .dashed = 1, .points = 2, .x = at, .y = goal};
    double top = 56 + svg_legend(NULL, GAP, 0, WIDE, series, lines + 1);
    struct svg_chart chart = {
        .box = {GAP, top, WIDE, HIGH},
        .title = "Found, and named right",
        .x = {.name = "a port slower by", .unit = percent},
        .y = {.name = "share of runs", .unit = percent, .lo = 0, .hi = 100},
        .count = lines + 1,
        .series = series};
    svg_open(&s, stdout, WIDE + 2 * GAP, top + HIGH + GAP, argv[1]);
    svg_text(&s, GAP, 26, &(struct svg_font){.size = 13, .bold = 1},
             "A slow port among others");
    svg_text(&s, GAP + 200, 26, &(struct svg_font){0}, argv[1]);
    svg_legend(&s, GAP, 40, WIDE, series, lines + 1);
    svg_chart(&s, &chart);
    svg_close(&s);
    return fflush(stdout) || ferror(stdout) ? 2 : 0;
}
