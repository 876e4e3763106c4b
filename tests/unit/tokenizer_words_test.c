/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the known patterns against the regular expression engine: the same pieces of texts of
 * any characters, and of those at which the patterns' alternatives meet.
 */
#include "unit.h"

#include <utf8proc.h>

#include "base/rng.h"
#include "token/token_parts.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BEFORE       "[^\\r\\n\\p{L}\\p{N}]?"
#define LLAMA3(digits)                                                                         \
    CONTRACTIONS "|" BEFORE "\\p{L}+|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

static const char *const patterns[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    LLAMA3("{1,3}"),
    LLAMA3(""),
    CONTRACTIONS "|" BEFORE
                 "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES,
    BEFORE UPPER "*" LOWER "+" CONTRACTIONS "?|" BEFORE UPPER "+" LOWER "*" CONTRACTIONS
                 "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
    "\\p{N}"};
enum { PATTERNS = sizeof patterns / sizeof *patterns, TEXT = 8 * 128 + 1 };

static struct token_regex compile(const char *pattern)
{
    struct token_regex r = {0};

    assert_ok(token_regex_compile(&r, pattern, 0, &err));
    return r;
}

/* Whether both libraries know the character; the version of Unicode may differ. */
static int is_assigned(struct tokenizer *t, const struct token_regex *assigned, uint32_t code)
{
    char text[4];
    int64_t from, to;
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)code);
    int64_t n = k == UTF8PROC_CATEGORY_CN || k == UTF8PROC_CATEGORY_CS
                    ? 0
                    : utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)text);

    return n && token_regex_next(t, assigned, text, n, 0, &from, &to, &err) > 0;
}

static int64_t make_any(struct tokenizer *t, const struct token_regex *assigned, uint64_t seed,
                        char *text)
{
    static const char *const pieces[] = {
        "'",      "s",      "S",      "\u017f",   "re",     "Ll",     "e",      "A",
        "B",      "\u01c5", "\u02b0", "\u4e2d",   "\u0301", "1",      "2",      "\u0663",
        "\u2167", " ",      " ",      "\n",       "\r",     "\t",     "\xa0",   "/",
        "-",      "\u3000", "\u0903", "abcdefgh", "ABcdef", "\u212a", "\u2028", "\u20dd"};
    enum { PIECES = sizeof pieces / sizeof *pieces };
    int64_t bytes = 0;
    uint64_t most = seed % 2 ? 128 : 30; /* long texts are mostly of ASCII */

    for (uint64_t i = 0, n = 1 + rng_u64(3, seed, 0) % most; i < n; i++) {
        uint64_t r = rng_u64(3, seed, i + 1);
        int any = most == 30 || r >> 58 == 0;
        uint32_t code = (uint32_t)(r >> 8) % (!any     ? 0x80
                                              : r & 16 ? 0x110000
                                              : r & 32 ? 0x3000
                                                       : 0x80);
        const char *piece = pieces[(r >> 40) % PIECES];
        if (!any && (unsigned char)*piece >= 0x80)
            piece = "\r\n ";
        if (r % 4 == 0 && is_assigned(t, assigned, code))
            bytes +=
                utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)text + bytes);
        else if (*piece == '\xa0') /* U+00A0 */
            bytes += utf8proc_encode_char(0xa0, (utf8proc_uint8_t *)text + bytes);
        else
            bytes += (int64_t)strlen(strcpy(text + bytes, piece));
    }
    return bytes;
}

/* The text up to the match and the match are pieces. */
static void check_text(struct tokenizer *t, int k, const struct token_regex *r,
                       const unsigned char *class, const char *text, int64_t bytes)
{
    const struct token_pattern *known = token_pattern_of(patterns[k]);
    int64_t at = 0, from, to;
    const char *end[TOKEN_BLOCK];
    int ends = 0, i = 0;

    while (at < bytes) {
        if (i == ends) {
            ends = token_pattern_ends(known, text + at, text + bytes, end);
            i = 0;
        }
        if (token_regex_next(t, r, text, bytes, at, &from, &to, &err) <= 0)
            from = bytes;
        int64_t want = from > at ? from : to;
        int64_t got = token_pattern_end(known, class, text + at, text + bytes) - text;
        if (got != want)
            fail_msg("pattern %d: '%.*s': piece from %d ends at %d, expected %d", k, (int)bytes,
                     text, (int)at, (int)got, (int)want);
        if (i < ends && end[i++] != text + want)
            fail_msg("pattern %d: '%.*s': end %d of a block is %d, expected %d", k, (int)bytes,
                     text, i, (int)(end[i - 1] - text), (int)want);
        at = want;
    }
}

TEST(known_patterns_are_the_engines)
{
    static unsigned char class[TOKEN_CLASSES];
    static const char json[] = "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}";
    struct tokenizer *t = NULL;
    struct token_regex assigned =
        compile("[\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{Cc}\\p{Cf}\\p{Co}]");
    char text[TEXT];

    assert_ok(tokenizer_parse(&t, "t", json, sizeof json - 1, &err));
    token_classes(class);
    for (int k = 0; k < PATTERNS; k++) {
        struct token_regex r = compile(patterns[k]);
        assert_non_null(token_pattern_of(patterns[k]));
        for (uint64_t seed = 0; seed < 30000; seed++) {
            int64_t bytes = make_any(t, &assigned, seed, text);
            char *whole = mem_new((size_t)bytes, 1); /* so that reading beyond it is seen */
            check_text(t, k, &r, class, memcpy(whole, text, (size_t)bytes), bytes);
            mem_free(whole);
        }
        token_regex_release(&r);
    }
    assert_null(token_pattern_of("\\p{L}"));
    token_regex_release(&assigned);
    tokenizer_close(t);
}

/* A Split by the pattern and ByteLevel, whose words have one unknown token each. */
static struct tokenizer *open_split(const char *before, const char *pattern, const char *after,
                                    int then_gpt2)
{
    struct tokenizer *t = NULL;
    char *json = NULL;
    size_t bytes;
    FILE *out = mem_stream(&json, &bytes);

    fprintf(out,
            "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
            "\"Split\", \"behavior\": \"Isolated\", \"invert\": false, \"pattern\": "
            "{\"Regex\": \"%s",
            before);
    for (const char *p = pattern; *p; p++)
        fprintf(out, *p == '\\' ? "\\\\" : "%c", *p);
    fprintf(out,
            "%s\"}}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": "
            "true, \"use_regex\": %s}]}, \"model\": {\"vocab\": {\"a\": 0, \"?\": 1}, "
            "\"merges\": [], \"unk_token\": \"?\", \"fuse_unk\": true}}",
            after, then_gpt2 ? "true" : "false");
    fclose(out);
    assert_ok(tokenizer_parse(&t, "t", json, (int64_t)bytes, &err));
    mem_free(json);
    return t;
}

/* A word or spaces longer than the window are cut where the engine cuts them. */
TEST(long_matches_are_cut_alike)
{
    static const char *const fill[] = {"b", "\u00e9", " ", "\n ", "A\u0301", "-", "bb "};
    enum { BYTES = 5 * (TOKEN_WORD_MAX / 2) };
    char *text = mem_new(BYTES + 8, 1);

    for (int k = 0; k < PATTERNS; k++)
        for (size_t f = 0; f < sizeof fill / sizeof *fill; f++) {
            int digits = k == PATTERNS - 1; /* SmolLM's, before GPT-2's */
            int64_t bytes = 1, count[2];
            *text = 'x';
            for (size_t n = strlen(fill[f]); bytes < BYTES; bytes += (int64_t)n)
                memcpy(text + bytes, fill[f], n);
            for (int engine = 0; engine < 2; engine++) {
                struct tokenizer *t =
                    open_split(engine ? "(?:" : "", patterns[k], engine ? ")" : "", digits);
                int32_t *ids = NULL;
                assert_true(!engine == !!t->tables->pre.step[0].known);
                count[engine] = tokenizer_encode(t, text, bytes, 0, &ids, &err);
                mem_free(ids);
                tokenizer_close(t);
            }
            assert_true(count[0] > 1);
            if (count[0] != count[1])
                fail_msg("pattern %d, fill %zu: %d words, expected %d", k, f, (int)count[0],
                         (int)count[1]);
        }
    mem_free(text);
}

/* More words than the cache has records of, each a token for each letter; some come again at
   once, and all once more. */
TEST(cached_words_are_encoded_alike)
{
    enum { WORDS = 30000, LONGEST = 30, LETTERS = 26 };
    struct tokenizer *t = NULL;
    char *json = NULL, *text = mem_new((size_t)WORDS * 4 * (LONGEST + 1), 1);
    int32_t *ids = NULL;
    size_t bytes;
    int64_t n = 0;
    FILE *out = mem_stream(&json, &bytes);

    fputs("{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
          "\"trim_offsets\": true, \"use_regex\": true}, \"model\": {\"vocab\": {",
          out);
    for (int i = 0; i < LETTERS; i++)
        fprintf(out, "\"%c\": %d, ", 'a' + i, i);
    fprintf(out, "\"\u0120\": %d}, \"merges\": []}}", LETTERS);
    fclose(out);
    assert_ok(tokenizer_parse(&t, "t", json, (int64_t)bytes, &err));
    for (uint64_t i = 0; i < 2 * WORDS; i++) {
        uint64_t word = i % WORDS, from = (uint64_t)n;
        text[n++] = ' ';
        for (uint64_t k = 0, most = 4 + word % (LONGEST - 3); k < most; k++)
            text[n++] = (char)('a' + rng_u64(4, word, k) % LETTERS);
        if (word % 8 == 0) {
            memcpy(text + n, text + from, (size_t)n - from);
            n += n - (int64_t)from;
        }
    }
    assert_int_equal(tokenizer_encode(t, text, n, 0, &ids, &err), n);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(ids[i], text[i] == ' ' ? LETTERS : text[i] - 'a');
    mem_free(ids);
    mem_free(json);
    mem_free(text);
    tokenizer_close(t);
}
