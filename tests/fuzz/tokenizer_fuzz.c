/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of tokenizer.json, and those that begin as one to that of
 * tokenizer.model.  What was accepted has to encode the bytes
 * themselves, as a whole and as a user's text, unless a pattern takes too many steps, and to
 * decode what comes out. */
#include "reader_fuzz.h"

#include "token/token.h"

static void check(struct tokenizer *t, const char *data, int64_t bytes, int flags)
{
    struct tokenizer_stream stream = {0};
    int32_t *ids = NULL;
    struct err err = {0};
    int64_t count = tokenizer_encode(t, data, bytes, flags, &ids, &err), n = 0;

    assert(count >= 0 || (err.code == ERR_INPUT && strstr(err.text, "steps")));
    for (int64_t i = 0; i < count; i++) {
        assert(ids[i] >= 0 && ids[i] < tokenizer_count(t));
        assert(tokenizer_decode(t, &stream, ids[i], &n) && n >= 0);
    }
    mem_free(ids);
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct tokenizer *t = NULL;
    struct err err = {0};
    char *text = fuzz_copy(data, bytes);

    const char *name = *text == '\n' ? FUZZ_NAME ".model" : FUZZ_NAME;

    if (fuzz_judge(tokenizer_parse(&t, name, text, (int64_t)bytes, &err), &err)) {
        assert(!t);
        mem_free(text);
        return 0;
    }
    check(t, text, (int64_t)bytes, TOKENIZER_WRAP);
    check(t, text, (int64_t)bytes, TOKENIZER_PLAIN);
    mem_free(text);
    tokenizer_close(t);
    return 1;
}

#define MODEL                                                                                  \
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"a\",\"fuse_unk\":true,"                       \
    "\"byte_fallback\":true,\"ignore_merges\":false,\"vocab\":{\"a\":0,\"b\":1,"               \
    "\"ab\":2,\"<0x41>\":3},\"merges\":[\"a b\"]}}"

FUZZ_SET(.name = "tokenizer", .longest = 32768, .cases = 2000, .ends = " \n:,{}[]\"",
         .words = FUZZ_LIST("0", "-1", "1e3", "null", "true", "\"Isolated\"",
                            "\"MergedWithNext\"", "\"Contiguous\"", "\"Removed\"", "\"NFC\"",
                            "\"NFKD\"", "\"Strip\"", "\"Lowercase\"", "\"Digits\"",
                            "\"Whitespace\"", "\"Metaspace\"", "\"ByteLevel\"", "\"Regex\"",
                            "\"String\"", "\"(a|b)*\"", "\"\\\\s+\"", "\"\\\\p{L}\"",
                            "\"\\\\w\"", "\"[^ ]?\"", "\"\"", "{", "}", "[", "]"),
         .files = FUZZ_LIST(
             "tests/data/tokenizer/llama3.json", "tests/data/tokenizer/qwen2.json",
             "tests/data/tokenizer/llama2.json", "tests/data/tokenizer/mistral.json",
             "tests/data/tokenizer/gemma.json", "tests/data/tokenizer/sentencepiece.model"),
         .text = {
             FUZZ_TEXT("{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
                       "\"NFKC\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+\"},"
                       "\"content\":\"b\"},{\"type\":\"Strip\",\"strip_left\":true,"
                       "\"strip_right\":true},{\"type\":\"Lowercase\"}]}," MODEL),
             FUZZ_TEXT("{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                       "\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\"},"
                       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a|[b-z]{1,3}|\\\\s?\"},"
                       "\"behavior\":\"MergedWithPrevious\",\"invert\":false},{\"type\":"
                       "\"Punctuation\",\"behavior\":\"Contiguous\"}]}," MODEL),
             FUZZ_TEXT(
                 "{\"added_tokens\":[{\"id\":4,\"content\":\"type\",\"single_word\":true,"
                 "\"lstrip\":true,\"rstrip\":true,\"normalized\":true,\"special\":false}],"
                 "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Metaspace\","
                 "\"replacement\":\"_\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\","
                 "\"content\":\"a\",\"start\":1,\"stop\":0}]}," MODEL)});
