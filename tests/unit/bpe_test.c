/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests byte-pair encoding: the tokens of tests/reference/dump_bpe.py, by a small vocabulary
 * and (where the environment's PARO_TOKENIZER names a folder with them) by GPT-2's own files;
 * any bytes and back; wrong files.
 */
#include "unit.h"

#include "base/io.h"
#include "base/rng.h"
#include "token/token.h"
#include "words_fixture.h"

#define SMALL "tests/data/bpe"

static struct tokenizer *open_small(void)
{
    struct tokenizer *b = NULL;

    assert_ok(tokenizer_open(&b, SMALL, &err));
    return b;
}

/* The tokens of a text into ids, which has room for them. */
static int64_t encode(struct tokenizer *b, const char *text, int64_t bytes, int32_t *ids)
{
    int32_t *found = NULL;
    int64_t count = tokenizer_encode(b, text, bytes, 0, &found, &err);

    assert_in_range(count, 0, bytes);
    if (count)
        memcpy(ids, found, (size_t)count * sizeof *ids);
    mem_free(found);
    return count;
}

static size_t unhex(const char *hex, size_t digits, char *to)
{
    for (size_t i = 0; i + 1 < digits; i += 2) {
        unsigned byte = 0;
        assert_int_equal(sscanf(hex + i, "%2x", &byte), 1);
        to[i / 2] = (char)byte;
    }
    return digits / 2;
}

/* The bytes that ids stand for are the text's. */
static void assert_returns(struct tokenizer *b, const int32_t *ids, int64_t count,
                           const char *text, int64_t bytes)
{
    struct tokenizer_stream stream = {0};
    int64_t at = 0;

    for (int64_t i = 0; i < count; i++) {
        int64_t n = 0;
        const char *p = tokenizer_decode(b, &stream, ids[i], &n);
        assert_non_null(p);
        assert_true(n > 0 && at + n <= bytes);
        assert_memory_equal(p, text + at, n);
        at += n;
    }
    assert_int_equal(at, bytes);
}

static void check_dump(struct tokenizer *b, const char *path)
{
    static char line[1 << 16], text[1 << 15];
    static int32_t ids[1 << 15];
    int lines = 0;
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        size_t digits = strcspn(line, " \n");
        size_t bytes = line[0] == '-' ? 0 : unhex(line, digits, text);
        int64_t count = encode(b, text, (int64_t)bytes, ids), i = 0;
        char *p = line + digits, *end;
        lines++;
        for (long id = strtol(p, &end, 10); end != p; id = strtol(p = end, &end, 10), i++)
            if (i >= count || ids[i] != id)
                fail_msg("%s:%d: token %ld is %d of %ld, expected %ld", path, lines, (long)i,
                         i < count ? ids[i] : -1, (long)count, id);
        if (i != count)
            fail_msg("%s:%d: %ld tokens, expected %ld", path, lines, (long)count, (long)i);
        assert_returns(b, ids, count, text, (int64_t)bytes);
    }
    fclose(f);
    assert_true(lines > 200);
}

TEST(tokens_are_the_other_librarys)
{
    struct tokenizer *b = open_small();

    check_dump(b, SMALL "/small.dump");
    tokenizer_close(b);
}

TEST(tokens_by_gpt2s_files)
{
    const char *dir = getenv("PARO_TOKENIZER");
    struct tokenizer *b = NULL;

    if (!dir || !*dir)
        skip();
    assert_ok(tokenizer_open(&b, dir, &err));
    assert_int_equal(tokenizer_count(b), 50257);
    assert_int_equal(tokenizer_end(b), 50256);
    check_dump(b, SMALL "/gpt2.dump");
    tokenizer_close(b);
}

/* Bytes at random, few of them UTF-8, and at the edges of a text and of a run. */
TEST(any_bytes_return)
{
    enum { MAX = 200 };
    char text[MAX];
    int32_t ids[MAX];
    struct tokenizer *b = open_small();

    for (uint64_t c = 0; c < 3000; c++) {
        int64_t bytes = (int64_t)(rng_u64(1, c, 0) % (MAX + 1));
        for (int64_t i = 0; i < bytes; i++) {
            uint64_t r = rng_u64(1, c, (uint64_t)i + 1);
            /* Half of the cases are of bytes that often make whole characters. */
            text[i] = c % 2 ? (char)r : "a \xc3\xa9\xe4\xbd\xa0\xf0\x9f\x98\x80\n'"[r % 14];
        }
        int64_t count = encode(b, text, bytes, ids);
        assert_in_range(count, bytes ? 1 : 0, bytes);
        assert_returns(b, ids, count, text, bytes);
    }
    for (int i = 0; i < 256; i++) { /* each byte alone has a token of its own */
        text[0] = (char)i;
        assert_int_equal(encode(b, text, 1, ids), 1);
        assert_returns(b, ids, 1, text, 1);
    }
    tokenizer_close(b);
}

/* Text before or behind bytes that are no UTF-8 is cut as if the text ended there. */
TEST(bytes_that_are_none)
{
    static const char text[] = "you \xff\xfe you\xe4\xbd";
    static const char *const parts[] = {"you ", "\xff\xfe", " you", "\xe4\xbd"};
    int32_t ids[32], part[32];
    struct tokenizer *b = open_small();
    int64_t count = encode(b, text, sizeof text - 1, ids), at = 0;

    for (int i = 0; i < 4; i++) {
        int64_t n = encode(b, parts[i], (int64_t)strlen(parts[i]), part);
        assert_memory_equal(part, ids + at, (size_t)n * sizeof *part);
        at += n;
    }
    assert_int_equal(at, count);
    tokenizer_close(b);
}

/* Words of any length: linear in memory, and no worse than n log n in time. */
TEST(long_words)
{
    enum { BYTES = 3 << 20 }; /* above the length at which a word is cut */
    static const char letters[] = {'a', ' ', '\n', '\xff'};
    char *text = mem_new(BYTES, 1);
    int32_t *ids = mem_new(BYTES, sizeof *ids);
    struct tokenizer *b = open_small();

    for (int i = 0; i < 4; i++) {
        memset(text, letters[i], BYTES);
        assert_returns(b, ids, encode(b, text, BYTES, ids), text, BYTES);
    }
    mem_free(text);
    mem_free(ids);
    tokenizer_close(b);
}

TEST(what_is_no_token)
{
    struct tokenizer *b = open_small();
    struct tokenizer_stream stream = {0};
    int64_t n = 0;

    assert_null(tokenizer_decode(b, &stream, -1, &n));
    assert_null(tokenizer_decode(b, &stream, tokenizer_count(b), &n));
    assert_non_null(tokenizer_decode(b, &stream, tokenizer_count(b) - 1, &n));
    assert_true(tokenizer_end(b) >= 0);
    tokenizer_close(b);
}

/* The small vocabulary's text with the first `from` in it replaced, and the key words of the
 * message. */
static void refused(const char *vocab_from, const char *vocab_to, const char *merges,
                    const char *words)
{
    char *vocab = NULL, *old = NULL;
    int64_t bytes = 0, old_bytes = 0;
    struct tokenizer *b = NULL;

    assert_ok(io_read_text(SMALL "/encoder.json", 1 << 20, &vocab, &bytes, &err));
    assert_ok(io_read_text(SMALL "/vocab.bpe", 1 << 20, &old, &old_bytes, &err));
    if (vocab_from) {
        char *at = strstr(vocab, vocab_from), *new = NULL;
        assert_non_null(at);
        assert_true(asprintf(&new, "%.*s%s%s", (int)(at - vocab), vocab, vocab_to,
                             at + strlen(vocab_from)) > 0);
        mem_free(vocab);
        vocab = mem_dup(new);
        free(new);
    }
    if (!merges)
        merges = old;
    assert_int_equal(tokenizer_parse_gpt2(&b, "v", vocab, (int64_t)strlen(vocab), "m", merges,
                                          (int64_t)strlen(merges), &err),
                     -1);
    assert_null(b);
    assert_int_equal(err.code, ERR_INPUT);
    assert_words(err.text, words);
    mem_free(vocab);
    mem_free(old);
}

TEST(wrong_files)
{
    struct tokenizer *b = NULL;

    refused("\"a\":", "\"zzz\":", "", "v: byte 0x61");
    refused("\"!\":1,", "\"!\":2,", NULL, "v:1: '\"' token 2, '!'");
    refused("\"!\":1,", "\"!\":-1,", NULL, "v:1: '!' whole number");
    refused("\"!\":1,", "\"!\":\"1\",", NULL, "v:1: '!' number");
    refused("\"!\":1,", "\"!\":1,\"!\":1,", NULL, "v:1: '!' token 1, '!'");
    refused("\"!\":1,", "\"!\":1,\"!\":1001,", NULL, "v:1: '!' twice");
    refused(NULL, NULL, "#version: 0.2\nt h\nth\n", "m:3: merge, two tokens");
    refused(NULL, NULL, "t h\nt  h\n", "m:2: merge, two tokens");
    refused(NULL, NULL, "t h\n\n", "m:2: merge, two tokens");
    refused(NULL, NULL, "t h\r\n", "m:1: 'h?' vocabulary");
    refused(NULL, NULL, "t h\nt qq\n", "m:2: 'qq' vocabulary");
    refused(NULL, NULL, "t h\nq j\n", "m:2: 'qj' vocabulary");
    assert_error(tokenizer_open(&b, "tests/data", &err), ERR_ABSENT);
    assert_words(err.text, "'tests/data' vocabulary, encoder.json vocab.json");
}
