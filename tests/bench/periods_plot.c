/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * periods_plot NOTE < rows 3> periods.svg: draws tokens/s over the rate between groups.  A row
 * has the rate in Mbit/s, H (0: every step is of all ranks), tokens/s, "planned" or "measured".
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw/draw_figure.h"

enum { LINES = 8 };

int main(int argc, char **argv)
{
    const struct svg_axis x = {.name = "rate of a group's port, Mbit/s",
                               .scale = SVG_LOG10,
                               .unit = units_plain},
                          y = {.name = "tokens/s", .unit = units_plain};
    struct svg_figure f = {.title = "Training over slow links, with and without periods"};
    int every[LINES], lines = 0, h;
    double rate = 0, tokens;
    char word[16], name[80], tip[160];

    if (argc != 2) {
        fputs("usage: periods_plot NOTE < rows 3> periods.svg\n", stderr);
        return 2;
    }
    snprintf(f.note, sizeof f.note, "%s; lines are planned, markers measured", argv[1]);
    svg_figure_chart(&f, "", x, y, 360);
    while (scanf("%lf %d %lf %15s", &rate, &h, &tokens, word) == 4) {
        int line = 0, measured = strcmp(word, "measured") == 0;
        while (line < lines && every[line] != h)
            line++;
        if (line == LINES)
            break;
        every[line] = h;
        lines += line == lines;
        if (h)
            snprintf(name, sizeof name, "groups synchronise every %d steps", h);
        else
            snprintf(name, sizeof name, "every step is of all ranks");
        snprintf(tip, sizeof tip, "%s, %g Mbit/s: %.0f tokens/s %s", name, rate, tokens, word);
        if (measured)
            strncat(name, ", measured", sizeof name - strlen(name) - 1);
        svg_figure_line(&f, name,
                        (struct svg_series){.colour = line, .marker = measured ? line : -1});
        svg_figure_point(&f, rate, tokens, tip);
        if (measured) /* a marker alone */
            svg_figure_point(&f, rate, NAN, tip);
    }
    if (!feof(stdin)) {
        fprintf(stderr, "periods_plot: a row after %g Mbit/s is none, or of H number %d\n",
                rate, LINES + 1);
        return 2;
    }
    FILE *out = fdopen(3, "w");
    if (!out)
        return 2;
    svg_figure_draw(&f, out);
    svg_figure_release(&f);
    return fclose(out) == EOF ? 2 : 0;
}
