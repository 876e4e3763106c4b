/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * int8_plot TITLE < int8.csv > int8.svg: of each strategy its losses, and by how much each way
 * to travel is above the strategy's first one; both means of WINDOW steps.
 *
 *     step,NNG f32,NNG f32+grads,...,GGG f32,...
 *
 *     legend                    of the first strategy: the others have the same ways
 *     NNG   losses              NNG   above the first
 *     GGG   losses              GGG   above the first
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "draw/draw_figure.h"

enum { SERIES = 64, NAME = 48, WINDOW = 10, LINE = 1 << 16 };

struct table {
    char name[SERIES][NAME];
    int series, points;
    double step[LINE];
    double *value[SERIES]; /* [points] */
};

static void die(const char *text)
{
    fprintf(stderr, "int8_plot: %s\n", text);
    exit(2);
}

static void read_names(struct table *t, char *line)
{
    strtok(line, ",\n");
    for (char *name; (name = strtok(NULL, ",\n")); t->series++) {
        if (t->series == SERIES)
            die("too many columns");
        snprintf(t->name[t->series], NAME, "%s", name);
        t->value[t->series] = mem_new(LINE, sizeof(double));
    }
}

/* Means of WINDOW steps, where their middle is. */
static void read_table(struct table *t)
{
    char *line = mem_new(LINE, 1);
    int rows = 0;

    if (!fgets(line, LINE, stdin))
        die("nothing to read");
    read_names(t, line);
    for (; t->points < LINE && fgets(line, LINE, stdin); rows++) {
        char *at = line;
        t->step[t->points] += strtod(at, &at) / WINDOW;
        for (int i = 0; i < t->series; i++) {
            if (*at++ != ',')
                die("a row with a column less");
            t->value[i][t->points] += strtod(at, &at) / WINDOW;
        }
        t->points += rows % WINDOW == WINDOW - 1;
    }
    mem_free(line);
    if (t->points == 0)
        die("fewer steps than one window");
}

/* Of series first .. first + n: as they are, or less the first of them. */
static void draw(struct svg_figure *f, const struct table *t, int first, int n, int less)
{
    const struct svg_axis x = {.name = "step", .unit = units_plain},
                          y = {.name = less ? "difference" : "loss", .unit = units_plain};
    char title[2 * NAME];

    snprintf(title, sizeof title, "%.3s: loss%s%s", t->name[first],
             less ? ", above that of " : "", less ? t->name[first] + 4 : "");
    svg_figure_chart(f, title, x, y, 300);
    for (int i = first; i < first + n; i++) {
        svg_figure_line(f, t->name[i] + 4,
                        (struct svg_series){.colour = i - first, .marker = -1});
        for (int p = 0; p < t->points; p++)
            svg_figure_point(f, t->step[p], t->value[i][p] - (less ? t->value[first][p] : 0),
                             NULL);
    }
}

int main(int argc, char **argv)
{
    static struct table t;
    struct svg_figure f = {.title = "Int8 blocks between groups", .columns = 2};
    int n = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: int8_plot TITLE < int8.csv\n");
        return 2;
    }
    read_table(&t);
    while (n < t.series && strncmp(t.name[n], t.name[0], 4) == 0)
        n++;
    snprintf(f.note, sizeof f.note, "%s", argv[1]);
    for (int i = 0; i < 2 * (t.series / n); i++)
        draw(&f, &t, i / 2 * n, n, i % 2);
    svg_figure_draw(&f, stdout);
    svg_figure_release(&f);
    for (int i = 0; i < t.series; i++)
        mem_free(t.value[i]);
    return fflush(stdout) || ferror(stdout) ? 2 : 0;
}
