/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes SVG 1.1 in the grammar of XML 1.0.  Leaves the drawing to its callers. */
#include "draw/draw_svg.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* XML 1.0, Char: code points of utf8_next without controls and two non-characters. */
static int is_xml(uint32_t code)
{
    return code >= 0x20 ? code != 0xfffe && code != 0xffff
                        : code == '\t' || code == '\n' || code == '\r';
}

static void put_escaped(FILE *f, const char *text)
{
    for (const char *p = text; *p;) {
        uint32_t code = 0;
        int n = utf8_next(p, &code);
        if (n == 0 || !is_xml(code))
            fputs("\xef\xbf\xbd", f);
        else if (code == '<')
            fputs("&lt;", f);
        else if (code == '>')
            fputs("&gt;", f);
        else if (code == '&')
            fputs("&amp;", f);
        else if (code == '"')
            fputs("&quot;", f);
        else if (code < 0x20)
            fprintf(f, "&#%d;", (int)code); /* in an attribute it would be read as a blank */
        else
            fwrite(p, 1, (size_t)n, f);
        p += n ? n : 1;
    }
}

static int is_near(double v)
{
    return fabs(v) <= SVG_FAR; /* false for NAN */
}

/* At most two decimals, without trailing zeros; printed as integers, since printf depends on
   the locale. */
static void svg_put_number(FILE *f, double v)
{
    long hundredths = lround(v * 100);
    long whole = labs(hundredths) / 100, rest = labs(hundredths) % 100;

    if (hundredths < 0)
        putc('-', f);
    fprintf(f, "%ld", whole);
    if (rest)
        fprintf(f, rest % 10 ? ".%02ld" : ".%ld", rest % 10 ? rest : rest / 10);
}

static void put_attribute(struct svg *s, const char *name, double v)
{
    fprintf(s->file, " %s=\"", name);
    svg_put_number(s->file, v);
    putc('"', s->file);
}

static void svg_put_word(struct svg *s, const char *name, const char *text)
{
    fprintf(s->file, " %s=\"", name);
    put_escaped(s->file, text);
    putc('"', s->file);
}

static void pen_words(struct svg *s, const struct svg_pen *pen)
{
    svg_put_word(s, "fill", pen->fill ? pen->fill : "none");
    if (!pen->stroke)
        return;
    svg_put_word(s, "stroke", pen->stroke);
    if (pen->width > 0 && pen->width != 1)
        put_attribute(s, "stroke-width", pen->width);
    if (pen->dashed)
        svg_put_word(s, "stroke-dasharray", "6 4");
}

static void put_title(struct svg *s, const char *text)
{
    fputs("<title>", s->file);
    put_escaped(s->file, text);
    fputs("</title>", s->file);
}

static void end_element(struct svg *s, const char *name, const char *tip)
{
    if (!tip) {
        fputs("/>\n", s->file);
        return;
    }
    putc('>', s->file);
    put_title(s, tip);
    fprintf(s->file, "</%s>\n", name);
}

void svg_open(struct svg *s, FILE *file, double width, double height, const char *text)
{
    assert(is_near(width) && is_near(height));
    *s = (struct svg){.file = file, .depth = 1};
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\"",
          file);
    put_attribute(s, "width", width);
    put_attribute(s, "height", height);
    fputs(" viewBox=\"0 0 ", file);
    svg_put_number(file, width);
    putc(' ', file);
    svg_put_number(file, height);
    fputs("\" font-family=\"sans-serif\">\n", file);
    put_title(s, text);
    putc('\n', file);
    svg_rect(s, (struct svg_box){0, 0, width, height}, &(struct svg_pen){.fill = "#ffffff"},
             NULL);
}

void svg_close(struct svg *s)
{
    while (s->depth > 1)
        svg_group_close(s);
    fputs("</svg>\n", s->file);
    s->depth = 0;
}

void svg_group_open(struct svg *s, const char *name, const char *tip)
{
    fputs("<g", s->file);
    if (name)
        svg_put_word(s, "class", name);
    putc('>', s->file);
    if (tip)
        put_title(s, tip);
    putc('\n', s->file);
    s->depth++;
}

void svg_group_close(struct svg *s)
{
    assert(s->depth > 1);
    fputs("</g>\n", s->file);
    s->depth--;
}

/* An element with n lengths; skipped if one of them is out of range. */
static void put_element(struct svg *s, const char *name, int n, const char *const *key,
                        const double *v, const struct svg_pen *pen, const char *tip)
{
    for (int i = 0; i < n; i++)
        if (!is_near(v[i]))
            return;
    fprintf(s->file, "<%s", name);
    for (int i = 0; i < n; i++)
        put_attribute(s, key[i], v[i]);
    pen_words(s, pen);
    end_element(s, name, tip);
}

void svg_rect(struct svg *s, struct svg_box box, const struct svg_pen *pen, const char *tip)
{
    static const char *const key[] = {"x", "y", "width", "height"};
    const double v[] = {box.x, box.y, box.w, box.h};

    if (box.w >= 0 && box.h >= 0)
        put_element(s, "rect", 4, key, v, pen, tip);
}

void svg_line(struct svg *s, double x1, double y1, double x2, double y2,
              const struct svg_pen *pen)
{
    static const char *const key[] = {"x1", "y1", "x2", "y2"};
    const double v[] = {x1, y1, x2, y2};

    put_element(s, "line", 4, key, v, pen, NULL);
}

void svg_circle(struct svg *s, double x, double y, double r, const struct svg_pen *pen,
                const char *tip)
{
    static const char *const key[] = {"cx", "cy", "r"};
    const double v[] = {x, y, r};

    if (r >= 0)
        put_element(s, "circle", 3, key, v, pen, tip);
}

static void points_of(struct svg *s, const char *name, const double *xy, int points)
{
    fprintf(s->file, "<%s points=\"", name);
    for (int i = 0; i < points; i++) {
        if (i)
            putc(' ', s->file);
        svg_put_number(s->file, xy[2 * i]);
        putc(',', s->file);
        svg_put_number(s->file, xy[2 * i + 1]);
    }
    putc('"', s->file);
}

static int run_of(const double *xy, int points)
{
    int n = 0;

    while (n < points && is_near(xy[2 * n]) && is_near(xy[2 * n + 1]))
        n++;
    return n;
}

void svg_polyline(struct svg *s, const double *xy, int points, const struct svg_pen *pen)
{
    for (int at = 0; at < points; at++) {
        int n = run_of(xy + 2 * at, points - at);
        if (n > 1) {
            points_of(s, "polyline", xy + 2 * at, n);
            pen_words(s, pen);
            end_element(s, "polyline", NULL);
        }
        at += n;
    }
}

void svg_polygon(struct svg *s, const double *xy, int points, const struct svg_pen *pen,
                 const char *tip)
{
    if (points < 3 || run_of(xy, points) < points)
        return;
    points_of(s, "polygon", xy, points);
    pen_words(s, pen);
    end_element(s, "polygon", tip);
}

static double svg_size_of(double size)
{
    return size > 0 ? size : 11;
}

void svg_text(struct svg *s, double x, double y, const struct svg_font *font, const char *text)
{
    if (!is_near(x) || !is_near(y))
        return;
    fputs("<text", s->file);
    put_attribute(s, "x", x);
    put_attribute(s, "y", y);
    put_attribute(s, "font-size", svg_size_of(font->size));
    if (font->anchor != SVG_START)
        svg_put_word(s, "text-anchor", font->anchor == SVG_END ? "end" : "middle");
    if (font->bold)
        svg_put_word(s, "font-weight", "bold");
    svg_put_word(s, "fill", font->colour ? font->colour : "#222222");
    if (font->turned) {
        fputs(" transform=\"rotate(-90 ", s->file);
        svg_put_number(s->file, x);
        putc(' ', s->file);
        svg_put_number(s->file, y);
        fputs(")\"", s->file);
    }
    putc('>', s->file);
    put_escaped(s->file, text);
    fputs("</text>\n", s->file);
}

/*
 * The average advance of a letter in Arial, Helvetica and Liberation Sans is 0.56 of the size
 * for digits and most lower-case letters, in DejaVu Sans and Verdana 0.64: uses a value between
 * them.
 */
double svg_text_width(const char *text, double size)
{
    int letters = 0;

    for (const char *p = text; *p; letters++) {
        int n = utf8_next(p, NULL);
        p += n ? n : 1;
    }
    return 0.6 * letters * svg_size_of(size);
}

void svg_boxes_open(struct svg *s, const struct svg_pen *pen)
{
    fputs("<path", s->file);
    pen_words(s, pen);
    fputs(" d=\"", s->file);
}

void svg_boxes_add(struct svg *s, struct svg_box box)
{
    static const char *const command[] = {"M", " ", "h", "v", "h"};
    const double v[] = {box.x, box.y, box.w, box.h, -box.w};

    if (!is_near(box.x) || !is_near(box.y) || !is_near(box.w) || !is_near(box.h) || box.w < 0 ||
        box.h < 0)
        return;
    for (int i = 0; i < 5; i++) {
        fputs(command[i], s->file);
        svg_put_number(s->file, v[i]);
    }
    fputs("z\n", s->file);
}

void svg_boxes_close(struct svg *s)
{
    fputs("\"/>\n", s->file);
}

const char *svg_colour(int i)
{
    static const char *const colours[SVG_COLOURS] = {
        "#0072b2", "#d55e00", "#009e73", "#332288", "#cc79a7", "#8b1a1a", "#14505c", "#b15928"};

    assert(i >= 0);
    return colours[i % SVG_COLOURS];
}

static int hex(char c)
{
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

static int svg_part_of(const char *colour, int i)
{
    return 16 * hex(colour[1 + 2 * i]) + hex(colour[2 + 2 * i]);
}

static struct svg_rgb mix_colours(const char *a, const char *b, double share)
{
    struct svg_rgb c;
    int v[3];

    for (int i = 0; i < 3; i++)
        v[i] = (int)lround(svg_part_of(a, i) + share * (svg_part_of(b, i) - svg_part_of(a, i)));
    snprintf(c.text, sizeof c.text, "#%02x%02x%02x", v[0] & 255, v[1] & 255, v[2] & 255);
    return c;
}

struct svg_rgb svg_ramp(double t)
{
    static const char *const stops[] = {"#2d1160", "#31688e", "#008a8a", "#4f8f2f", "#b07a00"};
    double at = t <= 0 ? 0 : t >= 1 ? 4 : 4 * t;
    int i = at < 4 ? (int)at : 3;

    return mix_colours(stops[i], stops[i + 1], at - i);
}

struct svg_rgb svg_tint(const char *colour, double share)
{
    return mix_colours("#ffffff", colour, share);
}

double svg_head(struct svg *s, const char *title, const char *note)
{
    double y = 28;

    if (s)
        svg_text(s, SVG_MARGIN, y, &(struct svg_font){.size = 17, .bold = 1}, title);
    for (size_t n; *note; note += n + (note[n] != 0)) {
        char line[512];
        n = strcspn(note, "\n");
        y += SVG_LINE;
        snprintf(line, sizeof line, "%.*s", (int)n, note);
        if (s)
            svg_text(s, SVG_MARGIN, y, &(struct svg_font){.size = 12, .colour = "#444444"},
                     line);
    }
    return y;
}

double svg_key(struct svg *s, double y, double width, const struct svg_look *look, int looks)
{
    double x = SVG_MARGIN;

    for (int i = 0; i < looks; i++) {
        const char *fill = look[i].fill.text[0] ? look[i].fill.text : NULL;
        double box = fill || look[i].outlined ? 20 : 0;
        double wide = look[i].name ? box + svg_text_width(look[i].name, 0) + 12 : 0;
        if (x > SVG_MARGIN && x + wide > width) {
            x = SVG_MARGIN;
            y += SVG_LINE;
        }
        if (s && wide > 0) {
            struct svg_pen pen = {.fill = fill, .stroke = "#000000", .width = 0.5};
            pen.width = look[i].outlined ? 1.8 : pen.width;
            if (box > 0)
                svg_rect(s, (struct svg_box){x, y - 9, 16, 11}, &pen, NULL);
            svg_text(s, x + box, y, &(struct svg_font){0}, look[i].name);
        }
        x += wide;
    }
    return y;
}

void svg_marker(struct svg *s, double x, double y, int i, const char *colour, const char *tip)
{
    /* Corners of a square, a triangle, a diamond, an inverted triangle, of equal areas. */
    static const int corners[] = {4, 3, 4, 3};
    static const double at[][8] = {{-3, -3, 3, -3, 3, 3, -3, 3},
                                   {0, -4.5, 4, 3, -4, 3},
                                   {0, -4.3, 4.3, 0, 0, 4.3, -4.3, 0},
                                   {0, 4.5, 4, -3, -4, -3}};
    struct svg_pen pen = {.fill = colour, .stroke = "#ffffff", .width = 0.75};
    double xy[8];

    if (i % 5 == 0) {
        svg_circle(s, x, y, 3.4, &pen, tip);
        return;
    }
    int shape = i % 5 - 1;
    for (int c = 0; c < 2 * corners[shape]; c++)
        xy[c] = (c % 2 ? y : x) + at[shape][c];
    svg_polygon(s, xy, corners[shape], &pen, tip);
}
