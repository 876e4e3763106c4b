/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOKEN_WORDS_H
#define TOKEN_WORDS_H

#include <stdint.h>
#include <string.h>

#include "token/token.h"

/* Internal to token/: declares character classes, and the known patterns. */

/* GPT-2's pattern, which ByteLevel uses. */
#define TOKEN_GPT2_PATTERN                                                                     \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* A known pattern by its regular expression; NULL: unknown. */
struct token_pattern;
const struct token_pattern *token_pattern_of(const char *regex);
enum tokenizer_words token_pattern_words(const struct token_pattern *w); /* NULL is allowed */
/* Sets the classes of the first characters. */
enum { TOKEN_CLASSES = 1 << 16 };
void token_classes(unsigned char class[TOKEN_CLASSES]);
/*
 * The end of the match that begins at p, in valid UTF-8 that ends at `end` > p.  Matches cover
 * the text, but for the pattern of digits: the text between its matches is returned, too.
 */
const char *token_pattern_end(const struct token_pattern *w, const unsigned char *class,
                              const char *p, const char *end);
/* Sets the ends of the first matches from p on.  Returns their number; 0: use
   token_pattern_end. */
enum { TOKEN_BLOCK = 64 };
int token_pattern_ends(const struct token_pattern *w, const char *p, const char *end,
                       const char *to[TOKEN_BLOCK]);

/* The code point at p, in valid UTF-8; sets its length in bytes. */
static inline uint32_t token_code_at(const char *p, int *bytes)
{
    const unsigned char *u = (const unsigned char *)p;

    if (u[0] < 0x80) {
        *bytes = 1;
        return u[0];
    }
    if (u[0] < 0xe0) {
        *bytes = 2;
        return (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu);
    }
    if (u[0] < 0xf0) {
        *bytes = 3;
        return (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
    }
    *bytes = 4;
    return (u[0] & 7u) << 18 | (u[1] & 0x3fu) << 12 | (u[2] & 0x3fu) << 6 | (u[3] & 0x3fu);
}

/* Whether there are eight bytes at p, of ASCII. */
static inline int token_is_ascii(const char *p, const char *end)
{
    uint64_t eight;

    return end - p >= 8 && (memcpy(&eight, p, sizeof eight), !(eight & 0x8080808080808080u));
}

/* The beginning of the character that ends before p; the result is in [text, p). */
const char *token_code_before(const char *text, const char *p);
int token_is_space(uint32_t code); /* White_Space */
int token_is_word(uint32_t code);  /* \w in Rust's regex crate */

#endif
