/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests every guard of value/value_yaml.h, by a text that needs it and the line that must come
 * back.
 */
#include "unit.h"

#include "base/tick.h"
#include "value/value_yaml.h"
#include "words_fixture.h"

struct item {
    char *name, *rate;
};

struct doc {
    char *format, *size;
    struct item *items;
    unsigned items_count;
    char **ranks;
    unsigned ranks_count;
};

static const cyaml_schema_field_t item_fields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, struct item, name, 1, 31),
    CYAML_FIELD_STRING_PTR("rate_Bps", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct item,
                           rate, 0, 64),
    CYAML_FIELD_END};
static const cyaml_schema_value_t item_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct item, item_fields)};
static const cyaml_schema_value_t rank_schema = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 0, 64)};
static const cyaml_schema_field_t doc_fields[] = {
    CYAML_FIELD_STRING_PTR("format", CYAML_FLAG_POINTER, struct doc, format, 0, 64),
    CYAML_FIELD_STRING_PTR("size", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct doc, size,
                           0, 64),
    CYAML_FIELD_SEQUENCE("items", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct doc, items,
                         &item_schema, 1, 3),
    CYAML_FIELD_SEQUENCE("ranks", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct doc, ranks,
                         &rank_schema, 0, 1000000),
    CYAML_FIELD_END};
static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct doc, doc_fields)};

static int load(const char *text, size_t bytes, struct doc **doc)
{
    struct yaml y;
    char *copy = mem_new(bytes + 1, 1);

    memcpy(copy, text, bytes);
    yaml_take(&y, "t.yaml", copy, (int64_t)bytes);
    int rc = yaml_load(&y, &schema, (void **)doc, &err);
    yaml_release(&y);
    return rc;
}

TEST(good)
{
    static const char text[] = "# a comment\n%s"
                               "format: x/1\n"
                               "size: 80e9\n"
                               "items:\n"
                               "  - name: a\n"
                               "    rate_Bps: 12abc\n"
                               "  - {name: \"b\\n\"}\n"
                               "ranks: [0, 1]\n";
    struct doc *doc = NULL;
    char whole[400];

    snprintf(whole, sizeof whole, text, "");
    assert_ok(load(whole, strlen(whole), &doc));
    assert_int_equal(doc->items_count, 2);
    assert_string_equal(doc->items[0].rate, "12abc");
    assert_string_equal(doc->items[1].name, "b\n");
    assert_null(doc->items[1].rate);
    assert_int_equal(doc->ranks_count, 2);
    yaml_drop(&schema, doc);
}

/* The whole error of a text: place, key, found, expected. */
TEST(refusals)
{
    static const char *const cases[][2] = {
        {"", "t.yaml: empty expected document"},
        {"# only a comment\n", "t.yaml: empty expected document"},
        {"---\n...\n", "t.yaml:2: empty expected document"},
        {"{}\n", "t.yaml:1: 'format' missing"},
        {"hello\n", "t.yaml:1: 'hello' expected keys values"},
        {"- a\n", "t.yaml:1: list expected mapping"},
        {"format: x\nsise: 3\n", "t.yaml:2: 'sise' unknown key 'size'?"},
        {"format: x\nFORMAT: x\n", "t.yaml:2: 'FORMAT' unknown key 'format'?"},
        {"format: x\ncolour: 3\n",
         "t.yaml:2: 'colour' unknown key expected format size items ranks"},
        {"format: x\n<<: 3\n", "t.yaml:2: '<<' unknown key expected format size items ranks"},
        {"format: x\nsize: 1\nformat: y\n", "t.yaml:3: 'format' twice line 1 expected once"},
        {"format: x\nitems:\n  - name: a\n  - rate_Bps: 1\n",
         "t.yaml:4: 'items[1].name' missing"},
        {"format: x\nitems:\n  - name: a\n    name: b\n",
         "t.yaml:4: 'items[0].name' twice line 3 expected once"},
        {"format: x\nitems: []\n", "t.yaml:2: 'items' 0 items expected 1"},
        {"format: x\nitems: [{name: a}, {name: b}, {name: c},\n {name: d}]\n",
         "t.yaml:2: 'items' 4 items expected 3"},
        {"format: x\nitems: 7\n", "t.yaml:2: 'items' '7' expected list"},
        {"format: x\nitems: [7]\n", "t.yaml:2: 'items[0]' '7' expected mapping"},
        {"format: [x]\n", "t.yaml:1: 'format' list expected single"},
        {"format: {a: b}\n", "t.yaml:1: 'format' mapping expected single"},
        {"format: x\nitems:\n - name: ''\n", "t.yaml:3: 'items[0].name' 0 bytes expected 1"},
        {"format: x\nitems:\n - name: 0123456789012345678901234567890123456789\n",
         "t.yaml:3: 'items[0].name' 40 bytes expected 31"},
        {"format: x\n---\nformat: y\n", "t.yaml:2: second document expected"},
        {"format: &a x\nsize: *a\n", "t.yaml:1: anchor '&a' expected neither anchors aliases"},
        {"format: x\nsize: *a\n", "t.yaml:2: alias '*a' expected neither anchors aliases"},
        {"format: !!binary eA==\n", "t.yaml:1: tag 'tag:yaml.org,2002:binary' expected none"},
        {"format: \"a\\0b\"\n", "t.yaml:1: 'format' 0 byte expected text"},
        {"\"for\\0mat\": x\n", "t.yaml:1: key 0 byte expected text"},
        {"? [a, b]\n: c\n", "t.yaml:1: list mapping key expected word"},
        {"format: x\n\tsize: 1\n", "t.yaml:2: YAML tab character violates indentation"},
        {"ranks: [x\n", "t.yaml:2: YAML expected ',' ']'"},
        {"%YAML 2.0\n---\nformat: x\n", "t.yaml:1: YAML incompatible YAML document"},
        {"format: x\nsize: \xff\xfe\n", "t.yaml:2: YAML invalid leading UTF-8 octet"},
        {"format: x\nsize: \x01\n", "t.yaml:2: YAML control characters"},
        {"\xff\xfe"
         "f",
         "t.yaml:1: YAML invalid leading UTF-8 octet"},
        {"\x7f"
         "ELF\x02",
         "t.yaml:1: YAML control characters"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct doc *doc = NULL;
        assert_error(load(cases[i][0], strlen(cases[i][0]), &doc), ERR_INPUT);
        assert_words(err.text, cases[i][1]);
        assert_string_equal(err.file, "t.yaml");
        assert_null(doc);
    }
}

/* Nine levels of nine aliases would be 3.9e8 scalars, with a schema or without one. */
TEST(alias_bomb)
{
    static const char want[] = "bomb:1 anchor '&a' expected neither anchors aliases";
    char text[1024] = "a: &a [x,x,x,x,x,x,x,x,x]\n";
    struct yaml y;

    for (char c = 'b'; c < 'j'; c++) {
        size_t used = strlen(text);
        used += (size_t)sprintf(text + used, "%c: &%c [", c, c);
        for (int i = 0; i < 9; i++)
            used += (size_t)sprintf(text + used, "*%c%s", c - 1, i < 8 ? "," : "]\n");
    }
    double start = tick_cpu_s();
    yaml_take(&y, "bomb", mem_dup(text), (int64_t)strlen(text));
    assert_int_equal(yaml_format(&y, "x/1", &err), -1);
    struct doc *doc = NULL;
    assert_refused(yaml_load(&y, &schema, (void **)&doc, &err), want);
    assert_true(tick_cpu_s() - start < 1);
    yaml_release(&y);
}

static void nested(const char *open, size_t times, const char *want)
{
    size_t n = strlen(open);
    char *text = mem_new(n * times + 20, 1);
    struct doc *doc = NULL;

    strcpy(text, "extra: ");
    for (size_t i = 0; i < times; i++)
        memcpy(text + 7 + i * n, open, n);
    double start = tick_cpu_s();
    assert_refused(load(text, strlen(text), &doc), want);
    assert_true(tick_cpu_s() - start < 1);
    mem_free(text);
}

TEST(deep)
{
    nested("[", 100000, "t.yaml:1: nested 32 expected");
    nested("{a: ", 100000, "t.yaml:1: nested 32 expected");
    nested("- ", 10, "t.yaml:1: YAML block sequence entries");
}

TEST(huge)
{
    size_t items = 1000000, used = 0;
    char *text = mem_new(items * 2 + 64, 1);
    struct doc *doc = NULL;

    used = (size_t)sprintf(text, "format: x\nranks: [");
    for (size_t i = 0; i < items; i++)
        used += (size_t)sprintf(text + used, "%s", "0,");
    strcpy(text + used, "0]\n");
    assert_refused(load(text, strlen(text), &doc),
                   "t.yaml:2: 'ranks' 1000001 items expected 1000000");
    mem_free(text);

    /* A key of a megabyte: the message stays one bounded line. */
    text = mem_new(1 << 20, 1);
    memset(text, 'k', (1 << 20) - 1);
    memcpy(text, "? ", 2);
    assert_int_equal(load(text, strlen(text), &doc), -1);
    assert_true(strlen(err.text) < sizeof err.text);
    mem_free(text);
    assert_refused(yaml_read(&(struct yaml){0}, "/dev/zero", &err),
                   "'/dev/zero' has more than 16777216 bytes");
    assert_error(yaml_read(&(struct yaml){0}, "/nonexistent/a", &err), ERR_ABSENT);
}

TEST(places)
{
    static const char text[] = "format: p/2\n"
                               "items:\n"
                               "  - name: a\n"
                               "\n"
                               "  - name: b\n"
                               "    rate_Bps: 12abc\n"
                               "ranks: [1,\n"
                               "  2]\n";
    static const struct {
        const char *path;
        int line;
    } lines[] =
        LIST({"format", 1}, {"items", 2}, {"items[1]", 5}, {"items[1].rate_Bps", 6},
             {"items[1].absent", 5}, {"ranks[1]", 8}, {"ranks[7]", 7}, {"rank", 1}, {"", 1});
    struct yaml y;

    yaml_take(&y, "p.yaml", mem_dup(text), (int64_t)strlen(text));
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
        assert_int_equal(yaml_fail(&y, lines[k].path, &err, "is wrong"), -1);
        assert_int_equal(err.line, lines[k].line);
    }
    assert_ok(yaml_format(&y, "p/2", &err));
    assert_refused(yaml_format(&y, "p/1", &err), "p.yaml:1: 'format' 'p/2' expected 'p/1'");
    yaml_release(&y);
    yaml_take(&y, "<doc>", mem_dup("<system version='1'>\n"), 21);
    assert_refused(yaml_format(&y, "p/1", &err),
                   "<doc>:1 'format' missing expected '<system version='1'>'");
    yaml_release(&y);
}

/* Every getter: what it takes, what it leaves alone, and the words about what it refuses. */
TEST(getters)
{
    static const char text[] = "word: w\n"
                               "bad: \"a\\tb\"\n"
                               "i: 80e9\n"
                               "f: 1.5\n"
                               "colour: red\n"
                               "list: [1, 2,\n"
                               "  x]\n";
    static const char *const colours[] = {"blue", "red"}, *const others[] = {"true", "false"};
    struct tree t;
    char word[4] = "old";
    int64_t i = 7;
    int n = 7;
    double f = 7;

    assert_ok(tree_parse(&t, "g.yaml", text, (int64_t)strlen(text), &err));
    assert_ok(tree_keys(&t, t.root, "word bad i f colour list? more?", &err));
    assert_refused(tree_keys(&t, t.root, "word bad i f colour", &err),
                   "g.yaml:6: 'list' unknown key expected word, bad, i, f, colour");
    assert_refused(tree_keys(&t, t.root, "word bad i f colour list more", &err),
                   "g.yaml:1: 'more' missing");
    const struct tree_node *list = tree_get(t.root, "list"), *absent = tree_get(list, "more");
    assert_null(absent);
    assert_ok(tree_word(&t, absent, word, sizeof word, &err));
    assert_ok(tree_i64(&t, absent, 0, 1, &i, &err));
    assert_ok(tree_f64(&t, absent, 0, 1, &f, &err));
    assert_ok(tree_choice(&t, absent, colours, 2, &n, &err));
    assert_ok(tree_list(&t, absent, 1, 1, &err));
    assert_true(i == 7 && f == 7 && n == 7 && strcmp(word, "old") == 0);

    assert_ok(tree_word(&t, tree_get(t.root, "word"), word, sizeof word, &err));
    assert_string_equal(word, "w");
    assert_refused(tree_word(&t, tree_get(t.root, "bad"), word, sizeof word, &err),
                   "g.yaml:2: 'bad' control character expected text");
    assert_refused(tree_word(&t, tree_get(t.root, "i"), word, sizeof word, &err),
                   "g.yaml:3: 'i' 4 bytes expected 3");
    assert_ok(tree_i64(&t, tree_get(t.root, "i"), 0, INT64_MAX, &i, &err));
    assert_true(i == 80000000000);
    assert_refused(tree_int(&t, tree_get(t.root, "i"), 0, 9, &n, &err),
                   "g.yaml:3: 'i' '80e9' expected whole number 0 9");
    assert_ok(tree_f64(&t, tree_get(t.root, "f"), 0, 2, &f, &err));
    assert_true(f == 1.5);
    assert_refused(tree_f64(&t, tree_get(t.root, "f"), 0, 1, &f, &err),
                   "g.yaml:4: 'f' '1.5' expected number 0 1");
    assert_ok(tree_choice(&t, tree_get(t.root, "colour"), colours, 2, &n, &err));
    assert_int_equal(n, 1);
    assert_refused(tree_choice(&t, tree_get(t.root, "colour"), others, 2, &n, &err),
                   "g.yaml:5: 'colour' 'red' expected one of: true, false");
    assert_ok(tree_list(&t, list, 1, 3, &err));
    assert_refused(tree_list(&t, tree_get(t.root, "f"), 1, 3, &err),
                   "g.yaml:4: 'f' '1.5' expected list");
    assert_refused(tree_int(&t, list->last, 0, 9, &n, &err),
                   "g.yaml:7: 'list[2]' 'x' expected whole number 0 9");
    assert_refused(tree_int(&t, list, 0, 9, &n, &err), "g.yaml:6: 'list' list expected single");
    tree_release(&t);
}

/* JSON as the same tree: what RFC 8259 has, and nothing else. */
TEST(json)
{
    static const char *const good[] =
        LIST("{\"a\": [1, -2.5e+3, \"x\\u00e4\", true, null, {}]}", "[]", "0", "\"\"", " 7 ",
             "[\"\\ud83d\\ude00\"]", "[1e5, 1E-5]");
    static const char *const bad[] =
        LIST("{\"a\":1,}", "[1 2]", "[01]", "[1.]", "[.5]", "[+1]", "[1e]", "[nan]", "[NaN]",
             "[tru]", "{a: 1}", "{'a': 1}", "[1] 2", "[\"\\x41\"]", "[\"\n\"]", "[\"\xff\"]",
             "[1,]", "{\"a\" 1}", "[", "", "# a\n1", "[\"\\ud83d\"]", "-", "- 1");
    static const char row[] = "{\"text\": \"12\",\n \"number\": 12, \"none\": null,\n"
                              " \"map\": {\"a\": false}, \"number\": 3}";
    const char *text = NULL;
    struct tree t;
    int64_t i = 7;
    int is = 7;

    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        assert_ok(tree_parse_json(&t, "t.json", 1, good[k], (int64_t)strlen(good[k]), &err));
        tree_release(&t);
    }
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        if (tree_parse_json(&t, "t.json", 1, bad[k], (int64_t)strlen(bad[k]), &err) == 0)
            fail_msg("'%s' is taken", bad[k]);
        assert_words(err.text, "t.json: not JSON: expected byte");
    }
    assert_ok(tree_parse_json(&t, "t.json", 5, row, sizeof row - 1, &err));
    assert_refused(tree_keys(&t, t.root, "text number none map", &err),
                   "t.json:7: 'number' twice line 6 expected once");
    assert_ok(tree_text(&t, tree_get(t.root, "text"), 0, 9, &text, &err));
    assert_string_equal(text, "12");
    assert_refused(tree_i64(&t, tree_get(t.root, "text"), 0, 99, &i, &err),
                   "t.json:5: 'text' text '12' expected number");
    assert_refused(tree_text(&t, tree_get(t.root, "number"), 0, 9, &text, &err),
                   "t.json:6: 'number' 12 expected text");
    assert_ok(tree_i64(&t, tree_get(t.root, "number"), 0, 99, &i, &err));
    assert_int_equal(i, 12);
    assert_null(tree_get(t.root, "none"));
    const struct tree_node *a = tree_get(tree_get(t.root, "map"), "a");
    assert_ok(tree_bool(&t, a, &is, &err));
    assert_int_equal(is, 0);
    assert_refused(tree_bool(&t, tree_get(t.root, "text"), &is, &err),
                   "t.json:5: 'text' text expected true or false");
    tree_release(&t);
}

static void put_one(const char *text, const char *want)
{
    FILE *f = unit_stream();

    fputs("format: ", f);
    yaml_put_text(f, text);
    putc('\n', f);
    char *out = unit_text(f);
    assert_memory_equal(out + 8, want, strlen(want));
    assert_int_equal(out[8 + strlen(want)], '\n');
    struct doc *doc = NULL;
    assert_ok(load(out, strlen(out), &doc));
    if (!strchr(want, (char)0xef))
        assert_string_equal(doc->format, text);
    yaml_drop(&schema, doc);
    free(out);
}

TEST(output)
{
    static const double values[] = {0,
                                    1,
                                    -1,
                                    0.1,
                                    1e-6,
                                    12e-6,
                                    59822000.5,
                                    25e9,
                                    1e15,
                                    1e22,
                                    1.0 / 3,
                                    5e-324,
                                    1.7976931348623157e308};

    put_one("node0", "node0");
    put_one("p/1", "p/1");
    put_one("", "\"\"");
    put_one("no", "\"no\"");
    put_one("True", "\"True\"");
    put_one("12", "\"12\"");
    put_one("a: b", "\"a: b\"");
    put_one("q\"\\\n\t\x7f", "\"q\\\"\\\\\\n\\x09\\x7f\"");
    put_one("gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\"");
    put_one("\xc2\x85\xe2\x80\xa8", "\"\\x85\\u2028\"");
    put_one("\xff", "\"\xef\xbf\xbd\"");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[64] = "";
        FILE *f = fmemopen(text, sizeof text, "w");
        yaml_put_f64(f, values[i]);
        fclose(f);
        assert_true(strtod(text, NULL) == values[i]);
        if (strchr(text, 'e'))
            assert_non_null(strchr(text, '.'));
    }
}
