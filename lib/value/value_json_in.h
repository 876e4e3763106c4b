/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_JSON_IN_H
#define VALUE_VALUE_JSON_IN_H

#include <stddef.h>
#include <stdint.h>

/* Lists and objects within each other, where the reader does not say less. */
enum { JIN_DEPTH_MAX = 2048 };

/*
 * Reads JSON token by token, without a tree: what is sized by the text is the longest string
 * alone. For texts of a known small grammar; value/value_tree.h makes trees of it.
 *
 *     struct jin j = {.text = text, .bytes = bytes};      {"a": [1, 2], "b": [3]}
 *     int n = 0, k, more;
 *     if (jin_take(&j, '{')) ...
 *     while ((more = jin_item(&j, '}', &n)) > 0) {
 *         if (jin_text(&j) || jin_take(&j, ':') || jin_take(&j, '[')) ...
 *         for (k = 0; jin_item(&j, ']', &k) > 0;) ... jin_whole(&j, &value) ...
 *     }
 *     ... more < 0 ... jin_end(&j) ...
 *     jin_release(&j);
 *
 * jin_take, jin_text, jin_whole, jin_skip and jin_end return 0, or -1: then `wrong` says what
 * was expected at byte `at`, which stays there.
 */
struct jin {
    const char *text; /* borrowed; may hold any bytes, and needs no 0 behind it */
    int64_t bytes, at;
    const char *wrong; /* "'{'", "a text", ...; NULL: all is well */
    char *word;        /* the last text, decoded, a 0 behind it; owned */
    int64_t word_bytes;
    size_t word_space;
};

char jin_next(struct jin *j); /* the byte with which the next token begins; 0 at the end */
int jin_take(struct jin *j, char c);
/* Before each item of a list or an object: 1: here it is; 0: `close` was taken instead; -1. */
int jin_item(struct jin *j, char close, int *count);
/* A string into j->word: UTF-8, zero bytes too. */
int jin_text(struct jin *j);
/* A whole number from 0 to 2^63 - 1: digits alone, no sign, fraction or exponent. */
int jin_whole(struct jin *j, int64_t *out);
/* Any value, bounded in depth; NaN, Infinity and -Infinity, too, as Python writes them. */
int jin_skip(struct jin *j);
int jin_end(struct jin *j); /* nothing but spaces follows */
void jin_release(struct jin *j);

#endif
