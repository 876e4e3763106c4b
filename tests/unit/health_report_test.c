/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the reports of a verdict: the line, its perfdata, JSON, the picture; for few hosts and
 * many.
 */
#include "unit.h"

#include "base/utf8.h"
#include "value/value_yaml.h"
#include "health/health_data.h"
#include "health/health_parts.h"

#include "fleet_fixture.h"
#include "temp_fixture.h"

struct fleet {
    struct health_data d;
    struct health_verdict v;
    struct health_options o;
    struct health_report t;
};

/* Hosts that all get 1 GB/s from each of 15 others; what host `slow` sends is at half of that,
 * and a finding has it: what is printed is tested here, not what is concluded. */
static void make(struct fleet *f, int hosts, const char *pattern, int slow)
{
    char name[200];

    *f = (struct fleet){
        .v = {.hosts = hosts, .port = mem_new((size_t)hosts, sizeof *f->v.port)}};
    health_data_init(&f->d, hosts, NULL);
    f->d.rounds = f->d.wanted = 15;
    for (int k = 0; k < hosts; k++) {
        snprintf(name, sizeof name, "%s%d", pattern, k);
        health_name_clean(name, f->d.host[k].name, sizeof f->d.host[k].name);
        for (int s = 1; s < hosts && s <= 15; s++)
            HEALTH_ADD(&f->d.samples) = (struct health_sample){
                .src = k, .dst = (k + s) % hosts, .round = s - 1, .Bps = k == slow ? 5e8 : 1e9};
        for (int way = 0; way < 2; way++)
            f->v.port[k][way] = (struct health_port){
                .samples = 15, .Bps = 1e9, .want_Bps = 1e9, .percent = 100};
        if (k != slow)
            continue;
        f->v.port[k][HEALTH_OUT] =
            (struct health_port)LIST(.samples = 15, .Bps = 5e8, .want_Bps = 1e9, .percent = 50,
                                     .state = HEALTH_CRITICAL);
        health_verdict_addf(&f->v, HEALTH_CRITICAL, 301, slow, "%s out 500 of 1000 MB/s, 50 %%",
                            name)
            ->way = HEALTH_OUT;
    }
    health_options_init(&f->o);
    f->t = (struct health_report){.d = &f->d, .v = &f->v, .o = &f->o, .measured = 1};
}

static void drop(struct fleet *f)
{
    health_data_release(&f->d);
    health_verdict_release(&f->v);
}

static char *told(const struct fleet *f, void (*tell)(const struct health_report *, FILE *))
{
    FILE *out = unit_stream();

    tell(&f->t, out);
    return unit_text(out);
}

/* The same data, the same bytes. */
static char *twice(const struct fleet *f, void (*tell)(const struct health_report *, FILE *))
{
    char *text = told(f, tell), *again = told(f, tell);

    assert_string_equal(text, again);
    mem_free(again);
    return text;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The guidelines: the first 19 characters of a label tell it from all others. */
static void labels_differ(const char *line, int want)
{
    char **label = mem_new((size_t)want + 1, sizeof *label);
    int n = 0;

    for (const char *at = strchr(line, '|'); (at = strchr(at, '\''));
         at = strchr(at + 1, ' ')) {
        const char *end = strchr(at + 1, '\'');
        assert_true(n < want);
        label[n] = mem_dup(at + 1);
        label[n][end - at - 1 < 19 ? end - at - 1 : 19] = 0;
        n++;
        if (!strchr(end, ' '))
            break;
        at = end;
    }
    assert_int_equal(n, want);
    qsort(label, (size_t)n, sizeof *label, by_text);
    for (int i = 1; i < n; i++)
        if (strcmp(label[i - 1], label[i]) == 0)
            fail_msg("two labels '%s' in %.300s", label[i], line);
    for (int i = 0; i < n; i++)
        mem_free(label[i]);
    mem_free(label);
}

TEST(lines)
{
    static const struct {
        int hosts, labels;
        const char *pattern;
    } row[] = {
        {2, 4, "node"},
        {64, 128, "gpu-cluster-of-the-long-name-"},
        {20, 40, "12345678901234"}, /* 15 and 16 characters */
        {3, 6, "all.of.a.name.that.has.no.number.that.is.short.99999999999999999"},
        {2000, 1, "node"}, /* those alone that are not OK */
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct fleet f;
        make(&f, row[i].hosts, row[i].pattern, 1);
        char *line = twice(&f, health_print_line);
        assert_non_null(strstr(line, "HORING CRITICAL - "));
        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
        labels_differ(line, row[i].labels);
        mem_free(line);
        drop(&f);
    }
}

/* A label value of the text format: UTF-8, with \\ \" \n escaped; what stands behind it. */
static const char *read_value(const char *at)
{
    assert_int_equal(*at++, '"');
    while (*at != '"') {
        if (*at == '\\')
            assert_non_null(strchr("\\\"n", *++at));
        int n = utf8_next(at, NULL);
        if (n == 0 || *at == '\n')
            fail_msg("a label value holds byte %02x", (unsigned char)*at);
        at += n;
    }
    return at + 1;
}

static void read_series(const char *at)
{
    at += strspn(at, "abcdefghijklmnopqrstuvwxyz_");
    for (char mark = '{'; *at == mark; mark = ',') {
        at++;
        at += strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        assert_int_equal(*at++, '=');
        at = read_value(at);
        if (*at == '}') {
            at++;
            break;
        }
    }
    assert_int_equal(*at, ' ');
    assert_int_equal(strspn(at + 1, "0123456789.e+-"), strcspn(at + 1, "\n"));
}

static void read_prom(const struct fleet *f)
{
    char name[TEMP_PATH], *text = NULL;
    int64_t bytes = 0;

    close(temp_file(name, "health_report"));
    assert_ok(health_write_prom(&f->t, name, f->d.when_s, &err));
    assert_ok(io_read_text(name, 1 << 20, &text, &bytes, &err));
    for (const char *at = text; *at; at = strchr(at, '\n') + 1)
        if (*at != '#')
            read_series(at);
    mem_free(text);
    unlink(name);
}

static const char long_[] = "0123456789012345678901234567890123456789"
                            "0123456789012345678901234567890123456789";
static const char *const odd[] = {
    "a|b",
    "a\"b'c",
    "back\\slash",
    "two\nlines",
    "a=b;c",
    "\x01\x7f\x1b[2J",
    "\xff\xfe",
    "\xc3\xa4-\xe2\x82\xac",
    "\xc2\x9b"
    "2J",
    "\xe2\x82",
    "a b\tc",
    "-",
    "",
    "a%7Cb",
    "a%257Cb",
    "%2D",
    "a%7cb%",
    long_,
    long_ + 1,
    "$(x)`y`",
    "a\xe2\x80\x8e",
    "a\xe2\x80\x8f",
    "a\xe2\x80\xa8",
    "a\xef\xbb\xbf",
    "a\xef\xbf\xbe",
    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4",
};
enum { ODD = sizeof odd / sizeof *odd };

/* A name is made once, then stays; no two are made alike, not even of what looks like one. */
TEST(clean_names)
{
    char clean[ODD][HEALTH_NAME], again[HEALTH_NAME];

    for (int i = 0; i < ODD; i++) {
        health_name_make(odd[i], clean[i], sizeof clean[i]);
        health_name_clean(clean[i], again, sizeof again);
        assert_string_equal(clean[i], again);
        assert_int_equal(utf8_controls(clean[i], (int64_t)strlen(clean[i])), 0);
        /* plain in YAML, or in quotes without an escape: a baseline has it as it is */
        FILE *out = unit_stream();
        yaml_put_text(out, clean[i]);
        char *text = unit_text(out);
        if (strchr(text, '\\'))
            fail_msg("'%s' is %s in YAML", odd[i], text);
        free(text);
        if (!clean[i][0] || strpbrk(clean[i], " |'\"\\=`$;"))
            fail_msg("'%s' became '%s'", odd[i], clean[i]);
        for (int k = 0; k < i; k++)
            if (strcmp(clean[i], clean[k]) == 0)
                fail_msg("'%s' and '%s' are both '%s'", odd[k], odd[i], clean[i]);
    }
    assert_string_equal(clean[0], "a%7Cb");
    assert_string_equal(clean[13], "a%257Cb");
    assert_string_equal(clean[14], "a%25257Cb");
    assert_string_equal(clean[16], "a%7cb%");
    assert_string_equal(clean[6], "%FF%FE");
    assert_string_equal(clean[7], "\xc3\xa4-\xe2\x82\xac");
}

/* A record by another hand may have any name that JSON has. */
TEST(names_in_records)
{
    struct fleet f;
    struct health_data d;
    size_t bytes = 0;

    make(&f, 3, "node", -1);
    snprintf(f.d.host[1].name, sizeof f.d.host[1].name, "a|b \"c");
    f.d.capped = 1;
    char *text = store_text(&health_record_store, &f.d, &bytes);
    assert_ok(store_parse(&health_record_store, text, bytes, &d));
    assert_string_equal(d.host[1].name, "a%7Cb%20%22c");
    assert_true(d.capped);
    health_data_release(&d);
    free(text);
    drop(&f);
}

/* Names that would end a line, or begin the perfdata, or a label, do not. */
TEST(names_of_others)
{
    for (int i = 0; i < ODD; i++) {
        struct fleet f;
        make(&f, 3, odd[i], 0);
        snprintf(f.v.finding[0].link, sizeof f.v.finding[0].link, "%.40s", odd[i]);
        char *line = twice(&f, health_print_line);
        assert_int_equal(unit_count(line, "|"), 1);
        assert_int_equal(unit_count(line, "\n"), 1);
        labels_differ(line, 6);
        mem_free(line);
        read_prom(&f);
        f.o.verbose = 3;
        f.o.suggest = 1;
        mem_free(twice(&f, health_print_line));
        mem_free(twice(&f, health_print_json));
        drop(&f);
    }
}

/* Ports of one host, of which the quick level's perfdata speaks: each has a label of its own.
 */
TEST(labels_of_ports)
{
    static const char *const names[] = {"eth0", "mlx5_of_a_very_long_name_0/1",
                                        "mlx5_of_a_very_long_name_1/1",
                                        "mlx6_of_a_very_long_name_0/1"};
    struct fleet f;

    make(&f, 1, "node", -1);
    f.d.level = HEALTH_QUICK;
    mem_free(f.v.port);
    f.v.port = NULL;
    for (int n = 3; n <= 4; n++) {
        f.d.links.count = 0;
        for (int i = 0; i < n; i++) {
            struct health_link l = {.up = 1, .carrier = 1};
            snprintf(l.name, sizeof l.name, "%s", names[i]);
            HEALTH_ADD(&f.d.links) = l;
        }
        char *line = twice(&f, health_print_line);
        labels_differ(line, n);
        /* Their ends are enough, until two have the same. */
        assert_non_null(strstr(line, n == 3 ? "|'eth0_err'=" : "|'link0_err'="));
        mem_free(line);
    }
    drop(&f);
}

TEST(pictures)
{
    static const struct {
        int hosts;
        const char *words; /* how many hosts a cell stands for */
    } row[] = {
        {2, "A row sends, a column receives; first row and column: the ports<"},
        {64, "first row and column: the ports<"},
        {65, "2 x 2 hosts a cell"},
        {512, "8 x 8 hosts a cell"},
        {4096, "64 x 64 hosts a cell"},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct fleet f;
        make(&f, row[i].hosts, "node", 1);
        char *svg = twice(&f, health_draw);
        if (!strstr(svg, row[i].words))
            fail_msg("%d hosts: no '%s'", row[i].hosts, row[i].words);
        assert_non_null(strstr(svg, "node1 out 500 of 1000 MB/s"));
        /* One sign at the host's row, one before the words, one in the legend. */
        assert_int_equal(unit_count(svg, ">X"), 3);
        /* A browser shows some thousand elements at once. */
        assert_in_range(strlen(svg), 1000, 2 << 20);
        mem_free(svg);
        drop(&f);
    }
}

/* Nothing is measured: a picture and a document all the same. */
TEST(nothing)
{
    struct fleet f;

    make(&f, 3, "node", -1);
    f.d.samples.count = 0;
    mem_free(f.v.port);
    f.v.port = NULL;
    char *svg = twice(&f, health_draw), *json = twice(&f, health_print_json);
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(json, "nan"));
    assert_non_null(strstr(svg, "No faults found."));
    mem_free(svg);
    mem_free(json);
    drop(&f);
}
