/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_JSON_IN_H
#define VALUE_VALUE_JSON_IN_H

#include <stddef.h>
#include <stdint.h>

/* Limit on nested lists and objects, where the reader does not set a lower one. */
enum { JIN_DEPTH_MAX = 2048 };

/*
 * Reads JSON token by token, without a tree; memory is that of the longest string.  For texts
 * of a small known grammar; value/value_tree.h builds trees.
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
 * jin_take, jin_text, jin_whole, jin_skip and jin_end return 0, or -1: then `wrong` names the
 * token that was expected at byte `at`, and `at` no longer advances.
 */
struct jin {
    const char *text; /* borrowed; any bytes, no final 0 needed */
    int64_t bytes, at;
    const char *wrong; /* "'{'", "a text", ...; NULL: no error */
    char *word;        /* the last text, decoded, ending with a 0; owned */
    int64_t word_bytes;
    size_t word_space;
};

char jin_next(struct jin *j); /* first byte of the next token; 0 at the end */
int jin_take(struct jin *j, char c);
/* Call before each item of a list or an object.  1: there is an item; 0: read `close` instead;
   -1: error. */
int jin_item(struct jin *j, char close, int *count);
/* Reads a string into j->word: UTF-8, zero bytes allowed. */
int jin_text(struct jin *j);
/* Reads a whole number from 0 to 2^63 - 1: digits only, no sign, fraction or exponent. */
int jin_whole(struct jin *j, int64_t *out);
/* Skips any value of bounded depth, also NaN, Infinity and -Infinity, which Python writes. */
int jin_skip(struct jin *j);
int jin_end(struct jin *j); /* only spaces may follow */
void jin_release(struct jin *j);

#endif
