/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdint.h>
#include <stdio.h>

/*
 * Bytes of the UTF-8 sequence at p (0-terminated) and its code point; 0 when it is none
 * (RFC 3629: nothing overlong, no surrogate, nothing above U+10FFFF).  `code` may be NULL.
 */
int utf8_next(const char *p, uint32_t *code);
/*
 * Whether a text (UTF-8, a 0 behind it) has a control character, of the second set (U+0080 to
 * U+009F) too: a terminal obeys those.
 */
int utf8_controls(const char *text, int64_t bytes);
/*
 * Whether a terminal obeys a character or lays a line out by it: a control, the separators of
 * lines and paragraphs, and the marks of direction (UAX #9), which show a name as another one.
 */
int utf8_steers(uint32_t code);
/*
 * Makes printable in place what others have written: '?' stands for a character that steers and
 * for a byte that is no UTF-8.
 */
void utf8_clean(char *text);
/* Prints a text likewise, '?' also for each character of `never` (ASCII): the bytes printed. */
int utf8_put(const char *text, const char *never, FILE *out);

#endif
