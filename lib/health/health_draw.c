/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows a verdict as a picture: a matrix of the rates between all hosts, with the rates of
 * their ports as its margins.
 *
 *     state and title
 *                 a  b  c  d
 *              in #  #  #  #     the port of the column's host, what it receives
 *          out
 *       a   #     .  #  #  #     a row sends: first its port, then every stream
 *     ! b   #     #  .  #  #     a sign for what findings say of the host
 *       c   #     #  #  .  #
 *     legend, findings
 *
 * The darker a cell, the further below what is expected.  Of more than CELLS hosts, a row and a
 * column stand for several: the worst of each cell is shown.
 */
#include <math.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/svg.h"
#include "base/units.h"
#include "health/health_folder.h"
#include "health/health_parts.h"

enum { CELLS = 64, LINES = 16 };

static const double MARGIN = 24, NAMES = 120, MAP = 640, CELL = 64, GAP = 8, HEAD = 76,
                    LINE = 17, WIDTH_LEAST = 900;
static const char *const INK = "#333333", *const PALE = "#d0d0d0", *const ALARM = "#d55e00";

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
    const struct health_told *t;
    const struct health_data *d;
    const struct health_verdict *v;
    int per_cell, cells; /* hosts of a row or a column; rows */
    double size;         /* of a cell */
    struct cell *pair;   /* [cells][cells] */
    struct cell (*port)[2];
};

/* ---- what is drawn ---- */

static void enter(struct cell *c, double percent, int src, int dst)
{
    if (isnan(percent))
        return;
    if (c->measured++ && percent >= c->percent)
        return;
    c->percent = percent;
    c->src = src;
    c->dst = dst;
}

static void fill_cells(struct draw *w)
{
    size_t n = (size_t)w->cells;
    struct health_streams streams;

    w->pair = mem_new(n * n, sizeof *w->pair);
    w->port = mem_new(n, sizeof *w->port);
    for (size_t i = 0; i < n * n; i++)
        w->pair[i].percent = NAN;
    for (size_t i = 0; i < n; i++)
        w->port[i][0].percent = w->port[i][1].percent = NAN;
    for (int k = 0; w->v->port && k < w->d->hosts; k++)
        for (int way = 0; way < 2; way++) {
            const struct health_port *p = &w->v->port[k][way];
            enter(&w->port[k / w->per_cell][way], p->samples ? p->percent : NAN, k, k);
        }
    health_streams_of(w->d, w->v, &streams);
    for (int i = 0; i < streams.count; i++) {
        const struct health_stream *p = &streams.at[i];
        size_t row = (size_t)(p->src / w->per_cell), column = (size_t)(p->dst / w->per_cell);
        enter(&w->pair[row * n + column], p->percent, p->src, p->dst);
    }
    health_streams_release(&streams);
    for (int i = 0; i < w->v->findings; i++) {
        const struct health_finding *f = &w->v->finding[i];
        if (f->host >= 0 && f->other >= 0)
            w->pair[(size_t)(f->host / w->per_cell) * n + (size_t)(f->other / w->per_cell)]
                .named = 1;
        for (int way = 0; f->host >= 0 && f->other < 0 && way < 2; way++)
            w->port[f->host / w->per_cell][way].named |= f->way < 0 || f->way == way;
    }
}

/* The worst that is said of the hosts of a row; what is said of pairs is in the matrix. */
static enum health_state state_of(const struct draw *w, int row)
{
    enum health_state s = HEALTH_OK;

    for (int i = 0; i < w->v->findings; i++) {
        const struct health_finding *f = &w->v->finding[i];
        if (f->host >= 0 && f->host / w->per_cell == row && f->other < 0 &&
            health_state_rank(f->state) > health_state_rank(s))
            s = f->state;
    }
    return s;
}

static const char *sign_of(enum health_state s)
{
    static const char *const sign[] = {"", "!", "X", "?"};

    return sign[s];
}

/* ---- the matrix ---- */

static struct svg_rgb colour_of(double percent)
{
    int i = 0;

    while (percent < classes[i].least)
        i++;
    return svg_tint(classes[i].hue, classes[i].share);
}

static void text(struct draw *w, double x, double y, double size, const char *words)
{
    svg_text(&w->s, x, y, &(struct svg_font){.size = size, .colour = INK}, words);
}

/* As much of it as is `most` wide: a name's end tells more than its beginning. */
static const char *fit(const char *words, double most, double size, char room[64])
{
    const char *from = words;

    if (svg_text_width(words, size) <= most)
        return words;
    while (*from && svg_text_width(from, size) > most - size)
        from++;
    snprintf(room, 64, "..%.60s", from);
    return room;
}

/* way -1: of a pair */
static void draw_cell(struct draw *w, const struct cell *c, int way, double x, double y)
{
    double size = w->size - (w->size > 6);
    const char *src = w->d->host[c->src].name, *dst = w->d->host[c->dst].name;
    char tip[300], words[16];
    struct units u;

    if (isnan(c->percent))
        return;
    if (way < 0)
        snprintf(tip, sizeof tip, "%.100s to %.100s: %.1f %%", src, dst, c->percent);
    else
        snprintf(tip, sizeof tip, "%.100s %s: %.1f %%, %s", src, health_way[way], c->percent,
                 units_rate(&u, w->v->port[c->src][way].Bps));
    if (c->measured > 1)
        strcat(tip, ", the worst of these");
    struct svg_rgb rgb = colour_of(c->percent);
    svg_rect(&w->s, (struct svg_box){x, y, size, size}, &(struct svg_pen){.fill = rgb.text},
             tip);
    if (c->named)
        svg_rect(&w->s, (struct svg_box){x + 1, y + 1, size - 2, size - 2},
                 &(struct svg_pen){.stroke = ALARM, .width = 2}, tip);
    if (w->size < 26)
        return;
    snprintf(words, sizeof words, "%.0f", c->percent);
    svg_text(&w->s, x + w->size / 2, y + w->size / 2 + 4,
             &(struct svg_font){.size = w->size < 40 ? 9 : 12,
                                .anchor = SVG_MIDDLE,
                                .colour = c->percent < 75 ? "#ffffff" : INK},
             words);
}

/* x, y: of the first pair.  Signs of all rows, names where there is room. */
static void draw_names(struct draw *w, double x, double y)
{
    int every = 1;
    char room[64];

    while (every * w->size < 13)
        every *= 2;
    for (int i = 0; i < w->cells; i++) {
        const char *name = fit(w->d->host[i * w->per_cell].name, NAMES - 40, 10, room);
        enum health_state s = state_of(w, i);
        double middle = (i + 0.5) * w->size + 4;
        if (s != HEALTH_OK)
            svg_text(&w->s, MARGIN, y + middle,
                     &(struct svg_font){.size = 13, .bold = 1, .colour = ALARM}, sign_of(s));
        if (i % every)
            continue;
        svg_text(&w->s, x - w->size - GAP - 6, y + middle,
                 &(struct svg_font){.size = 10, .anchor = SVG_END, .colour = INK}, name);
        svg_text(&w->s, x + middle, y - w->size - GAP - 6,
                 &(struct svg_font){.size = 10, .turned = 1, .colour = INK}, name);
    }
}

static double draw_matrix(struct draw *w)
{
    double x = MARGIN + NAMES + w->size + GAP, y = HEAD + NAMES + w->size + GAP;
    char words[160] = "A row sends, a column receives; first row and column: the ports";

    if (w->per_cell > 1)
        snprintf(words + strlen(words), sizeof words - strlen(words),
                 "; %d x %d hosts a cell, the worst of them", w->per_cell, w->per_cell);
    text(w, MARGIN, HEAD - 12, 12, words);
    svg_group_open(&w->s, "ports", NULL);
    for (int i = 0; i < w->cells; i++) {
        draw_cell(w, &w->port[i][HEALTH_OUT], HEALTH_OUT, x - w->size - GAP, y + i * w->size);
        draw_cell(w, &w->port[i][HEALTH_IN], HEALTH_IN, x + i * w->size, y - w->size - GAP);
    }
    svg_group_close(&w->s);
    svg_group_open(&w->s, "pairs", NULL);
    svg_rect(&w->s, (struct svg_box){x, y, w->cells * w->size, w->cells * w->size},
             &(struct svg_pen){.stroke = PALE}, NULL);
    for (int r = 0; r < w->cells; r++)
        for (int c = 0; c < w->cells; c++)
            draw_cell(w, &w->pair[(size_t)r * (size_t)w->cells + (size_t)c], -1,
                      x + c * w->size, y + r * w->size);
    draw_names(w, x, y);
    svg_group_close(&w->s);
    return y + w->cells * w->size + 2 * LINE;
}

/* ---- words ---- */

static double draw_legend(struct draw *w, double y)
{
    static const char *const words[] = {"X  CRITICAL", "!  WARNING", "?  UNKNOWN",
                                        "framed: named in a finding", "white: not measured"};
    double x = MARGIN + 116;

    svg_group_open(&w->s, "legend", NULL);
    text(w, MARGIN, y, 11, "of what is expected:");
    for (int i = 0; i < CLASSES; i++) {
        struct svg_rgb rgb = svg_tint(classes[i].hue, classes[i].share);
        svg_rect(&w->s, (struct svg_box){x, y - 10, 12, 12},
                 &(struct svg_pen){.fill = rgb.text, .stroke = INK, .width = 0.5}, NULL);
        text(w, x + 17, y, 11, classes[i].text);
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
        snprintf(words, sizeof words, "%s  %s HC-%d  %s", sign_of(f->state),
                 health_state_name(f->state), f->code, f->text);
        text(w, MARGIN, y + i * LINE, 12, words);
    }
    snprintf(words, sizeof words, "%d more", w->v->findings - LINES);
    if (w->v->findings > LINES)
        text(w, MARGIN, y + LINES * LINE, 12, words);
    else if (w->v->findings == 0)
        text(w, MARGIN, y, 12, "No faults found.");
    svg_group_close(&w->s);
}

void health_draw(const struct health_told *t, FILE *out)
{
    struct draw w = {.t = t, .d = t->d, .v = t->v};
    int lines = t->v->findings < LINES ? t->v->findings + 1 : LINES + 1;
    char title[160];

    w.per_cell = (t->d->hosts + CELLS - 1) / CELLS;
    w.cells = (t->d->hosts + w.per_cell - 1) / w.per_cell;
    w.size = fmin(CELL, MAP / w.cells);
    double side = NAMES + w.size + GAP + w.cells * w.size;
    fill_cells(&w);
    snprintf(title, sizeof title, "HORING %s: %d hosts, %d findings, compared with %s",
             health_state_name(t->v->state), t->d->hosts, t->v->findings,
             t->v->by_baseline ? "a baseline" : "each other");
    svg_open(&w.s, out, fmax(WIDTH_LEAST, 2 * MARGIN + side),
             HEAD + side + (6 + lines) * LINE + MARGIN, title);
    svg_text(&w.s, MARGIN, MARGIN + 8, &(struct svg_font){.size = 18, .bold = 1, .colour = INK},
             title);
    draw_findings(&w, draw_legend(&w, draw_matrix(&w)));
    svg_close(&w.s);
    mem_free(w.pair);
    mem_free(w.port);
}

int health_draw_write(const struct health_told *t, const char *path, struct err *err)
{
    struct io_out out;

    if (health_file_create(&out, path, 1, err))
        return -1;
    health_draw(t, out.file);
    return health_file_commit(&out, err);
}
