/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests files of tokens: each format told by its content, read as written, refused when wrong.
 */
#include "unit.h"

#include "data_fixture.h"

#include <sys/stat.h>

#include "data/data.h"
#include "words_fixture.h"

enum { LLMC_HEAD = 1024, IDX_HEAD = 34 };

static void opened(struct source *s, const char *path, enum source_format format,
                   int64_t tokens)
{
    assert_ok(source_open(s, path, &err));
    assert_int_equal(s->format, format);
    assert_int_equal(s->tokens, tokens);
    assert_string_equal(source_format_name(s->format), source_format_name(format));
}

static void refused(const char *path, const char *fmt, ...)
{
    struct source s = {.tokens = 77};
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    assert_refused(source_open(&s, path, &err), text);
    assert_int_equal(s.tokens, 77);
}

static void assert_tokens(struct source *s, const int32_t *expected, int n)
{
    int32_t got[16];

    assert_ok(source_read(s, 0, n, got, &err));
    assert_memory_equal(got, expected, (size_t)n * sizeof *got);
    assert_ok(source_read(s, 1, n - 1, got, &err));
    assert_memory_equal(got, expected + 1, (size_t)(n - 1) * sizeof *got);
    source_close(s);
}

/* An llm.c file of three tokens; bytes are cut or added by the caller. */
static size_t make_llmc(unsigned char *p, uint32_t magic, uint32_t version, uint32_t count,
                        int size)
{
    static const uint32_t token[] = {5, 50256, 100000};

    memset(p, 0, LLMC_HEAD);
    put_le(put_le(put_le(p, magic, 4), version, 4), count, 4);
    for (int i = 0; i < 3; i++)
        put_le(p + LLMC_HEAD + i * size, token[i], size);
    return LLMC_HEAD + 3 * (size_t)size;
}

TEST(llmc)
{
    unsigned char p[LLMC_HEAD + 16];
    struct source s;

    size_t n = make_llmc(p, 20240520, 1, 3, 2);
    opened(&s, put("any-name", p, n), SOURCE_LLMC, 3);
    assert_tokens(&s, (int32_t[]){5, 50256, 100000 - 65536}, 3);
    refused(put("x", p, n - 1), "'%s' 1029 bytes, 1030 3 tokens of 2 bytes", in_folder("x"));
    refused(put("x", p, n + 2), "'%s' 1032 bytes, 1030 3 tokens of 2 bytes", in_folder("x"));
    refused(put("x", p, 1000), "'%s' 1000 bytes, llm.c's header 1024", in_folder("x"));
    n = make_llmc(p, 20240801, 7, 3, 4);
    opened(&s, put("x.bin", p, n), SOURCE_LLMC, 3);
    assert_tokens(&s, (int32_t[]){5, 50256, 100000}, 3);
    n = make_llmc(p, 20240520, 2, 3, 2);
    refused(put("x", p, n), "'%s' version 2, 1 llm.c's magic 20240520", in_folder("x"));
    n = make_llmc(p, 20240801, 1, 3, 4);
    refused(put("x", p, n), "'%s' version 1, 7 llm.c's magic 20240801", in_folder("x"));
    n = make_llmc(p, 20240522, 1, 3, 2);
    refused(put("x", p, n), "'%s' llm.c's magic 20240522 20240520 20240801", in_folder("x"));
    /* 2^32 - 1 tokens: no number of 32 bits may hold their bytes. */
    n = make_llmc(p, 20240801, 7, UINT32_MAX, 4);
    refused(put("x", p, n), "'%s' 1036 bytes, 17179870204 4294967295 tokens of 4 bytes",
            in_folder("x"));
}

TEST(nanogpt_and_text)
{
    const unsigned char p[] = {1, 0, 2, 1, 255, 255, 7};
    struct source s;

    opened(&s, put("train.bin", p, 6), SOURCE_NANOGPT, 3);
    assert_tokens(&s, (int32_t[]){1, 258, 65535}, 3);
    refused(put("train.bin", p, 7), "'%s' 7 bytes, llm.c .idx two nanoGPT",
            in_folder("train.bin"));
    opened(&s, put("train", p, 7), SOURCE_TEXT, 7);
    assert_tokens(&s, (int32_t[]){1, 0, 2, 1, 255, 255, 7}, 7);
    opened(&s, put("empty", p, 0), SOURCE_TEXT, 0);
    source_close(&s);
    opened(&s, put("empty.bin", p, 0), SOURCE_NANOGPT, 0);
    source_close(&s);
    refused(put("renamed", "MMIDIDX\0\0...", 12), "'%s' Megatron index NAME.idx NAME.bin",
            in_folder("renamed"));
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    refused(in_folder("pipe"), "%s: not a regular file", in_folder("pipe"));
    refused(folder, "%s: not a regular file", folder);
}

struct idx {
    unsigned char at[256];
    size_t bytes;
};

/* Two sequences, of 2 and 1 tokens of `size` bytes, in one document. */
static void make_idx(struct idx *x, int code, int size)
{
    unsigned char *p = x->at;

    memcpy(p, "MMIDIDX\0", 9);
    p = put_le(p + 9, 1, 8);
    p = put_le(p, (uint64_t)code, 1);
    p = put_le(put_le(p, 2, 8), 2, 8);
    p = put_le(put_le(p, 2, 4), 1, 4);
    p = put_le(put_le(p, 0, 8), 2 * (uint64_t)size, 8);
    p = put_le(put_le(p, 0, 8), 2, 8);
    x->bytes = (size_t)(p - x->at);
}

TEST(megatron)
{
    static const struct {
        int code, size;
    } types[] = {{1, 1}, {2, 1}, {3, 2}, {4, 4}, {5, 8}, {8, 2}};
    unsigned char bin[32];
    struct idx x;
    struct source s;

    for (int t = 0; t < 6; t++) {
        int size = types[t].size;
        for (int i = 0; i < 3; i++)
            put_le(bin + i * size, (uint64_t)(100 + i), size);
        make_idx(&x, types[t].code, size);
        put("m.bin", bin, 3 * (size_t)size);
        put("m.idx", x.at, x.bytes);
        static const char *const ways[] = {"m.bin", "m.idx", "m"};
        for (int way = 0; way < 3; way++) {
            opened(&s, in_folder(ways[way]), SOURCE_MEGATRON, 3);
            assert_string_equal(s.path, in_folder("m.bin"));
            assert_tokens(&s, (int32_t[]){100, 101, 102}, 3);
        }
    }
    memset(x.at + x.bytes, 0, 2); /* with a mode for each sequence */
    put("m.idx", x.at, x.bytes + 2);
    opened(&s, in_folder("m"), SOURCE_MEGATRON, 3);
    source_close(&s);
    memcpy(put_le(x.at + 18, 0, 8), "\0\0\0\0\0\0\0", 8); /* neither sequence nor document */
    put("m.idx", x.at, IDX_HEAD);
    put("m.bin", "", 0);
    opened(&s, in_folder("m"), SOURCE_MEGATRON, 0);
    source_close(&s);
}

/* A bin of six bytes beside an index with `bytes` of its bytes from `at` replaced by v. */
static void spoilt(size_t at, uint64_t v, int bytes, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void spoilt(size_t at, uint64_t v, int bytes, const char *fmt, ...)
{
    char text[256];
    struct idx x;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    make_idx(&x, 8, 2);
    put_le(x.at + at, v, bytes);
    put("w.bin", "\1\0\2\0\3\0", 6);
    put("w.idx", x.at, x.bytes);
    refused(in_folder("w"), "'%s%s", in_folder("w.idx"), text);
}

TEST(wrong_idx)
{
    spoilt(0, 'T', 1, "' MMIDIDX, Megatron index");
    spoilt(8, 1, 1, "' MMIDIDX, Megatron index");
    spoilt(9, 2, 8, "' version 2, 1");
    spoilt(17, 6, 1, "' type 6 (float64) 1 to 5 8");
    spoilt(17, 0, 1, "' type 0 (?) 1 to 5 8");
    spoilt(17, 200, 1, "' type 200 (?) 1 to 5 8");
    spoilt(18, 1, 8, "' 74 bytes, 62 1 sequences 2 document bounds");
    spoilt(18, 3, 8, "' 74 bytes, 3 sequences 2 document bounds");
    /* Counts whose bytes wrap around to those that are there. */
    spoilt(18, (UINT64_C(1) << 62) + 2, 8,
           "' 74 bytes, 4611686018427387906 sequences 2 document bounds");
    spoilt(26, (UINT64_C(1) << 61) + 2, 8,
           "' 74 bytes, 2 sequences 2305843009213693954 document bounds");
    spoilt(34, UINT32_MAX, 4, "': sequence 0 -1 tokens, 0");
    spoilt(34, INT32_MAX, 4, "': sequence 0 ends byte 4294967294, '%s' 6 bytes",
           in_folder("w.bin"));
    spoilt(34, 1, 4, "': sequence 1 begins byte 4, 2,");
    spoilt(50, 7, 8, "': sequence 1 begins byte 7, '%s' 6 bytes", in_folder("w.bin"));
    spoilt(50, UINT64_MAX - 1, 8,
           "': sequence 1 begins byte 18446744073709551614, '%s' 6 bytes", in_folder("w.bin"));
    spoilt(38, 2, 4, "': sequence 1 ends byte 8, '%s' 6 bytes", in_folder("w.bin"));
    spoilt(58, 3, 8, "': document bound 0 sequence 3, 0 to 2");
    spoilt(66, 3, 8, "': document bound 1 sequence 3, 0 to 2");
}

TEST(pairs_that_do_not_fit)
{
    struct idx x;

    make_idx(&x, 8, 2);
    put("p.idx", x.at, x.bytes);
    refused(in_folder("p.idx"), "cannot open '%s': No such file", in_folder("p.bin"));
    refused(in_folder("p"), "cannot open '%s': No such file", in_folder("p"));
    put("p.bin", "\1\0\2\0\3\0\4", 7);
    refused(in_folder("p"), "'%s' 7 bytes, 6, '%s'", in_folder("p.bin"), in_folder("p.idx"));
    put("p.bin", "\1\0\2\0\3", 5);
    refused(in_folder("p"), "'%s': sequence 1 ends byte 6, '%s' 5 bytes", in_folder("p.idx"),
            in_folder("p.bin"));
    put("p.idx", x.at, 20);
    refused(in_folder("p"), "'%s' 20 bytes, Megatron header 34", in_folder("p.idx"));
    put("p.idx", x.at, 0);
    refused(in_folder("p"), "'%s' MMIDIDX, Megatron index", in_folder("p.idx"));
}

/* The first token that is not in the vocabulary, wherever it is. */
TEST(vocabulary)
{
    enum { N = 40000 };
    static unsigned char p[2 * N];
    struct source s;
    char text[256];

    for (int at = 0; at < N; at = at * 3 + 1) {
        put_le(p + 2 * (ptrdiff_t)at, 50257, 2);
        opened(&s, put("v.bin", p, sizeof p), SOURCE_NANOGPT, N);
        assert_ok(source_check(&s, 50258, &err));
        assert_ok(source_check(&s, 65536, &err));
        assert_int_equal(source_check(&s, 50257, &err), -1);
        snprintf(text, sizeof text, "'%s': token %d 50257, vocabulary of 50257", s.path, at);
        assert_words(err.text, text);
        put_le(p + 2 * (ptrdiff_t)at, 0, 2);
        source_close(&s);
    }
}

TEST(negative_tokens)
{
    static const struct {
        int code, size;
    } types[] = {{2, 1}, {3, 2}, {4, 4}, {5, 8}};
    unsigned char bin[32];
    struct idx x;
    struct source s;
    char text[256];

    for (int t = 0; t < 4; t++) {
        int size = types[t].size;
        for (int i = 0; i < 3; i++)
            put_le(bin + i * size, i == 1 ? UINT64_MAX - 1 : 100, size);
        make_idx(&x, types[t].code, size);
        put("n.idx", x.at, x.bytes);
        opened(&s, put("n.bin", bin, 3 * (size_t)size), SOURCE_MEGATRON, 3);
        for (int64_t vocab = 101; vocab < INT64_C(1) << 40; vocab *= 20) {
            assert_int_equal(source_check(&s, vocab, &err), -1);
            snprintf(text, sizeof text, "'%s': token 1 -2, 0 vocabulary of %ld", s.path,
                     (long)vocab);
            assert_words(err.text, text);
        }
        source_close(&s);
    }
}

static int encode(const char *text, const char *out, int force, struct encode_done *done)
{
    const struct data_encode e = {
        .text = text, .tokenizer = "tests/data/bpe", .out = out, .force = force};

    return data_encode(&e, done, &err);
}

/* A text that is encoded at opening and one that was before: the same tokens. */
TEST(encoded)
{
    static const char text[] = "It's you <|endoftext|> and \xff you\xc3\xa9\n\n";
    struct tokenizer *t = NULL;
    struct source now, before;
    struct encode_done done;
    int32_t *ids, got[sizeof text];

    assert_ok(tokenizer_open(&t, "tests/data/bpe", &err));
    int64_t n = tokenizer_encode(t, text, sizeof text - 1, 0, &ids, &err);
    assert_true(n > 0);
    put("text", text, sizeof text - 1);
    opened(&now, in_folder("text"), SOURCE_TEXT, sizeof text - 1);
    assert_ok(source_encode(&now, t, NULL, &err));
    assert_int_equal(now.format, SOURCE_ENCODED);
    assert_ok(encode(in_folder("text"), in_folder("e.bin"), 0, &done));
    assert_int_equal(done.tokens, n);
    assert_int_equal(done.bytes, sizeof text - 1);
    opened(&before, in_folder("e.bin"), SOURCE_LLMC, n);
    assert_int_equal(now.tokens, n);
    assert_ok(source_read(&now, 0, n, got, &err));
    assert_memory_equal(got, ids, (size_t)n * sizeof *ids);
    assert_ok(source_read(&before, 0, n, got, &err));
    assert_memory_equal(got, ids, (size_t)n * sizeof *ids);
    source_close(&now);
    source_close(&before);
    opened(&now, put("none", "", 0), SOURCE_TEXT, 0);
    assert_ok(source_encode(&now, t, NULL, &err));
    assert_int_equal(now.tokens, 0);
    source_close(&now);
    mem_free(ids);
    tokenizer_close(t);
}

TEST(encode_refused)
{
    struct encode_done done;
    char text[256];

    put("text", "you", 3);
    put("there", "old", 3);
    put("tokens.bin", "you.", 4);
    assert_int_equal(encode(in_folder("text"), in_folder("there"), 0, &done), -1);
    snprintf(text, sizeof text, "'%s' exists, --force", in_folder("there"));
    assert_words(err.text, text);
    assert_int_equal(encode(in_folder("tokens.bin"), in_folder("there"), 1, &done), -1);
    snprintf(text, sizeof text, "'%s' nanoGPT text", in_folder("tokens.bin"));
    assert_words(err.text, text);
    struct stat st;
    assert_int_equal(stat(in_folder("there"), &st), 0);
    assert_int_equal(st.st_size, 3); /* the old one, whole */
    assert_ok(encode(in_folder("text"), in_folder("there"), 1, &done));
}

/* Sequences with modes and without, documents of one or of several, are spans. */
TEST(spans_of_an_index)
{
    static const int64_t lengths[] = {3, 0, 2, 4};
    struct spans made = {0};
    struct encode_done done = {.tokens = 9};
    struct source s;
    unsigned char bin[18] = {0};

    for (int modes = 0; modes < 2; modes++) {
        int64_t at = 0;
        FILE *f = fopen(in_folder("s.idx"), "w");
        for (int i = 0; i < 4; i++) {
            int kind = (i != 2 ? SPAN_DOCUMENT : 0) | (modes && i % 2 ? SPAN_CONTEXT : 0);
            assert_ok(spans_add(&made, at, kind, &err));
            at += lengths[i];
        }
        assert_ok(encode_idx(&made, done.tokens, SOURCE_U16, f, &err));
        assert_int_equal(fclose(f), 0);
        const char *path = put("s.bin", bin, sizeof bin);
        assert_ok(source_open(&s, path, &err));
        assert_true(s.tokens == 9 && s.spans.count == 4);
        for (int i = 0; i < s.spans.count; i++)
            assert_true(s.spans.begin[i] == made.begin[i] && s.spans.kind[i] == made.kind[i]);
        source_close(&s);
        spans_release(&made);
    }
}
