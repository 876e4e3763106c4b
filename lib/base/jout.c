/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows JSON's grammar.  Does not know what is said in it. */
#include "base/jout.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static void string(FILE *f, const char *text, int64_t bytes)
{
    putc('"', f);
    for (const char *p = text, *end = text + bytes; p < end;) {
        uint32_t code = 0;
        int n = *p ? utf8_next(p, &code) : 1;
        if (n == 0) {
            fputs("\\ufffd", f);
            p++;
        } else if (*p == '"' || *p == '\\') {
            fprintf(f, "\\%c", *p++);
        } else if (utf8_steers(code)) { /* none is above U+FFFF */
            fprintf(f, "\\u%04x", (unsigned)code);
            p += n;
        } else {
            fwrite(p, 1, (size_t)n, f);
            p += n;
        }
    }
    putc('"', f);
}

static void indent(struct jout *j)
{
    if (!j->pretty)
        return;
    putc('\n', j->file);
    for (int i = 0; i < j->depth; i++)
        fputs("  ", j->file);
}

/* The comma, the line and the key before a value. */
static void before(struct jout *j, const char *key)
{
    uint64_t bit = (uint64_t)1 << j->depth;

    if (j->depth) {
        if (j->filled & bit)
            putc(',', j->file);
        indent(j);
    }
    j->filled |= bit;
    if (key) {
        string(j->file, key, (int64_t)strlen(key));
        fputs(j->pretty ? ": " : ":", j->file);
    }
}

void jout_open(struct jout *j, const char *key, char bracket)
{
    before(j, key);
    putc(bracket, j->file);
    j->depth++;
    assert(j->depth < 64);
    j->filled &= ~((uint64_t)1 << j->depth);
}

void jout_close(struct jout *j, char bracket)
{
    int filled = j->filled >> j->depth & 1;

    assert(j->depth > 0);
    j->depth--;
    if (filled)
        indent(j);
    putc(bracket, j->file);
    if (j->depth == 0) {
        putc('\n', j->file);
        j->filled = 0;
    }
}

void jout_text(struct jout *j, const char *key, const char *text)
{
    if (!text) {
        jout_null(j, key);
        return;
    }
    before(j, key);
    string(j->file, text, (int64_t)strlen(text));
}

void jout_bytes(struct jout *j, const char *key, const char *text, int64_t bytes)
{
    before(j, key);
    string(j->file, text, bytes);
}

void jout_int(struct jout *j, const char *key, int64_t value)
{
    before(j, key);
    fprintf(j->file, "%" PRId64, value);
}

void jout_num(struct jout *j, const char *key, double value)
{
    char text[32];

    if (!isfinite(value)) {
        jout_null(j, key);
        return;
    }
    before(j, key);
    /* Whole numbers look like integers to the readers that tell them apart. */
    int whole = fabs(value) <= 9007199254740992.0 && value == floor(value);
    for (int digits = whole ? 16 : 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    char *comma = strchr(text, ','); /* a locale's decimal comma */
    if (comma)
        *comma = '.';
    fputs(text, j->file);
}

void jout_bool(struct jout *j, const char *key, int value)
{
    before(j, key);
    fputs(value ? "true" : "false", j->file);
}

void jout_null(struct jout *j, const char *key)
{
    before(j, key);
    fputs("null", j->file);
}
