/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdint.h>

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

#endif
