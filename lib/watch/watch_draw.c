/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verdict as a picture: how late each rank is, over time.
 *
 *     state, findings
 *     rank 0 (node0)   . . . . . . . . . .     a cell per block of time: the darker, the later
 *     rank 1 (node0)   . . # # # . # # # .
 *     legend
 *
 * Of more than ROWS ranks a row stands for several: in each cell the latest of them.
 */
#include <math.h>

#include "base/svg.h"
#include "watch/watch_parts.h"

enum { ROWS = 128, LINES = 8, ROW_TEXT = 9 };

static const double MARGIN = 24, NAMES = 190, CELL = 30, LINE = 17, HEIGHT = 640, WIDTH = 900;
static const char *const INK = "#333333";

/* As health_draw.c has them: lightness alone tells them apart. */
static const struct {
    double least; /* percent */
    double share; /* of the hue */
    const char *text;
} classes[] = {{50, 1, "50 % and more"}, {25, 0.82, "25 to 50"}, {10, 0.62, "10 to 25"},
               {5, 0.45, "5 to 10"},     {2, 0.3, "2 to 5"},     {-INFINITY, 0.06, "below 2"}};
enum { CLASSES = sizeof classes / sizeof *classes };

struct draw {
    struct svg s;
    const struct watch_report *r;
    int per_row, rows;                        /* ranks of a row */
    int first[ROWS], who[ROWS][WATCH_BLOCKS]; /* process + 1; 0: none */
    double high;                              /* of a row */
};

static struct svg_rgb colour_of(double percent)
{
    int class = 0;

    while (percent < classes[class].least)
        class ++;
    return svg_tint("#5b1a4a", classes[class].share);
}

static void fill_rows(struct draw *d)
{
    const struct watch *w = d->r->w;
    const struct watch_late *late = d->r->v->late;
    int last = 0;

    for (int p = 0; p < w->processes; p++)
        last = w->process[p].rank > last ? w->process[p].rank : last;
    d->per_row = last / ROWS + 1;
    d->rows = last / d->per_row + 1;
    for (int p = 0; p < w->processes; p++) {
        int row = w->process[p].rank / d->per_row, *first = &d->first[row];
        if (!*first || w->process[p].rank < w->process[*first - 1].rank)
            *first = p + 1;
        for (int b = 0; b < WATCH_BLOCKS; b++) {
            int *who = &d->who[row][b];
            if (!isnan(late[p].block[b]) &&
                (!*who || late[p].block[b] > late[*who - 1].block[b]))
                *who = p + 1;
        }
    }
}

static void draw_row(struct draw *d, int row, double y)
{
    const struct watch *w = d->r->w;
    char name[160], tip[240];

    if (d->high >= ROW_TEXT && d->first[row])
        svg_text(&d->s, MARGIN, y + d->high - 2,
                 &(struct svg_font){.size = fmin(12, d->high), .colour = INK},
                 watch_name(w, d->first[row] - 1, name, sizeof name));
    for (int b = 0; b < WATCH_BLOCKS; b++) {
        int who = d->who[row][b] - 1;
        if (who < 0)
            continue;
        double percent = d->r->v->late[who].block[b];
        struct svg_rgb rgb = colour_of(percent);
        snprintf(tip, sizeof tip, "%s: %.1f %% late", watch_name(w, who, name, sizeof name),
                 percent);
        svg_rect(
            &d->s,
            (struct svg_box){MARGIN + NAMES + b * CELL, y, CELL - 1, d->high - (d->high > 3)},
            &(struct svg_pen){.fill = rgb.text}, tip);
    }
}

static void draw_legend(struct draw *d, double y)
{
    double x = MARGIN;

    for (int i = CLASSES; i-- > 0;) {
        struct svg_rgb rgb = svg_tint("#5b1a4a", classes[i].share);
        svg_rect(&d->s, (struct svg_box){x, y - 10, 12, 12},
                 &(struct svg_pen){.fill = rgb.text, .stroke = INK, .width = 0.5}, NULL);
        svg_text(&d->s, x + 17, y, &(struct svg_font){.colour = INK}, classes[i].text);
        x += 34 + svg_text_width(classes[i].text, 11);
    }
}

void watch_draw(const struct watch_report *r, FILE *out)
{
    struct draw d = {.r = r};
    int lines = r->v->findings < LINES ? r->v->findings : LINES;
    double top = MARGIN + 30 + LINE * (lines + 2);
    char title[160];
    struct units u;

    fill_rows(&d);
    d.high = fmin(20, HEIGHT / d.rows);
    snprintf(title, sizeof title, "WATCH %s: %d ranks, %s in %d blocks",
             health_state_name(r->v->state), r->w->processes,
             units_time(&u, fmax(r->w->end_s - r->w->start_s, 0)), WATCH_BLOCKS);
    svg_open(&d.s, out, WIDTH, top + d.rows * d.high + 3 * LINE, title);
    svg_text(&d.s, MARGIN, MARGIN + 8, &(struct svg_font){.size = 18, .bold = 1, .colour = INK},
             title);
    for (int i = 0; i < lines; i++)
        svg_text(&d.s, MARGIN, MARGIN + 30 + i * LINE,
                 &(struct svg_font){.size = 12, .colour = INK}, r->v->finding[i].text);
    svg_text(&d.s, MARGIN, top - 10, &(struct svg_font){.size = 12, .colour = INK},
             r->v->why ? r->v->why : "how late each rank is, over time");
    svg_group_open(&d.s, "ranks", NULL);
    for (int row = 0; row < d.rows; row++)
        draw_row(&d, row, top + row * d.high);
    svg_group_close(&d.s);
    draw_legend(&d, top + d.rows * d.high + 1.5 * LINE);
    svg_close(&d.s);
}
