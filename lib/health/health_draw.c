/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows a verdict as a picture: the ports of all hosts, and what every host gets to every
 * other.
 *
 *     state and title
 *     +------------+ +------------+        to: a b c d
 *     | node0    ! | | node1      |   from a    . # #
 *     | out #####  | | out ###### |        b  #   # #
 *     | in  ###### | | in  ###### |        c  # #   #
 *     +------------+ +------------+        d  # # #
 *     legend                           a row sends, a column receives: both ways are there
 *     findings
 *
 * The darker, the further below what is expected; what is said of a port stands there as a sign
 * too, for no colour alone tells anything.  More than CARDS hosts are tiles of several hosts,
 * and cells of several pairs: the worst of each is shown.
 */
#include <math.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/svg.h"
#include "base/units.h"
#include "health/health_folder.h"
#include "health/health_parts.h"
#include "health/health_streams.h"

enum { CARDS = 64, CARD_COLUMNS = 4, TILES = 256, TILE_COLUMNS = 16, CELLS = 64, LINES = 16 };

static const double MARGIN = 24, LEFT = 560, CARD_H = 44, CARD_GAP = 8, TILE = 29, ROW = 66,
                    MAP = 560, CELL = 64, AXIS = 96, HEAD = 76, LINE = 17, GAP = 36;
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

static struct svg_rgb colour_of(double percent)
{
    int i = 0;

    if (isnan(percent))
        return (struct svg_rgb){"#ffffff"};
    while (percent < classes[i].least)
        i++;
    return svg_tint(classes[i].hue, classes[i].share);
}

struct draw {
    struct svg s;
    const struct health_told *t;
    const struct health_data *d;
    const struct health_verdict *v;
    struct health_streams streams;
    int per_tile, tiles; /* hosts of a tile */
    int per_cell, cells; /* hosts of a row or column */
    double map;          /* its width and height */
};

static double percent_of(const struct draw *w, int host, int way)
{
    const struct health_port *p = w->v->port ? &w->v->port[host][way] : NULL;

    return p && p->samples ? p->percent : NAN;
}

static double worse(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : fmin(a, b);
}

/* The worst that is said of hosts first to last; what is said of pairs stands in the map. */
static enum health_state state_of(const struct draw *w, int first, int last)
{
    enum health_state s = HEALTH_OK;

    for (int i = 0; i < w->v->findings; i++) {
        const struct health_finding *f = &w->v->finding[i];
        if (f->host >= first && f->host <= last && f->other < 0 &&
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

/* ---- ports ---- */

static void draw_bar(struct draw *w, double x, double y, double width, int host, int way)
{
    double percent = percent_of(w, host, way), share = fmin(1, fmax(0, percent / 100));
    struct svg_rgb rgb = colour_of(percent);
    char tip[160], label[24] = "not measured";

    snprintf(tip, sizeof tip, "%.100s %s: not measured", w->d->host[host].name,
             way == HEALTH_OUT ? "out" : "in");
    if (!isnan(percent)) {
        struct units u;
        snprintf(label, sizeof label, "%.0f %%", percent);
        snprintf(tip, sizeof tip, "%.100s %s: %.1f %%, %s", w->d->host[host].name,
                 way == HEALTH_OUT ? "out" : "in", percent,
                 units_rate(&u, w->v->port[host][way].Bps));
    }
    text(w, x, y + 9, 9, way == HEALTH_OUT ? "out" : "in");
    svg_rect(&w->s, (struct svg_box){x + 20, y, width - 52, 10},
             &(struct svg_pen){.stroke = PALE}, tip);
    if (!isnan(percent))
        svg_rect(&w->s, (struct svg_box){x + 20, y, (width - 52) * share, 10},
                 &(struct svg_pen){.fill = rgb.text, .stroke = INK, .width = 0.5}, tip);
    svg_text(
        &w->s, x + width, y + 9,
        &(struct svg_font){.size = isnan(percent) ? 7 : 9, .anchor = SVG_END, .colour = INK},
        isnan(percent) ? "-" : label);
}

static void draw_sign(struct draw *w, double x, double y, double size, enum health_state s)
{
    svg_text(&w->s, x, y,
             &(struct svg_font){.size = size, .anchor = SVG_END, .bold = 1, .colour = ALARM},
             sign_of(s));
}

static struct svg_pen frame_of(enum health_state s)
{
    return s == HEALTH_OK
               ? (struct svg_pen){.stroke = PALE}
               : (struct svg_pen){.stroke = ALARM, .width = 2, .dashed = s == HEALTH_UNKNOWN};
}

static void draw_card(struct draw *w, double y, int host)
{
    double width = (LEFT - CARD_GAP * (CARD_COLUMNS - 1)) / CARD_COLUMNS;
    double x = MARGIN + (host % CARD_COLUMNS) * (width + CARD_GAP);
    enum health_state s = state_of(w, host, host);
    struct svg_pen frame = frame_of(s);
    char room[64];

    y += (host / CARD_COLUMNS) * (CARD_H + CARD_GAP);
    svg_rect(&w->s, (struct svg_box){x, y, width, CARD_H}, &frame, NULL);
    svg_text(&w->s, x + 5, y + 13, &(struct svg_font){.bold = s != HEALTH_OK, .colour = INK},
             fit(w->d->host[host].name, width - 24, 11, room));
    draw_sign(w, x + width - 5, y + 14, 13, s);
    draw_bar(w, x + 5, y + 18, width - 10, host, HEALTH_OUT);
    draw_bar(w, x + 5, y + 30, width - 10, host, HEALTH_IN);
}

/* Out on the left half, in on the right; the worst of its hosts. */
static void draw_tile(struct draw *w, double y, int tile)
{
    int first = tile * w->per_tile, last = first + w->per_tile - 1, bad = 0;
    double x = MARGIN + ROW + (tile % TILE_COLUMNS) * (TILE + 2), worst[2] = {NAN, NAN};
    char tip[300], count[24], room[64];

    last = last < w->d->hosts ? last : w->d->hosts - 1;
    for (int k = first; k <= last; k++) {
        bad += state_of(w, k, k) != HEALTH_OK;
        for (int way = 0; way < 2; way++)
            worst[way] = worse(worst[way], percent_of(w, k, way));
    }
    enum health_state s = state_of(w, first, last);
    struct svg_pen frame = frame_of(s);
    snprintf(tip, sizeof tip, "%.100s to %.100s: worst out %.0f %%, in %.0f %%, %d slow",
             w->d->host[first].name, w->d->host[last].name, worst[0], worst[1], bad);
    y += (tile / TILE_COLUMNS) * (TILE + 2);
    if (tile % TILE_COLUMNS == 0)
        svg_text(&w->s, x - 6, y + 19,
                 &(struct svg_font){.size = 10, .anchor = SVG_END, .colour = INK},
                 fit(w->d->host[first].name, ROW - 8, 10, room));
    for (int way = 0; way < 2; way++) {
        struct svg_rgb rgb = colour_of(worst[way]);
        svg_rect(&w->s, (struct svg_box){x + way * TILE / 2, y, TILE / 2, TILE},
                 &(struct svg_pen){.fill = rgb.text}, tip);
    }
    svg_rect(&w->s, (struct svg_box){x, y, TILE, TILE}, &frame, NULL);
    if (s == HEALTH_OK)
        return;
    snprintf(count, sizeof count, "%s%d", sign_of(s), bad);
    svg_rect(&w->s, (struct svg_box){x + 2, y + 7, TILE - 4, 15},
             &(struct svg_pen){.fill = "#ffffff"}, tip);
    svg_text(&w->s, x + TILE / 2, y + 19,
             &(struct svg_font){.size = 12, .anchor = SVG_MIDDLE, .bold = 1, .colour = ALARM},
             count);
}

static double ports_height(const struct draw *w)
{
    if (w->per_tile == 1)
        return (w->d->hosts + CARD_COLUMNS - 1) / CARD_COLUMNS * (CARD_H + CARD_GAP);
    return (w->tiles + TILE_COLUMNS - 1) / TILE_COLUMNS * (TILE + 2);
}

static void draw_ports(struct draw *w)
{
    char words[120];

    svg_group_open(&w->s, "ports", NULL);
    if (w->per_tile == 1)
        snprintf(words, sizeof words, "Ports: percent of what is expected");
    else
        snprintf(words, sizeof words,
                 "Ports: %d hosts a tile, the worst of them; left out, right in", w->per_tile);
    text(w, MARGIN, HEAD - 12, 12, words);
    for (int i = 0; i < w->tiles; i++)
        if (w->per_tile == 1)
            draw_card(w, HEAD, i);
        else
            draw_tile(w, HEAD, i);
    svg_group_close(&w->s);
}

/* ---- pairs ---- */

struct cell {
    double percent;
    int src, dst, pairs, bad;
};

/* Pairs that a finding names. */
static int is_named(const struct draw *w, int src, int dst)
{
    for (int i = 0; i < w->v->findings; i++) {
        const struct health_finding *f = &w->v->finding[i];
        if (f->host == src && f->other == dst)
            return 1;
    }
    return 0;
}

static struct cell *make_cells(const struct draw *w)
{
    size_t n = (size_t)w->cells;
    struct cell *cell = mem_new(n * n, sizeof *cell);

    for (size_t i = 0; i < n * n; i++)
        cell[i].percent = NAN;
    for (int i = 0; i < w->streams.count; i++) {
        const struct health_stream *p = &w->streams.at[i];
        struct cell *c =
            &cell[(size_t)(p->src / w->per_cell) * n + (size_t)(p->dst / w->per_cell)];
        if (isnan(p->percent))
            continue;
        if (isnan(c->percent) || p->percent < c->percent) {
            c->percent = p->percent;
            c->src = p->src;
            c->dst = p->dst;
        }
        c->pairs++;
        c->bad += w->v->findings < 1000 && is_named(w, p->src, p->dst);
    }
    return cell;
}

static void draw_cell(struct draw *w, const struct cell *c, double x, double y, double size)
{
    struct svg_rgb rgb = colour_of(c->percent);
    double gap = size > 6 ? 1 : 0;
    char tip[300], words[16];

    if (isnan(c->percent))
        return;
    snprintf(tip, sizeof tip, "%.100s to %.100s: %.1f %%%s", w->d->host[c->src].name,
             w->d->host[c->dst].name, c->percent, c->pairs > 1 ? ", the worst of these" : "");
    svg_rect(&w->s, (struct svg_box){x, y, size - gap, size - gap},
             &(struct svg_pen){.fill = rgb.text}, tip);
    if (c->bad)
        svg_rect(&w->s, (struct svg_box){x + 1, y + 1, size - gap - 2, size - gap - 2},
                 &(struct svg_pen){.stroke = ALARM, .width = 2}, tip);
    if (size < 26)
        return;
    snprintf(words, sizeof words, "%.0f", c->percent);
    svg_text(&w->s, x + size / 2, y + size / 2 + 4,
             &(struct svg_font){.size = size < 40 ? 9 : 12,
                                .anchor = SVG_MIDDLE,
                                .colour = c->percent < 75 ? "#ffffff" : INK},
             words);
}

static void draw_axes(struct draw *w, double x, double y, double size)
{
    int every = 1;
    char room[64];

    while (every * size < 13)
        every *= 2;
    for (int i = 0; i < w->cells; i += every) {
        const char *name = fit(w->d->host[i * w->per_cell].name, AXIS - 10, 10, room);
        svg_text(&w->s, x - 6, y + (i + 0.5) * size + 4,
                 &(struct svg_font){.size = 10, .anchor = SVG_END, .colour = INK}, name);
        svg_text(&w->s, x + (i + 0.5) * size + 4, y - 6,
                 &(struct svg_font){.size = 10, .turned = 1, .colour = INK}, name);
    }
}

static void draw_map(struct draw *w)
{
    double x = MARGIN + LEFT + GAP + AXIS, y = HEAD + AXIS, size = w->map / w->cells;
    struct cell *cell = make_cells(w);
    char words[120];

    svg_group_open(&w->s, "pairs", NULL);
    if (w->per_cell == 1)
        snprintf(words, sizeof words, "Pairs: a row sends, a column receives");
    else
        snprintf(words, sizeof words,
                 "Pairs: a row sends, a column receives; %d x %d hosts a"
                 " cell, the worst of them",
                 w->per_cell, w->per_cell);
    text(w, MARGIN + LEFT + GAP, HEAD - 12, 12, words);
    svg_rect(&w->s, (struct svg_box){x, y, w->map, w->map}, &(struct svg_pen){.stroke = PALE},
             NULL);
    for (int r = 0; r < w->cells; r++)
        for (int c = 0; c < w->cells; c++)
            draw_cell(w, &cell[(size_t)r * (size_t)w->cells + (size_t)c], x + c * size,
                      y + r * size, size);
    draw_axes(w, x, y, size);
    svg_group_close(&w->s);
    mem_free(cell);
}

/* ---- words ---- */

static double draw_legend(struct draw *w, double y)
{
    static const char *const words[] = {"X  CRITICAL", "!  WARNING", "?  UNKNOWN",
                                        "framed: named in a finding", "white: not measured"};
    double x = MARGIN;

    svg_group_open(&w->s, "legend", NULL);
    text(w, x, y, 11, "of what is expected:");
    x += 116;
    for (int i = 0; i < CLASSES; i++) {
        struct svg_rgb rgb = svg_tint(classes[i].hue, classes[i].share);
        svg_rect(&w->s, (struct svg_box){x, y - 10, 12, 12},
                 &(struct svg_pen){.fill = rgb.text, .stroke = INK, .width = 0.5}, NULL);
        text(w, x + 17, y, 11, classes[i].text);
        x += 30 + svg_text_width(classes[i].text, 11);
    }
    for (int i = 0; i < 5; i++) {
        svg_text(&w->s, x, y, &(struct svg_font){.colour = i < 3 ? ALARM : INK, .bold = i < 3},
                 words[i]);
        x += 18 + svg_text_width(words[i], 11);
    }
    svg_group_close(&w->s);
    return y + 2 * LINE;
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
    if (w->v->findings > LINES) {
        snprintf(words, sizeof words, "%d more", w->v->findings - LINES);
        text(w, MARGIN, y + LINES * LINE, 12, words);
    }
    if (w->v->findings == 0)
        text(w, MARGIN, y, 12, "No faults found.");
    svg_group_close(&w->s);
}

static void draw_all(struct draw *w, FILE *out)
{
    double body = fmax(ports_height(w), AXIS + w->map);
    int lines = w->v->findings < LINES ? w->v->findings + 1 : LINES + 1;
    double legend = HEAD + body + 2 * LINE;
    char title[160];

    snprintf(title, sizeof title, "HORING %s: %d hosts, %d findings, compared with %s",
             health_state_name(w->v->state), w->d->hosts, w->v->findings,
             w->v->by_baseline ? "a baseline" : "each other");
    svg_open(&w->s, out, 2 * MARGIN + LEFT + GAP + AXIS + MAP,
             legend + (2 + lines) * LINE + MARGIN, title);
    svg_text(&w->s, MARGIN, MARGIN + 8,
             &(struct svg_font){.size = 18, .bold = 1, .colour = INK}, title);
    draw_ports(w);
    draw_map(w);
    draw_findings(w, draw_legend(w, legend));
    svg_close(&w->s);
}

void health_draw(const struct health_told *t, FILE *out)
{
    struct draw w = {.t = t, .d = t->d, .v = t->v, .per_tile = 1, .per_cell = 1};
    int n = t->d->hosts;

    if (n > CARDS)
        w.per_tile = (n + TILES - 1) / TILES < 2 ? 2 : (n + TILES - 1) / TILES;
    w.tiles = (n + w.per_tile - 1) / w.per_tile;
    w.per_cell = (n + CELLS - 1) / CELLS;
    w.cells = (n + w.per_cell - 1) / w.per_cell;
    w.map = fmin(MAP, w.cells * CELL);
    health_streams_of(t->d, t->v, &w.streams);
    draw_all(&w, out);
    health_streams_release(&w.streams);
}

int health_draw_write(const struct health_told *t, const char *path, struct err *err)
{
    struct io_out out;

    if (health_file_create(&out, path, 1, err))
        return -1;
    health_draw(t, out.file);
    return health_file_commit(&out, err);
}
