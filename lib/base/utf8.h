/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdint.h>

/*
 * Bytes of the UTF-8 sequence at p (0-terminated) and its code point; 0 when it is none
 * (RFC 3629: nothing overlong, no surrogate, nothing above U+10FFFF).  `code` may be NULL.
 */
int utf8_next(const char *p, uint32_t *code);

#endif
