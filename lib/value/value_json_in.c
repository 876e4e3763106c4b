/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the tokens of JSON (RFC 8259), strictly.  Leaves their meaning to the caller. */
#include "value/value_json_in.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

static int json_in_fail_expected(struct jin *j, const char *expected)
{
    j->wrong = expected;
    return -1;
}

/* The byte at `at`, or -1 at the end. */
static int peek(const struct jin *j)
{
    return j->at < j->bytes ? (unsigned char)j->text[j->at] : -1;
}

char jin_next(struct jin *j)
{
    for (int c; (c = peek(j)) == ' ' || c == '\n' || c == '\r' || c == '\t';)
        j->at++;
    return (char)(peek(j) < 0 ? 0 : peek(j));
}

int jin_take(struct jin *j, char c)
{
    static const char *const said[] = {"'{'", "'}'", "'['", "']'", "':'", "','", NULL};
    const char *const *s = said;

    if (jin_next(j) == c && peek(j) >= 0) {
        j->at++;
        return 0;
    }
    while (*s && (*s)[1] != c)
        s++;
    return json_in_fail_expected(j, *s ? *s : "another character");
}

int jin_item(struct jin *j, char close, int *count)
{
    char next = jin_next(j);

    if (next == close) {
        j->at++;
        return 0;
    }
    if (*count > 0 && next != ',')
        return json_in_fail_expected(j, close == '}' ? "',' or '}'" : "',' or ']'");
    if (*count > 0)
        j->at++;
    ++*count;
    return 1;
}

static void json_in_append(struct jin *j, const char *bytes, int n)
{
    j->word = mem_grow(j->word, &j->word_space, (size_t)(j->word_bytes + n), 1);
    memcpy(j->word + j->word_bytes, bytes, (size_t)n);
    j->word_bytes += n;
}

/* Reads four hexadecimal digits. */
static int read_hex(struct jin *j, uint32_t *out)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t v = 0;

    for (int i = 0; i < 4; i++, j->at++) {
        int c = peek(j);
        const char *d = c > 0 ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (!d)
            return json_in_fail_expected(j, "a hexadecimal digit");
        v = v << 4 | (uint32_t)(d - digits);
    }
    *out = v;
    return 0;
}

static void json_in_put_code(struct jin *j, uint32_t v)
{
    char b[4];
    int n = v < 0x80 ? 1 : v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

    for (int i = n - 1; i > 0; i--, v >>= 6)
        b[i] = (char)(0x80 | (v & 0x3f));
    b[0] = (char)(lead[n] | v);
    json_in_append(j, b, n);
}

/* Reads the digits after "\u": a code point or a surrogate pair. */
static int escaped_code(struct jin *j)
{
    uint32_t v, low;

    if (read_hex(j, &v))
        return -1;
    if (v >= 0xd800 && v < 0xdc00) {
        if (peek(j) != '\\' || j->at + 1 >= j->bytes || j->text[j->at + 1] != 'u')
            return json_in_fail_expected(j, "the second half of a character");
        j->at += 2;
        if (read_hex(j, &low))
            return -1;
        if (low < 0xdc00 || low > 0xdfff)
            return json_in_fail_expected(j, "the second half of a character");
        v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
    } else if (v >= 0xdc00 && v <= 0xdfff) {
        return json_in_fail_expected(j, "the first half of a character");
    }
    json_in_put_code(j, v);
    return 0;
}

static int read_escape(struct jin *j)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(j);
    const char *f = c > 0 ? strchr(from, c) : NULL;

    if (c == 'u') {
        j->at++;
        return escaped_code(j);
    }
    if (!f)
        return json_in_fail_expected(j, "an escape");
    j->at++;
    json_in_append(j, &to[f - from], 1);
    return 0;
}

/* Reads one unescaped character. */
static int read_character(struct jin *j)
{
    char next[5] = {0}; /* utf8_next needs a final 0 */
    int64_t left = j->bytes - j->at;

    memcpy(next, j->text + j->at, (size_t)(left < 4 ? left : 4));
    int n = utf8_next(next, NULL);
    if ((unsigned char)next[0] < 0x20)
        return json_in_fail_expected(j, "no control character");
    if (n == 0)
        return json_in_fail_expected(j, "UTF-8");
    json_in_append(j, next, n);
    j->at += n;
    return 0;
}

/* Number of bytes from here that need no decoding: most of a large text. */
static int plain_run(const struct jin *j)
{
    int64_t most = j->bytes - j->at < 1 << 20 ? j->bytes - j->at : 1 << 20, n = 0;

    for (const char *p = j->text + j->at; n < most; n++)
        if ((unsigned char)p[n] < 0x20 || (unsigned char)p[n] >= 0x80 || p[n] == '"' ||
            p[n] == '\\')
            break;
    return (int)n;
}

int jin_text(struct jin *j)
{
    if (jin_next(j) != '"')
        return json_in_fail_expected(j, "a text");
    j->at++;
    j->word_bytes = 0;
    for (int c; (c = peek(j)) != '"';) {
        if (c < 0)
            return json_in_fail_expected(j, "'\"'");
        int plain = plain_run(j);
        if (plain) {
            json_in_append(j, j->text + j->at, plain);
            j->at += plain;
            continue;
        }
        j->at += c == '\\';
        if (c == '\\' ? read_escape(j) : read_character(j))
            return -1;
    }
    j->at++;
    json_in_append(j, "", 1);
    j->word_bytes--;
    return 0;
}

int jin_whole(struct jin *j, int64_t *out)
{
    int64_t v = 0, digits = 0, at;
    char first = jin_next(j);

    for (at = j->at; at < j->bytes && j->text[at] >= '0' && j->text[at] <= '9'; at++) {
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, j->text[at] - '0', &v))
            return json_in_fail_expected(j, "a whole number below 2^63");
        digits++;
    }
    char behind = (char)(at < j->bytes ? j->text[at] : 0);
    if (digits == 0 || (digits > 1 && first == '0') || behind == '.' || behind == 'e' ||
        behind == 'E')
        return json_in_fail_expected(j, "a whole number, 0 or above");
    j->at = at;
    *out = v;
    return 0;
}

/* Skips digits, at least one. */
static int skip_digits(struct jin *j)
{
    int64_t from = j->at;

    while (peek(j) >= '0' && peek(j) <= '9')
        j->at++;
    return j->at > from ? 0 : -1;
}

static int skip_number(struct jin *j)
{
    int64_t from = j->at;

    j->at += peek(j) == '-';
    int64_t first = j->at;
    int bad = skip_digits(j) || (j->text[first] == '0' && j->at - first > 1);
    if (!bad && peek(j) == '.') {
        j->at++;
        bad = skip_digits(j);
    }
    if (!bad && (peek(j) == 'e' || peek(j) == 'E')) {
        j->at++;
        j->at += peek(j) == '-' || peek(j) == '+';
        bad = skip_digits(j);
    }
    if (!bad)
        return 0;
    j->at = from;
    return json_in_fail_expected(j, "a value");
}

/* Skips a number, true, false or null, or Python's NaN and infinities. */
static int skip_bare(struct jin *j)
{
    static const char *const word[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
    int64_t left = j->bytes - j->at, at = j->at;

    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        int64_t n = (int64_t)strlen(word[i]);
        if (left >= n && memcmp(j->text + at, word[i], (size_t)n) == 0) {
            j->at += n;
            return 0;
        }
    }
    return skip_number(j);
}

static int skip_value(struct jin *j, int depth)
{
    char open = jin_next(j), close = open == '{' ? '}' : ']';
    int n = 0, more;

    if (depth > JIN_DEPTH_MAX)
        return json_in_fail_expected(j, "less depth");
    if (open == '"')
        return jin_text(j);
    if (open != '{' && open != '[')
        return skip_bare(j);
    j->at++;
    while ((more = jin_item(j, close, &n)) > 0)
        if ((open == '{' && (jin_text(j) || jin_take(j, ':'))) || skip_value(j, depth + 1))
            return -1;
    return more;
}

int jin_skip(struct jin *j)
{
    return skip_value(j, 0);
}

int jin_end(struct jin *j)
{
    jin_next(j);
    return j->at == j->bytes ? 0 : json_in_fail_expected(j, "nothing more");
}

void jin_release(struct jin *j)
{
    mem_free(j->word);
    *j = (struct jin){0};
}
