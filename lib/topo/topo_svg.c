/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws a fabric: nested boxes, in each a rail that joins its children, and ports as wide as
 * their rates.
 *
 *     title                     figures of each level
 *     level2 ====================================
 *       | 125 MB/s                 | 125 MB/s
 *     +-inter ==============+    +-inter ========+
 *     | |          |        |    | |             |
 *     | group 0    group 1  |    | group 2       |
 *     | [0][1]     [2]      |    | [3][4]        |
 *     | out #####  out ##   |    | out #####     |
 *     | in  #####  in  #### |    | in  #####     |
 *     +---------------------+    +---------------+
 *
 * More groups than CARDS_MOST become tiles that show only a colour.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "draw/draw_svg.h"
#include "base/units.h"
#include "topo/topo_print.h"

enum {
    CARDS_MOST = 64,
    TIPS_MOST = 4096,  /* tiles with tooltips: more slow a viewer down */
    HIGH_MOST = 30000, /* pixels: viewers show no more */
    SQUARES_MOST = 16, /* ranks of a group that are drawn one by one */
    SQUARES_ROW = 8
};

/* Widths of the page; more groups than fit into three rows may make it wider. */
static const double WIDTH = 1000, WIDE = 1460;
enum { WIDE_FROM = 16 };
static const double GAP = 14, PAD = 12, HEAD = 24, STUB = 16;
static const double CARD_W = 180, TILE = 14, TILE_GAP = 3, SQUARE = 18, RAIL = 4, LINE = 15;
static const char *const SLOW = "#d55e00", *const INK = "#444444", *const PALE = "#e4e4e4";
static const struct svg_font BOLD = {.size = 11, .bold = 1},
                             SMALL = {.size = 9.5, .colour = "#444444"};

struct draw {
    struct svg s;
    const struct topo *t;
    int *order; /* [groups], owned: the groups of one block are adjacent */
    int tiles;  /* groups are tiles, not cards */
    double most_Bps, usual_Bps, card_h;
};

struct size {
    double w, h;
};

/* The end of the child that begins at i, of a unit of level l: a group, or a block of
   groups. */
static int child_end(const struct draw *d, int l, int i, int to)
{
    int end = i + 1;

    while (end < to && topo_unit(d->t, l, d->order[end]) == topo_unit(d->t, l, d->order[i]))
        end++;
    return end;
}

static int is_slow(const struct draw *d, int k)
{
    return topo_port_Bps(d->t, k) < topo_slow_Bps(d->t, k, d->usual_Bps);
}

/* Colours of levels from the inside out; the second, orange, marks slow ports. */
static const char *colour_of(int l)
{
    return svg_colour(l ? l + 1 : 0);
}

static void paint_box(struct draw *d, double x, double y, double w, double h, const char *fill)
{
    svg_rect(&d->s, (struct svg_box){x, y, w, h}, &(struct svg_pen){.fill = fill}, NULL);
}

/* Paints a rate: slow ones in orange, others in grey. */
static void paint_rate(struct draw *d, double x, double y, enum svg_anchor anchor, int slow,
                       const char *text)
{
    struct svg_font font = {
        .size = 9.5, .anchor = anchor, .bold = slow, .colour = slow ? "#a04000" : INK};

    svg_text(&d->s, x, y, &font, text);
}

/* ---- a group ---- */

static void paint_ranks(struct draw *d, int k, double x, double y)
{
    const struct groups *g = &d->t->groups;
    struct svg_rgb fill = svg_tint(colour_of(0), 0.16);
    struct svg_pen pen = {.fill = fill.text, .stroke = colour_of(0), .width = 0.75};
    char text[64];

    if (g->members[k] > SQUARES_MOST) {
        char *ranks = topo_ranks_text(d->t, k);
        int cut = strlen(ranks) > 18;
        snprintf(text, sizeof text, "%d ranks: %.*s%s", g->members[k], cut ? 15 : 18, ranks,
                 cut ? "..." : "");
        svg_text(&d->s, x, y + 13, &(struct svg_font){.size = 10.5}, text);
        mem_free(ranks);
        return;
    }
    for (int j = 0; j < g->members[k]; j++) {
        int rank = groups_rank(g, k, j);
        struct svg_box box = {x + j % SQUARES_ROW * (SQUARE + 2),
                              y + j / SQUARES_ROW * (SQUARE + 2), SQUARE, SQUARE};
        svg_rect(&d->s, box, &pen, NULL);
        snprintf(text, sizeof text, "%d", rank);
        svg_text(&d->s, box.x + SQUARE / 2, box.y + 12.5,
                 &(struct svg_font){.size = rank < 1000 ? 9 : 6.5, .anchor = SVG_MIDDLE}, text);
    }
}

/* A bar as long as the rate relative to the fastest port's, and the rate. */
static void paint_port(struct draw *d, int k, double x, double y, const char *way, double Bps)
{
    int slow = Bps < topo_slow_Bps(d->t, k, d->usual_Bps);
    double space = 76, long_ = space * Bps / d->most_Bps;
    struct units u;

    svg_text(&d->s, x, y + 8, &SMALL, way);
    paint_box(d, x + 22, y, space, 9, PALE);
    paint_box(d, x + 22, y, long_, 9, slow ? SLOW : colour_of(1));
    paint_rate(d, x + CARD_W - 2 * 8, y + 8, SVG_END, slow, units_rate(&u, Bps));
}

static void svg_tip_of(const struct topo *t, int k, char *text, size_t space)
{
    struct units a, b;

    snprintf(text, space, "group %d%s%.80s, %d ranks, %s out, %s in", k,
             t->host[k][0] ? " on " : "", t->host[k], t->groups.members[k],
             units_rate(&a, t->port[k].out_Bps), units_rate(&b, t->port[k].in_Bps));
}

static void paint_card(struct draw *d, int k, double x, double y)
{
    const struct topo *t = d->t;
    int slow = is_slow(d, k);
    const char *host = t->host[k];
    char text[200];

    svg_tip_of(t, k, text, sizeof text);
    svg_group_open(&d->s, "group", text);
    svg_rect(&d->s, (struct svg_box){x, y, CARD_W, d->card_h},
             &(struct svg_pen){
                 .fill = "#ffffff", .stroke = slow ? SLOW : "#9a9a9a", .width = slow ? 2 : 1},
             NULL);
    snprintf(text, sizeof text, "group %d", k);
    svg_text(&d->s, x + 8, y + 15, &BOLD, text);
    snprintf(text, sizeof text, "%.*s%s", strlen(host) > 18 ? 15 : 18, host,
             strlen(host) > 18 ? "..." : "");
    svg_text(&d->s, x + CARD_W - 8, y + 15,
             &(struct svg_font){.size = 10, .anchor = SVG_END, .colour = INK}, text);
    paint_ranks(d, k, x + 8, y + 22);
    paint_port(d, k, x + 8, y + d->card_h - 31, "out", t->port[k].out_Bps);
    paint_port(d, k, x + 8, y + d->card_h - 16, "in", t->port[k].in_Bps);
    svg_group_close(&d->s);
}

static void paint_tile(struct draw *d, int k, double x, double y)
{
    struct svg_rgb pale = svg_tint(colour_of(1), 0.45);
    char tip[200];

    svg_tip_of(d->t, k, tip, sizeof tip);
    svg_rect(&d->s, (struct svg_box){x, y, TILE, TILE},
             &(struct svg_pen){.fill = is_slow(d, k) ? SLOW : pale.text},
             d->t->groups.count <= TIPS_MOST ? tip : NULL);
}

/* ---- nested boxes ---- */

/* The port of a child: a stub from the rail, as wide as its rate. */
static void paint_stub(struct draw *d, int l, int i, double x, double y)
{
    int k = d->order[i], slow = l == 1 && is_slow(d, k);
    double Bps = l == 1 ? topo_port_Bps(d->t, k) : d->t->level[l].port_Bps;
    double w = l == 1 ? fmax(2, 10 * Bps / d->most_Bps) : 8;
    struct units u;

    paint_box(d, x - w / 2, y, w, STUB, slow ? SLOW : colour_of(l));
    if (l > 1 || slow)
        paint_rate(d, x + 9, y + STUB - 4, SVG_START, slow,
                   slow ? "slow" : units_rate(&u, Bps));
}

static void paint_frame(struct draw *d, int l, int from, double x, double y, struct size all)
{
    const struct topo *t = d->t;
    struct svg_rgb fill = svg_tint(colour_of(l), 0.07);
    char head[64];

    snprintf(head, sizeof head, l + 1 < t->levels ? "%s in block %d" : "%s", t->level[l].name,
             topo_unit(t, l + 1, d->order[from]));
    svg_rect(&d->s, (struct svg_box){x, y, all.w, all.h},
             &(struct svg_pen){.fill = fill.text, .stroke = colour_of(l)}, NULL);
    svg_text(&d->s, x + PAD, y + 16,
             &(struct svg_font){.size = 11, .bold = 1, .colour = colour_of(l)}, head);
}

/*
 * Lays out the unit of level l with groups from .. to - 1 at x, y: children in rows at most
 * most_w wide; level 0 is a group.  Returns its size; paint 0: only measures.
 */
static struct size lay_unit(struct draw *d, int l, int from, int to, double x, double y,
                            double most_w, int paint)
{
    int is_grid = l == 1 && d->tiles;
    double gap = is_grid ? TILE_GAP : GAP, row_gap = is_grid ? TILE_GAP : GAP + 4;
    double lead = is_grid ? 0 : RAIL + STUB, space = most_w - 2 * PAD, before = 0;
    struct size all = {0, HEAD}, c;

    if (l == 0 && paint)
        (d->tiles ? paint_tile : paint_card)(d, d->order[from], x, y);
    if (l == 0)
        return d->tiles ? (struct size){TILE, TILE} : (struct size){CARD_W, d->card_h};
    if (paint) {
        svg_group_open(&d->s, "unit", NULL);
        paint_frame(d, l, from, x, y, lay_unit(d, l, from, to, x, y, most_w, 0));
    }
    for (int i = from, end; i < to; i = end) {
        double w = 0, h = 0, top = y + all.h, at = x + PAD;
        for (end = i; end < to; end = child_end(d, l, end, to)) {
            c = lay_unit(d, l - 1, end, child_end(d, l, end, to), 0, 0, space, 0);
            if (end > i && w + gap + c.w > space)
                break;
            w += (end > i ? gap : 0) + c.w;
            h = fmax(h, c.h);
        }
        all.w = fmax(all.w, w);
        all.h += h + lead + (end < to ? row_gap : 0);
        if (!paint)
            continue;
        if (lead > 0 && before > 0) /* the rail continues in the next row */
            paint_box(d, x + PAD / 2 - 2, before, RAIL, top - before + RAIL, colour_of(l));
        if (lead > 0 && (before > 0 || end < to))
            paint_box(d, x + PAD / 2 - 2, top, PAD / 2 + 2, RAIL, colour_of(l));
        if (lead > 0)
            paint_box(d, x + PAD, top, w, RAIL, colour_of(l));
        for (int k = i; k < end; k = child_end(d, l, k, to)) {
            if (lead > 0)
                paint_stub(d, l, k, at + 20, top + RAIL);
            c = lay_unit(d, l - 1, k, child_end(d, l, k, to), at, top + lead, space, 1);
            at += c.w + gap;
        }
        before = top;
    }
    if (paint)
        svg_group_close(&d->s);
    return (struct size){fmax(all.w, 150) + 2 * PAD, all.h + PAD};
}

/* ---- the figures ---- */

/*
 * A heading, one row for each level, and below it the sources of its rates.  Returns the last
 * base line; paint 0: only measures.
 */
static double lay_levels(struct draw *d, double y, int paint)
{
    static const double column[] = {18, 130, 376, 496, 616, 736};
    static const char *const names[] = {"level", "joins",    "latency",
                                        "port",  "one flow", "member, all send"};
    char text[TOPO_SOURCE_BYTES + 40];

    for (int l = -1; l < d->t->levels; l++) {
        const struct topo_level *v = &d->t->level[l < 0 ? 0 : l];
        const char *joined = l == 0 ? "the ranks of a group" : "blocks of groups";
        struct units u[4];
        const char *const row[] = {v->name,
                                   l == 1 ? "groups" : joined,
                                   units_time(&u[0], v->latency_s),
                                   units_rate(&u[1], v->port_Bps),
                                   units_rate(&u[2], v->flow_Bps),
                                   units_rate(&u[3], v->member_Bps)};
        y += 1.3 * LINE;
        for (int i = 0; i < 6 && paint; i++) {
            struct svg_font font = l < 0 ? SMALL : BOLD;
            font.bold = l >= 0 && i == 0;
            font.anchor = i < 2 ? SVG_START : SVG_END;
            svg_text(&d->s, SVG_MARGIN + column[i], y, &font, (l < 0 ? names : row)[i]);
        }
        if (paint && l >= 0)
            paint_box(d, SVG_MARGIN, y - 9, 11, 11, colour_of(l));
        for (int i = 0; i < 2 && l >= 0; i++) {
            const char *source = i ? v->latency_source : v->rate_source;
            y += source[0] ? LINE : 0;
            snprintf(text, sizeof text, "%s: %s", i ? "latency" : "rates", source);
            if (paint && source[0])
                svg_text(&d->s, SVG_MARGIN + 18, y, &SMALL, text);
        }
    }
    return y;
}

/* ---- all ---- */

/* Sorts groups by block, the outermost blocks first. */
static int svg_by_block(const void *a, const void *b, void *topo)
{
    int x = *(const int *)a, y = *(const int *)b, differ = 0;

    for (int l = ((struct topo *)topo)->levels - 1; !differ && l >= 2; l--)
        differ = topo_unit(topo, l, x) - topo_unit(topo, l, y);
    return differ ? differ : x - y;
}

void topo_print_svg(const struct topo *t, FILE *out)
{
    struct draw d = {.t = t, .usual_Bps = topo_usual_port_Bps(t)};
    int count = t->groups.count, top = t->levels - 1, slow = 0;
    char *shape = topo_shape_text(t), note[96], foot[160], ports[40];
    struct units a, b;

    d.tiles = count > CARDS_MOST;
    int most = groups_largest(&t->groups);
    int rows = most > SQUARES_MOST ? 1 : (most + SQUARES_ROW - 1) / SQUARES_ROW;
    d.card_h = 22 + rows * (SQUARE + 2) + 38;
    d.order = mem_new((size_t)count, sizeof *d.order);
    for (int k = 0; k < count; k++) {
        d.most_Bps = fmax(d.most_Bps, fmax(t->port[k].out_Bps, t->port[k].in_Bps));
        d.order[k] = k;
        slow += is_slow(&d, k);
    }
    qsort_r(d.order, (size_t)count, sizeof *d.order, svg_by_block, (void *)t);
    snprintf(note, sizeof note, "each rank: memory %s, compute %s%s",
             t->memory_bytes ? units_bytes(&a, (double)t->memory_bytes) : "unknown",
             t->flops > 0 ? units_count(&b, t->flops) : "unknown",
             t->flops > 0 ? "FLOP/s" : "");
    snprintf(ports, sizeof ports, "%d slow port%s:", slow, slow == 1 ? "" : "s");
    snprintf(foot, sizeof foot, "%s 5 %% and more below the median of all ports, %s%s",
             slow ? ports : "no port is", units_rate(&a, d.usual_Bps),
             slow ? ", out or in" : "");
    const struct svg_look look[] = {
        {.name = foot, .fill = svg_tint(SLOW, 1)},
        {.name = "rates are payload, each way; 1 GB/s is 1e9 bytes per second"}};
    double space = (count < WIDE_FROM ? WIDTH : WIDE) - 2 * SVG_MARGIN;
    double head = svg_head(NULL, shape, note), y = lay_levels(&d, head, 0) + LINE;
    struct size all = lay_unit(&d, top, 0, count, 0, 0, space, 0);
    int drawn = all.h < HIGH_MOST;
    if (!drawn)
        all = (struct size){0, LINE};
    double width = fmax(WIDTH, all.w + 2 * SVG_MARGIN), end = y + all.h + 2 * LINE;
    svg_open(&d.s, out, width, end + SVG_MARGIN, shape);
    svg_head(&d.s, shape, note);
    lay_levels(&d, head, 1);
    if (drawn)
        lay_unit(&d, top, 0, count, SVG_MARGIN, y, space, 1);
    else
        svg_text(&d.s, SVG_MARGIN, y, &(struct svg_font){.size = 11},
                 "the groups are too many to be drawn");
    svg_key(&d.s, end, width, look, 2);
    svg_close(&d.s);
    mem_free(d.order);
    mem_free(shape);
}
