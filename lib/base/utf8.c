/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes UTF-8 (RFC 3629), and finds the characters that affect a terminal. */
#include "base/utf8.h"

#include <stddef.h>
#include <string.h>

int utf8_next(const char *p, uint32_t *code)
{
    /* Smaller code points are overlong */
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *b = (const unsigned char *)p;
    int n = b[0] < 0x80 ? 1 : b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    uint32_t v = n == 1 ? b[0] : b[0] & (0x7fu >> n);

    if (b[0] >= 0xf8 || (b[0] >= 0x80 && b[0] < 0xc0))
        return 0;
    for (int i = 1; i < n; i++) {
        if ((b[i] & 0xc0) != 0x80)
            return 0;
        v = v << 6 | (b[i] & 0x3f);
    }
    if (v < least[n] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
        return 0;
    if (code)
        *code = v;
    return n;
}

static int is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

int utf8_controls(const char *text, int64_t bytes)
{
    uint32_t code = 0;

    for (int64_t at = 0, n; at < bytes; at += n) {
        n = utf8_next(text + at, &code);
        if (n == 0 || is_control(code))
            return 1;
    }
    return 0;
}

int utf8_steers(uint32_t code)
{
    return is_control(code) || code == 0x061c || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

/* The printable form of the character at *at, `bytes` long; advances *at past the character. */
static const char *printable_form(const char **at, const char *never, int *bytes)
{
    const char *c = *at;
    uint32_t code = 0;
    int n = utf8_next(c, &code), seen = n && !utf8_steers(code) && !strchr(never, *c);

    *at += n ? n : 1;
    *bytes = seen ? n : 1;
    return seen ? c : "?";
}

void utf8_clean(char *text)
{
    const char *at = text;
    int n = 0;

    while (*at) { /* the result is never longer than the text */
        const char *c = printable_form(&at, "", &n);
        memmove(text, c, (size_t)n);
        text += n;
    }
    *text = 0;
}

int utf8_put(const char *text, const char *never, FILE *out)
{
    int bytes = 0, n = 0;

    while (*text) {
        const char *c = printable_form(&text, never, &n);
        bytes += fprintf(out, "%.*s", n, c);
    }
    return bytes;
}
