/* SPDX-License-Identifier: BSD-3-Clause */
/* Identifies the patterns of common tokenizers, and classes of characters. */
#include <string.h>
#include <utf8proc.h>

#include "token/token_parts.h"

#define LLAMA3(digits)                                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits                 \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

enum tokenizer_words token_words_of(const char *regex)
{
    static const struct {
        const char *regex;
        enum tokenizer_words words;
    } known[] = {{LLAMA3("{1,3}"), TOKENIZER_LLAMA3},
                 {LLAMA3(""), TOKENIZER_QWEN2},
                 {"\\p{N}", TOKENIZER_SMOLLM}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(regex, known[i].regex) == 0)
            return known[i].words;
    return TOKENIZER_OTHER;
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
