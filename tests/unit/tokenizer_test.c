/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests tokenizer.json: the tokens of tests/reference/dump_tokenizer.py, by small tokenizers of
 * the kinds in use; long texts in parts; wrong files, and texts that take too long.
 */
#include "unit.h"

#include <utf8proc.h>

#include "base/fnv.h"
#include "base/io.h"
#include "base/rng.h"
#include "token/token_parts.h"
#include "words_fixture.h"

#define DATA "tests/data/tokenizer/"

enum { TEXTS = 10000, PIECES = 128 };

static const char *const names[] = {"llama3.json",         "qwen2.json",   "smollm.json",
                                    "llama2.json",         "mistral.json", "gemma.json",
                                    "sentencepiece.model", "qwen35.json",  "o200k.json"};
enum { ALL = sizeof names / sizeof *names, NAMES = ALL - 2 };

static struct tokenizer *open_named(const char *name)
{
    struct tokenizer *t = NULL;
    char path[100];

    snprintf(path, sizeof path, DATA "%s", name);
    assert_ok(tokenizer_open(&t, path, &err));
    return t;
}

struct texts {
    char piece[PIECES][200];
    unsigned lo[PIECES], hi[PIECES];
    unsigned pieces, ranges;
};

static void read_texts(struct texts *x)
{
    char line[500];
    FILE *f = fopen(DATA "pieces.txt", "r");

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        unsigned byte;
        if (sscanf(line, "%u %u", &x->lo[x->ranges], &x->hi[x->ranges]) == 2 &&
            strchr(line, ' ')) {
            x->ranges++;
            continue;
        }
        for (size_t i = 0; sscanf(line + 2 * i, "%2x", &byte) == 1; i++)
            x->piece[x->pieces][i] = (char)byte;
        x->pieces++;
    }
    fclose(f);
}

static unsigned below(uint64_t *state, unsigned n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((*state >> 33) % n);
}

static int64_t make_text(const struct texts *x, int index, char *to)
{
    uint64_t state = (uint64_t)index;
    int64_t bytes = 0;

    for (unsigned n = 1 + below(&state, 30); n > 0; n--) {
        unsigned kind = below(&state, 8);
        if (kind == 0) {
            unsigned r = below(&state, x->ranges);
            utf8proc_int32_t code =
                (utf8proc_int32_t)(x->lo[r] + below(&state, x->hi[r] - x->lo[r]));
            bytes += utf8proc_encode_char(code, (utf8proc_uint8_t *)to + bytes);
        } else if (kind == 1) {
            to[bytes++] = (char)below(&state, 128);
        } else {
            const char *piece = x->piece[below(&state, x->pieces)];
            bytes += (int64_t)strlen(strcpy(to + bytes, piece));
        }
    }
    return bytes;
}

static uint64_t add_hash(uint64_t h, const void *data, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        h = fnv_mix(h, ((const unsigned char *)data)[i]);
    return h;
}

static unsigned hash_of(struct tokenizer *t, const char *text, int64_t bytes, int flags)
{
    struct tokenizer_stream stream = {0};
    int32_t *ids = NULL, *plain = NULL;
    int64_t n = tokenizer_encode(t, text, bytes, flags, &ids, &err), size;
    int64_t m = tokenizer_encode(t, text, bytes, TOKENIZER_PLAIN, &plain, &err);
    uint64_t h = FNV_BASIS;

    assert_true(n >= 0 && m >= 0);
    for (int64_t i = 0; i < n + m; i++)
        for (int b = 0; b < 4; b++)
            h = fnv_mix(h, (unsigned char)((uint32_t)(i < n ? ids[i] : plain[i - n]) >> 8 * b));
    for (int64_t i = 0; i < n; i++) {
        const char *p = tokenizer_decode(t, &stream, ids[i], &size);
        assert_non_null(p);
        h = add_hash(h, p, size);
    }
    mem_free(ids);
    mem_free(plain);
    return (unsigned)(h & 0xffff);
}

TEST(tokens_are_the_other_librarys)
{
    struct texts *x = mem_new(1, sizeof *x);
    char path[100], text[30 * 200];

    read_texts(x);
    for (int k = 0; k < ALL; k++) {
        struct tokenizer *t = open_named(names[k]);
        int sp = !!strstr(names[k], ".model");
        snprintf(path, sizeof path, DATA "%.*s.dump", (int)strcspn(names[k], "."), names[k]);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        for (int i = 0; i < TEXTS; i++) {
            unsigned want = 0;
            int64_t bytes = make_text(x, i, text);
            assert_int_equal(fscanf(f, "%4x", &want), 1);
            int flags = (i % 3 ? 0 : TOKENIZER_WRAP) | (sp ? TOKENIZER_PLAIN : 0);
            unsigned got = hash_of(t, text, bytes, flags);
            if (got != want)
                fail_msg("%s: text %d: %04x, expected %04x", names[k], i, got, want);
        }
        fclose(f);
        tokenizer_close(t);
    }
    mem_free(x);
}

TEST(ways_of_cutting_words_are_known)
{
    static const enum tokenizer_words words[] = {
        TOKENIZER_LLAMA3,        TOKENIZER_QWEN2,         TOKENIZER_SMOLLM,
        TOKENIZER_SENTENCEPIECE, TOKENIZER_SENTENCEPIECE, TOKENIZER_SENTENCEPIECE,
        TOKENIZER_SENTENCEPIECE};

    for (int k = 0; k < NAMES; k++) {
        struct tokenizer *t = open_named(names[k]);
        int special = tokenizer_id(t, k < 3 ? k ? "<|im_end|>" : "<|eot_id|>" : "</s>"), n = 0;
        assert_int_equal(tokenizer_words(t), words[k]);
        assert_int_equal(tokenizer_adds_space(t), k == 3 || k == 4 || k == 6);
        assert_int_equal(tokenizer_kind(t, special), TOKENIZER_CONTROL);
        assert_int_equal(tokenizer_prefix(t, &n)[0], k < 3 ? 700 : 1);
        assert_int_equal(n, 1);
        assert_null(tokenizer_suffix(t, &n));
        if (k >= 3) {
            assert_int_equal(tokenizer_kind(t, 0), TOKENIZER_UNKNOWN);
            assert_int_equal(tokenizer_kind(t, tokenizer_id(t, "<0xFF>")), TOKENIZER_BYTE);
        } else {
            assert_int_equal(tokenizer_kind(t, tokenizer_id(t, "QUICK")), TOKENIZER_USER);
        }
        tokenizer_close(t);
    }
}

/* Bytes at random: where the bytes have tokens, they come back. */
TEST(any_bytes_return)
{
    char text[200], back[400];

    for (int k = 0; k < NAMES; k++) {
        struct tokenizer *t = open_named(names[k]);
        for (uint64_t c = 0; c < 500; c++) {
            struct tokenizer_stream stream = {0};
            int64_t bytes = (int64_t)(rng_u64(1, c, 0) % 200), at = 0, n;
            int32_t *ids = NULL;
            if (k == 1 && c % 2) /* there form C may change them */
                continue;
            for (int64_t i = 0; i < bytes; i++) {
                uint64_t r = rng_u64(1, c, (uint64_t)i + 1);
                text[i] = c % 2 ? (char)r : "a \xe4\xbd\xa0\xf0\x9f\x98\x80\n'"[r % 11];
            }
            int64_t count = tokenizer_encode(t, text, bytes, 0, &ids, &err);
            assert_in_range(count, bytes > 0, 2 * bytes);
            for (int64_t i = 0; i < count; i++, at += n) {
                const char *p = tokenizer_decode(t, &stream, ids[i], &n);
                memcpy(back + at, p, (size_t)n);
            }
            /* A blank at the beginning is the one that a text begins with there. */
            int lost = (k == 3 || k == 4) && at == bytes - 1 && text[0] == ' ';
            assert_int_equal(at, bytes - lost);
            assert_memory_equal(back, text + lost, (size_t)at);
            mem_free(ids);
        }
        tokenizer_close(t);
    }
}

/* Returns how many parts there were. */
static int check_parts(struct tokenizer *t, const char *text, int64_t bytes)
{
    enum { PART = 1 << 16 };
    int32_t *whole = NULL, *ids = NULL;
    int64_t count = tokenizer_encode(t, text, bytes, 0, &whole, &err), at = 0, n = 0;
    int parts = 0;

    for (int64_t from = 0, to; from < bytes; from = to, parts++) {
        int flags = from ? TOKENIZER_CONTINUED : 0;
        to = bytes - from > PART ? tokenizer_cut(t, text, from + PART, bytes) : bytes;
        n = tokenizer_encode(t, text + from, to - from, flags, &ids, &err);
        assert_in_range(n, 0, count - at);
        assert_memory_equal(ids, whole + at, (size_t)n * sizeof *ids);
        at += n;
        mem_free(ids);
    }
    assert_int_equal(at, count);
    mem_free(whole);
    return parts;
}

/* The tokenizer without added tokens that begin or end with a letter. */
static struct tokenizer *open_cuttable(const char *name)
{
    static const char *const words[][2] = {{"  0,\"content\":\"brown\"", "!\"    "},
                                           {"  2,\"content\":\"QUICK\"", "#\"    "},
                                           {"\005QUICK", "<UIC>"},
                                           {"\004<|im", "<|i>"}};
    char path[256], *text = NULL;
    struct tokenizer *t = NULL;
    int64_t bytes = 0;

    snprintf(path, sizeof path, DATA "%s", name);
    assert_ok(io_read_text(path, 1 << 20, &text, &bytes, &err));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *id = words[i][0], *key = id + (i < 2 ? 3 : 0);
        for (char *at; (at = memmem(text, (size_t)bytes, key, strlen(key)));) {
            memcpy(at - (key - id), id, (size_t)(key - id)); /* the number of "!" or "#" */
            memcpy(strpbrk(at, "bQ<"), words[i][1], strlen(words[i][1]));
        }
    }
    assert_ok(tokenizer_parse(&t, path, text, bytes, &err));
    mem_free(text);
    return t;
}

/* Texts in parts, cut only at gaps between words, and only where no token is across one. */
TEST(parts_are_the_whole)
{
    enum { BYTES = 9 << 20 };
    static const struct {
        int name;
        const char *fill; /* NULL: texts of the reference */
        int cuts;         /* 0: a merge or an added token can be at a gap, or there is none */
        int added;        /* the tokenizer with its added tokens of letters */
    } cases[] = {{0, NULL, 1, 0},     {1, NULL, 1, 0},    {2, NULL, 1, 0},
                 {7, NULL, 1, 0},     {8, NULL, 1, 0},    {4, NULL, 0, 0},
                 {6, NULL, 1, 0},     {3, "ab-", 0, 0},   {1, " \n\xcc\x81", 0, 0},
                 {1, "ab c\n", 1, 0}, {1, "ab c\n", 0, 1}};
    struct texts *x = mem_new(1, sizeof *x);
    char *text = mem_new(BYTES + 8000, 1);

    read_texts(x);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *name = names[cases[c].name];
        struct tokenizer *t = cases[c].added ? open_named(name) : open_cuttable(name);
        const char *fill = cases[c].fill;
        int64_t bytes = 0;
        for (int i = 0; !fill && bytes < BYTES; i++) {
            bytes += make_text(x, i, text + bytes);
            if (i % 4 == 0)
                text[bytes++] = "\n \xff"[i / 4 % 3];
        }
        for (size_t n = fill ? strlen(fill) : 0; fill && bytes < BYTES; bytes++)
            text[bytes] = fill[(size_t)bytes % n];
        if ((check_parts(t, text, bytes) > 1) != cases[c].cuts)
            fail_msg("case %zu: wrong number of parts", c);
        tokenizer_close(t);
    }
    mem_free(text);
    mem_free(x);
}

/* A tokenizer.json of few tokens with these steps; `words`: of the error, NULL: none. */
static struct tokenizer *parse_small(const char *rest, const char *words)
{
    struct tokenizer *t = NULL;
    err = (struct err){0};
    char *text = NULL;

    assert_true(asprintf(&text, "{\"version\": \"1.0\",\n%s}", rest) > 0);
    int rc = tokenizer_parse(&t, "t", text, (int64_t)strlen(text), &err);
    if (!words && rc)
        fail_msg("%s", err.text);
    assert_int_equal(rc, words ? -1 : 0);
    if (words) {
        assert_int_equal(err.code, ERR_INPUT);
        assert_words(err.text, words);
    }
    free(text);
    return t;
}

static void parse(const char *rest, const char *words)
{
    tokenizer_close(parse_small(rest, words));
}

#define MODEL                                                                                  \
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, "              \
    "\"merges\": [\"a b\"]}"

static int64_t normalize(struct tokenizer *t, const char **text, int64_t bytes)
{
    assert_ok(
        token_normalize(t, &t->tables->normal, t->normal, TOKEN_TEXT, text, &bytes, &err));
    return bytes;
}

/* Forms of short runs of marks are utf8proc's; a long run is sorted in bounded time. */
TEST(runs_of_marks)
{
    enum { LONG = 1 << 18 };
    static const struct {
        const char *name;
        int how;
    } forms[] = {{"NFC", UTF8PROC_COMPOSE},
                 {"NFD", UTF8PROC_DECOMPOSE},
                 {"NFKC", UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
                 {"NFKD", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
    static const char *const piece[] = {"a",      "\u00e9", "\u0301", "\u0316",     "\u0327",
                                        "\u0345", "\u0f71", "\u1100", "\u1161",     "b",
                                        "\u0308", "\u0344", "\ufdfa", "\U0001d15e", "\u0958",
                                        "\u05b0", "\u0f73", "\u212b", "abcdefgh"};
    enum { PIECES_HERE = sizeof piece / sizeof *piece };
    char text[80 * 8 + 1], *run = mem_new(4 * LONG + 1, 1);

    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        char json[200];
        snprintf(json, sizeof json, "\"normalizer\": {\"type\": \"%s\"}, " MODEL,
                 forms[f].name);
        struct tokenizer *t = parse_small(json, NULL);
        for (uint64_t c = 0; c < 1000; c++) {
            utf8proc_uint8_t *want = NULL;
            const char *got = text;
            text[0] = 0;
            for (uint64_t i = 0; i < 1 + rng_u64(2, c, 0) % 80; i++) {
                uint64_t r = rng_u64(2, c, i + 1);
                strcat(text, piece[r / 16 % 8 ? 2 + r % 4 : r % PIECES_HERE]);
            }
            utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)text, 0, &want,
                                              UTF8PROC_NULLTERM | UTF8PROC_STABLE |
                                                  (utf8proc_option_t)forms[f].how);
            assert_int_equal(normalize(t, &got, (int64_t)strlen(text)), n);
            assert_memory_equal(got, want, (size_t)n);
            free(want);
        }
        run[0] = 'b';
        for (int i = 0; i < 2 * LONG; i++)
            memcpy(run + 1 + 2 * i, i % 2 ? "\u0316" : "\u0301", 2);
        const char *got = run;
        assert_int_equal(normalize(t, &got, 4 * LONG + 1), 4 * LONG + 1);
        for (int i = 0; i < 2 * LONG; i++)
            assert_memory_equal(got + 1 + 2 * i, i < LONG ? "\u0316" : "\u0301", 2);
        tokenizer_close(t);
    }
    mem_free(run);
}

/* A step reads what the last step that changed the text wrote. */
TEST(steps_that_change_nothing)
{
    struct tokenizer *t = parse_small(
        "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Lowercase\"}, "
        "{\"type\": \"NFC\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, "
        "\"content\": \"bcd\"}]}, " MODEL,
        NULL);
    const char *text = "AbAAAAAAAA";

    assert_int_equal(normalize(t, &text, 10), 28);
    assert_memory_equal(text, "bcdbbcdbcdbcdbcdbcdbcdbcdbcd", 28);
    tokenizer_close(t);
}

#define SPACED(scheme)                                                                         \
    "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\u2581\", "               \
    "\"prepend_scheme\": \"" scheme "\", \"split\": false}, \"model\": {\"type\": \"BPE\", "   \
    "\"vocab\": {\"a\": 0, \"\u2581\": 1}, \"merges\": []}"

/* Text after a special token is not the first of a text. */
TEST(middles_of_texts)
{
    static const char *const schemes[] = {SPACED("first"), SPACED("always"), SPACED("never")};

    for (int k = 0; k < 3; k++)
        for (int middle = 0; middle < 2; middle++) {
            struct tokenizer *t = parse_small(schemes[k], NULL);
            int32_t *ids = NULL;
            int flags = middle ? TOKENIZER_MIDDLE : 0;
            int adds = k == 1 || (k == 0 && !middle);
            assert_int_equal(tokenizer_encode(t, "a", 1, flags, &ids, &err), 1 + adds);
            assert_int_equal(ids[0], adds);
            mem_free(ids);
            tokenizer_close(t);
        }
}

/* \w of the two libraries: Oniguruma's has the superscripts and fractions of Latin-1. */
TEST(characters_of_words)
{
    static const char text[] = "a\u00b2\u00b3\u00b9\u00bc\u00bd\u00beb";
    static const char *const cuts[] = {
        "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\w+\"}, "
        "\"behavior\": \"Removed\", \"invert\": true}",
        "{\"type\": \"Whitespace\"}"};

    for (int k = 0; k < 2; k++) {
        char json[400];
        int32_t *ids = NULL;
        snprintf(json, sizeof json,
                 "\"pre_tokenizer\": %s, \"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"?\": 2, "
                 "\"a?\": 3}, \"merges\": [[\"a\", \"?\"]], \"unk_token\": \"?\", "
                 "\"fuse_unk\": true}",
                 cuts[k]);
        struct tokenizer *t = parse_small(json, NULL);
        assert_int_equal(tokenizer_encode(t, text, (int64_t)sizeof text - 1, 0, &ids, &err),
                         2 + k);
        assert_int_equal(ids[0], k ? 0 : 3);
        mem_free(ids);
        tokenizer_close(t);
    }
}

/* Strip takes as many from the left as it says, not one more. */
TEST(one_space_is_stripped_of_two)
{
    struct tokenizer *t = parse_small(
        "\"decoder\": {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}, "
        "\"model\": {\"vocab\": {\"  a\": 0}, \"merges\": []}",
        NULL);
    struct tokenizer_stream stream = {0};
    int64_t bytes = 0;
    const char *text = tokenizer_decode(t, &stream, 0, &bytes);

    assert_int_equal(bytes, 2);
    assert_memory_equal(text, " a", 2);
    tokenizer_close(t);
}

#define FLAGS                                                                                  \
    ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false,"   \
    " \"special\": true"
#define ADDED(id, content)                                                                     \
    "\"added_tokens\": [{\"id\": " id ", \"content\": \"" content "\"" FLAGS "}"
#define HOLE "\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"c\": 5}, \"merges\": []}"

TEST(wrong_files)
{
    parse(MODEL, NULL);
    parse("\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0.5]]}",
          "t:2: 'model.type' 'Unigram' BPE");
    parse("\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}", "'b' vocabulary");
    parse("\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]}",
          "'model.merges[0]' list text");
    parse("\"model\": {\"vocab\": {\"a\": 99999999}, \"merges\": []}",
          "'model.vocab.a' 99999999 to");
    parse("\"model\": {\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}",
          "'model.vocab.b' token 0, 'a'");
    parse("\"model\": {\"vocab\": {}, \"merges\": []}", "'model.vocab' no tokens");
    parse("\"model\": {\"vocab\": {\"a\": 0}, \"merges\": {}}", "'model.merges' list");
    parse("\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": 0.1}",
          "'model.dropout' 0.1");
    parse("\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"end_of_word_suffix\": \"w\"}",
          "'model.end_of_word_suffix'");
    parse("\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"unk_token\": \"u\"}",
          "'model.unk_token' 'u'");
    parse("\"pre_tokenizer\": {\"type\": \"Foo\"}, " MODEL,
          "t:2: 'pre_tokenizer.type' 'Foo', ByteLevel");
    parse("\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\bx\"}, "
          "\"behavior\": \"Isolated\", \"invert\": false}, " MODEL,
          "pre_tokenizer.pattern.Regex \\b supported");
    parse("\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}, "
          "\"behavior\": \"Isolated\", \"invert\": false}, " MODEL,
          "pre_tokenizer.pattern.Regex regular expression");
    parse("\"normalizer\": {\"type\": \"Prepend\", \"prepend\": \"_\", \"why\": 1}, " MODEL,
          "normalizer.why");
    parse("\"decoder\": {\"type\": \"WordPiece\"}, " MODEL, "decoder.type WordPiece");
    parse("\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteLevel\"}, "
          "{\"type\": \"Strip\", \"content\": \" \", \"start\": 0, \"stop\": 1}]}, " MODEL,
          "'decoder' after ByteLevel");
    parse("\"normalizer\": {\"type\": \"Prepend\", \"prepend\": \"\"}, " MODEL,
          "normalizer.prepend empty");
    parse("\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"\"}, "
          "\"content\": \"a\"}, " MODEL,
          "normalizer.pattern empty");
    parse(ADDED("0", "<s>") "], " MODEL, "added_tokens[0].id 0 'a'");
    parse(ADDED("99999", "<s>") "], " MODEL, "added_tokens[0].id 99999");
    /* tokenizers numbers tokens that are added after all others, whatever id says. */
    parse(ADDED("3", "<s>") ", {\"id\": 4, \"content\": \"<t>\"" FLAGS "}], " HOLE, NULL);
    parse(ADDED("2", "<s>") "], " HOLE, "added_tokens[0].id 2, expected 3");
    parse(ADDED("5", "<s>") "], " HOLE, "added_tokens[0].id 5 token 5 'c'");
    parse("\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [], "
          "\"special_tokens\": {}}, " MODEL,
          "post_processor.single");
    parse("\"what\": 1, " MODEL, "'what' unknown");
    parse("\"model\": 1", "'model'");
}

/* tokenizers requires all of them. */
TEST(keys_of_added_tokens)
{
    static const char *const key[] = {"id",     "content", "single_word", "lstrip",
                                      "rstrip", "special", "normalized"};
    static const char *const value[] = {"3",     "\"<s>\"", "false", "false",
                                        "false", "true",    "false"};
    enum { KEYS = sizeof key / sizeof *key };

    for (int without = 0; without <= KEYS; without++) {
        char text[400] = "\"added_tokens\": [{", words[80];
        for (int i = 0, some = 0; i < KEYS; i++) {
            size_t used = strlen(text);
            if (i != without)
                snprintf(text + used, sizeof text - used, "%s\"%s\": %s", some++ ? ", " : "",
                         key[i], value[i]);
        }
        strcat(text, "}], " MODEL);
        if (without < KEYS)
            snprintf(words, sizeof words, "added_tokens[0].%s missing", key[without]);
        parse(text, without < KEYS ? words : NULL);
    }
}

TEST(depth_is_bounded)
{
    enum { DEPTH = 100000 };
    char *text = mem_new(DEPTH + 40, 1);
    struct tokenizer *t = NULL;
    int n = sprintf(text, "{\"normalizer\": ");

    memset(text + n, '[', DEPTH);
    assert_refused(tokenizer_parse(&t, "deep", text, n + DEPTH, &err), "deep depth");
    mem_free(text);
}

/* Words as long as they may be do not take the steps that a match may take. */
TEST(long_runs)
{
    enum { BYTES = 5 << 19 };
    static const char *const fills[] = {"a", " ", "1", "!", "\n", "'", " \n", "\u00a0", "\n "};
    char *text = mem_new(BYTES + 1, 1);

    for (int k = 0; k < 3; k++) {
        struct tokenizer *t = open_named(names[k]);
        for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
            int32_t *ids = NULL;
            for (size_t i = 0, n = strlen(fills[f]); i < BYTES; i++)
                text[i] = fills[f][i % n];
            text[BYTES] = 'x';
            if (tokenizer_encode(t, text, BYTES + 1, 0, &ids, &err) <= 0)
                fail_msg("%s: run %zu: %s", names[k], f, err.text);
            mem_free(ids);
        }
        tokenizer_close(t);
    }
    mem_free(text);
}

/* A pattern that backtracks without end. */
TEST(steps_are_bounded)
{
    static const char json[] = "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": "
                               "{\"Regex\": \"(a+)+(a+)+$|b\"}, "
                               "\"behavior\": \"Isolated\", \"invert\": false}, " MODEL "}";
    struct tokenizer *t = NULL;
    char text[101];
    int32_t *ids = NULL;

    assert_ok(tokenizer_parse(&t, "t", json, sizeof json - 1, &err));
    memset(text, 'a', 100);
    text[100] = 'b';
    assert_error(tokenizer_encode(t, text, 101, 0, &ids, &err), ERR_INPUT);
    assert_words(err.text, "pattern too many steps");
    tokenizer_close(t);
}
