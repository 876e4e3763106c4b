/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_WORDS_FIXTURE_H
#define TESTS_UNIT_WORDS_FIXTURE_H

#include <string.h>

/* `text` is one line and has each of the blank-separated words, in this order. */
static inline void assert_words(const char *text, const char *words)
{
    const char *rest = text;

    if (strchr(text, '\n'))
        fail_msg("more than one line: '%s'", text);
    while (*words) {
        int n = (int)strcspn(words, " ");
        const char *at = n ? memmem(rest, strlen(rest), words, (size_t)n) : rest;
        if (!at)
            fail_msg("'%s', expected '%.*s'", text, n, words);
        rest = at + n;
        words += n + (words[n] == ' ');
    }
}

#endif
