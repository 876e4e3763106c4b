/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_WORDS_FIXTURE_H
#define TESTS_UNIT_WORDS_FIXTURE_H

/* `text` is one line and has each of the blank-separated words, in this order. */
static inline int has_words(const char *text, const char *words)
{
    int lines = strchr(text, '\n') != NULL;

    while (text && *words) {
        size_t n = strcspn(words, " ");
        const char *at = n ? memmem(text, strlen(text), words, n) : text;
        text = at ? at + n : NULL;
        words += n + (words[n] == ' ');
    }
    return text && !lines;
}

static inline void assert_words(const char *text, const char *words)
{
    if (!has_words(text, words))
        fail_msg("'%s', expected one line with '%s'", text, words);
}

/* A call that sets err: it fails, and the text has the words. */
#define assert_refused(call, words)                                                            \
    do {                                                                                       \
        err = (struct err){0};                                                                 \
        assert_int_equal(call, -1);                                                            \
        assert_words(err.text, words);                                                         \
    } while (0)

#endif
