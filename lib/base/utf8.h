/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdint.h>
#include <stdio.h>

/*
 * Bytes of the UTF-8 sequence at p (0-terminated) and its code point; 0 if it is invalid (RFC
 * 3629: overlong, a surrogate, or above U+10FFFF).  `code` may be NULL.
 */
int utf8_next(const char *p, uint32_t *code);
/*
 * Whether a text (UTF-8, ending with a 0) has a control character, including U+0080 to U+009F:
 * terminals interpret these.
 */
int utf8_controls(const char *text, int64_t bytes);
/*
 * Whether a character affects a terminal or the layout of a line: controls, line and paragraph
 * separators, and direction marks (UAX #9), which can make a name look like another one.
 */
int utf8_steers(uint32_t code);
/*
 * Makes a foreign text printable in place: '?' replaces characters for which utf8_steers is
 * true, and invalid bytes.
 */
void utf8_clean(char *text);
/* Prints a text likewise, with '?' also for each character of `never` (ASCII); returns the
   bytes printed. */
int utf8_put(const char *text, const char *never, FILE *out);

#endif
