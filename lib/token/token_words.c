/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matches the patterns of common tokenizers without a regular expression engine, and classifies
 * characters.
 */
#include <endian.h>
#include <string.h>
#include <utf8proc.h>

#include "token/token_parts.h"

#define LLAMA3(digits)                                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits                 \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN35                                                                                 \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"                \
    "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define O200K_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K                                                                                  \
    "[^\\r\\n\\p{L}\\p{N}]?" O200K_UPPER "*" O200K_LOWER "+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"      \
    "|[^\\r\\n\\p{L}\\p{N}]?" O200K_UPPER "+" O200K_LOWER "*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"     \
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

enum class {
    UPPER = 1,
    LOWER = 2,
    CASELESS = 4, /* Lm, Lo */
    MARK = 8,
    NUMBER = 16,
    SPACE = 32, /* except CR and LF */
    LINE = 64,
    OTHER = 128,
    LETTER = UPPER | LOWER | CASELESS
};

/* Contractions such as 's: as words of their own, or at the end of a word. */
enum contraction { NONE, EXACT, ANY_CASE, SUFFIX };

/*
 * A pattern matches the first of: a contraction; letters, upper* lower+ or upper+, after at
 * most one character of `before` (0: a space); numbers (digits 0: any, after a space);
 * punctuation after a space, and if lines end a match, all of them and `tail` after it; spaces.
 */
struct token_pattern {
    const char *regex;
    enum tokenizer_words words;
    enum contraction contraction;
    unsigned char before, upper, lower, punctuation;
    int digits, lines;
    char tail;
};

const struct token_pattern *token_pattern_of(const char *regex)
{
    static const struct token_pattern known[] = {
        {TOKEN_GPT2_PATTERN, TOKENIZER_GPT2, EXACT, 0, 0, LETTER, MARK | OTHER, 0, 0, 0},
        {LLAMA3("{1,3}"), TOKENIZER_LLAMA3, ANY_CASE, SPACE | MARK | OTHER, 0, LETTER,
         MARK | OTHER, 3, 1, 0},
        {LLAMA3(""), TOKENIZER_QWEN2, ANY_CASE, SPACE | MARK | OTHER, 0, LETTER, MARK | OTHER,
         1, 1, 0},
        {QWEN35, TOKENIZER_OTHER, ANY_CASE, SPACE | OTHER, 0, LETTER | MARK, OTHER, 1, 1, 0},
        {O200K, TOKENIZER_OTHER, SUFFIX, SPACE | OTHER, UPPER | CASELESS | MARK,
         LOWER | CASELESS | MARK, MARK | OTHER, 3, 1, '/'},
        {"\\p{N}", TOKENIZER_SMOLLM, NONE, 0, 0, 0, (unsigned char)~NUMBER, 1, 0, 0}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(regex, known[i].regex) == 0)
            return &known[i];
    return NULL;
}

enum tokenizer_words token_pattern_words(const struct token_pattern *w)
{
    return w ? w->words : TOKENIZER_OTHER;
}

/* ---- matching the patterns ---- */

static unsigned char token_class(uint32_t c)
{
    static const unsigned char of[] = {
        [UTF8PROC_CATEGORY_LU] = UPPER,    [UTF8PROC_CATEGORY_LT] = UPPER,
        [UTF8PROC_CATEGORY_LL] = LOWER,    [UTF8PROC_CATEGORY_LM] = CASELESS,
        [UTF8PROC_CATEGORY_LO] = CASELESS, [UTF8PROC_CATEGORY_MN] = MARK,
        [UTF8PROC_CATEGORY_MC] = MARK,     [UTF8PROC_CATEGORY_ME] = MARK,
        [UTF8PROC_CATEGORY_ND] = NUMBER,   [UTF8PROC_CATEGORY_NL] = NUMBER,
        [UTF8PROC_CATEGORY_NO] = NUMBER};
    size_t k = utf8proc_category((utf8proc_int32_t)c);

    if (token_is_space(c))
        return c == '\r' || c == '\n' ? LINE : SPACE;
    return k < sizeof of && of[k] ? of[k] : OTHER;
}

void token_classes(unsigned char class[TOKEN_CLASSES])
{
    for (uint32_t c = 0; c < TOKEN_CLASSES; c++)
        class[c] = token_class(c);
}

static inline unsigned class_at(const unsigned char *class, const char *p, int *bytes)
{
    uint32_t c = token_code_at(p, bytes);

    return c < TOKEN_CLASSES ? class[c] : token_class(c);
}

/* The end of the letters a to z, eight at a time as far as there are eight. */
static inline const char *ascii_end(const char *p, const char *end)
{
    const uint64_t ones = UINT64_MAX / 255;
    uint64_t text, low, others = 0;

    for (; !others && end - p >= 8; p += others ? __builtin_ctzll(others) / 8 : 8) {
        memcpy(&text, p, sizeof text);
        text = le64toh(text);
        low = text & 0x7f * ones;
        others =
            (text | ~(low + (0x80 - 'a') * ones) | (low + (0x7f - 'z') * ones)) & 0x80 * ones;
    }
    return p;
}

/* The end of the characters of these classes, at most `most`. */
static inline const char *run_end(const unsigned char *class, unsigned of, int64_t most,
                                  const char *p, const char *end)
{
    for (int n; p < end && most > 0 && class_at(class, p, &n) & of; most--)
        p += n;
    return p;
}

static const char *contraction_end(const struct token_pattern *w, const char *p,
                                   const char *end)
{
    int fold = w->contraction == EXACT ? 0 : 'a' - 'A', first, second;

    if (p == end || *p != '\'')
        return p;
    first = end - p > 1 ? p[1] | fold : 0;
    second = end - p > 2 ? p[2] | fold : 0;
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return p + 2;
    if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l'))
        return p + 3;
    return fold && second && memcmp(p + 1, "\u017f", 2) == 0 ? p + 3 : p; /* the long s */
}

/* The match of upper* lower+, which may end inside the upper ones, or else of upper+. */
static const char *letters_end(const struct token_pattern *w, const unsigned char *class,
                               const char *p, const char *end)
{
    const char *both = p, *lower = p, *to;
    unsigned k;

    for (int n; lower < end && (k = class_at(class, lower, &n)) & w->upper;) {
        lower += n;
        both = k & w->lower ? lower : both;
    }
    to = w->lower & LOWER ? ascii_end(lower, end) : lower;
    to = run_end(class, w->lower, INT64_MAX, to, end);
    return to > lower || both == p ? to : both;
}

/* Spaces up to the last line's end, or without the last one if more text comes after them. */
static const char *spaces_end(const struct token_pattern *w, const unsigned char *class,
                              const char *p, const char *end)
{
    const char *to = p, *last = p, *line = p;
    unsigned k;

    for (int n; to < end && (k = class_at(class, to, &n)) & (SPACE | LINE);) {
        last = to;
        to += n;
        line = k == LINE ? to : line;
    }
    if (w->lines && line > p)
        return line;
    return to < end && last > p ? last : to;
}

const char *token_pattern_end(const struct token_pattern *w, const unsigned char *class,
                              const char *p, const char *end)
{
    int n;
    unsigned k = class_at(class, p, &n);
    const char *text = *p == ' ' ? p + 1 : p, *to, *from;

    if ((w->contraction == EXACT || w->contraction == ANY_CASE) &&
        (to = contraction_end(w, p, end)) > p)
        return to;
    from = !w->before ? text : k & w->before ? p + n : p;
    if ((to = letters_end(w, class, from, end)) > from)
        return w->contraction == SUFFIX ? contraction_end(w, to, end) : to;
    from = w->digits ? p : text;
    if ((to = run_end(class, NUMBER, w->digits ? w->digits : INT64_MAX, from, end)) > from)
        return to;
    if ((to = run_end(class, w->punctuation, INT64_MAX, text, end)) > text) {
        while (w->lines && to < end && (*to == '\r' || *to == '\n' || (*to && *to == w->tail)))
            to++;
        return to;
    }
    return spaces_end(w, class, p, end);
}

/* ---- characters ---- */

int token_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Alphabetic (letters, Nl and circled letters), marks, digits, connectors, and joiners. */
int token_is_word(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    int circled = (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
                  (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);

    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL) ||
           k == UTF8PROC_CATEGORY_PC || circled || c == 0x200c || c == 0x200d;
}

const char *token_code_before(const char *text, const char *p)
{
    do
        p--;
    while (p > text && ((unsigned char)*p & 0xc0) == 0x80);
    return p;
}
