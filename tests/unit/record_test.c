/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests structs by tables: texts written by hand, as YAML, as JSON, as CSV, and what is
 * refused.
 */
#include "value/value_record.h"

#include <math.h>

#include "base/mem.h"
#include "unit.h"

struct thing {
    int ranks, up, kind, count, pair[4];
    int64_t bytes;
    double Bps, s;
    char host[16];
    struct {
        double p50, p90;
    } times;
};

static const char *const kinds[] = {"cpu", "cuda", NULL};
static const struct record times[] = {
    RECORD_NUM(struct thing, times.p50, "p50", 0, 1e9, .flags = RECORD_NULLABLE,
               .column = "p50_s"),
    RECORD_NUM(struct thing, times.p90, "p90", 0, 1e9, .column = "p90_s"),
    {0}};
static const struct record table[] = {
    RECORD(TEXT, struct thing, host, "host", .flags = RECORD_OPTIONAL),
    RECORD_INT(struct thing, ranks, "ranks", 1, 99),
    RECORD_INT(struct thing, bytes, "bytes", 0, INT64_MAX, .flags = RECORD_NULLABLE),
    RECORD_NUM(struct thing, Bps, "Bps", 0, 1e25, .flags = RECORD_OPTIONAL | RECORD_ZERO),
    RECORD_NUM(struct thing, s, "s", 0, 10, .flags = RECORD_OPTIONAL | RECORD_ABSENT),
    RECORD(BOOL, struct thing, up, "up"),
    RECORD(CHOICE, struct thing, kind, "kind", .words = kinds,
           .flags = RECORD_OPTIONAL | RECORD_BRIEF),
    RECORD_PART("times", times, .flags = RECORD_OPTIONAL),
    {0}};
static const struct record pairs[] = {RECORD_INT(struct thing, pair, "pair", 0, 9, .numbers = 2,
                                                 .each = 2,
                                                 .count_at = offsetof(struct thing, count)),
                                      {0}};

static const struct thing known = {.ranks = 4,
                                   .up = 1,
                                   .kind = 1,
                                   .bytes = 7,
                                   .Bps = 2.5,
                                   .s = 1,
                                   .host = "a,\"b\"",
                                   .times = {1, 2}};
static const struct thing unknown = {.ranks = 1, .bytes = -1, .s = -1, .times = {NAN, 3}};

static void assert_written(const struct record *f, const struct thing *x, int yaml, int csv,
                           const char *want)
{
    char *text = NULL;
    size_t bytes = 0;
    struct jout j = {.file = mem_stream(&text, &bytes), .yaml = yaml};

    if (csv) {
        record_put_csv(j.file, f, x);
    } else {
        jout_open(&j, NULL, '{');
        record_put(&j, f, x);
        jout_close(&j, '}');
    }
    fclose(j.file);
    assert_string_equal(text, want);
    mem_free(text);
}

TEST(what_is_known_is_written)
{
    assert_written(table, &known, 0, 0,
                   "{\"host\":\"a,\\\"b\\\"\",\"ranks\":4,\"bytes\":7,\"Bps\":2.5,\"s\":1,"
                   "\"up\":true,\"kind\":\"cuda\",\"times\":{\"p50\":1,\"p90\":2}}\n");
    assert_written(
        table, &known, 1, 0,
        "host: \"a,\\\"b\\\"\"\nranks: 4\nbytes: 7\nBps: 2.5\ns: 1\nup: yes\nkind: cuda\n"
        "times:\n  p50: 1\n  p90: 2\n");
    assert_written(table, &known, 0, 1, "\"a,\"\"b\"\"\",4,7,2.5,1,1,cuda,1,2\n");
    assert_written(table, NULL, 0, 1, "host,ranks,bytes,Bps,s,up,kind,p50_s,p90_s\n");
}

TEST(what_is_unknown_is_null_or_left_out)
{
    assert_written(table, &unknown, 0, 0,
                   "{\"host\":null,\"ranks\":1,\"bytes\":null,\"Bps\":null,\"up\":false,"
                   "\"kind\":\"cpu\",\"times\":null}\n");
    assert_written(table, &unknown, 1, 0, "ranks: 1\nup: no\n");
    assert_written(table, &unknown, 0, 1, ",1,,,,0,cpu,,\n");
}

static int read_thing(const struct record *f, const char *text, struct thing *x)
{
    struct tree t;
    int rc = tree_parse_json(&t, "f", 1, text, (int64_t)strlen(text), &err);

    if (rc == 0) {
        rc = record_read(&t, t.root, f, "more?", x, &err);
        tree_release(&t);
    }
    return rc;
}

TEST(what_is_read)
{
    struct thing x = {.s = 8, .times = {5, 6}};

    assert_int_equal(read_thing(table,
                                "{\"ranks\": 99, \"bytes\": null, \"up\": true, \"more\": 1,"
                                " \"host\": \"h\", \"times\": {\"p50\": null, \"p90\": 4}}",
                                &x),
                     0);
    assert_true(x.ranks == 99 && x.bytes == 0 && x.up && x.s == 8 && x.kind == 0);
    assert_true(x.times.p50 == 5 && x.times.p90 == 4);
    assert_string_equal(x.host, "h");
    assert_says(read_thing(table, "{\"ranks\": 100, \"bytes\": 1, \"up\": true}", &x),
                "f:1: 'ranks' is '100', expected a whole number from 1 to 99");
    assert_says(read_thing(table, "{\"ranks\": null, \"bytes\": 1, \"up\": true}", &x),
                "f:1: 'ranks' is null, expected a value");
    assert_says(read_thing(table, "{\"ranks\": 1, \"up\": true}", &x), "'bytes' is missing");
    assert_says(
        read_thing(table, "{\"ranks\": 1, \"bytes\": 1, \"up\": true, \"times\": {}}", &x),
        "'times.p50' is missing");
    assert_says(
        read_thing(table, "{\"ranks\": 1, \"bytes\": 1, \"up\": true, \"kind\": \"tpu\"}", &x),
        "'kind' is 'tpu', expected one of: cpu, cuda");
}

TEST(lists_of_numbers)
{
    struct thing x = {0};

    assert_int_equal(read_thing(pairs, "{\"pair\": [1, 2]}", &x), 0);
    assert_true(x.count == 1 && x.pair[0] == 1 && x.pair[1] == 2);
    assert_written(pairs, &x, 0, 0, "{\"pair\":[1,2]}\n");
    assert_says(read_thing(pairs, "{\"pair\": [1]}", &x),
                "has 1 numbers, expected a multiple of 2");
    assert_says(read_thing(pairs, "{\"pair\": [1, 2, 3, 4, 5]}", &x),
                "has 5 items, expected 4 at most");
    assert_says(read_thing(pairs, "{\"pair\": [1, 10]}", &x), "'pair[1]' is '10'");
}
