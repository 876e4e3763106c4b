/* SPDX-License-Identifier: BSD-3-Clause */
/* Which characters of a name stay as they are. */
#include "health/health_data.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "base/utf8.h"

/* Bytes of the character that stays; 0: it does not. */
static int plain(const char *at)
{
    uint32_t code = 0;
    int n = utf8_next(at, &code);

    /* What a terminal obeys would be '?' in some outputs, and YAML escapes the last three. */
    if (n == 0 || code <= ' ' || code == 0xa0 || utf8_steers(code) || code == 0xfeff ||
        code == 0xfffe || code == 0xffff)
        return 0;
    /* Nagios takes `~$&|'"<> out of what it passes on. */
    return n > 1 || !strchr("|'\"\\=`~$&<>;", *at) ? n : 0;
}

static int is_inside(const char *at)
{
    return (*at & 0xc0) == 0x80;
}

/* Its beginning and its end, whole characters, and a hash. */
static void shorten(const char *all, size_t bytes, char *to, size_t room)
{
    const size_t kept = room - sizeof "..#01234567";
    size_t head = kept / 2, tail = bytes - (kept - head);

    while (head > 0 && is_inside(all + head))
        head--;
    while (tail < bytes && is_inside(all + tail))
        tail++;
    snprintf(to, room, "%.*s..%s#%08" PRIx32, (int)head, all, all + tail,
             (uint32_t)XXH32(all, bytes, 0));
}

/* What would be taken for the work of this file. */
static int is_escape(const char *at)
{
    static const char digits[] = "0123456789ABCDEF";

    return at[0] == '%' && at[1] && strchr(digits, at[1]) && at[2] && strchr(digits, at[2]);
}

static void make(const char *raw, int made, char *to, size_t room)
{
    char *all = mem_new(3 * strlen(raw) + 1, 1);
    size_t n = 0;

    for (const char *at = raw; *at;) {
        int stays = plain(at);
        /* "-" alone is no name */
        if (strcmp(raw, "-") == 0 || (!made && is_escape(at)))
            stays = 0;
        if (stays)
            memcpy(all + n, at, (size_t)stays);
        else
            snprintf(all + n, 4, "%%%02X", (unsigned char)*at);
        n += stays ? (size_t)stays : 3;
        at += stays ? stays : 1;
    }
    if (n == 0)
        snprintf(to, room, "(none)"); /* as Linux calls a host without a name */
    else if (n < room)
        memcpy(to, all, n + 1);
    else
        shorten(all, n, to, room);
    mem_free(all);
}

void health_name_make(const char *raw, char *to, size_t room)
{
    make(raw, 0, to, room);
}

void health_name_clean(const char *raw, char *to, size_t room)
{
    make(raw, 1, to, room);
}
