/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a tree of JSON comes to be whole or not at all. */
#include "base/jtree.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void *malloc_or_abort(size_t bytes)
{
    return mem_have(malloc(bytes), "a tree of JSON");
}

json_t *jtree_load(const char *text, int64_t bytes, json_error_t *why)
{
    json_set_alloc_funcs(malloc_or_abort, free);
    /* jansson passes over a byte 0 behind a number; who reads the text again ends there. */
    const char *zero = memchr(text, 0, (size_t)bytes);
    if (zero) {
        *why = (json_error_t){.line = 1, .position = (int)(zero - text), .text = "a byte 0"};
        for (const char *p = text; p < zero; p++)
            why->line += *p == '\n';
        return NULL;
    }
    return json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, why);
}

int jtree_read(const char *name, const char *text, int64_t bytes, json_t **root,
               struct err *err)
{
    json_error_t why;

    *root = jtree_load(text, bytes, &why);
    return *root ? 0 : err_at(err, name, why.line, NULL, "no valid JSON: %.200s", why.text);
}
