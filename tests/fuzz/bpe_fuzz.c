/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of a tokenizer's files: a line of JSON, the vocabulary, and behind
 * it the merges.  What was accepted has to encode the bytes themselves, and give them back. */
#include "reader_fuzz.h"

#include "base/io.h"
#include "token/token.h"

static void check(struct tokenizer *b, const uint8_t *data, size_t bytes)
{
    struct tokenizer_stream stream = {0};
    int32_t *ids = NULL;
    struct err err;
    int64_t count = tokenizer_encode(b, (const char *)data, (int64_t)bytes, 0, &ids, &err);
    size_t at = 0;

    assert(count >= 0 && (size_t)count <= bytes);
    for (int64_t i = 0; i < count; i++) {
        int64_t n = 0;
        const char *p = tokenizer_decode(b, &stream, ids[i], &n);
        assert(p && n > 0 && at + (size_t)n <= bytes);
        assert(memcmp(p, data + at, (size_t)n) == 0);
        at += (size_t)n;
    }
    assert(at == bytes);
    mem_free(ids);
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct tokenizer *b = NULL;
    struct err err = {0};

    const uint8_t *end = bytes ? memchr(data, '\n', bytes) : NULL;
    size_t first = end ? (size_t)(end - data) : bytes, skip = first + (end != NULL);
    char *vocab = fuzz_copy(data, first), *merges = fuzz_copy(data + skip, bytes - skip);
    int rc = tokenizer_parse_gpt2(&b, FUZZ_NAME, vocab, (int64_t)first, FUZZ_NAME, merges,
                                  (int64_t)(bytes - skip), &err);
    mem_free(vocab);
    mem_free(merges);
    if (fuzz_judge(rc, &err)) {
        assert(!b);
        return 0;
    }
    check(b, data, bytes);
    tokenizer_close(b);
    return 1;
}

/* The two files as one, a line of JSON and the merges: all of these, and the first. */
static void add_pairs(fuzz_add_f *add)
{
    char *vocab = NULL, *merges = NULL, *both = NULL;
    int64_t bytes = 0;
    struct err err;
    int rc = io_read_text("tests/data/bpe/encoder.json", FUZZ_MAX, &vocab, &bytes, &err) ||
             io_read_text("tests/data/bpe/vocab.bpe", FUZZ_MAX, &merges, &bytes, &err);

    assert(rc == 0);
    for (int few = 0; few < 2; few++) {
        int n = asprintf(&both, "%s\n%.*s", vocab, (int)bytes, merges);
        assert(n > 0);
        add(both, (size_t)n);
        free(both);
        bytes = strchr(merges + 100, '\n') + 1 - merges;
    }
    mem_free(merges);
    mem_free(vocab);
}

FUZZ_SET(.name = "bpe", .longest = 32768, .cases = 2000, .ends = " \n:,{}\"",
         .words = FUZZ_LIST("0", "-1", "999", "1000", "1e3", "9223372036854775808", "\"a\"",
                            "\"\\u0120\"", "\"\\u0000\"", "\xc4\xa0", "\xff", "t", "h",
                            "#version: 0.2", "<|endoftext|>", "", "{", "}", "\n"),
         .more = add_pairs);
