/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests JSON Lines: what a line is, plain and compressed, and what is wrong with one. */
#include "unit.h"

#include "data_fixture.h"

#include <zlib.h>
#include <zstd.h>

#include "base/rng.h"
#include "data/data_jsonl.h"

static const char LINES[] = "{\"text\": \"one\\u00e9\\n\"}\n"
                            "\n   \t\r\n"
                            "{\"id\": {\"a\": [1, null]}, \"messages\": [{\"role\": \"user\", "
                            "\"content\": \"hi\", \"x\": 1.5e3}, {\"content\": \"\", "
                            "\"role\": \"assistant\"}], \"n\": -1}\r\n"
                            "{\"text\": \"\\u0000\"}"; /* no end of line */

static void check_lines(const char *path)
{
    struct jsonl j;

    assert_ok(jsonl_open(&j, path, &err));
    assert_int_equal(jsonl_next(&j, &err), 1);
    assert_true(j.messages == 1 && !j.message[0].role && j.message[0].bytes == 6);
    assert_string_equal(j.message[0].text, "one\303\251\n");
    assert_int_equal(jsonl_next(&j, &err), 1);
    assert_true(j.messages == 2 && j.line == 4);
    assert_string_equal(j.message[0].role, "user");
    assert_string_equal(j.message[0].text, "hi");
    assert_string_equal(j.message[1].role, "assistant");
    assert_int_equal(j.message[1].bytes, 0);
    assert_int_equal(jsonl_next(&j, &err), 1);
    assert_true(j.messages == 1 && j.message[0].bytes == 1 && !j.message[0].text[0]);
    assert_ok(jsonl_next(&j, &err));
    assert_ok(jsonl_next(&j, &err));
    assert_int_equal(j.bytes, sizeof LINES - 1);
    jsonl_close(&j);
}

static const char *put_gzip(const char *name, const char *text, size_t bytes, const char *mode)
{
    const char *path = in_folder(name);
    gzFile f = gzopen(path, mode);

    assert_int_equal(gzwrite(f, text, (unsigned)bytes), bytes);
    assert_int_equal(gzclose(f), Z_OK);
    return path;
}

/* The text as two frames of zstd, of which the last `cut` bytes are missing. */
static const char *put_zstd(const char *name, const char *text, size_t bytes, size_t cut)
{
    size_t space = 2 * ZSTD_compressBound(bytes), half = bytes / 2;
    char *packed = mem_new(space, 1);
    size_t n = ZSTD_compress(packed, space, text, half, 3);

    n += ZSTD_compress(packed + n, space - n, text + half, bytes - half, 3);
    const char *path = put(name, packed, n - cut);
    mem_free(packed);
    return path;
}

TEST(lines_of_plain_gzip_and_zstd_files)
{
    check_lines(put("a.jsonl", LINES, sizeof LINES - 1));
    check_lines(put_gzip("a.jsonl.gz", LINES, sizeof LINES - 1, "wb"));
    check_lines(put_zstd("a.jsonl.zst", LINES, sizeof LINES - 1, 0));
    /* By content: a name does not make it one. */
    check_lines(put("b.jsonl.gz", LINES, sizeof LINES - 1));
    assert_true(jsonl_is("x.jsonl") && jsonl_is("d/x.ndjson.zst") && !jsonl_is(".jsonl") &&
                !jsonl_is("x.json") && !jsonl_is("x.jsonl.bz2") && !jsonl_is("x.txt"));
}

static void check_bad(const char *path, int good, const char *said)
{
    struct jsonl j;
    int rc = jsonl_open(&j, path, &err);

    if (rc == 0) {
        while ((rc = jsonl_next(&j, &err)) > 0)
            good--;
        jsonl_close(&j);
        assert_int_equal(good, 0);
    }
    assert_int_equal(rc, -1);
    if (!strstr(err.text, said))
        fail_msg("'%s', expected '%s' in it", err.text, said);
}

TEST(a_list_of_objects)
{
    static const char list[] =
        " [\n{\"text\": \"a]},\\\"{[\", \"x\": [{}]}\n , {\"text\":\"b\"}]\n";
    static const struct {
        const char *text, *said;
    } bad[] = {{"[{\"text\": \"a\"} {}]", ":2: expected ',' or ']'"},
               {"[{\"text\": \"a\"}", ":2: the list has no end"},
               {"[{\"text\": \"a\"},]", ":2: no object"},
               {"[{\"text\": \"a\"}, 5]", ":2: no object"},
               {"[{\"text\": \"a\"}, {\"text\"}]", ":2: is not JSON: expected ':' at byte 7"}};
    const char *paths[] = {put("a.json", list, sizeof list - 1),
                           put_gzip("a.json.gz", list, sizeof list - 1, "wb")};
    struct jsonl j;

    for (int i = 0; i < 2; i++) {
        assert_true(jsonl_is(paths[i]));
        assert_ok(jsonl_open(&j, paths[i], &err));
        assert_int_equal(jsonl_next(&j, &err), 1);
        assert_string_equal(j.message[0].text, "a]},\"{[");
        assert_int_equal(jsonl_next(&j, &err), 1);
        assert_string_equal(j.message[0].text, "b");
        assert_true(jsonl_next(&j, &err) == 0 && jsonl_next(&j, &err) == 0);
        jsonl_close(&j);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_bad(put("bad.json", bad[i].text, strlen(bad[i].text)), 1, bad[i].said);
    assert_ok(jsonl_open(&j, put("none.json", "[ ]", 3), &err));
    assert_true(jsonl_next(&j, &err) == 0 && jsonl_next(&j, &err) == 0);
    jsonl_close(&j);
    assert_false(jsonl_is(put("tree.json", "{}", 2)));
}

/* Lines longer than what is read at once, and ends at every place of it. */
TEST(long_lines)
{
    enum { MOST = 200000 };
    char *text = mem_new(4 * MOST, 1), *p = text;
    int length[20];

    for (int i = 0; i < 20; i++) {
        length[i] = (int)(rng_u64(4, 0, (uint64_t)i) % (i % 2 ? 30 : MOST / 8));
        p += sprintf(p, "{\"text\":\"");
        for (int k = 0; k < length[i]; k++)
            *p++ = (char)('a' + (i + k) % 26);
        p += sprintf(p, "\"}\n");
    }
    const char *paths[2];
    paths[0] = put("long.jsonl", text, (size_t)(p - text));
    paths[1] = put_gzip("long.jsonl.gz", text, (size_t)(p - text), "wb");
    for (int f = 0; f < 2; f++) {
        struct jsonl j;
        assert_ok(jsonl_open(&j, paths[f], &err));
        for (int i = 0; i < 20; i++) {
            assert_int_equal(jsonl_next(&j, &err), 1);
            assert_int_equal(j.message[0].bytes, length[i]);
            for (int k = 0; k < length[i]; k++)
                assert_int_equal(j.message[0].text[k], 'a' + (i + k) % 26);
        }
        assert_ok(jsonl_next(&j, &err));
        jsonl_close(&j);
    }
    mem_free(text);
}

/* Each line as "role: text|role: text|". */
TEST(lines_as_several_trainers_write_them)
{
    static const struct {
        const char *line, *want;
    } cases[] = {
        /* ShareGPT */
        {"{\"id\": \"1\", \"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, "
         "{\"from\": \"gpt\", \"value\": \"b\"}]}",
         "human: a|gpt: b|"},
        {"{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}], \"system\": \"s\"}",
         "system: s|human: a|"},
        /* Alpaca */
        {"{\"instruction\": \"i\", \"input\": \"\", \"output\": \"o\"}",
         "user: i|assistant: o|"},
        {"{\"output\": \"o\", \"input\": \"x\", \"instruction\": \"i\", \"system\": null}",
         "user: i\nx|assistant: o|"},
        /* OpenAI's first, and TRL's of two lists */
        {"{\"prompt\": \"p\", \"completion\": \" c\"}", "prompt: p|completion:  c|"},
        {"{\"prompt\": \"p\", \"response\": \"c\"}", "prompt: p|completion: c|"},
        {"{\"prompt\": [{\"role\": \"user\", \"content\": \"p\"}], \"completion\": "
         "[{\"role\": \"assistant\", \"content\": \"c\"}]}",
         "user: p|assistant: c|"},
        /* Content parts, and calls that there are none of */
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
         "\"a\"}, {\"text\": \"b\", \"type\": \"text\"}]}, {\"role\": \"tool\", "
         "\"tool_calls\": null, \"content\": []}]}",
         "user: ab|tool: |"},
        {"{\"messages\": [{\"role\": \"a\", \"tool_calls\": [ ], \"content\": \"\"}]}", "a: |"},
        /* Keys that are not used decide nothing. */
        {"{\"text\": \"t\", \"instruction\": 5, \"output\": [], \"prompt\": {}, \"prompt\": 1}",
         "-: t|"},
        {"{\"prompt\": \"p\", \"messages\": [{\"role\": \"a\", \"content\": \"b\"}]}", "a: b|"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = put("form.jsonl", cases[i].line, strlen(cases[i].line));
        char got[200] = "";
        struct jsonl j;
        assert_ok(jsonl_open(&j, path, &err));
        if (jsonl_next(&j, &err) != 1)
            fail_msg("%s: %s", cases[i].line, err.text);
        for (int m = 0; m < j.messages; m++)
            sprintf(strchr(got, 0), "%s: %s|", j.message[m].role ? j.message[m].role : "-",
                    j.message[m].text);
        assert_string_equal(got, cases[i].want);
        jsonl_close(&j);
    }
}

TEST(what_is_wrong_with_a_line)
{
    static const struct {
        const char *line, *said;
    } bad[] = {
        {"[]", ":2: is a list, expected an object"},
        {"{\"text\": 5}", ":2: 'text' is 5, expected a text"},
        {"{\"text\": \"a\"", "expected ',' or '}'"},
        {"{\"text\": \"a\"} x", "expected nothing"},
        {"{\"text\": \"\\ud800\"}", "expected"},
        {"{\"prompt\": \"a\"}", ":2: no document, expected the keys text, messages"},
        {"{\"instruction\": \"a\", \"input\": \"b\"}", ":2: no document"},
        {"{\"text\": \"a\", \"text\": \"b\"}", "'text' is given twice"},
        {"{\"text\": \"a\", \"messages\": []}", "expected one"},
        {"{\"messages\": []}", "has 0 items, expected 1 at least"},
        {"{\"messages\": [{\"role\": \"user\"}]}", "without 'role' or 'content'"},
        {"{\"messages\": [{\"content\": \"a\"}]}", "without 'role' or 'content'"},
        {"{\"messages\": [{\"role\": \"user\", \"role\": \"user\", \"content\": \"a\"}]}",
         "a second 'role'"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [\"a\"]}]}",
         "'messages[0].content[0]' is a part of a content that is no text"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}",
         "a part of a content that is no text"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"text\": \"a\"}",
         "expected ',' or ']'"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": "
         "[{\"id\": 1}]}]}",
         "'tool_calls', expected the calls as text"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": "
         "[{\"id\": 1}]}]}",
         "'tool_calls', expected the calls as text"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", "
         "\"function_call\": {\"name\": \"f\"}}]}",
         "'function_call', expected the calls as text"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": null}]}",
         "without 'role' or 'content'"},
        {"{\"messages\": [{\"role\": \"a\", \"content\": \"\"}], \"conversations\": []}",
         "expected one"},
        {"{\"messages\": \"a\"}", "'messages' is 'a', expected a list"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[300];
        int n = snprintf(text, sizeof text, "{\"text\": \"good\"}\n%s\n", bad[i].line);
        check_bad(put("bad.jsonl", text, (size_t)n), 1, bad[i].said);
    }
    check_bad(in_folder("none.jsonl"), 0, "cannot open");
    /* Nesting without end is an error, and no overflow. */
    char *deep = mem_new(200010, 1);
    strcpy(deep, "{\"x\": ");
    memset(deep + 6, '[', 200000);
    check_bad(put("deep.jsonl", deep, 200006), 0, "expected");
    mem_free(deep);
}

TEST(damaged_and_cut_files)
{
    char packed[sizeof LINES + 100];
    FILE *f = fopen(put_gzip("whole.jsonl.gz", LINES, sizeof LINES - 1, "wb0"), "r");
    size_t n = fread(packed, 1, sizeof packed, f);

    fclose(f);
    check_bad(put("cut.jsonl.gz", packed, n - 9), 0, "unexpected end of file");
    packed[n - 6] ^= 1; /* of the checksum */
    check_bad(put("sum.jsonl.gz", packed, n), 0, "damaged, expected gzip");
    check_bad(put_zstd("cut.jsonl.zst", LINES, sizeof LINES - 1, 3), 1, "within a zstd frame");
    memset(packed, 0xff, 64);
    memcpy(packed, "\x28\xb5\x2f\xfd", 4);
    check_bad(put("bad.jsonl.zst", packed, 64), 0, "unpacked, expected zstd");
}
