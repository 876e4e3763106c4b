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
 * Prints what others have written as one line of a terminal shows it: '?' stands for a control
 * character, for a byte that is no UTF-8 and for each character of `never` (ASCII).  The bytes
 * that were printed.
 */
int utf8_put(const char *text, const char *never, FILE *out);

#endif
