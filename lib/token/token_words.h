/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOKEN_WORDS_H
#define TOKEN_WORDS_H

#include <stdint.h>

#include "token/tokenizer.h"

/* Inside token: classes of characters, and the patterns that are functions. */

/* Which of the patterns a regular expression is that token_words.c knows. */
enum tokenizer_words token_words_of(const char *regex);

enum token_class { TOKEN_OTHER, TOKEN_LETTER, TOKEN_NUMBER, TOKEN_SPACE, TOKEN_NEWLINE };

enum { TOKEN_CLASSES = 1 << 16 };

/* The code point at p, of a text that is UTF-8, and its bytes. */
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

/* The beginning of the character that ends before p; text <= it < p. */
const char *token_code_before(const char *text, const char *p);
enum token_class token_class_of(uint32_t code);
int token_is_space(uint32_t code); /* White_Space */
int token_is_word(uint32_t code);  /* \w of the regex crate */
/* The class of each code point below TOKEN_CLASSES. */
unsigned char *token_classes_new(void);
/*
 * The match of a known pattern at or after p, before end: 1, or 0: there is none.  All but
 * TOKENIZER_SMOLLM match at p.
 */
int token_words_next(const unsigned char *classes, enum tokenizer_words words, const char *p,
                     const char *end, const char **from, const char **to);

#endif
