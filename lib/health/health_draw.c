/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verdict as a picture: a matrix of the rates between all hosts, with the rates of their
 * ports as its margins.
 *
 *     state and title
 *                 a  b  c  d
 *              in #  #  #  #     the port of the column's host, what it receives
 *          out
 *       a   #     .  #  #  #     a row sends: first its port, then every stream
 *     ! b   #     #  .  #  #     a sign for findings about the host
 *       c   #     #  #  .  #
 *     legend, findings
 *
 * The darker a cell, the further below what is expected.  Of more than CELLS hosts, a row and a
 * column stand for several: the worst of each cell is shown.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/svg.h"
#include "base/units.h"
#include "health/health_parts.h"

enum { CELLS = 64, LINES = 16 };

static const double MARGIN = 24, NAMES = 120, MAP = 640, CELL = 64, GAP = 8, HEAD = 76,
                    LINE = 17, WIDTH_LEAST = 900;
static const char *const INK = "#333333", *const PALE = "#d0d0d0", *const ALARM = "#d55e00";
static const char *const sign[] = {"", "!", "X", "?"}; /* of a state */

/* Classes of percent, each darker than the one before: lightness alone tells them apart. */
static const struct {
    double least;
    const char *hue;
    double share; /* of the hue */
    const char *text;
} classes[] = {
    {98, "#0072b2", 0.14, "98 % and more"}, {95, "#5b1a4a", 0.3, "95 to 98"},
    {90, "#5b1a4a", 0.45, "90 to 95"},      {75, "#5b1a4a", 0.62, "75 to 90"},
    {50, "#5b1a4a", 0.82, "50 to 75"},      {-INFINITY, "#5b1a4a", 1, "below 50"},
};
enum { CLASSES = sizeof classes / sizeof *classes };

struct cell {
    double percent; /* NaN: nothing was measured */
    int src, dst;   /* hosts; of a port: the same twice */
    int measured, named;
};

struct draw {
    struct svg s;
    const struct health_data *d;
    const struct health_verdict *v;
    int per_cell, cells; /* hosts of a row or a column; rows */
    double size, x, y;   /* of a cell; where the cell of the first pair is */
    struct cell *cell;   /* [cells + 1][cells + 1]: row 0 ports in, column 0 ports out */
};

/* ---- what is drawn ---- */

static struct cell *cell_at(const struct draw *w, int row, int column)
{
    return &w->cell[row * (w->cells + 1) + column];
}

static struct cell *cell_of(const struct draw *w, int src, int dst)
{
    return cell_at(w, src / w->per_cell + 1, dst / w->per_cell + 1);
}

static struct cell *port_of(const struct draw *w, int host, int way)
{
    int at = host / w->per_cell + 1;

    return way == HEALTH_OUT ? cell_at(w, at, 0) : cell_at(w, 0, at);
}

static void enter(struct cell *c, double percent, int src, int dst)
{
    if (isnan(percent) || (c->measured++ && percent >= c->percent))
        return;
    c->percent = percent;
    c->src = src;
    c->dst = dst;
}

static void fill_cells(struct draw *w)
{
    const int count = (w->cells + 1) * (w->cells + 1);
    struct health_stream *stream;

    w->cell = mem_new((size_t)count, sizeof *w->cell);
    for (int i = 0; i < count; i++)
        w->cell[i].percent = NAN;
    for (int k = 0; w->v->port && k < w->d->hosts; k++)
        for (int way = 0; way < 2; way++)
            if (w->v->port[k][way].samples)
                enter(port_of(w, k, way), w->v->port[k][way].percent, k, k);
    int streams = health_streams_of(w->d, w->v, &stream);
    for (int i = 0; i < streams; i++)
        enter(cell_of(w, stream[i].src, stream[i].dst), stream[i].percent, stream[i].src,
              stream[i].dst);
    mem_free(stream);
    for (int i = 0; i < w->v->findings; i++) {
        const struct health_finding *f = &w->v->finding[i];
        if (f->host >= 0 && f->other >= 0)
            cell_of(w, f->host, f->other)->named = 1;
        for (int way = 0; f->host >= 0 && f->other < 0 && way < 2; way++)
            port_of(w, f->host, way)->named |= f->way < 0 || f->way == way;
    }
}

/* ---- the matrix ---- */

static void put_text(struct draw *w, double x, double y, double size, const char *words)
{
    svg_text(&w->s, x, y, &(struct svg_font){.size = size, .colour = INK}, words);
}

static void draw_cell(struct draw *w, int row, int column)
{
    const struct cell *c = cell_at(w, row, column);
    const char *src = w->d->host[c->src].name, *dst = w->d->host[c->dst].name;
    double size = w->size - (w->size > 6), half = w->size / 2,
           x = w->x + (column ? (column - 1) * w->size : -w->size - GAP),
           y = w->y + (row ? (row - 1) * w->size : -w->size - GAP);
    char tip[300], words[16];
    struct units u;
    int class = 0, way = row ? HEALTH_OUT : HEALTH_IN;

    if (isnan(c->percent))
        return;
    while (c->percent < classes[class].least)
        class ++;
    struct svg_rgb rgb = svg_tint(classes[class].hue, classes[class].share);
    if (row && column)
        snprintf(tip, sizeof tip, "%.100s to %.100s: %.1f %%", src, dst, c->percent);
    else
        snprintf(tip, sizeof tip, "%.100s %s: %.1f %%, %s", src, health_way[way], c->percent,
                 units_rate(&u, w->v->port[c->src][way].Bps));
    if (c->measured > 1)
        strcat(tip, ", the worst of these");
    svg_rect(&w->s, (struct svg_box){x, y, size, size}, &(struct svg_pen){.fill = rgb.text},
             tip);
    if (c->named)
        svg_rect(&w->s, (struct svg_box){x + 1, y + 1, size - 2, size - 2},
                 &(struct svg_pen){.stroke = ALARM, .width = 2}, tip);
    snprintf(words, sizeof words, "%.0f", c->percent);
    if (w->size >= 26)
        svg_text(&w->s, x + half, y + half + 4,
                 &(struct svg_font){.size = w->size < 40 ? 9 : 12,
                                    .anchor = SVG_MIDDLE,
                                    .colour = c->percent < 75 ? "#ffffff" : INK},
                 words);
}

/*
 * A sign for the worst finding about a row's hosts (those about pairs are in the matrix), names
 * where there is room: a name's end tells more than its beginning.
 */
static void draw_names(struct draw *w)
{
    double edge = w->size + GAP + 6, most = NAMES - 40;
    int every = 1;

    while (every * w->size < 13)
        every *= 2;
    for (int i = 0; i < w->cells; i++) {
        const char *name = w->d->host[i * w->per_cell].name;
        enum health_state state = HEALTH_OK;
        double middle = (i + 0.5) * w->size + 4;
        char cut[64];
        for (int k = 0; k < w->v->findings; k++) {
            const struct health_finding *f = &w->v->finding[k];
            if (f->host >= 0 && f->host / w->per_cell == i && f->other < 0)
                state = health_worse(state, f->state);
        }
        if (state != HEALTH_OK)
            svg_text(&w->s, MARGIN, w->y + middle,
                     &(struct svg_font){.size = 13, .bold = 1, .colour = ALARM}, sign[state]);
        if (i % every)
            continue;
        if (svg_text_width(name, 10) > most) {
            while (*name && svg_text_width(name, 10) > most - 10)
                name++;
            snprintf(cut, sizeof cut, "..%.60s", name);
            name = cut;
        }
        svg_text(&w->s, w->x - edge, w->y + middle,
                 &(struct svg_font){.size = 10, .anchor = SVG_END, .colour = INK}, name);
        svg_text(&w->s, w->x + middle, w->y - edge,
                 &(struct svg_font){.size = 10, .turned = 1, .colour = INK}, name);
    }
}

static double draw_matrix(struct draw *w)
{
    double side = w->cells * w->size;
    char words[160] = "A row sends, a column receives; first row and column: the ports";

    if (w->per_cell > 1)
        snprintf(words + strlen(words), sizeof words - strlen(words),
                 "; %d x %d hosts a cell, the worst of them", w->per_cell, w->per_cell);
    put_text(w, MARGIN, HEAD - 12, 12, words);
    for (int pairs = 0; pairs < 2; pairs++) {
        svg_group_open(&w->s, pairs ? "pairs" : "ports", NULL);
        if (pairs)
            svg_rect(&w->s, (struct svg_box){w->x, w->y, side, side},
                     &(struct svg_pen){.stroke = PALE}, NULL);
        for (int row = 0; row <= w->cells; row++)
            for (int column = 0; column <= w->cells; column++)
                if (pairs == (row && column))
                    draw_cell(w, row, column);
        if (pairs)
            draw_names(w);
        svg_group_close(&w->s);
    }
    return w->y + side + 2 * LINE;
}

/* ---- words ---- */

static double draw_legend(struct draw *w, double y)
{
    static const char *const words[] = {"X  CRITICAL", "!  WARNING", "?  UNKNOWN",
                                        "framed: named in a finding", "white: not measured"};
    double x = MARGIN + 116;

    svg_group_open(&w->s, "legend", NULL);
    put_text(w, MARGIN, y, 11, "of what is expected:");
    for (int i = 0; i < CLASSES; i++) {
        struct svg_rgb rgb = svg_tint(classes[i].hue, classes[i].share);
        svg_rect(&w->s, (struct svg_box){x, y - 10, 12, 12},
                 &(struct svg_pen){.fill = rgb.text, .stroke = INK, .width = 0.5}, NULL);
        put_text(w, x + 17, y, 11, classes[i].text);
        x += 30 + svg_text_width(classes[i].text, 11);
    }
    x = MARGIN;
    for (int i = 0; i < 5; i++) {
        svg_text(&w->s, x, y + LINE,
                 &(struct svg_font){.colour = i < 3 ? ALARM : INK, .bold = i < 3}, words[i]);
        x += 18 + svg_text_width(words[i], 11);
    }
    svg_group_close(&w->s);
    return y + 3 * LINE;
}

static void draw_findings(struct draw *w, double y)
{
    char words[400];

    svg_group_open(&w->s, "findings", NULL);
    for (int i = 0; i < w->v->findings && i < LINES; i++) {
        const struct health_finding *f = &w->v->finding[i];
        snprintf(words, sizeof words, "%s  %s HC-%d  %s", sign[f->state],
                 health_state_name(f->state), f->code, f->text);
        put_text(w, MARGIN, y + i * LINE, 12, words);
    }
    snprintf(words, sizeof words, "%d more", w->v->findings - LINES);
    if (w->v->findings > LINES)
        put_text(w, MARGIN, y + LINES * LINE, 12, words);
    else if (w->v->findings == 0)
        put_text(w, MARGIN, y, 12, "No faults found.");
    svg_group_close(&w->s);
}

void health_draw(const struct health_report *t, FILE *out)
{
    struct draw w = {.d = t->d, .v = t->v};
    int lines = t->v->findings < LINES ? t->v->findings + 1 : LINES + 1;
    char title[160];

    w.per_cell = (t->d->hosts + CELLS - 1) / CELLS;
    w.cells = (t->d->hosts + w.per_cell - 1) / w.per_cell;
    w.size = fmin(CELL, MAP / w.cells);
    w.x = MARGIN + NAMES + w.size + GAP;
    w.y = HEAD + NAMES + w.size + GAP;
    fill_cells(&w);
    snprintf(title, sizeof title, "HORING %s: %d hosts, %d findings, compared with %s",
             health_state_name(t->v->state), t->d->hosts, t->v->findings,
             t->v->by_baseline ? "a baseline" : "each other");
    svg_open(&w.s, out, fmax(WIDTH_LEAST, w.x + w.cells * w.size + MARGIN),
             w.y + w.cells * w.size + (6 + lines) * LINE + MARGIN, title);
    svg_text(&w.s, MARGIN, MARGIN + 8, &(struct svg_font){.size = 18, .bold = 1, .colour = INK},
             title);
    draw_findings(&w, draw_legend(&w, draw_matrix(&w)));
    svg_close(&w.s);
    mem_free(w.cell);
}
