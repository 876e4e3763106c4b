/* SPDX-License-Identifier: BSD-3-Clause */
/* health_plot TITLE < rows > health.svg: how often a port that is slower by so many percent is
 * found and named right, a line for each number of hosts.  Rows are those of health_fleets;
 * those of kind port are drawn, sorted by hosts, then by percent, falling. */
#include <stdio.h>
#include <string.h>

#include "draw/draw_figure.h"

static const char *percent(struct units *u, double v)
{
    snprintf(u->text, sizeof u->text, "%g %%", v);
    return u->text;
}

int main(int argc, char **argv)
{
    struct svg_figure f = {.title = "A slow port among others"};
    char text[256], kind[32], name[32];
    int lines = 0, last = 0;

    svg_figure_chart(&f, "Found, and named right",
                     (struct svg_axis){.name = "a port slower by", .unit = percent},
                     (struct svg_axis){.name = "share of runs", .unit = percent, .hi = 100},
                     360);
    while (argc == 2 && fgets(text, sizeof text, stdin)) {
        int hosts, runs, found, right;
        double rate;
        if (sscanf(text, "%31s %d %lf %d %d %d", kind, &hosts, &rate, &runs, &found, &right) !=
                6 ||
            strcmp(kind, "port") || runs < 1)
            continue;
        snprintf(name, sizeof name, "%d hosts", hosts);
        if (lines == 0 || hosts != last) {
            svg_figure_line(&f, name, (struct svg_series){.colour = lines, .marker = lines});
            lines++;
        }
        last = hosts;
        svg_figure_point(&f, 100 - rate, 100.0 * right / runs, NULL);
    }
    if (lines == 0) {
        fprintf(stderr, "usage: health_plot TITLE < rows\n");
        return 2;
    }
    snprintf(f.note, sizeof f.note, "%s", argv[1]);
    svg_figure_line(&f, "5 %", (struct svg_series){.marker = -1, .dashed = 1});
    svg_figure_point(&f, 5, 0, NULL);
    svg_figure_point(&f, 5, 100, NULL);
    svg_figure_draw(&f, stdout);
    svg_figure_release(&f);
    return fflush(stdout) || ferror(stdout) ? 2 : 0;
}
