/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests pictures: byte for byte, well-formed whatever the text and the numbers, colours as
 * promised.
 */
#include "unit.h"

#include <float.h>

#include "draw/draw_figure.h"
#include "draw/draw_matrix.h"
#include "xml_fixture.h"

struct page {
    struct svg svg;
    FILE *file;
    char *text;
    size_t bytes;
};

static void begin(struct page *p)
{
    *p = (struct page){0};
    p->file = open_memstream(&p->text, &p->bytes);
    svg_open(&p->svg, p->file, 200, 100, "t");
}

/* The number of elements; p->text stays. */
static int end(struct page *p)
{
    svg_close(&p->svg);
    fclose(p->file);
    return xml_elements(p->text);
}

static const char head[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                           "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\""
                           " width=\"200\" height=\"100\" viewBox=\"0 0 200 100\""
                           " font-family=\"sans-serif\">\n<title>t</title>\n"
                           "<rect x=\"0\" y=\"0\" width=\"200\" height=\"100\""
                           " fill=\"#ffffff\"/>\n";

/* Expects `body` between the head and the end. */
static void expect(struct page *p, const char *body)
{
    char want[2048];

    end(p);
    snprintf(want, sizeof want, "%s%s</svg>\n", head, body);
    assert_string_equal(p->text, want);
    free(p->text);
}

TEST(elements)
{
    struct page p;

    begin(&p);
    svg_group_open(&p.svg, "a", "tip");
    svg_rect(&p.svg, (struct svg_box){1, 2, 3.5, 4.25}, &(struct svg_pen){.fill = "#010203"},
             "b");
    svg_line(&p.svg, 0, 1, 2, 3, &(struct svg_pen){.stroke = "#000000", .dashed = 1});
    svg_circle(&p.svg, 1, 2, 3, &(struct svg_pen){.stroke = "#000000", .width = 2}, NULL);
    svg_group_close(&p.svg);
    svg_polygon(&p.svg, (double[]){0, 0, 1, 0, 0, 1}, 3, &(struct svg_pen){.fill = "#010203"},
                NULL);
    svg_text(&p.svg, 5, 6, &(struct svg_font){.size = 12, .anchor = SVG_END, .turned = 1}, "x");
    svg_boxes_open(&p.svg, &(struct svg_pen){.fill = "#010203"});
    svg_boxes_add(&p.svg, (struct svg_box){1, 2, 3, 4});
    svg_boxes_close(&p.svg);
    expect(&p, "<g class=\"a\"><title>tip</title>\n"
               "<rect x=\"1\" y=\"2\" width=\"3.5\" height=\"4.25\" fill=\"#010203\">"
               "<title>b</title></rect>\n"
               "<line x1=\"0\" y1=\"1\" x2=\"2\" y2=\"3\" fill=\"none\" stroke=\"#000000\""
               " stroke-dasharray=\"6 4\"/>\n"
               "<circle cx=\"1\" cy=\"2\" r=\"3\" fill=\"none\" stroke=\"#000000\""
               " stroke-width=\"2\"/>\n</g>\n"
               "<polygon points=\"0,0 1,0 0,1\" fill=\"#010203\"/>\n"
               "<text x=\"5\" y=\"6\" font-size=\"12\" text-anchor=\"end\" fill=\"#222222\""
               " transform=\"rotate(-90 5 6)\">x</text>\n"
               "<path fill=\"#010203\" d=\"M1 2h3v4h-3z\n\"/>\n");
}

TEST(open_groups_are_closed)
{
    struct page p;

    begin(&p);
    svg_group_open(&p.svg, NULL, NULL);
    svg_group_open(&p.svg, NULL, NULL);
    expect(&p, "<g>\n<g>\n</g>\n</g>\n");
}

TEST(numbers)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {{0, "0"},        {-0.0, "0"},        {-0.004, "0"},   {0.005, "0.01"},
                 {1.5, "1.5"},    {-12.25, "-12.25"}, {10.1, "10.1"},  {10.01, "10.01"},
                 {99.999, "100"}, {-0.5, "-0.5"},     {1e6, "1000000"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct page p;
        char want[128];
        begin(&p);
        svg_circle(&p.svg, cases[i].v, 0, 1, &(struct svg_pen){0}, NULL);
        snprintf(want, sizeof want, "<circle cx=\"%s\" cy=\"0\" r=\"1\" fill=\"none\"/>\n",
                 cases[i].text);
        expect(&p, want);
    }
}

TEST(text_is_escaped)
{
    static const char *const cases[][2] = {
        {"a<b>&\"c'", "a&lt;b&gt;&amp;&quot;c'"},
        {"]]>", "]]&gt;"},
        {"\n\t\r", "&#10;&#9;&#13;"},
        {"\x01\x1f", "\xef\xbf\xbd\xef\xbf\xbd"}, /* no characters of XML 1.0 */
        {"\xc3\xa9 \xf0\x9f\x98\x80", "\xc3\xa9 \xf0\x9f\x98\x80"},
        {"\xff", "\xef\xbf\xbd"},
        {"\xc3(", "\xef\xbf\xbd("},
        {"\xef\xbf\xbf", "\xef\xbf\xbd"}, /* U+FFFF */
        {"", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct page p;
        char want[256];
        begin(&p);
        svg_group_open(&p.svg, cases[i][0], cases[i][0]);
        svg_text(&p.svg, 0, 0, &(struct svg_font){0}, cases[i][0]);
        snprintf(want, sizeof want,
                 "<g class=\"%s\"><title>%s</title>\n"
                 "<text x=\"0\" y=\"0\" font-size=\"11\" fill=\"#222222\">%s</text>\n</g>\n",
                 cases[i][1], cases[i][1], cases[i][1]);
        expect(&p, want);
    }
}

/* Any two bytes between two letters, as text, as attribute and as title of the document. */
TEST(no_bytes_break_it)
{
    for (int a = 1; a < 256; a++) {
        struct page p = {0};
        p.file = open_memstream(&p.text, &p.bytes);
        svg_open(&p.svg, p.file, 9, 9, (char[]){'x', (char)a, 0});
        for (int b = 1; b < 256; b++) {
            char text[] = {'x', (char)a, (char)b, 'y', 0};
            svg_text(&p.svg, 0, 0, &(struct svg_font){0}, text);
            svg_rect(&p.svg, (struct svg_box){0}, &(struct svg_pen){.fill = text}, text);
        }
        assert_int_equal(end(&p), 3 + 3 * 255);
        free(p.text);
    }
}

TEST(what_is_no_number_is_left_out)
{
    static const double bad[] = {NAN, -NAN, INFINITY, -INFINITY, 1.1e6, -1.1e6, DBL_MAX};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int at = 0; at < 4; at++) {
            struct page p;
            double v[6] = {1, 2, 3, 4, 5, 6};
            v[at] = bad[i];
            begin(&p);
            struct svg_pen pen = {.fill = "#000000"};
            svg_rect(&p.svg, (struct svg_box){v[0], v[1], v[2], v[3]}, &pen, "tip");
            svg_line(&p.svg, v[0], v[1], v[2], v[3], &pen);
            svg_polygon(&p.svg, v, 3, &pen, NULL);
            if (at < 3)
                svg_circle(&p.svg, v[0], v[1], v[2], &pen, NULL);
            if (at < 2) {
                svg_text(&p.svg, v[0], v[1], &(struct svg_font){0}, "x");
                svg_marker(&p.svg, v[0], v[1], (int)i, "#000000", "tip");
            }
            expect(&p, "");
        }
}

TEST(a_line_is_broken_where_there_is_no_number)
{
    struct page p;

    begin(&p);
    svg_polyline(&p.svg, (double[]){0, 0, 1, 1, 2, NAN, 3, 3, INFINITY, 4, 5, 5, 6, 6}, 7,
                 &(struct svg_pen){.stroke = "#000000"});
    expect(&p, "<polyline points=\"0,0 1,1\" fill=\"none\" stroke=\"#000000\"/>\n"
               "<polyline points=\"5,5 6,6\" fill=\"none\" stroke=\"#000000\"/>\n");
}

/* Linear light of the three parts of "#rrggbb" (IEC 61966-2-1). */
static void linear_light(const char *colour, double light[3])
{
    for (int i = 0; i < 3; i++) {
        char part[3] = {colour[1 + 2 * i], colour[2 + 2 * i], 0};
        double v = (double)strtol(part, NULL, 16) / 255;
        light[i] = v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
    }
}

/* WCAG 2.1: (L1 + 0.05) / (L2 + 0.05), here of white. */
static double contrast(const char *colour)
{
    double c[3];

    linear_light(colour, c);
    return 1.05 / (0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2] + 0.05);
}

TEST(colours_are_seen_on_white)
{
    for (int i = 0; i < SVG_COLOURS; i++)
        assert_true(contrast(svg_colour(i)) >= 3);
    for (int i = 0; i <= 1000; i++)
        assert_true(contrast(svg_ramp(i / 1000.0).text) >= 3);
    assert_string_equal(svg_colour(SVG_COLOURS), svg_colour(0));
    assert_string_equal(svg_ramp(-1).text, svg_ramp(0).text);
    assert_string_equal(svg_ramp(2).text, svg_ramp(1).text);
    assert_string_equal(svg_tint("#102030", 1).text, "#102030");
    assert_string_equal(svg_tint("#102030", 0).text, "#ffffff");
    assert_string_equal(svg_tint("#00ff00", 0.5).text, "#80ff80");
}

/* CIE L*a*b* of a colour as an eye of that kind has it: Machado et al. 2009, severity 1. */
static void seen_by(int eye, const char *colour, double lab[3])
{
    static const double eyes[4][3][3] = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
                                         {{0.152286, 1.052583, -0.204868},
                                          {0.114503, 0.786281, 0.099216},
                                          {-0.003882, -0.048116, 1.051998}},
                                         {{0.367322, 0.860646, -0.227968},
                                          {0.280085, 0.672501, 0.047413},
                                          {-0.011820, 0.042940, 0.968881}},
                                         {{1.255528, -0.076749, -0.178779},
                                          {-0.078411, 0.930809, 0.147602},
                                          {0.004733, 0.691367, 0.303900}}};
    static const double xyz[3][3] = {{0.4124 / 0.9505, 0.3576 / 0.9505, 0.1805 / 0.9505},
                                     {0.2126, 0.7152, 0.0722},
                                     {0.0193 / 1.089, 0.1192 / 1.089, 0.9505 / 1.089}};
    double light[3], seen[3], f[3];

    linear_light(colour, light);
    for (int i = 0; i < 3; i++) {
        const double *m = eyes[eye][i];
        seen[i] = fmin(fmax(m[0] * light[0] + m[1] * light[1] + m[2] * light[2], 0), 1);
    }
    for (int i = 0; i < 3; i++) {
        double v = xyz[i][0] * seen[0] + xyz[i][1] * seen[1] + xyz[i][2] * seen[2];
        f[i] = v > 0.008856 ? cbrt(v) : 7.787 * v + 16.0 / 116;
    }
    lab[0] = 116 * f[1] - 16;
    lab[1] = 500 * (f[0] - f[1]);
    lab[2] = 200 * (f[1] - f[2]);
}

TEST(colours_are_told_apart_by_every_eye)
{
    for (int eye = 0; eye < 4; eye++)
        for (int i = 0; i < SVG_COLOURS; i++)
            for (int k = 0; k < i; k++) {
                double a[3], b[3];
                seen_by(eye, svg_colour(i), a);
                seen_by(eye, svg_colour(k), b);
                double far =
                    sqrt(pow(a[0] - b[0], 2) + pow(a[1] - b[1], 2) + pow(a[2] - b[2], 2));
                if (far < 15)
                    fail_msg("%s and %s: %.1f to eye %d", svg_colour(i), svg_colour(k), far,
                             eye);
            }
}

static void ticks(enum svg_scale scale, double lo, double hi, int most, const char *want)
{
    double tick[SVG_TICKS];
    char have[512] = "";
    int n = svg_ticks(scale, lo, hi, most, tick);

    for (int i = 0; i < n; i++)
        sprintf(have + strlen(have), "%s%g", i ? " " : "", tick[i]);
    assert_string_equal(have, want);
}

TEST(ticks_are_round)
{
    ticks(SVG_LINEAR, 0, 1, 6, "0 0.2 0.4 0.6 0.8 1");
    ticks(SVG_LINEAR, 0, 0.3, 4, "0 0.1 0.2 0.3");
    ticks(SVG_LINEAR, -7, 11, 6, "-5 0 5 10");
    ticks(SVG_LINEAR, 0, 1234, 8, "0 200 400 600 800 1000 1200");
    ticks(SVG_LOG2, 4096, 65536, 9, "4096 8192 16384 32768 65536");
    ticks(SVG_LOG2, 4096, 65536, 3, "4096 16384 65536");
    ticks(SVG_LOG10, 1, 1000, 12, "1 2 5 10 20 50 100 200 500 1000");
    ticks(SVG_LOG10, 1e-6, 1e3, 10, "1e-06 1e-05 0.0001 0.001 0.01 0.1 1 10 100 1000");
    ticks(SVG_LOG10, 1e-6, 1e3, 5, "1e-06 0.0001 0.01 1 100");
    ticks(SVG_LOG10, 1.1, 1.9, 6, "1.2 1.4 1.6 1.8");
}

TEST(ticks_of_any_range)
{
    for (int scale = SVG_LINEAR; scale <= SVG_LOG10; scale++)
        for (int from = -60; from < 60; from++)
            for (double times = 2; times < 1e40; times *= 3.7)
                for (int most = 3; most <= SVG_TICKS; most += 3) {
                    double tick[SVG_TICKS], lo = 0.37 * pow(2, from), hi = lo * times;
                    int n = svg_ticks((enum svg_scale)scale, lo, hi, most, tick);
                    assert_in_range(n, 2, most);
                    for (int i = 0; i < n; i++) {
                        assert_true(tick[i] >= lo * (1 - 1e-8) - hi * 1e-9);
                        assert_true(tick[i] <= hi * (1 + 1e-8));
                        assert_true(i == 0 || tick[i] > tick[i - 1]);
                    }
                }
}

TEST(tick_texts)
{
    struct units u;

    assert_string_equal(svg_tick_text(units_time, 0, &u), "0");
    assert_string_equal(svg_tick_text(units_time, 1e-3, &u), "1 ms");
    assert_string_equal(svg_tick_text(units_time, 2.5e-3, &u), "2.5 ms");
    assert_string_equal(svg_tick_text(units_time, 100e-6, &u), "100 us");
    assert_string_equal(svg_tick_text(units_bytes, 65536, &u), "64 KiB");
    assert_string_equal(svg_tick_text(units_rate, 10e9, &u), "10 GB/s");
}

/* A figure of one chart, to be filled; its plot is from x 94 to 1004, 94 high. */
static struct svg_figure figure_of(enum svg_scale x, enum svg_scale y)
{
    struct svg_figure f = {.title = "t"};

    svg_figure_chart(&f, "c", (struct svg_axis){"x", x, .unit = units_bytes},
                     (struct svg_axis){"y", y, .unit = units_time}, 160);
    return f;
}

static void add_line(struct svg_figure *f, const char *name, struct svg_series style,
                     int points, const double *x, const double *y, const char *const *tip)
{
    svg_figure_line(f, name, style);
    for (int i = 0; i < points; i++)
        svg_figure_point(f, x[i], y[i], tip ? tip[i] : NULL);
}

/* The figure's text, well-formed; *chart, where it is wanted: where the chart begins. */
static char *draw(struct svg_figure *f, const char **chart)
{
    FILE *file = unit_stream();

    svg_figure_draw(f, file);
    svg_figure_release(f);
    char *text = unit_text(file);
    xml_elements(text);
    *chart = strstr(text, "class=\"chart\"");
    return text;
}

TEST(a_chart_has_lines_markers_and_ticks)
{
    static const double x[] = {1024, 2048, 4096}, y[] = {1e-3, 2e-3, 4e-3};
    static const char *const tip[] = {"one", "two", "three"};
    struct svg_figure f = figure_of(SVG_LOG2, SVG_LINEAR);
    const char *chart;

    add_line(&f, "a", (struct svg_series){.marker = 1}, 3, x, y, tip);
    add_line(&f, "bound", (struct svg_series){.dashed = 1, .marker = -1}, 3, x, y, NULL);
    char *text = draw(&f, &chart);
    assert_int_equal(unit_count(chart, "<polyline"), 2);
    assert_int_equal(unit_count(chart, "stroke-dasharray"), 1);
    assert_int_equal(unit_count(chart, "<polygon"), 3);
    assert_non_null(strstr(chart, "<title>two</title>"));
    assert_non_null(strstr(chart, ">2 KiB<"));
    assert_non_null(strstr(chart, ">2 ms<"));
    free(text);
}

/* Rows in any order: a chart, a line and a point are there once, points by x. */
TEST(a_figure_is_filled_in_any_order)
{
    const struct svg_series style = {.marker = -1};
    const char *chart;
    struct svg_figure f = figure_of(SVG_LINEAR, SVG_LINEAR);

    for (int i = 3; i > 0; i--)
        for (int k = 0; k < 4; k++) {
            svg_figure_chart(&f, k % 2 ? "c" : "d", (struct svg_axis){"x", .unit = units_count},
                             (struct svg_axis){"y", .unit = units_count}, 160);
            svg_figure_line(&f, "a", style);
            svg_figure_point(&f, i, i, NULL);
        }
    assert_int_equal(f.charts, 2);
    assert_int_equal(f.lines, 2);
    assert_int_equal(f.series[0].points, 3);
    for (int i = 0; i < 3; i++)
        assert_true(f.series[0].point[i].x == i + 1);
    char *text = draw(&f, &chart);
    assert_int_equal(unit_count(text, ">a<"), 3); /* twice a tooltip, once the legend */
    free(text);
}

/* Every pair of hostile numbers as the two points of a line, on every pair of scales. */
TEST(no_numbers_break_a_chart)
{
    static const double bad[] = {NAN,    INFINITY, -INFINITY, 0,     -1,   1,       DBL_MAX,
                                 1e-300, DBL_MIN,  5e-324,    1e100, 1e99, -1e-310, -DBL_MAX};
    enum { BAD = sizeof bad / sizeof *bad };

    for (int at = 0; at < BAD * BAD * 18; at++) {
        double x[] = {bad[at % BAD], 3}, y[] = {bad[at / BAD % BAD], 5};
        struct svg_figure f = {.title = "t"};
        int tight = at >= BAD * BAD * 9;
        const char *chart;
        svg_figure_chart(
            &f, "c", (struct svg_axis){"x", at / (BAD * BAD) % 3, units_bytes, .tight = tight},
            (struct svg_axis){"y", at / (BAD * BAD) / 3 % 3, units_time, .tight = tight}, 160);
        add_line(&f, "a", (struct svg_series){0}, 2, x, y, NULL);
        svg_figure_line(&f, "b", (struct svg_series){.dashed = 1, .marker = -1});
        char *text = draw(&f, &chart);
        assert_null(strstr(chart, "nan"));
        assert_null(strstr(chart, "inf"));
        assert_in_range(unit_count(chart, "<circle"), 1, 2); /* the good point is there */
        free(text);
    }
}

/* Panels over one axis: its ends are given, the upper ones have no words below. */
TEST(an_axis_can_be_given_bare_and_tight)
{
    static const double x[] = {10, 20}, y[] = {1000, 1001};
    struct svg_figure f = {.title = "t"};
    const char *chart;

    svg_figure_chart(&f, "c", (struct svg_axis){.unit = units_count, .lo = 0, .hi = 40},
                     (struct svg_axis){"y", .unit = units_time, .tight = 1}, 160);
    add_line(&f, "a", (struct svg_series){.faint = 1}, 2, x, y, NULL);
    char *text = draw(&f, &chart);
    /* A quarter and a half of the plot. */
    assert_non_null(strstr(chart, "cx=\"321.5\""));
    assert_non_null(strstr(chart, "cx=\"549\""));
    assert_null(strstr(chart, ">20<"));
    assert_null(strstr(chart, ">0<")); /* y is about 1000 */
    assert_non_null(strstr(chart, svg_tint(svg_colour(0), 0.4).text));
    free(text);
}

TEST(points_stay_in_their_chart)
{
    static const double x[] = {1, 70, 1e9}, y[] = {1e-9, 3, 1e5};

    for (int at = 0; at < 9; at++) {
        struct svg_figure f = figure_of(at % 3, at / 3);
        const char *chart;
        add_line(&f, "a", (struct svg_series){0}, 3, x, y, NULL);
        char *text = draw(&f, &chart);
        assert_int_equal(unit_count(chart, "<circle"), 3);
        for (const char *q = chart; (q = strstr(q, "<circle cx=\"")); q++) {
            double cx = strtod(q + 12, NULL), cy = strtod(strstr(q, "cy=\"") + 4, NULL);
            assert_true(cx >= 94 && cx <= 1004 && cy >= 0 && cy <= 260);
        }
        free(text);
    }
}

/* Every extreme and gap of a long line is drawn, with at most five points a pixel. */
TEST(a_long_line_is_thinned)
{
    enum { N = 20000, WIDE = 910, GAPS = 7 };
    struct svg_figure f = {.title = "t"};
    double least = INFINITY, greatest = -INFINITY;
    int points = 0, lines = 0;
    const char *chart;

    svg_figure_chart(&f, "c", (struct svg_axis){"x", .unit = units_bytes},
                     (struct svg_axis){"y", .unit = units_time, .tight = 1}, 160);
    svg_figure_line(&f, "a", (struct svg_series){.marker = -1});
    for (int i = 0; i < N; i++) {
        double y = i % (N / GAPS) == 3 ? NAN : sin(i * 0.01) + 0.2 * sin(i * 1.7);
        svg_figure_point(&f, i + 1, i == 12344 ? 9 : i == 5 ? -9 : y, NULL);
    }
    char *text = draw(&f, &chart);
    double top =
        strtod(strstr(strstr(text, "fill=\"none\" stroke=\"#888888\"") - 60, "y=\"") + 3, NULL);
    for (const char *at = chart; (at = strstr(at, "<polyline points=\"")); lines++)
        for (at += strlen("<polyline points=\""); *at != '"'; points++) {
            char *end;
            strtod(at, &end);
            double v = strtod(end + 1, &end);
            least = fmin(least, v);
            greatest = fmax(greatest, v);
            at = end + (*end == ' ');
        }
    assert_in_range(lines, GAPS, GAPS + 1);
    assert_in_range(points, 2 * WIDE, 5 * (WIDE + 1));
    /* The plot is 94 high; 0.06 of the values' range is left on either side. */
    assert_true(fabs(least - (top + 94 * 0.06 / 1.12)) < 0.02);
    assert_true(fabs(greatest - (top + 94 - 94 * 0.06 / 1.12)) < 0.02);
    free(text);
}

TEST(nothing_to_show)
{
    struct svg_figure f = figure_of(SVG_LOG2, SVG_LOG10);
    const char *chart;
    char *text = draw(&f, &chart);

    assert_non_null(strstr(chart, ">nothing to show<"));
    free(text);
}

/* Names that do not fit one row; one of each colour and name, none of pale lines. */
TEST(a_legend_folds)
{
    char name[128], *text;
    const char *chart;
    double y[3];

    for (int lines = 2; lines <= 40; lines += 19) {
        struct svg_figure f = figure_of(SVG_LINEAR, SVG_LINEAR);
        svg_figure_line(&f, "pale", (struct svg_series){.faint = 1});
        svg_figure_line(&f, "twice", (struct svg_series){.dashed = 1});
        for (int i = 0; i < lines; i++) {
            snprintf(name, sizeof name, "line %d of some words", i);
            svg_figure_line(&f, name, (struct svg_series){.colour = i});
        }
        svg_figure_line(&f, "twice", (struct svg_series){.marker = 2});
        text = draw(&f, &chart);
        *strstr(text, "class=\"chart\"") = '\0';
        assert_int_equal(unit_count(text, "<circle"), lines);
        assert_int_equal(unit_count(text, ">twice<"), 1);
        assert_null(strstr(text, ">pale<"));
        y[lines / 19] = strtod(strstr(text, "height=\"") + 8, NULL);
        free(text);
    }
    assert_true(y[1] > y[0] && y[2] > y[1] && fmod(y[2] - y[0], 20) == 0);
}

static const char *matrix_name(const void *of, int from, int to, char *text, size_t space)
{
    snprintf(text, space, "%s%d to %d", (const char *)of, from, to);
    return text;
}

static void matrix_tip(const void *of, const struct svg_cell *c, char *text, size_t space)
{
    (void)of;
    snprintf(text, space, "item %d of %d", (int)c->item, c->count);
}

/* Two rows and columns a cell: the lowest percent, in its class; no number is no cell. */
TEST(a_matrix_shows_the_worst_of_each_cell)
{
    static const char *const legend[] = {"best", "1", "2", "3", "4", "worst", "words", NULL};
    struct svg_matrix m = {.title = "t<",
                           .note = "one\ntwo",
                           .wide = 30,
                           .high = 30,
                           .square = 1,
                           .legend = legend,
                           .name = matrix_name,
                           .tip = matrix_tip,
                           .of = "a name of a row that is too long to have room: "};
    static const double percents[] = {98, 97.9, 95, 90, 75, 50, 49.9, NAN};
    FILE *f = unit_stream();

    svg_matrix_init(&m, 15, 15, 8);
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 2; k++)
            svg_matrix_enter(svg_matrix_cell(&m, 2 * i, 2 * i + k), percents[i] + k, 2 * i + k);
    svg_matrix_enter(svg_matrix_cell(&m, -1, 14), 100, 77);
    svg_matrix_cell(&m, 0, 0)->framed = 1;
    m.sign[7] = "!";
    svg_matrix_draw(&m, f);
    char *text = unit_text(f);
    xml_elements(text);
    assert_int_equal(unit_count(text, "<title>item "), 7 + 1 + 1); /* a frame has one, too */
    for (int i = 0; i < 7; i++) {
        char tip[32];
        snprintf(tip, sizeof tip, "<title>item %d of 2<", 2 * i);
        assert_int_equal(unit_count(text, tip), i ? 1 : 2);
    }
    assert_non_null(strstr(text, "<title>item 77 of 1<"));
    /* Each class in the legend, and the cells of it. */
    static const int cells[] = {2, 2, 1, 1, 1, 1};
    const char *const hue[] = {"#0072b2", "#5b1a4a"};
    static const double share[] = {0.14, 0.3, 0.45, 0.62, 0.82, 1};
    for (int i = 0; i < 6; i++)
        assert_int_equal(unit_count(text, svg_tint(hue[i > 0], share[i]).text), 1 + cells[i]);
    assert_int_equal(unit_count(text, ">50<"), 2); /* 49.9, too */
    assert_int_equal(unit_count(text, ">a name of.. have room: 14 to 16<"), 2);
    assert_int_equal(unit_count(text, ">a name of"), 2 * 8);
    assert_int_equal(unit_count(text, ">!<"), 1);
    assert_int_equal(unit_count(text, ">words<"), 1);
    free(text);
}
