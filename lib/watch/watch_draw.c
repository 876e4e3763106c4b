/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws a verdict: how late each rank is, over time, a row per rank and a cell per block of
 * time.  With more than ROWS ranks a row represents several; each cell shows the latest of
 * them.
 */
#include <math.h>

#include "draw/draw_matrix.h"
#include "watch/watch_parts.h"

enum { ROWS = 128, LINES = 8 };

/* Names the process of the lowest rank. */
static const char *watch_draw_name_of(const void *of, int from, int to, char *text,
                                      size_t space)
{
    const struct watch *w = ((const struct watch_report *)of)->w;
    int first = -1;

    for (int p = 0; p < w->processes; p++)
        if (w->process[p].rank >= from && w->process[p].rank < to) {
            first = p;
            to = w->process[p].rank;
        }
    return first < 0 ? "" : watch_name(w, first, text, space);
}

/* An item is a process. */
static void watch_draw_tip_of(const void *of, const struct svg_cell *c, char *text,
                              size_t space)
{
    char name[160];

    snprintf(text, space, "%s: %.1f %% late",
             watch_name(((const struct watch_report *)of)->w, (int)c->item, name, sizeof name),
             100 - c->percent);
}

void watch_draw(const struct watch_report *r, FILE *out)
{
    static const char *const legend[] = {
        "below 2 % late", "2 to 5", "5 to 10", "10 to 25", "25 to 50", "50 % and more", NULL};
    const struct watch *w = r->w;
    struct svg_matrix m = {.wide = 30,
                           .high = 20,
                           .legend = legend,
                           .name = watch_draw_name_of,
                           .tip = watch_draw_tip_of,
                           .of = r};
    int last = 0, n = 0;
    struct units u;

    for (int p = 0; p < w->processes; p++)
        last = w->process[p].rank > last ? w->process[p].rank : last;
    svg_matrix_init(&m, last + 1, WATCH_BLOCKS, ROWS);
    for (int p = 0; p < w->processes; p++)
        for (int b = 0; b < WATCH_BLOCKS; b++)
            svg_matrix_enter(svg_matrix_cell(&m, w->process[p].rank, b),
                             100 - r->v->late[p].block[b], p);
    snprintf(m.title, sizeof m.title, "WATCH %s: %d ranks, %s in %d blocks",
             health_state_name(r->v->state), w->processes,
             units_time(&u, fmax(w->end_s - w->start_s, 0)), WATCH_BLOCKS);
    for (int i = 0; i < r->v->findings && i < LINES; i++)
        n += snprintf(m.note + n, sizeof m.note - (size_t)n, "%s\n", r->v->finding[i].text);
    snprintf(m.note + n, sizeof m.note - (size_t)n, "%s",
             r->v->why ? r->v->why : "how late each rank is, over time");
    svg_matrix_draw(&m, out);
}
