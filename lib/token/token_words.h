/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOKEN_WORDS_H
#define TOKEN_WORDS_H

#include <stdint.h>

#include "token/token.h"

/* Internal to token/: declares character classes, and the known patterns. */

/* GPT-2's pattern, which ByteLevel uses. */
#define TOKEN_GPT2_PATTERN                                                                     \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Identifies a regular expression as one of the known patterns. */
enum tokenizer_words token_words_of(const char *regex);

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

/* The beginning of the character that ends before p; the result is in [text, p). */
const char *token_code_before(const char *text, const char *p);
int token_is_space(uint32_t code); /* White_Space */
int token_is_word(uint32_t code);  /* \w in Rust's regex crate */

#endif
