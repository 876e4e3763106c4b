/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the patterns of the most used tokenizers without a regular expression. */
#include <string.h>

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
