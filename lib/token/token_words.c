/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matches the patterns of common tokenizers without a regular expression engine, and classifies
 * characters.
 */
#include <endian.h>
#include <string.h>
#include <utf8proc.h>

#include "base/clones.h"
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
    to = run_end(class, w->lower, INT64_MAX, lower, end);
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

/* ---- matches in a block of ASCII ---- */

/* Classes of the bytes of a block: bit i is that of byte i.  `blank` is ' ', also a space. */
struct block {
    uint64_t letter, upper, number, blank, space, line, quote, beyond;
};

static const uint64_t ones = UINT64_MAX / 255; /* 1 in each byte */

/* Sets the high bits of the bytes from `first` to `last`; all are below 0x80. */
static inline uint64_t bytes_between(uint64_t text, char first, char last)
{
    return (text + (uint64_t)(0x80 - first) * ones) & ~(text + (uint64_t)(0x7f - last) * ones);
}

/* Collects the high bits of all bytes. */
static inline uint64_t high_bits(const uint64_t text[TOKEN_BLOCK / 8])
{
    unsigned char byte[TOKEN_BLOCK / 8];
    uint64_t bits;

    for (int i = 0; i < TOKEN_BLOCK / 8; i++)
        byte[i] = (unsigned char)((text[i] >> 7 & ones) * 0x0102040810204080u >> 56);
    memcpy(&bits, byte, sizeof bits);
    return le64toh(bits);
}

KERN_CLONES
static void classify(const char *p, struct block *b)
{
    enum { N = TOKEN_BLOCK / 8 };
    uint64_t all[N], letter[N], upper[N], number[N], blank[N], space[N], line[N], quote[N];

    memcpy(all, p, sizeof all);
    for (int i = 0; i < N; i++) {
        all[i] = le64toh(all[i]);
        uint64_t text = all[i] & 0x7f * ones;
        letter[i] = bytes_between(text | 0x20 * ones, 'a', 'z');
        upper[i] = bytes_between(text, 'A', 'Z');
        number[i] = bytes_between(text, '0', '9');
        blank[i] = bytes_between(text, ' ', ' ');
        line[i] = bytes_between(text, '\n', '\n') | bytes_between(text, '\r', '\r');
        space[i] = (bytes_between(text, '\t', '\r') & ~line[i]) | blank[i];
        quote[i] = bytes_between(text, '\'', '\'');
    }
    *b =
        (struct block){high_bits(letter), high_bits(upper), high_bits(number), high_bits(blank),
                       high_bits(space),  high_bits(line),  high_bits(quote),  high_bits(all)};
}

static inline uint64_t bits_below(int n)
{
    return n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
}

/* Matches begin after contractions, and not inside them. */
static uint64_t cut_contractions(const struct token_pattern *w, const struct block *b,
                                 const char *p, const char *end, uint64_t starts)
{
    int suffix = w->contraction == SUFFIX, to = 0;

    for (uint64_t at = b->quote & starts & (suffix ? b->letter << 1 : UINT64_MAX); at;
         at &= at - 1) {
        int i = __builtin_ctzll(at), after = (int)(contraction_end(w, p + i, end) - p);
        if (after == i || (suffix && i == to)) /* one contraction a word */
            continue;
        to = after;
        starts &= bits_below(suffix ? i : i + 1) | ~bits_below(to);
        starts |= to < 64 ? UINT64_C(1) << to : 0;
    }
    return starts;
}

/* Numbers of at most w->digits digits, or of any number after ' '. */
static uint64_t number_starts(const struct token_pattern *w, const struct block *b)
{
    uint64_t starts = b->number & ~(b->number << 1), next = starts, same = b->number;

    if (!w->digits)
        return starts & ~(b->blank << 1);
    for (int k = 1; k <= w->digits; k++)
        same &= b->number << k;
    while ((next = next << w->digits & same))
        starts |= next;
    return starts;
}

/*
 * A bit for each byte that begins a match, if a match begins at p: shifts by one compare with
 * the byte before.  *known: the bits that are certain, whatever the text after the block; where
 * lines of white space end, or w->tail comes after lines, token_pattern_end goes on.
 */
static uint64_t match_starts(const struct token_pattern *w, const struct block *b,
                             uint64_t *known)
{
    uint64_t line = w->lines ? b->line : 0, white = b->space | b->line, space = white & ~line;
    uint64_t other = ~(b->letter | b->number | white), next;

    /* White space may continue after the block. */
    *known = b->beyond ? (b->beyond & -b->beyond) - 1 : UINT64_MAX;
    *known &= *known & ~white ? bits_below(65 - __builtin_clzll(*known & ~white)) : 0;
    /* A sum carries to the end of a run: lines after punctuation belong to it. */
    uint64_t tail = line & ~(line + (other << 1 & line)), gap = white & ~tail;
    uint64_t marks = other & ~(other << 1) & ~(b->blank << 1);
    uint64_t words = b->letter & ~(b->letter << 1);
    if (w->upper)
        words |= b->upper & (b->letter & ~b->upper) << 1;
    words &= ~((w->before ? space | marks : b->blank) << 1);
    /* Spaces after the last line are cut off, and the last one of several. */
    uint64_t indent = space & (line & ~tail) << 1;
    if ((space + indent) & line) /* not after the last line */
        *known &= (indent & -indent) - 1;
    if (w->tail && (next = tail << 1 & other))
        *known &= (next & -next) - 1;
    return words | number_starts(w, b) | marks | (gap & ~(gap << 1)) | indent |
           (space & ~(white >> 1));
}

int token_pattern_ends(const struct token_pattern *w, const char *p, const char *end,
                       const char *to[TOKEN_BLOCK])
{
    struct block b;
    uint64_t known;
    char last[TOKEN_BLOCK];
    int n = 0, whole = end - p >= TOKEN_BLOCK;

    if (!w->lower || !token_is_ascii(p, end))
        return 0;
    if (!whole) { /* as if text of other characters came after it */
        memset(last, 0x80, sizeof last);
        memcpy(last, p, (size_t)(end - p));
    }
    classify(whole ? p : last, &b);
    uint64_t starts = match_starts(w, &b, &known);
    starts = cut_contractions(w, &b, p, end, starts);
    for (starts &= known & ~UINT64_C(1); starts; starts &= starts - 1)
        to[n++] = p + __builtin_ctzll(starts);
    return n;
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
