/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures: byte for byte, well-formed whatever the text and the numbers, colours as promised.
 */
#include "unit.h"

#include <float.h>

#include "base/svg_chart.h"
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

/* What stands between the head and the end. */
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

static struct svg_chart chart_of(const struct svg_series *series, int n, enum svg_scale x,
                                 enum svg_scale y)
{
    return (struct svg_chart)LIST(.box = {0, 0, 200, 160}, .title = "c",
                                  .x = {"x", x, units_bytes}, .y = {"y", y, units_time},
                                  .count = n, .series = series);
}

TEST(a_chart_has_lines_markers_and_ticks)
{
    static const double x[] = {1024, 2048, 4096}, y[] = {1e-3, 2e-3, 4e-3};
    static const char *const tip[] = {"one", "two", "three"};
    const struct svg_series series[] = {
        {.name = "a", .points = 3, .x = x, .y = y, .tip = tip, .marker = 1},
        {.name = "bound", .points = 3, .x = x, .y = y, .dashed = 1, .marker = -1}};
    struct svg_chart c = chart_of(series, 2, SVG_LOG2, SVG_LINEAR);
    struct page p;

    begin(&p);
    svg_chart(&p.svg, &c);
    end(&p);
    assert_int_equal(unit_count(p.text, "<polyline"), 2);
    assert_int_equal(unit_count(p.text, "stroke-dasharray"), 1);
    assert_int_equal(unit_count(p.text, "<polygon"), 3);
    assert_non_null(strstr(p.text, "<title>two</title>"));
    assert_non_null(strstr(p.text, ">2 KiB<"));
    assert_non_null(strstr(p.text, ">2 ms<"));
    free(p.text);
}

/* Every pair of hostile numbers as the two points of a line, on every pair of scales. */
TEST(no_numbers_break_a_chart)
{
    static const double bad[] = {NAN,    INFINITY, -INFINITY, 0,     -1,   1,       DBL_MAX,
                                 1e-300, DBL_MIN,  5e-324,    1e100, 1e99, -1e-310, -DBL_MAX};
    enum { BAD = sizeof bad / sizeof *bad };

    for (int at = 0; at < BAD * BAD * 18; at++) {
        struct page p;
        double x[] = {bad[at % BAD], 3}, y[] = {bad[at / BAD % BAD], 5};
        const struct svg_series series[] = {{.name = "a", .points = 2, .x = x, .y = y},
                                            {.name = "b", .dashed = 1, .marker = -1}};
        struct svg_chart c =
            chart_of(series, 2, at / (BAD * BAD) % 3, at / (BAD * BAD) / 3 % 3);
        c.x.tight = c.y.tight = at >= BAD * BAD * 9;
        begin(&p);
        svg_chart(&p.svg, &c);
        end(&p);
        char *plot = strstr(p.text, "class=\"chart\"");
        assert_null(strstr(plot, "nan"));
        assert_null(strstr(plot, "inf"));
        assert_in_range(unit_count(plot, "<circle"), 1, 2); /* the good point is there */
        free(p.text);
    }
}

/* Panels over one axis: its ends are given, the upper ones have no words below. */
TEST(an_axis_can_be_given_bare_and_tight)
{
    static const double x[] = {10, 20}, y[] = {1000, 1001};
    const struct svg_series series = {.name = "a", .points = 2, .x = x, .y = y, .faint = 1};
    struct svg_chart c = chart_of(&series, 1, SVG_LINEAR, SVG_LINEAR);
    struct page p;

    c.x = (struct svg_axis){.unit = units_count, .lo = 0, .hi = 40};
    c.y.tight = 1;
    begin(&p);
    svg_chart(&p.svg, &c);
    end(&p);
    /* The plot is from 74 to 184: a quarter and a half of it. */
    assert_non_null(strstr(p.text, "cx=\"101.5\""));
    assert_non_null(strstr(p.text, "cx=\"129\""));
    assert_null(strstr(p.text, ">20<"));
    assert_null(strstr(p.text, ">0<")); /* y is about 1000 */
    assert_non_null(strstr(p.text, svg_tint(svg_colour(0), 0.4).text));
    free(p.text);
}

TEST(points_stay_in_their_chart)
{
    static const double x[] = {1, 70, 1e9}, y[] = {1e-9, 3, 1e5};

    for (int at = 0; at < 9; at++) {
        const struct svg_series series = {.name = "a", .points = 3, .x = x, .y = y};
        struct svg_chart c = chart_of(&series, 1, at % 3, at / 3);
        struct page p;
        begin(&p);
        svg_chart(&p.svg, &c);
        end(&p);
        assert_int_equal(unit_count(p.text, "<circle"), 3);
        for (const char *q = p.text; (q = strstr(q, "<circle cx=\"")); q++) {
            double cx = strtod(q + 12, NULL), cy = strtod(strstr(q, "cy=\"") + 4, NULL);
            assert_true(cx >= 0 && cx <= 200 && cy >= 0 && cy <= 160);
        }
        free(p.text);
    }
}

/* Of a long line every extreme and gap is drawn, with at most five points a pixel. */
TEST(a_long_line_is_thinned)
{
    enum { N = 20000, WIDE = 110, GAPS = 7 };
    static double x[N], y[N];
    const struct svg_series series = {.name = "a", .points = N, .x = x, .y = y, .marker = -1};
    struct svg_chart c = chart_of(&series, 1, SVG_LINEAR, SVG_LINEAR);
    double least = INFINITY, greatest = -INFINITY;
    int points = 0, lines = 0;
    struct page p;

    for (int i = 0; i < N; i++) {
        x[i] = i + 1;
        y[i] = i % (N / GAPS) == 3 ? NAN : sin(i * 0.01) + 0.2 * sin(i * 1.7);
    }
    y[12344] = 9;
    y[5] = -9;
    c.y.tight = 1;
    begin(&p);
    svg_chart(&p.svg, &c);
    end(&p);
    for (const char *at = p.text; (at = strstr(at, "<polyline points=\"")); lines++)
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
    /* The plot is from 24 to 118; 0.06 of the values' range is left on either side. */
    assert_true(fabs(least - (24 + 94 * 0.06 / 1.12)) < 0.02);
    assert_true(fabs(greatest - (118 - 94 * 0.06 / 1.12)) < 0.02);
    free(p.text);
}

TEST(nothing_to_show)
{
    struct svg_chart c = chart_of(NULL, 0, SVG_LOG2, SVG_LOG10);
    struct page p;

    begin(&p);
    svg_chart(&p.svg, &c);
    end(&p);
    assert_non_null(strstr(p.text, ">nothing to show<"));
    free(p.text);
}

TEST(a_legend_folds)
{
    const struct svg_series series[] = {{.name = "first"}, {.name = "second", .dashed = 1}};
    struct page p;

    assert_true(svg_legend(NULL, 0, 0, 1000, series, 0) == 0);
    double one = svg_legend(NULL, 0, 0, 1000, series, 2);
    assert_true(one > 0 && svg_legend(NULL, 0, 0, 100, series, 2) == 2 * one);
    begin(&p);
    svg_legend(&p.svg, 0, 0, 100, series, 2);
    end(&p);
    assert_int_equal(unit_count(p.text, "<circle"), 1);
    assert_non_null(strstr(p.text, ">second<"));
    free(p.text);
}
