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
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/svg_chart.h"

enum { SERIES = 64, NAME = 48, WINDOW = 10, WIDE = 520, HIGH = 300, GAP = 16, LINE = 1 << 16 };

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

static const char *plain(struct units *u, double v)
{
    snprintf(u->text, sizeof u->text, "%.6g", v);
    return u->text;
}

/* Of series first .. first + n: as they are, or less the first of them. */
static void draw(struct svg *s, const struct table *t, int first, int n, struct svg_box box,
                 int less)
{
    struct svg_series series[SERIES];
    double *y = mem_new((size_t)(n * t->points), sizeof *y);
    char title[2 * NAME];

    for (int i = 0; i < n; i++) {
        double *of = y + i * t->points;
        for (int p = 0; p < t->points; p++)
            of[p] = t->value[first + i][p] - (less ? t->value[first][p] : 0);
        series[i] = (struct svg_series){.name = t->name[first + i],
                                        .colour = i,
                                        .marker = -1,
                                        .points = t->points,
                                        .x = t->step,
                                        .y = of};
    }
    if (less)
        snprintf(title, sizeof title, "%.3s: loss, above that of %s", t->name[first],
                 t->name[first] + 4);
    else
        snprintf(title, sizeof title, "%.3s: loss", t->name[first]);
    struct svg_chart chart = {.box = box,
                              .title = title,
                              .x = {.name = "step", .unit = plain},
                              .y = {.name = less ? "difference" : "loss", .unit = plain},
                              .count = n,
                              .series = series};
    svg_chart(s, &chart);
    mem_free(y);
}

static double legend(struct svg *s, const struct table *t, int n, double y)
{
    struct svg_series series[SERIES];

    for (int i = 0; i < n; i++)
        series[i] = (struct svg_series){.name = t->name[i] + 4, .colour = i, .marker = -1};
    return svg_legend(s, GAP, y, 2 * WIDE, series, n);
}

int main(int argc, char **argv)
{
    static struct table t;
    struct svg s;
    int n = 0, strategies;

    if (argc != 2) {
        fprintf(stderr, "usage: int8_plot TITLE < int8.csv\n");
        return 2;
    }
    read_table(&t);
    while (n < t.series && strncmp(t.name[n], t.name[0], 4) == 0)
        n++;
    strategies = t.series / n;
    double top = 56 + legend(NULL, &t, n, 0);
    svg_open(&s, stdout, 2 * WIDE + 3 * GAP, top + strategies * (HIGH + GAP), argv[1]);
    svg_text(&s, GAP, 26, &(struct svg_font){.size = 13, .bold = 1},
             "Int8 blocks between groups");
    svg_text(&s, GAP + 225, 26, &(struct svg_font){0}, argv[1]);
    legend(&s, &t, n, 40);
    for (int i = 0; i < strategies; i++) {
        struct svg_box box = {GAP, top + i * (HIGH + GAP), WIDE, HIGH};
        draw(&s, &t, i * n, n, box, 0);
        box.x += WIDE + GAP;
        draw(&s, &t, i * n, n, box, 1);
    }
    svg_close(&s);
    for (int i = 0; i < t.series; i++)
        mem_free(t.value[i]);
    return fflush(stdout) || ferror(stdout) ? 2 : 0;
}
